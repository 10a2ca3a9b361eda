//! The extensions of the language: what is an error in libpcap.
//!
//! Sets become a test for each of their ranges (`set`). A condition in `TUNNEL inner ( … )` is
//! lowered at the place of the packet inside, and what comes after it at the old place again
//! (`tunnel`). In `deep ( … )` the transport header is found once, behind the extension headers of
//! IPv6 too, and all transport primitives look there (`deep`).

mod deep;
mod set;
mod tunnel;

pub(super) use deep::Transport;
pub(super) use set::member;

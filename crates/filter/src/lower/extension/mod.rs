//! The extensions of the language: expressions that are errors in libpcap.
//!
//! Sets become a test for each of their ranges (`set`). A condition in `TUNNEL inner ( … )` is lowered for
//! the inner packet, and later conditions for the outer one again (`tunnel`). In `deep ( … )` the transport
//! header is found once, also after the extension headers of IPv6, and all transport primitives use it
//! (`deep`). The packet's process is not in the packet, so its tests load what is known beside it (`process`).

mod deep;
mod process;
mod set;
mod tunnel;

pub(super) use deep::Transport;
pub(super) use set::member;

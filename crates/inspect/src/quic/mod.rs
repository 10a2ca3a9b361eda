//! QUIC: headers of long packets (`header`), keys of Initial packets (`keys`), frames (`frames`).
//!
//! Initial packets are encrypted with keys that follow from the connection identifier in them, so that
//! everybody on the way can read them (RFC 9001, section 5.2).

pub(crate) mod frames;
pub(crate) mod google;
pub(crate) mod header;
pub(crate) mod keys;

//! EAP over LAN (IEEE 802.1X).

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::end;

/// Prints a frame.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.enter("eap");
    let (version, kind, length) = (data.u8_at(0)?, data.u8_at(1)?, data.u16_at(2)?);
    cx.line.str(match kind {
        0 => "EAP packet",
        1 => "EAPOL start",
        2 => "EAPOL logoff",
        3 => "EAPOL key",
        4 => "Encap ASF alert",
        _ => "unknown",
    });
    end!(cx.line, " ({kind}) v{version}, len {length}")
}

//! NTP (RFC 5905): version and mode.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::end;

const MODES: [&str; 8] = [
    "unspecified",
    "symmetric active",
    "symmetric passive",
    "Client",
    "Server",
    "Broadcast",
    "Control Message",
    "Reserved",
];

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ntp");
    let first = data.u8_at(0)?;
    let (version, mode) = (first >> 3 & 7, MODES[usize::from(first & 7)]);
    end!(cx.line, "NTPv{version}, {mode}, length {length}")
}

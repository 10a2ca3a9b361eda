//! Cisco's protocols between switches: link detection (RFC 5171), distribution of VLANs, trunks.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, end, put};

const DETECTION_FLAGS: [(u32, &str); 8] = [
    (0x01, "RT"),
    (0x02, "RSY"),
    (0x04, "MBZ-2"),
    (0x08, "MBZ-3"),
    (0x10, "MBZ-4"),
    (0x20, "MBZ-5"),
    (0x40, "MBZ-6"),
    (0x80, "MBZ-7"),
];

/// Prints a message of unidirectional link detection (RFC 5171 section 5.1) of `length` bytes.
pub(crate) fn udld(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("udld");
    if length < 4 {
        return end!(cx.line, " (invalid)");
    }
    let (first, flags) = (data.u8_at(0)?, data.u8_at(1)?);
    let operation = match first & 0x1f {
        1 => "Probe message",
        2 => "Echo message",
        3 => "Flush message",
        _ => "Reserved",
    };
    put!(
        cx.line,
        "UDLDv{}, Code {operation} ({}), Flags [{}] (0x{flags:02x}), length {length}",
        first >> 5,
        first & 0x1f,
        Flags(u32::from(flags), &DETECTION_FLAGS)
    );
    data.part(0, length).map(|_| ())
}

/// Prints a message of the VLAN trunking protocol of `length` bytes.
pub(crate) fn vtp(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    /// The size of version, code, two more fields, and the domain's name.
    const HEADER: usize = 36;
    cx.enter("vtp");
    if length < HEADER {
        return end!(cx.line, " (invalid)");
    }
    data.part(0, HEADER)?;
    let (version, code) = (data.u8_at(0)?, data.u8_at(1)?);
    let name = match code {
        1 => "Summary advertisement",
        2 => "Subset advertisement",
        3 => "Advertisement request",
        4 => "Join message",
        _ => "Unknown message type",
    };
    put!(cx.line, "VTPv{version}, Message {name} (0x{code:02x})");
    put!(cx.line, ", length {length}");
    data.part(0, length).map(|_| ())
}

/// Prints a message of the dynamic trunking protocol of `length` bytes.
pub(crate) fn dtp(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("dtp");
    if length == 0 {
        return end!(cx.line, "[zero packet length] (invalid)");
    }
    end!(cx.line, "DTPv{}, length {length}", data.u8_at(0)?)
}

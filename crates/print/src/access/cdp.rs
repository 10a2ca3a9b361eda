//! The Cisco Discovery Protocol: version, time to live, name of the device.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 4;
const DEVICE: u16 = 1;

/// Returns whether a value of this type may have this length.
fn valid(kind: u16, length: usize) -> bool {
    match kind {
        0x04 | 0x11 => length == 4,
        0x0a => length == 2,
        0x0b | 0x12 | 0x13 => length == 1,
        0x0e => length == 3,
        0x0f => (2..=3).contains(&length),
        0x10 => (1..=3).contains(&length),
        0x16 => length >= 4,
        0x17 => length >= 1,
        _ => true,
    }
}

/// Prints a frame of `length` bytes.
///
/// The line ends at the first value that is not printed, or with the frame's length if all are.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("cdp");
    if length < HEADER {
        return end!(cx.line, " (packet length {length} < {HEADER}) (invalid)");
    }
    put!(cx.line, "CDPv{}", data.u8_at(0)?);
    put!(cx.line, ", ttl: {}s", data.u8_at(1)?);
    data.u16_at(2)?;
    let mut at = HEADER;
    while at < length {
        let left = length - at;
        if left < HEADER {
            return end!(
                cx.line,
                " (remaining packet length {left} < {HEADER}) (invalid)"
            );
        }
        let (kind, stated) = (data.u16_at(at)?, usize::from(data.u16_at(at + 2)?));
        if stated < HEADER {
            let name = name(kind).unwrap_or("unknown field type");
            return end!(cx.line, ", {name} TLV length {stated} too short (invalid)");
        }
        if stated > left {
            return end!(cx.line, " (TLV length {stated} > {left}) (invalid)");
        }
        let (first, size) = (at + HEADER, stated - HEADER);
        if kind == DEVICE {
            cx.line.str(", Device-ID '");
            cx.line.escaped(data.rest(first).up_to(size));
            data.part(first, size)?;
            cx.line.str("'");
        } else {
            data.part(first, size)?;
            if !valid(kind, size) {
                cx.line.str(" (malformed TLV)");
            }
            if size > 0 {
                return Ok(());
            }
        }
        at += stated;
    }
    end!(cx.line, ", length {length}")
}

fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        DEVICE => "Device-ID",
        0x02 => "Address",
        0x03 => "Port-ID",
        0x04 => "Capability",
        0x05 => "Version String",
        0x06 => "Platform",
        0x07 => "Prefixes",
        0x08 => "Protocol-Hello option",
        0x09 => "VTP Management Domain",
        0x0a => "Native VLAN ID",
        0x0b => "Duplex",
        0x0e => "ATA-186 VoIP VLAN assignment",
        0x0f => "ATA-186 VoIP VLAN request",
        0x10 => "power consumption",
        0x11 => "MTU",
        0x12 => "AVVID trust bitmap",
        0x13 => "AVVID untrusted ports CoS",
        0x14 => "System Name",
        0x15 => "System Object ID (not decoded)",
        0x16 => "Management Addresses",
        0x17 => "Physical Location",
        _ => return None,
    })
}

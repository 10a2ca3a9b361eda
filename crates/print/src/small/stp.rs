//! Spanning tree (IEEE 802.1D, 802.1w, 802.1s/aq): the bridge.

use crate::bytes::{Bytes, Truncated};
use crate::context::Context;
use crate::line::put;

const CONFIGURATION: u8 = 0x00;
const RAPID: u8 = 0x02;
const TOPOLOGY_CHANGE: u8 = 0x80;

const FLAGS: [(u32, &str); 6] = [
    (0x01, "Topology change"),
    (0x02, "Proposal"),
    (0x10, "Learn"),
    (0x20, "Forward"),
    (0x40, "Agreement"),
    (0x80, "Topology change ACK"),
];
const CONFIGURATION_LENGTH: usize = 35;
const RAPID_LENGTH: usize = 36;

/// Prints a BPDU of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
    cx.enter("stp");
    if length < 4 {
        return Err(Truncated);
    }
    if data.u16_at(0)? != 0 {
        put!(cx.line, "unknown STP version, length {length}");
        return Ok(());
    }
    let version = data.u8_at(2)?;
    cx.line.str("STP ");
    match version {
        0 => cx.line.str("802.1d"),
        2 => cx.line.str("802.1w"),
        3 => cx.line.str("802.1s"),
        4 => cx.line.str("802.1aq"),
        _ => {
            put!(
                cx.line,
                "Unknown STP protocol (0x{version:02x}), length {length}"
            );
            return Ok(());
        }
    }
    let kind = data.u8_at(3)?;
    cx.line.str(", ");
    match kind {
        CONFIGURATION if length >= CONFIGURATION_LENGTH => cx.line.str("Config"),
        RAPID if length >= RAPID_LENGTH => cx.line.str("Rapid STP"),
        TOPOLOGY_CHANGE => {
            cx.line.str("Topology Change");
            return Ok(());
        }
        CONFIGURATION => {
            put!(cx.line, "Config (invalid)");
            return Ok(());
        }
        RAPID => {
            put!(cx.line, "Rapid STP (invalid)");
            return Ok(());
        }
        _ => {
            put!(cx.line, "Unknown BPDU Type (0x{kind:02x}), length {length}");
            return Ok(());
        }
    }
    if version >= 3 {
        cx.line.str(", CIST Flags [");
        cx.line.flags(u32::from(data.u8_at(4)?), &FLAGS);
        put!(cx.line, "], length {length}");
        return Ok(());
    }
    cx.line.str(", Flags [");
    cx.line.flags(u32::from(data.u8_at(4)?), &FLAGS);
    put!(cx.line, "], bridge-id {:04x}.", data.u16_at(17)?);
    cx.line.link_address(data.part(19, 6)?);
    put!(cx.line, ".{:04x}, length {length}", data.u16_at(25)?);
    Ok(())
}

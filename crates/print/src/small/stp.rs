//! Spanning trees: IEEE 802.1D, rapid (802.1w), multiple (802.1s), shortest path (802.1aq); and the
//! sending bridge.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, Mac, end, put};

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
/// The offset of the length after the fields of the rapid protocol, and that of the data.
const LENGTH_3: usize = 36;
const MULTIPLE: usize = 38;
/// The length of a message of multiple trees that has only the common one.
const MULTIPLE_LENGTH: usize = 102;
/// The least length of the part for shortest paths.
const SHORTEST_LENGTH: usize = 85;

/// Prints a BPDU of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("stp");
    if length < 4 {
        return end!(cx.line, " (invalid)");
    }
    data.part(0, 3)?;
    if data.u16_at(0)? != 0 {
        return end!(cx.line, "unknown STP version, length {length}");
    }
    let version = data.u8_at(2)?;
    cx.line.str("STP ");
    match version {
        0 => cx.line.str("802.1d"),
        2 => cx.line.str("802.1w"),
        3 => cx.line.str("802.1s"),
        4 => cx.line.str("802.1aq"),
        _ => {
            return end!(cx.line, "Unknown STP protocol (0x{version:02x})");
        }
    }
    let kind = data.u8_at(3)?;
    match kind {
        CONFIGURATION => {
            cx.line.str(", Config");
            if length < CONFIGURATION_LENGTH {
                return end!(cx.line, " (invalid)");
            }
            bridge(cx, data, length)
        }
        RAPID => {
            cx.line.str(", Rapid STP");
            match version {
                0 => Ok(()),
                2 if length < RAPID_LENGTH => end!(cx.line, " (invalid)"),
                2 => bridge(cx, data, length),
                _ => multiple(cx, version, data, length),
            }
        }
        TOPOLOGY_CHANGE => end!(cx.line, ", Topology Change"),
        _ => end!(cx.line, ", Unknown BPDU Type (0x{kind:02x})"),
    }
}

fn bridge(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let flags = data.u8_at(4)?;
    put!(cx.line, ", Flags [{}]", Flags(u32::from(flags), &FLAGS));
    end!(
        cx.line,
        ", bridge-id {:04x}.{}.{:04x}, length {length}",
        data.u16_at(17)?,
        Mac(data.part(19, 6)?),
        data.u16_at(25)?
    )
}

/// Prints IEEE 802.1Q section 14: the common tree, then the others, then the shortest paths.
fn multiple(cx: &mut Context<'_>, version: u8, data: &[u8], length: usize) -> Result {
    if length < MULTIPLE_LENGTH {
        return end!(cx.line, " (invalid)");
    }
    let trees = usize::from(data.u16_at(LENGTH_3)?);
    // Nothing follows the fields of version 1.
    if data.u8_at(35)? != 0 || MULTIPLE + trees > length {
        return end!(cx.line, " (invalid)");
    }
    let flags = Flags(data.u8_at(4)?.into(), &FLAGS);
    put!(cx.line, ", CIST Flags [{flags}], length {length}");
    if version == 4 {
        let at = MULTIPLE + trees;
        let paths = usize::from(data.up_to(length).u16_at(at)?);
        if paths < SHORTEST_LENGTH || at + 2 + paths > length {
            cx.line.str(" (invalid)");
        }
    }
    Ok(())
}

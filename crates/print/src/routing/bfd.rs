//! BFD (RFC 5880 section 4.1; ports: RFC 5881, RFC 5883, RFC 7130).

use crate::bytes::{Bytes, Truncated};
use crate::context::Context;
use crate::line::put;

const CONTROL_PORT: u16 = 3784;
const ECHO_PORT: u16 = 3785;
const MULTIHOP_PORT: u16 = 4784;
const LAG_PORT: u16 = 6784;

const CONTROL: usize = 24;

const STATES: [&str; 4] = ["AdminDown", "Down", "Init", "Up"];

const FLAGS: [(u32, &str); 6] = [
    (0x20, "Poll"),
    (0x10, "Final"),
    (0x08, "Control Plane Independent"),
    (0x04, "Authentication Present"),
    (0x02, "Demand"),
    (0x01, "Multipoint"),
];

/// The flags of version 0 (draft-katz-ward-bfd).
const FLAGS_V0: [(u32, &str); 8] = [
    (0x80, "I Hear You"),
    (0x40, "Demand"),
    (0x20, "Poll"),
    (0x10, "Final"),
    (0x08, "Control Plane Independent"),
    (0x04, "Authentication Present"),
    (0x02, "Reserved"),
    (0x01, "Reserved"),
];

/// Prints a message of `length` bytes to a port of BFD; false where the port is none.
pub(super) fn print(
    cx: &mut Context<'_>,
    port: u16,
    data: &[u8],
    length: usize,
) -> Result<bool, Truncated> {
    let name = match port {
        CONTROL_PORT => "Control",
        MULTIHOP_PORT => "Multihop",
        LAG_PORT => "Lag",
        // What an echo carries is its sender's affair.
        ECHO_PORT => {
            put!(cx.line, "BFD, Echo, length: {length}");
            return Ok(true);
        }
        _ => return Ok(false),
    };
    cx.enter("bfd");
    data.part(0, CONTROL)?;
    let (version, second) = (data.u8_at(0)? >> 5, data.u8_at(1)?);
    // The other ports are younger than version 0.
    let name = if version == 1 { name } else { "Control" };
    put!(cx.line, "BFDv{version}, {name}");
    match version {
        0 => {
            cx.line.str(", Flags: [");
            cx.line.flags(u32::from(second), &FLAGS_V0);
            cx.line.str("]");
        }
        1 => {
            let state = STATES[usize::from(second >> 6)];
            put!(cx.line, ", State {state}, Flags: [");
            cx.line.flags(u32::from(second & 0x3f), &FLAGS);
            cx.line.str("]");
        }
        _ => {}
    }
    put!(cx.line, ", length: {length}");
    Ok(true)
}

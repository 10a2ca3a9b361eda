//! BFD (RFC 5880 section 4.1; ports: RFC 5881, RFC 5883, RFC 7130).

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, put};

const CONTROL_PORT: u16 = 3784;
const ECHO_PORT: u16 = 3785;
const MULTIHOP_PORT: u16 = 4784;
const LAG_PORT: u16 = 6784;

const CONTROL: usize = 24;

const STATES: [&str; 4] = ["AdminDown", "Down", "Init", "Up"];

const DIAGNOSTICS: [&str; 9] = [
    "No Diagnostic",
    "Control Detection Time Expired",
    "Echo Function Failed",
    "Neighbor Signaled Session Down",
    "Forwarding Plane Reset",
    "Path Down",
    "Concatenated Path Down",
    "Administratively Down",
    "Reverse Concatenated Path Down",
];

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

/// Prints a message of `length` bytes to a port of BFD; returns false for another port.
pub(super) fn print(cx: &mut Context<'_>, port: u16, data: &[u8], length: usize) -> Result<bool> {
    let name = match port {
        CONTROL_PORT => "Control",
        MULTIHOP_PORT => "Multihop",
        LAG_PORT => "Lag",
        // The sender defines the content of an echo.
        ECHO_PORT => {
            put!(cx.line, "BFD, Echo, length: {length}");
            return Ok(true);
        }
        _ => return Ok(false),
    };
    cx.enter("bfd");
    data.part(0, CONTROL)?;
    let (version, second) = (data.u8_at(0)? >> 5, data.u8_at(1)?);
    // The other ports were assigned after version 0.
    let name = if version == 1 { name } else { "Control" };
    let details = cx.verbose() && version <= 1;
    put!(cx.line, "BFDv{version}, ");
    if details {
        put!(cx.line, "length: {length}\n\t");
    }
    cx.line.str(name);
    match version {
        0 => put!(cx.line, ", Flags: [{}]", Flags(second.into(), &FLAGS_V0)),
        1 => {
            let state = STATES[usize::from(second >> 6)];
            let flags = Flags(u32::from(second & 0x3f), &FLAGS);
            put!(cx.line, ", State {state}, Flags: [{flags}]");
        }
        _ => {}
    }
    if details {
        session(cx, data)?;
    } else {
        put!(cx.line, ", length: {length}");
    }
    Ok(true)
}

/// Prints why the session changed last, and its fields. Times are in microseconds.
fn session(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let diagnostic = data.u8_at(0)? & 0x1f;
    let name = DIAGNOSTICS
        .get(usize::from(diagnostic))
        .unwrap_or(&"unknown");
    put!(cx.line, ", Diagnostic: {name} (0x{diagnostic:02x})");
    let (multiplier, stated) = (data.u8_at(2)?, data.u8_at(3)?);
    let detection = u64::from(multiplier) * u64::from(data.u32_at(12)?) / 1000;
    put!(
        cx.line,
        "\n\tDetection Timer Multiplier: {multiplier} ({detection} ms Detection time), BFD Length: {stated}"
    );
    put!(
        cx.line,
        "\n\tMy Discriminator: 0x{:08x}, Your Discriminator: 0x{:08x}",
        data.u32_at(4)?,
        data.u32_at(8)?
    );
    for (name, at) in [
        ("Desired min Tx Interval:   ", 12),
        ("Required min Rx Interval:  ", 16),
        ("Required min Echo Interval:", 20),
    ] {
        put!(cx.line, "\n\t  {name} {:4} ms", data.u32_at(at)? / 1000);
    }
    Ok(())
}

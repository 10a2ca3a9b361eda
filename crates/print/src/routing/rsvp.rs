//! RSVP (RFC 2205 section 3.1.1; types of RFC 2961 and RFC 3209): the type of a message.

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 8;
const VERSION: u8 = 1;

const TYPES: [(u8, &str); 12] = [
    (1, "Path"),
    (2, "Resv"),
    (3, "PathErr"),
    (4, "ResvErr"),
    (5, "PathTear"),
    (6, "ResvTear"),
    (7, "ResvConf"),
    (12, "Bundle"),
    (13, "Acknowledgement"),
    (14, "Hello (Old)"),
    (15, "Refresh"),
    (20, "Hello"),
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("rsvp");
    data.part(0, HEADER)?;
    let (version, kind) = (data.u8_at(0)? >> 4, data.u8_at(1)?);
    if version != VERSION {
        return end!(
            cx.line,
            "ERROR: RSVP version {version} packet not supported"
        );
    }
    put!(cx.line, "RSVPv{version} ");
    named(cx, &TYPES, kind, format_args!("unknown ({kind})"));
    end!(cx.line, " Message, length: {length}")
}

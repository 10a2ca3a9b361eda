//! The status of a link's circuits: messages of ITU-T Q.933 annex A, and of ANSI T1.617 annex D.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{name_in, put};

/// The bit of elements of one byte.
const SINGLE: u8 = 0x80;
/// Elements of one byte that switch to another set of elements; the bits of the set, and the bit
/// that limits this to the next element.
const SHIFT: u8 = 0x90;
const SHIFT_BITS: u8 = SET | FOR_THE_NEXT;
const SET: u8 = 0x07;
const FOR_THE_NEXT: u8 = 0x08;
/// The set of ITU-T, and that of ANSI.
const CCITT: u8 = 0;
const ANSI: u8 = 5;
/// The bit in a byte of a circuit's status that ends the number, or the status.
const LAST: u8 = 0x80;
/// Bits of the call reference's length.
const REFERENCE_LENGTH: u8 = 0x0f;

const LINK_VERIFICATION: [u8; 2] = [0x03, 0x53];
const STATUS_OF_CIRCUIT: [u8; 2] = [0x07, 0x57];

const MESSAGES: [(u8, &str); 14] = [
    (0x00, "ESC to National"),
    (0x01, "Alert"),
    (0x02, "Call proceeding"),
    (0x03, "Progress"),
    (0x05, "Setup"),
    (0x07, "Connect"),
    (0x0f, "Connect ACK"),
    (0x45, "Disconnect"),
    (0x46, "Restart"),
    (0x4d, "Release"),
    (0x4e, "Restart ACK"),
    (0x5a, "Release Complete"),
    (0x75, "Status Enquiry"),
    (0x7d, "Status Reply"),
];

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("q.933");
    if !cx.options.link_header {
        cx.line.str("Q.933, ");
    }
    let Some((reference, kind, mut at)) = header(data, length) else {
        put!(cx.line, "length {length}");
        return Err(Truncated);
    };
    let first = data.u8_at(at).unwrap_or_default();
    let mut sets = Sets::default();
    if first & !SHIFT_BITS == SHIFT {
        sets.shift(first);
        at += 1;
    }
    let owner = if first == SHIFT | ANSI {
        "ANSI"
    } else {
        "CCITT"
    };
    put!(cx.line, "{owner}, codeset {}", sets.current());
    if !reference.is_empty() {
        // tcpdump reads one byte more than it needs.
        data.u8_at(at)?;
        cx.line.str(", Call Ref: 0x");
        cx.line.hex(reference);
    }
    let name = name_in(&MESSAGES, kind);
    cx.line.str(", ");
    cx.line
        .name(name, format_args!("unknown message 0x{kind:02x}"));
    let result = elements(cx, data.rest(at), length.saturating_sub(at), sets);
    if result != Ok(End::Mark) {
        put!(cx.line, ", length {length}");
    }
    result.map(|_| ())
}

/// Returns the call reference, the type of message, and the offset of the elements.
fn header(data: &[u8], length: usize) -> Option<(&[u8], u8, usize)> {
    let reference = usize::from(data.u8_at(0).ok()? & REFERENCE_LENGTH);
    let end = 2 + reference;
    // The first element determines the set of elements.
    data.part(0, (end + 1).min(length)).ok()?;
    Some((
        data.part(1, reference).ok()?,
        data.u8_at(1 + reference).ok()?,
        end,
    ))
}

/// The set that elements belong to.
#[derive(Default)]
struct Sets {
    lasting: u8,
    /// The set of the next element only, if it differs.
    next: Option<u8>,
}

impl Sets {
    fn shift(&mut self, element: u8) {
        if element & FOR_THE_NEXT == 0 {
            self.lasting = element & SET;
        } else {
            self.next = Some(element & SET);
        }
    }

    fn current(&self) -> u8 {
        self.next.unwrap_or(self.lasting)
    }
}

/// How the elements of a message end.
#[derive(PartialEq, Eq)]
enum End {
    Length,
    /// At an element of type 0, or without a byte; tcpdump then omits the length.
    Mark,
}

/// Prints the elements that describe the link.
fn elements(cx: &mut Context<'_>, data: &[u8], length: usize, mut sets: Sets) -> Result<End> {
    let mut at = 0;
    while at < length && !cx.line.is_full() {
        let kind = data.u8_at(at)?;
        if kind & SINGLE != 0 {
            if kind & !SHIFT_BITS == SHIFT {
                sets.shift(kind);
            }
            at += 1;
            continue;
        }
        let size = usize::from(data.u8_at(at + 1)?);
        if kind == 0 || size == 0 {
            return Ok(End::Mark);
        }
        let element = data.part(at + 2, size)?;
        at += 2 + size;
        let set = sets.current();
        sets.next = None;
        if set != CCITT && set != ANSI {
            continue;
        }
        if LINK_VERIFICATION.contains(&kind) {
            match element {
                &[sent, received, ..] => {
                    put!(cx.line, ", TX Seq: {sent:3}, RX Seq: {received:3}");
                }
                _ => cx.line.str(", Invalid LINK VERIFY IE"),
            }
        } else if STATUS_OF_CIRCUIT.contains(&kind) {
            circuit(cx, element);
        }
    }
    Ok(End::Length)
}

/// Prints the status of a circuit: a number of two, three or four bytes, and the state.
fn circuit(cx: &mut Context<'_>, element: &[u8]) {
    let (number, state) = match *element {
        [a, b, state] if (a | !b | !state) & LAST == 0 => (number(a, b), state),
        [a, b, c, state] if (a | b | !c | !state) & LAST == 0 => {
            (number(a, b) << 6 | u32::from(c & 0x7e) >> 1, state)
        }
        // tcpdump uses the same place for the third and the fourth byte; so the number is the same
        // here.
        [a, b, c, d, state] if (a | b | c | !d | !state) & LAST == 0 => (
            number(a, b) << 13 | u32::from(c & 0x7f) | u32::from(d & 0x7e) >> 1,
            state,
        ),
        _ => return cx.line.str(", Invalid DLCI in PVC STATUS IE"),
    };
    let new = if state & 0x08 != 0 { "New, " } else { "" };
    let active = if state & 0x02 != 0 {
        "Active"
    } else {
        "Inactive"
    };
    put!(cx.line, ", DLCI {number}: status {new}{active}");
}

/// Returns the ten bits in the first two bytes of a circuit's number.
fn number(first: u8, second: u8) -> u32 {
    u32::from(first & 0x3f) << 4 | u32::from(second & 0x78) >> 3
}

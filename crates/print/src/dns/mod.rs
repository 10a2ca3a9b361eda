//! DNS (RFC 1035) and multicast DNS (RFC 6762), in one line.
//!
//! It has its own parser, because a message that was captured in part is printed as far as it goes;
//! existing parsers reject it.

pub(crate) mod names;
mod records;
mod types;

use super::bytes::{Bytes, Result, Truncated};
use super::context::Context;
use super::line::{end, put};
use records::Section;
pub(crate) use types::type_name;

pub(crate) const HEADER: usize = 12;

const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const CUT: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const AUTHENTIC: u16 = 0x0020;
const CHECKING_DISABLED: u16 = 0x0010;
/// Bits of bytes 2 and 3 that a query should not have: all but opcode, recursion desired and
/// checking disabled.
const UNEXPECTED_IN_QUERY: u16 = 0x06cf;

const OPCODES: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];
const CODES: [&str; 16] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " NoChange",
];

/// Prints a message over TCP, after its length (RFC 1035 section 4.2.2).
pub(crate) fn print_stream(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("domain");
    cx.line.str(" ");
    if length < 2 {
        return end!(cx.line, "[DNS over TCP: length {length} < 2] (invalid)");
    }
    let (stated, size) = (usize::from(data.u16_at(0)?), length - 2);
    if stated != size {
        return end!(
            cx.line,
            "[prefix length({stated}) != length({size})] (invalid)"
        );
    }
    print(cx, data.rest(2).up_to(size), size, false)
}

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize, multicast: bool) -> Result {
    cx.enter("domain");
    if length < HEADER {
        return end!(cx.line, "domain [length {length} < {HEADER}] (invalid)");
    }
    data.part(0, HEADER)?;
    let flags = data.u16_at(2)?;
    let opcode = OPCODES[usize::from(flags >> 11 & 15)];
    put!(cx.line, "{}{opcode}", data.u16_at(0)?);
    let message = Message {
        data,
        captured: data.len() >= length,
        multicast,
        counts: [
            data.u16_at(4)?,
            data.u16_at(6)?,
            data.u16_at(8)?,
            data.u16_at(10)?,
        ],
    };
    if flags & RESPONSE != 0 {
        response(cx, &message, flags)?;
    } else {
        query(cx, &message, flags)?;
    }
    end!(cx.line, " ({length})")
}

/// The message being printed.
struct Message<'a> {
    data: &'a [u8],
    /// Whether all of it was captured.
    captured: bool,
    multicast: bool,
    /// The numbers of questions, answers, authorities, additional records.
    counts: [u16; 4],
}

fn query(cx: &mut Context<'_>, message: &Message<'_>, flags: u16) -> Result {
    let [questions, answers, authorities, additional] = message.counts;
    cx.line
        .marks(flags, &[(RECURSION_DESIRED, "+"), (CHECKING_DISABLED, "%")]);
    if flags & UNEXPECTED_IN_QUERY != 0 {
        put!(cx.line, " [b2&3=0x{flags:x}]");
    }
    // An inverse query has an answer in place of the question.
    let [none, one] = match flags >> 11 & 15 {
        1 => [(questions, "q"), (answers, "a")],
        _ => [(answers, "a"), (questions, "q")],
    };
    let counts = [none, one, (authorities, "n"), (additional, "au")];
    for ((count, letter), expected) in counts.into_iter().zip([0, 1, 0, 0]) {
        if count != expected {
            put!(cx.line, " [{count}{letter}]");
        }
    }
    let list = [
        (questions, Section::Question, ""),
        (answers, Section::Record, ""),
        (authorities, Section::Record, " ns:"),
        (additional, Section::Record, " ar:"),
    ];
    sections(cx, message, HEADER, &list)
}

/// Prints sections from the offset `at` on, each with its title: only the first one, unless `-vv` is set.
fn sections(
    cx: &mut Context<'_>,
    message: &Message<'_>,
    mut at: usize,
    sections: &[(u16, Section, &str)],
) -> Result {
    for (index, &(count, section, title)) in sections.iter().enumerate() {
        if index > 0 && !cx.very_verbose() {
            break;
        }
        if count == 0 {
            continue;
        }
        cx.line.str(title);
        let Some(next) = list(cx, message, at, count, section)? else {
            break;
        };
        at = next;
    }
    Ok(())
}

fn response(cx: &mut Context<'_>, message: &Message<'_>, flags: u16) -> Result {
    let [questions, answers, authorities, additional] = message.counts;
    code(cx, message, flags);
    for (bit, mark) in [(AUTHORITATIVE, "*"), (CUT, "|"), (AUTHENTIC, "$")] {
        if bit == CUT && flags & RECURSION_AVAILABLE == 0 {
            cx.line.str("-");
        }
        if flags & bit != 0 {
            cx.line.str(mark);
        }
    }
    if questions != 1 {
        put!(cx.line, " [{questions}q]");
    }
    let mut at = HEADER;
    for index in 0..questions {
        if cx.very_verbose() {
            cx.line.str(if index == 0 { " q:" } else { "," });
            at = records::question(cx, message, at)?;
        } else {
            at = names::skip(message.data, at)? + 4;
        }
    }
    put!(cx.line, " {answers}/{authorities}/{additional}");
    let list = [
        (answers, Section::Record, ""),
        (authorities, Section::Record, " ns:"),
        (additional, Section::Record, " ar:"),
    ];
    sections(cx, message, at, &list)
}

/// Prints the response code, with the upper bits from an OPT record (RFC 6891 section 6.1.3).
fn code(cx: &mut Context<'_>, message: &Message<'_>, flags: u16) {
    let low = flags & 15;
    let code = records::extended_code(message).unwrap_or_default() << 4 | low;
    match (code, CODES.get(usize::from(code))) {
        (_, Some(name)) => cx.line.str(name),
        (16, None) => cx.line.str(" BadVers"),
        (23, None) => cx.line.str(" BadCookie"),
        (_, None) => put!(cx.line, " Resp{code}"),
    }
}

/// Prints `count` entries, records separated by commas; returns the offset after them, or
/// `None` if the message ends inside a record.
fn list(
    cx: &mut Context<'_>,
    message: &Message<'_>,
    mut at: usize,
    count: u16,
    section: Section,
) -> Result<Option<usize>> {
    for index in 0..count {
        if index > 0 && matches!(section, Section::Record) {
            cx.line.str(",");
        }
        if cx.line.is_full() {
            return Err(Truncated);
        }
        let next = match section {
            Section::Question => Some(records::question(cx, message, at)?),
            Section::Record => records::record(cx, message, at)?,
        };
        let Some(next) = next else {
            return Ok(None);
        };
        at = next;
    }
    Ok(Some(at))
}

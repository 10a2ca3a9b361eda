//! The encoding of SNMP (X.690; RFC 2578 section 2, RFC 3416): elements of tag, length, value.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::put;

/// The reason why reading a message stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The captured bytes end.
    Missing,
    /// The message is invalid; the line already reports that.
    Invalid,
}

impl From<Truncated> for Halt {
    fn from(_: Truncated) -> Self {
        Self::Missing
    }
}

/// The rest of an encoding: its captured part, and its length.
#[derive(Clone, Copy)]
pub(super) struct Encoded<'a> {
    pub(super) data: &'a [u8],
    pub(super) length: usize,
}

impl<'a> Encoded<'a> {
    fn skip(self, count: usize) -> Self {
        Self {
            data: self.data.rest(count),
            length: self.length.saturating_sub(count),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Integer(i64),
    Unsigned(u64),
    Octets(&'a [u8]),
    Identifier(&'a [u8]),
    Address(&'a [u8]),
    Null,
    /// `noSuchObject` and its like (RFC 3416 section 3).
    Exception(&'static str),
    Sequence(Encoded<'a>),
    /// A request or an answer by its number.
    Pdu(u8, Encoded<'a>),
    /// A type without a text form of its own: its bytes.
    Other(&'a [u8]),
}

/// An element with its size in the encoding.
pub(super) struct Element<'a> {
    pub(super) value: Value<'a>,
    /// The length of the value in bytes.
    pub(super) length: usize,
    /// The length of tag, length and value in bytes.
    pub(super) size: usize,
}

const UNIVERSAL: [&str; 18] = [
    "U-0",
    "Boolean",
    "Integer",
    "Bitstring",
    "String",
    "Null",
    "ObjID",
    "ObjectDes",
    "U-8",
    "U-9",
    "U-10",
    "U-11",
    "U-12",
    "U-13",
    "U-14",
    "U-15",
    "Sequence",
    "Set",
];
const APPLICATION: [&str; 7] = [
    "IpAddress",
    "Counter",
    "Gauge",
    "TimeTicks",
    "Opaque",
    "C-5",
    "Counter64",
];
pub(super) const PDUS: [&str; 9] = [
    "GetRequest",
    "GetNextRequest",
    "GetResponse",
    "SetRequest",
    "Trap",
    "GetBulk",
    "Inform",
    "V2Trap",
    "Report",
];
const PRIVATE: [&str; 1] = ["P-0"];
const EXCEPTIONS: [&str; 3] = ["[noSuchObject]", "[noSuchInstance]", "[endOfMibView]"];
const UNEXPECTED: &str = "[BE_ANY!?]";

/// A tag: class, form, number.
struct Tag {
    class: u8,
    constructed: bool,
    number: u32,
}

/// Reads the first element of `from`, and writes the name of a type that has no text form.
pub(super) fn read<'a>(cx: &mut Context<'_>, from: Encoded<'a>) -> Result<Element<'a>, Halt> {
    if from.length == 0 {
        cx.line.str("[nothing to parse]");
        return Err(Halt::Invalid);
    }
    let (tag, after_tag) = tag(from)?;
    let (length, body) = length(cx, after_tag)?;
    if body.length < length {
        put!(cx.line, "[len{}<asnlen{length}]", body.length);
        return Err(Halt::Invalid);
    }
    let size = from.length - body.length + length;
    let value = interpret(cx, &tag, body.data.part(0, length)?)?;
    Ok(Element {
        value,
        length,
        size,
    })
}

/// Reads the first element of `from`, and moves after it.
pub(super) fn step<'a>(cx: &mut Context<'_>, from: &mut Encoded<'a>) -> Result<Element<'a>, Halt> {
    let element = read(cx, *from)?;
    *from = from.skip(element.size);
    Ok(element)
}

fn tag(from: Encoded<'_>) -> Result<(Tag, Encoded<'_>), Halt> {
    const LONG: u8 = 0x1f;
    let first = from.data.u8_at(0)?;
    let mut number = u32::from(first & LONG);
    let mut at = 1;
    if first & LONG == LONG {
        number = 0;
        // No known type has a number of more than 28 bits.
        for _ in 0..4 {
            let byte = from.data.u8_at(at)?;
            at += 1;
            number = number << 7 | u32::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    let tag = Tag {
        class: first >> 6,
        constructed: first & 0x20 != 0,
        number,
    };
    Ok((tag, from.skip(at)))
}

fn length<'a>(cx: &mut Context<'_>, from: Encoded<'a>) -> Result<(usize, Encoded<'a>), Halt> {
    if from.length == 0 {
        cx.line.str("[no asnlen]");
        return Err(Halt::Invalid);
    }
    let first = from.data.u8_at(0)?;
    let from = from.skip(1);
    if first & 0x80 == 0 {
        return Ok((usize::from(first), from));
    }
    let count = usize::from(first & 0x7f);
    if from.length < count {
        put!(cx.line, "[asnlen? {}<{count}]", from.length);
        return Err(Halt::Invalid);
    }
    let fold = |value: u32, &byte: &u8| value << 8 | u32::from(byte);
    let value = from.data.part(0, count)?.iter().fold(0, fold);
    Ok((
        usize::try_from(value).unwrap_or(usize::MAX),
        from.skip(count),
    ))
}

fn interpret<'a>(cx: &mut Context<'_>, tag: &Tag, bytes: &'a [u8]) -> Result<Value<'a>, Halt> {
    let body = Encoded {
        data: bytes,
        length: bytes.len(),
    };
    let form = if tag.constructed { 'C' } else { 'P' };
    let names: &[&str] = match (tag.class, tag.constructed) {
        (0, _) => &UNIVERSAL,
        (1, _) => &APPLICATION,
        (2, _) => &PDUS,
        _ => &PRIVATE,
    };
    let known = usize::try_from(tag.number)
        .ok()
        .and_then(|number| names.get(number).copied().zip(u8::try_from(number).ok()));
    let Some((name, number)) = known else {
        put!(cx.line, "[id?{form}/x/{}]", tag.number);
        return Err(Halt::Invalid);
    };
    Ok(match (tag.class, tag.constructed, number) {
        (0, false, 2) => Value::Integer(integer(cx, bytes)?),
        (0, false, 4) => Value::Octets(bytes),
        (0, false, 5) => Value::Null,
        (0, false, 6) => Value::Identifier(bytes),
        (0, true, 16) => Value::Sequence(body),
        (1, false, 0) => Value::Address(bytes),
        (1, false, 1..=3) => Value::Unsigned(unsigned(bytes) & u64::from(u32::MAX)),
        (1, false, 6) => Value::Unsigned(unsigned(bytes)),
        (2, false, _) => {
            Value::Exception(EXCEPTIONS.get(usize::from(number)).unwrap_or(&UNEXPECTED))
        }
        (2, true, _) => Value::Pdu(number, body),
        (class @ (0 | 1), false, _) => {
            put!(cx.line, "[P/{}/{name}]", if class == 0 { 'U' } else { 'A' });
            Value::Other(bytes)
        }
        (_, false, _) => {
            put!(cx.line, "[P/x/{name}]");
            Value::Other(bytes)
        }
        (class, true, _) => {
            put!(cx.line, "C/{}/{name}", if class == 0 { 'U' } else { 'x' });
            Value::Other(bytes)
        }
    })
}

/// Reads a number in two's complement; only the last four bytes count.
fn integer(cx: &mut Context<'_>, bytes: &[u8]) -> Result<i64, Halt> {
    let Some(first) = bytes.first() else {
        cx.line.str("[asnlen=0]");
        return Err(Halt::Invalid);
    };
    let sign = if first & 0x80 == 0 { 0 } else { u32::MAX };
    let fold = |value: u32, &byte: &u8| value << 8 | u32::from(byte);
    let low = bytes.iter().fold(sign, fold);
    Ok(i64::from(i32::from_ne_bytes(low.to_ne_bytes())))
}

fn unsigned(bytes: &[u8]) -> u64 {
    let fold = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
    bytes.iter().fold(0, fold)
}

/// Writes a value.
pub(super) fn print(cx: &mut Context<'_>, element: &Element<'_>) {
    match element.value {
        Value::Integer(value) => put!(cx.line, "{value}"),
        Value::Unsigned(value) => cx.line.number(value),
        Value::Octets(bytes) => string(cx, bytes),
        Value::Identifier(bytes) => identifier(cx, bytes),
        Value::Address(&[a, b, c, d]) => cx.line.ipv4([a, b, c, d]),
        Value::Address(bytes) => {
            cx.line.str("[inetaddr len!=4]");
            for (index, byte) in bytes.iter().enumerate() {
                put!(cx.line, "{}{byte}", if index == 0 { "" } else { "." });
            }
        }
        Value::Null => {}
        Value::Exception(name) => cx.line.str(name),
        Value::Sequence(_) => put!(cx.line, "Seq({})", element.length),
        Value::Pdu(number, _) => {
            put!(cx.line, "{}({})", PDUS[usize::from(number)], element.length);
        }
        Value::Other(bytes) => octets(cx, bytes),
    }
}

/// Writes text in quotes, or hexadecimal bytes if one of them is not visible.
fn string(cx: &mut Context<'_>, bytes: &[u8]) {
    let visible = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if bytes.iter().all(visible) {
        cx.line.str("\"");
        cx.line.escaped(bytes);
        cx.line.str("\"");
    } else if let [first, rest @ ..] = bytes {
        cx.line.hex_byte(*first);
        octets(cx, rest);
    }
}

/// Writes hexadecimal bytes, each after an underscore.
pub(super) fn octets(cx: &mut Context<'_>, bytes: &[u8]) {
    for &byte in bytes {
        cx.line.str("_");
        cx.line.hex_byte(byte);
    }
}

/// Writes an object identifier; its first number encodes two (X.690 section 8.19.4).
fn identifier(cx: &mut Context<'_>, bytes: &[u8]) {
    let mut value: u32 = 0;
    let mut first = true;
    for &byte in bytes {
        value = value << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if first {
            let root = (value / 40).min(2);
            put!(cx.line, ".{root}.{}", value - root * 40);
            first = false;
        } else {
            cx.line.str(".");
            cx.line.number(value);
        }
        value = 0;
    }
}

//! Messages of DNS (RFC 1035), and of those that took its form: multicast DNS, LLMNR, the NetBIOS name
//! service (RFC 1002).

use std::net::IpAddr;

use ringtap_packet::bytes::{be16, be32, byte, chunk};

use crate::escape::digits;

/// Bytes of the header.
const HEADER: usize = 12;
/// The longest name as text, without its last dot.
const LONGEST: usize = 254;
/// The most records that are looked at.
const RECORDS: u16 = 256;
/// The kinds of records that have addresses.
const A: u16 = 1;
const AAAA: u16 = 28;

/// A name as text: labels with dots between them; "." is the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    bytes: [u8; LONGEST + 1],
    len: u8,
}

impl Name {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    const EMPTY: Self = Self {
        bytes: [0; LONGEST + 1],
        len: 0,
    };

    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let start = usize::from(self.len);
        let place = self.bytes.get_mut(start..start + bytes.len())?;
        place.copy_from_slice(bytes);
        self.len += u8::try_from(bytes.len()).ok()?;
        Some(())
    }
}

/// A message's header, and its first question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    data: &'a [u8],
    pub(crate) id: u16,
    flags: u16,
    questions: u16,
    pub(crate) answers: u16,
    /// Records of the other two sections.
    others: u32,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) kind: u16,
    class: u16,
    /// The offset behind it.
    end: usize,
}

impl<'a> Message<'a> {
    /// Reads the header. Fails where no such message can be: too many records for its length.
    pub(crate) fn parse(data: &'a [u8], is_complete: bool) -> Option<Self> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l] = data.first_chunk::<HEADER>()?;
        let count = |high, low| u16::from_be_bytes([high, low]);
        let message = Self {
            data,
            id: count(a, b),
            flags: count(c, d),
            questions: count(e, f),
            answers: count(g, h),
            others: u32::from(count(i, j)) + u32::from(count(k, l)),
        };
        // The shortest question has 5 bytes, the shortest record 11.
        let least = 5 * usize::from(message.questions)
            + 11 * (usize::from(message.answers) + message.others as usize);
        if is_complete && HEADER + least > data.len() {
            return None;
        }
        Some(message)
    }

    pub(crate) fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    pub(crate) fn rcode(&self) -> u8 {
        (self.flags & 15) as u8
    }

    fn opcode(&self) -> u16 {
        self.flags >> 11 & 15
    }

    /// Returns whether the header is one of DNS as it is used: for ports that are not its own.
    pub(crate) fn is_likely(&self) -> bool {
        const RESERVED: u16 = 0x0040;
        let is_plain = self.opcode() == 0 && self.flags & RESERVED == 0 && self.questions == 1;
        if self.is_response() {
            return is_plain && self.rcode() <= 5 && self.answers <= 64 && self.others <= 64;
        }
        is_plain && self.rcode() == 0 && self.answers == 0 && self.others <= 2
    }

    /// Returns whether the header may be one of DNS: for its own port.
    pub(crate) fn is_possible(&self) -> bool {
        self.opcode() <= 6 && self.questions <= 64
    }

    /// Returns the first question.
    pub(crate) fn question(&self) -> Option<Question> {
        if self.questions == 0 {
            return None;
        }
        let (name, at) = name(self.data, HEADER)?;
        Some(Question {
            name,
            kind: be16(self.data, at)?,
            class: be16(self.data, at + 2)?,
            end: at + 4,
        })
    }

    /// Returns the name and the kind of the first record: for messages of multicast DNS, which need no
    /// question.
    pub(crate) fn first_record(&self) -> Option<(Name, u16)> {
        if self.answers == 0 || self.questions != 0 {
            return None;
        }
        let (name, at) = name(self.data, HEADER)?;
        Some((name, be16(self.data, at)?))
    }

    /// Calls `each` with the addresses in the answers and their times to live in seconds.
    pub(crate) fn addresses(&self, question: &Question, mut each: impl FnMut(IpAddr, u32)) {
        let mut at = question.end;
        for _ in 1..self.questions {
            match skip_name(self.data, at) {
                Some(end) => at = end + 4,
                None => return,
            }
        }
        for _ in 0..self.answers.min(RECORDS) {
            let Some((address, seconds, end)) = self.record(at) else {
                return;
            };
            if let Some(address) = address {
                each(address, seconds);
            }
            at = end;
        }
    }

    /// Reads the record at `at`: the address if it has one, its time to live, and its end.
    fn record(&self, at: usize) -> Option<(Option<IpAddr>, u32, usize)> {
        let at = skip_name(self.data, at)?;
        let kind = be16(self.data, at)?;
        let seconds = be32(self.data, at + 4)?;
        let len = usize::from(be16(self.data, at + 8)?);
        let start = at + 10;
        let address = match (kind, len) {
            (A, 4) => chunk::<4>(self.data, start).map(IpAddr::from),
            (AAAA, 16) => chunk::<16>(self.data, start).map(IpAddr::from),
            _ => None,
        };
        Some((address, seconds, start + len))
    }
}

impl Question {
    /// Returns whether the question is one of DNS as it is used: for ports that are not its own.
    pub(crate) fn is_likely(&self) -> bool {
        const CLASSES: [u16; 3] = [1, 3, 255];
        let is_text = |byte: &u8| byte.is_ascii_graphic();
        CLASSES.contains(&self.class)
            && (1..=260).contains(&self.kind)
            && self.name.bytes().iter().all(is_text)
    }

    /// Returns whether the question asks for addresses, or for what comes with them.
    pub(crate) fn wants_addresses(&self) -> bool {
        matches!(self.kind, A | AAAA | 255)
    }
}

/// Reads a name at an offset: its text and the offset behind it. Pointers go backwards only.
fn name(data: &[u8], start: usize) -> Option<(Name, usize)> {
    let mut text = Name::EMPTY;
    let (mut at, mut lowest) = (start, start);
    let mut end = None;
    loop {
        let len = byte(data, at)?;
        match len {
            0 => break,
            1..=63 => {
                let label = data.get(at + 1..at + 1 + usize::from(len))?;
                if text.len > 0 {
                    text.add(b".")?;
                }
                text.add(label)?;
                at += 1 + usize::from(len);
            }
            0xc0.. => {
                let pointer = usize::from(be16(data, at)? & 0x3fff);
                end.get_or_insert(at + 2);
                if pointer >= lowest {
                    return None;
                }
                (at, lowest) = (pointer, pointer);
            }
            _ => return None,
        }
    }
    if text.len == 0 {
        text.add(b".")?;
    }
    Some((text, end.unwrap_or(at + 1)))
}

/// Returns the offset behind a name.
fn skip_name(data: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match byte(data, at)? {
            0 => return Some(at + 1),
            len @ 1..=63 => at += 1 + usize::from(len),
            0xc0.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Returns a NetBIOS name, decoded: up to 15 characters, without the padding, and the kind of service as two
/// hexadecimal digits (RFC 1001, section 14).
pub(crate) fn netbios(name: &Name) -> Option<([u8; 19], usize)> {
    let coded: &[u8; 32] = name.bytes().first_chunk()?;
    let mut text = [0; 19];
    let mut kind = 0;
    for (index, pair) in coded.chunks_exact(2).enumerate() {
        let nibble = |byte: u8| byte.checked_sub(b'A').filter(|value| *value < 16);
        let value = nibble(pair[0])? << 4 | nibble(pair[1])?;
        match index {
            15 => kind = value,
            _ => text[index] = value,
        }
    }
    let padded = |byte: &u8| *byte != b' ' && *byte != 0;
    let len = text[..15].iter().rposition(padded).map_or(0, |at| at + 1);
    let [high, low] = digits(kind);
    text[len..len + 4].copy_from_slice(&[b'<', high, low, b'>']);
    Some((text, len + 4))
}

//! The format of netlink messages: builds requests and parses replies.
//!
//! Names are kept as bytes, because an interface name may hold any byte but `/`, `:` and white
//! space: a name that is not UTF-8 must not make the whole list unreadable. Each attribute is
//! parsed on demand, so one with an unknown form does not affect the rest.
//!
//! Source: `include/uapi/linux/netlink.h`; netlink(7), rtnetlink(7).

use super::Error;

/// Length of `struct nlmsghdr`, in bytes.
pub(super) const HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;
const ALIGN: usize = 4;
/// The two top bits of an attribute's type are flags: nested (`NLA_F_NESTED`), big endian.
const NESTED: u16 = 1 << 15;
const TYPE_MASK: u16 = !(NESTED | 1 << 14);

const fn align(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// A request under construction: header, body, attributes.
#[derive(Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
    /// The message type as the manual names it, for error messages.
    pub(super) call: &'static str,
    /// The object of the request, for error messages.
    pub(super) context: String,
}

impl Request {
    /// Begins a request with a type (`RTM_…`), flags (`NLM_F_…`; `NLM_F_REQUEST` is added) and the
    /// body that the type requires.
    pub(super) fn new(
        (kind, call): (u16, &'static str),
        flags: i32,
        body: &[u8],
        context: impl Into<String>,
    ) -> Self {
        let flags = u16::try_from(flags | libc::NLM_F_REQUEST).expect("NLM_F_* are 16 bits");
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        let mut request = Self {
            bytes,
            call,
            context: context.into(),
        };
        request.body(body);
        request
    }

    /// Appends a fixed structure, padded.
    pub(super) fn body(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    /// Appends an attribute.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = u16::try_from(ATTRIBUTE_HEADER_LEN + value.len())
            .expect("callers pass numbers, addresses and checked names only");
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.body(value);
    }

    /// Appends a 32-bit number.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    /// Appends a string; the kernel requires a terminating zero byte.
    pub(super) fn string(&mut self, kind: u16, value: &[u8]) {
        let mut terminated = Vec::with_capacity(value.len() + 1);
        terminated.extend_from_slice(value);
        terminated.push(0);
        self.attribute(kind, &terminated);
    }

    /// Appends an attribute that contains whatever `fill` appends.
    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        fill(self);
        let len = u16::try_from(self.bytes.len() - start)
            .expect("requests hold a handful of small attributes");
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// Completes the message with its sequence number and returns it.
    pub(super) fn finish(&mut self, sequence: u32) -> &[u8] {
        let len = u32::try_from(self.bytes.len()).expect("requests are small");
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }
}

/// One message of a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
}

/// The messages of one datagram.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Messages<'a> {
    pub(super) fn new(datagram: &'a [u8]) -> Self {
        Self {
            rest: datagram,
            offset: 0,
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.rest);
        let len = read_u32(bytes, 0).map_or(0, |len| len as usize);
        let Some(payload) = bytes.get(HEADER_LEN..len) else {
            return Some(Err(Error::Malformed {
                what: "message header",
                offset: self.offset,
                expected: HEADER_LEN,
                found: bytes.len().min(len),
            }));
        };
        self.rest = bytes.get(align(len)..).unwrap_or_default();
        self.offset += align(len);
        Some(Ok(Message {
            kind: read_u16(bytes, 4).unwrap_or_default(),
            flags: read_u16(bytes, 6).unwrap_or_default(),
            sequence: read_u32(bytes, 8).unwrap_or_default(),
            payload,
        }))
    }
}

/// The attributes of a message or of another attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    bytes: &'a [u8],
    /// The offset of the bytes in the message.
    offset: usize,
}

/// One attribute: its type without the flag bits, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) value: &'a [u8],
    /// The offset of the value in the message, in bytes.
    offset: usize,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes after the fixed body of `body` bytes.
    pub(super) fn after(payload: &'a [u8], body: usize, what: &'static str) -> Result<Self, Error> {
        let bytes = payload.get(align(body)..).ok_or(Error::Malformed {
            what,
            offset: 0,
            expected: body,
            found: payload.len(),
        })?;
        Ok(Self {
            bytes,
            offset: align(body),
        })
    }

    /// Calls `read` with each attribute.
    pub(super) fn each(
        self,
        mut read: impl FnMut(Attribute<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = 0;
        while at < self.bytes.len() {
            let attribute = self.at(at)?;
            at += align(ATTRIBUTE_HEADER_LEN + attribute.value.len());
            read(attribute)?;
        }
        Ok(())
    }

    fn at(self, at: usize) -> Result<Attribute<'a>, Error> {
        let rest = &self.bytes[at..];
        let len = read_u16(rest, 0).map_or(0, usize::from);
        let malformed = Error::Malformed {
            what: "attribute header",
            offset: self.offset + at,
            expected: len.max(ATTRIBUTE_HEADER_LEN),
            found: rest.len(),
        };
        let value = rest.get(ATTRIBUTE_HEADER_LEN..len).ok_or(malformed)?;
        let kind = read_u16(rest, 2).unwrap_or_default() & TYPE_MASK;
        Ok(Attribute {
            kind,
            value,
            offset: self.offset + at + ATTRIBUTE_HEADER_LEN,
        })
    }
}

impl<'a> Attribute<'a> {
    /// Returns the attributes inside this one.
    pub(super) fn nested(&self) -> Attributes<'a> {
        Attributes {
            bytes: self.value,
            offset: self.offset,
        }
    }

    pub(super) fn u8(&self, what: &'static str) -> Result<u8, Error> {
        self.value
            .first()
            .copied()
            .ok_or_else(|| self.malformed(what, 1))
    }

    pub(super) fn u16(&self, what: &'static str) -> Result<u16, Error> {
        read_u16(self.value, 0).ok_or_else(|| self.malformed(what, 2))
    }

    pub(super) fn u32(&self, what: &'static str) -> Result<u32, Error> {
        read_u32(self.value, 0).ok_or_else(|| self.malformed(what, 4))
    }

    pub(super) fn i32(&self, what: &'static str) -> Result<i32, Error> {
        self.u32(what).map(u32::cast_signed)
    }

    /// Returns the value as a string without its terminating zero byte.
    pub(super) fn string(&self) -> &'a [u8] {
        let end = self
            .value
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.value.len());
        &self.value[..end]
    }

    /// Returns the value as an IPv4 or IPv6 address, according to its length.
    pub(super) fn address(&self, what: &'static str) -> Result<std::net::IpAddr, Error> {
        if let Ok(v4) = <[u8; 4]>::try_from(self.value) {
            return Ok(v4.into());
        }
        let v6 = <[u8; 16]>::try_from(self.value).map_err(|_| self.malformed(what, 16))?;
        Ok(v6.into())
    }

    /// Returns the value without its first `len` bytes.
    pub(super) fn behind(&self, len: usize, what: &'static str) -> Result<Self, Error> {
        let value = self
            .value
            .get(len..)
            .ok_or_else(|| self.malformed(what, len))?;
        Ok(Self {
            value,
            offset: self.offset + len,
            ..*self
        })
    }

    pub(super) fn malformed(&self, what: &'static str, expected: usize) -> Error {
        Error::Malformed {
            what,
            offset: self.offset,
            expected,
            found: self.value.len(),
        }
    }
}

pub(super) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

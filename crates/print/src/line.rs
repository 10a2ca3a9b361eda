//! The line under construction: a bounded byte buffer, with writers for forms that occur in every
//! protocol (addresses, ports, escaped text, flag lists).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use ringtap_packet::DropNote;

use super::bytes::{Bytes, Result, Truncated};

/// The longest line in bytes. A hostile packet can name more data than it holds, which must not
/// flood the output.
const MAX_LINE: usize = 64 * 1024;

/// Writes formatted text to a [`Line`].
macro_rules! put {
    ($line:expr, $($arg:tt)*) => { $line.format(format_args!($($arg)*)) };
}
pub(crate) use put;

/// Writes formatted text to a [`Line`] as the last of a decoder: its value is `Ok(())`.
macro_rules! end {
    ($line:expr, $($arg:tt)*) => {{
        $crate::line::put!($line, $($arg)*);
        Ok(())
    }};
}
pub(crate) use end;

/// A network address from a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// An IPv4 address.
    V4([u8; 4]),
    /// An IPv6 address.
    V6([u8; 16]),
}

impl fmt::Display for Address {
    /// Writes RFC 5952 text, with a dotted tail only where the C library's `inet_ntop` has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(octets) => Ipv4Addr::from(octets).fmt(f),
            Self::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]) if [a, b] != [0, 0] => {
                write!(f, "::{}", Ipv4Addr::new(a, b, c, d))
            }
            Self::V6(octets) => Ipv6Addr::from(octets).fmt(f),
        }
    }
}

/// A link-layer address of any length: `00:11:22:33:44:55`.
pub(crate) struct Mac<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Mac<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{octet:02x}")?;
        }
        Ok(())
    }
}

/// A name, or other text where there is none.
pub(crate) struct Named<'a>(pub(crate) Option<&'a str>, pub(crate) fmt::Arguments<'a>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => f.write_str(name),
            None => f.write_fmt(self.1),
        }
    }
}

/// Returns the name of a value in a table.
pub(crate) fn name_in<K: PartialEq + Copy>(
    names: &[(K, &'static str)],
    value: K,
) -> Option<&'static str> {
    let found = names.iter().find(|(number, _)| *number == value);
    found.map(|(_, name)| *name)
}

/// A number of seconds: `68y5w3h14m8s`, without units that are 0.
pub(crate) struct Duration(pub(crate) u32);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 6] = [
            (365 * 24 * 3600, "y"),
            (7 * 24 * 3600, "w"),
            (24 * 3600, "d"),
            (3600, "h"),
            (60, "m"),
            (1, "s"),
        ];
        let mut rest = self.0;
        for (size, unit) in UNITS {
            if rest >= size || self.0 == 0 && size == 1 {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

/// The names of the set bits, joined by `, `; `none` for no bit.
pub(crate) struct Flags<'a>(pub(crate) u32, pub(crate) &'a [(u32, &'a str)]);

impl fmt::Display for Flags<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in self.1.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        f.write_str(if separator.is_empty() { "none" } else { "" })
    }
}

/// The text of one packet. The buffer is reused for every packet.
#[derive(Debug, Default)]
pub(crate) struct Line {
    text: Vec<u8>,
    /// The name of the layer being read, for the note about missing bytes.
    pub(crate) protocol: &'static str,
}

impl Line {
    /// Clears the text and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.protocol = "";
    }

    /// Returns the text written so far.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns whether the line has its maximum length, so that writing more is pointless.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= MAX_LINE
    }

    #[inline]
    pub(crate) fn str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(crate) fn format(&mut self, args: fmt::Arguments<'_>) {
        // `write_str` below never fails.
        let _ = fmt::Write::write_fmt(self, args);
    }

    /// Writes a decimal number, the most common field of a line, without the formatting machinery.
    pub(crate) fn number(&mut self, value: impl Into<u64>) {
        let mut value = value.into();
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(value % 10).unwrap_or_default();
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.bytes(&digits[at..]);
    }

    /// Writes a size or length in decimal.
    pub(crate) fn size(&mut self, value: usize) {
        self.number(u64::try_from(value).unwrap_or(u64::MAX));
    }

    pub(crate) fn ipv4(&mut self, octets: [u8; 4]) {
        for (index, octet) in octets.into_iter().enumerate() {
            if index > 0 {
                self.bytes(b".");
            }
            self.number(octet);
        }
    }

    pub(crate) fn ipv6(&mut self, octets: [u8; 16]) {
        put!(self, "{}", Address::V6(octets));
    }

    pub(crate) fn address(&mut self, address: Address) {
        match address {
            Address::V4(octets) => self.ipv4(octets),
            Address::V6(octets) => self.ipv6(octets),
        }
    }

    /// Writes `address.port`.
    pub(crate) fn endpoint(&mut self, address: Address, port: u16) {
        self.address(address);
        self.bytes(b".");
        self.number(port);
    }

    /// Writes a link-layer address of any length: `00:11:22:33:44:55`.
    pub(crate) fn link_address(&mut self, octets: &[u8]) {
        for (index, &octet) in octets.iter().enumerate() {
            if index > 0 {
                self.bytes(b":");
            }
            self.hex_byte(octet);
        }
    }

    /// Writes two hexadecimal digits.
    pub(crate) fn hex_byte(&mut self, octet: u8) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.bytes(&[
            DIGITS[usize::from(octet >> 4)],
            DIGITS[usize::from(octet & 15)],
        ]);
    }

    /// Writes the hexadecimal digits of all of `octets`, without separators.
    pub(crate) fn hex(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.hex_byte(octet);
        }
    }

    /// Writes a byte of a packet as visible text: `^A` for a control character, `M-a` above ASCII.
    pub(crate) fn escaped_byte(&mut self, mut byte: u8) {
        if byte >= 0x80 {
            self.bytes(b"M-");
            byte &= 0x7f;
        }
        if byte < 0x20 || byte == 0x7f {
            self.bytes(b"^");
            byte ^= 0x40;
        }
        self.bytes(&[byte]);
    }

    /// Writes bytes of a packet as visible text.
    pub(crate) fn escaped(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.escaped_byte(byte);
        }
    }

    /// Writes why the kernel dropped a packet: `drop NO_SOCKET at __udp4_lib_rcv+0x4bc eth0: `. The words may
    /// come from a file.
    pub(crate) fn dropped(&mut self, note: &DropNote<'_>) {
        // `write_str` below never fails.
        let _ = fmt::write(&mut Escaped(self), format_args!("{note}: "));
    }

    /// Writes a name, or other text where there is none.
    pub(crate) fn name(&mut self, name: Option<&str>, unknown: fmt::Arguments<'_>) {
        put!(self, "{}", Named(name, unknown));
    }

    /// Writes the letters of the set bits, one after another.
    pub(crate) fn marks<B: Into<u32> + Copy>(&mut self, value: B, marks: &[(B, &str)]) {
        for &(bit, mark) in marks {
            if value.into() & bit.into() != 0 {
                self.str(mark);
            }
        }
    }

    /// Writes bytes of a packet as visible text, up to the first byte of 0.
    pub(crate) fn escaped_string(&mut self, bytes: &[u8]) {
        let end = bytes.iter().position(|&byte| byte == 0);
        self.escaped(&bytes[..end.unwrap_or(bytes.len())]);
    }

    /// Writes the string of `data` that begins at `at` and ends with a byte of 0. Returns the offset after it,
    /// or an error if its end was not captured.
    pub(crate) fn terminated(&mut self, data: &[u8], at: usize) -> Result<usize> {
        let rest = data.rest(at);
        self.escaped_string(rest);
        let end = rest.iter().position(|&byte| byte == 0);
        end.map(|end| at + end + 1).ok_or(Truncated)
    }

    /// Writes the note that the captured bytes end inside the layer `name`.
    pub(crate) fn truncated(&mut self, name: &str) {
        put!(self, "[|{name}]");
    }
}

/// Writes text to a line as visible text.
struct Escaped<'l>(&'l mut Line);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.escaped(text.as_bytes());
        Ok(())
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.str(text);
        Ok(())
    }
}

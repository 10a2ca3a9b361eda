//! Values of fields, and how files print them.

use std::fmt;
use std::net::IpAddr;

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number,
    /// A number that is printed in hexadecimal, such as a code of TLS.
    Code,
    /// Nanoseconds since 1970.
    Time,
    /// An IP address.
    Address,
    /// A MAC address.
    Mac,
    /// Text, which may come from the network: printable, with control characters escaped.
    Text,
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number.
    Number(u64),
    /// A number that is printed in hexadecimal.
    Code(u32),
    /// Nanoseconds since 1970.
    Time(u64),
    /// An IP address.
    Address(IpAddr),
    /// A MAC address.
    Mac([u8; 6]),
    /// Printable text. It may have quotes, commas and backslashes.
    Text(&'a str),
}

/// Prints all but times, which are the outputs' matter: they become nanoseconds here.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) | Self::Time(number) => number.fmt(f),
            Self::Code(code) => write!(f, "0x{code:04x}"),
            Self::Address(address) => address.fmt(f),
            Self::Mac(bytes) => f.write_str(str::from_utf8(&mac_text(*bytes)).unwrap_or_default()),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Returns a MAC address as text. Every record has two, and formatting six numbers is slow.
fn mac_text(bytes: [u8; 6]) -> [u8; 17] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b':'; 17];
    for (byte, to) in bytes.into_iter().zip(text.chunks_mut(3)) {
        to[0] = DIGITS[usize::from(byte >> 4)];
        to[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn addresses_of_interfaces_are_text() {
        let address = Value::Mac([0x00, 0x1f, 0xa0, 0x0b, 0xff, 0x7e]);
        assert_eq!(address.to_string(), "00:1f:a0:0b:ff:7e");
    }
}

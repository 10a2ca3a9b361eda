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
            Self::Mac(bytes) => {
                let [a, b, c, d, e, g] = bytes;
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

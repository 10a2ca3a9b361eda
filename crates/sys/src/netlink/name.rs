//! Interface names: they may hold nearly any byte, and are escaped for terminals.

use std::fmt::{self, Display, Write as _};

use super::Error;

/// Longest interface name, in bytes (`IFNAMSIZ` less the terminating zero).
pub const NAME_MAX: usize = 15;
/// Longest alternative name, in bytes (`ALTIFNAMSIZ` less the terminating zero; Linux ≥ 5.5).
pub const ALTNAME_MAX: usize = 127;

/// The name of an interface as the kernel stores it: bytes, not necessarily UTF-8.
///
/// Displaying it escapes control characters and bytes that are not UTF-8 as `\xNN`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Creates a name from the kernel's bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name as a string if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&escape(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\"", escape(&self.0))
    }
}

/// Escapes text for a terminal: control characters, invisible direction marks and bytes that are
/// not UTF-8 become `\xNN`.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_harmful(character) {
                let mut buffer = [0; 4];
                escape_bytes(character.encode_utf8(&mut buffer).as_bytes(), &mut text);
            } else {
                text.push(character);
            }
        }
        escape_bytes(chunk.invalid(), &mut text);
    }
    text
}

/// Returns whether a character is harmful: control characters steer a terminal; direction marks and
/// separators reorder the text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escape_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("writing to a String does not fail");
    }
}

/// Rejects names that the kernel would cut short: empty, too long, or with a zero byte.
pub(super) fn check(name: &[u8], limit: usize) -> Result<&[u8], Error> {
    if name.is_empty() || name.len() > limit || name.contains(&0) {
        return Err(Error::Name {
            name: Name::new(name),
            limit,
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped() {
        let name = Name::new(b"a\x1b[2J\xff\n\xe2\x80\xae");
        assert_eq!(name.to_string(), "a\\x1b[2J\\xff\\x0a\\xe2\\x80\\xae");
        assert_eq!(name.as_str(), None);
        assert_eq!(Name::new("enp0s3é".as_bytes()).to_string(), "enp0s3é");
    }

    #[test]
    fn names_the_kernel_would_cut_are_refused() {
        assert!(check(b"eth0", NAME_MAX).is_ok());
        assert!(check(b"123456789012345", NAME_MAX).is_ok());
        for name in [&b""[..], b"1234567890123456", b"a\0b"] {
            assert!(matches!(
                check(name, NAME_MAX),
                Err(Error::Name { limit: 15, .. })
            ));
        }
    }
}

//! Domain names (RFC 1035 section 4.1.4); the number of pointers followed is limited.

use std::fmt::{self, Write as _};

use crate::bytes::{Bytes, Result, Truncated};
use crate::line::Line;

/// The most pointers followed in one name.
const MAX_POINTERS: u8 = 64;
/// The most bytes printed of a name; a longer one is damaged (RFC 1035 section 2.3.4 allows 255).
const MAX_NAME: usize = 1024;

/// The longest name that RFC 1035 section 2.3.4 allows, in bytes.
const STANDARD_NAME: usize = 255;

const POINTER: u8 = 0xc0;

/// The content at an offset in a name.
enum Label<'a> {
    End,
    Text(&'a [u8]),
    /// A pointer to this offset in the message.
    Pointer(usize),
    /// A kind that no standard uses any more.
    Other,
}

fn label(message: &[u8], at: usize) -> Result<Label<'_>> {
    let first = message.u8_at(at)?;
    Ok(match first & POINTER {
        0 if first == 0 => Label::End,
        0 => Label::Text(message.part(at + 1, usize::from(first))?),
        POINTER => Label::Pointer(usize::from(message.u16_at(at)? & 0x3fff)),
        _ => Label::Other,
    })
}

/// Writes the name at `at` with its final dot. Returns the offset after it, or `None` if the name is damaged
/// and nothing after it can be read.
pub(crate) fn print(line: &mut Line, message: &[u8], mut at: usize) -> Result<Option<usize>> {
    let begin = line.len();
    let mut after = None;
    let mut pointers = 0;
    if matches!(label(message, at)?, Label::End) {
        line.str(".");
        return Ok(Some(at + 1));
    }
    loop {
        if line.len() - begin > MAX_NAME {
            line.str("<LONG>");
            return Ok(after);
        }
        match label(message, at)? {
            Label::End => return Ok(after.or(Some(at + 1))),
            Label::Text(text) => {
                line.escaped(text);
                line.str(".");
                at += 1 + text.len();
            }
            Label::Pointer(target) => {
                after = after.or(Some(at + 2));
                pointers += 1;
                // A pointer leads backwards; any other would loop.
                if target >= at || pointers > MAX_POINTERS {
                    line.str("<BAD PTR>");
                    return Ok(None);
                }
                at = target;
                if matches!(label(message, at)?, Label::End) && line.len() == begin {
                    line.str(".");
                }
            }
            Label::Other => {
                line.str("<BAD LABEL TYPE>");
                return Ok(None);
            }
        }
    }
}

/// Returns the offset after the name at `at`.
pub(crate) fn skip(message: &[u8], mut at: usize) -> Result<usize> {
    loop {
        match label(message, at)? {
            Label::End => return Ok(at + 1),
            Label::Text(text) => at += 1 + text.len(),
            Label::Pointer(_) => return Ok(at + 2),
            Label::Other => return Err(Truncated),
        }
    }
}

/// A name as RFC 1035 section 5.1 writes it (`\DDD` for invisible characters), as far as it can be
/// read.
pub(crate) struct Name<'a> {
    pub(crate) message: &'a [u8],
    pub(crate) at: usize,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut at, mut pointers, mut written) = (self.at, 0, 0);
        while written <= STANDARD_NAME {
            match label(self.message, at) {
                Ok(Label::Text(text)) => {
                    for &byte in text {
                        match byte {
                            b'.' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                            _ if byte.is_ascii_graphic() => f.write_char(char::from(byte))?,
                            _ => write!(f, "\\{byte:03}")?,
                        }
                    }
                    f.write_char('.')?;
                    written += 1 + text.len();
                    at += 1 + text.len();
                }
                Ok(Label::Pointer(target)) if target < at && pointers < MAX_POINTERS => {
                    pointers += 1;
                    at = target;
                }
                Ok(Label::End) if written == 0 => return f.write_char('.'),
                _ => break,
            }
        }
        Ok(())
    }
}

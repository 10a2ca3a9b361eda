//! Text of strangers, made printable.

use std::fmt::{self, Write};

/// Writes bytes from the network as printable UTF-8: a byte that is not UTF-8 becomes `\xNN`, a control
/// or invisible formatting character becomes `\u{N}`, a backslash becomes `\\`. All else stays.
///
/// # Errors
/// Returns the error of `out`. Output stops there, never within an escape.
///
/// ```
/// let mut text = String::new();
/// ringtap_inspect::escape(b"caf\xc3\xa9\xff\n\\", &mut text)?;
/// assert_eq!(text, r"café\xff\u{a}\\");
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub fn escape<W: Write + ?Sized>(bytes: &[u8], out: &mut W) -> fmt::Result {
    let plain = bytes.iter().take_while(|byte| is_plain(**byte)).count();
    let (first, rest) = bytes.split_at(plain);
    // All of it is ASCII, as most text is.
    out.write_str(str::from_utf8(first).unwrap_or_default())?;
    if rest.is_empty() {
        return Ok(());
    }
    for chunk in rest.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => write_whole(out, b"\\\\")?,
                shown if is_printable(shown) => out.write_char(shown)?,
                hidden => write_hidden(out, hidden)?,
            }
        }
        for byte in chunk.invalid() {
            let [high, low] = digits(*byte);
            write_whole(out, &[b'\\', b'x', high, low])?;
        }
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'\\'
}

fn write_hidden<W: Write + ?Sized>(out: &mut W, hidden: char) -> fmt::Result {
    let mut text = [0; 10];
    let number = u32::from(hidden);
    let count = (8 - number.leading_zeros() / 4).max(1) as usize;
    text[..3].copy_from_slice(b"\\u{");
    for at in 0..count {
        let nibble = number >> (4 * (count - 1 - at)) & 15;
        text[3 + at] = char::from_digit(nibble, 16).map_or(b'?', |digit| digit as u8);
    }
    text[3 + count] = b'}';
    write_whole(out, &text[..4 + count])
}

/// Writes an escape, which is ASCII, as one piece.
fn write_whole<W: Write + ?Sized>(out: &mut W, text: &[u8]) -> fmt::Result {
    out.write_str(str::from_utf8(text).unwrap_or_default())
}

/// Returns the two hexadecimal digits of a byte.
pub(crate) fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// Returns whether a terminal shows the character, and shows it where it stands.
#[must_use]
pub fn is_printable(character: char) -> bool {
    let is_invisible = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !character.is_control() && !is_invisible
}

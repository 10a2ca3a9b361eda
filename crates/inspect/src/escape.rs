//! Text of strangers, made printable.

use std::fmt::{self, Write};

/// Writes bytes from the network as printable UTF-8: a byte that is not UTF-8 becomes `\xNN`, a control
/// or invisible formatting character becomes `\u{N}`, a backslash becomes `\\`. All else stays.
///
/// # Errors
/// Returns the error of `out`. Output stops there.
///
/// ```
/// let mut text = String::new();
/// ringtap_inspect::escape(b"caf\xc3\xa9\xff\n\\", &mut text)?;
/// assert_eq!(text, r"café\xff\u{a}\\");
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub fn escape<W: Write + ?Sized>(bytes: &[u8], out: &mut W) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.write_str("\\\\")?,
                shown if is_printable(shown) => out.write_char(shown)?,
                hidden => write!(out, "\\u{{{:x}}}", u32::from(hidden))?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Whether a terminal shows the character, and shows it where it stands.
fn is_printable(character: char) -> bool {
    let is_invisible = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !character.is_control() && !is_invisible
}

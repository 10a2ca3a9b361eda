//! RESP, Redis's protocol (<https://redis.io/docs/latest/develop/reference/protocol-spec/>): its values in a row.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;

/// Prints the values of a segment. Arrays are printed as their elements.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.enter("resp");
    cx.line.str("RESP");
    let mut at = 0;
    // The number of values still expected; 0 between two commands.
    let mut expected: u64 = 0;
    while at < data.len() && !cx.line.is_full() {
        let rest = data.rest(at);
        expected = expected.max(1) - 1;
        at += match rest.u8_at(0)? {
            b'+' | b'-' | b':' => 1 + text(cx, rest.rest(1))?,
            b'$' => bulk(cx, rest)?,
            b'*' => {
                let (count, size) = counted(cx, rest)?;
                expected = expected.saturating_add(count.unwrap_or_default());
                size
            }
            _ => {
                // A command typed by hand; empty lines before it do not count.
                let blank = rest
                    .iter()
                    .take_while(|&&byte| byte == b'\r' || byte == b'\n');
                let blank = blank.count();
                blank + text(cx, rest.rest(blank))?
            }
        };
    }
    if expected > 0 {
        return Err(Truncated);
    }
    Ok(())
}

/// Prints the text up to the end of the line; returns its size with the line end.
fn text(cx: &mut Context<'_>, rest: &[u8]) -> Result<usize> {
    let end = line_end(rest)?;
    quoted(cx, rest.up_to(end));
    Ok(end + 2)
}

fn line_end(rest: &[u8]) -> Result<usize> {
    rest.windows(2)
        .position(|pair| pair == b"\r\n")
        .ok_or(Truncated)
}

fn quoted(cx: &mut Context<'_>, text: &[u8]) {
    cx.line.str(" \"");
    cx.line.escaped(text);
    cx.line.str("\"");
}

/// Prints a string after its length; returns the size of both.
fn bulk(cx: &mut Context<'_>, rest: &[u8]) -> Result<usize> {
    let (length, size) = counted(cx, rest)?;
    let length = match length {
        None => return Ok(size),
        // Even an empty string has a line end.
        Some(0) => return rest.part(size, 2).map(|_| size + 2),
        Some(length) => usize::try_from(length).map_err(|_| Truncated)?,
    };
    quoted(cx, rest.part(size, length)?);
    let after = size + length;
    Ok(after + line_end(rest.rest(after))? + 2)
}

/// Returns the number after the first byte, and the size of its line. A number that means a null value is
/// printed.
fn counted(cx: &mut Context<'_>, rest: &[u8]) -> Result<(Option<u64>, usize)> {
    let end = line_end(rest)?;
    let number = rest.part(1, end - 1)?;
    let (negative, digits) = match number {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, number),
    };
    let value = digits.iter().try_fold(0_u32, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit)
    });
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        cx.line.str(" invalid");
        return Err(Truncated);
    }
    let (known, note) = match (negative, value) {
        (_, None) => (None, " length too large"),
        (true, Some(1)) => (None, " null"),
        (true, Some(_)) => (None, " length negative and not -1"),
        (false, Some(0)) => (Some(0), " empty"),
        (false, Some(value)) => (Some(u64::from(value)), ""),
    };
    cx.line.str(note);
    Ok((known, end + 2))
}

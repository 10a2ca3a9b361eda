//! Frames of Initial packets (RFC 9000, section 19), and of Google's versions Q050, T050 and T051.

use super::header::number;

const PADDING: u64 = 0;
const PING: u64 = 1;
const ACK: u64 = 2;
const ACK_WITH_ECN: u64 = 3;
const CRYPTO: u64 = 6;
/// Google's numbers, which RFC 9000 has for frames that Initial packets may not have.
const GOOGLE_PING: u64 = 7;
const GOOGLE_CRYPTO: u64 = 8;

/// Calls `each` with the offset and the bytes of CRYPTO frames, until it returns false.
pub(crate) fn crypto<'a>(
    frames: &'a [u8],
    mut each: impl FnMut(u32, &'a [u8]) -> bool,
) -> Option<()> {
    let mut at = 0;
    while at < frames.len() {
        match number(frames, &mut at)? {
            PADDING => {
                at += frames[at..].iter().take_while(|byte| **byte == 0).count();
            }
            PING | GOOGLE_PING => {}
            kind @ (ACK | ACK_WITH_ECN) => skip_ack(frames, &mut at, kind == ACK_WITH_ECN)?,
            CRYPTO | GOOGLE_CRYPTO => {
                let offset = u32::try_from(number(frames, &mut at)?).ok()?;
                let len = usize::try_from(number(frames, &mut at)?).ok()?;
                let data = frames.get(at..at.checked_add(len)?)?;
                at += len;
                if !each(offset, data) {
                    return Some(());
                }
            }
            _ => return None,
        }
    }
    Some(())
}

fn skip_ack(frames: &[u8], at: &mut usize, has_counts: bool) -> Option<()> {
    number(frames, at)?;
    number(frames, at)?;
    let ranges = number(frames, at)?;
    number(frames, at)?;
    let left = if has_counts { 3 } else { 0 };
    for _ in 0..ranges.checked_mul(2)?.checked_add(left)? {
        number(frames, at)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::crypto;

    fn parts(frames: &[u8]) -> Vec<(u32, &[u8])> {
        let mut parts = Vec::new();
        let _ = crypto(frames, |offset, data| {
            parts.push((offset, data));
            true
        });
        parts
    }

    #[test]
    fn handshakes_are_in_frames_of_both_numbers() {
        let ietf = b"\x01\x06\x00\x03abc\x00\x00\x02\x09\x00\x00\x00\x06\x03\x02de";
        assert_eq!(parts(ietf), [(0, &b"abc"[..]), (3, b"de")]);
        let google = b"\x07\x08\x00\x03abc\x08\x03\x02de\x00";
        assert_eq!(parts(google), [(0, &b"abc"[..]), (3, b"de")]);
        // A frame that is cut, and one that has no place there.
        assert_eq!(parts(b"\x06\x00\x03ab"), []);
        assert_eq!(parts(b"\x1e\x06\x00\x03abc"), []);
    }
}

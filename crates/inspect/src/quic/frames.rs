//! Frames of Initial packets (RFC 9000, section 19).

use super::header::number;

const PADDING: u64 = 0;
const PING: u64 = 1;
const ACK: u64 = 2;
const ACK_WITH_ECN: u64 = 3;
const CRYPTO: u64 = 6;

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
            PING => {}
            kind @ (ACK | ACK_WITH_ECN) => skip_ack(frames, &mut at, kind == ACK_WITH_ECN)?,
            CRYPTO => {
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

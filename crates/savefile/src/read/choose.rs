//! Applies a filter to a stretch of records, and moves the chosen ones together.

use crate::encoding::Encoding;
use crate::filtered::{PacketFilter, Range, Records};

/// Records of fewer bytes are moved together. Measured: from this size on, another piece for the
/// writer costs less than the move.
const SMALL: usize = 512;

/// The memory that a thread needs for applying a filter, kept between stretches.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The start of each record.
    pub(super) starts: Vec<usize>,
    wanted: Vec<bool>,
    /// The numbers of the chosen records, possibly followed by others.
    chosen: Vec<usize>,
}

impl Scratch {
    /// Applies `filter` to the records that begin at [`Scratch::starts`] and fill `bytes`. The
    /// chosen ones are then in `ranges`; the bytes between them are no longer records.
    pub(super) fn choose(
        &mut self,
        filter: &dyn PacketFilter,
        bytes: &mut [u8],
        encoding: Encoding<'_>,
        ranges: &mut Vec<Range>,
    ) {
        self.wanted.clear();
        let records = Records::new(bytes, &self.starts, encoding);
        filter.choose(records, &mut self.wanted);
        ranges.clear();
        let mut range = Range {
            start: 0,
            end: 0,
            packets: 0,
        };
        // So that each record ends where another begins.
        self.starts.push(bytes.len());
        for &index in number_wanted(&self.wanted, &mut self.chosen) {
            let Some(&[start, end]) = self.starts.get(index..index + 2) else {
                break;
            };
            let length = end - start;
            if range.packets > 0 && start != range.end && length >= SMALL {
                ranges.push(range);
                range.packets = 0;
            }
            if range.packets == 0 {
                range = Range {
                    start,
                    end,
                    packets: 1,
                };
                continue;
            }
            if start != range.end {
                bytes.copy_within(start..end, range.end);
            }
            range.end += length;
            range.packets += 1;
        }
        if range.packets > 0 {
            ranges.push(range);
        }
    }
}

/// Returns the numbers of the accepted records, at the start of `numbers`. There is no branch,
/// because the processor could not predict it.
fn number_wanted<'n>(wanted: &[bool], numbers: &'n mut Vec<usize>) -> &'n [usize] {
    if numbers.len() < wanted.len() {
        numbers.resize(wanted.len(), 0);
    }
    let mut count = 0;
    for (index, wanted) in wanted.iter().enumerate() {
        if let Some(number) = numbers.get_mut(count) {
            *number = index;
        }
        count += usize::from(*wanted);
    }
    &numbers[..count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wanted() {
        let mut numbers = Vec::new();
        for (wanted, expected) in [
            (&[false, true, true, false, true][..], &[1, 2, 4][..]),
            (&[true; 3], &[0, 1, 2]),
            (&[false], &[]),
            (&[], &[]),
        ] {
            assert_eq!(number_wanted(wanted, &mut numbers), expected);
        }
    }
}

//! Applying a filter to a stretch of records, and bringing what it chose together.

use std::iter;

use crate::filtered::{PacketFilter, Range, Records};
use crate::run::Encoding;

/// Records of fewer bytes are moved together. Measured: from here on, one more piece for the writer
/// costs less than the move.
const SMALL: usize = 512;

/// What a thread needs to apply a filter, kept from one stretch to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Where each record begins.
    pub(super) starts: Vec<usize>,
    wanted: Vec<bool>,
}

impl Scratch {
    /// Applies `filter` to the records, which begin at [`Scratch::starts`] and fill `bytes`. What
    /// it chose is in `ranges` then; between them, the bytes are no records any more.
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
        let ends = self.starts.iter().skip(1).copied();
        let ends = ends.chain(iter::once(bytes.len()));
        let records = self.starts.iter().copied().zip(ends);
        for ((start, end), _) in records.zip(&self.wanted).filter(|(_, wanted)| **wanted) {
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

//! Where members or frames of a compressed file begin, for an index.

use std::collections::VecDeque;

use crate::index::SeekPoint;

/// Bytes of the uncompressed stream between two places that are kept, at least.
const APART: u64 = 64 * 1024;
/// The number of places that are kept: those of some megabytes, which exceeds the read-ahead.
const KEPT: usize = 128;

/// The last places where members or frames begin.
#[derive(Debug, Default)]
pub(super) struct Starts(VecDeque<SeekPoint>);

impl Starts {
    /// Notes the start of a member or frame.
    pub(super) fn note(&mut self, compressed: u64, uncompressed: u64) {
        let near = |last: &SeekPoint| uncompressed < last.uncompressed.saturating_add(APART);
        if self.0.back().is_some_and(near) {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(SeekPoint {
            compressed,
            uncompressed,
        });
    }

    /// Returns the last one at or before an offset of the uncompressed stream.
    pub(super) fn before(&self, uncompressed: u64) -> Option<SeekPoint> {
        let behind = self
            .0
            .partition_point(|start| start.uncompressed <= uncompressed);
        self.0.get(behind.checked_sub(1)?).copied()
    }
}

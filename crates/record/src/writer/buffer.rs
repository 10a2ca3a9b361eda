//! Memory that a disk accepts directly: it starts at a multiple of [`ALIGNMENT`]. If there is time to wait
//! for them, it uses large pages, so that a write past the page cache finds the memory in one piece.
//! `docs/explanation/writing.md` has the effect.

use ringtap_sys::disk::ALIGNMENT;
use ringtap_sys::memory;

/// The size of a large page, in bytes.
pub(super) const LARGE_PAGE: usize = 2 << 20;

/// Bytes in aligned memory.
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    pub(super) is_large: bool,
}

impl Buffer {
    /// Returns memory for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self::aligned(capacity, ALIGNMENT)
    }

    /// Returns the same in large pages, if there are any, and touches them. That may take the kernel a while,
    /// since it has to move other pages.
    pub(super) fn large(capacity: usize) -> Self {
        let mut buffer = Self::aligned(capacity, LARGE_PAGE);
        let first = buffer.memory.as_ptr().addr() + buffer.start;
        // Small pages work too.
        let _ = memory::prefer_large_pages(first..first + capacity);
        let pages = buffer.memory.get_mut(buffer.start..buffer.start + capacity);
        for page in pages.unwrap_or_default().chunks_mut(ALIGNMENT) {
            if let Some(byte) = page.first_mut() {
                *byte = 1;
            }
        }
        buffer.is_large = true;
        buffer
    }

    fn aligned(capacity: usize, alignment: usize) -> Self {
        // Unused parts are not touched, and so use no memory.
        let memory = vec![0; capacity + alignment];
        let start = memory.as_ptr().align_offset(alignment);
        Self {
            // Without an offset, writes are not aligned, and the disk reports an error.
            start: if start < alignment { start } else { 0 },
            memory,
            len: 0,
            is_large: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory
            .get(self.start..self.start + self.len)
            .unwrap_or_default()
    }

    /// Appends bytes. If there is not enough room, moves everything to larger memory.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let needed = self.len + bytes.len();
        if self.start + needed > self.memory.len() {
            let capacity = needed.next_power_of_two();
            let mut larger = match self.is_large {
                true => Self::large(capacity),
                false => Self::new(capacity),
            };
            larger.push(self.bytes());
            *self = larger;
        }
        let at = self.start + self.len;
        if let Some(room) = self.memory.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len = needed;
        }
    }

    /// Drops all but the last `keep` bytes, and moves these to the front.
    pub(super) fn keep_last(&mut self, keep: usize) {
        let keep = keep.min(self.len);
        let from = self.start + self.len - keep;
        self.memory.copy_within(from..from + keep, self.start);
        self.len = keep;
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_also_when_it_has_grown() {
        let mut buffer = Buffer::new(10);
        let all: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        for part in all.chunks(7) {
            buffer.push(part);
            assert_eq!(buffer.bytes().as_ptr().align_offset(ALIGNMENT), 0);
        }
        assert_eq!(buffer.bytes(), all);
        buffer.keep_last(3);
        assert_eq!(buffer.bytes(), &all[all.len() - 3..]);
        buffer.clear();
        assert_eq!(buffer.len(), 0);
    }
}

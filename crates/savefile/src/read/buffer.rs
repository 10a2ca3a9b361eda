//! The only buffer into which a file is read, and from which its packets are delivered.

use std::io::{self, Read, Seek, SeekFrom};

use crate::fetch::fetch;
use crate::filtered::Range;
use crate::read::ahead::{Ahead, By, HEADROOM, Memory, Stretch, Walked};
use crate::read::choose::Scratch;
use crate::read::mapped::Mapped;
use crate::read::walker::Walker;

/// Bytes of the stream that were read but not consumed, in one piece.
pub(crate) struct Buffer {
    memory: Memory,
    start: usize,
    end: usize,
    /// Offset in the stream of `start`.
    offset: u64,
    /// The mapped file that is used instead of the memory; `start` and `end` are then offsets in
    /// it.
    mapped: Option<Box<dyn Mapped>>,
    /// The error because of which the file cannot be read further.
    lost: Option<io::Error>,
}

/// The most bytes of a mapped file that are delivered at once: they stay in a second-level cache
/// between prefetch and use.
const WINDOW: usize = 256 * 1024;

/// Result of [`Buffer::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Some,
    End,
}

impl Buffer {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            memory: Memory {
                data: vec![0; capacity.max(MIN_CAPACITY)],
                ranges: Vec::new(),
                by: By::Consumer,
            },
            start: 0,
            end: 0,
            offset: 0,
            mapped: None,
            lost: None,
        }
    }

    /// Returns the unconsumed bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.at((self.start, self.end))
    }

    /// Continues in a mapped file, with the unconsumed bytes.
    pub(crate) fn go_on_in(&mut self, mapped: Box<dyn Mapped>) {
        let rest = self.end - self.start;
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if mapped.bytes().len().saturating_sub(start) >= rest {
            self.start = start;
            self.end = start + rest;
            self.mapped = Some(mapped);
        }
    }

    /// Returns the unconsumed bytes if the file is mapped.
    #[inline]
    pub(crate) fn mapped_bytes(&self) -> Option<&[u8]> {
        let mapped = self.mapped.as_ref()?;
        Some(&mapped.bytes()[self.start..self.end])
    }

    /// Extends the bytes of a mapped file, if it may stay mapped, and prefetches the new ones.
    /// Returns the end of the bytes.
    pub(crate) fn look_further(&mut self, need: usize) -> Option<(Filled, u64)> {
        let before = self.end;
        let found = self.look_on(need)?;
        if let Some(mapped) = &self.mapped {
            fetch(&mapped.bytes()[before..self.end]);
        }
        Some(found)
    }

    /// Reads as [`Buffer::look_further`], but leaves the prefetch to the caller.
    pub(crate) fn look_on(&mut self, need: usize) -> Option<(Filled, u64)> {
        let mapped = self.mapped.as_mut()?;
        let len = mapped.bytes().len();
        let before = self.end;
        self.end = len
            .min(before + WINDOW)
            .max(len.min(self.start.saturating_add(need)));
        if !mapped.advance(self.start, self.end) {
            self.end = before;
            self.leave_mapping();
            return None;
        }
        let end = self.end as u64;
        if self.end > before {
            return Some((Filled::Some, end));
        }
        // A process that wants to write to the file need not wait until the rest is processed.
        self.leave_mapping();
        Some((Filled::End, end))
    }

    /// Copies the unconsumed bytes to memory and drops the mapping. The file is then read from
    /// their end on.
    fn leave_mapping(&mut self) {
        let Some(mapped) = self.mapped.take() else {
            return;
        };
        let rest = &mapped.bytes()[self.start..self.end];
        let data = &mut self.memory.data;
        if data.len() < rest.len() {
            data.resize(rest.len(), 0);
        }
        data[..rest.len()].copy_from_slice(rest);
        let read_from = SeekFrom::Start(self.end as u64);
        (self.start, self.end) = (0, rest.len());
        // The mapping has a lease, and overlayfs of Linux 5.10 rejects every call on a file that has one (EIO).
        let file = mapped.file().try_clone();
        drop(mapped);
        self.lost = file.and_then(|mut file| file.seek(read_from)).err();
    }

    /// Returns the offset in the stream of the first byte of [`Buffer::bytes`].
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes the first `count` bytes and returns their place; they stay readable through
    /// [`Buffer::at`] until the next fill.
    pub(crate) fn consume(&mut self, count: usize) -> (usize, usize) {
        let taken = (self.start, self.start + count);
        debug_assert!(taken.1 <= self.end, "consumes what is there");
        self.start = taken.1;
        self.offset += count as u64;
        taken
    }

    /// Returns the bytes that [`Buffer::consume`] took.
    #[inline]
    pub(crate) fn at(&self, (start, end): (usize, usize)) -> &[u8] {
        match &self.mapped {
            None => &self.memory.data[start..end],
            Some(mapped) => &mapped.bytes()[start..end],
        }
    }

    /// Returns the first `count` bytes, and the list for the ranges that a filter chooses from
    /// them.
    pub(crate) fn filterable(&mut self, count: usize) -> (&mut [u8], &mut Vec<Range>) {
        self.leave_mapping();
        let Memory { data, ranges, .. } = &mut self.memory;
        (&mut data[self.start..self.start + count], ranges)
    }

    /// Returns the ranges that a filter chose from the bytes consumed last.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.memory.ranges
    }

    /// Replaces the buffer with the next stretch of a file that is read ahead, with the unconsumed
    /// bytes in front. If a `walker` may continue there, the stretch may have been walked already;
    /// then returns the result too.
    pub(crate) fn take_over(
        &mut self,
        ahead: &mut Ahead,
        walker: Option<Walker>,
        scratch: &mut Scratch,
    ) -> io::Result<(Filled, Option<Walked>)> {
        let rest = self.end - self.start;
        let mut stretch = ahead.next(self.bytes(), walker, scratch)?;
        let filled = if stretch.end > HEADROOM {
            Filled::Some
        } else {
            Filled::End
        };
        let walked = stretch.walked;
        if walked.is_none() {
            if rest > HEADROOM {
                self.append(&stretch);
                ahead.recycle(stretch.memory);
                return Ok((filled, None));
            }
            stretch.put_in_front(self.bytes());
        }
        self.start = stretch.start;
        self.end = stretch.end;
        ahead.recycle(std::mem::replace(&mut self.memory, stretch.memory));
        Ok((filled, walked))
    }

    /// Copies a stretch after the unconsumed bytes, which are the beginning of a record larger than
    /// the headroom. Such a record grows in the buffer as its bytes arrive.
    fn append(&mut self, stretch: &Stretch) {
        let rest = self.end - self.start;
        let data = &mut self.memory.data;
        let new = &stretch.memory.data[HEADROOM..stretch.end];
        if data.len() - self.end < new.len() {
            data.copy_within(self.start..self.end, 0);
            self.end = rest;
            self.start = 0;
            let needed = (rest + new.len()).max(data.len());
            data.resize(needed, 0);
        }
        data[self.end..self.end + new.len()].copy_from_slice(new);
        self.end += new.len();
    }

    /// Reads once, after making room for a structure of `need` bytes. A buffer that is too small
    /// grows by doubling, and only when it is full. So memory grows with the bytes that arrive, not
    /// with the length that a file states.
    pub(crate) fn fill(&mut self, input: &mut impl Read, need: usize) -> io::Result<Filled> {
        if let Some(error) = self.lost.take() {
            return Err(error);
        }
        let data = &mut self.memory.data;
        let rest = self.end - self.start;
        if rest == 0 || self.start + need > data.len() || self.end == data.len() {
            let front = front(data, rest, self.offset);
            data.copy_within(self.start..self.end, front);
            self.start = front;
            self.end = front + rest;
        }
        if self.end == data.len() {
            let doubled = data.len().saturating_mul(2);
            data.resize(doubled, 0);
        }
        loop {
            match input.read(&mut data[self.end..]) {
                Ok(0) => return Ok(Filled::End),
                Ok(count) => {
                    self.end += count;
                    return Ok(Filled::Some);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// At least the size of any fixed header.
const MIN_CAPACITY: usize = 64;

/// Bytes left free in front if copies would be slow.
const ASIDE: usize = 128;
/// With less room after the rest, leaving these bytes free does not pay off.
const MIN_ROOM: usize = 16 * 1024;

/// Returns the place in `data` for the last `rest` bytes, which begin at `offset` of the stream, so
/// that more can be read after them.
///
/// The kernel copies with one instruction. If the destination lies, within a page, up to 63 bytes
/// after the source, some processors treat it as an overlap, and the copy takes up to four times as
/// long (measured on Zen 4, for all pages). Pages of the cache hold a file's bytes at the file's
/// offsets.
fn front(data: &[u8], rest: usize, offset: u64) -> usize {
    const PAGE: usize = 4096;
    const SLOW: usize = 64;
    if data.len() - rest < MIN_ROOM {
        return 0;
    }
    let into = data.as_ptr().addr() % PAGE;
    let from = usize::try_from(offset % PAGE as u64).unwrap_or(0);
    if (into + PAGE - from) % PAGE < SLOW {
        ASIDE
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_only_as_bytes_arrive() {
        let stream = vec![5; 1000];
        let mut input = &stream[..];
        let mut buffer = Buffer::new(64);
        let mut calls = 0;
        while buffer.fill(&mut input, 1 << 40).expect("reads") == Filled::Some {
            calls += 1;
            assert!(buffer.memory.data.len() <= 2 * buffer.end.max(64));
        }
        assert_eq!(buffer.bytes(), stream);
        assert_eq!(calls, 5, "64, 64, 128, 256 and 488 bytes");
    }

    /// Reads as many bytes as there is room for, and records where in a page they were put.
    struct Places {
        offset: usize,
        slow: usize,
        reads: usize,
    }

    impl Read for Places {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let distance = (into.as_ptr().addr() + 4096 - self.offset % 4096) % 4096;
            self.slow += usize::from((1..64).contains(&distance));
            self.reads += 1;
            for (number, byte) in (self.offset..).zip(into.iter_mut()) {
                *byte = number.to_le_bytes()[0];
            }
            self.offset += into.len();
            Ok(into.len())
        }
    }

    #[test]
    fn nothing_is_read_to_where_copies_are_slow() {
        let mut buffer = Buffer::new(24 * 1024);
        let mut input = Places {
            offset: 0,
            slow: 0,
            reads: 0,
        };
        buffer.fill(&mut input, 1).expect("reads");
        // Unread bytes that begin at places so close, within a page, that some copies would be
        // slow.
        for place in (0..4096).step_by(32) {
            let last = buffer.bytes().len() - 4096;
            let to = (place + 4096 - input.offset % 4096) % 4096;
            buffer.consume(last + to);
            let kept = buffer.bytes().to_vec();
            buffer.fill(&mut input, 8192).expect("reads");
            assert!(buffer.bytes().starts_with(&kept));
            let first = buffer.offset().to_le_bytes()[0];
            assert_eq!(buffer.bytes().first(), Some(&first));
            assert_eq!(buffer.offset() % 4096, place as u64);
        }
        assert_eq!((input.slow, input.reads), (0, 129));
    }

    #[test]
    fn moves_the_rest_to_the_front() {
        let stream: Vec<u8> = (0..100).collect();
        let mut input = &stream[..];
        let mut buffer = Buffer::new(64);
        buffer.fill(&mut input, 1).expect("reads");
        let taken = buffer.consume(60);
        assert_eq!(buffer.at(taken), &stream[..60]);
        buffer.fill(&mut input, 8).expect("reads");
        assert_eq!(buffer.bytes(), &stream[60..]);
        assert_eq!(buffer.offset(), 60);
        assert_eq!(buffer.memory.data.len(), 64);
    }
}

//! The one buffer into which a file is read, and in which its packets are handed out.

use std::io::{self, Read};

use crate::filtered::Range;
use crate::read::ahead::{Ahead, By, HEADROOM, Memory, Stretch, Walked};
use crate::read::choose::Scratch;
use crate::read::walker::Walker;

/// Bytes of the stream that were read and not yet consumed, in one piece.
pub(crate) struct Buffer {
    memory: Memory,
    start: usize,
    end: usize,
    /// Offset in the stream of `start`.
    offset: u64,
}

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
        }
    }

    /// The bytes that are there.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory.data[self.start..self.end]
    }

    /// Offset in the stream of the first of [`Buffer::bytes`].
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Lets go of the first `count` bytes and says where they are; they stay readable through
    /// [`Buffer::at`] until the next fill.
    pub(crate) fn consume(&mut self, count: usize) -> (usize, usize) {
        let taken = (self.start, self.start + count);
        debug_assert!(taken.1 <= self.end, "consumes what is there");
        self.start = taken.1;
        self.offset += count as u64;
        taken
    }

    /// The bytes that a [`Buffer::consume`] took.
    #[inline]
    pub(crate) fn at(&self, (start, end): (usize, usize)) -> &[u8] {
        &self.memory.data[start..end]
    }

    /// The first `count` bytes, and the place where is noted what a filter chooses from them.
    pub(crate) fn filterable(&mut self, count: usize) -> (&mut [u8], &mut Vec<Range>) {
        let Memory { data, ranges, .. } = &mut self.memory;
        (&mut data[self.start..self.start + count], ranges)
    }

    /// What a filter chose from the bytes that were consumed last.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.memory.ranges
    }

    /// Takes the next stretch of a file that is read ahead in the place of the buffer, with the
    /// bytes that are there put in front. If a `walker` may go on there, the stretch may have been
    /// walked already; with what result is told.
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

    /// Copies a stretch behind the bytes that are there: the beginning of a record larger than the
    /// headroom, which grows in the buffer as its bytes come.
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

    /// Reads once, after making room for a structure of `need` bytes; a buffer too small for it
    /// grows by doubling, and only once it is full, so that memory follows the bytes that came and
    /// not the length that a file states.
    pub(crate) fn fill(&mut self, input: &mut impl Read, need: usize) -> io::Result<Filled> {
        let data = &mut self.memory.data;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.start + need > data.len() || self.end == data.len() {
            data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
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

/// Holds any fixed header.
const MIN_CAPACITY: usize = 64;

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

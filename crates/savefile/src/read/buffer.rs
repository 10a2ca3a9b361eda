//! The one buffer into which a file is read, and in which its packets are handed out.

use std::io::{self, Read};

use crate::read::ahead::{Ahead, By, HEADROOM, Stretch};

/// Bytes of the stream that were read and not yet consumed, in one piece.
pub(crate) struct Buffer {
    data: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `start`.
    offset: u64,
    /// Who read `data`, where the file is read ahead.
    by: By,
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
            data: vec![0; capacity.max(MIN_CAPACITY)],
            start: 0,
            end: 0,
            offset: 0,
            by: By::Consumer,
        }
    }

    /// The bytes that are there.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
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
        &self.data[start..end]
    }

    /// Takes the next stretch of a file that is read ahead in the place of the buffer, with the
    /// bytes that are there put in front.
    pub(crate) fn take_over(&mut self, ahead: &mut Ahead) -> io::Result<Filled> {
        let Stretch { mut data, end, by } = ahead.next()?;
        let rest = self.end - self.start;
        let filled = if end > HEADROOM {
            Filled::Some
        } else {
            Filled::End
        };
        if let Some(start) = HEADROOM.checked_sub(rest) {
            data[start..HEADROOM].copy_from_slice(self.bytes());
            let before = std::mem::replace(&mut self.by, by);
            ahead.recycle(std::mem::replace(&mut self.data, data), before);
            self.start = start;
            self.end = end;
            return Ok(filled);
        }
        // A record larger than the headroom: it grows in the buffer as its bytes come.
        let new = &data[HEADROOM..end];
        if self.data.len() - self.end < new.len() {
            self.data.copy_within(self.start..self.end, 0);
            self.end = rest;
            self.start = 0;
            let needed = (rest + new.len()).max(self.data.len());
            self.data.resize(needed, 0);
        }
        self.data[self.end..self.end + new.len()].copy_from_slice(new);
        self.end += new.len();
        ahead.recycle(data, by);
        Ok(filled)
    }

    /// Reads once, after making room for a structure of `need` bytes; a buffer too small for it
    /// grows by doubling, and only once it is full, so that memory follows the bytes that came and
    /// not the length that a file states.
    pub(crate) fn fill(&mut self, input: &mut impl Read, need: usize) -> io::Result<Filled> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.start + need > self.data.len() || self.end == self.data.len() {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.data.len() {
            let doubled = self.data.len().saturating_mul(2);
            self.data.resize(doubled, 0);
        }
        loop {
            match input.read(&mut self.data[self.end..]) {
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
            assert!(buffer.data.len() <= 2 * buffer.end.max(64));
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
        assert_eq!(buffer.data.len(), 64);
    }
}

//! gzip members and zstd frames, one after another, decompressed as they come.
//!
//! The decoders' own readers return an error instead of the bytes that they decompressed before it in the
//! same call. This module returns these bytes first: every packet before the damage counts.

use std::io::{self, BufRead as _, BufReader, Read};

use super::Decode;
use super::starts::Starts;
use crate::index::SeekPoint;

/// A decoder of one member (gzip) or frame (zstd).
pub(super) trait Format {
    /// Prepares for the next member.
    fn start(&mut self) -> io::Result<()>;

    /// Decompresses once.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step;
}

/// The result of a decoder's step.
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
    /// Whether the member has ended.
    pub(super) result: io::Result<bool>,
}

/// Members one after another.
pub(super) struct Members<F, R> {
    format: F,
    source: BufReader<R>,
    within: bool,
    /// Whether the decoder may have output for which there was no room.
    more: bool,
    /// The error that was met after the bytes that were given last.
    failed: Option<io::Error>,
    /// Bytes taken from the source and given.
    moved: (u64, u64),
    starts: Starts,
}

impl<F: Format, R: Read> Members<F, R> {
    pub(super) fn new(format: F, source: BufReader<R>) -> Self {
        Self {
            format,
            source,
            within: false,
            more: false,
            failed: None,
            moved: (0, 0),
            starts: Starts::default(),
        }
    }

    /// Decompresses some bytes. Returns 0 at the end of the file, or if there is no input and it must not
    /// wait.
    fn read_once(&mut self, buf: &mut [u8], without_waiting: bool) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            let input = if without_waiting || self.more {
                self.source.buffer()
            } else {
                self.source.fill_buf()?
            };
            if input.is_empty() && !self.more {
                return match self.within && !without_waiting {
                    true => Err(io::ErrorKind::UnexpectedEof.into()),
                    false => Ok(0),
                };
            }
            if !self.within {
                self.format.start()?;
                self.within = true;
                self.starts.note(self.moved.0, self.moved.1);
            }
            let available = input.len();
            let step = self.format.step(input, buf);
            self.source.consume(step.read);
            self.moved.0 += step.read as u64;
            self.moved.1 += step.written as u64;
            let idle = step.read == 0 && step.written == 0;
            let stuck = idle && available > 0;
            self.more = !idle && step.written > 0;
            match step.result {
                Ok(end) => {
                    self.within = !end;
                    self.more &= !end;
                    if stuck && !end {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                Err(error) if step.written == 0 => return Err(error),
                Err(error) => self.failed = Some(error),
            }
            if step.written > 0 {
                return Ok(step.written);
            }
        }
    }
}

impl<F: Format, R: Read> Read for Members<F, R> {
    /// Decompresses the bytes that the source has; waits only if it has none.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            let result = self.read_once(&mut buf[filled..], filled > 0);
            match result {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if filled == 0 => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Ok(filled)
    }
}

impl<F: Format + Send, R: Read + Send> Decode for Members<F, R> {
    fn seek_point(&self, uncompressed: u64) -> Option<SeekPoint> {
        self.starts.before(uncompressed)
    }
}

//! gzip members and zstd frames, one behind another, decompressed as they come.
//!
//! The decoders' own readers give an error instead of what was decompressed before it in the same
//! call. Here such bytes are given first: every packet before the damage counts.

use std::io::{self, BufRead};

use crate::read::starts::Starts;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Logarithm of deflate's largest window.
const GZIP_WINDOW_BITS: u8 = 15;
/// Output that zstd makes in a call, all of which is lost if the call fails.
const ZSTD_CHUNK: usize = 4096;

/// A decoder of one member (gzip) or frame (zstd).
pub(super) trait Codec {
    /// Prepares for the next member.
    fn start(&mut self) -> io::Result<()>;

    /// Decompresses once.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step;
}

/// What a decoder did.
pub(super) struct Step {
    read: usize,
    written: usize,
    /// Whether the member has ended.
    result: io::Result<bool>,
}

/// Members one behind another.
pub(super) struct Members<C, S> {
    codec: C,
    source: S,
    within: bool,
    /// Whether the decoder may have output for which there was no room.
    more: bool,
    /// The error that was met after the bytes that were given last.
    failed: Option<io::Error>,
    /// Bytes taken from the source and given.
    moved: (u64, u64),
    pub(super) starts: Starts,
}

impl<C: Codec, S: BufRead + Buffered> Members<C, S> {
    pub(super) fn new(codec: C, source: S) -> Self {
        Self {
            codec,
            source,
            within: false,
            more: false,
            failed: None,
            moved: (0, 0),
            starts: Starts::default(),
        }
    }

    /// Decompresses into `buf`: what the source has, waiting only while there is nothing at all.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
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

    /// Decompresses some bytes; 0 at the end of the file and, where it must not wait, for want of
    /// input.
    fn read_once(&mut self, buf: &mut [u8], without_waiting: bool) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            let input = if without_waiting || self.more {
                self.source.buffered()
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
                self.codec.start()?;
                self.within = true;
                self.starts.note(self.moved.0, self.moved.1);
            }
            let available = input.len();
            let step = self.codec.step(input, buf);
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

/// A source that can tell what it holds without reading.
pub(super) trait Buffered {
    fn buffered(&self) -> &[u8];
}

impl<R: io::Read> Buffered for io::BufReader<R> {
    fn buffered(&self) -> &[u8] {
        self.buffer()
    }
}

/// gzip (RFC 1952).
pub(super) struct Gzip(Decompress);

impl Gzip {
    pub(super) fn new() -> Self {
        Self(Decompress::new_gzip(GZIP_WINDOW_BITS))
    }
}

impl Codec for Gzip {
    fn start(&mut self) -> io::Result<()> {
        if self.0.total_in() > 0 {
            *self = Self::new();
        }
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let before = (self.0.total_in(), self.0.total_out());
        let result = self.0.decompress(input, output, FlushDecompress::None);
        let moved = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        Step {
            read: moved(self.0.total_in(), before.0),
            written: moved(self.0.total_out(), before.1),
            result: match result {
                Ok(status) => Ok(matches!(status, Status::StreamEnd)),
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            },
        }
    }
}

/// zstd (RFC 8878).
pub(super) struct Zstd(Decoder<'static>);

impl Zstd {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Decoder::new()?))
    }
}

impl Codec for Zstd {
    fn start(&mut self) -> io::Result<()> {
        self.0.reinit()
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let room = output.len().min(ZSTD_CHUNK);
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(&mut output[..room]);
        let result = self.0.run(&mut input, &mut output);
        Step {
            read: input.pos(),
            written: output.pos(),
            result: result.map(|remaining| remaining == 0),
        }
    }
}

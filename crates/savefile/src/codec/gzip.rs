//! gzip: members of deflate (RFC 1951, 1952).

use std::io::{self, BufReader, Read};

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor};

use super::members::{Format, Members, Step};
use super::{Chunks, Decode};

/// Logarithm of deflate's largest window.
const WINDOW_BITS: u8 = 15;
/// The level of libdeflate for each of zlib's: the fastest that makes captures no larger than gzip
/// does at that level, and other bytes larger by little more than a hundredth at most.
const LEVELS: [i32; 10] = [0, 1, 1, 1, 3, 5, 5, 6, 6, 7];

/// Returns a compressor at a level of zlib, 0 to 9.
pub(super) fn compressor(level: u8) -> Box<dyn Chunks> {
    let level = LEVELS.get(usize::from(level));
    let level = level.and_then(|&level| CompressionLvl::new(level).ok());
    Box::new(Deflate(Compressor::new(level.unwrap_or_default())))
}

/// Returns a decoder of all members of `source`.
pub(super) fn decoder(source: BufReader<impl Read + Send + 'static>) -> Box<dyn Decode> {
    Box::new(Members::new(Gzip::new(), source))
}

struct Deflate(Compressor);

impl Chunks for Deflate {
    fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let begin = out.len();
        // Zeroing takes a hundredth of the time of compressing, and less than a retry with less room.
        out.resize(begin + self.0.gzip_compress_bound(chunk.len()), 0);
        let room = out.get_mut(begin..).unwrap_or_default();
        let done = self.0.gzip_compress(chunk, room);
        let length = done.map_err(io::Error::other)?;
        out.truncate(begin + length);
        Ok(())
    }
}

struct Gzip(Decompress);

impl Gzip {
    fn new() -> Self {
        Self(Decompress::new_gzip(WINDOW_BITS))
    }
}

impl Format for Gzip {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libdeflate_has_every_level() {
        for level in LEVELS {
            assert!(CompressionLvl::new(level).is_ok(), "{level}");
        }
    }
}

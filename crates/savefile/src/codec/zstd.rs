//! zstd (RFC 8878): frames to read; to write, one frame of independent jobs.

use std::io::{self, BufReader, Read};
use std::ops::RangeInclusive;

use zstd::stream::raw::{CParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::Strategy;

use super::members::{Format, Members, Step};
use super::{Chunks, Decode, ZSTD_HEADER, ZSTD_WINDOW};

/// Bytes of a job at most: a chunk of the usual size is one.
const JOB: u32 = 2 << 20;
/// How the levels of zstd are made that it was measured for: from and to which level, the way that
/// matches are searched, and logarithms of its tables and of the places looked at. Public
/// captures are larger by 0.6 % at most than `zstd` makes them at that level, mostly smaller.
///
/// Repetitions in packets are short (fields of headers), so matches of four bytes gain more than a long
/// search. The tables fit into the processor's caches, unlike those of zstd's levels for streams. That takes
/// half of the time or less.
const WAYS: [(RangeInclusive<u8>, Strategy, [u32; 2], u32); 3] = [
    (3..=5, Strategy::ZSTD_dfast, [16, 15], 1),
    (6..=6, Strategy::ZSTD_greedy, [17, 16], 3),
    (7..=9, Strategy::ZSTD_greedy, [17, 16], 4),
];
/// Bytes of a match at least, at the levels of [`WAYS`] and those above that have more.
const MIN_MATCH: u32 = 4;
const SHORT_MATCHES: RangeInclusive<u8> = 3..=16;
/// The step by which output grows, in bytes.
const MORE: usize = 64 << 10;

/// Bytes of output per call of the decoder. A call that fails loses all of its output.
const DECODED: usize = 4096;

/// Returns a decoder of all frames of `source`.
pub(super) fn decoder(
    source: BufReader<impl Read + Send + 'static>,
) -> io::Result<Box<dyn Decode>> {
    Ok(Box::new(Members::new(Zstd(Decoder::new()?), source)))
}

/// Contexts of zstd's multi-threaded mode. Its output between two flushes is a job, which does not depend on
/// the previous job: neither on its bytes (no overlap) nor on its codes and offsets. The first job starts
/// with the frame's header, which is dropped here.
///
/// Jobs come one at a time, but a library with one thread may not have finished a job when the next one
/// comes, and would be called repeatedly until it has. So there are two.
pub(super) fn compressor(level: u8) -> io::Result<Box<dyn Chunks>> {
    let mut encoder = Encoder::new(level.into())?;
    encoder.set_parameter(CParameter::ContentSizeFlag(false))?;
    encoder.set_parameter(CParameter::ChecksumFlag(false))?;
    encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW.into()))?;
    if SHORT_MATCHES.contains(&level) {
        encoder.set_parameter(CParameter::MinMatch(MIN_MATCH))?;
    }
    let way = WAYS.into_iter().find(|way| way.0.contains(&level));
    if let Some((_, strategy, [hash, chain], search)) = way {
        encoder.set_parameter(CParameter::Strategy(strategy))?;
        encoder.set_parameter(CParameter::HashLog(hash))?;
        encoder.set_parameter(CParameter::ChainLog(chain))?;
        encoder.set_parameter(CParameter::SearchLog(search))?;
    }
    encoder.set_parameter(CParameter::NbWorkers(2))?;
    encoder.set_parameter(CParameter::JobSize(JOB))?;
    encoder.set_parameter(CParameter::OverlapSizeLog(1))?;
    let mut first = Vec::new();
    encoder.compress(&[0], &mut first)?;
    if first.starts_with(&ZSTD_HEADER) {
        return Ok(Box::new(encoder));
    }
    Err(io::Error::other("zstd writes another header than expected"))
}

impl Chunks for Encoder<'static> {
    fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut input = InBuffer::around(chunk);
        loop {
            if out.capacity() == out.len() {
                out.reserve(MORE);
            }
            let end = out.len();
            let mut output = OutBuffer::around_pos(out, end);
            if input.pos() < chunk.len() {
                self.run(&mut input, &mut output)?;
            } else if self.flush(&mut output)? == 0 {
                return Ok(());
            }
        }
    }
}

struct Zstd(Decoder<'static>);

impl Format for Zstd {
    fn start(&mut self) -> io::Result<()> {
        self.0.reinit()
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let room = output.len().min(DECODED);
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

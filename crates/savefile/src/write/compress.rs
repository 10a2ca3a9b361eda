//! Compression in chunks that know nothing of each other, so that several threads make them and a
//! reader may begin at any of them.
//!
//! What it is: bytes of a stream in, bytes of a file out, chunk by chunk. What it is not: it has no
//! thread and no order; whoever calls puts the chunks behind one another, with what
//! [`Codec::begin`] gives before and [`Codec::end`] behind them.
//!
//! A chunk is a gzip member, a block of one lz4 frame, or a job of one zstd frame: blocks that refer
//! to nothing before them. zstd and lz4 files are one frame each since there are readers in use that
//! take the end of the first one for the end of the compression, Wireshark 4.0 among them. To begin
//! at a chunk, [`Codec::begin`] is put before it.

use std::fmt;
use std::io::{self, Write as _};
use std::str::FromStr;

use libdeflater::{CompressionLvl, Compressor as Deflate};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::Strategy;

/// The level of libdeflate for each of zlib's: the fastest that makes captures no larger than gzip
/// does at that level, and other bytes larger by little more than a hundredth at most.
const DEFLATE_LEVELS: [i32; 10] = [0, 1, 1, 1, 3, 5, 5, 6, 6, 7];
/// Logarithm of zstd's window: no match reaches out of a chunk of the usual size.
const ZSTD_WINDOW: u8 = 20;
/// Bytes of a job at most: a chunk of the usual size is one.
const ZSTD_JOB: u32 = 2 << 20;
/// How the levels of zstd are made that it was measured for: from and to which level, the way that
/// matches are searched, and logarithms of its tables and of the places looked at. Public
/// captures are larger by 0.6 % at most than `zstd` makes them at that level, mostly smaller.
///
/// What repeats in packets is short, the fields of headers: matches of four bytes gain more than
/// searching long does, and where the tables fit into the processor's caches, which those of zstd's
/// levels for streams do not, that takes half of the time or less.
const ZSTD_WAYS: [ZstdWay; 3] = [
    ZstdWay {
        levels: (3, 5),
        strategy: Strategy::ZSTD_dfast,
        tables: (16, 15),
        search: 1,
    },
    ZstdWay {
        levels: (6, 6),
        strategy: Strategy::ZSTD_greedy,
        tables: (17, 16),
        search: 3,
    },
    ZstdWay {
        levels: (7, 9),
        strategy: Strategy::ZSTD_greedy,
        tables: (17, 16),
        search: 4,
    },
];
/// Bytes of a match at least, at the levels of [`ZSTD_WAYS`] and those above that have more.
const ZSTD_MATCH: u32 = 4;
const ZSTD_SHORT_MATCHES: std::ops::RangeInclusive<u8> = 3..=16;
/// A frame of zstd without checksum and size, and its window (RFC 8878, 3.1.1.1).
const ZSTD_HEADER: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, (ZSTD_WINDOW - 10) << 3];
/// The last block of a zstd frame: raw and empty (RFC 8878, 3.1.1.2).
const ZSTD_END: [u8; 3] = [1, 0, 0];
/// A frame of lz4 with independent blocks of 4 MiB at most, each with its checksum.
const LZ4_HEADER: usize = 7;
/// A block of no length ends an lz4 frame.
const LZ4_END: [u8; 4] = [0; 4];
/// Room that output grows by where it is short, in bytes.
const MORE: usize = 64 << 10;

/// How a file is compressed.
///
/// ```
/// use ringtap_savefile::Codec;
///
/// let codec: Codec = "zstd:3".parse().unwrap();
/// let mut compressor = codec.compressor().unwrap();
/// let mut file = codec.begin().to_vec();
/// for chunk in [b"one ".as_slice(), b"two"] {
///     compressor.compress(chunk, &mut file).unwrap();
/// }
/// file.extend_from_slice(codec.end());
/// assert_eq!(codec.to_string(), "zstd:3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// gzip members of deflate (RFC 1951, 1952), level 0 to 9.
    Zlib(u8),
    /// zstd (RFC 8878), level 1 to 19.
    Zstd(u8),
    /// The frame format of lz4.
    Lz4,
}

/// A codec that is not known, or a level that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected zlib:0 to zlib:9, zstd:1 to zstd:19, or lz4")]
pub struct CodecError;

impl Codec {
    /// What a file begins with, before its first chunk.
    #[must_use]
    pub fn begin(self) -> &'static [u8] {
        match self {
            Self::Zlib(_) => &[],
            Self::Zstd(_) => &ZSTD_HEADER,
            // FLG: version 1, independent blocks, block checksums; BD: 4 MiB; their checksum.
            Self::Lz4 => &[0x04, 0x22, 0x4d, 0x18, 0x70, 0x70, 0x72],
        }
    }

    /// What a file ends with, behind its last chunk.
    #[must_use]
    pub fn end(self) -> &'static [u8] {
        match self {
            Self::Zlib(_) => &[],
            Self::Zstd(_) => &ZSTD_END,
            Self::Lz4 => &LZ4_END,
        }
    }

    /// What the codec is called in a file's name: `gz`, `zst` or `lz4`.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zlib(_) => "gz",
            Self::Zstd(_) => "zst",
            Self::Lz4 => "lz4",
        }
    }

    /// The codec of such a name, at its usual level.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "gz" => Some(Self::Zlib(6)),
            "zst" => Some(Self::Zstd(3)),
            "lz4" => Some(Self::Lz4),
            _ => None,
        }
    }

    /// A compressor, of which each thread has its own.
    ///
    /// # Errors
    /// The library has no memory or thread to give.
    pub fn compressor(self) -> io::Result<Compressor> {
        Ok(Compressor(match self {
            Self::Zlib(level) => Inner::Zlib(Box::new(Deflate::new(deflate_level(level)))),
            Self::Zstd(level) => Inner::Zstd(zstd(level)?),
            Self::Lz4 => Inner::Lz4(Box::new(FrameEncoder::with_frame_info(
                FrameInfo::new()
                    .block_mode(BlockMode::Independent)
                    .block_size(BlockSize::Max4MB)
                    .block_checksums(true),
                Vec::new(),
            ))),
        }))
    }
}

/// See [`ZSTD_WAYS`].
struct ZstdWay {
    levels: (u8, u8),
    strategy: Strategy,
    tables: (u32, u32),
    search: u32,
}

fn deflate_level(level: u8) -> CompressionLvl {
    let level = DEFLATE_LEVELS.get(usize::from(level));
    let level = level.and_then(|&level| CompressionLvl::new(level).ok());
    level.unwrap_or_default()
}

/// Contexts of zstd's multi-threaded mode: what it makes of one flush to the next is a job, which
/// knows nothing of the job before, neither its bytes (no overlap) nor its codes and offsets. The
/// first has the frame's header in front, which is thrown away here.
///
/// Jobs come one at a time, but a library with one thread may find it not yet done with the job
/// before when the next one comes, and asks for it again and again until it is: hence two.
fn zstd(level: u8) -> io::Result<Encoder<'static>> {
    let mut encoder = Encoder::new(level.into())?;
    encoder.set_parameter(CParameter::ContentSizeFlag(false))?;
    encoder.set_parameter(CParameter::ChecksumFlag(false))?;
    encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW.into()))?;
    if ZSTD_SHORT_MATCHES.contains(&level) {
        encoder.set_parameter(CParameter::MinMatch(ZSTD_MATCH))?;
    }
    let mut ways = ZSTD_WAYS.iter();
    if let Some(way) = ways.find(|way| (way.levels.0..=way.levels.1).contains(&level)) {
        let (hash, chain) = way.tables;
        encoder.set_parameter(CParameter::Strategy(way.strategy))?;
        encoder.set_parameter(CParameter::HashLog(hash))?;
        encoder.set_parameter(CParameter::ChainLog(chain))?;
        encoder.set_parameter(CParameter::SearchLog(way.search))?;
    }
    encoder.set_parameter(CParameter::NbWorkers(2))?;
    encoder.set_parameter(CParameter::JobSize(ZSTD_JOB))?;
    encoder.set_parameter(CParameter::OverlapSizeLog(1))?;
    let mut first = Vec::new();
    zstd_chunk(&mut encoder, &[0], &mut first)?;
    if first.starts_with(&ZSTD_HEADER) {
        return Ok(encoder);
    }
    Err(io::Error::other("zstd writes another header than expected"))
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zlib(level) => write!(f, "zlib:{level}"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Lz4 => f.write_str("lz4"),
        }
    }
}

impl FromStr for Codec {
    type Err = CodecError;

    /// `zlib:0-9`, `zstd:1-19`, `lz4`; without a level the usual one.
    fn from_str(text: &str) -> Result<Self, CodecError> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse().map_err(|_| CodecError)?)),
            None => (text, None),
        };
        match (name, level) {
            ("zlib" | "gzip", None) => Ok(Self::Zlib(6)),
            ("zlib" | "gzip", Some(level @ 0..=9)) => Ok(Self::Zlib(level)),
            ("zstd", None) => Ok(Self::Zstd(3)),
            ("zstd", Some(level @ 1..=19)) => Ok(Self::Zstd(level)),
            ("lz4", None) => Ok(Self::Lz4),
            _ => Err(CodecError),
        }
    }
}

/// Makes compressed chunks; what it needs it keeps from chunk to chunk.
pub struct Compressor(Inner);

enum Inner {
    Zlib(Box<Deflate>),
    Zstd(Encoder<'static>),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
}

impl Compressor {
    /// Appends the compressed form of a chunk.
    ///
    /// # Errors
    /// The library fails, which it does not for want of anything in the chunk.
    pub fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        match &mut self.0 {
            Inner::Zlib(compress) => zlib_chunk(compress, chunk, out),
            Inner::Zstd(encoder) => zstd_chunk(encoder, chunk, out),
            Inner::Lz4(encoder) => lz4_chunk(encoder, chunk, out),
        }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

fn zlib_chunk(compress: &mut Deflate, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let begin = out.len();
    // Zeroing takes a hundredth of the time of compressing, and less than to try with less room.
    out.resize(begin + compress.gzip_compress_bound(chunk.len()), 0);
    let room = out.get_mut(begin..).unwrap_or_default();
    let done = compress.gzip_compress(chunk, room);
    let length = done.map_err(io::Error::other)?;
    out.truncate(begin + length);
    Ok(())
}

fn zstd_chunk(encoder: &mut Encoder<'_>, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut input = InBuffer::around(chunk);
    loop {
        if out.capacity() == out.len() {
            out.reserve(MORE);
        }
        let end = out.len();
        let mut output = OutBuffer::around_pos(out, end);
        if input.pos() < chunk.len() {
            encoder.run(&mut input, &mut output)?;
        } else if encoder.flush(&mut output)? == 0 {
            return Ok(());
        }
    }
}

fn lz4_chunk(
    encoder: &mut FrameEncoder<Vec<u8>>,
    chunk: &[u8],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    encoder.get_mut().clear();
    encoder.write_all(chunk)?;
    encoder.try_finish()?;
    let frame = encoder.get_ref();
    let blocks = frame
        .len()
        .checked_sub(LZ4_END.len())
        .and_then(|end| frame.get(LZ4_HEADER..end));
    out.extend_from_slice(blocks.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const ALL: [Codec; 6] = [
        Codec::Zlib(0),
        Codec::Zlib(9),
        Codec::Zstd(1),
        Codec::Zstd(7),
        Codec::Zstd(19),
        Codec::Lz4,
    ];

    /// Chunks that begin with what offsets of 1, 4 and 8 would match, which is where offsets from
    /// another chunk would do harm.
    fn chunks() -> Vec<Vec<u8>> {
        let mut chunks = vec![vec![7; 10_000], Vec::new(), b"abcdabcdabcd".to_vec()];
        for period in [1_usize, 3, 4, 8, 12, 100] {
            let chunk = (0..60_000_usize).map(|i| (i % period * 31 + i / 1000).to_le_bytes()[0]);
            chunks.push(chunk.collect());
        }
        let mut noise = 1_u32;
        let bytes = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.to_be_bytes()[0]
        });
        chunks.push(bytes.take(150_000).collect());
        chunks
    }

    fn decompressed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let read = match codec {
            Codec::Zlib(_) => flate2::bufread::MultiGzDecoder::new(bytes).read_to_end(&mut out),
            Codec::Zstd(_) => {
                zstd::Decoder::new(bytes).and_then(|mut decoder| decoder.read_to_end(&mut out))
            }
            Codec::Lz4 => lz4_flex::frame::FrameDecoder::new(bytes).read_to_end(&mut out),
        };
        read.unwrap();
        out
    }

    #[test]
    fn chunks_of_several_compressors_are_one_file() {
        for codec in ALL {
            let mut compressors = [codec.compressor().unwrap(), codec.compressor().unwrap()];
            let mut file = codec.begin().to_vec();
            let chunks = chunks();
            for (number, chunk) in chunks.iter().enumerate() {
                compressors[number % 2].compress(chunk, &mut file).unwrap();
            }
            file.extend_from_slice(codec.end());
            assert_eq!(decompressed(codec, &file), chunks.concat(), "{codec}");
        }
    }

    #[test]
    fn a_reader_may_begin_at_any_chunk() {
        for codec in ALL {
            let mut compressor = codec.compressor().unwrap();
            for chunk in chunks().into_iter().filter(|chunk| !chunk.is_empty()) {
                let mut file = codec.begin().to_vec();
                compressor.compress(&chunk, &mut file).unwrap();
                file.extend_from_slice(codec.end());
                assert!(decompressed(codec, &file) == chunk, "{codec}");
            }
        }
    }

    #[test]
    fn a_level_of_zlib_is_no_larger_than_the_one_below() {
        let mut noise = 1_u32;
        let mut word = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 20) * (noise >> 24)
        };
        let text: Vec<String> = (0..20_000).map(|_| word().to_string()).collect();
        let text = text.join(" ");
        let sizes = (0..=9_u8).map(|level| {
            assert!(CompressionLvl::new(DEFLATE_LEVELS[usize::from(level)]).is_ok());
            let mut out = Vec::new();
            let mut compressor = Codec::Zlib(level).compressor().unwrap();
            compressor.compress(text.as_bytes(), &mut out).unwrap();
            out.len()
        });
        let sizes: Vec<usize> = sizes.collect();
        assert!(
            sizes.is_sorted_by(|below, level| level <= below),
            "{sizes:?}"
        );
        assert!(sizes[9] < sizes[1], "{sizes:?}");
    }

    /// Packets of a few flows: heads that differ in a few bytes, and text and noise behind them.
    fn packets() -> Vec<u8> {
        let mut noise = 1_u32;
        let mut number = move || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise >> 16
        };
        let mut bytes = Vec::new();
        for packet in 0..5_000_u32 {
            let flow = number() % 50;
            let [.., low] = flow.to_be_bytes();
            bytes.extend_from_slice(&(1_700_000_000 + packet / 1000).to_le_bytes());
            bytes.extend_from_slice(&(packet % 1000 * 1000 + number() % 900).to_le_bytes());
            bytes.extend_from_slice(&[0x45, 0, 0, 120, 64, 17, 10, 0, 7, low, 192, 168, low, 1]);
            bytes.extend_from_slice(&(flow * 1_000_003).to_be_bytes());
            for _ in 0..number() % 12 {
                bytes.extend_from_slice(format!("name-{}.example ", number() % 3000).as_bytes());
            }
            bytes.extend((0..number() % 60).map(|_| number().to_le_bytes()[0]));
        }
        bytes
    }

    #[test]
    fn no_level_of_zstd_makes_packets_larger_than_zstd_s_own_by_more_than_a_twentieth() {
        let packets = packets();
        for level in [1, 2, 3, 5, 6, 7, 9, 10, 13, 16, 19] {
            let own = zstd::bulk::compress(&packets, level.into()).unwrap();
            let mut out = Vec::new();
            let mut compressor = Codec::Zstd(level).compressor().unwrap();
            compressor.compress(&packets, &mut out).unwrap();
            let (size, own) = (out.len(), own.len());
            assert!(size <= own + own / 20, "level {level}: {size}, {own}");
        }
    }

    #[test]
    fn the_head_of_an_lz4_frame_is_the_library_s() {
        let Inner::Lz4(mut encoder) = Codec::Lz4.compressor().unwrap().0 else {
            panic!("not lz4");
        };
        encoder.write_all(b"x").unwrap();
        encoder.try_finish().unwrap();
        assert_eq!(encoder.get_ref()[..LZ4_HEADER], *Codec::Lz4.begin());
    }

    #[test]
    fn codecs_are_named_with_their_levels() {
        for codec in ALL {
            assert_eq!(codec.to_string().parse(), Ok(codec));
            let usual = Codec::of_extension(codec.extension()).unwrap();
            assert_eq!(usual.extension(), codec.extension());
        }
        assert_eq!("zlib".parse(), Ok(Codec::Zlib(6)));
        for wrong in ["zlib:10", "zstd:0", "zstd:20", "lz4:1", "xz", "", "zlib:"] {
            assert_eq!(wrong.parse::<Codec>(), Err(CodecError), "{wrong}");
        }
    }
}

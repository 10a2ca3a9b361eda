//! Compression of capture files: gzip, zstd and lz4, each a cargo feature.
//!
//! Reading: a [`Decode`] undoes the compression of a stream ([`Compression`]).
//!
//! Writing: a [`Compressor`] makes chunks that do not refer to one another, so several threads
//! can make them and a reader can start at any of them. The caller writes [`Codec::begin`], the chunks in
//! their order, and [`Codec::end`].
//!
//! A chunk is a gzip member, a block of one lz4 frame, or a job of one zstd frame. zstd and lz4 files
//! are one frame each, because some readers, Wireshark 4.0 among them, stop at the end of the first
//! frame. To begin at a chunk, a reader puts [`Codec::begin`] before it.

#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(any(feature = "gzip", feature = "zstd"))]
mod members;
#[cfg(any(feature = "gzip", feature = "lz4", feature = "zstd"))]
mod starts;
#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;
use std::io::{self, BufReader, Read};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::index::SeekPoint;

/// Number of bytes by which [`Compression::detect`] recognizes a compression.
pub(crate) const MAGIC_LEN: usize = 4;

const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD_MAGIC: u32 = 0xfd2f_b528;
const LZ4_MAGIC: u32 = 0x184d_2204;
/// Frames without content, which zstd and lz4 share: sixteen magics from this on.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;

/// Logarithm of the window of zstd, in bytes. No match reaches out of a chunk of the usual size.
const ZSTD_WINDOW: u8 = 20;
/// A frame of zstd without checksum and size, and its window (RFC 8878, 3.1.1.1).
const ZSTD_HEADER: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, (ZSTD_WINDOW - 10) << 3];
/// The last block of a zstd frame: raw and empty (RFC 8878, 3.1.1.2).
const ZSTD_END: [u8; 3] = [1, 0, 0];
/// A frame of lz4 with independent blocks of 4 MiB at most, each with its checksum.
/// FLG: version 1, independent blocks, block checksums; BD: 4 MiB; their checksum.
const LZ4_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x70, 0x70, 0x72];
/// A block of no length ends an lz4 frame.
const LZ4_END: [u8; 4] = [0; 4];

/// A compression that the reader supports, if the crate has the feature of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip (RFC 1952), of any number of members.
    Gzip,
    /// zstd (RFC 8878), of any number of frames.
    Zstd,
    /// lz4 frames, of any number.
    Lz4,
}

impl Compression {
    /// Returns the compression of a stream that begins with these bytes.
    pub(crate) fn detect(magic: &[u8]) -> Option<Self> {
        if magic.starts_with(&GZIP_MAGIC) {
            return Some(Self::Gzip);
        }
        match u32::from_le_bytes(*magic.first_chunk()?) {
            // zstd's decoder skips such frames, and lz4 files hardly begin with one.
            ZSTD_MAGIC => Some(Self::Zstd),
            magic if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC => Some(Self::Zstd),
            LZ4_MAGIC => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Returns a decoder of `source`, a stream of which `consumed` bytes were read.
    pub(crate) fn decoder(
        self,
        source: BufReader<impl Read + Send + 'static>,
        consumed: &Arc<AtomicU64>,
    ) -> io::Result<Box<dyn Decode>> {
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => Ok(gzip::decoder(source)),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstd::decoder(source),
            #[cfg(feature = "lz4")]
            Self::Lz4 => Ok(lz4::decoder(source, Arc::clone(consumed))),
            #[cfg(not(all(feature = "gzip", feature = "zstd", feature = "lz4")))]
            _ => {
                drop((source, consumed));
                Err(unsupported(self))
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        })
    }
}

/// Decompresses a stream.
pub(crate) trait Decode: Read + Send {
    /// Returns the last place at or before `uncompressed`, a place of the uncompressed stream, at which
    /// decompression can begin, if it is known.
    fn seek_point(&self, uncompressed: u64) -> Option<SeekPoint>;
}

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
    /// Returns the bytes that a file begins with, before its first chunk.
    #[must_use]
    pub fn begin(self) -> &'static [u8] {
        self.facts().0
    }

    /// Returns the bytes that a file ends with, after its last chunk.
    #[must_use]
    pub fn end(self) -> &'static [u8] {
        self.facts().1
    }

    /// Returns the extension of such files' names: `gz`, `zst` or `lz4`.
    #[must_use]
    pub fn extension(self) -> &'static str {
        self.facts().2
    }

    /// Returns the first and the last bytes of a file, and the extension of its name.
    fn facts(self) -> (&'static [u8], &'static [u8], &'static str) {
        match self {
            Self::Zlib(_) => (&[], &[], "gz"),
            Self::Zstd(_) => (&ZSTD_HEADER, &ZSTD_END, "zst"),
            Self::Lz4 => (&LZ4_HEADER, &LZ4_END, "lz4"),
        }
    }

    /// Returns the codec of files with this extension, at its usual level.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<Self> {
        let mut usual = [Self::Zlib(6), Self::Zstd(3), Self::Lz4].into_iter();
        usual.find(|codec| codec.extension().eq_ignore_ascii_case(extension))
    }

    /// Returns a compressor, for one thread.
    ///
    /// # Errors
    /// The library has no memory or thread available, or the crate was built without the codec's feature
    /// (`gzip`, `zstd` or `lz4`).
    pub fn compressor(self) -> io::Result<Compressor> {
        match self {
            #[cfg(feature = "gzip")]
            Self::Zlib(level) => Ok(Compressor(gzip::compressor(level))),
            #[cfg(feature = "zstd")]
            Self::Zstd(level) => zstd::compressor(level).map(Compressor),
            #[cfg(feature = "lz4")]
            Self::Lz4 => Ok(Compressor(lz4::compressor())),
            #[cfg(not(all(feature = "gzip", feature = "zstd", feature = "lz4")))]
            _ => Err(unsupported(self.compression())),
        }
    }

    /// Returns the compression of the files that this codec makes.
    #[cfg(not(all(feature = "gzip", feature = "zstd", feature = "lz4")))]
    fn compression(self) -> Compression {
        match self {
            Self::Zlib(_) => Compression::Gzip,
            Self::Zstd(_) => Compression::Zstd,
            Self::Lz4 => Compression::Lz4,
        }
    }
}

#[cfg(not(all(feature = "gzip", feature = "zstd", feature = "lz4")))]
fn unsupported(compression: Compression) -> io::Error {
    let message = format!(
        "{compression} is not supported: ringtap-savefile was built without the feature {compression}"
    );
    io::Error::new(io::ErrorKind::Unsupported, message)
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

    /// Parses `zlib:0-9`, `zstd:1-19` or `lz4`. Without a level it is the usual one.
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

/// Compresses chunk after chunk. It keeps its memory from one chunk to the next.
pub struct Compressor(Box<dyn Chunks>);

/// A codec's way to compress a chunk that is not empty.
trait Chunks: Send {
    fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()>;
}

impl Compressor {
    /// Appends the compressed form of a chunk.
    ///
    /// # Errors
    /// The library fails, for a reason that is not in the chunk.
    pub fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        self.0.compress(chunk, out)
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(all(feature = "gzip", feature = "lz4", feature = "zstd"))]
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
                ::zstd::Decoder::new(bytes).and_then(|mut decoder| decoder.read_to_end(&mut out))
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

    /// Packets of a few flows: heads that differ in a few bytes, and text and noise after them.
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
            let own = ::zstd::bulk::compress(&packets, level.into()).unwrap();
            let mut out = Vec::new();
            let mut compressor = Codec::Zstd(level).compressor().unwrap();
            compressor.compress(&packets, &mut out).unwrap();
            let (size, own) = (out.len(), own.len());
            assert!(size <= own + own / 20, "level {level}: {size}, {own}");
        }
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

#[cfg(test)]
#[cfg(not(feature = "zstd"))]
mod tests_without_zstd {
    use super::*;

    #[test]
    fn files_of_a_codec_that_is_left_out_are_refused_by_name() {
        let Err(error) = crate::Reader::new(
            Box::new(&ZSTD_HEADER[..]),
            "x",
            &crate::ReadOptions::default(),
        ) else {
            panic!("a zstd file is read without zstd");
        };
        let error = error.to_string();
        assert!(error.contains("without the feature zstd"), "{error}");
        assert!(Codec::Zstd(3).compressor().is_err());
    }
}

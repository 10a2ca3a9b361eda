//! The stream of bytes under the reader: plain, or decompressed on the fly.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lz4_flex::frame::FrameDecoder;

use crate::ReadOptions;
use crate::filtered::PacketFilter;
use crate::index::SeekPoint;
use crate::read::ahead::{Ahead, MIN_LEFT};
use crate::read::members::{Gzip, Members, Zstd};
use crate::read::starts::Starts;

/// Compressed bytes read at once.
const COMPRESSED_BUFFER: usize = 128 * 1024;

/// First bytes of what can be told apart.
pub(crate) const MAGIC_LEN: usize = 4;

const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD_MAGIC: u32 = 0xfd2f_b528;
const LZ4_MAGIC: u32 = 0x184d_2204;
/// Frames without content, which zstd and lz4 share: sixteen magics from this on.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;

/// A compression that the reader undoes.
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
    /// What a stream that begins with these bytes is compressed with.
    pub(super) fn detect(magic: &[u8]) -> Option<Self> {
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

/// What a reader gets of a compressed stream that is cut anywhere: all that can be decompressed of
/// `bytes`, which begin with a member or frame. What is wrong behind that is no error.
#[must_use]
pub fn decompressed_start(bytes: &[u8]) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(mut input) = Input::new(Box::new(Cursor::new(bytes.to_vec()))) {
        // It keeps what came before the end or the damage.
        let _ = input.read_to_end(&mut start);
    }
    start
}

/// The bytes of a file, decompressed, and how many of them were read.
pub(crate) struct Input {
    decoder: Decoder,
    consumed: Arc<AtomicU64>,
    ahead: ReadAhead,
}

/// Whether an uncompressed file is read ahead.
enum ReadAhead {
    No,
    /// It can be, once the reader is past its header. Not before: the thread is to have what
    /// privileges the caller has kept when it reads the packets.
    Possible(File),
    /// One thread is to read it, or there is one processor only.
    Alone(File),
    Started(Ahead),
}

enum Decoder {
    Plain(Source),
    Gzip(Box<Members<Gzip, BufReader<Source>>>),
    Zstd(Box<Members<Zstd, BufReader<Source>>>),
    Lz4(Box<Lz4Frames>),
}

/// What was read to detect the compression, then the rest.
type Source = Chain<Cursor<Vec<u8>>, Counted>;

impl Input {
    /// Detects the compression by the first bytes.
    pub(crate) fn new(raw: Box<dyn Read + Send>) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut counted = Counted {
            raw,
            consumed: Arc::clone(&consumed),
        };
        let mut magic = Vec::with_capacity(MAGIC_LEN);
        (&mut counted)
            .take(MAGIC_LEN as u64)
            .read_to_end(&mut magic)?;
        let compression = Compression::detect(&magic);
        let source = Cursor::new(magic).chain(counted);
        let buffered = |source| BufReader::with_capacity(COMPRESSED_BUFFER, source);
        let decoder = match compression {
            None => Decoder::Plain(source),
            Some(Compression::Gzip) => {
                Decoder::Gzip(Box::new(Members::new(Gzip::new(), buffered(source))))
            }
            Some(Compression::Zstd) => {
                Decoder::Zstd(Box::new(Members::new(Zstd::new()?, buffered(source))))
            }
            Some(Compression::Lz4) => {
                let frames = Lz4Frames::new(buffered(source), Arc::clone(&consumed));
                Decoder::Lz4(Box::new(frames))
            }
        };
        Ok(Self {
            decoder,
            consumed,
            ahead: ReadAhead::No,
        })
    }

    /// As [`Input::new`] for a file that stands at its beginning; a large one is read ahead.
    pub(crate) fn open(file: File, options: &ReadOptions) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let large = metadata.is_file() && metadata.len() > MIN_LEFT;
        let second = if large && (options.read_ahead || options.map.is_some()) {
            Some(file.try_clone()?)
        } else {
            None
        };
        let mut input = Self::new(Box::new(file))?;
        if let (Decoder::Plain(_), Some(file)) = (&input.decoder, second) {
            input.ahead = if options.read_ahead {
                ReadAhead::Possible(file)
            } else {
                ReadAhead::Alone(file)
            };
        }
        Ok(input)
    }

    /// The file that is read ahead, in stretches of `size` bytes, and filtered there, if it is.
    pub(crate) fn ahead(
        &mut self,
        size: usize,
        filter: Option<&Arc<dyn PacketFilter>>,
    ) -> Option<&mut Ahead> {
        if let ReadAhead::Possible(_) = self.ahead
            && let ReadAhead::Possible(file) = std::mem::replace(&mut self.ahead, ReadAhead::No)
        {
            // To be asked once only: the answer takes the standard library a dozen system calls.
            if processors() == 1 {
                self.ahead = ReadAhead::Alone(file);
            } else if let Ok(ahead) =
                // Without a second thread it is read by one.
                Ahead::start(file, self.consumed(), size, filter.cloned())
            {
                self.ahead = ReadAhead::Started(ahead);
            }
        }
        match &mut self.ahead {
            ReadAhead::Started(ahead) => Some(ahead),
            ReadAhead::No | ReadAhead::Possible(_) | ReadAhead::Alone(_) => None,
        }
    }

    /// The file, where it is large and this thread only reads it; once.
    pub(crate) fn take_alone(&mut self) -> Option<File> {
        match std::mem::replace(&mut self.ahead, ReadAhead::No) {
            ReadAhead::Alone(file) => Some(file),
            other => {
                self.ahead = other;
                None
            }
        }
    }

    /// Says how much of a mapped file was used.
    pub(crate) fn set_consumed(&self, consumed: u64) {
        self.consumed.store(consumed, Ordering::Relaxed);
    }

    /// Has what is read ahead filtered otherwise.
    pub(crate) fn set_filter(&self, filter: Option<&Arc<dyn PacketFilter>>) {
        if let ReadAhead::Started(ahead) = &self.ahead {
            ahead.set_filter(filter.cloned());
        }
    }

    /// What the stream is compressed with.
    pub(crate) fn compression(&self) -> Option<Compression> {
        match self.decoder {
            Decoder::Plain(_) => None,
            Decoder::Gzip(_) => Some(Compression::Gzip),
            Decoder::Zstd(_) => Some(Compression::Zstd),
            Decoder::Lz4(_) => Some(Compression::Lz4),
        }
    }

    /// The last place, at or before one of the uncompressed stream, that reading can begin at, where
    /// that is known.
    pub(crate) fn seek_point(&self, uncompressed: u64) -> Option<SeekPoint> {
        let starts = match &self.decoder {
            Decoder::Plain(_) => return None,
            Decoder::Gzip(decoder) => &decoder.starts,
            Decoder::Zstd(decoder) => &decoder.starts,
            Decoder::Lz4(decoder) => &decoder.starts,
        };
        starts.before(uncompressed)
    }

    /// Bytes read of the file, before decompression.
    pub(crate) fn consumed(&self) -> u64 {
        match &self.ahead {
            ReadAhead::Started(ahead) => ahead.offset(),
            ReadAhead::No | ReadAhead::Possible(_) | ReadAhead::Alone(_) => {
                self.consumed.load(Ordering::Relaxed)
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(source) => source.read(buf),
            Decoder::Gzip(decoder) => decoder.read(buf),
            Decoder::Zstd(decoder) => decoder.read(buf),
            Decoder::Lz4(decoder) => decoder.read(buf),
        }
    }
}

/// Processors on which this thread may run, so far as that is known: on a single one, reading ahead
/// only costs the changes from thread to thread.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Counts the bytes that are read of a file.
struct Counted {
    raw: Box<dyn Read + Send>,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buf)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// lz4 frames one behind another, which the decoder gives one at a time.
///
/// The decoder ends a frame in the same way when its end mark comes and when the file ends between
/// two blocks; the source underneath tells the two apart, for only in the second case was it
/// asked for bytes and had none.
struct Lz4Frames {
    state: Lz4State,
    /// Bytes read of the file, those in the buffer among them.
    consumed: Arc<AtomicU64>,
    given: u64,
    starts: Starts,
}

type Lz4Frame = FrameDecoder<EndNoting<BufReader<Source>>>;

enum Lz4State {
    Between(EndNoting<BufReader<Source>>),
    /// Each frame has a decoder of its own, whose memory is made for the frame's blocks.
    Within(Box<Lz4Frame>),
    /// An error was given.
    Failed,
}

struct EndNoting<R> {
    inner: R,
    ended: bool,
}

impl<R: Read> Read for EndNoting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf)?;
        self.ended |= count == 0 && !buf.is_empty();
        Ok(count)
    }
}

impl Lz4Frames {
    fn new(source: BufReader<Source>, consumed: Arc<AtomicU64>) -> Self {
        Self {
            state: Lz4State::Between(EndNoting {
                inner: source,
                ended: false,
            }),
            consumed,
            given: 0,
            starts: Starts::default(),
        }
    }

    /// Goes to the next frame; none at the end of the file.
    fn start_frame(
        &mut self,
        mut source: EndNoting<BufReader<Source>>,
    ) -> io::Result<Option<Box<Lz4Frame>>> {
        let buffered = loop {
            match source.inner.fill_buf() {
                Ok(buffered) => break buffered,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.state = Lz4State::Between(source);
                    return Err(error);
                }
            }
        };
        if buffered.is_empty() {
            self.state = Lz4State::Between(source);
            return Ok(None);
        }
        // By a skippable frame nobody can tell that lz4 follows.
        if buffered.starts_with(&LZ4_MAGIC.to_le_bytes()) {
            let at = self.consumed.load(Ordering::Relaxed) - buffered.len() as u64;
            self.starts.note(at, self.given);
        }
        Ok(Some(Box::new(FrameDecoder::new(source))))
    }
}

impl Read for Lz4Frames {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            let mut decoder = match std::mem::replace(&mut self.state, Lz4State::Failed) {
                Lz4State::Failed => return Err(io::ErrorKind::InvalidData.into()),
                Lz4State::Within(decoder) => decoder,
                Lz4State::Between(source) => match self.start_frame(source)? {
                    Some(decoder) => decoder,
                    None => return Ok(0),
                },
            };
            match decoder.read(buf) {
                Ok(0) if decoder.get_ref().ended => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the stream ends within a frame",
                    ));
                }
                Ok(0) => self.state = Lz4State::Between(decoder.into_inner()),
                Ok(count) => {
                    self.given += count as u64;
                    self.state = Lz4State::Within(decoder);
                    return Ok(count);
                }
                Err(error) if is_transient(&error) => {
                    self.state = Lz4State::Within(decoder);
                    return Err(error);
                }
                Err(error) => {
                    let mut source = decoder.into_inner();
                    skip_user_frame(error, &mut source.inner)?;
                    self.state = Lz4State::Between(source);
                }
            }
        }
    }
}

/// Whether the decoder can be asked again.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// Passes over the content of a skippable frame, whose header the decoder has just read and
/// reported as an error; gives other errors back.
fn skip_user_frame(error: io::Error, source: &mut impl Read) -> io::Result<()> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(lz4_flex::frame::Error::SkippableFrame(length)) = inner else {
        return Err(error);
    };
    let length = u64::from(*length);
    let skipped = io::copy(&mut source.take(length), &mut io::sink())?;
    if skipped < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

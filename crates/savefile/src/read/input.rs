//! The stream of bytes for the reader: uncompressed, or decompressed on the fly.

use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ReadOptions;
use crate::codec::{Compression, Decode, MAGIC_LEN};
use crate::filtered::PacketFilter;
use crate::index::SeekPoint;
use crate::read::ahead::{Ahead, MIN_LEFT};

/// Compressed bytes read at once.
const COMPRESSED_BUFFER: usize = 128 * 1024;

/// Returns all that can be decompressed of `bytes`, the start of a compressed stream that is cut
/// anywhere. Damage ends the result and is not an error.
#[must_use]
pub fn decompressed_start(bytes: &[u8]) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(mut input) = Input::new(Box::new(Cursor::new(bytes.to_vec()))) {
        // The bytes before the end or the damage are kept.
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
    /// It can be, after the reader has read the header. Not earlier: the thread must have only the
    /// privileges that the caller has kept when it reads the packets.
    Possible(File),
    /// One thread reads it, or there is only one processor.
    Alone(File),
    Started(Ahead),
}

enum Decoder {
    Plain(Source),
    Compressed(Compression, Box<dyn Decode>),
}

/// The bytes read to detect the compression, then the rest.
type Source = Chain<Cursor<Vec<u8>>, Counted>;

impl Input {
    /// Detects the compression from the first bytes.
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
        let decoder = match compression {
            None => Decoder::Plain(source),
            Some(compression) => {
                let source = BufReader::with_capacity(COMPRESSED_BUFFER, source);
                Decoder::Compressed(compression, compression.decoder(source, &consumed)?)
            }
        };
        Ok(Self {
            decoder,
            consumed,
            ahead: ReadAhead::No,
        })
    }

    /// Opens a file at its beginning, as [`Input::new`]. A large file is read ahead.
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

    /// Returns the file if it is read ahead, in stretches of `size` bytes, and filtered there.
    pub(crate) fn ahead(
        &mut self,
        size: usize,
        filter: Option<&Arc<dyn PacketFilter>>,
    ) -> Option<&mut Ahead> {
        if let ReadAhead::Possible(_) = self.ahead
            && let ReadAhead::Possible(file) = std::mem::replace(&mut self.ahead, ReadAhead::No)
        {
            // Done only once: the standard library makes a dozen system calls for the result.
            if processors() == 1 {
                self.ahead = ReadAhead::Alone(file);
            } else if let Ok(ahead) =
                // If there is no second thread, one thread reads the file.
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

    /// Returns the file, once, if it is large and only this thread reads it.
    pub(crate) fn take_alone(&mut self) -> Option<File> {
        match std::mem::replace(&mut self.ahead, ReadAhead::No) {
            ReadAhead::Alone(file) => Some(file),
            other => {
                self.ahead = other;
                None
            }
        }
    }

    /// Sets the number of bytes used of a mapped file.
    pub(crate) fn set_consumed(&self, consumed: u64) {
        self.consumed.store(consumed, Ordering::Relaxed);
    }

    /// Sets the filter for bytes that are read ahead.
    pub(crate) fn set_filter(&self, filter: Option<&Arc<dyn PacketFilter>>) {
        if let ReadAhead::Started(ahead) = &self.ahead {
            ahead.set_filter(filter.cloned());
        }
    }

    /// Returns the compression of the stream.
    pub(crate) fn compression(&self) -> Option<Compression> {
        match self.decoder {
            Decoder::Plain(_) => None,
            Decoder::Compressed(compression, _) => Some(compression),
        }
    }

    /// Returns the last place at or before `uncompressed`, a place of the uncompressed stream, at which
    /// reading can begin, if it is known.
    pub(crate) fn seek_point(&self, uncompressed: u64) -> Option<SeekPoint> {
        match &self.decoder {
            Decoder::Plain(_) => None,
            Decoder::Compressed(_, decoder) => decoder.seek_point(uncompressed),
        }
    }

    /// Returns the bytes read of the file, before decompression.
    pub(crate) fn consumed(&self) -> u64 {
        match &self.ahead {
            ReadAhead::Started(ahead) => ahead.offset,
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
            Decoder::Compressed(_, decoder) => decoder.read(buf),
        }
    }
}

/// Returns the number of processors on which this thread may run, as far as known. On a single one,
/// reading ahead costs context switches and gains nothing.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Counts the bytes read from a file.
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

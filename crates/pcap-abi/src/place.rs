//! The position of a file's stream, for programs that ask for the stream: `pcap_file`.
//!
//! libpcap reads a file through its stream, packet by packet, so that programs may learn where a
//! packet stands, go back to the first one, or look for another: by ftell(3) and fseek(3). Here a file
//! is read apart from its stream, in large pieces. From when a program has asked for the stream, its
//! position is kept where libpcap's would be, and where it was moved, reading goes on from there.

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringtap_capture::{ReadOptions, Source, open_stream};

use crate::lent::Lent;
use crate::read::Reading;
use crate::stdio::Stream;

/// Bytes of a file's header, of a record's header.
const FILE_HEADER: usize = 24;
pub(crate) const RECORD_HEADER: u64 = 16;
/// Of pcap files whose records have such headers, in this machine's byte order or the other.
const MAGICS: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

/// Where a regular pcap file is read.
pub(crate) struct Place {
    stream: Stream,
    header: [u8; FILE_HEADER],
    /// Where the first record stands.
    first: u64,
    /// Whether the program has the stream.
    shared: AtomicBool,
    /// Where the stream was left.
    left: AtomicU64,
}

impl Place {
    /// Of a file whose header stands at `start`; nothing for other formats.
    pub(crate) fn of(stream: Stream, file: &File, start: u64) -> Option<Self> {
        let mut header = [0; FILE_HEADER];
        file.read_exact_at(&mut header, start).ok()?;
        let magic = u32::from_ne_bytes(*header.first_chunk()?);
        let is_known = MAGICS.contains(&magic) || MAGICS.contains(&magic.swap_bytes());
        is_known.then(|| Self {
            stream,
            header,
            first: start + FILE_HEADER as u64,
            shared: AtomicBool::new(false),
            left: AtomicU64::new(0),
        })
    }

    /// Major and minor number of the format.
    pub(crate) fn version(&self) -> (u16, u16) {
        let number = |at: usize| {
            let number = u16::from_ne_bytes([self.header[at], self.header[at + 1]]);
            let is_swapped = !MAGICS
                .iter()
                .any(|magic| self.header.starts_with(&magic.to_ne_bytes()));
            if is_swapped {
                number.swap_bytes()
            } else {
                number
            }
        };
        (number(4), number(6))
    }

    /// The program gets the stream: it stands behind the records that were read.
    pub(crate) fn share(&self, consumed: u64) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            self.leave(consumed);
        }
    }

    /// Before packets are read: goes where the program has moved the stream to.
    pub(crate) fn enter(&self, reading: &mut Reading) {
        if !self.shared.load(Ordering::Acquire) {
            return;
        }
        let Some(position) = self.stream.position() else {
            return;
        };
        if position != self.left.load(Ordering::Acquire) && self.go(position, reading).is_some() {
            reading.consumed = position.saturating_sub(self.first);
        }
    }

    /// After packets were read: leaves the stream behind them.
    pub(crate) fn leave(&self, consumed: u64) {
        let position = self.first + consumed;
        if self.shared.load(Ordering::Acquire)
            && position != self.left.load(Ordering::Acquire)
            && self.stream.seek(position).is_ok()
        {
            self.left.store(position, Ordering::Release);
        }
    }

    /// Reads from another place on, as if the header stood before it.
    fn go(&self, position: u64, reading: &mut Reading) -> Option<()> {
        let mut file = own(self.stream)?;
        file.seek(SeekFrom::Start(position)).ok()?;
        let bytes = Cursor::new(self.header).chain(file);
        let options = ReadOptions::default();
        let source = open_stream(Box::new(bytes), "savefile", &options, None).ok()?;
        reading.waker = source.waker();
        reading.lent = Lent::new(Box::new(source));
        reading.failed = false;
        self.left.store(position, Ordering::Release);
        Some(())
    }
}

/// The stream's file, with a position of its own where the system allows that.
pub(crate) fn own(stream: Stream) -> Option<File> {
    let shared = stream.duplicate().ok()?;
    if !shared.metadata().ok()?.is_file() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", stream.number());
    Some(File::open(path).unwrap_or(shared))
}

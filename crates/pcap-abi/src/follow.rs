//! A file's stream and its reader kept at one place, for programs that ask for the stream
//! (`pcap_file`): they tell by it how far they are, and go back in the file.
//!
//! For pcap files that are read by a descriptor of their own. Nobody pays who does not ask.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_capture::{Packet, ReadOptions, Source, open_stream};

use crate::borrowed_block::BorrowedBlock;
use crate::offline::reopened;
use crate::read::Reading;
use crate::stdio::Stream;

/// Bytes of a record's header.
const RECORD_HEADER: u64 = 16;

/// The stream of a file, and where its records begin.
#[derive(Debug)]
pub(crate) struct Follow {
    stream: Stream,
    /// Where the file's header begins.
    begin: u64,
    /// Where the records begin.
    records: u64,
    asked: AtomicBool,
}

/// How far the records were read.
#[derive(Debug, Default)]
pub(crate) struct ReadPosition {
    /// Bytes of all records that were looked at.
    bytes: u64,
    /// Where the stream was left.
    left_at: Option<u64>,
}

impl ReadPosition {
    /// A record was looked at.
    #[inline]
    pub(crate) fn pass(&mut self, packet: &Packet<'_>) {
        self.bytes += RECORD_HEADER + packet.data.len() as u64;
    }
}

impl Follow {
    pub(crate) fn new(stream: Stream, begin: u64, records: u64) -> Self {
        Self {
            stream,
            begin,
            records,
            asked: AtomicBool::new(false),
        }
    }

    /// The program has asked for the stream. Where it was asked for before, it is where the last read has
    /// left it, or where the program has put it since.
    pub(crate) fn begin(&self, reading: &mut Reading) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.leave(reading);
        }
    }

    /// Before records are read: goes where the program has put the stream.
    pub(crate) fn enter(&self, reading: &mut Reading) {
        if !self.asked.load(Ordering::Acquire) {
            return;
        }
        let (Some(left), Some(now)) = (reading.place.left_at, self.stream.position()) else {
            return;
        };
        if left != now
            && let Some(source) = self.from(now)
        {
            reading.waker = source.waker();
            reading.borrowed = BorrowedBlock::new(source);
            reading.place.bytes = now.saturating_sub(self.records);
        }
    }

    /// After records were read: puts the stream behind the last.
    pub(crate) fn leave(&self, reading: &mut Reading) {
        if self.asked.load(Ordering::Acquire) {
            let place = self.records + reading.place.bytes;
            self.stream.seek(place);
            reading.place.left_at = Some(place);
        }
    }

    /// The file as if its records began at that place.
    fn from(&self, place: u64) -> Option<Box<dyn Source>> {
        let mut file = reopened(self.stream)?;
        let mut header = vec![0; usize::try_from(self.records - self.begin).ok()?];
        file.seek(SeekFrom::Start(self.begin)).ok()?;
        file.read_exact(&mut header).ok()?;
        file.seek(SeekFrom::Start(place)).ok()?;
        let stream = Box::new(Cursor::new(header).chain(file));
        let source = open_stream(stream, "savefile", &ReadOptions::default(), None).ok()?;
        Some(Box::new(source))
    }
}

//! Keeps a file's stream and its reader at the same position, for programs that ask for the stream
//! (`pcap_file`): they read the position from it, and seek back in the file.
//!
//! Only for pcap files that are read through a separate descriptor. Programs that do not ask pay
//! nothing.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_capture::{ReadOptions, Source, open_stream};

use crate::borrowed_block::BorrowedBlock;
use crate::state::reading::Reading;
use crate::stdio::Stream;

/// The stream of a file and the offset of its records.
#[derive(Debug)]
pub(crate) struct Follow {
    stream: Stream,
    /// Offset of the file's header.
    begin: u64,
    /// Offset of the records.
    records: u64,
    asked: AtomicBool,
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

    /// Notes that the program has asked for the stream. The first time, moves the stream after the
    /// last record read. Later the stream stays where the last read or the program has put it.
    pub(crate) fn begin(&self, reading: &mut Reading) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.leave(reading);
        }
    }

    /// Moves the reader to the stream's position if the program has changed it. Called before records are
    /// read.
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

    /// Moves the stream after the last record. Called after records were read.
    pub(crate) fn leave(&self, reading: &mut Reading) {
        if self.asked.load(Ordering::Acquire) {
            let place = self.records + reading.place.bytes;
            self.stream.seek(place);
            reading.place.left_at = Some(place);
        }
    }

    /// Opens the file as if its records began at `place`.
    fn from(&self, place: u64) -> Option<Box<dyn Source>> {
        let mut file = self.stream.reopen()?;
        let mut header = vec![0; usize::try_from(self.records - self.begin).ok()?];
        file.seek(SeekFrom::Start(self.begin)).ok()?;
        file.read_exact(&mut header).ok()?;
        file.seek(SeekFrom::Start(place)).ok()?;
        let stream = Box::new(Cursor::new(header).chain(file));
        let source = open_stream(stream, "savefile", &ReadOptions::default(), None).ok()?;
        Some(Box::new(source))
    }
}

//! A file of records that knows how many it holds whole, also when the disk is full.
//!
//! Data in: pieces that only make sense whole (a line, a message) with the records in each. Data out:
//! the file, written in large steps. When it takes no more it is cut behind its last whole piece.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};

/// Bytes that are written at once.
const STEP: usize = 1 << 16;

/// A file, and what waits for it.
pub(super) struct Whole {
    file: File,
    /// It is a regular file that nobody else writes to.
    can_be_cut: bool,
    /// Bytes that are gathered before they are written.
    step: usize,
    waiting: Vec<u8>,
    /// Where the pieces that wait end, in bytes of all that was given, and the records in each.
    ends: VecDeque<(u64, u64)>,
    /// Bytes that the file has taken, and those of whole pieces among them.
    taken: u64,
    intact: u64,
    /// Records in those.
    records: u64,
}

impl Whole {
    /// Takes an empty file. If it is standard output, which is read while it is written, no piece
    /// waits, and it is not cut.
    pub(super) fn new(file: File, is_standard: bool) -> Self {
        let step = if is_standard { 0 } else { STEP };
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Self {
            file,
            can_be_cut: is_regular && !is_standard,
            step,
            waiting: Vec::with_capacity(step),
            ends: VecDeque::new(),
            taken: 0,
            intact: 0,
            records: 0,
        }
    }

    /// Adds a piece that holds so many records.
    ///
    /// # Errors
    /// The file takes no more. Whole pieces are in it, and no part of another.
    pub(super) fn push(&mut self, piece: &[u8], records: u64) -> io::Result<()> {
        self.waiting.extend_from_slice(piece);
        let end = self.taken + self.waiting.len() as u64;
        self.ends.push_back((end, records));
        if self.waiting.len() < self.step {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// As [`Whole::push`].
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            match self.file.write(rest) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.taken += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        while let Some(&(end, records)) = self.ends.front().filter(|(end, _)| *end <= self.taken) {
            self.ends.pop_front();
            self.intact = end;
            self.records += records;
        }
        if result.is_err() && self.can_be_cut && self.file.set_len(self.intact).is_ok() {
            self.taken = self.intact;
        }
        self.waiting = waiting;
        self.waiting.clear();
        result
    }

    /// Records that the file holds whole.
    pub(super) fn records(&self) -> u64 {
        self.records
    }
}

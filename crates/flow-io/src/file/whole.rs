//! A file of records that knows how many complete records it has, even when the disk is full.
//!
//! Pieces (a line, a message) go in, with the number of records in each. The file comes out, written in large
//! steps. If a write fails, the file is cut after its last complete piece.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};

/// The number of bytes that are written at once.
const STEP: usize = 1 << 16;

/// A file, and the data that waits for it.
pub(super) struct Whole {
    file: File,
    /// Whether it is a regular file that nobody else writes to.
    can_be_cut: bool,
    /// The number of bytes that are gathered before they are written.
    step: usize,
    waiting: Vec<u8>,
    /// The ends of the waiting pieces, in bytes of all that was given, and the records in each.
    ends: VecDeque<(u64, u64)>,
    /// The bytes that the file has taken, and those of complete pieces among them.
    taken: u64,
    intact: u64,
    /// The records in complete pieces, which the file has.
    pub(super) records: u64,
}

impl Whole {
    /// Takes an empty file. Standard output is read while it is written, so pieces do not wait, and it is not
    /// cut.
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

    /// Adds a piece with this number of records.
    ///
    /// # Errors
    /// The file takes no more. It contains complete pieces only.
    pub(super) fn push(&mut self, piece: &[u8], records: u64) -> io::Result<()> {
        self.waiting.extend_from_slice(piece);
        let end = self.taken + self.waiting.len() as u64;
        self.ends.push_back((end, records));
        if self.waiting.len() < self.step {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the waiting pieces.
    ///
    /// # Errors
    /// The same errors as [`Whole::push`].
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
}

//! Batches that wait on the disk until the server takes them, over the end of the run too.
//!
//! One file holds them, one after the other, each with its token, so that the server gets a batch once even if the
//! program ends between its answer and the removal from the file. The file is opened before privileges are given up,
//! and no other is ever needed:
//!
//! ```text
//!    0  "ringtap spool 1\n"
//!   16  offset of the first batch, 8 bytes, little-endian
//! 4096  the batches: checksum (8), bytes of the body (8), records (8), bytes of token and statement (4 each),
//!       and the body: token, statement, rows
//! ```
//!
//! The disk space of batches that were sent is freed at once where the file system can do that, else when the file is
//! empty.

use std::fs::{DirBuilder, File};
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringtap_packet::bytes::{chunk, le32};
use ringtap_sys::{disk, output};
use twox_hash::XxHash64;

use super::Batch;
use crate::{CollectorAddress, OutputError, SpoolOptions};

const MAGIC: [u8; 16] = *b"ringtap spool 1\n";
/// The offset of the first batch in a new file.
const START: u64 = 4096;
/// The bytes before the body of a batch.
const HEAD: usize = 32;
/// More bytes than the body of a batch ever has.
const LONGEST: u64 = 64 << 20;

/// The spools of a run, one for each table of ClickHouse. Open them before privileges are given up.
#[derive(Default)]
pub struct Spools(Vec<(String, Spool)>);

impl Spools {
    /// Opens or creates the files of the collectors that are tables of ClickHouse.
    ///
    /// # Errors
    /// None of the collectors is one, or a file cannot be opened, is of something else, or is used by another process.
    pub fn open(
        options: &SpoolOptions,
        collectors: &[CollectorAddress],
    ) -> Result<Self, OutputError> {
        let tables = collectors
            .iter()
            .filter(|address| address.0.clickhouse().is_some());
        let opened = tables.map(|address| {
            let name = address.to_string();
            Spool::open(options, &name).map(|spool| (name, spool))
        });
        let spools: Vec<_> = opened.collect::<Result<_, _>>()?;
        if spools.is_empty() {
            return Err(OutputError::NoSpool);
        }
        Ok(Self(spools))
    }

    /// Takes the spool of a collector.
    pub(super) fn take(&mut self, address: &CollectorAddress) -> Option<Spool> {
        let name = address.to_string();
        let at = self.0.iter().position(|(of, _)| *of == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// A batch of the file.
pub(super) struct Waiting {
    pub(super) token: String,
    pub(super) statement: String,
    pub(super) rows: Vec<u8>,
    pub(super) records: u64,
    /// Its bytes in the file.
    pub(super) len: u64,
}

/// The next batch, or why there is none.
pub(super) enum Next {
    Batch(Waiting),
    /// The batch cannot be read, or has changed on the disk.
    Damaged {
        error: io::Error,
        records: u64,
        len: u64,
    },
    /// There is none now.
    Empty,
    /// There is none, and none will come.
    Ended,
}

/// A batch that finds no place.
pub(super) enum Refused {
    /// The file has its largest size.
    Full,
    /// The file cannot be written.
    Failed(io::Error),
}

/// The file. One thread adds batches, another one sends and removes them.
pub(super) struct Spool {
    file: File,
    path: PathBuf,
    /// The most bytes that batches may take.
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// Records that were in the file when it was opened.
    earlier: u64,
}

struct State {
    begin: u64,
    end: u64,
    /// The offset before which disk space was freed.
    freed: u64,
    records: u64,
    is_closed: bool,
}

/// The fixed part of a batch.
struct Head {
    checksum: u64,
    body: u64,
    records: u64,
    token: u32,
    statement: u32,
}

impl Head {
    fn bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.body.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.token.to_le_bytes());
        bytes[28..].copy_from_slice(&self.statement.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let head = Self {
            checksum: le64(bytes, 0)?,
            body: le64(bytes, 8)?,
            records: le64(bytes, 16)?,
            token: le32(bytes, 24)?,
            statement: le32(bytes, 28)?,
        };
        let texts = u64::from(head.token) + u64::from(head.statement);
        // A freed range reads as zeros.
        let is_possible = texts <= head.body && head.records <= head.body;
        (is_possible && (1..=LONGEST).contains(&head.body)).then_some(head)
    }

    fn len(&self) -> u64 {
        HEAD as u64 + self.body
    }
}

impl Spool {
    /// Opens or creates the file for a destination, in the folder of the options.
    pub(super) fn open(options: &SpoolOptions, address: &str) -> Result<Self, OutputError> {
        let name = format!(
            "clickhouse-{:016x}.spool",
            XxHash64::oneshot(0, address.as_bytes())
        );
        let path = options.folder.join(name);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OutputError::File { path, source }
        };
        match DirBuilder::new().mode(0o700).create(&options.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(&options.folder)(error));
            }
            _ => {}
        }
        let opened = output::open(&path, options.access, true).map_err(failed(&path))?;
        let mut spool = Self {
            file: opened.file,
            path,
            limit: options.size,
            state: Mutex::new(State {
                begin: START,
                end: START,
                freed: START,
                records: 0,
                is_closed: false,
            }),
            changed: Condvar::new(),
            earlier: 0,
        };
        spool.take_over().map_err(failed(&spool.path))?;
        Ok(spool)
    }

    /// Locks the file, and finds the batches in it.
    fn take_over(&mut self) -> io::Result<()> {
        if !disk::try_lock(&self.file, true).map_err(|error| error.source)? {
            let text = "another ringtap uses it";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let size = self.file.metadata()?.len();
        if size == 0 {
            self.file.write_all_at(&MAGIC, 0)?;
            self.file.set_len(START)?;
            return self.write_begin(START);
        }
        let mut magic = [0; 24];
        let read = self.file.read_exact_at(&mut magic, 0);
        if read.is_err() || magic[..16] != MAGIC {
            let text = "it is no spool of this version of ringtap";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let begin = le64(&magic, 16).unwrap_or(START);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        (state.begin, state.end) = (begin.clamp(START, size.max(START)), START);
        let mut at = state.begin;
        let mut bytes = [0; HEAD];
        while self.file.read_exact_at(&mut bytes, at).is_ok() {
            // The last one may have been cut by a crash. Checksums are compared when a batch is sent.
            let whole = Head::parse(&bytes).filter(|head| at + head.len() <= size);
            let Some(head) = whole else { break };
            state.records += head.records;
            at += head.len();
        }
        state.end = at;
        self.earlier = state.records;
        self.file.set_len(at)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_begin(&self, begin: u64) -> io::Result<()> {
        self.file.write_all_at(&begin.to_le_bytes(), 16)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the records that wait. It waits for a batch that is being written.
    pub(super) fn records(&self) -> u64 {
        self.lock().records
    }

    /// Returns the records that waited when the file was opened.
    pub(super) fn earlier(&self) -> u64 {
        self.earlier
    }

    /// Adds a batch. When it returns, the batch is on the disk.
    pub(super) fn add(&self, batch: &Batch, token: &str, statement: &str) -> Result<(), Refused> {
        let too_long = |_| Refused::Failed(io::ErrorKind::InvalidInput.into());
        let mut head = Head {
            checksum: 0,
            body: (token.len() + statement.len() + batch.bytes.len()) as u64,
            records: batch.records,
            token: u32::try_from(token.len()).map_err(too_long)?,
            statement: u32::try_from(statement.len()).map_err(too_long)?,
        };
        let mut bytes = head.bytes().to_vec();
        bytes.extend_from_slice(token.as_bytes());
        bytes.extend_from_slice(statement.as_bytes());
        bytes.extend_from_slice(&batch.bytes);
        head.checksum = checksum(&bytes[8..], &[]);
        bytes[..8].copy_from_slice(&head.checksum.to_le_bytes());
        // The other thread must not empty the file in the meantime.
        let mut state = self.lock();
        if state.end - state.freed + bytes.len() as u64 > self.limit {
            return Err(Refused::Full);
        }
        let written = self.file.write_all_at(&bytes, state.end);
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // A part of it would be taken for a batch that a crash has cut; the next one overwrites it.
            let _ = self.file.set_len(state.end);
            return Err(Refused::Failed(error));
        }
        state.end += bytes.len() as u64;
        state.records += batch.records;
        self.changed.notify_one();
        Ok(())
    }

    /// Reports that no more batches will be added.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Returns the first batch, after waiting at most this long for one.
    pub(super) fn first(&self, longest: Duration) -> Next {
        let is_early = |state: &mut State| state.begin == state.end && !state.is_closed;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), longest, is_early);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let at = state.begin;
        match (at == state.end, state.is_closed) {
            (true, true) => return Next::Ended,
            (true, false) => return Next::Empty,
            (false, _) => drop(state),
        }
        let mut bytes = [0; HEAD];
        let read = self.file.read_exact_at(&mut bytes, at);
        match read.map(|()| Head::parse(&bytes)) {
            Ok(Some(head)) => match self.read(at, &head, &bytes) {
                Ok(waiting) => Next::Batch(waiting),
                Err(error) => Next::Damaged {
                    error,
                    records: head.records,
                    len: head.len(),
                },
            },
            // Nothing behind it can be found.
            other => {
                let state = self.lock();
                Next::Damaged {
                    error: other.err().unwrap_or_else(changed),
                    records: state.records,
                    len: state.end - state.begin,
                }
            }
        }
    }

    fn read(&self, at: u64, head: &Head, fixed: &[u8; HEAD]) -> io::Result<Waiting> {
        let mut body = vec![0; usize::try_from(head.body).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut body, at + HEAD as u64)?;
        if checksum(&fixed[8..], &body) != head.checksum {
            return Err(changed());
        }
        let rows = body.split_off((head.token + head.statement) as usize);
        let statement = body.split_off(head.token as usize);
        let text = |bytes| String::from_utf8(bytes).map_err(io::Error::other);
        Ok(Waiting {
            token: text(body)?,
            statement: text(statement)?,
            rows,
            records: head.records,
            len: head.len(),
        })
    }

    /// Removes the first batch.
    pub(super) fn remove_first(&self, records: u64, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.begin = (state.begin + len).min(state.end);
        state.records = state.records.saturating_sub(records);
        if state.begin == state.end {
            (state.begin, state.end, state.freed) = (START, START, START);
            self.file.set_len(START)?;
            return self.write_begin(START);
        }
        self.write_begin(state.begin)?;
        let freed = state.begin - state.freed;
        if disk::punch_hole(&self.file, state.freed, freed).is_ok() {
            state.freed = state.begin;
        }
        Ok(())
    }
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    chunk(bytes, at).map(u64::from_le_bytes)
}

fn checksum(one: &[u8], other: &[u8]) -> u64 {
    let mut hash = XxHash64::with_seed(0);
    hash.write(one);
    hash.write(other);
    hash.finish()
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it has changed on the disk")
}

#[cfg(test)]
mod tests;

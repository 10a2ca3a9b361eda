//! Batches that wait on the disk until the server takes them, over the end of the run too.
//!
//! One file holds them, one after the other, each with its token, so that the server gets a batch once even if the
//! program ends between its answer and the removal from the file. The file is opened before privileges are given up,
//! and no other is ever needed:
//!
//! ```text
//!    0  "ringtap spool 1\n"
//!   16  offset of the first batch, 8 bytes, little-endian; zeros up to 4096
//! 4096  the batches: mark (8), checksum (8), bytes of the body (8), records (8), bytes of token and statement (4 each),
//!       and the body: token, statement, rows
//! ```
//!
//! The disk space of batches that were sent is freed where the file system can do that, else when the file is empty. The
//! offset is on the disk before that, so a crash of the host never leaves an offset that points into freed space. A
//! batch that a crash has cut, or that has changed on the disk, is passed over to the next mark.

use std::fs::{DirBuilder, File};
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
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
/// The first bytes of a batch.
const MARK: [u8; 8] = *b"\xf1batch\r\n";
/// The bytes before the body of a batch.
const HEAD: usize = 40;
/// More bytes than the body of a batch ever has.
const LONGEST: u64 = 64 << 20;
/// The bytes of sent batches that are freed together, at most.
const FREED: u64 = 16 << 20;
/// The bytes that are searched for a mark at once.
const PIECE: usize = 1 << 20;

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
    /// The disk cannot be read now.
    Failed(io::Error),
    /// There is none now.
    Empty,
    /// There is none, and none will come.
    Ended,
}

/// The reason why a batch finds no place.
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
    /// Records that wait.
    records: AtomicU64,
    /// Records that were in the file when it was opened.
    earlier: u64,
    /// Bytes at the end of the file that are no batch: a crash has cut it.
    cut: u64,
}

struct State {
    begin: u64,
    end: u64,
    /// The offset before which disk space was freed.
    freed: u64,
    /// Whether a batch is being written at the end.
    is_writing: bool,
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
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.records.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.token.to_le_bytes());
        bytes[36..].copy_from_slice(&self.statement.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let head = Self {
            checksum: le64(bytes, 8)?,
            body: le64(bytes, 16)?,
            records: le64(bytes, 24)?,
            token: le32(bytes, 32)?,
            statement: le32(bytes, 36)?,
        };
        let texts = u64::from(head.token) + u64::from(head.statement);
        let is_possible = texts <= head.body && head.records <= head.body && head.body <= LONGEST;
        (bytes.starts_with(&MARK) && is_possible).then_some(head)
    }

    fn len(&self) -> u64 {
        HEAD as u64 + self.body
    }
}

impl Spool {
    /// Opens or creates the file for a destination, in the folder of the options.
    pub(super) fn open(options: &SpoolOptions, address: &str) -> Result<Self, OutputError> {
        let hash = XxHash64::oneshot(0, address.as_bytes());
        let path = options.folder.join(format!("clickhouse-{hash:016x}.spool"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OutputError::File { path, source }
        };
        let mode = options.access.folder_mode();
        match DirBuilder::new().mode(mode).create(&options.folder) {
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
                is_writing: false,
                is_closed: false,
            }),
            changed: Condvar::new(),
            records: AtomicU64::new(0),
            earlier: 0,
            cut: 0,
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
        let mut first = vec![0; usize::try_from(size.min(START)).unwrap_or(0)];
        self.file.read_exact_at(&mut first, 0)?;
        let is_begun = first.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic);
        if size < START && is_begun || size == START && first.iter().all(|byte| *byte == 0) {
            // It is new, or a crash has interrupted what follows.
            return self.write_first();
        }
        if size < START || !is_begun {
            let text = "it is no spool of this version of ringtap";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let begin = le64(&first, 16).unwrap_or(START).clamp(START, size);
        let (mut at, mut records) = (begin, 0);
        while let Some((from, head)) = self.next_head(at, size)? {
            records += head.records;
            at = from + head.len();
        }
        self.cut = size - at;
        self.file.set_len(at)?;
        self.write_begin(begin)?;
        self.file.sync_all()?;
        let is_freed = begin > START && disk::punch_hole(&self.file, START, begin - START).is_ok();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        (state.begin, state.end) = (begin, at);
        state.freed = if is_freed { begin } else { START };
        (self.earlier, *self.records.get_mut()) = (records, records);
        Ok(())
    }

    /// Writes the beginning of a new file, to the disk.
    fn write_first(&self) -> io::Result<()> {
        let mut first = vec![0; usize::try_from(START).unwrap_or(0)];
        first[..16].copy_from_slice(&MAGIC);
        first[16..24].copy_from_slice(&START.to_le_bytes());
        self.file.write_all_at(&first, 0)?;
        self.file.sync_all()?;
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Returns the first batch from `at` on that ends before `size`, and its offset. It passes over bytes without a mark,
    /// and over batches behind them that have changed.
    fn next_head(&self, at: u64, size: u64) -> io::Result<Option<(u64, Head)>> {
        let mut from = at;
        let mut bytes = [0; HEAD];
        while size - from >= HEAD as u64 {
            self.file.read_exact_at(&mut bytes, from)?;
            let whole = Head::parse(&bytes).filter(|head| head.len() <= size - from);
            // Behind damage, bytes that look like a batch may be rows.
            match whole {
                Some(head) if from == at || self.read(from, &head, &bytes).is_ok() => {
                    return Ok(Some((from, head)));
                }
                _ => from = self.next_mark(from + 1, size)?,
            }
        }
        Ok(None)
    }

    /// Returns the offset of the next mark, or `size`.
    fn next_mark(&self, mut from: u64, size: u64) -> io::Result<u64> {
        let mut piece = vec![0; PIECE];
        while size - from >= MARK.len() as u64 {
            let len = usize::try_from(size - from).unwrap_or(PIECE).min(PIECE);
            self.file.read_exact_at(&mut piece[..len], from)?;
            let found = piece[..len]
                .windows(MARK.len())
                .position(|bytes| bytes == MARK);
            if let Some(found) = found {
                return Ok(from + found as u64);
            }
            // The mark may begin in the last bytes of this piece.
            from += (len - (MARK.len() - 1)) as u64;
        }
        Ok(size)
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

    /// Returns the records that wait.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Returns the records that waited when the file was opened.
    pub(super) fn earlier(&self) -> u64 {
        self.earlier
    }

    /// Returns the bytes of a batch at the end that a crash had cut, and that were removed.
    pub(super) fn cut(&self) -> u64 {
        self.cut
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
        head.checksum = checksum(&bytes[16..], &[]);
        bytes[..HEAD].copy_from_slice(&head.bytes());
        let mut state = self.lock();
        if state.end - state.freed + bytes.len() as u64 > self.limit {
            return Err(Refused::Full);
        }
        // The other thread may remove batches in the meantime, but not empty the file.
        state.is_writing = true;
        let end = state.end;
        drop(state);
        let written = self.file.write_all_at(&bytes, end);
        let written = written.and_then(|()| self.file.sync_data());
        let mut state = self.lock();
        state.is_writing = false;
        if let Err(error) = written {
            // If this fails, too, the next batch overwrites it.
            let _ = self.file.set_len(end);
            return Err(Refused::Failed(error));
        }
        state.end += bytes.len() as u64;
        self.records.fetch_add(batch.records, Ordering::Relaxed);
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
        let (at, end) = (state.begin, state.end);
        match (at == end, state.is_closed) {
            (true, true) => return Next::Ended,
            (true, false) => return Next::Empty,
            (false, _) => drop(state),
        }
        let mut bytes = [0; HEAD];
        let read = self.file.read_exact_at(&mut bytes, at);
        let head = match read.map(|()| Head::parse(&bytes)) {
            Err(error) => return Next::Failed(error),
            Ok(head) => head.filter(|head| head.len() <= end - at),
        };
        let Some(head) = head else {
            // The records of the passed part are those that nothing else accounts for.
            return match self.next_head(at, end) {
                Err(error) => Next::Failed(error),
                Ok(next) => {
                    let to = next.map_or(end, |(to, _)| to);
                    Next::Damaged {
                        error: changed(),
                        records: 0,
                        len: to - at,
                    }
                }
            };
        };
        match self.read(at, &head, &bytes) {
            Ok(waiting) => Next::Batch(waiting),
            Err(error) => Next::Damaged {
                error,
                records: head.records,
                len: head.len(),
            },
        }
    }

    fn read(&self, at: u64, head: &Head, fixed: &[u8; HEAD]) -> io::Result<Waiting> {
        let mut body = vec![0; usize::try_from(head.body).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut body, at + HEAD as u64)?;
        if checksum(&fixed[16..], &body) != head.checksum {
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

    /// Removes the first batch. Returns the records that nothing can find any more: those of damaged batches, once the
    /// file is empty.
    pub(super) fn remove_first(&self, records: u64, len: u64) -> io::Result<u64> {
        let mut state = self.lock();
        state.begin = (state.begin + len).min(state.end);
        // The number in a damaged batch may be any.
        let fewer = |all: u64| Some(all.saturating_sub(records));
        let relaxed = Ordering::Relaxed;
        let _ = self.records.fetch_update(relaxed, relaxed, fewer);
        if state.begin == state.end && !state.is_writing {
            let lost = self.records.swap(0, Ordering::Relaxed);
            self.file.set_len(START)?;
            self.write_begin(START)?;
            (state.begin, state.end, state.freed) = (START, START, START);
            return Ok(lost);
        }
        let begin = state.begin;
        let unfreed = begin - state.freed;
        drop(state);
        self.write_begin(begin)?;
        if unfreed < FREED.min(self.limit / 4) {
            return Ok(0);
        }
        self.file.sync_data()?;
        if disk::punch_hole(&self.file, begin - unfreed, unfreed).is_ok() {
            self.lock().freed = begin;
        }
        Ok(0)
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

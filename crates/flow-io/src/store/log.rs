//! The log of a store: records that are in no Parquet file yet, so that a crash loses none of them.
//!
//! Each batch of records has a log of its own. It is emptied when the files of the batch are on the disk. A file says
//! the number of its batch, so that records that are in a file already are not stored a second time after a crash
//! between the two steps.
//!
//! ```text
//! "ringtap log 1\r\n\0", then frames: bytes of the body (4), checksum (8; XXH64, seeded by the number), body
//! first body:  number of the batch (8), version of the schema (4), columns (4), and of each column: bytes of its
//!              name (2), its name
//! other ones:  records
//! ```
//!
//! A record is its hour (8), the bytes of the exporter's name (2), the name, and of each column a byte that is 1 if
//! there is a value, then the value. Numbers are little-endian. A frame that a crash has cut ends the log.

use std::fs::File;
use std::hash::Hasher as _;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_flow::schema::{FIELDS, Field, SCHEMA_VERSION};
use twox_hash::XxHash64;

use super::columns::{Columns, take};
use super::names::Leaf;
use super::{Batch, QUEUE, now};

/// The number of logs: of the batch that is being filled, of those that wait, and of the one that is being written.
pub(super) const LOGS: usize = QUEUE + 2;
/// The bytes of a log, at most.
pub(super) const LOG_SIZE: u64 = 16 << 20;
/// The bytes that a record and the frame around it may take: texts of the longest datagram, with escapes.
const RECORD: u64 = 256 << 10;
/// The bytes after which records are written to the file.
const FRAME: usize = 64 << 10;
const MAGIC: [u8; 16] = *b"ringtap log 1\r\n\0";
/// The bytes before the body of a frame.
const HEAD: usize = 12;

/// A log's file. The thread that takes records writes to it, and the store's thread brings that to the disk.
pub(super) struct LogFile {
    file: File,
    has_changed: AtomicBool,
}

impl LogFile {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            has_changed: AtomicBool::new(false),
        }
    }

    /// Waits until what was written is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        if !self.has_changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let synced = self.file.sync_data();
        if synced.is_err() {
            self.has_changed.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, at);
        self.has_changed.store(true, Ordering::Release);
        written
    }
}

/// The log of a batch.
pub(super) struct Log {
    file: Arc<LogFile>,
    /// Distinguishes this log from others of the same moment.
    index: u64,
    /// The number of the batch whose records are in the file.
    number: u64,
    /// The bytes in the file.
    written: u64,
    /// The frame that is being filled, with room for its head.
    frame: Vec<u8>,
    /// The records in it.
    records: u64,
    /// The records of the batch, by their numbers, that could not be written to the file.
    missing: Vec<Range<u64>>,
}

impl Log {
    /// Returns the log in a file, which becomes empty.
    pub(super) fn new(file: Arc<LogFile>, index: usize) -> io::Result<Self> {
        let mut log = Self {
            file,
            index: index as u64,
            number: 0,
            written: 0,
            frame: vec![0; HEAD],
            records: 0,
            missing: Vec::new(),
        };
        log.clear()?;
        Ok(log)
    }

    /// Returns the number of the batch, once records of it are in the file.
    pub(super) fn number(&self) -> Option<u64> {
        (self.written > 0).then_some(self.number)
    }

    /// Returns whether a record of the batch is in the file.
    pub(super) fn has(&self, row: u64) -> bool {
        !self.missing.iter().any(|missing| missing.contains(&row))
    }

    /// Adds the last record of the columns. Returns whether the frame should be written.
    pub(super) fn append(&mut self, columns: &Columns, leaf: &Leaf) -> bool {
        let name = leaf.exporter.as_bytes();
        self.frame.extend_from_slice(&leaf.hour.to_le_bytes());
        let length = u16::try_from(name.len()).unwrap_or(0);
        self.frame.extend_from_slice(&length.to_le_bytes());
        self.frame.extend_from_slice(&name[..usize::from(length)]);
        for column in &columns.columns {
            column.write_last(&mut self.frame);
        }
        self.records += 1;
        self.frame.len() >= FRAME
    }

    /// Returns whether no further record may be added.
    pub(super) fn is_full(&self) -> bool {
        self.written + self.frame.len() as u64 + RECORD > LOG_SIZE
    }

    /// Writes the records that were added to the file.
    ///
    /// # Errors
    /// The number of records that are not in the log, and why.
    pub(super) fn flush(&mut self, columns: &Columns) -> Result<(), (u64, io::Error)> {
        if self.records == 0 {
            return Ok(());
        }
        let written = self.write(columns);
        let records = std::mem::take(&mut self.records);
        self.frame.truncate(HEAD);
        written.map_err(|error| {
            let all = columns.rows as u64;
            let first = all.saturating_sub(records);
            match self.missing.last_mut() {
                Some(last) if last.end == first => last.end = all,
                _ => self.missing.push(first..all),
            }
            (records, error)
        })
    }

    fn write(&mut self, columns: &Columns) -> io::Result<()> {
        if self.written == 0 {
            let number = now() / LOGS as u64 * LOGS as u64 + self.index;
            let head = head(number, columns)?;
            self.file.write(&head, 0)?;
            self.number = number;
            self.written = head.len() as u64;
        }
        complete(&mut self.frame, self.number)?;
        self.file.write(&self.frame, self.written)?;
        self.written += self.frame.len() as u64;
        Ok(())
    }

    /// Forgets all records: they are in files, or counted as lost.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.frame.truncate(HEAD);
        self.missing.clear();
        (self.records, self.number, self.written) = (0, 0, 0);
        self.file.file.set_len(0)?;
        self.file.has_changed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Writes the head of a frame, which has room for it. Frames of an earlier batch, which the file system may have kept
/// behind the end of the file, have other checksums.
fn complete(frame: &mut [u8], number: u64) -> io::Result<()> {
    let (head, body) = frame.split_at_mut(HEAD);
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&checksum(body, number).to_le_bytes());
    Ok(())
}

/// Returns the first bytes of a log.
fn head(number: u64, columns: &Columns) -> io::Result<Vec<u8>> {
    let mut head = MAGIC.to_vec();
    head.resize(MAGIC.len() + HEAD, 0);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&SCHEMA_VERSION.to_le_bytes());
    let count = u32::try_from(columns.fields.len()).unwrap_or(0);
    head.extend_from_slice(&count.to_le_bytes());
    for field in &*columns.fields {
        let name = field.name.as_bytes();
        let length = u16::try_from(name.len()).unwrap_or(0);
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(name);
    }
    complete(&mut head[MAGIC.len()..], 0)?;
    Ok(head)
}

/// The records of a log.
pub(super) struct Found {
    pub(super) number: u64,
    pub(super) batch: Batch,
    /// The bytes at its end that are no records: a crash has cut them.
    pub(super) cut: usize,
}

/// Reads a log. Returns `None` if it has no record.
///
/// # Errors
/// The bytes are those of something else, or of a later version.
pub(super) fn read(bytes: &[u8]) -> io::Result<Option<Found>> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut rest = bytes;
    match take::<16>(&mut rest) {
        Some(magic) if magic == MAGIC => {}
        // A crash has cut even this, or the disk has not got it.
        None if MAGIC.starts_with(bytes) => return Ok(None),
        _ if bytes.iter().all(|&byte| byte == 0) => return Ok(None),
        _ => return Err(invalid("not a log of a store".to_owned())),
    }
    let Some(mut facts) = frame(&mut rest, 0) else {
        return Ok(None);
    };
    let damaged = || invalid("damaged, though its checksum is right".to_owned());
    let (number, version, count) = numbers(&mut facts).ok_or_else(damaged)?;
    if version > SCHEMA_VERSION {
        let text = format!("a log of schema {version}: this ringtap has {SCHEMA_VERSION}");
        return Err(invalid(text));
    }
    let mut fields: Vec<&'static Field> = Vec::new();
    for _ in 0..count {
        let name = text(&mut facts).ok_or_else(damaged)?;
        let known = FIELDS.iter().find(|field| field.name.as_bytes() == name);
        let unknown = || {
            invalid(format!(
                "unknown column {:?}",
                String::from_utf8_lossy(name)
            ))
        };
        fields.push(known.ok_or_else(unknown)?);
    }
    let mut batch = Batch::of(Columns::new(fields.into()));
    while let Some(body) = frame(&mut rest, number) {
        let mut body = body;
        while !body.is_empty() {
            record(&mut body, &mut batch).ok_or_else(damaged)?;
        }
    }
    let cut = rest.len();
    Ok((batch.columns.rows > 0).then_some(Found { number, batch, cut }))
}

fn numbers(rest: &mut &[u8]) -> Option<(u64, u32, u32)> {
    let number = u64::from_le_bytes(take(rest)?);
    let version = u32::from_le_bytes(take(rest)?);
    Some((number, version, u32::from_le_bytes(take(rest)?)))
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_le_bytes(take(rest)?);
    let (text, behind) = rest.split_at_checked(length.into())?;
    *rest = behind;
    Some(text)
}

/// Takes the body of the next frame, if it is whole and of this batch.
fn frame<'a>(rest: &mut &'a [u8], number: u64) -> Option<&'a [u8]> {
    let mut behind = *rest;
    let length = u32::from_le_bytes(take(&mut behind)?);
    let sum = u64::from_le_bytes(take(&mut behind)?);
    let (body, behind) = behind.split_at_checked(usize::try_from(length).ok()?)?;
    if checksum(body, number) != sum || body.is_empty() {
        return None;
    }
    *rest = behind;
    Some(body)
}

fn record(body: &mut &[u8], batch: &mut Batch) -> Option<()> {
    let hour = u64::from_le_bytes(take(body)?);
    let exporter = str::from_utf8(text(body)?).ok()?;
    let leaf = Leaf::named(hour, exporter)?;
    for column in &mut batch.columns.columns {
        column.read(body)?;
    }
    batch.columns.rows += 1;
    let place = batch.place_of(leaf);
    batch.places.push(place);
    Some(())
}

fn checksum(body: &[u8], number: u64) -> u64 {
    let mut hasher = XxHash64::with_seed(number);
    hasher.write(body);
    hasher.finish()
}

//! A store: a folder that keeps flow records as Parquet, for any engine to read.
//!
//! Data in: records, which wait in memory by column ([`Columns`]). Data out: files, one for each hour, exporter and
//! interval, written by a thread of its own ([`worker`]) under another name and published by rename(2). So a reader
//! never sees half a file, and a crash loses at most the records since the last interval; with a log ([`log`]) it loses
//! none. The thread also merges small files ([`compact`]) and removes old ones ([`folder`]). The store has no list of
//! files: a folder's listing is the truth.
//!
//! It reads no packet and answers no question: `ringtap query` does, and every engine that reads Parquet.

mod columns;
mod compact;
mod encode;
mod files;
mod folder;
mod log;
mod names;
mod recover;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_flow::schema::{Fields, Row};
use ringtap_sys::output::Access;
use serde::Serialize;

use crate::OutputError;
use columns::Columns;
pub(crate) use encode::{failed, schema};
pub use files::{OwnFiles, StoreFiles};
use folder::Folder;
use log::Log;
use names::{HOUR, Leaf};
pub use names::{READERS_LOCK, STORE_LOCK, exporter_name, is_of_store};
use recover::Logs;

/// The number of records that wait in memory, at most.
const BATCH: usize = encode::GROUP;
/// The bytes of texts that wait in memory, about: a stranger's texts are long.
const TEXTS: usize = 16 << 20;
/// The number of files that the waiting records go to, at most.
const LEAVES: usize = 256;
/// The place of a record that is in a file already, in a batch of which others are not.
const WRITTEN: u16 = u16::MAX;
/// The number of batches that may wait for the disk.
const QUEUE: usize = 2;
/// The number of exporters with a folder of their own; records of more go to [`OTHERS`].
const EXPORTERS: usize = 256;
const OTHERS: &str = "others";
/// The seconds by which a collected record may be older than the present, to be kept in the hour that it says.
const OLDER: u64 = 2 * HOUR;
/// The same for a record that is younger.
const YOUNGER: u64 = 600;
/// The smallest limit of a store, in bytes.
pub const LEAST_STORE: u64 = 16 << 20;
/// The same of a store with a log.
pub const LEAST_LOGGED_STORE: u64 = LEAST_STORE + log::LOGS as u64 * log::LOG_SIZE;

ringtap_packet::options! {
    /// Options of a [`Store`].
    #[derive(Clone, Debug)]
    pub struct StoreOptions {
        /// The name that records have which were metered here, in the form of [`exporter_name`].
        pub exporter: String,
        /// The time after which records are written.
        pub interval: Duration,
        /// The fields that are kept beside the basic ones.
        pub fields: Fields,
        /// When files are removed.
        pub retention: Retention,
        /// The users who may read the files.
        pub access: Access,
        /// Whether records that wait are in a log, so that a crash loses none.
        pub log: bool,
        /// Whether to wait for the disk: yes if records come from a file. Without waiting, records are lost and
        /// counted.
        pub wait: bool,
        /// Takes a message for people if the disk does not take records, or takes them again.
        pub notify: fn(&str),
    }
}

impl Default for StoreOptions {
    /// Returns the defaults: a minute, the basic fields, nothing is removed.
    fn default() -> Self {
        Self {
            exporter: exporter_name(""),
            interval: Duration::from_secs(60),
            fields: Fields::BASIC,
            retention: Retention::default(),
            access: Access::default(),
            log: false,
            wait: false,
            notify: |_| (),
        }
    }
}

/// When files are removed from a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The age of flows, by the clock of this host.
    pub age: Option<Duration>,
    /// The bytes that the folder may take; at least [`LEAST_STORE`], with a log [`LEAST_LOGGED_STORE`].
    pub size: Option<u64>,
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        r#source: std::io::Error,
    },
    /// Another program writes to the store.
    #[error("{}: another ringtap writes to this store", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// A limit is too small for a store.
    #[error("a store needs at least {} MiB{} (--retain)", least >> 20,
        if *least == LEAST_STORE { "" } else { " with --store-wal" })]
    TooSmall {
        /// The smallest limit, in bytes.
        least: u64,
    },
}

/// The counters of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreReport {
    /// The folder.
    pub store: String,
    /// Records that are on the disk.
    pub records: u64,
    /// Files that were written.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Records that were lost because the disk was slower than the records came.
    pub lost_queue: u64,
    /// Records that were lost because the disk did not take them.
    pub lost_disk: u64,
    /// Records that were not written to the log, and that a crash would have taken.
    pub not_logged: u64,
    /// Records that the disk did not take, and that are in the log: the next start stores them.
    pub left_in_log: u64,
    /// Records of an earlier run that ended early: they were in its log, and were stored at the start.
    pub recovered: u64,
    /// Bytes at the end of its logs that are no records.
    pub cut_bytes: u64,
    /// Files that were removed by age or size.
    pub removed_files: u64,
    /// Files that were merged into larger ones.
    pub merged_files: u64,
    /// Folders whose files could not be merged. They stay as they are.
    pub not_merged: u64,
    /// Bytes of all files and folders of the store.
    pub total_bytes: u64,
}

/// Records that wait, and the leaf that each goes to.
struct Batch {
    columns: Columns,
    /// For each record an index in `leaves`.
    places: Vec<u16>,
    leaves: Vec<Leaf>,
    log: Option<Log>,
}

/// A store that is being written.
pub struct Store {
    options: StoreOptions,
    state: State,
    batch: Batch,
    /// The place in the batch of an hour and an exporter.
    known: HashMap<(u64, Option<IpAddr>), u16>,
    exporters: HashMap<IpAddr, String>,
    last: Option<(u64, Option<IpAddr>, u16)>,
    /// Nanoseconds since 1970, by this host's clock.
    now_ns: u64,
    handed_over: Instant,
    report: Arc<Mutex<StoreReport>>,
    logs: Logs,
    /// Whether the last records could not be written to the log.
    log_fails: bool,
}

enum State {
    /// The folder is open, and nothing has been written.
    Waiting(Box<Folder>),
    Running {
        batches: SyncSender<Batch>,
        spares: Receiver<Batch>,
        thread: JoinHandle<Result<(), StoreError>>,
    },
    Ended,
}

impl Store {
    /// Opens the folder, which is created if it does not exist, and locks it. Call it with the rights of the user who
    /// started the program; later work is done through `files`.
    ///
    /// # Errors
    /// The limit is too small, the folder cannot be opened or read, or another program writes to it.
    pub fn open(
        path: impl Into<PathBuf>,
        options: StoreOptions,
        files: Box<dyn StoreFiles>,
    ) -> Result<Self, StoreError> {
        let least = if options.log {
            LEAST_LOGGED_STORE
        } else {
            LEAST_STORE
        };
        if options.retention.size.is_some_and(|size| size < least) {
            return Err(StoreError::TooSmall { least });
        }
        let path = path.into();
        let mut folder = Folder::open(&path, options.access, options.retention, files)?;
        let mut report = StoreReport {
            store: path.display().to_string(),
            ..StoreReport::default()
        };
        let mut logs = recover::open(&mut folder, options.access, options.log, &mut report)?;
        report.total_bytes = folder.total;
        let mut batch = Batch::of(Columns::new(columns::stored(options.fields)));
        batch.log = logs.unused.pop();
        Ok(Self {
            batch,
            options,
            state: State::Waiting(Box::new(folder)),
            known: HashMap::new(),
            exporters: HashMap::new(),
            last: None,
            now_ns: now(),
            handed_over: Instant::now(),
            report: Arc::new(Mutex::new(report)),
            logs,
            log_fails: false,
        })
    }

    /// Starts the thread that writes. There may be threads from now on.
    pub(crate) fn begin(&mut self) -> Result<(), OutputError> {
        let State::Waiting(folder) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let path = folder.path.clone();
        let (batches, received) = sync_channel(QUEUE);
        // None is dropped that has a log.
        let kept = QUEUE.max(self.logs.files.len());
        let (used, spares) = sync_channel(kept);
        let worker = worker::Worker {
            folder: *folder,
            is_offline: self.options.wait,
            notify: self.options.notify,
            report: Arc::clone(&self.report),
            spares: used,
            logs: self.logs.files.clone(),
            refused: VecDeque::new(),
        };
        let thread = std::thread::Builder::new().name("store".to_owned());
        let thread = thread.spawn(move || worker.run(&received));
        let thread = thread.map_err(|source| StoreError::File { path, source })?;
        self.state = State::Running {
            batches,
            spares,
            thread,
        };
        self.handed_over = Instant::now();
        Ok(())
    }

    /// Takes a record.
    pub(crate) fn record(&mut self, row: &Row<'_>) {
        let (hour, exporter) = self.key(row);
        let place = match self.last {
            Some((last, from, place)) if last == hour && from == exporter => place,
            _ => {
                let place = self.place(hour, exporter);
                self.last = Some((hour, exporter, place));
                place
            }
        };
        self.batch.columns.push(row);
        self.batch.places.push(place);
        let is_logged = self.log(place);
        let columns = &self.batch.columns;
        if columns.rows >= BATCH || columns.text_bytes >= TEXTS || !is_logged {
            self.hand_over();
        }
    }

    /// Adds the last record to the log. Returns false if the log has no room for a further one.
    fn log(&mut self, place: u16) -> bool {
        let Batch {
            columns,
            leaves,
            log,
            ..
        } = &mut self.batch;
        let (Some(log), Some(leaf)) = (log, leaves.get(usize::from(place))) else {
            return true;
        };
        let is_due = log.append(columns, leaf);
        let has_room = !log.is_full();
        if is_due {
            self.flush_log();
        }
        has_room
    }

    /// Writes the last records to the log, if there is one.
    pub(crate) fn flush_log(&mut self) {
        let Batch { columns, log, .. } = &mut self.batch;
        let Some(log) = log else {
            return;
        };
        let flushed = log.flush(columns);
        let failed_before = std::mem::replace(&mut self.log_fails, flushed.is_err());
        if let Err((records, error)) = flushed {
            let mut report = locked(&self.report);
            report.not_logged += records;
            if !failed_before {
                let text = format!("{}: the log takes no records: {error}", report.store);
                drop(report);
                (self.options.notify)(&text);
            }
        }
    }

    /// Returns the hour of a record's end and its exporter. An exporter's clock is not trusted: a record that is far
    /// from the present goes to the present hour.
    fn key(&self, row: &Row<'_>) -> (u64, Option<IpAddr>) {
        let record = row.record;
        let back = record.reverse.map_or(0, |reverse| reverse.last_ns);
        let seconds = record.forward.last_ns.max(back) / 1_000_000_000;
        let Some(origin) = row.origin else {
            return (seconds / HOUR, None);
        };
        let now = self.now_ns / 1_000_000_000;
        let trusted = now.saturating_sub(OLDER)..=now + YOUNGER;
        let seconds = if trusted.contains(&seconds) {
            seconds
        } else {
            now
        };
        (seconds / HOUR, Some(origin.exporter.ip()))
    }

    fn place(&mut self, hour: u64, exporter: Option<IpAddr>) -> u16 {
        if let Some(&place) = self.known.get(&(hour, exporter)) {
            return place;
        }
        if self.batch.leaves.len() >= LEAVES {
            self.hand_over();
        }
        let key = (hour, exporter);
        let exporter = match exporter {
            None => self.options.exporter.clone(),
            Some(address) => self.folder_of(address),
        };
        let place = self.batch.place_of(Leaf { hour, exporter });
        self.known.insert(key, place);
        place
    }

    /// Returns the name of an exporter's folder. Their number is limited: a sender can pretend to be many.
    fn folder_of(&mut self, address: IpAddr) -> String {
        if let Some(name) = self.exporters.get(&address) {
            return name.clone();
        }
        if self.exporters.len() >= EXPORTERS {
            return OTHERS.to_owned();
        }
        let name = names::of_address(address);
        self.exporters.insert(address, name.clone());
        name
    }

    /// Writes the waiting records to the log, and hands them over if the interval has passed.
    pub(crate) fn advance(&mut self) {
        self.now_ns = now();
        self.flush_log();
        if !self.options.wait && self.handed_over.elapsed() >= self.options.interval {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        self.known.clear();
        self.last = None;
        if self.batch.columns.rows == 0 {
            self.batch.leaves.clear();
            return;
        }
        self.flush_log();
        let State::Running {
            batches, spares, ..
        } = &self.state
        else {
            return;
        };
        let spare = match spares.try_recv() {
            Ok(spare) => Some(spare),
            Err(_) => self.logs.another(&self.batch),
        };
        // All logs are in use: the next spare batch has one.
        let waited = || match self.options.wait {
            true => spares.recv().ok(),
            false => None,
        };
        let Some(empty) = spare.or_else(waited) else {
            locked(&self.report).lost_queue += self.batch.columns.rows as u64;
            self.batch.clear();
            return;
        };
        let full = std::mem::replace(&mut self.batch, empty);
        let refused = match self.options.wait {
            true => batches.send(full).err().map(|error| error.0),
            false => match batches.try_send(full) {
                Ok(()) => None,
                Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => Some(batch),
            },
        };
        if let Some(mut batch) = refused {
            locked(&self.report).lost_queue += batch.columns.rows as u64;
            batch.clear();
            let unused = std::mem::replace(&mut self.batch, batch);
            self.logs.unused.extend(unused.log);
        }
    }

    /// Writes the waiting records, and ends.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        // The disk may be busy with the records before; these are the last.
        self.options.wait = true;
        self.hand_over();
        let State::Running {
            batches, thread, ..
        } = std::mem::replace(&mut self.state, State::Ended)
        else {
            return Ok(());
        };
        drop(batches);
        let ended_early = || {
            Err(StoreError::File {
                path: PathBuf::from(self.report().store),
                source: std::io::Error::other("the thread that writes has ended early"),
            })
        };
        Ok(thread.join().unwrap_or_else(|_| ended_early())?)
    }

    /// Returns the counters.
    pub(crate) fn report(&self) -> StoreReport {
        locked(&self.report).clone()
    }
}

impl Batch {
    /// Returns a batch without records.
    fn of(columns: Columns) -> Self {
        Self {
            columns,
            places: Vec::new(),
            leaves: Vec::new(),
            log: None,
        }
    }

    /// Returns the place of a leaf, which is added if it is not there.
    fn place_of(&mut self, leaf: Leaf) -> u16 {
        let found = self.leaves.iter().position(|other| *other == leaf);
        let place = found.unwrap_or_else(|| {
            self.leaves.push(leaf);
            self.leaves.len() - 1
        });
        u16::try_from(place).unwrap_or(0)
    }

    /// Returns the places of leaves that records go to, and the numbers of these records.
    fn by_leaf(&self) -> impl Iterator<Item = (u16, Vec<u32>)> + use<> {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.leaves.len()];
        for (row, &place) in (0_u32..).zip(&self.places) {
            if let Some(rows) = rows.get_mut(usize::from(place)) {
                rows.push(row);
            }
        }
        let all = (0..).zip(rows);
        all.filter(|(_, rows)| !rows.is_empty())
    }

    /// Returns the number of records that were not removed.
    fn len(&self) -> u64 {
        let waiting = self.places.iter().filter(|&&place| place != WRITTEN);
        waiting.count() as u64
    }

    /// Returns how many of these are in the log.
    fn logged(&self) -> u64 {
        let Some(log) = &self.log else {
            return 0;
        };
        let waiting = (0..)
            .zip(&self.places)
            .filter(|(_, place)| **place != WRITTEN);
        waiting.filter(|(row, _)| log.has(*row)).count() as u64
    }

    /// Removes the records of these places: they are in files.
    fn remove(&mut self, written: &[u16]) {
        for place in &mut self.places {
            if written.contains(place) {
                *place = WRITTEN;
            }
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.places.clear();
        self.leaves.clear();
        if let Some(log) = &mut self.log {
            // Records that stay in it are in files: the next start sees that.
            let _ = log.clear();
        }
    }
}

fn locked(report: &Mutex<StoreReport>) -> MutexGuard<'_, StoreReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

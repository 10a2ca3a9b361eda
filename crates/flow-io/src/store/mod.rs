//! A store: a folder that keeps flow records as Parquet, for any engine to read.
//!
//! Data in: records, which wait in memory by column ([`Columns`]). Data out: files, one for each hour, exporter and
//! interval, written by a thread of its own ([`worker`]) under another name and published by rename(2). So a reader
//! never sees half a file, and a crash loses at most the records since the last interval. The thread also merges small
//! files ([`compact`]) and removes old ones ([`folder`]). The store has no list of files: a folder's listing is the truth.
//!
//! It reads no packet and answers no question: `ringtap query` does, and every engine that reads Parquet.

mod columns;
mod compact;
mod encode;
mod files;
mod folder;
mod names;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
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
pub use files::{OwnFiles, StoreFiles};
use folder::Folder;
use names::{HOUR, Leaf};
pub use names::{READERS_LOCK, STORE_LOCK, exporter_name, is_of_store};

/// The number of records that wait in memory, at most.
const BATCH: usize = encode::GROUP;
/// The bytes of texts that wait in memory, about: a stranger's texts are long.
const TEXTS: usize = 16 << 20;
/// The number of files that the waiting records go to, at most.
const LEAVES: usize = 256;
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
    /// The bytes that the folder may take; at least [`LEAST_STORE`].
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
    #[error("a store needs at least {} MiB (--retain)", LEAST_STORE >> 20)]
    TooSmall,
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
        if options
            .retention
            .size
            .is_some_and(|size| size < LEAST_STORE)
        {
            return Err(StoreError::TooSmall);
        }
        let path = path.into();
        let folder = Folder::open(&path, options.access, options.retention, files)?;
        let report = StoreReport {
            store: path.display().to_string(),
            total_bytes: folder.total(),
            ..StoreReport::default()
        };
        Ok(Self {
            batch: Batch::new(options.fields),
            options,
            state: State::Waiting(Box::new(folder)),
            known: HashMap::new(),
            exporters: HashMap::new(),
            last: None,
            now_ns: now(),
            handed_over: Instant::now(),
            report: Arc::new(Mutex::new(report)),
        })
    }

    /// Starts the thread that writes. There may be threads from now on.
    pub(crate) fn begin(&mut self) -> Result<(), OutputError> {
        let State::Waiting(folder) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let path = folder.path.clone();
        let (batches, received) = sync_channel(QUEUE);
        let (used, spares) = sync_channel(QUEUE);
        let worker = worker::Worker {
            folder: *folder,
            is_offline: self.options.wait,
            notify: self.options.notify,
            report: Arc::clone(&self.report),
            spares: used,
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
        let columns = &self.batch.columns;
        if columns.rows >= BATCH || columns.text_bytes >= TEXTS {
            self.hand_over();
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
        let exporter_name = match exporter {
            None => self.options.exporter.clone(),
            Some(address) => self.folder_of(address),
        };
        let leaf = Leaf {
            hour,
            exporter: exporter_name,
        };
        let found = self.batch.leaves.iter().position(|other| *other == leaf);
        let place = found.unwrap_or_else(|| {
            self.batch.leaves.push(leaf);
            self.batch.leaves.len() - 1
        });
        let place = u16::try_from(place).unwrap_or(0);
        self.known.insert((hour, exporter), place);
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

    /// Hands the waiting records over if the interval has passed.
    pub(crate) fn advance(&mut self) {
        self.now_ns = now();
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
        let State::Running {
            batches, spares, ..
        } = &self.state
        else {
            return;
        };
        let empty = spares
            .try_recv()
            .unwrap_or_else(|_| Batch::new(self.options.fields));
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
            self.batch = batch;
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
    fn new(fields: Fields) -> Self {
        Self {
            columns: Columns::new(columns::stored(fields)),
            places: Vec::new(),
            leaves: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.places.clear();
        self.leaves.clear();
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

//! The folder of a recorder: files with packets, a catalogue of their chunks, and a budget that they never
//! exceed.
//!
//! Data in: what the writer of a recording tells its [`Host`](crate::Host) ([`Stream`]). Data out: the
//! catalogue, which any process can read meanwhile ([`Listing`]), and room on the disk, by removing the oldest
//! files. It writes no packets itself, except when it mends a file that a crash cut (`repair.rs`).
//!
//! ```text
//! FOLDER/lock                                              held by the recorder
//!        catalogue.1                                       which chunk is where (`entry.rs`)
//!        20261125T224253.123456Z-00000042-eth0.pcapng.zst  packets
//!        20261125T224253.123456Z-00000042-eth0.pcapng.zst.idx  its index
//!        incidents/                                        copies that triggers made
//! ```

mod budget;
mod catalogue;
mod check;
mod chunks;
mod entry;
mod files;
mod incident;
mod listing;
mod name;
mod repair;
mod stream;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringtap_savefile::Timestamp;

pub use check::{Finding, check};
pub use chunks::{ChunkCounts, ChunkReader};
pub use entry::{Chunk, Cut, End, Entries, Entry, Reason};
pub use files::{Files, Found, bytes_below, bytes_in, look, taken};
pub use incident::Copied;
pub use listing::{Listed, Listing, Skipped, Window, open_catalogue};
pub use name::{
    CONTROL, FileName, INCIDENTS, LOCK, STATUS, catalogue, is_of_incident, is_of_recorder, nanos,
    safe, stamp,
};
pub use stream::{Completed, Stream, Taker};

use self::catalogue::Catalogue;
use crate::host::WrittenChunk;

ringtap_packet::options! {
    /// The limits of an archive.
    #[derive(Clone, Debug)]
    pub struct ArchiveOptions {
        /// The most bytes that the folder may take, everything included.
        pub budget: u64,
        /// The bytes of the disk that stay free.
        pub keep_free: u64,
        /// The age at which files are removed. `None` for no limit.
        pub max_age: Option<Duration>,
        /// Whether complete files get an index.
        pub index: bool,
        /// Whether files are compressed.
        pub compressed: bool,
    }
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            budget: 0,
            keep_free: 0,
            max_age: None,
            index: true,
            compressed: true,
        }
    }
}

/// The smallest budget for one device, in bytes.
pub const LEAST_BUDGET: u64 = 16 << 20;

/// An archive that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        r#source: io::Error,
    },
    /// The files that exist take more than the budget, and none of them may be removed.
    #[error("{}: its files take {taken} bytes that may not be removed; the budget is {budget}", folder.display())]
    OverBudget {
        /// The folder.
        folder: PathBuf,
        /// The bytes.
        taken: u64,
        /// The budget in bytes.
        budget: u64,
    },
}

/// The result of opening an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The number of files that a crash had left without their end.
    pub ended: u64,
    /// The number of packets that they hold beyond those of the catalogue.
    pub packets: u64,
    /// The bytes of packets that were cut, and are lost.
    pub cut: u64,
    /// The number of files that the catalogue did not know.
    pub unknown: u64,
    /// The number of files that the catalogue has, and the folder has not.
    pub missing: u64,
    /// The number of entries of the catalogue that are damaged.
    pub damaged: u64,
}

/// The present numbers of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The bytes that count to the budget, reserved room included.
    pub bytes: u64,
    /// The number of files with packets.
    pub files: u64,
    /// The number of chunks in them.
    pub chunks: u64,
    /// The number of packets in them.
    pub packets: u64,
    /// The bytes of the packets' blocks in the files.
    pub stored: u64,
    /// The time of the oldest and of the newest packet.
    pub times: Option<(i64, i64)>,
    /// The number of files that were removed since the start.
    pub removed: u64,
    /// The bytes of the copies that triggers made.
    pub incidents: u64,
    /// The packets that were cut while these files were written.
    pub cut: Cut,
    /// The entries that the catalogue does not have, because the disk took none for too long.
    pub unlisted: u64,
    /// The catalogue's generation.
    pub generation: u32,
}

/// The folder of a recorder.
pub struct Archive {
    folder: PathBuf,
    directory: File,
    files: Arc<dyn Files>,
    options: ArchiveOptions,
    state: Mutex<State>,
}

struct State {
    catalogue: Catalogue,
    files: BTreeMap<u32, Recorded>,
    next: u32,
    /// The sum of the files' charges.
    charged: u64,
    /// The bytes of the copies that triggers made.
    incidents: u64,
    removed: u64,
    /// Files with packets from this time on are kept as long as others can be removed.
    hold: Option<i64>,
    /// Device and number of the lock, by which the folder is recognized. `None` if there is no lock.
    place: Option<(u64, u64)>,
}

/// A file with packets.
struct Recorded {
    name: FileName,
    /// The bytes that it counts to the budget, its index and reserved room included.
    charge: u64,
    is_complete: bool,
    /// Removing it failed.
    is_stuck: bool,
    /// The end of its last chunk in the file, and before compression.
    end: u64,
    base: u64,
    packets: u64,
    chunks: u64,
    times: Option<(i64, i64)>,
    /// The packets that were cut, and the number of entries about them.
    cut: Cut,
    cuts: u64,
}

impl Recorded {
    fn new(name: FileName) -> Self {
        Self {
            name,
            charge: 0,
            is_complete: false,
            is_stuck: false,
            end: 0,
            base: 0,
            packets: 0,
            chunks: 0,
            times: None,
            cut: Cut::default(),
            cuts: 0,
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        self.end = self.end.max(chunk.end());
        self.base = self.base.max(chunk.base + u64::from(chunk.base_len));
        self.packets += u64::from(chunk.packets);
        self.chunks += 1;
        self.times = both(self.times, chunk.times);
    }

    /// Returns the number of its entries in the catalogue, including the one that it is gone.
    fn entries(&self) -> u64 {
        self.chunks + self.cuts + 3
    }

    fn add_cut(&mut self, cut: Cut) {
        self.cut.add(cut);
        self.cuts += 1;
    }

    fn ended(&self, bytes: u64, is_listed: bool) -> End {
        End {
            file: self.name.number,
            bytes,
            base: self.base,
            packets: self.packets,
            times: self.times,
            is_listed,
        }
    }
}

/// Returns the times that cover both.
fn both(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

impl Archive {
    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the numbers of the files.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let state = self.state();
        let mut usage = Usage {
            bytes: state.total(),
            files: state.files.len() as u64,
            removed: state.removed,
            incidents: state.incidents,
            unlisted: state.catalogue.dropped,
            generation: state.catalogue.generation,
            ..Usage::default()
        };
        for file in state.files.values() {
            usage.chunks += file.chunks;
            usage.packets += file.packets;
            usage.stored += file.end;
            usage.times = both(usage.times, file.times);
            usage.cut.add(file.cut);
        }
        usage
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the next file of a device.
    fn name(&self, device: &str, time: Timestamp) -> PathBuf {
        let mut state = self.state();
        let number = state.next;
        state.next = state.next.saturating_add(1);
        let name = FileName {
            begun: name::nanos(time),
            number,
            device: device.to_owned(),
            compressed: self.options.compressed,
        };
        name.path(&self.folder)
    }

    /// Notes that a file begins.
    fn begin(&self, name: FileName) -> io::Result<()> {
        let mut state = self.state();
        let result = state.catalogue.append(&Entry::File(name.clone()));
        state.files.insert(name.number, Recorded::new(name));
        result
    }

    /// Notes that a file has another chunk.
    fn landed(&self, number: u32, written: &WrittenChunk) {
        let mut state = self.state();
        let Some(chunk) = Chunk::of(number, written) else {
            return;
        };
        if let Some(file) = state.files.get_mut(&number) {
            file.add(&chunk);
            // If the disk does not take it, it is written with the next one.
            let _ = state.catalogue.append(&Entry::Chunk(chunk));
        }
    }

    /// Notes packets of these times that were cut while the newest file of a device was written. Returns
    /// whether there is such a file.
    #[must_use]
    pub fn cut(&self, device: &str, times: (i64, i64), cut: Cut) -> bool {
        let mut state = self.state();
        let mut files = state.files.iter_mut().rev();
        let Some((&file, newest)) = files.find(|(_, file)| file.name.device == device) else {
            return false;
        };
        newest.add_cut(cut);
        // If the disk does not take it, it is written with the next one.
        let _ = state.catalogue.append(&Entry::Cut { file, times, cut });
        true
    }

    /// Ends a file that its recording has completed. Returns whether there is room for its index.
    fn complete(&self, path: &Path, number: u32) -> bool {
        let bytes = self.measure(path).unwrap_or(0);
        let len = self.files.read(path).and_then(|file| file.metadata());
        let len = len.map_or(0, |metadata| metadata.len());
        let mut state = self.state();
        let Some(file) = state.files.get_mut(&number) else {
            return false;
        };
        file.is_complete = true;
        if file.packets == 0 {
            // Nothing is lost, so nothing is reported.
            let _ = self.remove(&mut state, number, Reason::Empty);
            return false;
        }
        let end = Entry::End(file.ended(len.max(file.end), true));
        let index = budget::index_bound(file.base);
        state.charge(number, bytes);
        let _ = state.catalogue.append(&end);
        let _ = state.catalogue.sync();
        self.renew_if_stale(&mut state);
        let wants_index = self.options.index && self.is_in_place(&state);
        let has_room = wants_index && self.make_room(&mut state, index, 0).is_ok();
        if has_room {
            state.charge(number, bytes + index);
        }
        has_room
    }

    /// Takes over the index of a file, whether it could be made or not. Returns whether the file still exists.
    pub fn indexed(&self, path: &Path) -> bool {
        let Some(name) = name_of(path) else {
            return false;
        };
        let mut state = self.state();
        if !state.files.contains_key(&name.number) {
            // The file was removed while its index was made.
            let _ = self.files.remove(&index_of(path));
            return false;
        }
        if let Some(bytes) = self.measure(path) {
            let index = self.measure(&index_of(path)).unwrap_or(0);
            state.charge(name.number, bytes + index);
        }
        true
    }

    /// Returns the bytes that a file takes on the disk.
    fn measure(&self, path: &Path) -> Option<u64> {
        let file = self.files.read(path).ok()?;
        file.metadata().ok().as_ref().map(files::taken)
    }

    fn renew_if_stale(&self, state: &mut State) {
        if state.catalogue.is_stale() && self.is_in_place(state) {
            let is_kept = |file| state.files.contains_key(&file);
            // If it fails, the old one continues to grow.
            let _ = state.catalogue.renew(&*self.files, &self.folder, is_kept);
        }
    }

    /// Removes files that are too old at `now`, and writes what the disk did not take before.
    pub fn tick(&self, now: Timestamp) {
        let mut state = self.state();
        let _ = state.catalogue.flush();
        let Some(age) = self.options.max_age else {
            return;
        };
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = name::nanos(now).saturating_sub(age);
        let old = |file: &Recorded| {
            let is_old = file.times.is_some_and(|(_, last)| last < oldest);
            file.is_complete && !file.is_stuck && is_old
        };
        let numbers = state.files.iter().filter(|(_, file)| old(file));
        let numbers: Vec<u32> = numbers.map(|(number, _)| *number).collect();
        if numbers.is_empty() || !self.is_in_place(&state) {
            return;
        }
        for number in numbers {
            let _ = self.remove(&mut state, number, Reason::Age);
        }
    }

    /// Sets the bytes of the copies that triggers made.
    ///
    /// # Errors
    /// There is no room for them, even without the oldest files.
    pub fn set_incidents(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let more = bytes.saturating_sub(state.incidents);
        self.make_room(&mut state, more, more)?;
        state.incidents = bytes;
        Ok(())
    }

    /// Checks that the folder was not removed: then files that are open have no place any more.
    ///
    /// # Errors
    /// It was removed.
    pub fn check_folder(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        match self.directory.metadata()?.nlink() {
            0 => Err(gone("the folder was removed")),
            _ => Ok(()),
        }
    }

    /// Returns whether the folder is still at its path. Files that are created or removed by their path would
    /// otherwise be in another one, such as the mount point of a disk that has gone.
    fn is_in_place(&self, state: &State) -> bool {
        let is_same = |place| match place_of(&*self.files, &self.folder) {
            Ok(found) => found == place,
            // Anything else says nothing of the place.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        state.place.is_none_or(is_same)
    }

    /// Checks that files can be created in the folder.
    fn check_place(&self) -> io::Result<()> {
        self.check_folder()?;
        match self.is_in_place(&self.state()) {
            true => Ok(()),
            false => Err(gone(
                "the folder is no longer there: its disk was unmounted, or it was renamed",
            )),
        }
    }
}

fn gone(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Returns device and number of the folder's lock.
fn place_of(files: &dyn Files, folder: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let lock = files.read(&folder.join(LOCK))?.metadata()?;
    Ok((lock.dev(), lock.ino()))
}

/// Returns the parsed name of a path.
fn name_of(path: &Path) -> Option<FileName> {
    FileName::parse(path.file_name()?.to_str()?)
}

/// Returns the path of a file's index.
fn index_of(path: &Path) -> PathBuf {
    ringtap_savefile::index::path_for(path)
}

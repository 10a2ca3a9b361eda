//! The folder of a store: its files, and the room that they take.
//!
//! The files are counted once, when the store is opened; after that only this process adds and removes some. Room is
//! made before a file is written, so that the files never take more than the limit.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap_sys::disk;
use ringtap_sys::output::{self, Access};

use super::files::StoreFiles;
use super::names::{self, HOUR, Leaf, READERS_LOCK, STORE_LOCK};
use super::{Retention, StoreError, StoreReport};

/// The bytes that files take in multiples of, on usual file systems.
const BLOCK: u64 = 4096;
/// The bytes of the folders of a leaf, of the day and of the hour, at most.
const FOLDERS: u64 = 3 * BLOCK;
/// The bytes of the lock files and of the store's own folder.
const FIXED: u64 = 4 * BLOCK;
/// How often a lock is tried that another process holds.
const TRIES: u32 = 20;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(25);

/// The files of a leaf, by name, with their bytes.
pub(super) type Files = BTreeMap<String, u64>;

/// The folder of a store that this process writes.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) files: Box<dyn StoreFiles>,
    retention: Retention,
    /// The oldest first.
    pub(super) leaves: BTreeMap<Leaf, Files>,
    /// The bytes of all files and folders.
    pub(super) total: u64,
    next_number: u64,
    readers: File,
    _lock: File,
}

impl Folder {
    /// Opens and locks the folder, which is created if it does not exist, and removes unfinished files.
    pub(super) fn open(
        path: &Path,
        access: Access,
        retention: Retention,
        files: Box<dyn StoreFiles>,
    ) -> Result<Self, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::File { path, source }
        };
        match DirBuilder::new().mode(access.folder_mode()).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(path)(error));
            }
            _ => {}
        }
        let open = |name: &str| {
            let path = path.join(name);
            let opened = output::open(&path, access, true);
            opened.map(|opened| opened.file).map_err(failed(&path))
        };
        let lock = open(STORE_LOCK)?;
        let readers = open(READERS_LOCK)?;
        if !try_lock(&lock).map_err(failed(path))? {
            return Err(StoreError::Locked {
                folder: path.to_owned(),
            });
        }
        let mut folder = Self {
            path: path.to_owned(),
            files,
            retention,
            leaves: BTreeMap::new(),
            total: FIXED,
            next_number: 1,
            readers,
            _lock: lock,
        };
        folder.scan().map_err(failed(path))?;
        Ok(folder)
    }

    /// Finds the files, and removes what an earlier run has left unfinished.
    fn scan(&mut self) -> io::Result<()> {
        for date in folders(&self.path)? {
            for hour in folders(&self.path.join(&date))? {
                let above = self.path.join(&date).join(&hour);
                for name in folders(&above)? {
                    if let Some(leaf) = Leaf::parse(&date, &hour, &name) {
                        self.scan_leaf(leaf)?;
                    } else if let Some(whole) = names::finished(&name)
                        && Leaf::parse(&date, &hour, whole).is_some()
                    {
                        self.remove_unfinished(&above.join(&name))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn scan_leaf(&mut self, leaf: Leaf) -> io::Result<()> {
        let path = self.path.join(leaf.path());
        let mut found = Files::new();
        for (name, bytes) in files_in(&path)? {
            match names::parse_file(&name) {
                Some((number, _)) => {
                    self.next_number = self.next_number.max(number + 1);
                    self.total += rounded(bytes);
                    found.insert(name, bytes);
                }
                None if names::finished(&name).and_then(names::parse_file).is_some() => {
                    fs::remove_file(path.join(name))?;
                }
                None => {}
            }
        }
        self.total += FOLDERS;
        self.leaves.insert(leaf, found);
        Ok(())
    }

    /// Removes the folder of a merge that did not end. Files of others stay, and then so does the folder.
    fn remove_unfinished(&self, path: &Path) -> io::Result<()> {
        for (name, _) in files_in(path)? {
            if names::parse_file(names::finished(&name).unwrap_or(&name)).is_some() {
                fs::remove_file(path.join(name))?;
            }
        }
        match fs::remove_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the name of a new file.
    pub(super) fn new_name(&mut self, is_merged: bool, now_ns: u64) -> String {
        let number = self.next_number;
        self.next_number += 1;
        names::file_name(is_merged, now_ns, number)
    }

    /// Whether this much more fits into the limit as it is.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let limit = self.retention.size;
        limit.is_none_or(|limit| self.total + rounded(bytes) + FOLDERS <= limit)
    }

    /// Writes a file into a leaf. When it returns, the file is on the disk.
    pub(super) fn add(
        &mut self,
        leaf: &Leaf,
        name: &str,
        bytes: &[u8],
        report: &mut StoreReport,
    ) -> io::Result<()> {
        let size = bytes.len() as u64;
        self.make_room(rounded(size) + FOLDERS, report)?;
        self.write(&leaf.path().join(name), bytes)?;
        let files = self.leaves.entry(leaf.clone()).or_insert_with(|| {
            self.total += FOLDERS;
            Files::new()
        });
        files.insert(name.to_owned(), size);
        self.total += rounded(size);
        Ok(())
    }

    /// Writes a file under its unfinished name, to the disk, and publishes it.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        use std::io::Write as _;
        let path = self.path.join(path);
        let unfinished = names::unfinished_path(&path).ok_or(io::ErrorKind::InvalidInput)?;
        let write = || {
            let mut file = self.files.create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            self.files.publish(&path)
        };
        let written = write();
        if written.is_err() {
            // It counts to nothing, and the next start removes it.
            let _ = self.files.remove(&unfinished);
        }
        written
    }

    /// Makes room for files that stay as long as the store is open, and counts their bytes.
    pub(super) fn reserve(&mut self, bytes: u64, report: &mut StoreReport) -> io::Result<()> {
        self.make_room(bytes, report)?;
        self.total += bytes;
        Ok(())
    }

    /// Removes the oldest files until there is room for `more` bytes.
    fn make_room(&mut self, more: u64, report: &mut StoreReport) -> io::Result<()> {
        let Some(limit) = self.retention.size else {
            return Ok(());
        };
        while self.total + more > limit {
            if !self.remove_oldest()? {
                let full = "the limit of --retain is used up, and no file can be removed";
                return Err(io::Error::new(io::ErrorKind::QuotaExceeded, full));
            }
            report.removed_files += 1;
        }
        Ok(())
    }

    /// Removes the files of hours that are older than the limit.
    pub(super) fn remove_old(&mut self, now_ns: u64, report: &mut StoreReport) -> io::Result<()> {
        let Some(age) = self.retention.age else {
            return Ok(());
        };
        let limit = (now_ns / 1_000_000_000).saturating_sub(age.as_secs());
        loop {
            let oldest = self.leaves.first_key_value();
            if oldest.is_none_or(|(leaf, _)| (leaf.hour + 1) * HOUR > limit) {
                return Ok(());
            }
            report.removed_files += u64::from(self.remove_oldest()?);
        }
    }

    /// Removes the oldest file, or the oldest leaf if it has none. Returns whether it was a file.
    fn remove_oldest(&mut self) -> io::Result<bool> {
        loop {
            let Some(mut entry) = self.leaves.first_entry() else {
                return Ok(false);
            };
            let leaf = entry.key().clone();
            let path = self.path.join(leaf.path());
            if let Some((name, bytes)) = entry.get_mut().pop_first() {
                if let Err(error) = self.files.remove(&path.join(&name))
                    && error.kind() != io::ErrorKind::NotFound
                {
                    entry.get_mut().insert(name, bytes);
                    return Err(error);
                }
                self.total -= rounded(bytes);
                if entry.get().is_empty() {
                    self.forget(&leaf);
                }
                return Ok(true);
            }
            self.forget(&leaf);
        }
    }

    /// Removes the folders of a leaf without files. Those with files of others stay.
    fn forget(&mut self, leaf: &Leaf) {
        if self.leaves.remove(leaf).is_some() {
            self.total -= FOLDERS;
        }
        for folder in self.path.join(leaf.path()).ancestors().take(3) {
            if self.files.remove(folder).is_err() {
                break;
            }
        }
    }

    /// Counts the files of a leaf's next folder, which take room until they replace others.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.total += rounded(bytes);
    }

    /// Removes the files of a leaf's next folder, and the folder.
    pub(super) fn discard(&mut self, leaf: &Leaf, files: &Files) {
        let folder = self.path.join(leaf.next());
        for (name, bytes) in files {
            // The next start removes what remains.
            if self.files.remove(&folder.join(name)).is_ok() {
                self.total -= rounded(*bytes);
            }
        }
        let _ = self.files.remove(&folder);
    }

    /// Replaces the files of a leaf by those of its next folder, in one step. Returns false, without a change, while
    /// a reader holds the store.
    pub(super) fn replace(&mut self, leaf: &Leaf, merged: Files) -> io::Result<bool> {
        if !disk::try_lock(&self.readers, true).map_err(|error| error.source)? {
            return Ok(false);
        }
        let exchanged = self.files.exchange(&self.path.join(leaf.path()));
        if exchanged.is_ok() {
            let old = self.leaves.insert(leaf.clone(), merged);
            self.discard(leaf, &old.unwrap_or_default());
        }
        let unlocked = disk::unlock(&self.readers).map_err(|error| error.source);
        exchanged.and(unlocked).map(|()| true)
    }
}

fn try_lock(lock: &File) -> io::Result<bool> {
    for _ in 0..TRIES {
        if disk::try_lock(lock, true).map_err(|error| error.source)? {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// Returns the bytes that a file takes on the disk.
fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// Returns the names of the folders in a folder. Links are not followed.
fn folders(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// Returns the files in a folder, with their bytes.
fn files_in(path: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let (true, Ok(name)) = (
            entry.file_type()?.is_file(),
            entry.file_name().into_string(),
        ) {
            files.push((name, entry.metadata()?.len()));
        }
    }
    Ok(files)
}

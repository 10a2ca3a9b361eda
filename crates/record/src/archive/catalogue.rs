//! The catalogue's file, from the side that writes it.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::entry::{ENTRY, Entries, Entry, header};
use super::files::Files;
use super::name;

/// The number of entries of removed files that are too few to write the catalogue again.
const FEW: u64 = 4096;
/// The bytes of entries that wait at most while the disk takes none.
const WAITING: usize = 1 << 20;

/// A catalogue that grows.
pub(super) struct Catalogue {
    file: File,
    pub(super) generation: u32,
    /// Its size in bytes.
    len: u64,
    /// Entries that the disk has not taken.
    waiting: Vec<u8>,
    /// The number of entries that belong to removed files.
    pub(super) dead: u64,
    /// The number of entries that are missing: the disk took none for too long, and there was no memory for them.
    pub(super) dropped: u64,
}

/// The bytes that are written at once to a new catalogue.
const PIECE: usize = 64 << 10;

impl Catalogue {
    /// Creates an empty catalogue of a generation with these entries.
    pub(super) fn create(
        files: &dyn Files,
        folder: &Path,
        generation: u32,
        entries: impl Iterator<Item = io::Result<Entry>>,
    ) -> io::Result<Self> {
        let path = folder.join(name::catalogue(generation));
        let file = files.write(&path)?.emptied()?;
        let (mut bytes, mut len) = (vec![0; ENTRY], 0);
        for entry in entries {
            bytes.extend_from_slice(&entry?.to_bytes());
            if bytes.len() >= PIECE {
                file.write_all_at(&bytes, len)?;
                len += bytes.len() as u64;
                bytes.clear();
            }
        }
        file.write_all_at(&bytes, len)?;
        len += bytes.len() as u64;
        file.sync_data()?;
        file.write_all_at(&header(), 0)?;
        file.sync_data()?;
        Ok(Self::growing(file, generation, len))
    }

    fn growing(file: File, generation: u32, len: u64) -> Self {
        Self {
            file,
            generation,
            len,
            waiting: Vec::new(),
            dead: 0,
            dropped: 0,
        }
    }

    /// Opens the catalogue of a generation to append to it, and passes its entries to `take`. Returns it with
    /// the number of damaged entries; `None` if it is not valid.
    pub(super) fn open(
        files: &dyn Files,
        folder: &Path,
        generation: u32,
        take: &mut dyn FnMut(Entry),
    ) -> io::Result<Option<(Self, u64)>> {
        let path = folder.join(name::catalogue(generation));
        let reading = files.read(&path)?;
        let Some(mut read) = Entries::new(BufReader::new(&reading))? else {
            return Ok(None);
        };
        while let Some(entry) = read.next()? {
            take(entry);
        }
        let damaged = read.damaged();
        let file = files.write(&path)?.into_file()?;
        // An entry that was cut is overwritten.
        let len = file.metadata()?.len();
        let len = len - len % ENTRY as u64;
        file.set_len(len)?;
        Ok(Some((Self::growing(file, generation, len), damaged)))
    }

    /// Appends an entry. If the disk does not take it, it is written together with the next one.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        if self.waiting.len() < WAITING {
            self.waiting.extend_from_slice(&entry.to_bytes());
        } else {
            self.dropped += 1;
        }
        self.flush()
    }

    /// Writes the entries that wait.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.waiting, self.len)?;
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Has everything on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns the size in bytes, with the entries that wait.
    pub(super) fn len(&self) -> u64 {
        self.len + self.waiting.len() as u64
    }

    /// Returns whether most of the catalogue is about removed files.
    pub(super) fn is_stale(&self) -> bool {
        self.dead > FEW && self.dead > self.len / ENTRY as u64 / 2
    }

    /// Writes the next generation, with the entries of the files for which `is_kept` returns true, and removes
    /// this one. Readers that have this one open can read on.
    pub(super) fn renew(
        &mut self,
        files: &dyn Files,
        folder: &Path,
        is_kept: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        self.flush()?;
        let old = folder.join(name::catalogue(self.generation));
        let reading = files.read(&old)?;
        let Some(mut read) = Entries::new(BufReader::new(&reading))? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is damaged", old.display()),
            ));
        };
        let stays = |entry: &Entry| is_kept(entry.file()) && !matches!(entry, Entry::Gone { .. });
        let entries = std::iter::from_fn(|| read.next().transpose());
        let kept = entries.filter(|entry| entry.as_ref().map_or(true, stays));
        let dropped = self.dropped;
        let next = self.generation + 1;
        let created = Self::create(files, folder, next, kept);
        *self = created.inspect_err(|_| {
            // With a whole header it would count, without the entries that follow in this one.
            let _ = files.remove(&folder.join(name::catalogue(next)));
        })?;
        self.dropped = dropped;
        files.remove(&old)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Reason;
    use super::*;

    #[test]
    fn entries_beyond_the_memory_for_a_full_disk_are_counted() {
        let mut options = File::options();
        let mut catalogue = Catalogue {
            file: options.write(true).open("/dev/full").expect("a device"),
            generation: 1,
            len: 0,
            waiting: Vec::new(),
            dead: 0,
            dropped: 0,
        };
        let entry = Entry::Gone {
            file: 1,
            reason: Reason::Budget,
        };
        let room = (WAITING / ENTRY) as u64;
        for _ in 0..room + 7 {
            assert!(catalogue.append(&entry).is_err());
        }
        assert_eq!((catalogue.dropped, catalogue.len()), (7, WAITING as u64));
    }
}

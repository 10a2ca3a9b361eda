//! Room on the disk: counted before it is taken, and made by removing the oldest files.
//!
//! A growing file counts with the room that is reserved for it. The writer asks before it reserves more
//! ([`Host::admit`](crate::Host::admit)), and the oldest files go before the answer. So the folder never takes
//! more than the budget, not even between two steps.

use std::io;

use ringtap_sys::disk;

use super::{Archive, Entry, Reason, Recorded, State, index_of};

/// The bytes that are kept for the lock, the status, the folder itself, and the catalogue's next entries.
const FIXED: u64 = 256 << 10;
/// The bytes of a growing file's metadata on the disk.
const GROWING: u64 = 64 << 10;
/// The bytes of a file's entry in the folder, and of its index's.
const NAME: u64 = 512;
/// The bytes of the disk that are always left to the file system.
const SPARE: u64 = 1 << 20;

/// Returns the most bytes that the index of a file takes, by its size before compression.
pub(super) fn index_bound(base: u64) -> u64 {
    base / 64 + (8 << 10)
}

impl State {
    /// Returns the bytes that count to the budget. The catalogue counts twice: it is there twice while it is
    /// renewed.
    pub(super) fn total(&self) -> u64 {
        let names = self.files.len() as u64 * NAME;
        FIXED + self.charged + self.incidents + names + 2 * self.catalogue.len()
    }

    /// Sets the bytes that a file counts.
    pub(super) fn charge(&mut self, number: u32, bytes: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            self.charged = self.charged - file.charge + bytes;
            file.charge = bytes;
        }
    }
}

impl Archive {
    /// Counts the room that a growing file is about to take, `end` bytes in all, and makes it.
    pub(super) fn admit(&self, number: u32, end: u64) -> io::Result<()> {
        let mut state = self.state();
        let before = state.files.get(&number).map_or(0, |file| file.charge);
        let charge = end.saturating_add(GROWING);
        let more = charge.saturating_sub(before);
        self.make_room(&mut state, more, more)?;
        state.charge(number, charge);
        Ok(())
    }

    /// Removes the oldest files until there is room for `more` bytes in the budget, and for `disk` bytes on
    /// the disk.
    pub(super) fn make_room(&self, state: &mut State, more: u64, disk: u64) -> io::Result<()> {
        let kept = self.options.keep_free;
        let needed = kept.saturating_add(disk).saturating_add(SPARE);
        // A file system may count removed blocks as free only later.
        let mut freed = 0;
        loop {
            let over = state.total().saturating_add(more) > self.options.budget;
            let is_low = || match disk::free(&self.directory) {
                Ok(free) => disk > 0 && free.saturating_add(freed) < needed,
                Err(_) => false,
            };
            let reason = match over {
                true => Reason::Budget,
                false if is_low() => Reason::Free,
                false => return Ok(()),
            };
            match self.remove_oldest(state, reason) {
                Some(bytes) => freed += bytes,
                None if over => {
                    let full = "the budget is used up, and no file can be removed";
                    return Err(io::Error::new(io::ErrorKind::QuotaExceeded, full));
                }
                None => {
                    let full = "too little of the disk is free, and no file can be removed";
                    return Err(io::Error::new(io::ErrorKind::StorageFull, full));
                }
            }
        }
    }

    /// Removes the oldest complete file. Returns its bytes; `None` if no file can be removed.
    fn remove_oldest(&self, state: &mut State, reason: Reason) -> Option<u64> {
        if !self.is_in_place(state) {
            return None;
        }
        loop {
            let may_go = |file: &&Recorded| file.is_complete && !file.is_stuck;
            let is_held = |file: &Recorded| {
                let held = state.hold.zip(file.times);
                held.is_some_and(|(hold, (_, last))| last >= hold)
            };
            let free = |(_, file): &(&u32, &Recorded)| may_go(file) && !is_held(file);
            let oldest = state.files.iter().find(free);
            // A hold does not stop the recorder.
            let (&number, file) =
                oldest.or_else(|| state.files.iter().find(|(_, file)| may_go(file)))?;
            let bytes = file.charge;
            if self.remove(state, number, reason).is_ok() {
                return Some(bytes);
            }
        }
    }

    /// Removes a file and its index. The catalogue says so first, so that a crash between both leaves a file
    /// that the next start removes.
    pub(super) fn remove(&self, state: &mut State, number: u32, reason: Reason) -> io::Result<()> {
        let Some(file) = state.files.get_mut(&number) else {
            return Ok(());
        };
        let path = file.name.path(&self.folder);
        let file = number;
        // If the disk does not take the entry, the next start finds that the file is missing.
        let _ = state.catalogue.append(&Entry::Gone { file, reason });
        for path in [index_of(&path), path] {
            match self.files.remove(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    if let Some(file) = state.files.get_mut(&number) {
                        file.is_stuck = true;
                    }
                    return Err(error);
                }
            }
        }
        if let Some(file) = state.files.remove(&number) {
            state.charged -= file.charge;
            state.catalogue.dead += file.entries();
            state.removed += 1;
        }
        Ok(())
    }
}

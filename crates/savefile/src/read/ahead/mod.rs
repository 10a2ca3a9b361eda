//! Reads a large regular file ahead, by a second thread.
//!
//! From the page cache, a file is read as fast as one processor copies. Processing the bytes costs
//! as much again, and more if they lie in another processor's cache. So the consumer and a helper
//! do the same work: each reads stretches of the file into its own memory, walks over the records
//! and applies the filter while the bytes are in its processor's cache. The consumer gets the
//! stretches in the file's order, and processes one itself instead of waiting.
//!
//! The start of a record is known only from the records before it: the walk over a stretch begins
//! where the walk over the stretch before ended. The right to walk is a value ([`Walk`]), with the
//! beginning of the record that continues in the next stretch. A thread passes it on as soon as it
//! has walked, before it applies the filter. A walk that finds anything but packets (another block,
//! damage) is not passed on. The consumer continues alone from there, and starts a new walk with
//! its next stretch.
//!
//! Stretches are passed on as whole vectors, so that nothing is copied again. Each has headroom
//! before it for the beginning of the first record.

mod state;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hint;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::filtered::{PacketFilter, Range};
use crate::read::choose::Scratch;
use crate::read::walker::{Stop, Walker};
use state::{Slot, State, Walk};

/// Room before a stretch for the beginning of a record. A longer beginning is copied together with
/// the stretch instead.
///
/// It is half a page more than whole pages: large blocks of memory begin a few bytes after the
/// start of a page, and stretches of a file at or near one. Without the half page, each would be
/// read to a place where copies are slow (see [`Buffer`](super::buffer::Buffer)).
pub(super) const HEADROOM: usize = 64 * 1024 + 2048;

/// The smallest rest of a file, in bytes, for which a second thread pays off.
pub(super) const MIN_LEFT: u64 = 8 * 1024 * 1024;

/// How often a thread that has read a stretch checks whether the walk has reached it, before it
/// leaves the stretch to another thread. This takes a few times as long as a walk, but less than
/// fetching the bytes from another processor's cache.
const PATIENCE: u32 = 500;
/// Instead of a stretch's number: the consumer has the walk.
const NOWHERE: u64 = u64::MAX;

/// Memory for a stretch and for the records chosen from it.
pub(super) struct Memory {
    pub(super) data: Vec<u8>,
    /// Chosen records, from the first record on.
    pub(super) ranges: Vec<Range>,
    pub(super) by: By,
}

/// A stretch of the file: the bytes from `start` to `end`. Those from [`HEADROOM`] on were read;
/// the walk put those before there.
pub(super) struct Stretch {
    pub(super) memory: Memory,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) walked: Option<Walked>,
}

/// The result of a walk over a stretch.
#[derive(Clone, Copy)]
pub(super) struct Walked {
    pub(super) walk: crate::encoding::Walk<Stop>,
    /// Whether a filter was applied, and chose [`Memory::ranges`].
    pub(super) filtered: bool,
    /// Whether the walk was passed on to the next stretch.
    handed_on: bool,
}

/// The thread that reads a stretch. Its memory returns to the same thread, whose processor's cache
/// holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Consumer,
    Helper,
}

/// A file that is read ahead.
pub(super) struct Ahead {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
    /// Offset in the file of the next byte to deliver.
    pub(super) offset: u64,
    /// Whether the walk over the next stretch was started or passed on.
    walking: bool,
}

struct Shared {
    file: File,
    /// Offset in the file of the first stretch.
    start: u64,
    /// Bytes of a stretch.
    size: usize,
    state: Mutex<State>,
    /// The helper waits for room.
    room: Condvar,
    /// The consumer waits for the next stretch.
    ready: Condvar,
    /// The number of the stretch that is walked next or now, for a thread that has just read one;
    /// only a hint.
    walk_at: AtomicU64,
}

impl Ahead {
    /// Starts reading the file from `offset` on, in stretches of `size` bytes.
    pub(super) fn start(
        file: File,
        offset: u64,
        size: usize,
        filter: Option<Arc<dyn PacketFilter>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file,
            start: offset,
            size,
            state: Mutex::new(State::new(filter)),
            room: Condvar::new(),
            ready: Condvar::new(),
            walk_at: AtomicU64::new(NOWHERE),
        });
        let helper = Arc::clone(&shared);
        let helper = std::thread::Builder::new()
            .name("read-ahead".to_owned())
            .spawn(move || helper.serve())?;
        Ok(Self {
            shared,
            helper: Some(helper),
            offset,
            walking: false,
        })
    }

    /// Sets the filter of later stretches, except those filtered already.
    pub(super) fn set_filter(&self, filter: Option<Arc<dyn PacketFilter>>) {
        self.shared.lock().filter = filter;
    }

    /// Returns the next stretch; it is empty at the end of the file.
    ///
    /// `rest` is the unread part of the consumer's last stretch. If a `walker` may continue there,
    /// the stretch comes walked if possible, with `rest` put in front.
    pub(super) fn next(
        &mut self,
        rest: &[u8],
        walker: Option<Walker>,
        scratch: &mut Scratch,
    ) -> io::Result<Stretch> {
        if self.helper.is_none() {
            return self.read_alone();
        }
        if let (false, Some(walker)) = (self.walking, walker) {
            self.walking = self.shared.start_walk(rest, walker);
        }
        let stretch = match self.shared.next(!self.walking, scratch) {
            Some(Ok(stretch)) => stretch,
            Some(error) => {
                self.close();
                return error;
            }
            None => {
                self.close();
                return self.read_alone();
            }
        };
        self.walking = stretch.walked.is_some_and(|walked| walked.handed_on);
        self.offset += stretch.read_len() as u64;
        if stretch.read_len() < self.shared.size {
            // The end, possibly of a growing file: the later stretches then begin at wrong offsets.
            self.close();
        }
        Ok(stretch)
    }

    /// Reads the next stretch without the helper.
    fn read_alone(&mut self) -> io::Result<Stretch> {
        let memory = self.shared.lock().memory(self.shared.size, By::Consumer);
        let stretch = self.shared.read(self.offset, memory)?;
        self.offset += stretch.read_len() as u64;
        Ok(stretch)
    }

    /// Takes memory back if its size is that of stretches.
    pub(super) fn recycle(&self, memory: Memory) {
        if memory.data.len() == HEADROOM + self.shared.size {
            self.shared.lock().recycle(memory);
        }
    }

    /// Ends the helper; if it has panicked (only a filter does), so does the caller.
    fn close(&mut self) {
        if let Some(helper) = self.helper.take() {
            self.walking = false;
            self.shared.lock().closed = true;
            self.shared.room.notify_one();
            if let (Err(panic), false) = (helper.join(), std::thread::panicking()) {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the helper until the file is closed.
    fn serve(&self) {
        let _farewell = Farewell(self);
        let mut scratch = Scratch::default();
        let mut state = self.lock();
        while !state.closed {
            state = match self.work(state, By::Helper, &mut scratch) {
                Ok(state) => state,
                Err(mut state) => {
                    state.helper_sleeps = true;
                    while state.helper_sleeps && !state.closed {
                        state = wait(&self.room, state);
                    }
                    state
                }
            };
        }
    }

    /// Returns the next stretch in the file's order, walked unless `raw` is set; `None` if the
    /// helper is gone. Instead of waiting for it, the caller works on another.
    fn next(&self, raw: bool, scratch: &mut Scratch) -> Option<io::Result<Stretch>> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.take(raw) {
                if state.wants_helper() {
                    state.helper_sleeps = false;
                    self.room.notify_one();
                }
                return Some(result);
            }
            if state.helper_gone {
                return None;
            }
            state = match self.work(state, By::Consumer, scratch) {
                Ok(state) => state,
                Err(mut state) => {
                    state.consumer_sleeps = true;
                    state = wait(&self.ready, state);
                    state.consumer_sleeps = false;
                    state
                }
            };
        }
    }

    /// Makes the walk over the next stretch available to any thread, with `rest` before it. Returns
    /// false if `rest` is longer than the headroom.
    fn start_walk(&self, rest: &[u8], walker: Walker) -> bool {
        if rest.len() > HEADROOM {
            return false;
        }
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.spare_before);
        before.clear();
        before.extend_from_slice(rest);
        let number = state.taken;
        state.walk = Some(Walk {
            number,
            before,
            walker,
        });
        self.walk_at.store(number, Ordering::Relaxed);
        true
    }

    /// Walks over a stretch or reads one, if there is one to do; otherwise returns an error.
    fn work<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        by: By,
        scratch: &mut Scratch,
    ) -> Result<MutexGuard<'s, State>, MutexGuard<'s, State>> {
        if let Some((walk, stretch)) = state.take_walk() {
            let filter = state.filter.clone();
            drop(state);
            return Ok(self.walk(walk, stretch, filter, scratch));
        }
        let Some(number) = state.claim() else {
            return Err(state);
        };
        let memory = state.memory(self.size, by);
        drop(state);
        let result = self.read(self.start + number * self.size as u64, memory);
        self.await_walk(number);
        let slot = match result {
            Ok(stretch) => Slot::Read(stretch),
            Err(error) => Slot::Ready(Err(error)),
        };
        Ok(self.put(number, slot))
    }

    /// Reads a stretch at an offset; it is shorter only at the end of the file.
    fn read(&self, offset: u64, mut memory: Memory) -> io::Result<Stretch> {
        let mut end = HEADROOM;
        while end < memory.data.len() {
            let at = offset + (end - HEADROOM) as u64;
            match self.file.read_at(&mut memory.data[end..], at) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Stretch {
            memory,
            start: HEADROOM,
            end,
            walked: None,
        })
    }

    /// Waits a moment while another thread walks over the stretch before.
    fn await_walk(&self, number: u64) {
        for _ in 0..PATIENCE {
            let at = self.walk_at.load(Ordering::Relaxed);
            if at == NOWHERE || at + 1 != number {
                return;
            }
            hint::spin_loop();
        }
    }

    /// Walks over a stretch, passes the walk on, and applies the filter.
    fn walk(
        &self,
        mut walk: Walk,
        mut stretch: Stretch,
        filter: Option<Arc<dyn PacketFilter>>,
        scratch: &mut Scratch,
    ) -> MutexGuard<'_, State> {
        let number = walk.number;
        let full = stretch.read_len() == self.size;
        stretch.put_in_front(&walk.before);
        let Memory { data, ranges, .. } = &mut stretch.memory;
        let bytes = &mut data[stretch.start..stretch.end];
        let walker = walk.walker.clone();
        let walked = walker.walk(bytes, filter.is_some().then_some(&mut scratch.starts));
        let (records, rest) = bytes.split_at_mut(walked.used);
        let handed_on = walked.stop == Stop::More && full && rest.len() <= HEADROOM;
        walk.before.clear();
        if handed_on {
            walk.number += 1;
            walk.before.extend_from_slice(rest);
            self.hand_on(walk);
        } else {
            self.walk_at.store(NOWHERE, Ordering::Relaxed);
            self.lock().spare_before = walk.before;
            drop(walk.walker);
        }
        if let Some(filter) = &filter {
            scratch.choose(&**filter, records, walker.encoding(), ranges);
        }
        stretch.walked = Some(Walked {
            walk: walked,
            filtered: filter.is_some(),
            handed_on,
        });
        // Before the stretch is ready, so that the reader, which may then have to change them, is
        // their only owner.
        drop((walker, filter));
        self.put(number, Slot::Ready(Ok(stretch)))
    }

    fn hand_on(&self, walk: Walk) {
        let number = walk.number;
        let mut state = self.lock();
        state.walk = Some(walk);
        if state.consumer_sleeps {
            self.ready.notify_one();
        }
        drop(state);
        self.walk_at.store(number, Ordering::Relaxed);
    }

    fn put(&self, number: u64, slot: Slot) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        *state.slot(number) = slot;
        if state.consumer_sleeps {
            self.ready.notify_one();
        }
        state
    }
}

impl Stretch {
    /// Returns the number of bytes read.
    fn read_len(&self) -> usize {
        self.end - HEADROOM
    }

    /// Puts the beginning of the first record, at most [`HEADROOM`] bytes, in front.
    pub(super) fn put_in_front(&mut self, before: &[u8]) {
        self.start = HEADROOM - before.len();
        self.memory.data[self.start..HEADROOM].copy_from_slice(before);
    }
}

/// Wakes the consumer when the helper ends, so that it does not wait for it.
struct Farewell<'s>(&'s Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.0.lock().helper_gone = true;
        self.0.ready.notify_one();
    }
}

fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

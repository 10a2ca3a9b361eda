//! Reading a large regular file ahead, by a second thread.
//!
//! From the page cache, a file is read as fast as one processor copies; what the consumer does with
//! the packets comes on top. Here a helper reads the next stretches of the file while the consumer
//! is at work, and the consumer reads one itself instead of waiting. Stretches change hands as
//! whole vectors, so that nothing is copied again, and lie behind a headroom into which the record
//! is put whose beginning is in the stretch before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Room before a stretch for the beginning of a record. A larger beginning is copied together with
/// the stretch instead.
pub(super) const HEADROOM: usize = 64 * 1024;

/// Stretches that are read and not yet handed out, at most.
const SLOTS: usize = 6;
/// The helper sleeps while that many stretches or more are ahead, once it had to sleep: to be woken
/// for each single one costs more than to read it.
const RESUME: u64 = SLOTS as u64 / 2;

/// Bytes that a file must have left for a second thread to be worth its start.
pub(super) const MIN_LEFT: u64 = 8 * 1024 * 1024;

/// A stretch of the file: the bytes from [`HEADROOM`] to `end`.
pub(super) struct Stretch {
    pub(super) data: Vec<u8>,
    pub(super) end: usize,
    pub(super) by: By,
}

/// Who read a stretch. Its vector goes back to the same thread, in whose processor's cache it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Consumer,
    Helper,
}

/// A file that is read ahead.
pub(super) struct Ahead {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
    /// Offset in the file of the next byte to hand out.
    offset: u64,
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
}

struct State {
    /// Stretches that someone reads or has read.
    claimed: u64,
    /// Stretches that were handed out.
    taken: u64,
    /// What was read of the stretches from `taken` on, by their number modulo the length.
    slots: [Option<io::Result<Stretch>>; SLOTS],
    /// Vectors to be used again by the consumer and by the helper.
    spare: [Vec<Vec<u8>>; 2],
    helper_sleeps: bool,
    consumer_sleeps: bool,
    closed: bool,
}

impl Ahead {
    /// Starts to read the file from `offset` on, in stretches of `size` bytes.
    pub(super) fn start(file: File, offset: u64, size: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file,
            start: offset,
            size,
            state: Mutex::new(State {
                claimed: 0,
                taken: 0,
                slots: [const { None }; SLOTS],
                spare: [(); 2].map(|()| Vec::with_capacity(SLOTS + 1)),
                helper_sleeps: false,
                consumer_sleeps: false,
                closed: false,
            }),
            room: Condvar::new(),
            ready: Condvar::new(),
        });
        let helper = Arc::clone(&shared);
        let helper = std::thread::Builder::new()
            .name("read-ahead".to_owned())
            .spawn(move || helper.serve())?;
        Ok(Self {
            shared,
            helper: Some(helper),
            offset,
        })
    }

    /// Offset in the file of the next byte to hand out.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next stretch; empty at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Stretch> {
        let stretch = if self.helper.is_some() {
            self.shared.next()?
        } else {
            let vector = self.shared.lock().vector(&self.shared, By::Consumer);
            self.shared.read(self.offset, vector, By::Consumer)?
        };
        let length = stretch.end - HEADROOM;
        self.offset += length as u64;
        if length < self.shared.size {
            // The end, maybe of a file that grows: what the others have read begins elsewhere.
            self.close();
        }
        Ok(stretch)
    }

    /// Takes a vector back, if it is one of the kind that is used here.
    pub(super) fn recycle(&self, vector: Vec<u8>, by: By) {
        let mut state = self.shared.lock();
        let spare = &mut state.spare[by as usize];
        if vector.len() == HEADROOM + self.shared.size && spare.len() <= SLOTS {
            spare.push(vector);
        }
    }

    fn close(&mut self) {
        if let Some(helper) = self.helper.take() {
            self.shared.lock().closed = true;
            self.shared.room.notify_one();
            // A helper that panicked has left no stretch, which `next` would have met.
            let _ = helper.join();
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

    /// The helper's life.
    fn serve(&self) {
        let mut state = self.lock();
        while !state.closed {
            if let Some(number) = state.claim() {
                state = self.read_into_slot(number, By::Helper, state);
                continue;
            }
            state.helper_sleeps = true;
            while state.helper_sleeps && !state.closed {
                state = wait(&self.room, state);
            }
        }
    }

    /// The next stretch in the file's order. Instead of waiting for it, the caller reads another.
    fn next(&self) -> io::Result<Stretch> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.take() {
                if state.helper_sleeps && state.claimed <= state.taken + RESUME {
                    state.helper_sleeps = false;
                    self.room.notify_one();
                }
                return result;
            }
            if let Some(number) = state.claim() {
                state = self.read_into_slot(number, By::Consumer, state);
                continue;
            }
            state.consumer_sleeps = true;
            state = wait(&self.ready, state);
            state.consumer_sleeps = false;
        }
    }

    fn read_into_slot<'s>(
        &'s self,
        number: u64,
        by: By,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        let vector = state.vector(self, by);
        drop(state);
        let result = self.read(self.start + number * self.size as u64, vector, by);
        let mut state = self.lock();
        *state.slot(number) = Some(result);
        if state.consumer_sleeps {
            self.ready.notify_one();
        }
        state
    }

    /// Reads a stretch at that offset, less only at the end of the file.
    fn read(&self, offset: u64, mut data: Vec<u8>, by: By) -> io::Result<Stretch> {
        let mut end = HEADROOM;
        while end < data.len() {
            let at = offset + (end - HEADROOM) as u64;
            match self.file.read_at(&mut data[end..], at) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Stretch { data, end, by })
    }
}

fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// The number of a stretch that nobody reads yet, if there is room for it.
    fn claim(&mut self) -> Option<u64> {
        let number = self.claimed;
        if number >= self.taken + SLOTS as u64 {
            return None;
        }
        self.claimed += 1;
        Some(number)
    }

    /// The next stretch to be handed out, if it was read.
    fn take(&mut self) -> Option<io::Result<Stretch>> {
        let result = self.slot(self.taken).take()?;
        self.taken += 1;
        Some(result)
    }

    fn slot(&mut self, number: u64) -> &mut Option<io::Result<Stretch>> {
        let index = number % SLOTS as u64;
        &mut self.slots[usize::try_from(index).unwrap_or(0)]
    }

    /// A vector for a stretch, with its headroom.
    fn vector(&mut self, shared: &Shared, by: By) -> Vec<u8> {
        let spare = self.spare[by as usize].pop();
        spare.unwrap_or_else(|| vec![0; HEADROOM + shared.size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(length: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&bytes).expect("written");
        (file, bytes)
    }

    fn read_all(ahead: &mut Ahead) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let stretch = ahead.next().expect("reads");
            if stretch.end == HEADROOM {
                return all;
            }
            all.extend_from_slice(&stretch.data[HEADROOM..stretch.end]);
            ahead.recycle(stretch.data, stretch.by);
        }
    }

    #[test]
    fn gives_the_file_in_order() {
        for length in [0, 1, 999, 1000, 1001, 50_000, 50_007] {
            let (file, bytes) = file_of(length);
            let start = length.min(13);
            let mut ahead = Ahead::start(file, start as u64, 1000).expect("thread");
            assert_eq!(read_all(&mut ahead), &bytes[start..], "{length} bytes");
            assert_eq!(ahead.offset(), length as u64);
        }
    }

    #[test]
    fn a_file_that_grows_is_read_on() {
        let (mut file, mut bytes) = file_of(2500);
        let mut ahead = Ahead::start(file.try_clone().expect("clone"), 0, 1000).expect("thread");
        let mut all = read_all(&mut ahead);
        file.write_all(b"more").expect("written");
        all.extend(read_all(&mut ahead));
        bytes.extend_from_slice(b"more");
        assert_eq!(all, bytes);
    }

    #[test]
    fn is_closed_while_there_is_more() {
        let (file, bytes) = file_of(100_000);
        let mut ahead = Ahead::start(file, 0, 1000).expect("thread");
        let stretch = ahead.next().expect("reads");
        assert_eq!(stretch.data[HEADROOM..stretch.end], bytes[..1000]);
    }
}

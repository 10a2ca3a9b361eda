//! The bounded queue of chunks, from the side that fills it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringtap_savefile::{BlockSummary, Codec, Interface, InterfaceTable, Totals};
use ringtap_sys::disk::{self, ALIGNMENT};

use super::buffer::Buffer;
use super::direct_write::DirectWrite;
use super::{CHUNK, ROOM, SLACK, SLACK_COMPRESSED, threads};
use crate::host::Host;

/// The number of free chunks that keep their memory in pauses.
const KEPT: usize = 16;
/// The number of chunks after which large pages are used. Fewer chunks are written faster from small pages
/// than the kernel makes large ones, for which it may have to move others.
const SHORT: u64 = 16;
/// The number of chunks in large pages: more than are in use while the disk keeps up.
const LARGE: usize = 6;

/// The bytes of the whole records at the start of a file's piece, and their packets.
pub(crate) type Whole = fn(&[u8]) -> (u64, u64);

/// The settings of the queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueSettings {
    /// How to compress chunks.
    pub(crate) codec: Option<Codec>,
    /// The number of threads that compress.
    pub(crate) workers: usize,
    /// Memory for chunks, in bytes.
    pub(crate) memory: u64,
    /// The processors of the queue's threads. Empty: those of the thread that starts them.
    pub(crate) cpus: Vec<usize>,
    /// Finds the intact part of a chunk that was written partially.
    pub(crate) whole: Whole,
    /// The number of bytes in a file before another starts.
    pub(crate) size: u64,
    /// The bytes of a file's header, which is not a record.
    pub(crate) header: usize,
    /// The time after which packets are on their way to the file.
    pub(crate) flush: Duration,
    /// Whether they are then also on the disk.
    pub(crate) durable: bool,
    /// The step in which space is reserved, in bytes.
    pub(crate) reserve: Option<u64>,
}

/// The output failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
    /// Whether the file could not be created.
    pub(crate) creating: bool,
    /// The number of bytes that the file has taken.
    pub(crate) written: u64,
    /// The number of them up to the last whole record or chunk.
    pub(crate) intact: u64,
    /// The number of packets in them.
    pub(crate) packets: u64,
    /// The number of packets in the earlier files.
    pub(crate) earlier: u64,
}

impl Failure {
    /// Returns a failure of a file of which nothing is known to be intact.
    pub(super) fn new(path: PathBuf, source: io::Error) -> Self {
        Self {
            path,
            source,
            creating: false,
            written: 0,
            intact: 0,
            packets: 0,
            earlier: 0,
        }
    }
}

/// The counters of the queue, for display.
#[derive(Debug, Default)]
pub struct Gauge {
    /// The number of bytes that came in.
    pub(super) filled: AtomicU64,
    /// The number of bytes that the files took.
    pub(super) written: AtomicU64,
    /// The number of chunks that wait.
    pub(super) waiting: AtomicU64,
    /// The number of chunks for which there is memory.
    pub(super) room: AtomicU64,
    /// Whether the output has failed.
    pub(super) failed: AtomicBool,
}

impl Gauge {
    /// Returns the bytes that came in, and the bytes that the files took.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.filled), load(&self.written))
    }

    /// Returns whether the output has failed, so that the recording should end.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the number of chunks that wait, and of those for which there is memory.
    #[must_use]
    pub fn depth(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.waiting), load(&self.room))
    }
}

/// A compressed chunk.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// The chunk's offset in the file before compression, and its size.
    pub(super) base: u64,
    pub(super) base_len: u64,
    /// Its contents and checksum, if the host wants chunks.
    pub(super) contents: Option<(BlockSummary, u64)>,
    pub(super) packets: u64,
    /// Whether it must not wait for more.
    pub(super) flush: bool,
}

/// A piece of a file.
pub(super) struct Chunk {
    pub(super) buffer: Buffer,
    /// The buffer's offset in the file before compression.
    pub(super) base: u64,
    /// The bytes at the buffer's front that belong to the chunk before.
    pub(super) held: usize,
    pub(super) packets: u64,
    /// Whether it ended because of its age: it must not wait for more.
    pub(super) flush: bool,
}

/// The writer's next steps, in this order.
pub(super) enum Item {
    /// Up to this offset the file is complete, with this number of further packets: they went directly into
    /// it.
    DirectWrite { end: u64, packets: u64 },
    /// Start a file. The first one is already open, and known to be regular or not.
    Open(PathBuf, Option<(File, bool)>),
    /// A chunk that no compression thread has taken.
    Chunk(Chunk),
    /// A chunk that a compression thread works on.
    Working,
    /// A compressed chunk.
    Packed(Packed),
    /// Complete the file.
    Close,
    /// Nothing came for a while.
    Idle,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) items: VecDeque<Item>,
    /// The number of the first item.
    pub(super) first: u64,
    /// The number of the first item that no compression thread has seen.
    pub(super) claimed: u64,
    /// Whether the writer works on an item that it has taken.
    pub(super) busy: bool,
    /// Free buffers; those in small pages come first.
    pub(super) free: VecDeque<Buffer>,
    free_packed: Vec<Vec<u8>>,
    /// The number of buffers that may still be made, for chunks and their compressed form.
    unmade: usize,
    unmade_packed: usize,
    /// The number of buffers in large pages.
    large: usize,
    /// Whether the queue is closed.
    pub(super) closed: bool,
    pub(super) failed: bool,
    pub(super) failure: Option<Failure>,
    /// The file that was started last.
    path: PathBuf,
    /// The totals of all files.
    pub(super) totals: Totals,
}

pub(super) struct Shared {
    pub(super) settings: QueueSettings,
    pub(super) state: Mutex<State>,
    current: Mutex<Current>,
    /// There is work for compression threads.
    pub(super) work: Condvar,
    /// The first item is ready.
    pub(super) ready: Condvar,
    /// There is a free buffer.
    pub(super) room: Condvar,
    /// Whether large pages can pay: data that is compressed, or in memory, is copied on the way.
    large_pages: bool,
    pub(super) gauge: Arc<Gauge>,
    pub(super) host: Arc<dyn Host>,
    /// Notifies threads that have nothing to add when the output has failed.
    alarm: OnceLock<Alarm>,
    /// The interfaces of the files, by which chunks are summarised.
    pub(super) interfaces: RwLock<InterfaceTable>,
}

/// Called when the output fails.
pub type Alarm = Box<dyn Fn() + Send + Sync>;

/// The growing chunk.
pub(super) struct Current {
    pub(super) buffer: Option<Buffer>,
    /// The chunk's offset in its file, before compression.
    pub(super) start: u64,
    /// The last bytes of the previous chunk, which belong to the same disk block.
    pub(super) tail: Vec<u8>,
    /// The number of bytes in the buffer, with the tail, up to the last whole record.
    committed: usize,
    pub(super) packets: u64,
    /// The number of packets in the file before the chunk.
    pub(super) packets_before: u64,
    since: Instant,
    /// It must be written now: the file has an error.
    pub(super) hurry: bool,
    /// The direct way, without chunks, if there is one.
    pub(super) straight: Option<DirectWrite>,
}

/// The filling side of the queue.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Queue {
    /// Starts the threads. The first file is open and empty.
    pub(crate) fn start(
        settings: QueueSettings,
        (path, file, regular): (PathBuf, File, bool),
        host: Arc<dyn Host>,
    ) -> io::Result<Self> {
        let workers = settings.codec.map_or(0, |_| settings.workers.max(1));
        let (buffers, packed) = buffers(settings.memory, workers);
        let in_memory = regular && disk::is_in_memory(&file);
        let mut current = Current::new();
        // The writer opens and closes the files of a sequence.
        if in_memory && settings.codec.is_none() && settings.size == u64::MAX {
            current.straight = file.try_clone().ok().map(DirectWrite::new);
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(buffers, packed)),
            current: Mutex::new(current),
            work: Condvar::new(),
            ready: Condvar::new(),
            room: Condvar::new(),
            large_pages: settings.codec.is_none() && !in_memory,
            gauge: Arc::default(),
            host,
            alarm: OnceLock::new(),
            interfaces: RwLock::default(),
            settings,
        });
        let room = &shared.gauge.room;
        room.store((buffers + packed) as u64, Ordering::Relaxed);
        shared.push(Item::Open(path, Some((file, regular))));
        let queue = Self {
            shared,
            threads: Mutex::new(Vec::with_capacity(workers + 1)),
        };
        queue.spawn("writer".into(), threads::write)?;
        if let Some(codec) = queue.shared.settings.codec {
            for number in 0..workers {
                queue.spawn(format!("compress-{number}"), move |shared| {
                    // The thread makes it, since threads of the library run where their maker runs.
                    match codec.compressor() {
                        Ok(compressor) => threads::compress(shared, compressor),
                        Err(source) => shared.broken(source),
                    }
                })?;
            }
        }
        Ok(queue)
    }

    fn spawn(&self, name: String, work: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(name).spawn(move || {
            // The filling thread must not wait for a thread that has ended.
            let alive = threads::Alive(&shared);
            threads::place(&shared);
            work(&shared);
            drop(alive);
        })?;
        self.threads().push(thread);
        Ok(())
    }

    pub(crate) fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.shared.gauge)
    }

    /// Sets a function that is called when the output fails, or calls it now if it has failed.
    pub(crate) fn on_failure(&self, alarm: Alarm) {
        let alarm = self.shared.alarm.get_or_init(|| alarm);
        if self.shared.gauge.has_failed() {
            alarm();
        }
    }

    /// Adds whole records to the growing chunk. Waits while there is no memory. Fails as soon as the output
    /// has failed, even if the chunk has room.
    pub(crate) fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut current = self.shared.current();
        let state = self.shared.state();
        if state.failed {
            return Err(failed_before());
        }
        let idle = state.items.is_empty() && !state.busy;
        drop(state);
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        if !(idle && self.shared.write_straight(&mut current, slices, bytes)) {
            for slice in slices {
                self.shared.grow(&mut current)?.push(slice);
            }
        }
        let filled = &self.shared.gauge.filled;
        filled.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Marks the end of a whole record; `packets` is the number in the file so far. Ends the chunk if it is
    /// long enough.
    pub(crate) fn commit(&self, packets: u64) {
        let mut current = self.shared.current();
        current.commit(packets, self.shared.settings.whole);
        let hurry = std::mem::take(&mut current.hurry);
        if hurry || current.len() >= CHUNK {
            self.shared.cut(&mut current, hurry);
        }
    }

    /// Sets the interfaces of the files.
    pub(crate) fn set_interfaces(&self, interfaces: &[Interface]) {
        let table = InterfaceTable::new(0, interfaces);
        let known = self.shared.interfaces.write();
        *known.unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// Ends the growing chunk, which holds no packets.
    pub(crate) fn end_chunk(&self) {
        let mut current = self.shared.current();
        current.commit(0, self.shared.settings.whole);
        self.shared.cut(&mut current, false);
    }

    /// Returns the offset in the file, before compression, at which the chunk is long enough.
    pub(crate) fn chunk_end(&self) -> u64 {
        self.shared.current().start + CHUNK as u64
    }

    /// Returns the number of bytes by which a chunk may be longer.
    pub(crate) fn slack(&self) -> u64 {
        let slack = match self.shared.settings.codec {
            Some(_) => SLACK_COMPRESSED,
            None => SLACK,
        };
        slack as u64
    }

    /// Announces the number of bytes that lie in the ring in one piece and are added next.
    pub(crate) fn announce(&self, bytes: usize) {
        if let Some(straight) = &mut self.shared.current().straight {
            straight.announce(bytes);
        }
    }

    /// Completes the file, which has `packets` packets.
    pub(crate) fn complete(&self, packets: u64) {
        let mut current = self.shared.current();
        current.commit(packets, self.shared.settings.whole);
        self.shared.tell(&mut current);
        self.shared.cut(&mut current, false);
        *current = Current::new();
        self.shared.push(Item::Close);
    }

    /// Starts another file. The writer creates it when it reaches it.
    pub(crate) fn begin(&self, path: PathBuf) {
        self.shared.push(Item::Open(path, None));
    }

    /// Returns the failure of the output. It is returned once.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.shared.state().failure.take()
    }

    /// Waits until everything is written, all files of [`Queue::complete`] are complete, and the threads have
    /// ended. Returns the files' totals.
    pub(crate) fn finish(&self) -> Result<Totals, Option<Failure>> {
        self.end();
        let mut state = self.shared.state();
        if state.failed {
            return Err(state.failure.take());
        }
        Ok(state.totals)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
        self.shared.ready.notify_all();
        for thread in self.threads().drain(..) {
            // A panic was reported as a failure.
            let _ = thread.join();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.end();
    }
}

impl State {
    fn new(buffers: usize, packed: usize) -> Self {
        Self {
            unmade: buffers,
            unmade_packed: packed,
            ..Self::default()
        }
    }

    /// Returns memory for a compressed chunk, if there is any now.
    pub(super) fn packed(&mut self) -> Option<Vec<u8>> {
        if let Some(mut packed) = self.free_packed.pop() {
            packed.clear();
            return Some(packed);
        }
        self.unmade_packed = self.unmade_packed.checked_sub(1)?;
        Some(Vec::new())
    }
}

impl Current {
    fn new() -> Self {
        Self {
            buffer: None,
            start: 0,
            tail: Vec::with_capacity(ALIGNMENT),
            committed: 0,
            packets: 0,
            packets_before: 0,
            since: Instant::now(),
            hurry: false,
            straight: None,
        }
    }

    /// Returns the chunk's size in bytes.
    fn len(&self) -> usize {
        let with_tail = self.buffer.as_ref().map_or(0, Buffer::len);
        with_tail.saturating_sub(self.tail.len())
    }

    fn commit(&mut self, packets: u64, whole: Whole) {
        self.committed = self.buffer.as_ref().map_or(0, Buffer::len);
        self.packets = packets.saturating_sub(self.packets_before);
        self.commit_straight(whole);
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the buffer of the growing chunk.
    fn grow<'c>(&self, current: &'c mut Current) -> io::Result<&'c mut Buffer> {
        if current.buffer.is_none() {
            let mut buffer = self.buffer()?;
            buffer.push(&current.tail);
            current.since = Instant::now();
            current.buffer = Some(buffer);
        }
        current.buffer.as_mut().ok_or_else(failed_before)
    }

    /// Returns a free buffer. Waits for one if none may be made.
    fn buffer(&self) -> io::Result<Buffer> {
        let mut state = self.state();
        loop {
            if state.failed {
                return Err(failed_before());
            }
            if let Some(buffer) = state.free.pop_back() {
                return Ok(buffer);
            }
            if state.unmade > 0 {
                state.unmade -= 1;
                drop(state);
                return Ok(Buffer::new(room(self.settings.codec.is_some())));
            }
            let woken = self.room.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts the growing chunk into the queue, unless it is empty.
    fn cut(&self, current: &mut Current, flush: bool) {
        if current.len() == 0 {
            return;
        }
        self.tell(current);
        let Some(buffer) = current.buffer.take() else {
            return;
        };
        let held = current.tail.len();
        let base = current.start - held as u64;
        current.start = base + buffer.len() as u64;
        current.tail.clear();
        if self.settings.codec.is_none() {
            let bytes = buffer.bytes();
            let whole = bytes.len() - bytes.len() % ALIGNMENT;
            current.tail.extend_from_slice(&bytes[whole..]);
        }
        current.packets_before += current.packets;
        let packets = std::mem::take(&mut current.packets);
        self.push(Item::Chunk(Chunk {
            buffer,
            base,
            held,
            packets,
            flush,
        }));
    }

    /// Ends the growing chunk if it has waited long enough and ends with a whole record.
    pub(super) fn cut_old(&self) {
        let mut current = match self.current.try_lock() {
            Ok(current) => current,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // It is growing at this moment.
            Err(TryLockError::WouldBlock) => return,
        };
        let whole = current.buffer.as_ref().map(Buffer::len) == Some(current.committed);
        if whole && current.len() > 0 && current.since.elapsed() >= self.settings.flush {
            self.cut(&mut current, true);
        }
    }

    /// Takes back a buffer that is no longer needed. If large pages pay and there are few, a buffer in small
    /// pages is replaced by one in large pages.
    pub(super) fn give_back(&self, mut buffer: Buffer) {
        buffer.clear();
        let mut state = self.state();
        if !buffer.is_large && self.wants_large(&state) {
            state.large += 1;
            drop(state);
            drop(buffer);
            buffer = Buffer::large(ROOM);
            state = self.state();
        }
        match buffer.is_large {
            true => state.free.push_back(buffer),
            false => state.free.push_front(buffer),
        }
        drop(state);
        self.room.notify_one();
    }

    /// Takes back the memory of a compressed chunk, for which a thread may wait.
    pub(super) fn give_back_packed(&self, packed: Vec<u8>) {
        let mut state = self.state();
        state.free_packed.push(packed);
        let closed = state.closed;
        drop(state);
        match closed {
            false => self.work.notify_one(),
            // Each thread has to find out that it is no longer needed.
            true => self.work.notify_all(),
        }
    }

    /// Returns whether large pages pay: a short capture is over before they do. Making one may take
    /// milliseconds in a virtual machine, while chunks wait.
    fn wants_large(&self, state: &State) -> bool {
        self.large_pages && state.first > SHORT && state.large < LARGE
    }

    /// Releases memory that was not used for a while, except for some chunks.
    pub(super) fn trim(&self) {
        let mut state = self.state();
        let unused = state.free.len().saturating_sub(KEPT);
        let unused: Vec<Buffer> = state.free.drain(..unused).collect();
        state.unmade += unused.len();
        state.large -= unused.iter().filter(|buffer| buffer.is_large).count();
        let packed = state.free_packed.len().min(KEPT);
        let packed = state.free_packed.split_off(packed);
        state.unmade_packed += packed.len();
        drop(state);
        drop((unused, packed));
    }

    pub(super) fn push(&self, item: Item) {
        let mut state = self.state();
        if state.failed {
            return;
        }
        if let Item::Open(path, _) = &item {
            state.path.clone_from(path);
        }
        let waiting = &self.gauge.waiting;
        waiting.store(state.items.len() as u64 + 1, Ordering::Relaxed);
        state.items.push_back(item);
        drop(state);
        if self.settings.codec.is_some() {
            self.work.notify_one();
        }
        self.ready.notify_one();
    }

    /// Ends the work of all threads, because one of them cannot continue.
    pub(super) fn broken(&self, source: io::Error) {
        let path = self.state().path.clone();
        self.fail(Failure::new(path, source));
    }

    /// Ends the work of all threads.
    pub(super) fn fail(&self, failure: Failure) {
        let mut state = self.state();
        state.failed = true;
        state.failure.get_or_insert(failure);
        state.items.clear();
        drop(state);
        self.gauge.failed.store(true, Ordering::Relaxed);
        if let Some(alarm) = self.alarm.get() {
            alarm();
        }
        self.room.notify_all();
        self.work.notify_all();
        self.ready.notify_all();
    }
}

/// Returns the numbers of buffers for chunks and for their compressed form. The latter are few: one for each
/// compressing thread and one for the writer, so that nearly all memory is for waiting chunks. The minimum is
/// a growing chunk, one for each thread, and two that wait.
fn buffers(memory: u64, workers: usize) -> (usize, usize) {
    let packed = if workers == 0 { 0 } else { workers + 1 };
    let each = room(workers > 0);
    let memory = memory.saturating_sub(packed as u64 * ROOM as u64);
    let buffers = usize::try_from(memory / each as u64).unwrap_or(usize::MAX);
    (buffers.max(workers + 3), packed)
}

/// Returns the memory of a chunk. For a compressed one it is only as much as it fills: the kernel may use
/// large pages unasked, which would count in full.
const fn room(compressed: bool) -> usize {
    if compressed {
        CHUNK + SLACK_COMPRESSED
    } else {
        ROOM
    }
}

fn failed_before() -> io::Error {
    io::Error::other("the output failed")
}

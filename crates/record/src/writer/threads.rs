//! The threads behind the queue: several compress, one writes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringtap_savefile::index::SeekPoint;
use ringtap_savefile::{
    BlockSummary, ByteOrder, Codec, Compressor, decompressed_start, summarize_blocks,
};
use ringtap_sys::disk::ALIGNMENT;
use ringtap_sys::sched;

use super::CHUNK;
use super::buffer::Buffer;
use super::disk::Disk;
use super::queue::{Chunk, Failure, Item, Packed, Shared, State};
use crate::host::{Note, WrittenChunk};

/// How often the writer looks for a chunk that has waited too long, at least.
const LOOK: Duration = Duration::from_millis(200);

/// Notifies the threads that wait for this thread if it panics.
pub(super) struct Alive<'a>(pub(super) &'a Shared);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "a thread of the writer has panicked";
            self.0.broken(io::Error::other(message));
        }
    }
}

/// Binds the calling thread to the processors of the settings.
pub(super) fn place(shared: &Shared) {
    let cpus = &shared.settings.cpus;
    if !cpus.is_empty()
        && let Err(error) = sched::set_affinity(cpus)
    {
        shared.host.note(&Note::NotPlaced(error));
    }
}

/// Compresses chunks until there are no more.
pub(super) fn compress(shared: &Shared, mut compressor: Compressor) {
    while let Some((number, chunk, mut bytes)) = claim(shared) {
        let result = compressor.compress(chunk.buffer.bytes(), &mut bytes);
        if let Err(source) = result {
            return shared.broken(source);
        }
        let contents = shared.contents(chunk.buffer.bytes(), &bytes);
        let base_len = chunk.buffer.len() as u64;
        shared.give_back(chunk.buffer);
        let packed = Packed {
            bytes,
            base: chunk.base,
            base_len,
            contents,
            packets: chunk.packets,
            flush: chunk.flush,
        };
        let mut state = shared.state();
        let index = number.checked_sub(state.first);
        let slot = index.and_then(|index| state.items.get_mut(usize::try_from(index).ok()?));
        // After a failure nothing waits for it.
        let Some(slot) = slot else { return };
        *slot = Item::Packed(packed);
        let is_first = index == Some(0);
        drop(state);
        if is_first {
            shared.ready.notify_one();
        }
    }
}

/// Takes the next chunk that nobody compresses, and memory for the result.
fn claim(shared: &Shared) -> Option<(u64, Chunk, Vec<u8>)> {
    let mut state = shared.state();
    loop {
        if state.failed {
            return None;
        }
        // Memory is returned at the latest when the earlier chunks have been written.
        let next = next_chunk(&mut state);
        if let Some(claimed) = next.and_then(|index| take(&mut state, index)) {
            return Some(claimed);
        }
        if next.is_none() && state.closed {
            return None;
        }
        let woken = shared.work.wait(state);
        state = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

/// Takes the chunk at `index`, if there is memory for the result.
fn take(state: &mut State, index: usize) -> Option<(u64, Chunk, Vec<u8>)> {
    let packed = state.packed()?;
    let number = state.first + index as u64;
    match mem::replace(state.items.get_mut(index)?, Item::Working) {
        Item::Chunk(chunk) => {
            state.claimed = number + 1;
            Some((number, chunk, packed))
        }
        _ => None,
    }
}

/// Returns the index of the next chunk that nobody compresses.
fn next_chunk(state: &mut State) -> Option<usize> {
    state.claimed = state.claimed.max(state.first);
    let from = usize::try_from(state.claimed - state.first).ok()?;
    let mut items = state.items.iter().skip(from);
    let index = items.position(|item| matches!(item, Item::Chunk(_)));
    let to = index.map_or(state.items.len(), |index| from + index);
    state.claimed = state.first + to as u64;
    index.map(|_| to)
}

/// Writes items until the queue is closed.
pub(super) fn write(shared: &Shared) {
    let mut writer = Writer {
        shared,
        file: None,
        earlier: 0,
        staged: Buffer::new(CHUNK),
        staged_chunks: VecDeque::new(),
        last: None,
        partial: Vec::new(),
        flushed: Instant::now(),
        withheld: false,
    };
    while let Some(item) = next(shared) {
        if let Err(failure) = writer.take(item) {
            return shared.fail(failure);
        }
    }
}

/// Takes the next item in order, as soon as it is ready.
fn next(shared: &Shared) -> Option<Item> {
    let compressed = shared.settings.codec.is_some();
    let mut state = shared.state();
    state.busy = false;
    loop {
        if state.failed {
            return None;
        }
        let is_ready = match state.items.front() {
            Some(Item::Working) => false,
            Some(Item::Chunk(_)) => !compressed,
            Some(_) => true,
            None if state.closed => return None,
            None => false,
        };
        if is_ready {
            state.first += 1;
            state.busy = true;
            let waiting = &shared.gauge.waiting;
            let item = state.items.pop_front();
            waiting.store(state.items.len() as u64, Ordering::Relaxed);
            return item;
        }
        let look = LOOK.min(shared.settings.flush / 3);
        let waited = shared.ready.wait_timeout(state, look);
        let (woken, time_out) = waited.unwrap_or_else(PoisonError::into_inner);
        state = woken;
        if time_out.timed_out() {
            let idle = state.items.is_empty();
            state.busy = true;
            drop(state);
            shared.cut_old();
            if idle {
                return Some(Item::Idle);
            }
            state = shared.state();
            state.busy = false;
        }
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    file: Option<OpenFile>,
    /// The number of packets in complete files.
    earlier: u64,
    /// Compressed bytes on their way to the file; they begin at a multiple of the alignment.
    staged: Buffer,
    /// The chunks among them: the end of each in the file, and its packets.
    staged_chunks: VecDeque<(u64, u64)>,
    /// The last uncompressed chunk that was written.
    last: Option<Chunk>,
    /// Compressed bytes of the file after its last whole chunk, up to the staged ones.
    partial: Vec<u8>,
    /// When everything was last written.
    flushed: Instant,
    /// Whether data waits for the next chunk, which may not come for long.
    withheld: bool,
}

/// Returns the distance of `at` from `from`. `None` if it lies before.
fn within(at: u64, from: u64) -> Option<usize> {
    usize::try_from(at.checked_sub(from)?).ok()
}

struct OpenFile {
    path: PathBuf,
    disk: Disk,
    /// The offset of the staged bytes.
    staged_at: u64,
    /// Chunks that were written except for the last bytes of the last one: bytes and packets.
    intact: u64,
    packets: u64,
    /// The same before the last one.
    before: (u64, u64),
    /// The offset at which reading can start, if anyone needs it.
    chunks: Vec<SeekPoint>,
    /// Chunks that the file does not hold completely yet.
    landing: VecDeque<WrittenChunk>,
}

impl Shared {
    /// Returns the contents of a chunk, and the checksum of its stored form, if the host wants chunks.
    fn contents(&self, bytes: &[u8], stored: &[u8]) -> Option<(BlockSummary, u64)> {
        if !self.host.wants_chunks() {
            return None;
        }
        let interfaces = self.interfaces.read();
        let interfaces = interfaces.unwrap_or_else(PoisonError::into_inner);
        let summary = summarize_blocks(bytes, ByteOrder::NATIVE, &interfaces);
        Some((summary, crate::checksum(stored)))
    }
}

impl OpenFile {
    /// Writes bytes as [`Disk::write`] does, and counts them.
    fn write(&mut self, shared: &Shared, at: u64, bytes: &[u8], exact: bool) -> io::Result<usize> {
        let before = self.disk.size;
        let result = self.disk.write(at, bytes, exact);
        let written = self.disk.size - before;
        shared.gauge.written.fetch_add(written, Ordering::Relaxed);
        result
    }

    /// Tells the host which chunks the file now holds.
    fn tell_landed(&mut self, shared: &Shared) {
        let size = self.disk.size;
        while let Some(chunk) = self.landing.front() {
            if chunk.offset + chunk.len > size {
                return;
            }
            shared.host.landed(&self.path, chunk);
            self.landing.pop_front();
        }
    }
}

impl Writer<'_> {
    fn take(&mut self, item: Item) -> Result<(), Failure> {
        match item {
            Item::Open(path, file) => self.open(path, file),
            Item::DirectWrite { end, packets } => {
                self.straight(end, packets);
                Ok(())
            }
            Item::Chunk(chunk) => {
                self.plain(&chunk)?;
                // Its last bytes may not be on the disk yet.
                if let Some(last) = self.last.replace(chunk) {
                    self.shared.give_back(last.buffer);
                }
                Ok(())
            }
            Item::Packed(packed) => {
                let written = self.packed(&packed);
                self.shared.give_back_packed(packed.bytes);
                written
            }
            Item::Close => self.close(),
            Item::Idle => {
                self.shared.trim();
                match self.withheld && self.flushed.elapsed() >= self.shared.settings.flush {
                    true => self.write_staged(true),
                    false => Ok(()),
                }
            }
            Item::Working => Ok(()),
        }
    }

    fn open(&mut self, path: PathBuf, file: Option<(File, bool)>) -> Result<(), Failure> {
        let opened = match file {
            Some(file) => Ok(file),
            None => self.shared.host.open(&path).and_then(|opened| {
                let regular = opened.is_file();
                Ok((opened.emptied()?, regular))
            }),
        };
        let settings = &self.shared.settings;
        let sizes = (settings.size, settings.reserve);
        let file = opened.map_err(|source| Failure {
            creating: true,
            earlier: self.earlier,
            ..Failure::new(path.clone(), source)
        })?;
        let disk = Disk::new(file, path.clone(), &self.shared.host, sizes);
        self.file = Some(OpenFile {
            path,
            disk,
            staged_at: 0,
            intact: 0,
            packets: 0,
            before: (0, 0),
            chunks: Vec::new(),
            landing: VecDeque::new(),
        });
        self.staged.clear();
        self.staged_chunks.clear();
        self.partial.clear();
        if let Some(codec) = self.shared.settings.codec {
            self.staged.push(codec.begin());
        }
        Ok(())
    }

    /// Counts bytes that went directly into the file, with everything that was withheld before.
    fn straight(&mut self, end: u64, packets: u64) {
        if let Some(file) = &mut self.file {
            file.disk.size = file.disk.size.max(end);
            file.packets += packets;
            file.intact = end;
            file.before = (file.intact, file.packets);
            file.staged_at = end;
        }
        self.staged.clear();
        self.withheld = false;
        if let Some(last) = self.last.take() {
            self.shared.give_back(last.buffer);
        }
    }

    /// Writes a chunk from its buffer.
    fn plain(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let bytes = chunk.buffer.bytes();
        let own = bytes.get(chunk.held..).unwrap_or_default();
        if let Some((summary, checksum)) = self.shared.contents(own, own) {
            let base = chunk.base + chunk.held as u64;
            file.landing.push_back(WrittenChunk {
                offset: base,
                len: own.len() as u64,
                base,
                base_len: own.len() as u64,
                checksum,
                summary,
            });
        }
        let exact = chunk.flush || self.flushed.elapsed() >= self.shared.settings.flush;
        let result = file.write(self.shared, chunk.base, bytes, exact);
        let synced = |disk: &Disk| match exact && self.shared.settings.durable {
            true => disk.sync(),
            false => Ok(()),
        };
        if let Err(source) = result.and_then(|_| synced(&file.disk)) {
            return Err(self.failed_within(chunk, source));
        }
        file.tell_landed(self.shared);
        file.before = (file.intact, file.packets);
        file.packets += chunk.packets;
        file.intact = chunk.base + bytes.len() as u64;
        // The rest for the next write is also kept here, in case there is no next write.
        self.staged.clear();
        let rest = bytes.len() - bytes.len() % ALIGNMENT;
        self.staged.push(&bytes[rest..]);
        file.staged_at = chunk.base + rest as u64;
        self.withheld = !exact;
        if exact {
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Finds the intact part of a partially written uncompressed chunk, or of the previous one, whose last
    /// bytes were to be written with it.
    fn failed_within(&self, chunk: &Chunk, source: io::Error) -> Failure {
        let mut failure = self.failure(source);
        let Some(file) = &self.file else {
            return failure;
        };
        let mut part = chunk;
        if failure.written < file.intact
            && let Some(last) = &self.last
        {
            (failure.intact, failure.packets) = file.before;
            part = last;
        }
        let settings = &self.shared.settings;
        let header = match failure.intact {
            0 => settings.header as u64,
            _ => 0,
        };
        let records = within(failure.intact + header, part.base)
            .zip(within(failure.written, part.base))
            .and_then(|(from, to)| part.buffer.bytes().get(from..to));
        if let Some(records) = records {
            let (bytes, packets) = (settings.whole)(records);
            failure.intact += header + bytes;
            failure.packets += packets;
        }
        failure
    }

    /// Finds how many packets of a partially written compressed chunk are readable.
    fn failed_compressed(&self, codec: Codec, source: io::Error) -> Failure {
        let mut failure = self.failure(source);
        let Some(file) = &self.file else {
            return failure;
        };
        let staged = self.staged.bytes();
        let written = within(failure.written, file.staged_at).and_then(|to| staged.get(..to));
        let written = written.unwrap_or_default();
        let mut part = if failure.intact == 0 {
            Vec::new()
        } else {
            // With the start of the frame before it, a chunk can be read alone.
            codec.begin().to_vec()
        };
        match within(failure.intact, file.staged_at) {
            Some(whole) => part.extend_from_slice(written.get(whole..).unwrap_or_default()),
            None => {
                part.extend_from_slice(&self.partial);
                part.extend_from_slice(written);
            }
        }
        let settings = &self.shared.settings;
        let records = decompressed_start(&part);
        let header = match (failure.packets, failure.intact) {
            (0, 0) => settings.header,
            _ => 0,
        };
        failure.packets += (settings.whole)(records.get(header..).unwrap_or_default()).1;
        failure
    }

    fn failure(&self, source: io::Error) -> Failure {
        let file = self.file.as_ref();
        let path = file.map(|file| file.path.clone()).unwrap_or_default();
        Failure {
            written: file.map_or(0, |file| file.disk.size),
            intact: file.map_or(0, |file| file.intact),
            packets: file.map_or(0, |file| file.packets),
            earlier: self.earlier,
            ..Failure::new(path, source)
        }
    }

    /// Adds a compressed chunk to the staged bytes.
    fn packed(&mut self, chunk: &Packed) -> Result<(), Failure> {
        let at = self.file.as_ref().map_or(0, |file| file.staged_at);
        let offset = at + self.staged.len() as u64;
        let wants_points = self.shared.host.wants_seek_points();
        if let Some(file) = self.file.as_mut().filter(|_| wants_points) {
            file.chunks.push(SeekPoint {
                compressed: offset,
                uncompressed: chunk.base,
            });
        }
        if let (Some(file), Some((summary, checksum))) = (&mut self.file, chunk.contents) {
            file.landing.push_back(WrittenChunk {
                offset,
                len: chunk.bytes.len() as u64,
                base: chunk.base,
                base_len: chunk.base_len,
                checksum,
                summary,
            });
        }
        self.staged.push(&chunk.bytes);
        let end = at + self.staged.len() as u64;
        self.staged_chunks.push_back((end, chunk.packets));
        self.withheld = true;
        let exact = chunk.flush || self.flushed.elapsed() >= self.shared.settings.flush;
        if exact || self.staged.len() >= CHUNK {
            self.write_staged(exact)?;
        }
        Ok(())
    }

    fn write_staged(&mut self, exact: bool) -> Result<(), Failure> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let result = file.write(self.shared, file.staged_at, self.staged.bytes(), exact);
        while let Some((end, packets)) = self.staged_chunks.pop_front() {
            if end > file.disk.size {
                self.staged_chunks.push_front((end, packets));
                break;
            }
            file.intact = end;
            file.packets += packets;
        }
        let result = result.and_then(|done| {
            if exact && self.shared.settings.durable {
                file.disk.sync()?;
            }
            file.tell_landed(self.shared);
            Ok(done)
        });
        match result {
            Ok(done) => {
                match within(file.intact, file.staged_at) {
                    Some(whole) => {
                        self.partial.clear();
                        let rest = self.staged.bytes().get(whole..done);
                        self.partial.extend_from_slice(rest.unwrap_or_default());
                    }
                    None => self.partial.extend_from_slice(&self.staged.bytes()[..done]),
                }
                file.staged_at += done as u64;
                self.staged.keep_last(self.staged.len() - done);
            }
            Err(source) => {
                return Err(match (&self.last, self.shared.settings.codec) {
                    (_, Some(codec)) => self.failed_compressed(codec, source),
                    (Some(last), None) => self.failed_within(last, source),
                    (None, None) => self.failure(source),
                });
            }
        }
        if exact {
            self.flushed = Instant::now();
            self.withheld = false;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        if let Some(codec) = self.shared.settings.codec {
            self.staged.push(codec.end());
        }
        self.write_staged(true)?;
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        if let Some(last) = self.last.take() {
            self.shared.give_back(last.buffer);
        }
        let size = file.disk.size;
        if let Err(source) = file.disk.finish() {
            return Err(Failure {
                written: size,
                intact: size,
                packets: file.packets,
                earlier: self.earlier,
                ..Failure::new(file.path, source)
            });
        }
        self.earlier += file.packets;
        let mut state = self.shared.state();
        state.totals.packets += file.packets;
        state.totals.bytes += size;
        drop(state);
        self.shared.host.complete(file.path, file.chunks);
        Ok(())
    }
}

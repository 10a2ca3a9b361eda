//! Writes records to files: directly, or through a queue of chunks.
//!
//! ```text
//! capture threads ─▶ chunk that grows ─▶ bounded queue ─▶ compression threads ─▶ writer ─▶ files
//! ```
//!
//! A **chunk** is a piece of one file before compression, about [`CHUNK`] long. It starts with a whole record
//! (the first chunk with the file's header) and ends with one. Each chunk is compressed alone, a reader can
//! start at it, and after a crash it is complete or absent. A chunk ends when it is long enough, when the
//! file ends, and after a time (`RecordOptions::flush`).
//!
//! A file in memory has a shorter way, without chunks and threads; see [`direct_write`].
//!
//! Memory is bounded: a thread that adds to a full queue waits. So packets that exceed the disk's speed are
//! lost in the ring, where they are counted, and nowhere else. Chunks are used again. Memory that a burst
//! needed beyond a few chunks is released in the next pause.

mod buffer;
mod direct_write;
mod disk;
mod memory;
mod queue;
mod threads;

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use ringtap_sys::disk::ALIGNMENT;

pub use memory::automatic as automatic_memory;
pub use queue::{Alarm, Gauge};
pub(crate) use queue::{Failure, Queue, QueueSettings, Whole};

/// The memory of a chunk before compression.
const ROOM: usize = buffer::LARGE_PAGE;
/// The approximate size of a chunk before compression, in bytes. With the excess below, and the disk block in
/// which it starts, it fills a large page.
pub(crate) const CHUNK: usize = ROOM - SLACK - ALIGNMENT;
/// The excess, in bytes, by which a chunk may be longer before its memory must grow: a block of a ring.
const SLACK: usize = 512 << 10;
/// The same for a compressed chunk. It is less, since unfilled memory would be missing where chunks wait, and
/// splitting a block costs almost nothing beside compression.
const SLACK_COMPRESSED: usize = 32 << 10;

/// The output of a format's writer.
pub(crate) enum Target {
    /// A file.
    Direct(File),
    /// A queue to a file.
    Queued(Arc<Queue>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write(bytes),
            Self::Queued(queue) => queue.append(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write_vectored(slices),
            Self::Queued(queue) => queue.append(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use ringtap_savefile::Codec;
    use ringtap_sys::output::Access;
    use ringtap_testkit::alloc::{Counting, count};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    fn queue(path: &Path, regular: bool, codec: Option<Codec>) -> Queue {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.unwrap();
        let settings = QueueSettings {
            codec,
            workers: 1,
            memory: 1 << 20,
            cpus: Vec::new(),
            whole: |_| (0, 0),
            size: u64::MAX,
            header: 0,
            flush: Duration::from_secs(1),
            durable: false,
            reserve: None,
        };
        let first = (path.to_owned(), file, regular);
        Queue::start(settings, first, Arc::new(Access::Owner)).unwrap()
    }

    fn append(queue: &Queue, bytes: &[u8]) -> io::Result<usize> {
        queue.append(&[IoSlice::new(bytes)])
    }

    #[test]
    fn what_came_before_a_pause_is_written_though_its_chunk_was_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(CHUNK + 100).collect();
        for codec in [None, Some(Codec::Lz4)] {
            let path = folder.path().join("f");
            let queue = queue(&path, true, codec);
            append(&queue, &bytes).unwrap();
            queue.commit(1);
            let mut expected = bytes.clone();
            if let Some(codec) = codec {
                expected = codec.begin().to_vec();
                let mut compressor = codec.compressor().unwrap();
                compressor.compress(&bytes, &mut expected).unwrap();
            }
            let begun = Instant::now();
            while fs::read(&path).unwrap() != expected {
                assert!(begun.elapsed() < LIMIT, "{codec:?}: something is held back");
                thread::sleep(Duration::from_millis(20));
            }
            append(&queue, b"more").unwrap();
            queue.complete(2);
            assert_eq!(queue.finish().unwrap().packets, 2);
            let written = fs::read(&path).unwrap();
            assert!(written.starts_with(&expected) && written.len() > expected.len());
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_goes_straight_is_as_what_goes_through_chunks() {
        // Lengths that alternate between the ways, with up to a chunk and more going directly.
        let lengths = [
            10, 100, 70_000, 5, 200_000, 65_536, 65_535, 1, 1_500_000, 80_000,
        ];
        let folders = [tempfile::tempdir_in("/dev/shm"), tempfile::tempdir()];
        for folder in folders.into_iter().flatten() {
            let path = folder.path().join("f");
            let queue = queue(&path, true, None);
            let (mut expected, mut straight) = (Vec::new(), 0);
            for (number, &length) in lengths.iter().cycle().take(100).enumerate() {
                let bytes = (0..=u8::MAX).cycle().skip(number).take(length);
                let bytes: Vec<u8> = bytes.collect();
                queue.announce(if number % 7 == 0 { 5 << 20 } else { length });
                let (front, back) = bytes.split_at(length / 3);
                queue
                    .append(&[IoSlice::new(front), IoSlice::new(back)])
                    .unwrap();
                expected.extend_from_slice(&bytes);
                queue.commit(number as u64 + 1);
                let written = queue.gauge().bytes().1;
                straight += usize::from(written == expected.len() as u64);
                if number % 10 == 9 {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            queue.complete(100);
            assert_eq!(queue.finish().unwrap().packets, 100);
            assert!(fs::read(&path).unwrap() == expected, "{}", path.display());
            if ringtap_sys::disk::is_in_memory(&File::open(&path).unwrap()) {
                assert!(straight > 0, "nothing went straight");
            }
        }
    }

    #[test]
    fn filling_takes_no_memory_but_that_of_the_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let queue = queue(&folder.path().join("f"), true, None);
        let bytes = vec![7; 64 << 10];
        let mut packets = 0;
        let mut fill = |times: u32| {
            for _ in 0..times {
                append(&queue, &bytes).unwrap();
                packets += 1;
                queue.commit(packets);
            }
        };
        fill(100);
        let ((), counts) = count(|| fill(600));
        // A queue of one mebibyte has few chunks, and some may not have been needed before.
        assert!(counts.allocations <= 3, "{counts:?}");
    }

    #[test]
    fn a_failure_is_noticed_by_the_next_packet() {
        let queue = queue(Path::new("/dev/full"), false, None);
        append(&queue, &vec![0; CHUNK]).unwrap();
        queue.commit(1);
        let begun = Instant::now();
        // A chunk has started, and will not be full for long.
        while append(&queue, b"packet").is_ok() {
            assert!(begun.elapsed() < LIMIT, "the failure is not noticed");
            thread::sleep(Duration::from_millis(20));
        }
        let failure = queue.take_failure().expect("a failure");
        assert_eq!(failure.source.kind(), io::ErrorKind::StorageFull);
    }
}

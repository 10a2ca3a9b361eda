//! Measures how much can wait on either side, and sizes ringtap's queue to match.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_lab::netns::Side;
use ringtap_lab::process::peak_memory;

use super::super::dump::{packets_in, settle};
use crate::helpers::{LIMIT, capturing, interrupted};
use crate::session::Done;

/// Parts of `--write-buffer` (`docs/explanation/writing.md`): memory for each compressing thread
/// and for the writer, memory of a waiting chunk, and bytes of records in it.
const THREAD: u64 = 2 << 20;
const CHUNK_MEMORY: u64 = 1_601_536;
const CHUNK: u64 = 1_568_768;
/// The least number of chunks besides one for each thread.
const LEAST_CHUNKS: u64 = 3;

/// How long a compressor is fed, and the time before its contents count.
const FEED: Duration = Duration::from_millis(1000);
const BEGIN: Duration = Duration::from_millis(250);
const SAMPLE: Duration = Duration::from_millis(2);
/// The number of bytes fed at once.
const PIECE: usize = 16 << 10;

/// The capacity for waiting packets, in bytes of pcap records, and its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// In the pipe: in tcpdump's ring and in the compressor.
    pub(super) pipe: u64,
    /// The memory of that ring and of the compressor at its peak, in bytes.
    pub(super) memory: u64,
    /// In ringtap's ring, and that ring's memory.
    pub(super) own_ring: u64,
    pub(super) own_memory: u64,
}

impl Room {
    /// Returns the number of chunks with at most the pipe's capacity, in at most the pipe's memory.
    fn chunks(&self, threads: usize) -> u64 {
        let threads = threads as u64;
        let by_room = self.pipe.saturating_sub(self.own_ring) / CHUNK;
        let left = self.memory.saturating_sub(self.own_memory);
        let by_memory = left.saturating_sub(THREAD * (threads + 1)) / CHUNK_MEMORY;
        by_room.min(by_memory).max(threads + LEAST_CHUNKS)
    }

    /// Returns the `--write-buffer` for this many compressing threads.
    pub(super) fn queue(&self, threads: usize) -> u64 {
        THREAD * (threads as u64 + 1) + self.chunks(threads) * CHUNK_MEMORY
    }

    /// Returns the bytes that can then wait in ringtap.
    pub(super) fn ringtap(&self, threads: usize) -> u64 {
        self.own_ring + self.chunks(threads) * CHUNK
    }
}

/// The bytes that an overloaded compressor holds, and its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Bytes that it has taken but not yet returned, averaged over time.
    pub(super) bytes: u64,
    /// The peak of its memory in bytes.
    pub(super) memory: u64,
}

/// Feeds a compressor with incompressible data as fast as it takes it, and reads its output at
/// once, which is as long as its input.
pub(super) fn held(command: &mut Command) -> io::Result<Held> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let measured = measure(&mut child);
    // It has ended already if that failed.
    let _ = child.kill();
    child.wait()?;
    measured
}

fn measure(child: &mut Child) -> io::Result<Held> {
    let to = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut from = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (taken, given) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| feed(to, &taken));
        scope.spawn(|| {
            let mut piece = vec![0; 1 << 20];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                given.fetch_add(length as u64, Ordering::SeqCst);
            }
        });
        let bytes = mean(&taken, &given);
        let memory = peak_memory(child.id());
        // Both threads find the ends of their pipes.
        child.kill()?;
        let memory = memory.ok_or_else(|| io::Error::other("the compressor has ended"))?;
        Ok(Held { bytes, memory })
    })
}

/// Writes until the pipe is closed.
fn feed(mut to: ChildStdin, taken: &AtomicU64) {
    let (mut piece, mut state) = (vec![0; PIECE], 0x2545_f491_4f6c_dd1d_u64);
    loop {
        for word in piece.chunks_exact_mut(8) {
            // Marsaglia's xorshift generator (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        if to.write_all(&piece).is_err() {
            return;
        }
        taken.fetch_add(PIECE as u64, Ordering::SeqCst);
    }
}

/// Returns the time average of the bytes taken and not yet returned.
fn mean(taken: &AtomicU64, given: &AtomicU64) -> u64 {
    let begun = Instant::now();
    thread::sleep(BEGIN);
    let (mut sum, mut samples) = (0, 0);
    while begun.elapsed() < FEED {
        thread::sleep(SAMPLE);
        // This order makes the result too small rather than too large.
        let before = taken.load(Ordering::SeqCst);
        sum += before.saturating_sub(given.load(Ordering::SeqCst));
        samples += 1;
    }
    sum / samples.max(1)
}

/// Returns the number of packets that fit the ring of a program that captures into a file: those
/// that it writes after it was stopped while more packets arrived.
pub(super) fn ring(
    command: &mut Command,
    side: &Side,
    file: &Path,
    send: impl FnOnce() -> Done,
) -> Done<u64> {
    let mut running = capturing(command, side)?;
    running.wait_until_resting(LIMIT)?;
    running.signal("STOP")?;
    let sent = send();
    running.signal("CONT")?;
    sent?;
    settle(file);
    interrupted(running)?;
    let packets = packets_in(file)?;
    std::fs::remove_file(file)?;
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{CHUNK, CHUNK_MEMORY, Room, THREAD, held};

    const ROOM: Room = Room {
        pipe: 40_000_000,
        memory: 140_000_000,
        own_ring: 8_000_000,
        own_memory: 8 << 20,
    };

    #[test]
    fn ringtap_has_as_much_room_and_no_more_of_it_or_of_memory() {
        for threads in [1, 2] {
            let own = ROOM.ringtap(threads);
            assert!(own <= ROOM.pipe && own + CHUNK > ROOM.pipe, "{own}");
            assert!(ROOM.queue(threads) + ROOM.own_memory <= ROOM.memory);
        }
        // If the compressor needs hardly any, memory is the limit.
        let small = Room {
            memory: 24_000_000,
            ..ROOM
        };
        for threads in [1, 2] {
            let all = small.queue(threads) + small.own_memory;
            assert!(all <= small.memory && all + CHUNK_MEMORY > small.memory);
        }
        // ringtap takes this much in any case.
        let none = Room { pipe: 0, ..ROOM };
        assert_eq!(none.queue(2), 3 * THREAD + 5 * CHUNK_MEMORY);
    }

    #[test]
    fn what_a_program_holds_is_found() {
        let held = held(&mut Command::new("cat")).expect("measured");
        // Its pipe, and the bytes that it copies at once.
        assert!(held.bytes > 0 && held.bytes < 4 << 20, "{held:?}");
        assert!(held.memory > 100_000, "{held:?}");
    }
}

//! The cost of copying a byte, over the size of packets: into the ring, and from memory to memory.
//!
//! The cost into the ring is a difference: the kernel's time for a packet with the tap that copies,
//! less that with the tap that filters and stamps but keeps nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ringtap_capture::Stage as Depth;
use ringtap_lab::Need;
use ringtap_sys::cycles::Rate;

use crate::helpers::median;
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, READER, Reader, Stage, own_options};

const PACKETS: u32 = 1_000_000;
const QUICK_PACKETS: u32 = 400_000;
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1496];
const QUICK_SIZES: [u16; 3] = [64, 512, 1496];
/// More than the caches hold, in bytes.
const MEMORY: usize = 64 << 20;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let rate = Rate::measure(Duration::from_millis(20)).per_nanosecond;
    let metrics = [
        ("cost of a packet", "ns", 1),
        ("cost of a byte", "cycles of the time-stamp counter", 3),
        // Packets that find no room are not copied.
        ("lost", "%", 2),
    ];
    let bytes = Axis::log("frame", "bytes");
    session.figure("What copying costs", bytes, metrics);
    let names = [
        "into the ring (tap at tcx)",
        "memory to memory, not in cache",
        "memory to memory, in cache",
    ];
    let stage = Stage::new()?;
    let mut memory = Memory::new();
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    for &size in session.amount(&SIZES[..], &QUICK_SIZES) {
        let title = format!("{size} bytes");
        session.case(&title, Some(f64::from(size)), &names, 1, |who| {
            let (nanoseconds, lost) = match who {
                0 => {
                    let (whole, lost) = kernel(&stage, size, packets, Depth::Copy)?;
                    (
                        whole - kernel(&stage, size, packets, Depth::Timestamp)?.0,
                        lost,
                    )
                }
                1 => (memory.copy(size.into(), MEMORY), 0.0),
                _ => (memory.copy(size.into(), 16 << 10), 0.0),
            };
            let cycles = nanoseconds * rate / f64::from(size);
            Ok(vec![nanoseconds, cycles, lost])
        })?;
    }
    Ok(())
}

/// Returns the nanoseconds that the kernel spends on a packet, and the percentage of packets that
/// were not read.
fn kernel(stage: &Stage, size: u16, packets: u32, depth: Depth) -> Done<(f64, f64)> {
    let options = own_options().study(Some(depth));
    let reader = Reader::library("tcx", options);
    let (sent, seen) = stage.run(Load::top(size, packets), &[reader], &[READER])?;
    let came: f64 = seen.iter().map(|seen| seen.packets).sum();
    let lost = 100.0 * (1.0 - came / sent.packets).max(0.0);
    Ok((1e9 * sent.processor / sent.packets, lost))
}

struct Memory {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Memory {
    fn new() -> Self {
        Self {
            from: vec![1; MEMORY],
            to: vec![2; MEMORY],
        }
    }

    /// Returns the nanoseconds to copy `size` bytes, packet after packet over `memory` bytes. It is
    /// the median of several runs, because other programs use the memory too.
    fn copy(&mut self, size: usize, memory: usize) -> f64 {
        median((0..5).map(|_| self.copy_once(size, memory)).collect())
    }

    fn copy_once(&mut self, size: usize, memory: usize) -> f64 {
        let passes = (MEMORY / memory).max(1);
        let begun = Instant::now();
        for _ in 0..passes {
            let from = self.from[..memory].chunks_exact(size);
            for (to, from) in self.to[..memory].chunks_exact_mut(size).zip(from) {
                to.copy_from_slice(black_box(from));
            }
        }
        black_box(&mut self.to);
        let copies = u32::try_from(passes * (memory / size)).unwrap_or(u32::MAX);
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(copies)
    }
}

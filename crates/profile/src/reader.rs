//! The reader: walks the capture like an application, and reads the processor's clock once a block.

use std::sync::atomic::{AtomicU32, Ordering};

use ringtap_capture::{Next, Packet, Source, Stats};
use ringtap_sys::cycles::{Usage, ticks};

use crate::Result;

/// Does the application's work on a packet: it looks at its length and type, and works for `work`
/// ticks of the processor's clock. It is a function of its own, so that samples can be attributed
/// by its addresses.
#[inline(never)]
pub(crate) fn application_sees(packet: &Packet<'_>, work: u64) -> u64 {
    /// Steps between two clock readings, so that the work is in this function, not in the clock's.
    const STEPS: u64 = 16;
    let mut worked = u64::from(packet.len);
    if work > 0 {
        let begun = ticks();
        while ticks().wrapping_sub(begun) < work {
            let mut step = 0;
            while step < STEPS {
                worked = (worked << 1) ^ (worked >> 7) ^ step;
                step += 1;
            }
        }
    }
    let kind = packet
        .data
        .get(12..14)
        .map_or(0, |kind| u64::from(kind[0]) << 8 | u64::from(kind[1]));
    worked.wrapping_add(kind)
}

/// The reader's counters so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Packets delivered to the application.
    pub(crate) packets: u64,
    /// Their captured bytes.
    pub(crate) bytes: u64,
    /// The number of blocks.
    pub(crate) blocks: u64,
    /// Ticks of the processor's clock between receiving a block and releasing it.
    pub(crate) ticks: u64,
}

/// The reader's state at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) totals: Totals,
    pub(crate) usage: Usage,
    pub(crate) stats: Stats,
}

/// Signals the reader to record its state.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU32);

impl Phase {
    const END: u32 = u32::MAX;

    /// Starts the next phase.
    pub(crate) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends reading.
    pub(crate) fn end(&self) {
        self.0.store(Self::END, Ordering::Relaxed);
    }
}

/// Reads until the end is signalled; returns a mark for each phase that has ended.
pub(crate) fn read(source: &mut dyn Source, phase: &Phase, work: u64) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    let mut totals = Totals::default();
    let mut present = phase.0.load(Ordering::Relaxed);
    let mut seen = 0_u64;
    loop {
        let now = phase.0.load(Ordering::Relaxed);
        if now != present {
            present = now;
            marks.push(Mark {
                totals,
                usage: Usage::of_this_thread()?,
                stats: source.stats()?,
            });
            if now == Phase::END {
                std::hint::black_box(seen);
                return Ok(marks);
            }
        }
        match source.next()? {
            Next::Block(block) => {
                let begin = ticks();
                for packet in &block {
                    seen = seen.wrapping_add(application_sees(&packet, work));
                    totals.packets += 1;
                    totals.bytes += packet.data.len() as u64;
                }
                drop(block);
                totals.ticks += ticks().wrapping_sub(begin);
                totals.blocks += 1;
            }
            Next::End => phase.end(),
            _ => {}
        }
    }
}

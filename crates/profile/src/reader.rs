//! The reader: walks the capture as an application does, and reads the processor's clock once a block.

use std::sync::atomic::{AtomicU32, Ordering};

use ringtap_capture::{Next, Packet, Source, Stats};
use ringtap_sys::cycles::{Usage, ticks};

use crate::Result;

/// What the application does with each packet: looks at its length and its type, works for so many ticks
/// of the processor's clock where it is told to, and is done. A function of its own, so that samples can be
/// told by its addresses.
#[inline(never)]
pub(crate) fn application_sees(packet: &Packet<'_>, work: u64) -> u64 {
    /// Steps between two looks at the clock: work in this function, not in the clock's.
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

/// What the reader has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Packets handed to the application.
    pub(crate) packets: u64,
    /// Bytes of them that were captured.
    pub(crate) bytes: u64,
    /// Blocks.
    pub(crate) blocks: u64,
    /// Waits that ended without packets.
    pub(crate) empty: u64,
    /// Ticks of the processor's clock between being given a block and giving it back.
    pub(crate) ticks: u64,
}

/// A moment of the reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) totals: Totals,
    pub(crate) usage: Usage,
    pub(crate) stats: Stats,
}

/// Tells the reader when to take down where it stands.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU32);

impl Phase {
    const END: u32 = u32::MAX;

    /// Begins the next phase.
    pub(crate) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the reading.
    pub(crate) fn end(&self) {
        self.0.store(Self::END, Ordering::Relaxed);
    }
}

/// Reads until the end is asked for; a mark for each phase that has ended.
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
            Next::TimedOut => totals.empty += 1,
            Next::End => phase.end(),
            _ => {}
        }
    }
}

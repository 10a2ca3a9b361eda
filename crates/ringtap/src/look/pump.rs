//! The meter of the views: packets in, news of flows out, each second.
//!
//! Seconds are those of the packets: the first packet of a second has the flows under way reported
//! before it is counted, so that traffic over time is exact to the second. Of a file that is read at
//! once, the report is put off while it would cost more than the packets since the last one.

use std::sync::Arc;

use ringtap_capture::{Block, FileSource, Item, Packet, Stats, Visitor};
use ringtap_flow::{Meter, MeterOptions};
use ringtap_look::{Feed, Lost, Tick};

use super::error::LookError;
use super::taps::Taps;
use crate::flow::probe::{InputInterfaces, describe, meter_with_process, metered, nanos, prepare};

const SECOND: u64 = 1_000_000_000;
/// How far back a report looks for packets that were delivered late.
const LATE_NS: u64 = 3 * SECOND;
/// Packets since the last report, as a share of the flows under way, that are worth another one.
const WORTH: u64 = 8;

/// A meter that feeds the model.
pub(super) struct Pump {
    meter: Meter,
    feed: Feed,
    pub(super) interfaces: InputInterfaces,
    clock: Clock,
    taps: Arc<Taps>,
    /// Whether packets have processes.
    knows_processes: bool,
}

/// When flows are reported.
struct Clock {
    /// The packets' time at which the next report is due.
    due_ns: u64,
    /// Where the last one was.
    last_ns: u64,
    /// Packets that were counted then.
    packets: u64,
    /// Whether packets come as fast as they can be read.
    at_once: bool,
    has_ticked: bool,
}

impl Pump {
    pub(super) fn new(
        options: &MeterOptions,
        feed: Feed,
        taps: Arc<Taps>,
        at_once: bool,
    ) -> Result<Self, LookError> {
        let meter = Meter::new(options)?;
        prepare(&meter);
        Ok(Self {
            meter,
            feed,
            interfaces: InputInterfaces::default(),
            clock: Clock {
                due_ns: 0,
                last_ns: 0,
                packets: 0,
                at_once,
                has_ticked: false,
            },
            taps,
            knows_processes: options.processes > 0,
        })
    }

    /// Meters a block of packets.
    pub(super) fn block(&mut self, block: &Block<'_>) {
        if !self.taps.is_empty() {
            self.taps.block(block);
        }
        if self.knows_processes {
            block.packets().for_each(|packet| self.packet(&packet));
        } else {
            block.drain(&mut Work(self));
        }
    }

    /// Takes an item that is neither packets nor an interface: the description of a process.
    pub(super) fn meta(&mut self, item: &Item<'_>) {
        if self.knows_processes {
            describe(&mut self.meter, item);
        }
    }

    /// Meters packets of a file that hands them over one by one; whether there were any.
    pub(super) fn drain(&mut self, source: &mut FileSource) -> bool {
        !self.knows_processes && source.drain(&mut Work(self)) > 0
    }

    /// Meters a packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        if !self.knows_processes {
            return Work(self).packet(packet);
        }
        let time_ns = nanos(packet.timestamp);
        if time_ns >= self.clock.due_ns {
            self.turn(time_ns);
        }
        meter_with_process(
            &mut self.meter,
            &self.interfaces.known,
            packet,
            &mut self.feed,
        );
    }

    /// Lets time go on where no packets come.
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.meter.advance(now_ns, &mut self.feed);
        if now_ns >= self.clock.due_ns {
            self.report(now_ns);
        }
    }

    /// Whether a report was made, so that the counters are to follow.
    pub(super) fn take_tick(&mut self) -> bool {
        std::mem::take(&mut self.clock.has_ticked)
    }

    /// Hands over the counters.
    pub(super) fn tick(&mut self, now_ns: u64, stats: &Stats) {
        let counters = self.meter.counters();
        let dropped = &stats.dropped;
        let sampled_out = counters.sampled_out;
        self.feed.tick(Tick {
            now_ns,
            counters,
            lost: Lost {
                interface: dropped.interface,
                before_hook: dropped.before_hook,
                hook: dropped.hook,
                ring: dropped.ring,
                sampling: dropped
                    .sampling
                    .or((sampled_out > 0).then_some(0))
                    .map(|count| count + sampled_out),
            },
        });
    }

    /// The time of the packets.
    pub(super) fn now_ns(&self) -> u64 {
        self.meter.now_ns()
    }

    /// Returns the meter's counters.
    pub(super) fn counters(&self) -> ringtap_flow::Counters {
        self.meter.counters()
    }

    /// Reports all flows under way, and ends none: what comes is the view of the end.
    pub(super) fn finish(&mut self, now_ns: u64, stats: &Stats) {
        self.meter.settle(&mut self.feed);
        self.report(now_ns);
        self.clock.has_ticked = false;
        self.tick(now_ns, stats);
    }

    /// A packet of another second comes.
    #[inline(never)]
    fn turn(&mut self, time_ns: u64) {
        let clock = &mut self.clock;
        if clock.at_once && clock.last_ns != 0 {
            let counters = self.meter.counters();
            let new = counters.packets - clock.packets;
            if new.saturating_mul(WORTH) < counters.active {
                clock.due_ns = next_second(time_ns);
                return;
            }
        }
        self.report(time_ns);
        if self.clock.at_once {
            // A file's counters come with its packets.
            self.clock.has_ticked = false;
            self.tick(time_ns / SECOND * SECOND, &Stats::default());
        }
    }

    fn report(&mut self, now_ns: u64) {
        let since_ns = self.clock.last_ns.saturating_sub(LATE_NS);
        self.meter.interim(since_ns, &mut self.feed);
        let clock = &mut self.clock;
        clock.last_ns = now_ns;
        clock.packets = self.meter.counters().packets;
        clock.due_ns = next_second(now_ns);
        clock.has_ticked = true;
    }
}

fn next_second(time_ns: u64) -> u64 {
    (time_ns / SECOND).saturating_add(1).saturating_mul(SECOND)
}

struct Work<'a>(&'a mut Pump);

impl Visitor for Work<'_> {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>) {
        let pump = &mut *self.0;
        let packet = metered(&pump.interfaces.known, packet);
        if packet.time_ns >= pump.clock.due_ns {
            pump.turn(packet.time_ns);
        }
        pump.meter.push(&packet, &mut pump.feed);
    }
}

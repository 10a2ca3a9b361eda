//! Reads packet headers for the threads of the meters.
//!
//! Packets go in, on the thread that reads them. Batches of observations go out, to the thread of the meter
//! for these two hosts. The batches come back and are used again. Channels are bounded: if a meter is too
//! slow, its feeders wait.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use ringtap_flow::{Batch, Counters, MeterOptions, Packet, Spreader};

use super::error::FlowError;
use crate::setup::lock;

/// The interval, in packets' time and nanoseconds, at which meters get waiting packets.
const WAIT_NS: u64 = 20_000_000;
/// The same interval if packets of other readers wait for it.
const SHORT_WAIT_NS: u64 = 5_000_000;

/// A batch on its way to a meter, with the number of the reader.
pub(super) struct Sent {
    pub(super) reader: usize,
    pub(super) batch: Batch,
}

/// The channels of batches.
pub(super) struct Routes {
    /// One channel to each meter.
    pub(super) meters: Vec<SyncSender<Sent>>,
    /// The batches that were metered.
    pub(super) back: Receiver<Batch>,
}

/// The meters' side of a thread that reads packets.
pub(crate) struct Feeder {
    spreader: Spreader,
    routes: Routes,
    number: usize,
    readers: usize,
    /// When the meters last got all waiting packets.
    settled_ns: u64,
    counters: Arc<Mutex<Counters>>,
}

impl Feeder {
    /// Returns the feeder with this number, one of several.
    pub(super) fn new(
        (number, readers): (usize, usize),
        options: &MeterOptions,
        routes: Routes,
        counters: Arc<Mutex<Counters>>,
    ) -> Result<Self, FlowError> {
        Ok(Self {
            spreader: Spreader::one_of(readers, options, routes.meters.len())?,
            routes,
            number,
            readers,
            settled_ns: 0,
            counters,
        })
    }

    /// Takes a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: &Packet<'_>) {
        let origin = (self.number, self.readers);
        self.spreader.push(packet, |meter, batch| {
            give(&self.routes, meter, batch, origin);
        });
    }

    /// Gives the meters the packets that have waited for long, by the time of packets. Returns whether there
    /// were any.
    pub(crate) fn settle_if_due(&mut self) -> bool {
        let wait_ns = if self.readers > 1 {
            SHORT_WAIT_NS
        } else {
            WAIT_NS
        };
        let is_due = self.spreader.now_ns().abs_diff(self.settled_ns) > wait_ns;
        if is_due {
            self.settle();
        }
        is_due
    }

    /// Advances the time when no packets come.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.spreader.advance(now_ns);
        self.settle();
    }

    /// Gives the meters all waiting packets, and the time.
    pub(crate) fn settle(&mut self) {
        self.settled_ns = self.spreader.now_ns();
        let origin = (self.number, self.readers);
        let spreader = &mut self.spreader;
        spreader.settle(|meter, batch| give(&self.routes, meter, batch, origin));
        *lock(&self.counters) = spreader.counters();
    }

    /// Returns the time by the clock of the packets, in nanoseconds since 1970.
    pub(crate) fn now_ns(&self) -> u64 {
        self.spreader.now_ns()
    }
}

/// Exchanges a batch for an empty one with a meter's thread.
fn give(routes: &Routes, meter: usize, batch: &mut Batch, (reader, readers): (usize, usize)) {
    if let Some(to) = routes.meters.get(meter) {
        let empty = routes.back.try_recv();
        let empty = empty.unwrap_or_else(|_| Batch::for_readers(readers));
        let batch = std::mem::replace(batch, empty);
        // A thread that does not take it has panicked; the end reports that.
        let _ = to.send(Sent { reader, batch });
    }
}

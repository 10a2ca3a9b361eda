//! Interim reports: flows that are still under way, while they are.
//!
//! Data in: the cache. Data out: to [`FlowSink::interim`], each flow that had packets lately, with what
//! earlier reports counted of it. Nothing of this is done for a packet: only when a report is asked for,
//! when a flow begins and when one ends.

use super::slot::{NONE, State};
use super::{Cache, Extra};
use crate::record::{EndReason, Reported};
use crate::sink::FlowSink;

impl Cache {
    /// Reports the flows that had packets at or after `since_ns` by the clock of packets.
    pub(crate) fn interim<S: FlowSink + ?Sized>(&mut self, since_ns: u64, sink: &mut S) {
        for index in 0..self.reported.len() {
            let slot = &self.slots[index];
            if !slot.state.has(State::USED) || slot.traffic.last_ns < since_ns {
                continue;
            }
            let id = u32::try_from(index).unwrap_or(NONE);
            let counted = self.counted(id);
            if counted == self.reported[index] {
                continue;
            }
            let record = self.record(id, EndReason::Forced);
            sink.interim(&record, &self.reported(id));
            self.reported[index] = counted;
        }
    }

    /// Returns what earlier reports counted, in the direction of the flow's record.
    pub(super) fn reported(&self, id: u32) -> Reported {
        let reported = self.reported.get(id as usize).copied().unwrap_or_default();
        let only_answers = self.slots[id as usize].traffic.packets == 0;
        if !only_answers {
            return reported;
        }
        Reported {
            packets: reported.reverse_packets,
            bytes: reported.reverse_bytes,
            reverse_packets: reported.packets,
            reverse_bytes: reported.bytes,
            retransmissions: reported.retransmissions,
        }
    }

    /// Returns what is counted now, in the direction of the slot.
    fn counted(&self, id: u32) -> Reported {
        let forward = &self.slots[id as usize].traffic;
        let extra = self.extras.get(id as usize).unwrap_or(&Extra::NEW);
        Reported {
            packets: forward.packets,
            bytes: forward.bytes,
            reverse_packets: extra.reverse.packets,
            reverse_bytes: extra.reverse.bytes,
            retransmissions: extra.tcp.retransmissions(),
        }
    }
}

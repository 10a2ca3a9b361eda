//! The part of a record that was not reported before.

use ringtap_flow::{FlowRecord, Reported};

/// Counters of a record less those that were reported before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Packets and bytes.
    pub(crate) forward: (u64, u64),
    pub(crate) reverse: (u64, u64),
    pub(crate) retransmissions: u32,
    /// Whether nothing of the flow was reported before.
    pub(crate) is_first: bool,
}

impl Delta {
    pub(crate) fn new(record: &FlowRecord, reported: &Reported) -> Self {
        let reverse = record.reverse.unwrap_or_default();
        let forward = record.forward;
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let again = record.tcp.map_or(0, |tcp| tcp.retransmissions());
        Self {
            forward: (
                less(forward.packets, reported.packets),
                less(forward.bytes, reported.bytes),
            ),
            reverse: (
                less(reverse.packets, reported.reverse_packets),
                less(reverse.bytes, reported.reverse_bytes),
            ),
            retransmissions: again.saturating_sub(reported.retransmissions),
            is_first: reported.packets == 0 && reported.reverse_packets == 0,
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.forward.0.saturating_add(self.reverse.0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.forward.1.saturating_add(self.reverse.1)
    }
}

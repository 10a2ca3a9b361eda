//! A flow in the cache: two cache lines, and two more on request.

use super::tcp::Tcp;
use crate::key::Key;
use crate::parse::{NO_LABEL, Observation};
use crate::record::Traffic;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A flow. A search reads the first cache line, and a packet changes the second.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Slot {
    pub(crate) key: Key,
    /// The neighbours in the wheel's list. In a free slot, the next free one.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// The initiator's packets, if both directions share a record; the times are those of both.
    pub(crate) traffic: Traffic,
    pub(crate) macs: [u8; 12],
    pub(crate) mpls: u32,
    /// The wheel's list that contains it.
    pub(crate) list: u16,
    pub(crate) state: State,
    pub(crate) tos: u8,
}

/// Checks the limit of the documentation: at most 128 bytes.
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<Extra>() == 128);

/// The bits of a flow's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(u8);

impl State {
    pub(crate) const USED: u8 = 1;
    /// FIN or RST was seen: the flow ends soon.
    pub(crate) const CLOSING: u8 = 2;
    pub(crate) const HAS_MACS: u8 = 4;
    /// The initiator is the key's destination.
    pub(crate) const FROM_DESTINATION: u8 = 8;
    /// FIN of the initiator and of the other end.
    pub(crate) const FIN: u8 = 16;
    pub(crate) const REVERSE_FIN: u8 = 32;
    /// The next payload may say more about the flow.
    pub(crate) const CURIOUS: u8 = 64;

    #[inline]
    pub(crate) fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Returns whether the flow exists and is not about to end.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.0 & (Self::USED | Self::CLOSING) == Self::USED
    }

    pub(crate) fn set(&mut self, bit: u8) {
        self.0 |= bit;
    }

    pub(crate) fn clear(&mut self, bit: u8) {
        self.0 &= !bit;
    }
}

impl Slot {
    /// Starts a flow without packets, with the time and the link layer of its first packet.
    pub(crate) fn begin(&mut self, observation: &Observation) {
        self.traffic = NO_TRAFFIC;
        self.macs = observation.macs;
        self.mpls = observation.mpls;
        self.tos = observation.tos;
        self.state = State(
            State::USED
                | if observation.has_macs {
                    State::HAS_MACS
                } else {
                    0
                },
        );
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            key: Key::default(),
            next: NONE,
            previous: NONE,
            traffic: NO_TRAFFIC,
            macs: [0; 12],
            mpls: NO_LABEL,
            list: 0,
            state: State::default(),
            tos: 0,
        }
    }
}

/// The parts of a flow that are kept only on request: the other direction, and TCP measurements.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Extra {
    /// The first and last time of packets in the initiator's direction.
    pub(crate) forward_first_ns: u64,
    pub(crate) forward_last_ns: u64,
    pub(crate) reverse: Traffic,
    pub(crate) tcp: Tcp,
}

/// Empty counters, to which packets are added.
pub(crate) const NO_TRAFFIC: Traffic = Traffic {
    packets: 0,
    bytes: 0,
    first_ns: u64::MAX,
    last_ns: 0,
    tcp_flags: 0,
    min_ttl: u8::MAX,
    max_ttl: 0,
    min_length: u16::MAX,
    max_length: 0,
};

/// Adds a packet to counters.
///
/// All fields are read before any is written. A processor waits for long when one read covers several recent
/// writes.
#[inline]
pub(crate) fn count(traffic: &mut Traffic, observation: &Observation) {
    let length = u16::try_from(observation.bytes).unwrap_or(u16::MAX);
    let Traffic {
        packets,
        bytes,
        first_ns,
        last_ns,
        tcp_flags,
        min_ttl,
        max_ttl,
        min_length,
        max_length,
    } = *traffic;
    *traffic = Traffic {
        packets: packets + 1,
        bytes: bytes + u64::from(observation.bytes),
        first_ns: first_ns.min(observation.time_ns),
        last_ns: last_ns.max(observation.time_ns),
        tcp_flags: tcp_flags | observation.tcp_flags,
        min_ttl: min_ttl.min(observation.ttl),
        max_ttl: max_ttl.max(observation.ttl),
        min_length: min_length.min(length),
        max_length: max_length.max(length),
    };
}

/// Adds a packet that is not older than the last one to counters of at least one packet.
#[inline]
pub(crate) fn count_next(traffic: &mut Traffic, observation: &Observation) {
    let mut counted = *traffic;
    count(&mut counted, observation);
    // The known value need not be computed.
    counted.first_ns = traffic.first_ns;
    counted.last_ns = observation.time_ns;
    *traffic = counted;
}

/// Adds counters to counters.
pub(crate) fn merge(traffic: &mut Traffic, more: &Traffic) {
    traffic.packets += more.packets;
    traffic.bytes += more.bytes;
    traffic.first_ns = traffic.first_ns.min(more.first_ns);
    traffic.last_ns = traffic.last_ns.max(more.last_ns);
    traffic.tcp_flags |= more.tcp_flags;
    traffic.min_ttl = traffic.min_ttl.min(more.min_ttl);
    traffic.max_ttl = traffic.max_ttl.max(more.max_ttl);
    traffic.min_length = traffic.min_length.min(more.min_length);
    traffic.max_length = traffic.max_length.max(more.max_length);
}

impl Extra {
    pub(crate) const NEW: Self = Self {
        forward_first_ns: u64::MAX,
        forward_last_ns: 0,
        reverse: NO_TRAFFIC,
        tcp: Tcp::NEW,
    };
}

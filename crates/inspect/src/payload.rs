//! The input, a payload and the facts beside it, and the state of a flow between payloads.

use std::net::IpAddr;

use crate::entry::Entry;

/// The protocol that carries a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp {
        /// The sequence number of the payload's first byte.
        sequence: u32,
    },
    /// A UDP datagram.
    Udp,
}

/// The payload of a TCP segment or of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// TCP or UDP.
    pub transport: Transport,
    /// Whether the flow's initiator, which is the sender of its first packet, sent this payload.
    pub from_initiator: bool,
    /// The initiator's address.
    pub initiator: IpAddr,
    /// The responder's address.
    pub responder: IpAddr,
    /// The initiator's port.
    pub initiator_port: u16,
    /// The responder's port.
    pub responder_port: u16,
    /// Time of capture: nanoseconds since 1970.
    pub time_ns: u64,
    /// Captured bytes of the payload.
    pub data: &'a [u8],
    /// Whether `data` is the whole payload, neither cut by the snapshot length nor a fragment.
    pub complete: bool,
}

impl Payload<'_> {
    /// Returns whether one of the ends has this port.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.initiator_port == port || self.responder_port == port
    }

    pub(crate) fn sequence(&self) -> u32 {
        match self.transport {
            Transport::Tcp { sequence } => sequence,
            Transport::Udp => 0,
        }
    }
}

/// The state that the inspector keeps for each flow beside its [`Entry`](crate::Entry), from the first
/// payload to the last one of interest: 4 bytes, which are zero in the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Payloads looked at: the initiator's in the low half, the responder's in the high half.
    seen: u8,
    flags: u8,
    /// The number of the flow's buffer, from 1; 0: it has none.
    pub(crate) buffer: u16,
}

/// The flags of a state: the directions that are finished, and whether payloads are not counted.
const FROM_INITIATOR: u8 = 1;
const FROM_RESPONDER: u8 = 2;
const BOTH: u8 = FROM_INITIATOR | FROM_RESPONDER;
const ENDLESS: u8 = 4;

impl FlowState {
    /// Returns whether the next payload of a direction is of interest: cheaper than building a [`Payload`] for
    /// nothing.
    #[inline]
    #[must_use]
    pub fn wants(self, from_initiator: bool) -> bool {
        self.flags & direction(from_initiator) == 0
    }

    /// Returns whether no further payload of the flow is of interest.
    #[inline]
    #[must_use]
    pub fn is_done(self) -> bool {
        self.flags & BOTH == BOTH
    }

    /// Counts a payload, and returns how many there were in its direction.
    pub(crate) fn count(&mut self, from_initiator: bool) -> u8 {
        let shift = if from_initiator { 0 } else { 4 };
        let count = (self.seen >> shift & 15).saturating_add(1).min(15);
        self.seen = self.seen & !(15 << shift) | count << shift;
        count
    }

    /// Looks at further payloads however many there were.
    pub(crate) fn go_on(&mut self) {
        self.flags |= ENDLESS;
    }

    pub(crate) fn is_endless(self) -> bool {
        self.flags & ENDLESS != 0
    }

    pub(crate) fn finish(&mut self, step: Step, from_initiator: bool) {
        self.flags |= match step {
            Step::More => 0,
            Step::This => direction(from_initiator),
            Step::Both => BOTH,
        };
    }
}

fn direction(from_initiator: bool) -> u8 {
    if from_initiator {
        FROM_INITIATOR
    } else {
        FROM_RESPONDER
    }
}

/// A flow while one of its payloads is looked at: the caller's number for it, and what the caller keeps of it.
pub(crate) struct Flow<'a> {
    pub(crate) number: u32,
    pub(crate) entry: &'a mut Entry,
    pub(crate) state: &'a mut FlowState,
}

/// The parts that are finished after a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    More,
    /// The payload's direction.
    This,
    /// Both directions.
    Both,
}

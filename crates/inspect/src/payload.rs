//! What goes in: a payload and what is known beside it.

use std::net::IpAddr;

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

/// What the inspector keeps for each flow beside its [`Entry`](crate::Entry), from the first payload to
/// [`Verdict::Done`](crate::Verdict): 4 bytes, zero in the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Payloads looked at: the initiator's in the low half, the responder's in the high half.
    pub(crate) seen: u8,
    /// Flags.
    pub(crate) flags: u8,
    /// The number of the flow's buffer, from 1; 0: it has none.
    pub(crate) buffer: u16,
}

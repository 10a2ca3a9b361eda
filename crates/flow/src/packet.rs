//! What goes in: bytes of a packet and what is known beside them.

use ringtap_packet::LinkType;

/// A packet to be metered.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Captured bytes, beginning with the header of the link layer.
    pub data: &'a [u8],
    /// Bytes on the wire; where captured bytes are more, theirs is the number that holds.
    pub len: u32,
    /// Time of capture: nanoseconds since 1970.
    pub time_ns: u64,
    /// What `data` begins with. Packets of types in which no IP is looked for are counted as not IP.
    pub link: LinkType,
    /// The interface, for [`crate::FlowKey::input`]; 0: the one that the link layer's header names,
    /// where it does ([`LinkType::LINUX_SLL2`]).
    pub input: u32,
}

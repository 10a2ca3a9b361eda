//! The input of the meter: bytes of a packet and the facts that belong to it.

use ringtap_packet::LinkType;

/// A packet to meter.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Captured bytes, starting with the link-layer header.
    pub data: &'a [u8],
    /// Length on the wire, in bytes. If more bytes were captured, their number counts.
    pub len: u32,
    /// Capture time, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The type of the link-layer header in `data`. Packets of types without IP support are counted as not
    /// IP.
    pub link: LinkType,
    /// The interface, for [`crate::FlowKey::input`]. With 0, it is the one in the link-layer header, if the
    /// header names one ([`LinkType::LINUX_SLL2`]).
    pub input: u32,
}

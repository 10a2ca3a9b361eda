//! Packets to run filters on: generated for a link type ([`made`]), from the corpus of captures
//! ([`real`]), and made for a program ([`guided`]).

mod encapsulated;
pub mod guided;
mod headers;
pub mod made;
pub mod real;

/// A packet: the captured bytes, and the length on the wire in bytes.
pub type Packet = (Vec<u8>, u32);

/// Returns whether all bytes of the packet were captured.
#[must_use]
pub fn is_whole((data, len): &Packet) -> bool {
    data.len() == *len as usize
}

/// Returns about `count` of the packets, evenly spread.
#[must_use]
pub fn spread(packets: Vec<Packet>, count: usize) -> Vec<Packet> {
    let step = packets.len().div_ceil(count.max(1)).max(1);
    packets.into_iter().step_by(step).collect()
}

//! What all crates know of a packet: how it is handed on, and the kind of header it begins with.
//!
//! This crate stands at the bottom of the house: it depends on nothing and opens nothing.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod checksum;
pub mod ether_type;
pub mod headers;
mod linktype;
mod packet;
pub mod protocol;

pub use linktype::{LinkType, MAX_SNAPLEN};
pub use packet::{Packet, PacketFlags, Timestamp};

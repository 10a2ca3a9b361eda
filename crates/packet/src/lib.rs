#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bytes;
pub mod checksum;
mod drop_note;
pub mod ether_type;
pub mod headers;
mod linktype;
pub mod names;
mod options;
mod packet;
pub mod process;
pub mod protocol;

pub use drop_note::{DropNote, ShownReason};
pub use linktype::{LinkType, MAX_SNAPLEN};
pub use packet::{Packet, PacketFlags, Timestamp};

//! Capture files: pcap and pcapng, read and written, compressed or not.
//!
//! What it is: bytes in, [`Packet`]s out ([`Reader`]) and packets in, bytes out (the writers).
//! What it is not: it opens no socket, knows no filter and decodes no protocol.
//!
//! Data in: anything that implements [`std::io::Read`]. Data out: a [`Run`], a validated stretch
//! of consecutive packet records that are handed out in place, without a copy.
#![forbid(unsafe_code)]

mod packet;

pub use packet::{Packet, PacketFlags, Timestamp};

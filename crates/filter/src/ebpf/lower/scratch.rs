//! The layout of a program's memory from which a filter reads a packet ([`super::Hook::Scratch`]): a map's
//! value. The program writes it before the filter runs.
//!
//! Packets that pass no hook of the network, such as dropped ones, have no context that a filter could read. A
//! program at a tracepoint copies such a packet to a value of its own, and the filter reads that.

/// The packet's true length in bytes: 32 bits.
pub const LEN: i16 = 0;
/// The number of bytes at [`DATA`], at most [`BYTES`]: 32 bits.
pub const CAPLEN: i16 = 4;
/// The index of the interface: 32 bits.
pub const INTERFACE: i16 = 8;
/// The packet's type (`PACKET_HOST` … of packet(7)): 32 bits.
pub const PACKET_TYPE: i16 = 12;
/// Where the memory begins that the program may use for itself, up to [`DATA`].
pub const OWN: i16 = 16;
/// Where the packet begins.
pub const DATA: i16 = 512;
/// The room for the packet, in bytes.
pub const BYTES: u32 = 1 << 16;
/// The size of the value, in bytes.
pub const VALUE: u32 = DATA.unsigned_abs() as u32 + BYTES;

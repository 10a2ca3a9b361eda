//! The header of IP, version 4 or 6, and of IPv6 the chain of extension headers.

use crate::bytes::{be16, be32, byte, chunk};
use crate::protocol::{
    AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, HOST_IDENTITY, MOBILITY, ROUTING,
    SHIM6,
};

/// Extension headers that are walked over at most.
const EXTENSIONS: usize = 16;

/// What a header of IP says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Whether it is version 6.
    pub six: bool,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The protocol behind the header and the extension headers.
    pub protocol: u8,
    /// The packet's length as its header states it.
    pub bytes: u32,
    /// Where the transport's header begins; none where the packet has none or it was not captured.
    pub transport: Option<usize>,
    /// Bytes of headers of IP.
    pub headers: u32,
    /// Which part of a datagram the packet is.
    pub part: Part,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The first fragment, which has the transport's header.
    First(u32),
    /// Another fragment.
    Later(u32),
}

/// Source and destination: each two numbers, the least significant first; of IPv4 in the first.
pub type Addresses = [u64; 4];

/// Reads the header of IP at `at` to where it is needed; none where it was not captured or contradicts
/// itself. `wire` is the number of bytes of the packet on the wire.
///
/// Nothing is handed back by value: that would be read in other pieces than it was just written in,
/// which stalls a processor for longer than all the rest takes.
#[inline]
pub fn parse(
    data: &[u8],
    at: usize,
    wire: usize,
    network: &mut Network,
    addresses: &mut Addresses,
) -> Option<()> {
    match byte(data, at)? >> 4 {
        4 => parse4(data, at, wire, network, addresses),
        6 => parse6(data, at, wire, network, addresses),
        _ => None,
    }
}

#[inline]
fn parse4(
    data: &[u8],
    at: usize,
    wire: usize,
    network: &mut Network,
    addresses: &mut Addresses,
) -> Option<()> {
    const MORE_FRAGMENTS: u16 = 0x2000;
    const OFFSET: u16 = 0x1fff;
    let header: &[u8; 20] = data.get(at..)?.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let stated = u16::from_be_bytes([header[2], header[3]]);
    // Segmentation by the adapter leaves the field zero where it is too small for the length.
    let bytes = match stated {
        0 => u32::try_from(wire.saturating_sub(at)).unwrap_or(u32::MAX),
        _ => u32::from(stated),
    };
    if header_len < 20 || (bytes as usize) < header_len {
        return None;
    }
    let place = u16::from_be_bytes([header[6], header[7]]);
    let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
    network.part = match (place & OFFSET, place & MORE_FRAGMENTS) {
        (0, 0) => Part::Whole,
        (0, _) => Part::First(id),
        _ => Part::Later(id),
    };
    let address = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u64::from(u32::from_be_bytes(bytes))
    };
    *addresses = [address(12), 0, address(16), 0];
    network.six = false;
    network.tos = header[1];
    network.ttl = header[8];
    network.protocol = header[9];
    network.bytes = bytes;
    network.transport = (!matches!(network.part, Part::Later(_))).then_some(at + header_len);
    network.headers = u32::from(header[0] & 0x0f) * 4;
    Some(())
}

#[inline(never)]
fn parse6(
    data: &[u8],
    at: usize,
    wire: usize,
    network: &mut Network,
    addresses: &mut Addresses,
) -> Option<()> {
    let header: &[u8; 40] = data.get(at..)?.first_chunk()?;
    let [first, second, ..] = *header;
    let stated = u16::from_be_bytes([header[4], header[5]]);
    let half = |at: usize| {
        header[at..]
            .first_chunk()
            .map(|half| u64::from_be_bytes(*half))
    };
    *addresses = [half(16)?, half(8)?, half(32)?, half(24)?];
    *network = Network {
        six: true,
        tos: first << 4 | second >> 4,
        ttl: header[7],
        protocol: header[6],
        bytes: 40 + u32::from(stated),
        transport: None,
        headers: 40,
        part: Part::Whole,
    };
    let jumbo = walk_extensions(data, at, network);
    if let (0, Some(payload)) = (stated, jumbo) {
        network.bytes = payload.saturating_add(40);
    } else if stated == 0 && wire.saturating_sub(at) > 40 + usize::from(u16::MAX) {
        // Packets that the system hands to its adapter to be cut, larger than the field can tell.
        network.bytes = u32::try_from(wire - at).unwrap_or(u32::MAX);
    }
    Some(())
}

/// Finds the protocol and the transport's header behind the extension headers; gives the length of
/// the payload that a jumbo payload option states (RFC 2675).
fn walk_extensions(data: &[u8], at: usize, network: &mut Network) -> Option<u32> {
    let mut jumbo = None;
    let mut next = at + 40;
    for _ in 0..EXTENSIONS {
        let length = match network.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6 => {
                8 + 8 * usize::from(byte(data, next + 1)?)
            }
            AUTHENTICATION => 8 + 4 * usize::from(byte(data, next + 1)?),
            FRAGMENT => 8,
            _ => {
                network.transport = Some(next);
                return jumbo;
            }
        };
        if network.protocol == HOP_BY_HOP && jumbo.is_none() {
            jumbo = jumbo_payload(data, next);
        }
        if network.protocol == FRAGMENT {
            let place = be16(data, next + 2)?;
            let id = be32(data, next + 4)?;
            if place >> 3 != 0 {
                network.part = Part::Later(id);
                network.protocol = byte(data, next)?;
                return jumbo;
            }
            if place & 1 != 0 {
                network.part = Part::First(id);
            }
        }
        let Some(protocol) = byte(data, next) else {
            return jumbo;
        };
        network.protocol = protocol;
        next += length;
        network.headers += u32::try_from(length).unwrap_or(0);
    }
    jumbo
}

/// The jumbo payload option of a hop-by-hop header, which is its first option where it is used.
fn jumbo_payload(data: &[u8], at: usize) -> Option<u32> {
    match chunk(data, at + 2)? {
        [0xc2, 4] => be32(data, at + 4),
        _ => None,
    }
}

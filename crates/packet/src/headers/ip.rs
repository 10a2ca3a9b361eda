//! The header of IP, version 4 or 6, and of IPv6 the chain of extension headers.

use std::ops::Range;

use super::route::{self, Stop};
use crate::bytes::{be16, be32, byte, chunk};
use crate::protocol::{
    AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, HOST_IDENTITY, MOBILITY, ROUTING,
    SHIM6,
};

/// Extension headers that are walked over at most.
const EXTENSIONS: usize = 16;

/// A header of IP: what it says, and where what follows it is, in bytes from the start of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ip {
    /// Where it begins.
    pub at: usize,
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
    /// Where the last routing header of IPv6 begins.
    pub routing: Option<usize>,
}

impl Ip {
    /// The bytes of the source and of the destination address, which were captured.
    #[inline]
    #[must_use]
    pub fn addresses(&self) -> [Range<usize>; 2] {
        let (first, len) = if self.six { (8, 16) } else { (12, 4) };
        let source = self.at + first;
        [source..source + len, source + len..source + 2 * len]
    }

    /// Where the packet ends, as its header states it, which may lie behind what was captured. An IPv6
    /// header that states no length (an adapter was to segment the packet) reaches to the end of all
    /// `captured` bytes.
    #[must_use]
    pub fn end(&self, captured: usize) -> usize {
        if self.six && self.bytes == 40 {
            captured.max(self.at + 40)
        } else {
            self.at + self.bytes as usize
        }
    }

    /// The last stop of a route that the packet prescribes itself; checksums cover its address in the
    /// place of the destination (RFC 8200, section 8.1).
    #[must_use]
    pub fn last_stop(&self, data: &[u8]) -> Stop {
        let (stop, from) = if !self.six {
            let from = self.at + 20;
            let options = data.get(from..self.at + self.headers as usize);
            (route::last_stop_v4(options.unwrap_or_default()), from)
        } else if let Some(routing) = self.routing {
            (
                routing_header(data, routing).unwrap_or(Stop::Unknown),
                routing,
            )
        } else {
            (Stop::Reached, 0)
        };
        match stop {
            Stop::At(offset) => Stop::At(from + offset),
            other => other,
        }
    }
}

/// The last stop by the routing header at `at`; its offset counts from there.
fn routing_header(data: &[u8], at: usize) -> Option<Stop> {
    let [_, words, kind, left] = chunk(data, at)?;
    let body = data.get(at + 4..at + 8 + 8 * usize::from(words))?;
    Some(match route::last_stop(kind, left, body) {
        Stop::At(offset) => Stop::At(4 + offset),
        other => other,
    })
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

/// Reads the header of IP at `at` to where it is needed; none where it was not captured or contradicts
/// itself. `wire` is the number of bytes of the packet on the wire.
///
/// Nothing is handed back by value: that would be read in other pieces than it was just written in,
/// which stalls a processor for longer than all the rest takes.
#[inline]
pub fn parse(data: &[u8], at: usize, wire: usize, ip: &mut Ip) -> Option<()> {
    match byte(data, at)? >> 4 {
        4 => parse4(data, at, wire, ip),
        6 => parse6(data, at, wire, ip),
        _ => None,
    }
}

#[inline]
fn parse4(data: &[u8], at: usize, wire: usize, ip: &mut Ip) -> Option<()> {
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
    ip.part = match (place & OFFSET, place & MORE_FRAGMENTS) {
        (0, 0) => Part::Whole,
        (0, _) => Part::First(id),
        _ => Part::Later(id),
    };
    ip.at = at;
    ip.six = false;
    ip.tos = header[1];
    ip.ttl = header[8];
    ip.protocol = header[9];
    ip.bytes = bytes;
    ip.transport = (!matches!(ip.part, Part::Later(_))).then_some(at + header_len);
    ip.headers = u32::from(header[0] & 0x0f) * 4;
    ip.routing = None;
    Some(())
}

#[inline(never)]
fn parse6(data: &[u8], at: usize, wire: usize, ip: &mut Ip) -> Option<()> {
    let header: &[u8; 40] = data.get(at..)?.first_chunk()?;
    let [first, second, ..] = *header;
    let stated = u16::from_be_bytes([header[4], header[5]]);
    *ip = Ip {
        at,
        six: true,
        tos: first << 4 | second >> 4,
        ttl: header[7],
        protocol: header[6],
        bytes: 40 + u32::from(stated),
        transport: None,
        headers: 40,
        part: Part::Whole,
        routing: None,
    };
    let jumbo = walk_extensions(data, at, ip);
    if let (0, Some(payload)) = (stated, jumbo) {
        ip.bytes = payload.saturating_add(40);
    } else if stated == 0 && wire.saturating_sub(at) > 40 + usize::from(u16::MAX) {
        // Packets that the system hands to its adapter to be cut, larger than the field can tell.
        ip.bytes = u32::try_from(wire - at).unwrap_or(u32::MAX);
    }
    Some(())
}

/// Finds the protocol and the transport's header behind the extension headers; gives the length of
/// the payload that a jumbo payload option states (RFC 2675).
fn walk_extensions(data: &[u8], at: usize, ip: &mut Ip) -> Option<u32> {
    let mut jumbo = None;
    let mut next = at + 40;
    for _ in 0..EXTENSIONS {
        let length = match ip.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6 => {
                8 + 8 * usize::from(byte(data, next + 1)?)
            }
            AUTHENTICATION => 8 + 4 * usize::from(byte(data, next + 1)?),
            FRAGMENT => 8,
            _ => {
                ip.transport = Some(next);
                return jumbo;
            }
        };
        if ip.protocol == HOP_BY_HOP && jumbo.is_none() {
            jumbo = jumbo_payload(data, next);
        }
        if ip.protocol == ROUTING {
            ip.routing = Some(next);
        }
        if ip.protocol == FRAGMENT {
            let place = be16(data, next + 2)?;
            let id = be32(data, next + 4)?;
            if place >> 3 != 0 {
                ip.part = Part::Later(id);
                ip.protocol = byte(data, next)?;
                return jumbo;
            }
            if place & 1 != 0 {
                ip.part = Part::First(id);
            }
        }
        let Some(protocol) = byte(data, next) else {
            return jumbo;
        };
        ip.protocol = protocol;
        next += length;
        ip.headers += u32::try_from(length).unwrap_or(0);
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

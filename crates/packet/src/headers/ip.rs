//! The IP header, version 4 or 6, and the chain of IPv6 extension headers.

use std::ops::Range;

use super::route::{self, Stop};
use crate::bytes::{be16, be32, byte, chunk};
use crate::protocol::{
    AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, HOST_IDENTITY, MOBILITY, ROUTING,
    SHIM6,
};

/// The most extension headers that are skipped.
const EXTENSIONS: usize = 16;

/// The fields of an IP header, and the offset of the data after it, in bytes from the start of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ip {
    /// Its offset.
    pub at: usize,
    /// Whether it is version 6.
    pub six: bool,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The protocol after the header and the extension headers.
    pub protocol: u8,
    /// The packet's length in bytes, from its header.
    pub bytes: u32,
    /// The offset of the transport header; `None` if the packet has none or it was not captured.
    pub transport: Option<usize>,
    /// The total length of the IP headers in bytes.
    pub headers: u32,
    /// The part of a datagram that the packet carries.
    pub part: Part,
    /// The offset of the last IPv6 routing header.
    pub routing: Option<usize>,
}

impl Ip {
    /// Returns the bytes of the source and of the destination address, which were captured.
    #[inline]
    #[must_use]
    pub fn addresses(&self) -> [Range<usize>; 2] {
        let (first, len) = if self.six { (8, 16) } else { (12, 4) };
        let source = self.at + first;
        [source..source + len, source + len..source + 2 * len]
    }

    /// Returns the end of the packet according to its header, which may be after the captured bytes. An IPv6
    /// packet whose header has no length (the adapter will segment it) extends to the end of all `captured`
    /// bytes.
    #[must_use]
    pub fn end(&self, captured: usize) -> usize {
        if self.six && self.bytes == 40 {
            captured.max(self.at + 40)
        } else {
            self.at + self.bytes as usize
        }
    }

    /// Returns the last stop of the packet's source route; checksums cover its address in place of
    /// the destination (RFC 8200, section 8.1).
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

/// Returns the last stop in the routing header at `at`, as an offset from there.
fn routing_header(data: &[u8], at: usize) -> Option<Stop> {
    let [_, words, kind, left] = chunk(data, at)?;
    let body = data.get(at + 4..at + 8 + 8 * usize::from(words))?;
    Some(match route::last_stop(kind, left, body) {
        Stop::At(offset) => Stop::At(4 + offset),
        other => other,
    })
}

/// The part of a datagram that a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The first fragment, which has the transport header.
    First(u32),
    /// Another fragment.
    Later(u32),
}

/// Parses the IP header at `at` into `ip`; returns `None` if it was not captured or is
/// inconsistent. `wire` is the number of bytes of the packet on the wire.
///
/// The result is not returned by value: it would be read in other pieces than it was just written
/// in, which stalls the processor for longer than the rest takes.
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
    // With segmentation by the adapter, the field is zero if the length does not fit.
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
        // Packets for segmentation by the adapter, larger than the field can hold.
        ip.bytes = u32::try_from(wire - at).unwrap_or(u32::MAX);
    }
    Some(())
}

/// Finds the protocol and the transport header after the extension headers. Returns the length of the payload
/// from a jumbo payload option (RFC 2675).
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

/// Returns the jumbo payload option of a hop-by-hop header, where it is always the first option.
fn jumbo_payload(data: &[u8], at: usize) -> Option<u32> {
    match chunk(data, at + 2)? {
        [0xc2, 4] => be32(data, at + 4),
        _ => None,
    }
}

//! Where the headers of an Ethernet frame lie: offsets that are inside it, for changing it in place.

use std::ops::Range;

use ringtap_packet::{ether_type, protocol};

use ringtap_packet::headers::route::{self, Stop};

const MACS: usize = 12;
const TYPE_LEN: usize = 2;
const TAG_LEN: usize = 4;
/// Tags that are walked over at most.
const MOST_TAGS: usize = 8;
/// IPv6 extension headers that are walked over at most.
const MOST_EXTENSIONS: usize = 8;
const UDP_HEADER: usize = 8;

/// What a frame consists of, as far as it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers {
    /// VLAN tags behind the addresses; each has 4 bytes from byte 12 on.
    pub(crate) tags: usize,
    pub(crate) network: Option<Network>,
}

/// The network layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// An ARP message of IPv4 over Ethernet, at this offset.
    Arp(usize),
    Ip(Ip),
}

/// Which destination a checksum covers: on a route that the packet itself prescribes, that is the last
/// one, which the header has only at the end (RFC 8200, section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Covered {
    /// The header's.
    Header,
    /// The address at this offset.
    At(usize),
    /// One that is not told in a way that this program knows.
    Unknown,
}

/// An IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) at: usize,
    pub(crate) is_v6: bool,
    /// The protocol behind the header and its extensions.
    pub(crate) protocol: u8,
    /// The payload as far as it was captured.
    pub(crate) payload: Range<usize>,
    /// Whether that is all of it.
    pub(crate) is_whole: bool,
    /// Whether the payload is part of a larger one.
    pub(crate) is_fragment: bool,
    /// Whether it begins with the transport's header.
    pub(crate) is_first: bool,
    /// The destination that the transport's checksum covers.
    pub(crate) covered: Covered,
}

impl Ip {
    /// Bytes of the source and of the destination address.
    pub(crate) fn addresses(&self) -> [Range<usize>; 2] {
        let (first, len) = if self.is_v6 { (8, 16) } else { (12, 4) };
        let source = self.at + first;
        [source..source + len, source + len..source + 2 * len]
    }

    /// Where the header's own checksum is.
    pub(crate) fn header_checksum(&self) -> Option<usize> {
        (!self.is_v6).then_some(self.at + 10)
    }

    /// Where the transport's checksum is, if it was captured, and the transport has one that this
    /// program knows.
    pub(crate) fn transport_checksum(&self) -> Option<usize> {
        let offset = match self.protocol {
            protocol::TCP => 16,
            protocol::UDP => 6,
            protocol::ICMP if !self.is_v6 => 2,
            protocol::ICMPV6 if self.is_v6 => 2,
            _ => return None,
        };
        let at = self.payload.start + offset;
        (self.is_first && at + 2 <= self.payload.end).then_some(at)
    }

    /// Where the checksum of SCTP is, of four bytes.
    pub(crate) fn sctp_checksum(&self) -> Option<usize> {
        let at = self.payload.start + 8;
        let is_there =
            self.protocol == protocol::SCTP && self.is_first && at + 4 <= self.payload.end;
        is_there.then_some(at)
    }

    /// Whether the transport's checksum covers the addresses.
    pub(crate) fn has_pseudo_header(&self) -> bool {
        self.protocol != protocol::ICMP
    }

    /// Bytes of the addresses that the transport's checksum covers, if one does; nothing where one is not
    /// known.
    pub(crate) fn covered_addresses(&self) -> Option<Option<[Range<usize>; 2]>> {
        if !self.has_pseudo_header() {
            return Some(None);
        }
        let [source, destination] = self.addresses();
        match self.covered {
            Covered::Header => Some(Some([source, destination])),
            Covered::At(at) => Some(Some([source, at..at + destination.len()])),
            Covered::Unknown => None,
        }
    }

    /// The payload as far as the transport's checksum covers it: what follows a datagram of UDP inside
    /// the packet (RFC 9868) is none of it. Nothing where the datagram says that it is longer.
    pub(crate) fn covered_payload(&self, frame: &[u8]) -> Option<Range<usize>> {
        let Range { start, end } = self.payload.clone();
        if self.protocol != protocol::UDP {
            return Some(start..end);
        }
        match usize::from(u16_at(frame, start + 4)?) {
            // What the adapter was to segment, and jumbograms (RFC 2675).
            0 => Some(start..end),
            len => (len >= UDP_HEADER && start + len <= end).then_some(start..start + len),
        }
    }

    /// Bytes of the source and of the destination port.
    pub(crate) fn ports(&self) -> Option<[Range<usize>; 2]> {
        let has = matches!(
            self.protocol,
            protocol::TCP | protocol::UDP | protocol::SCTP
        );
        let at = self.payload.start;
        (has && self.is_first && at + 4 <= self.payload.end).then_some([at..at + 2, at + 2..at + 4])
    }
}

/// Finds the headers.
pub(crate) fn find(frame: &[u8]) -> Layers {
    let (mut at, mut tags) = (MACS, 0);
    let mut ethertype = u16_at(frame, at);
    while matches!(
        ethertype,
        Some(ether_type::VLAN | ether_type::QINQ | ether_type::QINQ_9100)
    ) && tags < MOST_TAGS
    {
        tags += 1;
        at += TAG_LEN;
        ethertype = u16_at(frame, at);
    }
    let at = at + TYPE_LEN;
    let network = match ethertype {
        Some(ether_type::ARP) => arp(frame, at),
        Some(ether_type::IPV4) => ipv4(frame, at),
        Some(ether_type::IPV6) => ipv6(frame, at),
        _ => None,
    };
    Layers { tags, network }
}

fn arp(frame: &[u8], at: usize) -> Option<Network> {
    // Ethernet, IPv4, addresses of 6 and 4 bytes (RFC 826).
    let is_ours = frame.get(at..at + 6)? == [0, 1, 8, 0, 6, 4];
    (is_ours && frame.len() >= at + 28).then_some(Network::Arp(at))
}

fn ipv4(frame: &[u8], at: usize) -> Option<Network> {
    let header = frame.get(at..at + 20)?;
    let header_len = usize::from(header[0] & 15) * 4;
    if header[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // Zero stands for what the adapter was to segment.
    let end = if total == 0 { frame.len() } else { at + total };
    let start = at + header_len;
    if end < start || frame.len() < start {
        return None;
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let options = &frame[at + 20..start];
    Some(Network::Ip(Ip {
        at,
        is_v6: false,
        protocol: header[9],
        payload: start..end.min(frame.len()),
        is_whole: end <= frame.len(),
        is_fragment: fragment & 0x3fff != 0,
        is_first: fragment & 0x1fff == 0,
        covered: match route::last_stop_v4(options) {
            Stop::Reached => Covered::Header,
            Stop::At(offset) => Covered::At(at + 20 + offset),
            Stop::Unknown => Covered::Unknown,
        },
    }))
}

fn ipv6(frame: &[u8], at: usize) -> Option<Network> {
    let header = frame.get(at..at + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = if length == 0 {
        frame.len()
    } else {
        at + 40 + length
    };
    let mut ip = Ip {
        at,
        is_v6: true,
        protocol: header[6],
        payload: at + 40..end.min(frame.len()),
        is_whole: end <= frame.len(),
        is_fragment: false,
        is_first: true,
        covered: Covered::Header,
    };
    for _ in 0..MOST_EXTENSIONS {
        let start = ip.payload.start;
        let Some(extension) = frame.get(start..ip.payload.end).filter(|e| e.len() >= 8) else {
            break;
        };
        // RFC 8200, section 4; the authentication header counts in words of 4 bytes (RFC 4302).
        let len = match ip.protocol {
            0 | 43 | 60 | 135 => 8 + usize::from(extension[1]) * 8,
            51 => 8 + usize::from(extension[1]) * 4,
            44 => {
                let offset = u16::from_be_bytes([extension[2], extension[3]]);
                ip.is_fragment |= offset & 0xfff9 != 0;
                ip.is_first &= offset & 0xfff8 == 0;
                8
            }
            _ => break,
        };
        if extension.len() < len {
            break;
        }
        if ip.protocol == 43 {
            match route::last_stop(extension[2], extension[3], &extension[4..len]) {
                Stop::Reached => {}
                Stop::At(offset) => ip.covered = Covered::At(start + 4 + offset),
                Stop::Unknown => ip.covered = Covered::Unknown,
            }
        }
        ip.protocol = extension[0];
        ip.payload.start += len;
    }
    Some(Network::Ip(ip))
}

/// Two bytes in network order.
pub(crate) fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

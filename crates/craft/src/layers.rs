//! The offsets of an Ethernet frame's headers, all inside the frame, for changing it in place.

use std::ops::Range;

use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{self, Part};
use ringtap_packet::headers::route::Stop;
use ringtap_packet::{LinkType, bytes, ether_type, protocol};

const ETHERNET_HEADER: usize = 14;
const TAG_LEN: usize = 4;
const UDP_HEADER: usize = 8;

/// The network layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// An ARP message of IPv4 over Ethernet, at this offset.
    Arp(usize),
    Ip(Ip),
}

/// An IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) at: usize,
    pub(crate) is_v6: bool,
    /// The protocol after the header and its extensions.
    pub(crate) protocol: u8,
    /// The payload as far as it was captured.
    pub(crate) payload: Range<usize>,
    /// Whether the payload is complete.
    pub(crate) is_whole: bool,
    /// Whether the payload is part of a larger one.
    pub(crate) is_fragment: bool,
    /// Whether the payload begins with the transport header.
    pub(crate) is_first: bool,
    /// The last stop of the packet's route, whose address is covered by the transport's checksum.
    pub(crate) last_stop: Stop,
}

impl Ip {
    /// Returns `None` if the header was not captured completely.
    fn new(frame: &[u8], found: &ip::Ip) -> Option<Self> {
        let end = found.end(frame.len());
        let captured = end.min(frame.len());
        let start = found.transport.unwrap_or(captured);
        let header_end = found.at + found.headers as usize;
        (header_end <= frame.len() && start <= captured).then_some(Self {
            at: found.at,
            is_v6: found.six,
            protocol: found.protocol,
            payload: start..captured,
            is_whole: end <= frame.len(),
            is_fragment: found.part != Part::Whole,
            is_first: found.transport.is_some(),
            last_stop: found.last_stop(frame),
        })
    }

    /// Returns the bytes of the source and of the destination address.
    pub(crate) fn addresses(&self) -> [Range<usize>; 2] {
        let (first, len) = if self.is_v6 { (8, 16) } else { (12, 4) };
        let source = self.at + first;
        [source..source + len, source + len..source + 2 * len]
    }

    /// Returns the offset of the header's own checksum.
    pub(crate) fn header_checksum(&self) -> Option<usize> {
        (!self.is_v6).then_some(self.at + 10)
    }

    /// Returns the offset of the transport's checksum, if it was captured and the transport is
    /// known.
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

    /// Returns the offset of the checksum of SCTP, which has four bytes.
    pub(crate) fn sctp_checksum(&self) -> Option<usize> {
        let at = self.payload.start + 8;
        let is_there =
            self.protocol == protocol::SCTP && self.is_first && at + 4 <= self.payload.end;
        is_there.then_some(at)
    }

    /// Returns whether the transport's checksum covers the addresses.
    pub(crate) fn has_pseudo_header(&self) -> bool {
        self.protocol != protocol::ICMP
    }

    /// Returns the bytes of the addresses that the transport's checksum covers, if it covers any;
    /// the outer `None` if an address is unknown.
    pub(crate) fn covered_addresses(&self) -> Option<Option<[Range<usize>; 2]>> {
        if !self.has_pseudo_header() {
            return Some(None);
        }
        let [source, destination] = self.addresses();
        match self.last_stop {
            Stop::Reached => Some(Some([source, destination])),
            Stop::At(at) => Some(Some([source, at..at + destination.len()])),
            Stop::Unknown => None,
        }
    }

    /// Returns the part of the payload that the transport's checksum covers. It does not cover data after a
    /// UDP datagram inside the packet (RFC 9868). Returns `None` if the datagram's length exceeds the packet.
    pub(crate) fn covered_payload(&self, frame: &[u8]) -> Option<Range<usize>> {
        let Range { start, end } = self.payload.clone();
        if self.protocol != protocol::UDP {
            return Some(start..end);
        }
        match usize::from(bytes::be16(frame, start + 4)?) {
            // Packets to be segmented by the adapter, and jumbograms (RFC 2675).
            0 => Some(start..end),
            len => (len >= UDP_HEADER && start + len <= end).then_some(start..start + len),
        }
    }

    /// Returns the bytes of the source and of the destination port.
    pub(crate) fn ports(&self) -> Option<[Range<usize>; 2]> {
        let has = matches!(
            self.protocol,
            protocol::TCP | protocol::UDP | protocol::SCTP
        );
        let at = self.payload.start;
        (has && self.is_first && at + 4 <= self.payload.end).then_some([at..at + 2, at + 2..at + 4])
    }
}

/// Finds the network layer, after VLAN tags only: packets after labels or in a PPPoE session are not changed.
pub(crate) fn find(frame: &[u8]) -> Option<Network> {
    let headers = Headers::of(LinkType::ETHERNET, frame, frame.len());
    let at = ETHERNET_HEADER + TAG_LEN * headers.link.tag_count();
    if headers.network != Some(at) {
        return None;
    }
    match headers.link.ether_type? {
        ether_type::ARP => arp(frame, at),
        kind => {
            let ip = headers
                .ip
                .filter(|ip| ip.six == (kind == ether_type::IPV6))?;
            Ip::new(frame, &ip).map(Network::Ip)
        }
    }
}

fn arp(frame: &[u8], at: usize) -> Option<Network> {
    // Ethernet, IPv4, addresses of 6 and 4 bytes (RFC 826).
    let is_ours = frame.get(at..at + 6)? == [0, 1, 8, 0, 6, 4];
    (is_ours && frame.len() >= at + 28).then_some(Network::Arp(at))
}

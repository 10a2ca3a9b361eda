//! What is known of a flow when it leaves: the record that every output writes.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use ringtap_packet::headers::tunnel::Tunnel;

/// A flow that ended, or a part of one that the active time-out cut off.
///
/// Where a field is also an information element of the IANA registry "IPFIX Entities", its number is
/// given. Counters are of metered packets: with sampling they are not scaled (see [`Sampling`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRecord {
    /// What the packets have in common.
    pub key: FlowKey,
    /// The packets from [`FlowKey::source`] to [`FlowKey::destination`].
    pub forward: Traffic,
    /// The packets of the other direction; in records of two directions (biflows, RFC 5103) only,
    /// and there only if at least one such packet came. `forward` is then the direction of the
    /// initiator: of the first packet, or of the sender of the SYN where SYN and ACK came first.
    pub reverse: Option<Traffic>,
    /// Why the record ended (136).
    pub end: EndReason,
    /// Addresses of the link layer, of the first packet (forward direction); none where the link
    /// layer has none of 6 bytes.
    pub macs: Option<MacAddresses>,
    /// The topmost MPLS label of the first packet, without its other bits: 20 bits
    /// (`mplsTopLabelStackSection`, 70, holds it in its upper 20 of 24 bits).
    pub mpls_label: Option<u32>,
    /// What was measured of a TCP connection; only if that was asked for.
    pub tcp: Option<TcpMeasures>,
}

/// What the packets of a flow have in common.
///
/// Of a flow inside a tunnel, addresses, ports, protocol and ToS are those of the inner packet; VLAN
/// tags and input interface are those of the outer frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address (8, 27). Both addresses are of the same IP version (60).
    pub source: IpAddr,
    /// Destination address (12, 28).
    pub destination: IpAddr,
    /// Source port (7) of TCP, UDP, UDP-Lite, SCTP, DCCP; 0 where there is none.
    pub source_port: u16,
    /// Destination port (11); of ICMP and ICMPv6 type × 256 + code, as (32, 139); see
    /// [`FlowKey::icmp`]. In records of two directions, of an echo's request.
    pub destination_port: u16,
    /// The protocol (4): for IPv6, of the first header that is not a known extension header.
    pub protocol: u8,
    /// Type of service of IPv4, traffic class of IPv6 (5): DSCP and ECN together. It is part of the
    /// key; in records of two directions it is not, but that of the first packet.
    pub tos: u8,
    /// Identifier of the outermost VLAN tag (58, 243), 0 to 4095; none without a tag.
    pub vlan: Option<u16>,
    /// Identifier of the second VLAN tag (QinQ: 245), none without one.
    pub inner_vlan: Option<u16>,
    /// The input interface (10): the index in the host of a live capture's device, of a file the
    /// number of the capture's interface, counted from 1.
    pub input: u32,
    /// The tunnel that the packets came out of, where inner flows were asked for.
    pub tunnel: Option<Tunnel>,
}

/// Packets of one direction, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets (2, 86). Fragments count one each.
    pub packets: u64,
    /// Bytes of layer 3 (1, 85): by the length fields of the IP headers, without link layer and
    /// padding, also where fewer were captured.
    pub bytes: u64,
    /// Time of the first packet, nanoseconds since 1970 (152, 154, 156).
    pub first_ns: u64,
    /// Time of the last packet, nanoseconds since 1970 (153, 155, 157); not before `first_ns`.
    pub last_ns: u64,
    /// TCP flags of all packets, by inclusive or: the lower 12 bits of bytes 12 and 13 of the header
    /// (6; RFC 7125). 0 for other protocols.
    pub tcp_flags: u16,
    /// Least time to live or hop limit (52).
    pub min_ttl: u8,
    /// Greatest time to live or hop limit (53).
    pub max_ttl: u8,
    /// Least length of a packet in bytes of layer 3 (25); 65,535 stands for that and more.
    pub min_length: u16,
    /// Greatest length of a packet in bytes of layer 3 (26); 65,535 stands for that and more.
    pub max_length: u16,
}

/// Addresses of the link layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacAddresses {
    /// Of the sender (56).
    pub source: [u8; 6],
    /// Of the receiver (80).
    pub destination: [u8; 6],
}

/// What was measured of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpMeasures {
    /// Packets of the forward direction whose data had been seen before.
    pub retransmissions: u32,
    /// Packets of the reverse direction whose data had been seen before; 0 in records of one
    /// direction.
    pub reverse_retransmissions: u32,
    /// From the SYN to the SYN and ACK, in nanoseconds: the way from the probe to the server and
    /// back; in records of two directions.
    pub server_rtt_ns: Option<u64>,
    /// From the SYN and ACK to the ACK, in nanoseconds: the way from the probe to the client and
    /// back; in records of two directions.
    pub client_rtt_ns: Option<u64>,
}

/// The part of a flow's counters that earlier interim reports had ([`crate::Meter::interim`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Packets of [`FlowRecord::forward`].
    pub packets: u64,
    /// Bytes of [`FlowRecord::forward`].
    pub bytes: u64,
    /// Packets of [`FlowRecord::reverse`].
    pub reverse_packets: u64,
    /// Bytes of [`FlowRecord::reverse`].
    pub reverse_bytes: u64,
    /// Retransmissions of both directions.
    pub retransmissions: u32,
}

/// Why a record ended; the values are those of `flowEndReason` (136, RFC 5102).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EndReason {
    /// No packet within the inactive time-out.
    Idle = 1,
    /// The active time-out passed; packets that follow are in a record of their own.
    Active = 2,
    /// FIN of both directions or RST was seen.
    EndOfFlow = 3,
    /// The probe ended, or the flows were asked for.
    #[default]
    Forced = 4,
    /// The cache was full: the oldest flow made room.
    NoResources = 5,
}

/// Sampling by which packets were chosen before they were metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One packet in so many was metered: what counters are to be multiplied by. 1 is no sampling.
    pub one_in: NonZeroU32,
    /// How that one was chosen.
    pub mode: SamplingMode,
}

/// How packets are sampled; the values are those of NetFlow's sampling mode and of
/// `samplingAlgorithm` (35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SamplingMode {
    /// Each N-th packet.
    Deterministic = 1,
    /// Each packet by chance of its own.
    #[default]
    Random = 2,
}

impl FlowKey {
    /// Whether the addresses are of IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Type and code, where the protocol is ICMP of IPv4 (1) or ICMPv6 (58).
    #[must_use]
    pub fn icmp(&self) -> Option<(u8, u8)> {
        let [kind, code] = self.destination_port.to_be_bytes();
        match (self.protocol, self.is_ipv6()) {
            (1, false) | (58, true) => Some((kind, code)),
            _ => None,
        }
    }
}

impl Default for FlowKey {
    /// All zero, of IPv4.
    fn default() -> Self {
        Self {
            source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            source_port: 0,
            destination_port: 0,
            protocol: 0,
            tos: 0,
            vlan: None,
            inner_vlan: None,
            input: 0,
            tunnel: None,
        }
    }
}

impl Default for Sampling {
    /// No sampling: each packet.
    fn default() -> Self {
        Self {
            one_in: NonZeroU32::MIN,
            mode: SamplingMode::Deterministic,
        }
    }
}

impl FlowRecord {
    /// Packets of both directions.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let reverse = self.reverse.map_or(0, |reverse| reverse.packets);
        self.forward.packets.saturating_add(reverse)
    }

    /// Bytes of layer 3 of both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let reverse = self.reverse.map_or(0, |reverse| reverse.bytes);
        self.forward.bytes.saturating_add(reverse)
    }
}

impl EndReason {
    /// The value of `flowEndReason` (136).
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

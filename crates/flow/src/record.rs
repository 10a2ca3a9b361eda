//! The flow record that every output writes.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use ringtap_inspect::Entry;
use ringtap_packet::headers::tunnel::Tunnel;

use crate::process::Process;

/// The record of a flow that ended, or of a part that the active timeout cut off.
///
/// If a field is also an information element of the IANA registry "IPFIX Entities", its number is given.
/// Counters are those of metered packets: with sampling they are not scaled (see [`Sampling`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRecord {
    /// The fields that all packets share.
    pub key: FlowKey,
    /// The packets from [`FlowKey::source`] to [`FlowKey::destination`].
    pub forward: Traffic,
    /// The packets of the other direction. Only records of both directions (biflows, RFC 5103) have it, and
    /// only if at least one such packet came. `forward` is then the direction of the initiator: the sender of
    /// the first packet, or of the SYN if SYN and ACK came first.
    pub reverse: Option<Traffic>,
    /// Why the record ended (136).
    pub end: EndReason,
    /// Link-layer addresses of the first packet (forward direction). `None` if the link layer has no
    /// addresses of 6 bytes.
    pub macs: Option<MacAddresses>,
    /// The topmost MPLS label of the first packet, without its other bits: 20 bits
    /// (`mplsTopLabelStackSection`, 70, holds it in its upper 20 of 24 bits).
    pub mpls_label: Option<u32>,
    /// TCP measurements, if they were requested.
    pub tcp: Option<TcpMeasures>,
    /// From the initiator's first data to the first data of the other direction after it, in nanoseconds;
    /// of TCP only if the handshake was seen. In records of two directions, if measures of TCP were asked
    /// for. Above 2.1 s it is exact to the microsecond.
    pub response_ns: Option<u64>,
    /// The fields of the application layer, if payloads are inspected and say anything.
    pub application: Option<Entry>,
    /// The process at the source, if it is on this host and known: the one that the last packet named, unless
    /// that process only listens.
    pub source_process: Option<Arc<Process>>,
    /// The same of the destination.
    pub destination_process: Option<Arc<Process>>,
}

/// The fields that all packets of a flow share.
///
/// For a flow inside a tunnel, addresses, ports, protocol and ToS are those of the inner packet. VLAN tags
/// and input interface are those of the outer frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address (8, 27). Both addresses are of the same IP version (60).
    pub source: IpAddr,
    /// Destination address (12, 28).
    pub destination: IpAddr,
    /// Source port (7) of TCP, UDP, UDP-Lite, SCTP and DCCP. 0 for other protocols.
    pub source_port: u16,
    /// Destination port (11). For ICMP and ICMPv6 it is type × 256 + code, as (32, 139); see
    /// [`FlowKey::icmp`]. In records of both directions it is that of an echo request.
    pub destination_port: u16,
    /// The protocol (4): for IPv6, of the first header that is not a known extension header.
    pub protocol: u8,
    /// Type of service of IPv4 or traffic class of IPv6 (5): DSCP and ECN together. It is part of the key. In
    /// records of both directions it is not, and the value is that of the first packet.
    pub tos: u8,
    /// Identifier of the outermost VLAN tag (58, 243), 0 to 4095. `None` without a tag.
    pub vlan: Option<u16>,
    /// Identifier of the second VLAN tag (QinQ: 245). `None` without one.
    pub inner_vlan: Option<u16>,
    /// The input interface (10). For a live capture it is the host's interface index; for a file it is the
    /// number of the capture's interface, counted from 1.
    pub input: u32,
    /// The tunnel that carried the packets, if inner flows were requested.
    pub tunnel: Option<Tunnel>,
}

/// The counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets (2, 86). Each fragment counts as one.
    pub packets: u64,
    /// Bytes of layer 3 (1, 85), by the length fields of the IP headers, without link layer and padding. They
    /// count in full even if fewer were captured.
    pub bytes: u64,
    /// Time of the first packet, nanoseconds since 1970 (152, 154, 156).
    pub first_ns: u64,
    /// Time of the last packet, nanoseconds since 1970 (153, 155, 157). It is not before `first_ns`.
    pub last_ns: u64,
    /// TCP flags of all packets, combined by inclusive or: the lower 12 bits of bytes 12 and 13 of the header
    /// (6; RFC 7125). 0 for other protocols.
    pub tcp_flags: u16,
    /// Smallest time to live or hop limit (52).
    pub min_ttl: u8,
    /// Largest time to live or hop limit (53).
    pub max_ttl: u8,
    /// Smallest length of a packet in bytes of layer 3 (25). 65,535 stands for that and more.
    pub min_length: u16,
    /// Largest length of a packet in bytes of layer 3 (26). 65,535 stands for that and more.
    pub max_length: u16,
}

/// Link-layer addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacAddresses {
    /// The sender's address (56).
    pub source: [u8; 6],
    /// The receiver's address (80).
    pub destination: [u8; 6],
}

/// The health of a TCP connection. The rules are in docs/reference/flow.md, "Health of TCP".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpMeasures {
    /// Counts of the forward direction.
    pub forward: TcpCounts,
    /// Counts of the reverse direction; 0 in records of one direction.
    pub reverse: TcpCounts,
    /// From the SYN to the SYN and ACK, in nanoseconds: the way from the probe to the server and
    /// back; in records of two directions. Above 2.1 s it is exact to the microsecond.
    pub server_rtt_ns: Option<u64>,
    /// From the SYN and ACK to the ACK, in nanoseconds: the way from the probe to the client and
    /// back; in records of two directions. Above 2.1 s it is exact to the microsecond.
    pub client_rtt_ns: Option<u64>,
}

impl TcpMeasures {
    /// Returns the retransmissions of both directions.
    #[must_use]
    pub fn retransmissions(&self) -> u32 {
        self.forward
            .retransmissions
            .saturating_add(self.reverse.retransmissions)
    }
}

/// Counts of TCP segments of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments with data that was seen before, or that fill a gap late.
    pub retransmissions: u32,
    /// Segments that fill a gap within a round trip: they overtook each other. 65,535 at most.
    pub out_of_order: u32,
    /// Acknowledgments that repeat the one before, without data. 65,535 at most.
    pub duplicate_acks: u32,
    /// Segments with a window of 0. 65,535 at most.
    pub zero_windows: u32,
    /// Segments with RST. 255 at most.
    pub resets: u32,
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

/// The reason why a record ended. The values are those of `flowEndReason` (136, RFC 5102).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came within the inactive timeout.
    Idle = 1,
    /// The active timeout passed. Packets that follow are in another record.
    Active = 2,
    /// FIN in both directions, or RST.
    EndOfFlow = 3,
    /// The probe ended, or the flows were requested.
    #[default]
    Forced = 4,
    /// The cache was full, and the oldest flow was removed.
    NoResources = 5,
}

/// The sampling that selected packets for metering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The sampling interval N: one of N packets was metered. Multiply counters by it. 1 means no sampling.
    pub one_in: NonZeroU32,
    /// How packets were selected.
    pub mode: SamplingMode,
}

/// A sampling algorithm. The values are those of NetFlow's sampling mode and of `samplingAlgorithm` (35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SamplingMode {
    /// Every N-th packet.
    Deterministic = 1,
    /// Each packet at random.
    #[default]
    Random = 2,
}

impl FlowKey {
    /// Returns whether the addresses are IPv6 addresses.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Returns type and code if the protocol is ICMP (1) for IPv4 or ICMPv6 (58).
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
    /// Returns a key with all fields zero, for IPv4.
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
    /// Returns no sampling: every packet.
    fn default() -> Self {
        Self {
            one_in: NonZeroU32::MIN,
            mode: SamplingMode::Deterministic,
        }
    }
}

impl FlowRecord {
    /// Returns the address of the server: the destination of a record of two directions, else the end with the
    /// lower port.
    #[must_use]
    pub fn responder(&self) -> IpAddr {
        let key = &self.key;
        let both_ways = self.reverse.is_some();
        if !both_ways && key.source_port < key.destination_port {
            key.source
        } else {
            key.destination
        }
    }

    /// Returns the processes at the ends, each with what it sent of two amounts: that of the forward direction and
    /// that of the reverse one. A process at both ends is there once, and has sent both.
    pub fn processes(
        &self,
        forward: u64,
        reverse: u64,
    ) -> impl Iterator<Item = (&Arc<Process>, u64)> {
        let key = |process: &Option<Arc<Process>>| process.as_deref().map(Process::key);
        let source = key(&self.source_process);
        let is_same = source.is_some() && source == key(&self.destination_process);
        let sent = forward.saturating_add(if is_same { reverse } else { 0 });
        let source = self.source_process.iter().map(move |one| (one, sent));
        let destination = self.destination_process.iter().filter(move |_| !is_same);
        source.chain(destination.map(move |one| (one, reverse)))
    }

    /// Returns the packets of both directions.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let reverse = self.reverse.map_or(0, |reverse| reverse.packets);
        self.forward.packets.saturating_add(reverse)
    }

    /// Returns the bytes of layer 3 of both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let reverse = self.reverse.map_or(0, |reverse| reverse.bytes);
        self.forward.bytes.saturating_add(reverse)
    }
}

impl EndReason {
    /// Returns the value of `flowEndReason` (136).
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

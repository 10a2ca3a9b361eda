//! Information elements: the name of a record's column on the wire, and how it is written.

use std::net::IpAddr;

use crate::{FlowRecord, Traffic, TunnelKind};

/// Private enterprise number for elements of the reverse direction (RFC 5103).
pub const REVERSE_PEN: u32 = 29_305;
/// Private enterprise number of ntop, whose elements are used if IANA's registry has none.
pub const NTOP_PEN: u32 = 35_632;

/// Seconds from 1900, the epoch of NTP, to 1970.
const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
pub(crate) const NANOS_PER_MILLI: u64 = 1_000_000;
/// Types of `layer2SegmentId` (351): the upper byte, 1 for VXLAN.
const SEGMENT_VXLAN: u64 = 1 << 56;

/// The content of a column. For the reverse direction see [`Column::reverse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    IpVersion,
    Source4,
    Destination4,
    Source6,
    Destination6,
    Protocol,
    Tos,
    SourcePort,
    DestinationPort,
    Icmp4,
    Icmp6,
    Input,
    Packets,
    Bytes,
    /// Milliseconds of the exporter's uptime, NetFlow's clock.
    FirstUptime,
    LastUptime,
    FirstMillis,
    LastMillis,
    FirstNanos,
    LastNanos,
    TcpFlags,
    /// The lower 8 flags.
    TcpFlags8,
    MinTtl,
    MaxTtl,
    MinLength,
    MaxLength,
    EndReason,
    BiflowDirection,
    Vlan,
    InnerVlan,
    SourceMac,
    DestinationMac,
    MplsTop,
    SegmentId,
    GreKey,
    Teid,
    Retransmissions,
    ReverseRetransmissions,
    ClientLatency,
    ServerLatency,
}

/// A field of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) field: Field,
    pub(crate) reverse: bool,
}

/// An element in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// Number in IANA's registry, or in the enterprise's.
    pub(crate) id: u16,
    /// Private enterprise number, 0 for IANA's registry.
    pub(crate) enterprise: u32,
    /// Bytes on the wire.
    pub(crate) length: u16,
}

impl Field {
    const fn iana(id: u16, length: u16) -> Element {
        Element {
            id,
            enterprise: 0,
            length,
        }
    }

    const fn ntop(id: u16) -> Element {
        Element {
            id,
            enterprise: NTOP_PEN,
            length: 4,
        }
    }

    /// Returns the element of the forward direction.
    const fn element(self) -> Element {
        match self {
            Self::Bytes => Self::iana(1, 8),
            Self::Packets => Self::iana(2, 8),
            Self::Protocol => Self::iana(4, 1),
            Self::Tos => Self::iana(5, 1),
            Self::TcpFlags => Self::iana(6, 2),
            Self::TcpFlags8 => Self::iana(6, 1),
            Self::SourcePort => Self::iana(7, 2),
            Self::Source4 => Self::iana(8, 4),
            Self::Input => Self::iana(10, 4),
            Self::DestinationPort => Self::iana(11, 2),
            Self::Destination4 => Self::iana(12, 4),
            Self::LastUptime => Self::iana(21, 4),
            Self::FirstUptime => Self::iana(22, 4),
            Self::MinLength => Self::iana(25, 2),
            Self::MaxLength => Self::iana(26, 2),
            Self::Source6 => Self::iana(27, 16),
            Self::Destination6 => Self::iana(28, 16),
            Self::Icmp4 => Self::iana(32, 2),
            Self::MinTtl => Self::iana(52, 1),
            Self::MaxTtl => Self::iana(53, 1),
            Self::SourceMac => Self::iana(56, 6),
            Self::Vlan => Self::iana(58, 2),
            Self::IpVersion => Self::iana(60, 1),
            Self::MplsTop => Self::iana(70, 3),
            Self::DestinationMac => Self::iana(80, 6),
            Self::EndReason => Self::iana(136, 1),
            Self::Icmp6 => Self::iana(139, 2),
            Self::FirstMillis => Self::iana(152, 8),
            Self::LastMillis => Self::iana(153, 8),
            Self::FirstNanos => Self::iana(156, 8),
            Self::LastNanos => Self::iana(157, 8),
            Self::BiflowDirection => Self::iana(239, 1),
            Self::InnerVlan => Self::iana(245, 2),
            Self::GreKey => Self::iana(296, 4),
            Self::SegmentId => Self::iana(351, 8),
            Self::Teid => Self::iana(507, 4),
            Self::Retransmissions => Self::ntop(110),
            Self::ReverseRetransmissions => Self::ntop(111),
            Self::ClientLatency => Self::ntop(123),
            Self::ServerLatency => Self::ntop(124),
        }
    }
}

impl Column {
    pub(crate) const fn element(self) -> Element {
        let mut element = self.field.element();
        if self.reverse {
            element.enterprise = REVERSE_PEN;
        }
        element
    }

    /// Appends the value. `boot_ms` is the start of uptime, in milliseconds since 1970.
    pub(crate) fn put(self, record: &FlowRecord, boot_ms: u64, out: &mut Vec<u8>) {
        match self.field {
            Field::Packets
            | Field::Bytes
            | Field::FirstUptime
            | Field::LastUptime
            | Field::FirstMillis
            | Field::LastMillis
            | Field::FirstNanos
            | Field::LastNanos
            | Field::TcpFlags
            | Field::TcpFlags8
            | Field::MinTtl
            | Field::MaxTtl
            | Field::MinLength
            | Field::MaxLength => {
                let traffic = if self.reverse {
                    &record.reverse.unwrap_or_default()
                } else {
                    &record.forward
                };
                put_traffic(self.field, traffic, boot_ms, out);
            }
            Field::Retransmissions
            | Field::ReverseRetransmissions
            | Field::ClientLatency
            | Field::ServerLatency => put_tcp(self.field, record, out),
            _ => put_key(self.field, record, out),
        }
    }
}

fn put_key(field: Field, record: &FlowRecord, out: &mut Vec<u8>) {
    let key = &record.key;
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    match field {
        Field::Source4 | Field::Source6 => put_address(key.source, out),
        Field::Destination4 | Field::Destination6 => put_address(key.destination, out),
        Field::IpVersion => put(&[if key.is_ipv6() { 6 } else { 4 }]),
        Field::Protocol => put(&[key.protocol]),
        Field::Tos => put(&[key.tos]),
        Field::SourcePort => put(&key.source_port.to_be_bytes()),
        Field::DestinationPort | Field::Icmp4 | Field::Icmp6 => {
            put(&key.destination_port.to_be_bytes());
        }
        Field::Input => put(&key.input.to_be_bytes()),
        Field::EndReason => put(&[record.end.code()]),
        // The initiator's direction is the forward one (RFC 5103, section 5.2).
        Field::BiflowDirection => put(&[1]),
        Field::Vlan => put(&key.vlan.unwrap_or_default().to_be_bytes()),
        Field::InnerVlan => put(&key.inner_vlan.unwrap_or_default().to_be_bytes()),
        Field::SourceMac => put(&record.macs.unwrap_or_default().source),
        Field::DestinationMac => put(&record.macs.unwrap_or_default().destination),
        Field::MplsTop => {
            let section = record.mpls_label.unwrap_or_default() << 4;
            put(&section.to_be_bytes()[1..]);
        }
        Field::SegmentId => {
            let id = key.tunnel.map_or(0, |tunnel| u64::from(tunnel.id));
            put(&(SEGMENT_VXLAN | id).to_be_bytes());
        }
        Field::GreKey | Field::Teid => put(&key.tunnel.map_or(0, |tunnel| tunnel.id).to_be_bytes()),
        _ => {}
    }
}

fn put_traffic(field: Field, traffic: &Traffic, boot_ms: u64, out: &mut Vec<u8>) {
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    match field {
        Field::Packets => put(&traffic.packets.to_be_bytes()),
        Field::Bytes => put(&traffic.bytes.to_be_bytes()),
        Field::FirstUptime => put(&uptime(traffic.first_ns, boot_ms).to_be_bytes()),
        Field::LastUptime => put(&uptime(traffic.last_ns, boot_ms).to_be_bytes()),
        Field::FirstMillis => put(&(traffic.first_ns / NANOS_PER_MILLI).to_be_bytes()),
        Field::LastMillis => put(&(traffic.last_ns / NANOS_PER_MILLI).to_be_bytes()),
        Field::FirstNanos => put(&ntp(traffic.first_ns).to_be_bytes()),
        Field::LastNanos => put(&ntp(traffic.last_ns).to_be_bytes()),
        Field::TcpFlags => put(&traffic.tcp_flags.to_be_bytes()),
        Field::TcpFlags8 => put(&traffic.tcp_flags.to_be_bytes()[1..]),
        Field::MinTtl => put(&[traffic.min_ttl]),
        Field::MaxTtl => put(&[traffic.max_ttl]),
        Field::MinLength => put(&traffic.min_length.to_be_bytes()),
        Field::MaxLength => put(&traffic.max_length.to_be_bytes()),
        _ => {}
    }
}

fn put_tcp(field: Field, record: &FlowRecord, out: &mut Vec<u8>) {
    let tcp = record.tcp.unwrap_or_default();
    let value = match field {
        Field::Retransmissions => tcp.retransmissions,
        Field::ReverseRetransmissions => tcp.reverse_retransmissions,
        Field::ClientLatency => half_in_millis(tcp.client_rtt_ns),
        Field::ServerLatency => half_in_millis(tcp.server_rtt_ns),
        _ => 0,
    };
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// Returns the element for the identifier of a tunnel, if there is one.
pub(crate) fn tunnel_field(kind: TunnelKind) -> Option<Field> {
    match kind {
        TunnelKind::Vxlan => Some(Field::SegmentId),
        TunnelKind::GtpU => Some(Field::Teid),
        TunnelKind::Gre => Some(Field::GreKey),
        TunnelKind::IpInIp => None,
    }
}

/// Returns the milliseconds from `boot_ms` to a time, in the 32 bits of NetFlow.
pub(crate) fn uptime(time_ns: u64, boot_ms: u64) -> u32 {
    let since_boot = (time_ns / NANOS_PER_MILLI).saturating_sub(boot_ms);
    u32::try_from(since_boot).unwrap_or(u32::MAX)
}

/// Returns a time in the form of NTP (`dateTimeNanoseconds`, RFC 7011, section 6.1.10): seconds since 1900 in
/// 32 bits, which wrap in 2036, and a binary fraction. The fraction is rounded up, so that truncation to
/// nanoseconds gives the same value.
fn ntp(time_ns: u64) -> u64 {
    let seconds = (time_ns / NANOS_PER_SECOND + NTP_TO_UNIX_SECONDS) & u64::from(u32::MAX);
    let fraction = ((time_ns % NANOS_PER_SECOND) << 32).div_ceil(NANOS_PER_SECOND);
    seconds << 32 | fraction
}

/// Returns half of a round trip in milliseconds, which is ntop's latency. 0 means not measured.
fn half_in_millis(round_trip_ns: Option<u64>) -> u32 {
    let half = round_trip_ns.unwrap_or_default() / 2;
    u32::try_from((half + NANOS_PER_MILLI / 2) / NANOS_PER_MILLI).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_keeps_every_nanosecond() {
        for nanos in [0, 1, 2, 499_999_999, 500_000_000, 999_999_998, 999_999_999] {
            let time = 1_700_000_000 * NANOS_PER_SECOND + nanos;
            let ntp = ntp(time);
            assert_eq!(ntp >> 32, 1_700_000_000 + NTP_TO_UNIX_SECONDS);
            let fraction = ntp & u64::from(u32::MAX);
            assert_eq!((fraction * NANOS_PER_SECOND) >> 32, nanos);
        }
    }

    #[test]
    fn ntp_begins_anew_in_2036() {
        let last_of_era = (u64::from(u32::MAX) - NTP_TO_UNIX_SECONDS) * NANOS_PER_SECOND;
        assert_eq!(ntp(last_of_era) >> 32, u64::from(u32::MAX));
        assert_eq!(ntp(last_of_era + NANOS_PER_SECOND) >> 32, 0);
    }

    #[test]
    fn uptime_stays_within_32_bits() {
        assert_eq!(uptime(5_999_999, 2), 3);
        assert_eq!(uptime(5_999_999, 9), 0);
        assert_eq!(uptime(u64::MAX, 0), u32::MAX);
    }
}

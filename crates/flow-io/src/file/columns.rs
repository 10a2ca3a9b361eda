//! The columns that CSV, JSON lines and Parquet have in common.

use std::fmt::{self, Write};
use std::net::IpAddr;

use ringtap_flow::{EndReason, FlowRecord, Traffic, TunnelKind};

use crate::Origin;

/// A record, and what is known of it from elsewhere.
pub(super) struct Row<'a> {
    pub(super) record: &'a FlowRecord,
    /// One packet in so many was metered.
    pub(super) sampling: u32,
    /// Who sent it, where it was not metered here.
    pub(super) origin: Option<&'a Origin>,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The record does not have it.
    None,
    Number(u64),
    /// Nanoseconds since 1970.
    Time(u64),
    Address(IpAddr),
    Mac([u8; 6]),
    Word(&'static str),
}

/// What kind of values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Time,
    Text,
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    #[cfg_attr(
        not(feature = "parquet"),
        expect(dead_code, reason = "text formats need no types")
    )]
    pub(super) kind: Kind,
    pub(super) value: fn(&Row<'_>) -> Value,
}

const fn number(name: &'static str, value: fn(&Row<'_>) -> Value) -> Column {
    let kind = Kind::Number;
    Column { name, kind, value }
}

const fn time(name: &'static str, value: fn(&Row<'_>) -> Value) -> Column {
    let kind = Kind::Time;
    Column { name, kind, value }
}

const fn text(name: &'static str, value: fn(&Row<'_>) -> Value) -> Column {
    let kind = Kind::Text;
    Column { name, kind, value }
}

/// All columns, in their order.
pub(super) const COLUMNS: [Column; 43] = [
    time("first", |row| Value::Time(row.record.forward.first_ns)),
    time("last", |row| Value::Time(row.record.forward.last_ns)),
    text("src", |row| Value::Address(row.record.key.source)),
    text("dst", |row| Value::Address(row.record.key.destination)),
    number("src_port", |row| port(row, row.record.key.source_port)),
    number("dst_port", |row| port(row, row.record.key.destination_port)),
    number("protocol", |row| of(row.record.key.protocol)),
    number("icmp_type", |row| {
        optional(row.record.key.icmp().map(|(kind, _)| kind))
    }),
    number("icmp_code", |row| {
        optional(row.record.key.icmp().map(|(_, code)| code))
    }),
    number("tos", |row| of(row.record.key.tos)),
    number("packets", |row| of(row.record.forward.packets)),
    number("bytes", |row| of(row.record.forward.bytes)),
    number("tcp_flags", |row| flags(row, &row.record.forward)),
    number("min_ttl", |row| of(row.record.forward.min_ttl)),
    number("max_ttl", |row| of(row.record.forward.max_ttl)),
    number("min_length", |row| of(row.record.forward.min_length)),
    number("max_length", |row| of(row.record.forward.max_length)),
    time("reverse_first", |row| {
        row.record
            .reverse
            .map_or(Value::None, |reverse| Value::Time(reverse.first_ns))
    }),
    time("reverse_last", |row| {
        row.record
            .reverse
            .map_or(Value::None, |reverse| Value::Time(reverse.last_ns))
    }),
    number("reverse_packets", |row| {
        optional(row.record.reverse.map(|r| r.packets))
    }),
    number("reverse_bytes", |row| {
        optional(row.record.reverse.map(|r| r.bytes))
    }),
    number("reverse_tcp_flags", |row| {
        row.record
            .reverse
            .map_or(Value::None, |reverse| flags(row, &reverse))
    }),
    number("reverse_min_ttl", |row| {
        optional(row.record.reverse.map(|r| r.min_ttl))
    }),
    number("reverse_max_ttl", |row| {
        optional(row.record.reverse.map(|r| r.max_ttl))
    }),
    number("reverse_min_length", |row| {
        optional(row.record.reverse.map(|r| r.min_length))
    }),
    number("reverse_max_length", |row| {
        optional(row.record.reverse.map(|r| r.max_length))
    }),
    text("end_reason", |row| Value::Word(end(row.record.end))),
    number("input", |row| of(row.record.key.input)),
    number("vlan", |row| optional(row.record.key.vlan)),
    number("inner_vlan", |row| optional(row.record.key.inner_vlan)),
    text("src_mac", |row| {
        row.record
            .macs
            .map_or(Value::None, |macs| Value::Mac(macs.source))
    }),
    text("dst_mac", |row| {
        row.record
            .macs
            .map_or(Value::None, |macs| Value::Mac(macs.destination))
    }),
    number("mpls_label", |row| optional(row.record.mpls_label)),
    text("tunnel", |row| {
        row.record
            .key
            .tunnel
            .map_or(Value::None, |tunnel| Value::Word(kind(tunnel.kind)))
    }),
    number("tunnel_id", |row| {
        optional(row.record.key.tunnel.map(|tunnel| tunnel.id))
    }),
    number("retransmissions", |row| {
        optional(row.record.tcp.map(|tcp| tcp.retransmissions))
    }),
    number("reverse_retransmissions", |row| {
        optional(row.record.tcp.map(|tcp| tcp.reverse_retransmissions))
    }),
    number("server_rtt_ns", |row| {
        optional(row.record.tcp.and_then(|tcp| tcp.server_rtt_ns))
    }),
    number("client_rtt_ns", |row| {
        optional(row.record.tcp.and_then(|tcp| tcp.client_rtt_ns))
    }),
    number("sampling", |row| of(row.sampling)),
    text("exporter", |row| {
        row.origin
            .map_or(Value::None, |o| Value::Address(o.exporter.ip()))
    }),
    number("exporter_port", |row| {
        optional(row.origin.map(|origin| origin.exporter.port()))
    }),
    number("domain", |row| {
        optional(row.origin.map(|origin| origin.domain))
    }),
];

fn of(number: impl Into<u64>) -> Value {
    Value::Number(number.into())
}

fn optional(number: Option<impl Into<u64>>) -> Value {
    number.map_or(Value::None, of)
}

/// Ports, of the protocols that have some.
fn port(row: &Row<'_>, port: u16) -> Value {
    use ringtap_packet::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    match row.record.key.protocol {
        TCP | UDP | DCCP | SCTP | UDP_LITE => of(port),
        _ => Value::None,
    }
}

fn flags(row: &Row<'_>, traffic: &Traffic) -> Value {
    if row.record.key.protocol == ringtap_packet::protocol::TCP {
        of(traffic.tcp_flags)
    } else {
        Value::None
    }
}

fn end(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "idle",
        EndReason::Active => "active",
        EndReason::EndOfFlow => "end",
        EndReason::Forced => "forced",
        EndReason::NoResources => "evicted",
    }
}

fn kind(kind: TunnelKind) -> &'static str {
    match kind {
        TunnelKind::Gre => "gre",
        TunnelKind::Vxlan => "vxlan",
        TunnelKind::GtpU => "gtp-u",
        TunnelKind::IpInIp => "ipip",
    }
}

impl fmt::Display for Value {
    /// The value as text; nothing where there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Number(number) => number.fmt(f),
            Self::Time(nanos) => {
                let time = jiff::Timestamp::from_nanosecond(i128::from(*nanos));
                let time = time.unwrap_or(jiff::Timestamp::MAX);
                write!(f, "{time:.9}")
            }
            Self::Address(address) => address.fmt(f),
            Self::Mac(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if index > 0 {
                        f.write_char(':')?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
            Self::Word(word) => f.write_str(word),
        }
    }
}

//! The columns that CSV, JSON lines and Parquet have in common.

use std::fmt;
use std::net::IpAddr;

use ringtap_flow::{EndReason, FlowRecord, Traffic, TunnelKind};

use crate::Origin;

/// A record, and the facts about it from elsewhere.
pub(super) struct Row<'a> {
    pub(super) record: &'a FlowRecord,
    /// The sampling interval N: one of N packets was metered.
    pub(super) sampling: u32,
    /// The exporter, unless the record was metered here.
    pub(super) origin: Option<&'a Origin>,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    /// Nanoseconds since 1970.
    Time(u64),
    Address(IpAddr),
    Mac([u8; 6]),
    Word(&'static str),
}

/// The type of a column's values.
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
    /// Writes the record's value into a row, if it has one.
    value: Get,
}

impl Column {
    /// Returns the value in a row, if the record has it.
    pub(super) fn value(&self, row: &Row<'_>) -> Option<Value> {
        (self.value)(row.record, row)
    }
}

type Get = fn(&FlowRecord, &Row<'_>) -> Option<Value>;

const fn number(name: &'static str, value: Get) -> Column {
    let kind = Kind::Number;
    Column { name, kind, value }
}

const fn time(name: &'static str, value: Get) -> Column {
    let kind = Kind::Time;
    Column { name, kind, value }
}

const fn text(name: &'static str, value: Get) -> Column {
    let kind = Kind::Text;
    Column { name, kind, value }
}

/// All columns, in their order.
pub(super) const COLUMNS: [Column; 43] = [
    time("first", |f, _| at(f.forward.first_ns)),
    time("last", |f, _| at(f.forward.last_ns)),
    text("src", |f, _| address(f.key.source)),
    text("dst", |f, _| address(f.key.destination)),
    number("src_port", |f, _| port(f, f.key.source_port)),
    number("dst_port", |f, _| port(f, f.key.destination_port)),
    number("protocol", |f, _| of(f.key.protocol)),
    number("icmp_type", |f, _| of(f.key.icmp()?.0)),
    number("icmp_code", |f, _| of(f.key.icmp()?.1)),
    number("tos", |f, _| of(f.key.tos)),
    number("packets", |f, _| of(f.forward.packets)),
    number("bytes", |f, _| of(f.forward.bytes)),
    number("tcp_flags", |f, _| flags(f, &f.forward)),
    number("min_ttl", |f, _| of(f.forward.min_ttl)),
    number("max_ttl", |f, _| of(f.forward.max_ttl)),
    number("min_length", |f, _| of(f.forward.min_length)),
    number("max_length", |f, _| of(f.forward.max_length)),
    time("reverse_first", |f, _| at(f.reverse?.first_ns)),
    time("reverse_last", |f, _| at(f.reverse?.last_ns)),
    number("reverse_packets", |f, _| of(f.reverse?.packets)),
    number("reverse_bytes", |f, _| of(f.reverse?.bytes)),
    number("reverse_tcp_flags", |f, _| flags(f, &f.reverse?)),
    number("reverse_min_ttl", |f, _| of(f.reverse?.min_ttl)),
    number("reverse_max_ttl", |f, _| of(f.reverse?.max_ttl)),
    number("reverse_min_length", |f, _| of(f.reverse?.min_length)),
    number("reverse_max_length", |f, _| of(f.reverse?.max_length)),
    text("end_reason", |f, _| word(end(f.end))),
    number("input", |f, _| of(f.key.input)),
    number("vlan", |f, _| of(f.key.vlan?)),
    number("inner_vlan", |f, _| of(f.key.inner_vlan?)),
    text("src_mac", |f, _| mac(f.macs?.source)),
    text("dst_mac", |f, _| mac(f.macs?.destination)),
    number("mpls_label", |f, _| of(f.mpls_label?)),
    text("tunnel", |f, _| word(kind(f.key.tunnel?.kind))),
    number("tunnel_id", |f, _| of(f.key.tunnel?.id)),
    number("retransmissions", |f, _| of(f.tcp?.retransmissions)),
    number("reverse_retransmissions", |f, _| {
        of(f.tcp?.reverse_retransmissions)
    }),
    number("server_rtt_ns", |f, _| of(f.tcp?.server_rtt_ns?)),
    number("client_rtt_ns", |f, _| of(f.tcp?.client_rtt_ns?)),
    number("sampling", |_, row| of(row.sampling)),
    text("exporter", |_, row| address(row.origin?.exporter.ip())),
    number("exporter_port", |_, row| of(row.origin?.exporter.port())),
    number("domain", |_, row| of(row.origin?.domain)),
];

fn of(number: impl Into<u64>) -> Option<Value> {
    Some(Value::Number(number.into()))
}

fn at(nanos: u64) -> Option<Value> {
    Some(Value::Time(nanos))
}

fn address(address: IpAddr) -> Option<Value> {
    Some(Value::Address(address))
}

fn mac(address: [u8; 6]) -> Option<Value> {
    Some(Value::Mac(address))
}

fn word(word: &'static str) -> Option<Value> {
    Some(Value::Word(word))
}

/// Returns the ports, for protocols that have ports.
fn port(f: &FlowRecord, port: u16) -> Option<Value> {
    use ringtap_packet::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    let has_ports = matches!(f.key.protocol, TCP | UDP | DCCP | SCTP | UDP_LITE);
    has_ports.then(|| Value::Number(port.into()))
}

fn flags(f: &FlowRecord, traffic: &Traffic) -> Option<Value> {
    let is_tcp = f.key.protocol == ringtap_packet::protocol::TCP;
    is_tcp.then(|| Value::Number(traffic.tcp_flags.into()))
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Time(nanos) => {
                let time = jiff::Timestamp::from_nanosecond(i128::from(*nanos));
                let time = time.unwrap_or(jiff::Timestamp::MAX);
                write!(f, "{time:.9}")
            }
            Self::Address(address) => address.fmt(f),
            Self::Mac(bytes) => {
                let [a, b, c, d, e, g] = bytes;
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::Word(word) => f.write_str(word),
        }
    }
}

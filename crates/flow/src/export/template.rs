//! Templates: the columns of a record. Flows without VLAN tag, MAC addresses or ports have templates without
//! such columns, instead of columns full of zeros.

use super::element::{Column, Field, tunnel_field};
use super::steps::{Step, steps};
use crate::FlowRecord;

/// The columns of a record: a set of the bits below, and the number of its template above [`FIRST_ID`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape(u16);

/// The template of a plain record. Others follow it.
pub(crate) const FIRST_ID: u16 = 4096;
/// The number of shapes.
pub(crate) const SHAPES: usize = 1 << 12;

const IPV6: u16 = 1;
const ICMP: u16 = 1 << 1;
const BIFLOW: u16 = 1 << 2;
const MAC: u16 = 1 << 3;
const VLAN: u16 = 1 << 4;
const INNER_VLAN: u16 = 1 << 5;
const MPLS: u16 = 1 << 6;
const SEGMENT: u16 = 1 << 7;
const TEID: u16 = 1 << 8;
const TCP: u16 = 1 << 9;
/// A flag of the upper 4 is set, so that flags need 2 bytes. Otherwise they have 1 byte, as in NetFlow v9
/// (RFC 7125 allows it): pmacct 1.7.7 reads no more.
const WIDE_FLAGS: u16 = 1 << 10;
const GRE_KEY: u16 = 1 << 11;

/// The features of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// NetFlow v9: times in uptime, one direction, no enterprise elements.
    V9,
    /// IPFIX; `nanos` adds times in nanoseconds.
    Ipfix {
        /// Whether times in nanoseconds are sent besides milliseconds.
        nanos: bool,
    },
}

/// The columns of a shape.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) id: u16,
    pub(crate) columns: Vec<Column>,
    /// The same as they are written.
    pub(crate) steps: Vec<Step>,
    /// Bytes of a record.
    pub(crate) record_length: usize,
    /// Whether a message of this session has announced it to the collectors.
    pub(crate) announced: bool,
}

impl Shape {
    /// Returns the columns of a record that the dialect supports.
    pub(crate) fn of(record: &FlowRecord, dialect: Dialect) -> Self {
        let key = &record.key;
        let mut bits = 0;
        let mut set = |bit, present| bits |= if present { bit } else { 0 };
        set(IPV6, key.is_ipv6());
        set(ICMP, key.icmp().is_some());
        set(MAC, record.macs.is_some());
        set(VLAN, key.vlan.is_some());
        set(INNER_VLAN, key.inner_vlan.is_some());
        set(MPLS, record.mpls_label.is_some());
        let tunnel = key.tunnel.and_then(|tunnel| tunnel_field(tunnel.kind));
        set(SEGMENT, tunnel == Some(Field::SegmentId));
        set(GRE_KEY, tunnel == Some(Field::GreKey));
        set(TEID, tunnel == Some(Field::Teid));
        if matches!(dialect, Dialect::Ipfix { .. }) {
            set(BIFLOW, record.reverse.is_some());
            set(TCP, record.tcp.is_some());
            let reverse = record.reverse.map_or(0, |reverse| reverse.tcp_flags);
            set(WIDE_FLAGS, (record.forward.tcp_flags | reverse) > 0xff);
        }
        Self(bits)
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    pub(crate) fn template(self, dialect: Dialect) -> Template {
        let mut columns = Vec::new();
        self.key_columns(dialect, &mut columns);
        if self.has(BIFLOW) {
            // First, since nfdump uses the last times as those of the flow.
            columns.push(forward(Field::BiflowDirection));
            self.traffic_columns(dialect, true, &mut columns);
        }
        self.traffic_columns(dialect, false, &mut columns);
        columns.push(forward(Field::EndReason));
        self.optional_columns(&mut columns);
        let length = |column: &Column| usize::from(column.element().length);
        Template {
            id: FIRST_ID + self.0,
            record_length: columns.iter().map(length).sum(),
            steps: steps(&columns),
            columns,
            announced: false,
        }
    }

    fn key_columns(self, dialect: Dialect, columns: &mut Vec<Column>) {
        let mut add = |field| columns.push(forward(field));
        add(Field::IpVersion);
        if self.has(IPV6) {
            add(Field::Source6);
            add(Field::Destination6);
        } else {
            add(Field::Source4);
            add(Field::Destination4);
        }
        // Type and code of ICMP are also in the destination port, as in NetFlow v5, where most collectors
        // look. v9 has one element for ICMP of both versions.
        add(Field::SourcePort);
        add(Field::DestinationPort);
        match (self.has(ICMP), self.has(IPV6) && dialect != Dialect::V9) {
            (true, true) => add(Field::Icmp6),
            (true, false) => add(Field::Icmp4),
            (false, _) => {}
        }
        add(Field::Protocol);
        add(Field::Tos);
        add(Field::Input);
    }

    fn traffic_columns(self, dialect: Dialect, reverse: bool, columns: &mut Vec<Column>) {
        let mut add = |field| columns.push(Column { field, reverse });
        add(Field::Bytes);
        add(Field::Packets);
        match dialect {
            Dialect::V9 => {
                add(Field::FirstUptime);
                add(Field::LastUptime);
            }
            Dialect::Ipfix { nanos } => {
                add(Field::FirstMillis);
                add(Field::LastMillis);
                if nanos {
                    add(Field::FirstNanos);
                    add(Field::LastNanos);
                }
            }
        }
        add(if self.has(WIDE_FLAGS) {
            Field::TcpFlags
        } else {
            Field::TcpFlags8
        });
        add(Field::MinTtl);
        add(Field::MaxTtl);
        add(Field::MinLength);
        add(Field::MaxLength);
    }

    fn optional_columns(self, columns: &mut Vec<Column>) {
        let mut add = |bit, fields: &[Field]| {
            if self.has(bit) {
                columns.extend(fields.iter().map(|&field| forward(field)));
            }
        };
        add(MAC, &[Field::SourceMac, Field::DestinationMac]);
        add(VLAN, &[Field::Vlan]);
        add(INNER_VLAN, &[Field::InnerVlan]);
        add(MPLS, &[Field::MplsTop]);
        add(SEGMENT, &[Field::SegmentId]);
        add(GRE_KEY, &[Field::GreKey]);
        add(TEID, &[Field::Teid]);
        let tcp = [
            Field::Retransmissions,
            Field::ReverseRetransmissions,
            Field::ClientLatency,
            Field::ServerLatency,
        ];
        add(TCP, &tcp);
    }
}

const fn forward(field: Field) -> Column {
    Column {
        field,
        reverse: false,
    }
}

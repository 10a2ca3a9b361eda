//! How the columns of a template are written: those that follow one another in most templates in one
//! step, any other by itself.

use std::net::IpAddr;

use super::element::{Column, Form, NANOS_PER_MILLI, uptime};
use crate::{FlowKey, FlowRecord, Traffic, schema};

/// Columns that are written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// [`ENDS_4`].
    Ends4,
    /// [`ENDS_6`].
    Ends6,
    /// [`UPTIMES`] of one direction.
    Uptimes {
        reverse: bool,
    },
    /// [`MILLIS`] of one direction.
    Millis {
        reverse: bool,
    },
    /// [`END_AND_MACS`].
    EndAndMacs,
    One(Column),
}

const ENDS_4: [Form; 8] = ends(Form::Source4, Form::Destination4);
const ENDS_6: [Form; 8] = ends(Form::Source6, Form::Destination6);
const UPTIMES: [Form; 9] = counts(Form::FirstUptime, Form::LastUptime);
const MILLIS: [Form; 9] = counts(Form::FirstMillis, Form::LastMillis);
const END_AND_MACS: [Form; 3] = [Form::EndReason, Form::SourceMac, Form::DestinationMac];

const fn ends(source: Form, destination: Form) -> [Form; 8] {
    [
        Form::IpVersion,
        source,
        destination,
        Form::SourcePort,
        Form::DestinationPort,
        Form::Protocol,
        Form::Tos,
        Form::Input,
    ]
}

const fn counts(first: Form, last: Form) -> [Form; 9] {
    [
        Form::Bytes,
        Form::Packets,
        first,
        last,
        Form::TcpFlags8,
        Form::MinTtl,
        Form::MaxTtl,
        Form::MinLength,
        Form::MaxLength,
    ]
}

/// Returns the steps that write these columns, in their order.
pub(crate) fn steps(columns: &[Column]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = columns;
    while let Some((&first, behind)) = rest.split_first() {
        let (step, length) = longer_step(rest).unwrap_or((Step::One(first), 1));
        steps.push(step);
        rest = rest.get(length..).unwrap_or(behind);
    }
    steps
}

/// Returns the step that writes several of the first columns, and how many.
fn longer_step(columns: &[Column]) -> Option<(Step, usize)> {
    let reverse = columns.first()?.reverse;
    let begins_with = |fields: &[Form]| {
        let is_it =
            |(form, column): (&Form, &Column)| column.form == *form && column.reverse == reverse;
        columns.len() >= fields.len() && fields.iter().zip(columns).all(is_it)
    };
    let either_way: [(Step, &[Form]); 2] = [
        (Step::Uptimes { reverse }, &UPTIMES),
        (Step::Millis { reverse }, &MILLIS),
    ];
    let forward: [(Step, &[Form]); 3] = [
        (Step::Ends4, &ENDS_4),
        (Step::Ends6, &ENDS_6),
        (Step::EndAndMacs, &END_AND_MACS),
    ];
    let forward = forward.into_iter().filter(|_| !reverse);
    let mut all = either_way.into_iter().chain(forward);
    let found = all.find(|(_, fields)| begins_with(fields));
    found.map(|(step, fields)| (step, fields.len()))
}

impl Step {
    /// Appends the values, as [`Column::put`] does.
    #[inline]
    pub(crate) fn put(self, row: &schema::Row<'_>, boot_ms: u64, room: usize, out: &mut Vec<u8>) {
        let record = row.record;
        match self {
            Self::Ends4 => {
                let octets = |address| match address {
                    IpAddr::V4(address) => address.octets(),
                    IpAddr::V6(_) => [0; 4],
                };
                out.extend_from_slice(&both_ends::<19, 4>(4, &record.key, octets));
            }
            Self::Ends6 => {
                let octets = |address| match address {
                    IpAddr::V6(address) => address.octets(),
                    IpAddr::V4(_) => [0; 16],
                };
                out.extend_from_slice(&both_ends::<43, 16>(6, &record.key, octets));
            }
            Self::Uptimes { reverse } => {
                let traffic = traffic(record, reverse);
                let time = |time_ns| uptime(time_ns, boot_ms).to_be_bytes();
                out.extend_from_slice(&counters::<31, 4>(&traffic, time));
            }
            Self::Millis { reverse } => {
                let traffic = traffic(record, reverse);
                let time = |time_ns: u64| (time_ns / NANOS_PER_MILLI).to_be_bytes();
                out.extend_from_slice(&counters::<39, 8>(&traffic, time));
            }
            Self::EndAndMacs => {
                let macs = record.macs.unwrap_or_default();
                let mut row = Row::<13>::new();
                row.put([record.end.code()]);
                row.put(macs.source);
                row.put(macs.destination);
                out.extend_from_slice(&row.bytes);
            }
            Self::One(column) => column.put(row, boot_ms, room, out),
        }
    }
}

/// Returns the traffic of a direction, zeros if the record has none.
#[inline]
pub(super) fn traffic(record: &FlowRecord, reverse: bool) -> Traffic {
    match reverse {
        true => record.reverse.unwrap_or_default(),
        false => record.forward,
    }
}

/// Values of a length that the compiler knows, written one after the other.
struct Row<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Row<N> {
    fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    #[inline(always)]
    fn put<const M: usize>(&mut self, value: [u8; M]) {
        self.bytes[self.length..self.length + M].copy_from_slice(&value);
        self.length += M;
    }
}

#[inline(always)]
fn both_ends<const N: usize, const A: usize>(
    version: u8,
    key: &FlowKey,
    octets: impl Fn(IpAddr) -> [u8; A],
) -> [u8; N] {
    let mut row = Row::new();
    row.put([version]);
    row.put(octets(key.source));
    row.put(octets(key.destination));
    row.put(key.source_port.to_be_bytes());
    row.put(key.destination_port.to_be_bytes());
    row.put([key.protocol, key.tos]);
    row.put(key.input.to_be_bytes());
    row.bytes
}

#[inline(always)]
fn counters<const N: usize, const T: usize>(
    traffic: &Traffic,
    time: impl Fn(u64) -> [u8; T],
) -> [u8; N] {
    let mut row = Row::new();
    row.put(traffic.bytes.to_be_bytes());
    row.put(traffic.packets.to_be_bytes());
    row.put(time(traffic.first_ns));
    row.put(time(traffic.last_ns));
    let [_, flags] = traffic.tcp_flags.to_be_bytes();
    row.put([flags, traffic.min_ttl, traffic.max_ttl]);
    row.put(traffic.min_length.to_be_bytes());
    row.put(traffic.max_length.to_be_bytes());
    row.bytes
}

#[cfg(test)]
mod tests {
    use super::super::Enterprise;
    use super::super::template::{Dialect, Template, Templates};
    use super::*;
    use crate::schema::Fields;
    use crate::{EndReason, MacAddresses, TcpMeasures};

    fn traffic(step: u64) -> Traffic {
        Traffic {
            packets: 0x0102_0304_0506_0708 + step,
            bytes: 0x1112_1314_1516_1718 + step,
            first_ns: 1_700_000_000_123_456_789 + step,
            last_ns: 1_700_000_009_987_654_321 + step,
            tcp_flags: 0x5b,
            min_ttl: 61,
            max_ttl: 64,
            min_length: 0x2122,
            max_length: 0x3132,
        }
    }

    /// Records of which each differs from the one before in what its template has.
    fn records() -> Vec<FlowRecord> {
        let ends4 = FlowKey {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            source_port: 40_000,
            destination_port: 443,
            protocol: 6,
            tos: 0x28,
            input: 0x4142_4344,
            ..FlowKey::default()
        };
        let ends6 = FlowKey {
            source: [0x2001, 0xdb8, 1, 2, 3, 4, 5, 6].into(),
            destination: [0x2001, 0xdb8, 7, 8, 9, 10, 11, 12].into(),
            ..ends4
        };
        let mut records = vec![FlowRecord {
            key: ends4,
            forward: traffic(0),
            end: EndReason::Idle,
            ..FlowRecord::default()
        }];
        let mut next = |change: &dyn Fn(&mut FlowRecord)| {
            let mut record = records.last().cloned().unwrap_or_default();
            change(&mut record);
            records.push(record);
        };
        next(&|record| {
            record.macs = Some(MacAddresses {
                source: [1, 2, 3, 4, 5, 6],
                destination: [7, 8, 9, 10, 11, 12],
            });
        });
        next(&|record| record.key = ends6);
        next(&|record| record.reverse = Some(traffic(5)));
        next(&|record| record.tcp = Some(TcpMeasures::default()));
        next(&|record| record.key.vlan = Some(7));
        next(&|record| record.forward.tcp_flags = 0x15b);
        next(&|record| record.key.protocol = 58);
        next(&|record| record.macs = None);
        records
    }

    fn ipfix(nanos: bool) -> Dialect {
        Dialect::Ipfix {
            nanos,
            enterprise: Enterprise::default(),
        }
    }

    fn template(record: &FlowRecord, dialect: Dialect) -> Template {
        let mut templates = Templates::new(dialect, Fields::BASIC, usize::MAX);
        let place = templates.learn(&schema::Row::new(record));
        templates.get(place).expect("learnt").clone()
    }

    #[test]
    fn steps_write_what_the_columns_are() {
        let dialects = [Dialect::V9, ipfix(false), ipfix(true)];
        for dialect in dialects {
            for record in records() {
                let template = template(&record, dialect);
                let row = schema::Row::new(&record);
                let (mut quick, mut plain) = (Vec::new(), Vec::new());
                for step in &template.steps {
                    step.put(&row, 1_699_999_999_000, 0, &mut quick);
                }
                for column in &template.columns {
                    column.put(&row, 1_699_999_999_000, 0, &mut plain);
                }
                assert_eq!(quick, plain, "{dialect:?} {record:?}");
                assert_eq!(plain.len(), template.record_length);
            }
        }
    }

    /// Else most records are written column by column.
    #[test]
    fn what_most_records_are_takes_three_steps() {
        let records = records();
        for (record, dialect) in [
            (&records[1], Dialect::V9),
            (&records[2], Dialect::V9),
            (&records[1], ipfix(false)),
        ] {
            let template = template(record, dialect);
            assert_eq!(template.steps.len(), 3, "{:?}", template.steps);
        }
    }
}

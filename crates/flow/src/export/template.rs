//! Templates: the columns of a record. Flows without VLAN tag, MAC addresses or ports have templates without
//! such columns, instead of columns full of zeros.

use std::collections::HashMap;

use super::element::{Column, Form, tunnel_field};
use super::steps::{Step, steps};
use super::{Enterprise, count};
use crate::schema::{FIELD_COUNT, Field, Fields, Row, Value};

/// The columns of a record: a set of the bits below, and the fields beside the basic ones that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    bits: u16,
    extra: Fields,
}

/// The template of a plain record. Those of other basic fields follow it, by their bits.
pub(crate) const FIRST_ID: u16 = 4096;
/// The number of shapes of basic fields.
const SHAPES: u16 = 1 << 12;
/// The first template with other fields; these are numbered as they come.
const FIRST_EXTENDED_ID: u16 = FIRST_ID + SHAPES;
/// The most templates of that kind. Records of further shapes have a column for each chosen field.
const EXTENDED_MAX: u16 = 2048;

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
    /// IPFIX.
    Ipfix {
        /// Whether times in nanoseconds are sent besides milliseconds.
        nanos: bool,
        /// The enterprise of ringtap's own elements.
        enterprise: Enterprise,
    },
}

/// The columns of a shape.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) id: u16,
    pub(crate) columns: Vec<Column>,
    /// The same as they are written.
    pub(crate) steps: Vec<Step>,
    /// Bytes of a record, with empty texts.
    pub(crate) record_length: usize,
    /// Whether texts have lengths of their own.
    pub(crate) is_variable: bool,
    /// Whether a message of this session has announced it to the collectors.
    pub(crate) announced: bool,
}

impl Shape {
    /// Returns the columns of a record that the dialect supports, and those of `extra` that it has.
    fn of(row: &Row<'_>, dialect: Dialect, extra: Fields) -> Self {
        let record = row.record;
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
        set(SEGMENT, tunnel == Some(Form::SegmentId));
        set(GRE_KEY, tunnel == Some(Form::GreKey));
        set(TEID, tunnel == Some(Form::Teid));
        if matches!(dialect, Dialect::Ipfix { .. }) {
            set(BIFLOW, record.reverse.is_some());
            set(TCP, record.tcp.is_some());
            let reverse = record.reverse.map_or(0, |reverse| reverse.tcp_flags);
            set(WIDE_FLAGS, (record.forward.tcp_flags | reverse) > 0xff);
        }
        let extra = present(row, extra);
        Self { bits, extra }
    }

    fn has(self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    /// Makes the template with this number. Where records would be longer than `longest`, columns at the
    /// end are left out.
    fn template(self, id: u16, dialect: Dialect, longest: usize) -> Template {
        let mut columns = Vec::new();
        self.key_columns(dialect, &mut columns);
        if self.has(BIFLOW) {
            // First, since nfdump uses the last times as those of the flow.
            columns.push(forward(Form::BiflowDirection));
            self.traffic_columns(dialect, true, &mut columns);
        }
        self.traffic_columns(dialect, false, &mut columns);
        columns.push(forward(Form::EndReason));
        self.optional_columns(&mut columns);
        let extra = (0..FIELD_COUNT).filter(|&at| self.extra.has(at));
        columns.extend(extra.filter_map(|at| Column::extra(at, dialect)));
        let mut record_length = 0;
        columns.retain(|column| {
            let fits = record_length + column.least() <= longest;
            record_length += if fits { column.least() } else { 0 };
            fits
        });
        Template {
            id,
            record_length,
            is_variable: columns.iter().any(|column| column.is_variable()),
            steps: steps(&columns),
            columns,
            announced: false,
        }
    }

    fn key_columns(self, dialect: Dialect, columns: &mut Vec<Column>) {
        let mut add = |forms: &[Form]| columns.extend(forms.iter().map(|&form| forward(form)));
        add(&[Form::IpVersion]);
        match self.has(IPV6) {
            true => add(&[Form::Source6, Form::Destination6]),
            false => add(&[Form::Source4, Form::Destination4]),
        }
        // Type and code of ICMP are also in the destination port, as in NetFlow v5, where most collectors
        // look. v9 has one element for ICMP of both versions.
        add(&[Form::SourcePort, Form::DestinationPort]);
        match (self.has(ICMP), self.has(IPV6) && dialect != Dialect::V9) {
            (true, true) => add(&[Form::Icmp6]),
            (true, false) => add(&[Form::Icmp4]),
            (false, _) => {}
        }
        add(&[Form::Protocol, Form::Tos, Form::Input]);
    }

    fn traffic_columns(self, dialect: Dialect, reverse: bool, columns: &mut Vec<Column>) {
        let column = |&form: &Form| Column::basic(form, reverse);
        let mut add = |forms: &[Form]| columns.extend(forms.iter().map(column));
        add(&[Form::Bytes, Form::Packets]);
        match dialect {
            Dialect::V9 => add(&[Form::FirstUptime, Form::LastUptime]),
            Dialect::Ipfix { nanos, .. } => {
                add(&[Form::FirstMillis, Form::LastMillis]);
                if nanos {
                    add(&[Form::FirstNanos, Form::LastNanos]);
                }
            }
        }
        match self.has(WIDE_FLAGS) {
            true => add(&[Form::TcpFlags]),
            false => add(&[Form::TcpFlags8]),
        }
        add(&[Form::MinTtl, Form::MaxTtl]);
        add(&[Form::MinLength, Form::MaxLength]);
    }

    fn optional_columns(self, columns: &mut Vec<Column>) {
        let mut add = |bit, fields: &[Form]| {
            if self.has(bit) {
                columns.extend(fields.iter().map(|&field| forward(field)));
            }
        };
        add(MAC, &[Form::SourceMac, Form::DestinationMac]);
        add(VLAN, &[Form::Vlan]);
        add(INNER_VLAN, &[Form::InnerVlan]);
        add(MPLS, &[Form::MplsTop]);
        add(SEGMENT, &[Form::SegmentId]);
        add(GRE_KEY, &[Form::GreKey]);
        add(TEID, &[Form::Teid]);
        let tcp = [
            Form::Retransmissions,
            Form::ReverseRetransmissions,
            Form::ClientLatency,
            Form::ServerLatency,
        ];
        add(TCP, &tcp);
    }
}

impl Template {
    /// Appends the template, as sets of templates have it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&count(self.columns.len()).to_be_bytes());
        for column in &self.columns {
            column.element.put(out);
        }
    }
}

fn forward(form: Form) -> Column {
    Column::basic(form, false)
}

/// Returns the fields of a set that a row has. Empty texts do not count: some collectors reject them.
fn present(row: &Row<'_>, fields: Fields) -> Fields {
    let has = |field: &Field| !matches!(field.value(row), None | Some(Value::Text("")));
    fields.filter(has)
}

/// Where a template is among those of its session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TemplatePlace {
    /// By its bits.
    Basic(u16),
    /// By its number.
    Extended(u16),
}

/// The templates of a session, made when the first record of their shape comes.
#[derive(Debug)]
pub(crate) struct Templates {
    dialect: Dialect,
    /// The fields beside the basic ones that were chosen.
    extra: Fields,
    /// Those that a record can have whose payloads said nothing.
    extra_unsaid: Fields,
    /// The longest record, in bytes.
    longest: usize,
    basic: Vec<Option<Template>>,
    extended: Vec<Template>,
    /// The places of shapes in `extended`.
    places: HashMap<Shape, u16>,
    /// Whether a template has not been sent: there are many shapes, and a new one is rare.
    pub(crate) unannounced: bool,
}

impl Templates {
    pub(crate) fn new(dialect: Dialect, fields: Fields, longest: usize) -> Self {
        let extra = fields.without(Fields::BASIC);
        // Ports tell the protocol where payloads do not.
        let is_by_port = |field: &Field| matches!(field.name, "app" | "app_basis");
        Self {
            dialect,
            extra,
            extra_unsaid: extra.filter(|field| !field.group.needs_payload() || is_by_port(field)),
            longest,
            basic: vec![None; SHAPES.into()],
            extended: Vec::new(),
            places: HashMap::new(),
            unannounced: false,
        }
    }

    /// Returns the place of a row's template, which is then known.
    pub(crate) fn learn(&mut self, row: &Row<'_>) -> TemplatePlace {
        let extra = match row.application() {
            Some(_) => self.extra,
            None => self.extra_unsaid,
        };
        let mut shape = Shape::of(row, self.dialect, extra);
        let (dialect, longest) = (self.dialect, self.longest);
        if shape.extra == Fields::NONE {
            if let Some(slot @ None) = self.basic.get_mut(usize::from(shape.bits)) {
                *slot = Some(shape.template(FIRST_ID + shape.bits, dialect, longest));
                self.unannounced = true;
            }
            return TemplatePlace::Basic(shape.bits);
        }
        if let Some(&place) = self.places.get(&shape) {
            return TemplatePlace::Extended(place);
        }
        let known = u16::try_from(self.extended.len()).unwrap_or(u16::MAX);
        if known >= EXTENDED_MAX {
            shape.extra = self.extra;
        }
        let place = *self.places.entry(shape).or_insert_with(|| {
            self.unannounced = true;
            let template = shape.template(FIRST_EXTENDED_ID + known, dialect, longest);
            self.extended.push(template);
            known
        });
        TemplatePlace::Extended(place)
    }

    /// Returns the template at a place.
    pub(crate) fn get(&self, place: TemplatePlace) -> Option<&Template> {
        match place {
            TemplatePlace::Basic(bits) => self.basic.get(usize::from(bits))?.as_ref(),
            TemplatePlace::Extended(at) => self.extended.get(usize::from(at)),
        }
    }

    /// Returns all templates that are known.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Template> {
        let basic = self.basic.iter_mut().flatten();
        basic.chain(&mut self.extended)
    }
}

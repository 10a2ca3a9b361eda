//! Information elements: the name of a record's column on the wire, and how it is written.

use std::net::IpAddr;

use super::steps::traffic;
use super::template::Dialect;
use crate::TunnelKind;
use crate::schema::{FIELDS, Row, VARIABLE, Value, Wire};

/// Private enterprise number for elements of the reverse direction (RFC 5103).
pub const REVERSE_PEN: u32 = 29_305;
/// Private enterprise number of ntop, whose elements are used if IANA's registry has none.
pub const NTOP_PEN: u32 = 35_632;
/// Private enterprise number of ringtap's own elements, unless [`super::Enterprise`] has another one: ringtap
/// has none, so this is the one that is reserved for examples (RFC 5612), which no vendor's elements have.
pub const OWN_PEN: u32 = 32_473;

/// The number that ntop adds to its own in NetFlow v9, which has no enterprises.
const NTOP_V9: u16 = 57_472;
/// Bytes of a text in NetFlow v9, which has no variable lengths.
const V9_TEXT: u16 = 64;
/// The longest text in IPFIX, in bytes: its length has one byte (RFC 7011, section 7).
const LONGEST_TEXT: usize = 254;

/// Seconds from 1900, the epoch of NTP, to 1970.
const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
pub(crate) const NANOS_PER_MILLI: u64 = 1_000_000;
/// The bit of an element's number that announces an enterprise number.
const ENTERPRISE_BIT: u16 = 1 << 15;
/// Types of `layer2SegmentId` (351): the upper byte, 1 for VXLAN.
const SEGMENT_VXLAN: u64 = 1 << 56;

/// How the value of an element is written. Those of the basic fields have a way of their own; other
/// fields are written by their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are named as the fields")]
pub enum Form {
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
    /// The value of the field, cut to the length of the element.
    Plain,
    /// Nanoseconds as milliseconds, rounded.
    Millis,
    /// A user of the host; the greatest number if it is unknown.
    User,
}

/// A column of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) form: Form,
    /// Whether it is about the other direction (RFC 5103).
    pub(crate) reverse: bool,
    /// The index of the field in the table.
    field: u8,
    pub(crate) element: Element,
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

impl From<Wire> for Element {
    fn from(wire: Wire) -> Self {
        Self {
            id: wire.id,
            enterprise: wire.enterprise,
            length: wire.length,
        }
    }
}

impl Element {
    /// Appends the element as templates have it, with its enterprise only if that is not IANA's registry.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let is_iana = self.enterprise == 0;
        let id = if is_iana {
            self.id
        } else {
            self.id | ENTERPRISE_BIT
        };
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        if !is_iana {
            out.extend_from_slice(&self.enterprise.to_be_bytes());
        }
    }
}

impl Column {
    /// Returns the column of a basic field, in one direction.
    pub(crate) fn basic(form: Form, reverse: bool) -> Self {
        let is_it = |wire: &Wire| wire.form == form && (wire.enterprise == REVERSE_PEN) == reverse;
        for (field, known) in FIELDS.iter().enumerate() {
            if let Some(wire) = known.elements.iter().copied().find(is_it) {
                return Self::new(field, wire, wire.into());
            }
        }
        unreachable!("the table of fields has all forms")
    }

    /// Returns the column of another field, if the dialect has an element for it.
    pub(crate) fn extra(field: usize, dialect: Dialect) -> Option<Self> {
        let is_v9 = dialect == Dialect::V9;
        let wires = FIELDS.get(field)?.elements;
        let wire = *wires
            .iter()
            .find(|wire| if is_v9 { wire.v9 } else { wire.ipfix })?;
        let mut element = Element::from(wire);
        if is_v9 && wire.enterprise == NTOP_PEN {
            element.enterprise = 0;
            element.id += NTOP_V9;
        }
        if let (Dialect::Ipfix { enterprise, .. }, OWN_PEN) = (dialect, wire.enterprise) {
            element.enterprise = enterprise.number();
        }
        if is_v9 && wire.length == VARIABLE {
            element.length = V9_TEXT;
        }
        Some(Self::new(field, wire, element))
    }

    fn new(field: usize, wire: Wire, element: Element) -> Self {
        Self {
            form: wire.form,
            reverse: wire.enterprise == REVERSE_PEN,
            field: u8::try_from(field).unwrap_or(u8::MAX),
            element,
        }
    }

    /// Whether each value has a length of its own.
    pub(crate) fn is_variable(self) -> bool {
        self.element.length == VARIABLE
    }

    /// Returns the bytes of a value, of an empty text those of its length.
    pub(crate) fn least(self) -> usize {
        match self.element.length {
            VARIABLE => 1,
            length => length.into(),
        }
    }

    /// Appends the value; `boot_ms` is when uptime began, in milliseconds since 1970. Texts with a length of
    /// their own are cut to `room` bytes.
    #[inline]
    pub(crate) fn put(self, row: &Row<'_>, boot_ms: u64, room: usize, out: &mut Vec<u8>) {
        let (record, key) = (row.record, &row.record.key);
        let traffic = traffic(record, self.reverse);
        let tcp = || record.tcp.unwrap_or_default();
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match self.form {
            Form::IpVersion => put(&[if key.is_ipv6() { 6 } else { 4 }]),
            Form::Source4 | Form::Source6 => put_address(key.source, out),
            Form::Destination4 | Form::Destination6 => put_address(key.destination, out),
            Form::Protocol => put(&[key.protocol]),
            Form::Tos => put(&[key.tos]),
            Form::SourcePort => put(&key.source_port.to_be_bytes()),
            Form::DestinationPort | Form::Icmp4 | Form::Icmp6 => {
                put(&key.destination_port.to_be_bytes());
            }
            Form::Input => put(&key.input.to_be_bytes()),
            Form::Packets => put(&traffic.packets.to_be_bytes()),
            Form::Bytes => put(&traffic.bytes.to_be_bytes()),
            Form::FirstUptime => put(&uptime(traffic.first_ns, boot_ms).to_be_bytes()),
            Form::LastUptime => put(&uptime(traffic.last_ns, boot_ms).to_be_bytes()),
            Form::FirstMillis => put(&(traffic.first_ns / NANOS_PER_MILLI).to_be_bytes()),
            Form::LastMillis => put(&(traffic.last_ns / NANOS_PER_MILLI).to_be_bytes()),
            Form::FirstNanos => put(&ntp(traffic.first_ns).to_be_bytes()),
            Form::LastNanos => put(&ntp(traffic.last_ns).to_be_bytes()),
            Form::TcpFlags => put(&traffic.tcp_flags.to_be_bytes()),
            Form::TcpFlags8 => put(&traffic.tcp_flags.to_be_bytes()[1..]),
            Form::MinTtl => put(&[traffic.min_ttl]),
            Form::MaxTtl => put(&[traffic.max_ttl]),
            Form::MinLength => put(&traffic.min_length.to_be_bytes()),
            Form::MaxLength => put(&traffic.max_length.to_be_bytes()),
            Form::EndReason => put(&[record.end.code()]),
            // The initiator's direction is the forward one (RFC 5103, section 5.2).
            Form::BiflowDirection => put(&[1]),
            Form::Vlan => put(&key.vlan.unwrap_or_default().to_be_bytes()),
            Form::InnerVlan => put(&key.inner_vlan.unwrap_or_default().to_be_bytes()),
            Form::SourceMac => put(&record.macs.unwrap_or_default().source),
            Form::DestinationMac => put(&record.macs.unwrap_or_default().destination),
            Form::MplsTop => {
                let section = record.mpls_label.unwrap_or_default() << 4;
                put(&section.to_be_bytes()[1..]);
            }
            Form::SegmentId => {
                let id = key.tunnel.map_or(0, |tunnel| u64::from(tunnel.id));
                put(&(SEGMENT_VXLAN | id).to_be_bytes());
            }
            Form::GreKey | Form::Teid => put(&key.tunnel.map_or(0, |it| it.id).to_be_bytes()),
            Form::Retransmissions => put(&tcp().forward.retransmissions.to_be_bytes()),
            Form::ReverseRetransmissions => put(&tcp().reverse.retransmissions.to_be_bytes()),
            Form::ClientLatency => put(&half_in_millis(tcp().client_rtt_ns).to_be_bytes()),
            Form::ServerLatency => put(&half_in_millis(tcp().server_rtt_ns).to_be_bytes()),
            Form::Plain | Form::Millis | Form::User => self.put_value(row, room, out),
        }
    }

    /// Appends the value of a field that is not basic; zero or empty if the record has none.
    fn put_value(self, row: &Row<'_>, room: usize, out: &mut Vec<u8>) {
        let field = FIELDS.get(usize::from(self.field));
        let value = field.and_then(|field| field.value(row));
        match value {
            Some(Value::Number(number) | Value::Time(number)) => self.put_number(number, out),
            Some(Value::Code(code)) => self.put_number(code.into(), out),
            Some(Value::Text(text)) => self.put_text(text, room, out),
            Some(Value::Address(address)) => put_address(address, out),
            Some(Value::Mac(bytes)) => out.extend_from_slice(&bytes),
            None if self.is_variable() => out.push(0),
            None if self.form == Form::User => self.put_number(u64::MAX, out),
            None => out.resize(out.len() + usize::from(self.element.length), 0),
        }
    }

    /// Appends a number in the element's bytes; the greatest one if it has no room.
    fn put_number(self, number: u64, out: &mut Vec<u8>) {
        let number = match self.form {
            Form::Millis => number.saturating_add(NANOS_PER_MILLI / 2) / NANOS_PER_MILLI,
            _ => number,
        };
        let length = usize::from(self.element.length).min(8);
        let most = u64::MAX >> (64 - 8 * length.max(1));
        let bytes = number.min(most).to_be_bytes();
        out.extend_from_slice(&bytes[8 - length..]);
    }

    /// Appends text, in IPFIX behind its length, in v9 filled up with zeros.
    fn put_text(self, text: &str, room: usize, out: &mut Vec<u8>) {
        let most = match self.element.length {
            VARIABLE => LONGEST_TEXT.min(room),
            length => length.into(),
        };
        let mut ends = (0..=most.min(text.len())).rev();
        let cut = ends.find(|&at| text.is_char_boundary(at));
        let text = &text[..cut.unwrap_or(0)];
        match (self.element.length, u8::try_from(text.len())) {
            (VARIABLE, length) => {
                out.push(length.unwrap_or(0));
                out.extend_from_slice(text.as_bytes());
            }
            (length, _) => {
                let end = out.len() + usize::from(length);
                out.extend_from_slice(text.as_bytes());
                out.resize(end, 0);
            }
        }
    }
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// Returns the element for the identifier of a tunnel, if there is one.
pub(crate) fn tunnel_field(kind: TunnelKind) -> Option<Form> {
    match kind {
        TunnelKind::Vxlan => Some(Form::SegmentId),
        TunnelKind::GtpU => Some(Form::Teid),
        TunnelKind::Gre => Some(Form::GreKey),
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

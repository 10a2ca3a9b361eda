//! Builds a record from the elements that an exporter has sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringtap_flow::export::{Enterprise, NTOP_PEN, OWN_PEN, REVERSE_PEN};
use ringtap_flow::{EndReason, FlowRecord, MacAddresses, TcpMeasures, Traffic, Tunnel, TunnelKind};

use super::application::{Application, by_enterprise};
use super::fields::{Number, unsigned};
use super::process::Ends;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// Seconds from 1900 to 1970.
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// The fields of a message that apply to all its records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    /// The time at which the exporter's uptime was 0, in milliseconds since 1970.
    pub(super) boot_ms: u64,
    /// The time at which the message was sent, in nanoseconds since 1970.
    pub(super) sent_ns: u64,
    /// The enterprise of ringtap's own elements.
    pub(super) enterprise: Enterprise,
}

/// A record that grows element by element.
#[derive(Debug, Default)]
pub(super) struct Draft {
    context: Context,
    record: FlowRecord,
    forward_times: Times,
    reverse_traffic: Traffic,
    reverse_times: Times,
    macs: Option<MacAddresses>,
    tcp: Option<TcpMeasures>,
    application: Application,
    processes: Ends,
    icmp: Option<u16>,
    has_address: bool,
    /// The time at which uptime was 0, if the record itself contains it (160).
    boot_ms: Option<u64>,
    /// The sampling interval N (one of N packets), if the record itself contains it (34, 50).
    pub(super) sampling: Option<u32>,
}

/// The times of one direction, in the precision in which they were sent.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    first: Time,
    last: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// Nanoseconds since 1970, or since the start of uptime.
    value: u64,
    unit: Unit,
}

/// In the order of precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    #[default]
    Unknown,
    Uptime,
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Time {
    fn set(&mut self, value: u64, unit: Unit) {
        if unit > self.unit {
            *self = Self { value, unit };
        }
    }

    fn absolute(self, boot_ms: u64, sent_ns: u64) -> u64 {
        match self.unit {
            Unit::Uptime => from_uptime(self.value / NANOS_PER_MILLI, boot_ms, sent_ns),
            _ => self.value,
        }
    }
}

/// Returns the nanoseconds since 1970 for an uptime in milliseconds. Exporters keep 32 bits of it, which wrap
/// after 49 days. A valid time is within the 49 days before its message was sent, or slightly later.
pub(super) fn from_uptime(uptime_ms: u64, boot_ms: u64, sent_ns: u64) -> u64 {
    const ROUND_MS: u64 = 1 << 32;
    let sent_ms = sent_ns / NANOS_PER_MILLI;
    let told_ms = boot_ms.saturating_add(uptime_ms);
    let time_ms = if told_ms > sent_ms.saturating_add(ROUND_MS / 2) {
        told_ms.saturating_sub(ROUND_MS)
    } else {
        let rounds = sent_ms.saturating_sub(told_ms) / ROUND_MS;
        told_ms + rounds * ROUND_MS
    };
    time_ms.saturating_mul(NANOS_PER_MILLI)
}

impl Draft {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Adds an element. Unknown elements are left out.
    pub(super) fn element(&mut self, number: Number, bytes: &[u8]) {
        let number = by_enterprise(number, self.context.enterprise);
        let Number { id, enterprise } = number;
        match enterprise {
            0 if !matches!(id, 96 | 457..=468) => self.forward(id, bytes),
            REVERSE_PEN => {
                let counted = traffic(&mut self.reverse_traffic, id, bytes);
                let counted = counted || times(&mut self.reverse_times, self.context, id, bytes);
                if !counted && id == 220 {
                    self.tcp_count(bytes, |tcp| &mut tcp.reverse.resets);
                }
            }
            _ if self.application.element(number, bytes) => {}
            NTOP_PEN => self.measures(id, bytes),
            OWN_PEN if self.processes.element(id, bytes) => {}
            OWN_PEN => self.own(id, bytes),
            _ => {}
        }
    }

    fn forward(&mut self, id: u16, bytes: &[u8]) {
        let counted = traffic(&mut self.record.forward, id, bytes);
        if !counted && !times(&mut self.forward_times, self.context, id, bytes) {
            self.key(id, bytes);
        }
    }

    fn key(&mut self, id: u16, bytes: &[u8]) {
        let key = &mut self.record.key;
        let Some(value) = unsigned(bytes) else {
            return self.address(id, bytes);
        };
        let short = u16::try_from(value).unwrap_or(u16::MAX);
        let byte = u8::try_from(value).unwrap_or(u8::MAX);
        let word = u32::try_from(value).unwrap_or(u32::MAX);
        let tunnel = |kind, id| Some(Tunnel { kind, id });
        match id {
            4 => key.protocol = byte,
            5 => key.tos = byte,
            7 => key.source_port = short,
            10 => key.input = word,
            11 => key.destination_port = short,
            32 | 139 => self.icmp = Some(short),
            34 | 50 => self.sampling = Some(word),
            58 | 243 => key.vlan = Some(short),
            70 => self.record.mpls_label = Some(word >> 4),
            136 => self.record.end = end_reason(byte),
            160 => self.boot_ms = Some(value),
            220 => self.tcp_count(bytes, |tcp| &mut tcp.forward.resets),
            176 | 178 => self.icmp = Some(self.icmp.unwrap_or(0) & 0xff | u16::from(byte) << 8),
            177 | 179 => self.icmp = Some(self.icmp.unwrap_or(0) & 0xff00 | u16::from(byte)),
            245 => key.inner_vlan = Some(short),
            296 => key.tunnel = tunnel(TunnelKind::Gre, word),
            351 if value >> 56 == 1 => {
                let id = u32::try_from(value & 0xff_ffff).unwrap_or(0);
                key.tunnel = tunnel(TunnelKind::Vxlan, id);
            }
            507 => key.tunnel = tunnel(TunnelKind::GtpU, word),
            _ => self.address(id, bytes),
        }
    }

    fn address(&mut self, id: u16, bytes: &[u8]) {
        let key = &mut self.record.key;
        let (address, mac) = (address(bytes), <[u8; 6]>::try_from(bytes).ok());
        match (id, address, mac) {
            // An exporter may send addresses of both versions, the unused one all zero.
            (8 | 27, Some(address), _) if !address.is_unspecified() || !self.has_address => {
                key.source = address;
                self.has_address = true;
            }
            (12 | 28, Some(address), _)
                if !address.is_unspecified() || key.destination.is_unspecified() =>
            {
                key.destination = address;
            }
            (56, _, Some(mac)) => self.macs.get_or_insert_default().source = mac,
            (80, _, Some(mac)) => self.macs.get_or_insert_default().destination = mac,
            _ => {}
        }
    }

    fn measures(&mut self, id: u16, bytes: &[u8]) {
        let Some(value) = unsigned(bytes) else {
            return;
        };
        // 0 means not measured.
        let nanos = |millis| (value > 0).then(|| value.saturating_mul(millis * NANOS_PER_MILLI));
        match id {
            109 => self.tcp_count(bytes, |tcp| &mut tcp.forward.retransmissions),
            110 => self.tcp_count(bytes, |tcp| &mut tcp.reverse.retransmissions),
            111 => self.tcp_count(bytes, |tcp| &mut tcp.forward.out_of_order),
            112 => self.tcp_count(bytes, |tcp| &mut tcp.reverse.out_of_order),
            // Half a round trip in milliseconds.
            123 => self.tcp.get_or_insert_default().client_rtt_ns = nanos(2),
            124 => self.tcp.get_or_insert_default().server_rtt_ns = nanos(2),
            125 => self.record.response_ns = nanos(1),
            _ => {}
        }
    }

    /// Takes an element of ringtap's own.
    fn own(&mut self, id: u16, bytes: &[u8]) {
        match id {
            1 => self.tcp_count(bytes, |tcp| &mut tcp.forward.duplicate_acks),
            2 => self.tcp_count(bytes, |tcp| &mut tcp.reverse.duplicate_acks),
            3 => self.tcp_count(bytes, |tcp| &mut tcp.forward.zero_windows),
            4 => self.tcp_count(bytes, |tcp| &mut tcp.reverse.zero_windows),
            _ => {}
        }
    }

    fn tcp_count(&mut self, bytes: &[u8], count: fn(&mut TcpMeasures) -> &mut u32) {
        if let Some(value) = unsigned(bytes) {
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            *count(self.tcp.get_or_insert_default()) = value;
        }
    }

    /// Returns the record, if it describes a flow between two addresses.
    pub(super) fn finish(mut self) -> Option<FlowRecord> {
        let key = &mut self.record.key;
        if !self.has_address || key.source.is_ipv4() != key.destination.is_ipv4() {
            return None;
        }
        if let Some(icmp) = self.icmp
            && matches!(key.protocol, 1 | 58)
        {
            key.destination_port = icmp;
        }
        let boot_ms = self.boot_ms.unwrap_or(self.context.boot_ms);
        let place = |traffic: &mut Traffic, times: Times| {
            traffic.first_ns = times.first.absolute(boot_ms, self.context.sent_ns);
            traffic.last_ns = times.last.absolute(boot_ms, self.context.sent_ns);
        };
        place(&mut self.record.forward, self.forward_times);
        if self.reverse_traffic.packets > 0 {
            place(&mut self.reverse_traffic, self.reverse_times);
            self.record.reverse = Some(self.reverse_traffic);
        }
        self.record.macs = self.macs;
        self.record.tcp = self.tcp;
        self.record.application = self.application.entry();
        [self.record.source_process, self.record.destination_process] = self.processes.finish();
        Some(self.record)
    }
}

/// Adds a counter, flags or bounds, if the element is one.
fn traffic(traffic: &mut Traffic, id: u16, bytes: &[u8]) -> bool {
    let Some(value) = unsigned(bytes) else {
        return false;
    };
    let short = u16::try_from(value).unwrap_or(u16::MAX);
    let byte = u8::try_from(value).unwrap_or(u8::MAX);
    match id {
        1 | 85 => traffic.bytes = value,
        2 | 86 => traffic.packets = value,
        6 => traffic.tcp_flags = short & 0xfff,
        25 => traffic.min_length = short,
        26 => traffic.max_length = short,
        52 => traffic.min_ttl = byte,
        53 => traffic.max_ttl = byte,
        _ => return false,
    }
    true
}

/// Adds a time, if the element is one.
fn times(times: &mut Times, context: Context, id: u16, bytes: &[u8]) -> bool {
    let Some(value) = unsigned(bytes) else {
        return false;
    };
    let (value, unit) = match id {
        21 | 22 => (value.saturating_mul(NANOS_PER_MILLI), Unit::Uptime),
        150 | 151 => (value.saturating_mul(NANOS_PER_SECOND), Unit::Seconds),
        152 | 153 => (value.saturating_mul(NANOS_PER_MILLI), Unit::Millis),
        154 | 155 => (ntp(value), Unit::Micros),
        156 | 157 => (ntp(value), Unit::Nanos),
        // Microseconds before the message was sent.
        158 | 159 => {
            let before = value.saturating_mul(1000);
            (context.sent_ns.saturating_sub(before), Unit::Micros)
        }
        _ => return false,
    };
    // The start has the even number of each pair.
    let time = match id % 2 {
        0 => &mut times.first,
        _ => &mut times.last,
    };
    time.set(value, unit);
    true
}

/// Returns the nanoseconds since 1970 for an NTP time. The era is the one that ends in 2036, or the next one
/// if that would be before 1970.
fn ntp(time: u64) -> u64 {
    let seconds = time >> 32;
    let since = if seconds >= NTP_TO_UNIX {
        seconds - NTP_TO_UNIX
    } else {
        seconds + (1 << 32) - NTP_TO_UNIX
    };
    let fraction = time & u64::from(u32::MAX);
    since * NANOS_PER_SECOND + ((fraction * NANOS_PER_SECOND) >> 32)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

fn end_reason(code: u8) -> EndReason {
    match code {
        1 => EndReason::Idle,
        2 => EndReason::Active,
        3 => EndReason::EndOfFlow,
        5 => EndReason::NoResources,
        _ => EndReason::Forced,
    }
}

//! NetFlow v5: a header of 24 bytes and up to 30 records of 48 bytes, IPv4 and one direction only.

use std::net::IpAddr;

use super::element::uptime;
use super::session::Clock;
use super::v9::{Uptime, time_of_message};
use super::{ExportCounters, ExportOptions, Message, MessageKind, MessageSink, saturate};
use crate::{FlowRecord, Sampling, Traffic};

const HEADER: usize = 24;
const RECORD: usize = 48;
/// The limit of Cisco's collectors.
const MAX_RECORDS: usize = 30;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// The maximum number of records for one flow, whatever its counters: 17 TB. No flow carries that within a
/// timeout, but anybody whose records are collected may claim it.
const MAX_PARTS: u64 = 4096;

/// Writes messages of NetFlow v5.
#[derive(Debug, Default)]
pub(crate) struct V5 {
    options: ExportOptions,
    bytes: Vec<u8>,
    records: u16,
    /// The time when the last record of the message came, or the latest time in a record.
    time_ns: u64,
    waiting_since: Option<u64>,
    now_ns: u64,
    uptime: Uptime,
    sequence: u32,
    pub(crate) counters: ExportCounters,
}

impl V5 {
    pub(crate) fn new(options: ExportOptions) -> Self {
        let mut bytes = Vec::with_capacity(options.max_message.into());
        bytes.resize(HEADER, 0);
        Self {
            options,
            bytes,
            ..Self::default()
        }
    }

    /// Writes a record of one direction.
    pub(crate) fn record(&mut self, record: &FlowRecord, sink: &mut impl MessageSink) {
        let (IpAddr::V4(source), IpAddr::V4(destination)) =
            (record.key.source, record.key.destination)
        else {
            self.counters.not_expressible += 1;
            return;
        };
        let mut clock = self.uptime.fit(record, self.now_ns, self.records == 0);
        if clock == Clock::NeedsNewMessage {
            self.send(sink);
            clock = self.uptime.fit(record, self.now_ns, true);
        }
        let traffic = &record.forward;
        let most = MAX_PARTS * u64::from(u32::MAX);
        let is_cut = traffic.packets > most || traffic.bytes > most;
        self.counters.clamped += u64::from(clock == Clock::Clamped || is_cut);
        for (packets, bytes) in parts(traffic) {
            if !self.has_room() {
                self.send(sink);
            }
            self.waiting_since.get_or_insert(self.now_ns);
            self.time_ns = self.time_ns.max(time_of_message(record, self.now_ns));
            self.bytes.extend_from_slice(&source.octets());
            self.bytes.extend_from_slice(&destination.octets());
            self.put(record, packets, bytes);
            self.records += 1;
        }
    }

    /// Writes the fields after the addresses.
    fn put(&mut self, record: &FlowRecord, packets: u32, bytes: u32) {
        let (key, traffic) = (&record.key, &record.forward);
        let boot_ms = self.uptime.boot_ms();
        let input = u16::try_from(key.input).unwrap_or(u16::MAX);
        let [_, flags] = traffic.tcp_flags.to_be_bytes();
        let mut put = |bytes: &[u8]| self.bytes.extend_from_slice(bytes);
        put(&[0; 4]); // next hop: a probe does not route
        put(&input.to_be_bytes());
        put(&[0; 2]); // output interface
        put(&packets.to_be_bytes());
        put(&bytes.to_be_bytes());
        put(&uptime(traffic.first_ns, boot_ms).to_be_bytes());
        put(&uptime(traffic.last_ns, boot_ms).to_be_bytes());
        put(&key.source_port.to_be_bytes());
        put(&key.destination_port.to_be_bytes());
        put(&[0, flags, key.protocol, key.tos]);
        put(&[0; 8]); // autonomous systems, prefix lengths, padding
    }

    fn has_room(&self) -> bool {
        usize::from(self.records) < MAX_RECORDS
            && self.bytes.len() + RECORD <= usize::from(self.options.max_message)
    }

    pub(crate) fn advance(&mut self, now_ns: u64, sink: &mut impl MessageSink) {
        self.now_ns = now_ns;
        let waited = self.waiting_since.map(|since| now_ns.abs_diff(since));
        if waited.is_some_and(|waited| u128::from(waited) >= self.options.hold.as_nanos()) {
            self.send(sink);
        }
    }

    pub(crate) fn restart(&mut self) {
        self.sequence = 0;
    }

    pub(crate) fn send(&mut self, sink: &mut impl MessageSink) {
        if self.records == 0 {
            return;
        }
        self.seal();
        let flows = u32::from(self.records);
        self.sequence = self.sequence.wrapping_add(flows);
        self.counters.flows += u64::from(flows);
        self.counters.messages += 1;
        self.counters.bytes += self.bytes.len() as u64;
        sink.message(Message {
            bytes: &self.bytes,
            kind: MessageKind::Flows,
            flows,
        });
        self.bytes.truncate(HEADER);
        self.records = 0;
        self.time_ns = 0;
        self.waiting_since = None;
    }

    fn seal(&mut self) {
        // Whole milliseconds, like uptime, and not before the last packet.
        let now_ms = self.time_ns.div_ceil(NANOS_PER_MILLI);
        let up = saturate(now_ms.saturating_sub(self.uptime.boot_ms()));
        let nanos = saturate(now_ms % 1000 * NANOS_PER_MILLI);
        let [.., engine] = self.options.domain.to_be_bytes();
        let sampling = sampling_field(self.options.sampling);
        let header = &mut self.bytes[..HEADER];
        header[..2].copy_from_slice(&5u16.to_be_bytes());
        header[2..4].copy_from_slice(&self.records.to_be_bytes());
        header[4..8].copy_from_slice(&up.to_be_bytes());
        header[8..12].copy_from_slice(&saturate(now_ms / 1000).to_be_bytes());
        header[12..16].copy_from_slice(&nanos.to_be_bytes());
        header[16..20].copy_from_slice(&self.sequence.to_be_bytes());
        header[20] = 0; // engine type
        header[21] = engine;
        header[22..24].copy_from_slice(&sampling.to_be_bytes());
    }
}

/// Returns mode in the upper 2 bits, interval in the lower 14. All zero without sampling.
fn sampling_field(sampling: Sampling) -> u16 {
    match u16::try_from(sampling.one_in.get()) {
        Ok(1) => 0,
        Ok(interval) => (sampling.mode as u16) << 14 | (interval & 0x3fff),
        Err(_) => 0,
    }
}

/// Splits packets and bytes into as many parts as 32 bits need. Cuts them if that is too many.
fn parts(traffic: &Traffic) -> impl Iterator<Item = (u32, u32)> {
    let most = |counter: u64| counter.min(MAX_PARTS * u64::from(u32::MAX));
    let (packets, bytes) = (most(traffic.packets), most(traffic.bytes));
    let count = packets.max(bytes).div_ceil(u32::MAX.into()).max(1);
    let part = move |total: u64, index| total / count + u64::from(index < total % count);
    (0..count).map(move |index| (saturate(part(packets, index)), saturate(part(bytes, index))))
}

//! Decodes datagrams into records: NetFlow and IPFIX with the library `netflow_parser`, sFlow with [`super::sflow`].
//!
//! Templates are kept by exporter and domain. All memory is bounded, by exporter and altogether
//! ([`super::exporters`]); so are the fields and values of a message.

use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use netflow_parser::static_versions::v5::V5;
use netflow_parser::variable_versions::ipfix::{self, IPFix};
use netflow_parser::variable_versions::v9::{self, V9};
use netflow_parser::{FieldValue, NetflowPacket};
use ringtap_flow::export::Enterprise;
use ringtap_flow::{FlowKey, FlowRecord, Traffic};
use serde::Serialize;

use super::exporters::{ExporterReport, Exporters, Stream, TemplateName};
use super::fields::{Field, Number, bytes, unsigned};
use super::record::{Context, Draft, from_uptime};
use super::sflow::{self, Sample};
use crate::Origin;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// The counters of a [`Decoder`] over all exporters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectCounters {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages of NetFlow v5.
    pub v5: u64,
    /// Messages of NetFlow v9.
    pub v9: u64,
    /// Messages of IPFIX.
    pub ipfix: u64,
    /// Datagrams of sFlow v5.
    pub sflow: u64,
    /// Records of flows.
    pub records: u64,
    /// Other records, without addresses.
    pub not_flows: u64,
    /// Options records.
    pub options: u64,
    /// Samples of sFlow that are not packets: counters of interfaces, and others.
    pub other_samples: u64,
    /// Sets whose template has not come yet.
    pub without_template: u64,
    /// Datagrams that are not a message, or end inside one.
    pub malformed: u64,
    /// Exporters that were forgotten because there were too many.
    pub exporters_forgotten: u64,
    /// Sources (domains) that were forgotten because there were too many.
    pub sources_forgotten: u64,
    /// Templates that were forgotten because there were too many.
    pub templates_forgotten: u64,
    /// Missing flows (v5), by the sequence numbers.
    pub missed_v5_flows: u64,
    /// The same for messages (v9).
    pub missed_v9_messages: u64,
    /// The same for records (IPFIX).
    pub missed_ipfix_records: u64,
    /// The same for datagrams (sFlow).
    pub missed_sflow_datagrams: u64,
}

/// Takes records, with the exporter that sent them.
pub(super) type Take<'a> = dyn FnMut(&FlowRecord, &Origin) + 'a;

/// Decodes datagrams of NetFlow v5, v9, IPFIX and sFlow v5. It keeps the exporters' templates, sampling and sequence
/// numbers. Its memory is bounded, by exporter and altogether.
#[derive(Debug, Default)]
pub struct Decoder {
    exporters: Exporters,
    counters: CollectCounters,
    buffer: Vec<u8>,
    enterprise: Enterprise,
}

impl Decoder {
    /// Takes this enterprise's elements for ringtap's own, besides those of the default number.
    pub fn set_enterprise(&mut self, enterprise: Enterprise) {
        self.enterprise = enterprise;
    }

    /// Returns the counters over all exporters.
    pub fn counters(&self) -> CollectCounters {
        let forgotten = self.exporters.forgotten;
        CollectCounters {
            exporters_forgotten: forgotten.exporters,
            sources_forgotten: forgotten.sources,
            templates_forgotten: forgotten.templates,
            ..self.counters
        }
    }

    /// Returns the number of exporters that are remembered, and a list of at most `most`: those that lost
    /// most entries first, then those that sent most.
    pub fn exporters(&self, most: usize) -> (usize, Vec<ExporterReport>) {
        (self.exporters.count(), self.exporters.report(most))
    }

    /// Decodes a datagram that came at `now`, and gives its records to `take`.
    pub fn datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
        take: &mut dyn FnMut(&FlowRecord, &Origin),
    ) {
        self.counters.datagrams += 1;
        self.counters.bytes += datagram.len() as u64;
        if let Some(message) = sflow::Message::parse(datagram) {
            return self.sflow(from, now, &message, take);
        }
        let Some(stream) = Stream::of(from, datagram) else {
            self.counters.malformed += 1;
            return;
        };
        let parsed = self.exporters.datagram(stream, now).parse_bytes(datagram);
        if parsed.error.is_some() || parsed.packets.is_empty() {
            self.counters.malformed += 1;
        }
        for message in parsed.packets {
            match message {
                NetflowPacket::V5(message) => self.v5(stream, now, &message, take),
                NetflowPacket::V9(message) => self.v9(stream, now, &message, take),
                NetflowPacket::IPFix(message) => self.ipfix(stream, now, &message, take),
                _ => {}
            }
        }
    }

    fn sflow(
        &mut self,
        from: SocketAddr,
        now: Instant,
        message: &sflow::Message<'_>,
        take: &mut Take<'_>,
    ) {
        self.counters.sflow += 1;
        let stream = Stream::of_agent(from, message.agent, message.sub_agent);
        self.exporters.datagram(stream, now);
        self.counters.missed_sflow_datagrams +=
            self.exporters
                .message(stream, now, message.sequence, Some(1));
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_ns = u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        let mut is_malformed = false;
        for sample in message.samples() {
            match sample {
                Ok(Sample::Packet(packet)) => {
                    let Some(record) = packet.record(time_ns) else {
                        self.counters.not_flows += 1;
                        continue;
                    };
                    self.counters.records += 1;
                    self.exporters.record(stream);
                    let origin = Origin {
                        exporter: SocketAddr::new(message.agent, from.port()),
                        domain: message.sub_agent,
                        sampling: packet.one_in,
                    };
                    take(&record, &origin);
                }
                Ok(Sample::Other) => self.counters.other_samples += 1,
                Err(sflow::Malformed) => is_malformed = true,
            }
        }
        self.counters.malformed += u64::from(is_malformed);
    }

    fn v5(&mut self, outer: Stream, now: Instant, message: &V5, take: &mut Take<'_>) {
        self.counters.v5 += 1;
        let header = &message.header;
        let stream = Stream {
            domain: header.engine_id.into(),
            ..outer
        };
        let count = u32::from(header.count);
        self.counters.missed_v5_flows +=
            self.exporters
                .message(stream, now, header.flow_sequence, Some(count));
        let now_ms =
            u64::from(header.unix_secs) * 1000 + u64::from(header.unix_nsecs) / NANOS_PER_MILLI;
        let boot_ms = now_ms.saturating_sub(header.sys_up_time.into());
        let sent_ns = now_ms * NANOS_PER_MILLI;
        let absolute = |uptime: u32| from_uptime(uptime.into(), boot_ms, sent_ns);
        let origin = Origin {
            exporter: stream.exporter,
            domain: stream.domain,
            // The upper 2 bits are the mode.
            sampling: u32::from(header.sampling_interval & 0x3fff).max(1),
        };
        for flow in &message.flowsets {
            self.counters.records += 1;
            self.exporters.record(stream);
            let record = FlowRecord {
                key: FlowKey {
                    source: flow.src_addr.into(),
                    destination: flow.dst_addr.into(),
                    source_port: flow.src_port,
                    destination_port: flow.dst_port,
                    protocol: flow.protocol_number,
                    tos: flow.tos,
                    input: flow.input.into(),
                    ..FlowKey::default()
                },
                forward: Traffic {
                    packets: flow.d_pkts.into(),
                    bytes: flow.d_octets.into(),
                    first_ns: absolute(flow.first),
                    last_ns: absolute(flow.last),
                    tcp_flags: flow.tcp_flags.into(),
                    ..Traffic::default()
                },
                ..FlowRecord::default()
            };
            take(&record, &origin);
        }
    }

    fn v9(&mut self, outer: Stream, now: Instant, message: &V9, take: &mut Take<'_>) {
        self.counters.v9 += 1;
        let header = &message.header;
        // The datagram's parser has the templates.
        let templates = message.flowsets.iter();
        let templates = templates.flat_map(|set| templates_of_v9(&set.body));
        self.exporters.templates(outer, templates);
        let stream = Stream {
            domain: header.source_id,
            ..outer
        };
        self.counters.missed_v9_messages +=
            self.exporters
                .message(stream, now, header.sequence_number, Some(1));
        let now_ms = u64::from(header.unix_secs) * 1000;
        let context = Context {
            boot_ms: now_ms.saturating_sub(header.sys_up_time.into()),
            sent_ns: now_ms * NANOS_PER_MILLI,
            enterprise: self.enterprise,
        };
        for set in &message.flowsets {
            match &set.body {
                v9::FlowSetBody::Data(data) => {
                    for record in &data.fields {
                        self.record(stream, context, record, take);
                    }
                }
                v9::FlowSetBody::OptionsData(data) => {
                    for record in &data.fields {
                        self.options(stream, &record.options_fields);
                    }
                }
                v9::FlowSetBody::NoTemplate(_) => self.counters.without_template += 1,
                _ => {}
            }
        }
    }

    fn ipfix(&mut self, outer: Stream, now: Instant, message: &IPFix, take: &mut Take<'_>) {
        self.counters.ipfix += 1;
        let header = &message.header;
        let templates = message.flowsets.iter();
        let templates = templates.flat_map(|set| templates_of_ipfix(&set.body));
        self.exporters.templates(outer, templates);
        let stream = Stream {
            domain: header.observation_domain_id,
            ..outer
        };
        // Templates are not counted in the sequence. A set without its template cannot be counted.
        let counts = message.flowsets.iter().map(|set| match &set.body {
            ipfix::FlowSetBody::Data(data) => Some(data.fields.len()),
            ipfix::FlowSetBody::OptionsData(data) => Some(data.fields.len()),
            ipfix::FlowSetBody::NoTemplate(_) => None,
            _ => Some(0),
        });
        let count = counts.sum::<Option<usize>>();
        let count = count.map(|count| u32::try_from(count).unwrap_or(0));
        self.counters.missed_ipfix_records +=
            self.exporters
                .message(stream, now, header.sequence_number, count);
        for set in &message.flowsets {
            let context = Context {
                // An options record before this set may have contained it.
                boot_ms: self.exporters.boot_ms(stream).unwrap_or(0),
                sent_ns: u64::from(header.export_time) * NANOS_PER_SECOND,
                enterprise: self.enterprise,
            };
            match &set.body {
                ipfix::FlowSetBody::Data(data) => {
                    for record in &data.fields {
                        self.record(stream, context, record, take);
                    }
                }
                ipfix::FlowSetBody::OptionsData(data) => {
                    for record in &data.fields {
                        self.options(stream, record);
                    }
                }
                ipfix::FlowSetBody::NoTemplate(_) => self.counters.without_template += 1,
                _ => {}
            }
        }
    }

    fn record<F: Field>(
        &mut self,
        stream: Stream,
        context: Context,
        fields: &[(F, FieldValue)],
        take: &mut Take<'_>,
    ) {
        let mut draft = Draft::new(context);
        self.each(fields, |number, bytes| draft.element(number, bytes));
        let sampling = draft.sampling;
        let Some(record) = draft.finish() else {
            self.counters.not_flows += 1;
            return;
        };
        self.counters.records += 1;
        self.exporters.record(stream);
        let origin = Origin {
            exporter: stream.exporter,
            domain: stream.domain,
            sampling: sampling.unwrap_or_else(|| self.exporters.sampling(stream)),
        };
        take(&record, &origin);
    }

    fn options<F: Field>(&mut self, stream: Stream, fields: &[(F, FieldValue)]) {
        let mut told = Told::default();
        self.each(fields, |number, bytes| told.element(number, bytes));
        self.counters.options += 1;
        if let Some(one_in) = told.one_in() {
            self.exporters.set_sampling(stream, one_in);
        }
        if let Some(boot_ms) = told.boot_ms {
            self.exporters.set_boot(stream, boot_ms);
        }
    }

    fn each<F: Field>(
        &mut self,
        fields: &[(F, FieldValue)],
        mut element: impl FnMut(Number, &[u8]),
    ) {
        for (field, value) in fields {
            if let Some(number) = field.number() {
                element(number, bytes(value, &mut self.buffer));
            }
        }
    }
}

/// Returns the templates that a NetFlow v9 set defines, and the number of their fields.
fn templates_of_v9(body: &v9::FlowSetBody) -> Vec<(TemplateName, usize)> {
    match body {
        v9::FlowSetBody::Template(set) => set.templates.iter().map(of_v9).collect(),
        v9::FlowSetBody::OptionsTemplate(set) => set.templates.iter().map(of_v9_options).collect(),
        _ => Vec::new(),
    }
}

fn of_v9(template: &v9::Template) -> (TemplateName, usize) {
    ((false, template.template_id), template.fields.len())
}

fn of_v9_options(template: &v9::OptionsTemplate) -> (TemplateName, usize) {
    let fields = template.scope_fields.len() + template.option_fields.len();
    ((true, template.template_id), fields)
}

/// Returns the same for IPFIX, in which the library also reads templates in the form of NetFlow v9.
fn templates_of_ipfix(body: &ipfix::FlowSetBody) -> Vec<(TemplateName, usize)> {
    use ipfix::FlowSetBody as Body;
    let plain = |it: &ipfix::Template| ((false, it.template_id), it.fields.len());
    let options = |it: &ipfix::OptionsTemplate| ((true, it.template_id), it.fields.len());
    match body {
        Body::Template(template) => vec![plain(template)],
        Body::Templates(templates) => templates.iter().map(plain).collect(),
        Body::OptionsTemplate(template) => vec![options(template)],
        Body::OptionsTemplates(templates) => templates.iter().map(options).collect(),
        Body::V9Template(template) => vec![of_v9(template)],
        Body::V9Templates(templates) => templates.iter().map(of_v9).collect(),
        Body::V9OptionsTemplate(template) => vec![of_v9_options(template)],
        Body::V9OptionsTemplates(templates) => templates.iter().map(of_v9_options).collect(),
        _ => Vec::new(),
    }
}

/// The facts in an options record about its exporter: sampling and start time.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// `samplingInterval` (34) or `samplerRandomInterval` (50).
    interval: Option<u64>,
    /// `samplingPacketInterval` (305): the number of packets that are taken.
    taken: Option<u64>,
    /// `samplingPacketSpace` (306): the number of packets that are then left out.
    left_out: Option<u64>,
    /// `systemInitTimeMilliseconds` (160).
    boot_ms: Option<u64>,
}

impl Told {
    fn element(&mut self, number: Number, bytes: &[u8]) {
        let value = unsigned(bytes);
        match (number.enterprise, number.id) {
            (0, 34 | 50) => self.interval = value,
            (0, 305) => self.taken = value,
            (0, 306) => self.left_out = value,
            (0, 160) => self.boot_ms = value,
            _ => {}
        }
    }

    fn one_in(self) -> Option<u32> {
        let counted = match (self.taken, self.left_out) {
            (Some(taken), Some(left_out)) if taken > 0 => {
                Some(taken.saturating_add(left_out) / taken)
            }
            _ => None,
        };
        let one_in = counted.or(self.interval)?;
        u32::try_from(one_in).ok().filter(|&one_in| one_in > 0)
    }
}

#[cfg(test)]
mod tests;

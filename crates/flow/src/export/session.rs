//! The common part of NetFlow v9 and IPFIX: templates on demand and their refresh, records gathered into
//! sets, sets into messages.

use super::options::{OptionsRecord, Statistics};
use super::steps::Step;
use super::template::{Dialect, Template, TemplatePlace, Templates};
use super::{ExportCounters, ExportOptions, Message, MessageKind, MessageSink};
use crate::FlowRecord;
use crate::schema::Row;

/// The differences between v9 and IPFIX on the wire.
pub(crate) trait Protocol: Default {
    /// Length of a message header, in bytes.
    const HEADER: usize;
    /// Sets are padded to a multiple of this number of bytes.
    const ALIGNMENT: usize;
    /// The set for templates.
    const TEMPLATE_SET: u16;
    /// The set for options templates.
    const OPTIONS_TEMPLATE_SET: u16;

    fn dialect(options: &ExportOptions) -> Dialect;

    /// Returns how well the message that is being filled can express the record's times. `empty` means that it
    /// has no other record.
    fn fits_clock(&mut self, record: &FlowRecord, now_ns: u64, empty: bool) -> Clock;

    /// Returns the time that the message header needs, as far as this record matters.
    fn time_of_message(record: &FlowRecord, now_ns: u64) -> u64;

    /// Returns the start of uptime, in milliseconds since 1970.
    fn boot_ms(&self) -> u64;

    /// Writes the header of a complete message, up to the sequence number. Returns what the message adds to
    /// that number.
    fn seal(&self, message: &mut [u8], records: u16, data_records: u16, now_ns: u64) -> u16;

    fn put_options_template(record: &OptionsRecord, out: &mut Vec<u8>);
}

/// Whether a record's times fit the clock of the message that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// They fit.
    Fits,
    /// They fit the next message.
    NeedsNewMessage,
    /// They were cut.
    Clamped,
}

const SET_HEADER: usize = 4;

/// A message that is being filled.
#[derive(Debug, Default)]
struct Draft {
    bytes: Vec<u8>,
    /// The offset of the open set, and its number.
    set: Option<(usize, u16)>,
    /// Records of all kinds, including templates.
    records: u16,
    /// The time when its last record came, or the latest time in a record. The header contains it: the
    /// present time may be too far from the records' times for NetFlow.
    time_ns: u64,
}

/// The messages of a session that are complete.
#[derive(Debug)]
struct Sent<P> {
    protocol: P,
    domain: u32,
    sequence: u32,
    counters: ExportCounters,
}

/// An exporter's session with its collectors.
#[derive(Debug)]
pub(crate) struct Session<P> {
    sent: Sent<P>,
    options: ExportOptions,
    templates: Templates,
    flows: Draft,
    /// When the first record went into `flows`.
    waiting_since: Option<u64>,
    other: Draft,
    /// A record with texts, until it is known how long it is.
    scratch: Vec<u8>,
    now_ns: u64,
    refreshed_ns: Option<u64>,
    messages_since_refresh: u32,
    pub(crate) statistics: Statistics,
}

impl<P: Protocol> Session<P> {
    pub(crate) fn new(options: ExportOptions) -> Self {
        let limit = usize::from(options.max_message);
        let longest = limit - P::HEADER - SET_HEADER - 2 * (P::ALIGNMENT - 1);
        let templates = Templates::new(P::dialect(&options), options.fields, longest);
        Self {
            sent: Sent {
                protocol: P::default(),
                domain: options.domain,
                sequence: 0,
                counters: ExportCounters::default(),
            },
            options,
            templates,
            scratch: Vec::with_capacity(limit),
            flows: Draft::new::<P>(limit),
            waiting_since: None,
            other: Draft::new::<P>(limit),
            now_ns: 0,
            refreshed_ns: None,
            messages_since_refresh: 0,
            statistics: Statistics::default(),
        }
    }

    pub(crate) fn record(&mut self, row: &Row<'_>, sink: &mut impl MessageSink) {
        let place = self.templates.learn(row);
        let Some(template) = self.templates.get(place) else {
            return;
        };
        let (id, is_variable) = (template.id, template.is_variable);
        let mut length = template.record_length;
        if is_variable {
            length = self.write_scratch(place, row);
        }
        if !self
            .flows
            .has_room::<P>(id, length, self.options.max_message)
        {
            self.send_flows(sink);
        }
        self.keep_clock(row.record, sink);
        self.waiting_since.get_or_insert(self.now_ns);
        self.flows.open::<P>(id);
        if is_variable {
            self.flows.bytes.extend_from_slice(&self.scratch);
        } else if let Some(template) = self.templates.get(place) {
            let boot_ms = self.sent.protocol.boot_ms();
            for step in &template.steps {
                step.put(row, boot_ms, 0, &mut self.flows.bytes);
            }
        }
        self.flows.records += 1;
        let time_ns = P::time_of_message(row.record, self.now_ns);
        self.flows.time_ns = self.flows.time_ns.max(time_ns);
    }

    /// Writes a record with texts aside; returns its length. Texts have the room that is left in the
    /// longest message.
    fn write_scratch(&mut self, place: TemplatePlace, row: &Row<'_>) -> usize {
        self.scratch.clear();
        let Some(template) = self.templates.get(place) else {
            return 0;
        };
        let spent = template.record_length + P::HEADER + SET_HEADER + 2 * (P::ALIGNMENT - 1);
        let mut room = usize::from(self.options.max_message).saturating_sub(spent);
        for step in &template.steps {
            let before = self.scratch.len();
            // Only NetFlow's clock begins with the first record, and its texts have fixed lengths.
            step.put(row, self.sent.protocol.boot_ms(), room, &mut self.scratch);
            if let Step::One(column) = step {
                let more = self.scratch.len() - before - column.least();
                room = room.saturating_sub(more);
            }
        }
        self.scratch.len()
    }

    fn keep_clock(&mut self, record: &FlowRecord, sink: &mut impl MessageSink) {
        let fits = |session: &mut Self| {
            let empty = session.flows.records == 0;
            session
                .sent
                .protocol
                .fits_clock(record, session.now_ns, empty)
        };
        let mut clock = fits(self);
        if clock == Clock::NeedsNewMessage {
            self.send_flows(sink);
            clock = fits(self);
        }
        self.sent.counters.clamped += u64::from(clock == Clock::Clamped);
    }

    pub(crate) fn advance(&mut self, now_ns: u64, sink: &mut impl MessageSink) {
        self.now_ns = now_ns;
        let hold = u64::try_from(self.options.hold.as_nanos()).unwrap_or(u64::MAX);
        let waited = self.waiting_since.map(|since| now_ns.abs_diff(since));
        if waited.is_some_and(|waited| waited >= hold) {
            self.send_flows(sink);
        }
        if self.refreshed_ns.is_some() && self.refresh_is_due() {
            self.announce_all(sink);
        }
    }

    pub(crate) fn counters(&self) -> ExportCounters {
        self.sent.counters
    }

    pub(crate) fn finish(&mut self, sink: &mut impl MessageSink) {
        self.send_flows(sink);
        if self.refreshed_ns.is_none() {
            self.announce_all(sink);
        } else {
            self.send_options(sink);
        }
    }

    pub(crate) fn announce_again(&mut self) {
        self.refreshed_ns = None;
    }

    pub(crate) fn restart(&mut self) {
        self.sent.sequence = 0;
        self.refreshed_ns = None;
        self.messages_since_refresh = 0;
        for template in self.templates.iter_mut() {
            template.announced = false;
        }
        self.templates.unannounced = true;
    }

    fn refresh_is_due(&self) -> bool {
        let Some(last) = self.refreshed_ns else {
            return true;
        };
        self.options.refresh.is_some_and(|refresh| {
            // A time that goes back is a new time.
            u128::from(self.now_ns.abs_diff(last)) >= refresh.interval.as_nanos()
                || self.messages_since_refresh >= refresh.messages
        })
    }

    /// Sends the flows that wait, after the templates that a collector needs.
    fn send_flows(&mut self, sink: &mut impl MessageSink) {
        if self.flows.records == 0 {
            return;
        }
        if self.refresh_is_due() {
            self.announce_all(sink);
        } else if self.templates.unannounced {
            self.announce(|template| !template.announced, sink);
        }
        self.waiting_since = None;
        self.messages_since_refresh = self.messages_since_refresh.saturating_add(1);
        let time_ns = self.flows.time_ns;
        self.sent
            .send(&mut self.flows, MessageKind::Flows, time_ns, sink);
    }

    fn announce_all(&mut self, sink: &mut impl MessageSink) {
        self.refreshed_ns = Some(self.now_ns);
        self.messages_since_refresh = 0;
        self.announce(|_| true, sink);
        self.send_options_templates(sink);
        self.send_options(sink);
    }

    /// Sends the templates that `select` chooses, in as few messages as possible.
    fn announce(&mut self, select: impl Fn(&Template) -> bool, sink: &mut impl MessageSink) {
        self.templates.unannounced = false;
        let limit = self.options.max_message;
        let now_ns = self.now_ns.max(self.flows.time_ns);
        for template in self.templates.iter_mut().filter(|t| select(t)) {
            // Enterprise elements take 8 bytes, IANA's 4.
            let most = SET_HEADER + 8 * template.columns.len();
            if !self.other.has_room::<P>(P::TEMPLATE_SET, most, limit) {
                self.sent
                    .send(&mut self.other, MessageKind::Templates, now_ns, sink);
            }
            self.other.open::<P>(P::TEMPLATE_SET);
            template.put(&mut self.other.bytes);
            self.other.records += 1;
            template.announced = true;
        }
        self.send_other(MessageKind::Templates, sink);
    }

    fn option_records(&self) -> [OptionsRecord; 2] {
        let sampling = self.options.sampling;
        [
            OptionsRecord::sampling(sampling),
            OptionsRecord::statistics(sampling, &self.statistics, &self.sent.counters),
        ]
    }

    fn send_options_templates(&mut self, sink: &mut impl MessageSink) {
        for record in self.option_records() {
            self.other.open::<P>(P::OPTIONS_TEMPLATE_SET);
            P::put_options_template(&record, &mut self.other.bytes);
            self.other.records += 1;
            // In a set of its own: pmacct 1.7.7 does not read a second one.
            self.other.close::<P>();
        }
        self.send_other(MessageKind::OptionsTemplates, sink);
    }

    fn send_options(&mut self, sink: &mut impl MessageSink) {
        for record in self.option_records() {
            self.other.open::<P>(record.id);
            let out = &mut self.other.bytes;
            out.extend_from_slice(&self.options.domain.to_be_bytes());
            record.put(out);
            self.other.records += 1;
        }
        self.send_other(MessageKind::Options, sink);
    }

    fn send_other(&mut self, kind: MessageKind, sink: &mut impl MessageSink) {
        let now_ns = self.now_ns.max(self.flows.time_ns);
        self.sent.send(&mut self.other, kind, now_ns, sink);
    }
}

impl<P: Protocol> Sent<P> {
    /// Completes a message and sends it, unless it has no records.
    fn send(
        &mut self,
        draft: &mut Draft,
        kind: MessageKind,
        now_ns: u64,
        sink: &mut impl MessageSink,
    ) {
        let records = draft.records;
        if records == 0 {
            return;
        }
        let (data_records, flows) = match kind {
            MessageKind::Flows => (records, records),
            MessageKind::Options => (records, 0),
            MessageKind::Templates | MessageKind::OptionsTemplates => (0, 0),
        };
        draft.close::<P>();
        let message = &mut draft.bytes;
        let counted = self.protocol.seal(message, records, data_records, now_ns);
        message[P::HEADER - 8..P::HEADER - 4].copy_from_slice(&self.sequence.to_be_bytes());
        message[P::HEADER - 4..P::HEADER].copy_from_slice(&self.domain.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(counted.into());
        self.counters.flows += u64::from(flows);
        self.counters.messages += 1;
        self.counters.bytes += message.len() as u64;
        sink.message(Message {
            bytes: message,
            kind,
            flows: flows.into(),
        });
        draft.clear::<P>();
    }
}

/// Returns the latest time in a record.
pub(crate) fn latest(record: &FlowRecord) -> u64 {
    let reverse = record.reverse.map_or(0, |reverse| reverse.last_ns);
    record.forward.last_ns.max(reverse)
}

impl Draft {
    fn new<P: Protocol>(limit: usize) -> Self {
        let mut bytes = Vec::with_capacity(limit);
        bytes.resize(P::HEADER, 0);
        Self {
            bytes,
            ..Self::default()
        }
    }

    fn clear<P: Protocol>(&mut self) {
        self.bytes.truncate(P::HEADER);
        self.set = None;
        self.records = 0;
        self.time_ns = 0;
    }

    /// Returns whether `length` more bytes fit, with the header and padding of their set.
    fn has_room<P: Protocol>(&self, set: u16, length: usize, limit: u16) -> bool {
        let is_open = self.set.is_some_and(|(_, open)| open == set);
        let header = if is_open { 0 } else { SET_HEADER };
        let padding = 2 * (P::ALIGNMENT - 1);
        self.bytes.len() + header + length + padding <= usize::from(limit)
            && self.records < u16::MAX
    }

    /// Opens a set, unless it is already open.
    fn open<P: Protocol>(&mut self, set: u16) {
        if self.set.is_some_and(|(_, open)| open == set) {
            return;
        }
        self.close::<P>();
        self.set = Some((self.bytes.len(), set));
        self.bytes.extend_from_slice(&set.to_be_bytes());
        self.bytes.extend_from_slice(&[0, 0]);
    }

    /// Pads the open set and writes its length.
    fn close<P: Protocol>(&mut self) {
        let Some((start, _)) = self.set.take() else {
            return;
        };
        let padded = self.bytes.len().next_multiple_of(P::ALIGNMENT);
        self.bytes.resize(padded, 0);
        let length = u16::try_from(padded - start).unwrap_or(u16::MAX);
        self.bytes[start + 2..start + SET_HEADER].copy_from_slice(&length.to_be_bytes());
    }
}

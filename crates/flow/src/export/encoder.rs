//! The encoder of all versions.

use super::ipfix::Ipfix;
use super::session::Session;
use super::v5::V5;
use super::v9::V9;
use super::{
    ExportCounters, ExportError, ExportOptions, MIN_MESSAGE, MIN_MESSAGE_WITH_FIELDS, MessageSink,
    Statistics, V5_MAX_SAMPLING, Version,
};
use crate::FlowRecord;
use crate::schema::{Fields, Row};

/// Encodes records as messages of one session.
#[derive(Debug)]
pub struct Encoder(Kind);

#[derive(Debug)]
enum Kind {
    V5(Box<V5>),
    V9(Box<Session<V9>>),
    Ipfix(Box<Session<Ipfix>>),
}

impl Encoder {
    /// Returns an encoder. Its memory does not grow with the number of records.
    ///
    /// # Errors
    /// The version does not support an option, or messages are too short.
    pub fn new(options: ExportOptions) -> Result<Self, ExportError> {
        let least = if options.fields == Fields::BASIC {
            MIN_MESSAGE
        } else {
            MIN_MESSAGE_WITH_FIELDS
        };
        if options.max_message < least {
            return Err(ExportError::MessageTooShort {
                limit: options.max_message,
                least,
            });
        }
        let kind = match options.version {
            Version::V5 => {
                let one_in = options.sampling.one_in.get();
                if one_in > V5_MAX_SAMPLING {
                    return Err(ExportError::SamplingBeyondV5 { one_in });
                }
                let domain = options.domain;
                if domain > u8::MAX.into() {
                    return Err(ExportError::DomainBeyondV5 { domain });
                }
                Kind::V5(Box::new(V5::new(options)))
            }
            Version::V9 => Kind::V9(Box::new(Session::new(options))),
            Version::Ipfix => Kind::Ipfix(Box::new(Session::new(options))),
        };
        Ok(Self(kind))
    }

    /// Encodes the record of a flow. It waits in a message until the message is full, or for
    /// [`ExportOptions::hold`].
    ///
    /// A record of both directions becomes two records if the version has only one direction.
    pub fn record(&mut self, record: &FlowRecord, sink: &mut impl MessageSink) {
        self.row(&Row::new(record), sink);
    }

    /// Takes the record of a flow with what databases know about it, as [`Encoder::record`].
    pub fn row(&mut self, row: &Row<'_>, sink: &mut impl MessageSink) {
        match &mut self.0 {
            Kind::V5(v5) => each_direction(row, |row| v5.record(row.record, sink)),
            Kind::V9(session) => each_direction(row, |row| session.record(row, sink)),
            Kind::Ipfix(session) => session.record(row, sink),
        }
    }

    /// Sets the time, in nanoseconds since 1970, by the clock of the packets. Message headers contain it.
    /// Sends messages that have waited long enough, and repeats templates and options that are due.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl MessageSink) {
        match &mut self.0 {
            Kind::V5(v5) => v5.advance(now_ns, sink),
            Kind::V9(session) => session.advance(now_ns, sink),
            Kind::Ipfix(session) => session.advance(now_ns, sink),
        }
    }

    /// Sets the numbers of the next statistics. v5 has none.
    pub fn set_statistics(&mut self, statistics: Statistics) {
        match &mut self.0 {
            Kind::V5(_) => {}
            Kind::V9(session) => session.statistics = statistics,
            Kind::Ipfix(session) => session.statistics = statistics,
        }
    }

    /// Sends everything that waits, and the last statistics.
    pub fn finish(&mut self, sink: &mut impl MessageSink) {
        match &mut self.0 {
            Kind::V5(v5) => v5.send(sink),
            Kind::V9(session) => session.finish(sink),
            Kind::Ipfix(session) => session.finish(sink),
        }
    }

    /// Announces that a collector has restarted: templates and options are sent before the next flows.
    pub fn announce_again(&mut self) {
        match &mut self.0 {
            Kind::V5(_) => {}
            Kind::V9(session) => session.announce_again(),
            Kind::Ipfix(session) => session.announce_again(),
        }
    }

    /// Starts a new session over a new connection: sequence numbers start at zero, and templates are sent
    /// before the next flows.
    pub fn restart(&mut self) {
        match &mut self.0 {
            Kind::V5(v5) => v5.restart(),
            Kind::V9(session) => session.restart(),
            Kind::Ipfix(session) => session.restart(),
        }
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> ExportCounters {
        match &self.0 {
            Kind::V5(v5) => v5.counters,
            Kind::V9(session) => session.counters(),
            Kind::Ipfix(session) => session.counters(),
        }
    }
}

/// Passes on the record of each direction as a separate record.
fn each_direction(row: &Row<'_>, mut take: impl FnMut(&Row<'_>)) {
    let record = row.record;
    let Some(reverse) = record.reverse else {
        take(row);
        return;
    };
    let mut one = record.clone();
    one.reverse = None;
    take(&row.with_record(&one));
    let key = &mut one.key;
    std::mem::swap(&mut key.source, &mut key.destination);
    match key.icmp() {
        Some((kind, code)) => {
            key.destination_port = u16::from_be_bytes([answer(kind, key.protocol), code]);
        }
        None => std::mem::swap(&mut key.source_port, &mut key.destination_port),
    }
    if let Some(macs) = &mut one.macs {
        std::mem::swap(&mut macs.source, &mut macs.destination);
    }
    one.forward = reverse;
    if let Some(tcp) = &mut one.tcp {
        std::mem::swap(&mut tcp.forward, &mut tcp.reverse);
    }
    take(&row.with_record(&one).exchanged());
}

/// Returns the type of the messages that answer this type (RFC 792, RFC 4443). If none does, returns the type
/// itself.
fn answer(kind: u8, protocol: u8) -> u8 {
    use ringtap_packet::protocol::ICMP;
    match (protocol == ICMP, kind) {
        (true, 8) => 0,
        (true, 13 | 15 | 17) | (false, 128) => kind + 1,
        _ => kind,
    }
}

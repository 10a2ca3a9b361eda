//! Export: flow records go in, messages of NetFlow v5, NetFlow v9 (RFC 3954) and IPFIX (RFC 7011) come out.
//!
//! An [`Encoder`] takes records and gives whole messages to a [`MessageSink`], each at most as long as the
//! caller allows. Templates, options templates, options and flows are in separate messages: some collectors
//! drop a datagram that contains a set they don't know. The encoder sends nothing, opens nothing and reads no
//! clock. [`Encoder::advance`] sets the time, sends messages that have waited long enough, and repeats
//! templates.

mod element;
mod encoder;
mod enterprise;
mod ipfix;
mod options;
mod session;
mod steps;
mod template;
#[cfg(test)]
mod tests;
mod v5;
mod v9;

use std::time::Duration;

pub use element::{Form, NTOP_PEN, OWN_PEN, REVERSE_PEN};
pub use encoder::Encoder;
pub use enterprise::{Enterprise, EnterpriseError};
pub use options::Statistics;

use crate::Sampling;
use crate::schema::Fields;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// NetFlow v5: IPv4 only, a fixed record of 48 bytes.
    V5,
    /// NetFlow v9, RFC 3954.
    V9,
    /// IPFIX, RFC 7011, with biflows by RFC 5103.
    #[default]
    Ipfix,
}

ringtap_packet::options! {
    /// Options of an [`Encoder`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExportOptions {
        /// The protocol.
        pub version: Version,
        /// The observation domain of IPFIX, the source id of v9, the engine id of v5 (0 to 255 there).
        pub domain: u32,
        /// The longest message, in bytes: the limit of a datagram. At least [`MIN_MESSAGE`].
        pub max_message: u16,
        /// When to repeat templates and options. With `None` they are sent once: over TCP and in files, messages
        /// are lost only with the whole session.
        pub refresh: Option<Refresh>,
        /// The sampling that collectors learn. Collectors scale; counters of records are as metered.
        pub sampling: Sampling,
        /// Whether to send times in nanoseconds besides milliseconds. IPFIX only.
        pub nanos: bool,
        /// The enterprise of ringtap's own elements. IPFIX only.
        pub enterprise: Enterprise,
        /// The fields beside the basic ones, which messages have in any case; v5 has no others.
        pub fields: Fields,
        /// How long a record may wait for others to fill its message, by the time given to
        /// [`Encoder::advance`].
        pub hold: Duration,
    }
}

/// When to repeat templates and options, for a collector that was started later, or that lost them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// After this time.
    pub interval: Duration,
    /// After this number of messages with flows.
    pub messages: u32,
}

/// The smallest limit for messages, in bytes. The IPv6 minimum of 1280 is well above it.
pub const MIN_MESSAGE: u16 = 512;
/// The same with fields beside the basic ones: templates are long. It is what IPv6 carries everywhere,
/// without its header and that of UDP.
pub const MIN_MESSAGE_WITH_FIELDS: u16 = 1232;
/// The limit of an Ethernet frame without fragmentation, over IPv6: 1500 bytes less the headers of IPv6 and
/// UDP.
pub const ETHERNET_MESSAGE: u16 = 1452;
/// The largest interval in the 14 bits of v5's header.
pub const V5_MAX_SAMPLING: u32 = (1 << 14) - 1;

impl Default for ExportOptions {
    /// Returns the defaults: IPFIX in datagrams that fit an Ethernet frame, templates each minute and each
    /// 500 messages.
    fn default() -> Self {
        Self {
            version: Version::default(),
            domain: 0,
            max_message: ETHERNET_MESSAGE,
            refresh: Some(Refresh::default()),
            sampling: Sampling::default(),
            nanos: false,
            enterprise: Enterprise::default(),
            fields: Fields::BASIC,
            hold: Duration::from_secs(1),
        }
    }
}

impl Default for Refresh {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            messages: 500,
        }
    }
}

/// An invalid combination of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The limit for messages is too small for a template.
    #[error("option max message: {limit} bytes is less than the minimum of {least}")]
    MessageTooShort {
        /// The requested limit.
        limit: u16,
        /// The least that the fields need.
        least: u16,
    },
    /// v5 has 14 bits for the sampling interval.
    #[error("NetFlow v5 does not support sampling 1:{one_in}: the maximum is 1:{V5_MAX_SAMPLING}")]
    SamplingBeyondV5 {
        /// The requested interval: one of this number of packets.
        one_in: u32,
    },
    /// v5 has a byte for the engine.
    #[error("NetFlow v5 does not support domain {domain}: its engine id is 0 to 255")]
    DomainBeyondV5 {
        /// The requested domain.
        domain: u32,
    },
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Templates of flows.
    Templates,
    /// Templates of options.
    OptionsTemplates,
    /// Options: sampling, statistics of the exporter.
    Options,
    /// Flows.
    Flows,
}

/// A complete message, ready to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its bytes, header included.
    pub bytes: &'a [u8],
    /// Its content.
    pub kind: MessageKind,
    /// Records of flows in it.
    pub flows: u32,
}

/// The destination of messages.
///
/// Every `FnMut(Message<'_>)` is a message sink.
pub trait MessageSink {
    /// Takes a message. It must not wait: a message that cannot be sent immediately is lost, and the sink
    /// counts it.
    fn message(&mut self, message: Message<'_>);
}

impl<F: FnMut(Message<'_>)> MessageSink for F {
    fn message(&mut self, message: Message<'_>) {
        self(message);
    }
}

/// The counters of an encoder since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounters {
    /// Flow records that went into messages. A flow can become two records: v5 and v9 have one direction per
    /// record, and v5 splits counters that exceed 32 bits.
    pub flows: u64,
    /// Messages of all kinds.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Flows that the protocol cannot express: IPv6 flows in v5.
    pub not_expressible: u64,
    /// Records with times outside the 49 days of NetFlow's clock, or counters beyond 4096 records of v5. They
    /// were cut.
    pub clamped: u64,
}

/// Converts a number to the width of the message header. A message is too short for larger ones.
fn count(things: usize) -> u16 {
    u16::try_from(things).unwrap_or(u16::MAX)
}

/// Cuts a number to the 32 bits of an older protocol.
fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

//! Export: flow records in, messages of NetFlow v5, NetFlow v9 (RFC 3954) and IPFIX (RFC 7011) out.
//!
//! What it is: an [`Encoder`] takes records and gives whole messages, each at most as long as the
//! caller allows, to a [`MessageSink`]. Templates, options templates, options and flows are in
//! messages of their own: some collectors drop a datagram when they meet in it what they don't know.
//! What it is not: it sends nothing, opens nothing and reads no clock; what the time is, it is told by
//! [`Encoder::advance`], which also sends what has waited for long enough and repeats templates.

mod element;
mod encoder;
mod ipfix;
mod options;
mod session;
mod template;
#[cfg(test)]
mod tests;
mod v5;
mod v9;

use std::time::Duration;

pub use element::{NTOP_PEN, REVERSE_PEN};
pub use encoder::Encoder;
pub use options::Statistics;

use crate::Sampling;

/// The versions of the protocol.
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

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// The protocol.
    pub version: Version,
    /// The observation domain of IPFIX, the source id of v9, the engine id of v5 (0 to 255 there).
    pub domain: u32,
    /// The longest message, in bytes: what fits a datagram. At least [`MIN_MESSAGE`].
    pub max_message: u16,
    /// When templates and options are repeated; `None` where messages get lost only together with
    /// all of the session (TCP, a file): they are then sent once.
    pub refresh: Option<Refresh>,
    /// The sampling that collectors are told of; they scale, the counters of records are as metered.
    pub sampling: Sampling,
    /// Times in nanoseconds besides milliseconds; IPFIX only.
    pub nanos: bool,
    /// How long a record may wait for others to fill its message, by the time given to
    /// [`Encoder::advance`].
    pub hold: Duration,
}

/// When templates and options are repeated, for a collector that was started, or that lost them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// After so much time.
    pub interval: Duration,
    /// After so many messages with flows.
    pub messages: u32,
}

/// The shortest limit for messages, in bytes: the IPv6 minimum of 1280 is well above.
pub const MIN_MESSAGE: u16 = 512;
/// What fits an Ethernet frame without being fragmented, over IPv6: 1500 bytes less its header and
/// that of UDP.
pub const ETHERNET_MESSAGE: u16 = 1452;
/// The greatest interval that the 14 bits of v5's header hold.
pub const V5_MAX_SAMPLING: u32 = (1 << 14) - 1;

impl Default for ExportOptions {
    /// IPFIX in datagrams that fit an Ethernet frame, templates each minute and each 500 messages.
    fn default() -> Self {
        Self {
            version: Version::default(),
            domain: 0,
            max_message: ETHERNET_MESSAGE,
            refresh: Some(Refresh::default()),
            sampling: Sampling::default(),
            nanos: false,
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

/// Why options were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The limit for messages is too small for a template.
    #[error("messages of at most {limit} bytes: at least {MIN_MESSAGE} are needed")]
    MessageTooShort {
        /// The limit that was asked for.
        limit: u16,
    },
    /// v5 has 14 bits for the sampling interval.
    #[error("NetFlow v5 cannot say 1:{one_in}: its header has room up to 1:{V5_MAX_SAMPLING}")]
    SamplingBeyondV5 {
        /// One packet in so many.
        one_in: u32,
    },
    /// v5 has a byte for the engine.
    #[error("NetFlow v5 cannot say domain {domain}: its engine id is 0 to 255")]
    DomainBeyondV5 {
        /// The domain that was asked for.
        domain: u32,
    },
}

/// What a message holds.
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

/// A whole message, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its bytes, header included.
    pub bytes: &'a [u8],
    /// What it holds.
    pub kind: MessageKind,
    /// Records of flows in it.
    pub flows: u32,
}

/// Where messages go.
///
/// Every `FnMut(Message<'_>)` is such a sink.
pub trait MessageSink {
    /// Takes a message. It must not wait: what cannot be sent at once is lost, and counted there.
    fn message(&mut self, message: Message<'_>);
}

impl<F: FnMut(Message<'_>)> MessageSink for F {
    fn message(&mut self, message: Message<'_>) {
        self(message);
    }
}

/// What an encoder has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounters {
    /// Records of flows that went into messages. A flow can become two (v5 and v9 have one direction
    /// per record; v5 splits what its 32 bits don't hold).
    pub flows: u64,
    /// Messages of all kinds.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Flows that the protocol cannot express: those of IPv6 in v5.
    pub not_expressible: u64,
    /// Records whose times were cut to the 49 days that NetFlow's clock can tell apart, or whose
    /// counters to what 4096 records of v5 can tell.
    pub clamped: u64,
}

/// A number of things in a message as its header has it: a message is too short for more.
fn count(things: usize) -> u16 {
    u16::try_from(things).unwrap_or(u16::MAX)
}

/// Cuts a number to the 32 bits that an older protocol has for it.
fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

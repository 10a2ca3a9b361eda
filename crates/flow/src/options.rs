//! How to meter: plain values, checked before the first packet.

use std::time::Duration;

use ringtap_packet::headers::tunnel::Tunnels;

use crate::record::Sampling;
use crate::share::METERS_MAX;

/// The most flows that a cache can be asked to hold.
pub const FLOWS_MAX: u32 = 1 << 26;
/// The most datagrams that the table of fragments can be asked to hold.
pub const DATAGRAMS_MAX: u32 = 1 << 22;
const TIMEOUT_MAX: Duration = Duration::from_secs(604_800);

/// How to meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterOptions {
    /// Flows that are under way at most, 1 to [`FLOWS_MAX`]. Memory for all of them is reserved at
    /// the beginning: 128 bytes each and 16 to 32 bytes of index, and 128 bytes more with
    /// `both_ways` or `measure_tcp`.
    pub flows: u32,
    /// A flow's record is cut after this time, up to 7 days.
    pub active: Duration,
    /// A flow ends when no packet came for longer than this time, up to 7 days.
    pub inactive: Duration,
    /// How long after FIN or RST a flow of TCP waits for packets that still belong to it. Zero: it
    /// ends with that packet.
    pub linger: Duration,
    /// How long the first fragment of a datagram is remembered, and others wait for it.
    pub fragments: Duration,
    /// Datagrams in fragments that are remembered at most, 1 to [`DATAGRAMS_MAX`]; about 240 bytes
    /// each, reserved at the beginning.
    pub datagrams: u32,
    /// One record for both directions of a flow (biflows, RFC 5103).
    pub both_ways: bool,
    /// Retransmissions and round-trip times of TCP: [`crate::FlowRecord::tcp`].
    pub measure_tcp: bool,
    /// Tunnels of which the flows inside are metered.
    pub tunnels: Tunnels,
    /// Whether flows under way are reported by [`crate::Meter::interim`]; 40 bytes a flow more.
    pub interim: bool,
    /// Choose packets to be metered. None where all are, or were chosen before.
    pub sampling: Option<Sampling>,
    /// A number that nobody knows who sends packets: without it, whoever does could have them all
    /// meet in one place of the cache, and slow it down.
    pub seed: u64,
}

impl Default for MeterOptions {
    /// 1,048,576 flows, 120 s active, 30 s inactive, 1 s linger, both directions apart, no tunnels.
    fn default() -> Self {
        Self {
            flows: 1 << 20,
            active: Duration::from_secs(120),
            inactive: Duration::from_secs(30),
            linger: Duration::from_secs(1),
            fragments: Duration::from_secs(30),
            datagrams: 4096,
            both_ways: false,
            measure_tcp: false,
            tunnels: Tunnels::default(),
            interim: false,
            sampling: None,
            seed: 0,
        }
    }
}

/// An option with a value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// [`MeterOptions::flows`].
    #[error("option flows: {value} is not within 1 and {FLOWS_MAX}")]
    Flows {
        /// Flows.
        value: u32,
    },
    /// [`MeterOptions::datagrams`].
    #[error("option datagrams: {value} is not within 1 and {DATAGRAMS_MAX}")]
    Datagrams {
        /// Datagrams.
        value: u32,
    },
    /// [`crate::Spreader::new`].
    #[error("option meters: {value} is not within 1 and {METERS_MAX}")]
    Meters {
        /// Meters.
        value: usize,
    },
    /// A time-out.
    #[error("option {option}: {value:?} is not within {least:?} and {TIMEOUT_MAX:?}")]
    Timeout {
        /// Which one.
        option: &'static str,
        /// The time-out.
        value: Duration,
        /// The least that can be.
        least: Duration,
    },
}

/// What the cache goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) flows: u32,
    pub(crate) active_ns: u64,
    pub(crate) inactive_ns: u64,
    pub(crate) linger_ns: u64,
    pub(crate) both_ways: bool,
    pub(crate) measure_tcp: bool,
    pub(crate) interim: bool,
}

impl Limits {
    pub(crate) fn has_extra(&self) -> bool {
        self.both_ways || self.measure_tcp
    }
}

impl MeterOptions {
    /// Checks every value.
    ///
    /// # Errors
    ///
    /// The first option whose value cannot be.
    pub fn validate(&self) -> Result<(), OptionError> {
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(OptionError::Flows { value: self.flows });
        }
        if !(1..=DATAGRAMS_MAX).contains(&self.datagrams) {
            let value = self.datagrams;
            return Err(OptionError::Datagrams { value });
        }
        let second = Duration::from_secs(1);
        let timeouts = [
            ("active", self.active, second),
            ("inactive", self.inactive, second),
            ("linger", self.linger, Duration::ZERO),
            ("fragments", self.fragments, second),
        ];
        let wrong = timeouts
            .into_iter()
            .find(|(_, value, least)| !(*least..=TIMEOUT_MAX).contains(value));
        match wrong {
            Some((option, value, least)) => Err(OptionError::Timeout {
                option,
                value,
                least,
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            flows: self.flows,
            active_ns: nanos(self.active),
            inactive_ns: nanos(self.inactive),
            linger_ns: nanos(self.linger),
            both_ways: self.both_ways,
            measure_tcp: self.measure_tcp,
            interim: self.interim,
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

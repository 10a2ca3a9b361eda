//! Options of the meter: plain values, checked before the first packet.

use std::time::Duration;

use ringtap_packet::headers::tunnel::Tunnels;

use ringtap_inspect::InspectOptions;

use crate::record::Sampling;
use crate::share::METERS_MAX;

/// The largest number of flows that a cache supports.
pub const FLOWS_MAX: u32 = 1 << 26;
/// The largest number of datagrams that the fragment table supports.
pub const DATAGRAMS_MAX: u32 = 1 << 22;
const TIMEOUT_MAX: Duration = Duration::from_secs(604_800);

ringtap_packet::options! {
    /// Options of a [`crate::Meter`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MeterOptions {
        /// The maximum number of flows in the cache, 1 to [`FLOWS_MAX`]. Memory for all of them is reserved at
        /// the beginning: 128 bytes each and 16 to 32 bytes of index. With `both_ways` or `measure_tcp` it is 128
        /// bytes more.
        pub flows: u32,
        /// The active timeout: a flow's record is cut after this time. At most 7 days.
        pub active: Duration,
        /// The inactive timeout: a flow ends if no packet comes for longer than this. At most 7 days.
        pub inactive: Duration,
        /// How long a TCP flow waits for further packets after FIN or RST. With zero it ends with that packet.
        pub linger: Duration,
        /// How long the first fragment of a datagram is remembered, and how long others wait for it.
        pub fragments: Duration,
        /// The maximum number of fragmented datagrams that are remembered, 1 to [`DATAGRAMS_MAX`]. Each takes
        /// about 240 bytes, reserved at the beginning.
        pub datagrams: u32,
        /// Whether both directions of a flow share one record (biflows, RFC 5103).
        pub both_ways: bool,
        /// Whether to measure TCP retransmissions and round-trip times: [`crate::FlowRecord::tcp`].
        pub measure_tcp: bool,
        /// How to inspect payloads, for [`crate::FlowRecord::application`]: 12 bytes a flow more, and 64 to 256 for
        /// each flow that has anything to say. With `None` payloads are not looked at.
        pub inspect: Option<InspectOptions>,
        /// The tunnels whose inner flows are metered.
        pub tunnels: Tunnels,
        /// Whether flows under way are reported by [`crate::Meter::interim`]; 40 bytes a flow more.
        pub interim: bool,
        /// The maximum number of processes that are known at a time, for [`crate::FlowRecord::source_process`] and
        /// the destination's: 8 bytes a flow more, and up to 700 for each process. 0: packets have none.
        pub processes: u32,
        /// The sampling of packets. `None` if all are metered, or if they were sampled before.
        pub sampling: Option<Sampling>,
        /// A random number that senders of packets do not know. A sender who knew it could make packets collide
        /// in one place of the cache and slow it down.
        pub seed: u64,
    }
}

impl Default for MeterOptions {
    /// Returns the defaults: 1,048,576 flows, 120 s active, 30 s inactive, 1 s linger, separate directions,
    /// no tunnels.
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
            inspect: None,
            tunnels: Tunnels::default(),
            interim: false,
            processes: 0,
            sampling: None,
            seed: 0,
        }
    }
}

/// An invalid option value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// [`MeterOptions::flows`].
    #[error("option flows: {value} is invalid: it must be between 1 and {FLOWS_MAX}")]
    Flows {
        /// Flows.
        value: u32,
    },
    /// [`MeterOptions::datagrams`].
    #[error("option datagrams: {value} is invalid: it must be between 1 and {DATAGRAMS_MAX}")]
    Datagrams {
        /// Datagrams.
        value: u32,
    },
    /// [`crate::Spreader::new`].
    #[error("option meters: {value} is invalid: it must be between 1 and {METERS_MAX}")]
    Meters {
        /// Meters.
        value: usize,
    },
    /// [`MeterOptions::inspect`].
    #[error("option inspect: {0}")]
    Inspect(ringtap_inspect::OptionError),
    /// A timeout is too short or too long.
    #[error(
        "option {option}: {value:?} is invalid: it must be between {least:?} and {TIMEOUT_MAX:?}"
    )]
    Timeout {
        /// The name of the option.
        option: &'static str,
        /// Its value.
        value: Duration,
        /// The smallest valid value.
        least: Duration,
    },
}

/// The options that the cache needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) flows: u32,
    pub(crate) active_ns: u64,
    pub(crate) inactive_ns: u64,
    pub(crate) linger_ns: u64,
    pub(crate) both_ways: bool,
    pub(crate) measure_tcp: bool,
    pub(crate) interim: bool,
    pub(crate) processes: u32,
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
    /// The first invalid option.
    pub fn validate(&self) -> Result<(), OptionError> {
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(OptionError::Flows { value: self.flows });
        }
        if !(1..=DATAGRAMS_MAX).contains(&self.datagrams) {
            let value = self.datagrams;
            return Err(OptionError::Datagrams { value });
        }
        if let Some(inspect) = &self.inspect {
            inspect.validate().map_err(OptionError::Inspect)?;
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
            processes: self.processes,
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

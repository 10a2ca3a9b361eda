//! Options of a capture: plain values, checked before the first system call.

use std::num::NonZeroU32;
use std::time::Duration;

pub use ringtap_packet::MAX_SNAPLEN;
pub use ringtap_sys::packet::{Fanout, FanoutMode, TimestampSource};
use ringtap_sys::sched::CPUS_MAX;

use crate::LinkType;
use crate::who::{ContainerNamer, Who};

/// The packet engine's timer counts milliseconds in 16 bits.
const MAX_TIMEOUT: Duration = Duration::from_millis(u16::MAX as u64);
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_BUSY_POLL: Duration = Duration::from_secs(1);
const MAX_PRIORITY: u8 = 99;

/// The direction of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Received by the host.
    In,
    /// Sent by the host.
    Out,
    /// Both.
    #[default]
    Both,
}

/// Whether the host also sees the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The host sees them: packets continue as if nobody captured.
    #[default]
    Copy,
    /// The host does not see them: captured packets end here. For received packets only.
    Steal,
}

/// How one of N packets is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleMode {
    /// Each packet at random.
    #[default]
    Random,
    /// Every N-th on its processor. Only the taps support it.
    Regular,
}

/// The precision of timestamps of the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The clock is read for each packet.
    #[default]
    Fine,
    /// The clock is read once for all packets that a driver takes from its queue at once (a poll of NAPI, 64
    /// packets at most). XDP in the driver (Linux 6.1) supports it; otherwise each packet is stamped. Packets
    /// in a driver's queue have already arrived; reading the clock for each shows when the driver reached it.
    Poll,
    /// The time of the kernel's last tick, which costs nothing. Only the taps support it (Linux 5.11);
    /// otherwise each packet is stamped.
    Coarse,
    /// No time: every stamp is 0. Only the taps support it; otherwise each packet is stamped.
    None,
}

/// The last step of a program in the kernel for each packet, to measure the cost of each step. A packet
/// socket's filter accepts nothing before [`Stage::Copy`], so it reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is only called.
    Hook,
    /// It filters.
    Filter,
    /// It also reads the clock, and captures nothing.
    Timestamp,
    /// All steps, as without a measurement.
    Copy,
}

ringtap_packet::options! {
    /// Options of a capture.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CaptureOptions {
        /// The snapshot length: the maximum number of bytes captured of a packet, 1 to [`MAX_SNAPLEN`].
        pub snaplen: u32,
        /// Memory for packets that wait to be read, in bytes. If the system has less, the capture takes less, and
        /// [`crate::Description::memory`] reports it.
        pub buffer: u64,
        /// The timeout: the maximum time that a packet waits for delivery, and that [`crate::Source::next`] waits
        /// for a packet. 1 ms to 65,535 ms.
        pub timeout: Duration,
        /// How long [`crate::Source::next`] waits for a packet, if not for the timeout. Supported by the packet
        /// engine and the taps, for which a wait costs nothing while packets are late.
        pub wait: Option<Duration>,
        /// The number of bytes over all processors at which packets are delivered before the timeout. For the
        /// taps; other engines deliver block by block.
        pub min_to_copy: u32,
        /// Whether to deliver packets as soon as the engine can, regardless of the timeout. It costs more work
        /// per packet. [`crate::Description::delivery_bound`] has the resulting delay.
        pub immediate: bool,
        /// Whether to receive packets for other hosts (promiscuous mode). It ends when the source is dropped, or
        /// its process dies.
        pub promiscuous: bool,
        /// Received packets, sent ones, or both.
        pub direction: Direction,
        /// The only protocol to capture (`ETH_P_*`, as the kernel stores it for a packet). `None` and `ETH_P_ALL`
        /// (3) stand for all.
        pub protocol: Option<u16>,
        /// The clock of timestamps.
        pub timestamp: TimestampSource,
        /// The precision of that clock.
        pub precision: Precision,
        /// Captures one of this many packets, selected in the kernel.
        pub sample: Option<NonZeroU32>,
        /// How that one is selected.
        pub sample_mode: SampleMode,
        /// Whether the host also sees the packets. Only the taps can steal.
        pub mode: Mode,
        /// Whether to steal even if the host's own connections use the device ([`crate::hook::steal_hazards`]).
        pub force: bool,
        /// Whether to skip sorting packets of all processors by time. For the taps, whose rings are merged
        /// otherwise.
        pub unordered: bool,
        /// Whether to deliver the packets of `tcx:any` in one form, with the header LINUX_SLL2 instead of their
        /// own, as a pcap file and libpcap need it. Otherwise each interface is one of
        /// [`crate::Source::interfaces`], with its packets unchanged; later interfaces are added.
        pub cooked: bool,
        /// Whether device `any` stands for the interfaces of all network namespaces, for the tap at tcx without
        /// [`CaptureOptions::cooked`]. Those of other namespaces are named after them: `blue/eth0`. Later namespaces
        /// and interfaces are captured as long as a copy of the process calls [`crate::Readers::follow`].
        pub all_namespaces: bool,
        /// The fanout group with which sources share an interface's packets.
        pub fanout: Option<Fanout>,
        /// How long to look for packets without sleeping, before each wait; at most 1 s. The driver is asked to
        /// do the same (`SO_BUSY_POLL`), which needs CAP_NET_ADMIN.
        pub busy_poll: Option<Duration>,
        /// Real-time priority (SCHED_FIFO, 1 to 99) of the thread that calls
        /// [`CaptureOptions::place_thread`].
        pub priority: Option<u8>,
        /// Processors for that thread; empty for all.
        pub cpus: Vec<usize>,
        /// Whether to check about once a second for programs that were placed before the capture's in a tcx
        /// chain, and report them ([`crate::Error::Overtaken`]). The kernel shows them only in the device's
        /// network namespace and with `CAP_NET_ADMIN`, which [`crate::Description::required_capabilities`] then
        /// contains.
        pub watch_chain: bool,
        /// The facts to record of the process of each packet of this host's sockets; none if `None`. For the tap at
        /// tcx with one reader. Processes are described by [`crate::Next::Meta`] before their first packet.
        pub who: Option<Who>,
        /// The function that knows the names of containers, for [`CaptureOptions::who`]; without it their ids alone
        /// are recorded.
        pub container_names: Option<ContainerNamer>,
        /// The last step of the capture, for measurements: its programs in the kernel go no further, at the taps
        /// and in packet sockets. [`crate::Source::programs`] returns the parts of the taps' programs.
        pub study: Option<Stage>,
    }
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            snaplen: MAX_SNAPLEN,
            buffer: 16 << 20,
            timeout: Duration::from_secs(1),
            wait: None,
            min_to_copy: 16 << 10,
            immediate: false,
            promiscuous: true,
            direction: Direction::Both,
            protocol: None,
            timestamp: TimestampSource::Host,
            precision: Precision::Fine,
            sample: None,
            sample_mode: SampleMode::Random,
            mode: Mode::Copy,
            force: false,
            unordered: false,
            cooked: true,
            all_namespaces: false,
            fanout: None,
            busy_poll: None,
            priority: None,
            cpus: Vec::new(),
            watch_chain: false,
            who: None,
            container_names: None,
            study: None,
        }
    }
}

/// An invalid option value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// [`CaptureOptions::snaplen`].
    #[error("option snaplen: {value} is invalid: it must be between 1 and {MAX_SNAPLEN} bytes")]
    Snaplen {
        /// Bytes.
        value: u32,
    },
    /// [`CaptureOptions::timeout`].
    #[error(
        "option timeout: {value:?} is invalid: it must be between {MIN_TIMEOUT:?} and {MAX_TIMEOUT:?}"
    )]
    Timeout {
        /// The timeout.
        value: Duration,
    },
    /// [`CaptureOptions::busy_poll`].
    #[error("option busy-poll: {value:?} is more than {MAX_BUSY_POLL:?}")]
    BusyPoll {
        /// The duration.
        value: Duration,
    },
    /// [`CaptureOptions::priority`].
    #[error("option priority: {value} is invalid: it must be between 1 and {MAX_PRIORITY}")]
    Priority {
        /// The priority.
        value: u8,
    },
    /// [`CaptureOptions::cpus`].
    #[error("option cpu: no processor {value}; the last one is {}", CPUS_MAX - 1)]
    Cpu {
        /// The processor's number.
        value: usize,
    },
    /// [`CaptureOptions::mode`] with an engine that cannot steal.
    #[error("option mode: engine {engine} cannot steal packets, xdp and tcx can")]
    CannotSteal {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::timestamp`] with a socket of AF_XDP.
    #[error(
        "option timestamp: engine {engine} has no access to the adapter's clock; packet, tcx and xdp have"
    )]
    AdapterClockAtSocket {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::protocol`] at a tap, for packets that do not contain it.
    #[error("option protocol: not supported at a tap on packets of {link_type}")]
    ProtocolOfLinkType {
        /// The link type of the packets.
        link_type: LinkType,
    },
    /// [`CaptureOptions::direction`] at XDP.
    #[error("option direction: XDP sees received packets only; tcx sees those that are sent, too")]
    SentAtXdp,
    /// [`CaptureOptions::fanout`] at a tap.
    #[error(
        "option threads: engine {engine} supports one reading thread only, on any number of processors; \
         engine packet supports several"
    )]
    SharedTap {
        /// The engine.
        engine: &'static str,
    },
    /// Engine xsk without consent.
    #[error("engine xsk takes packets away from the host: specify mode steal")]
    XskSteals,
    /// A socket of AF_XDP is bound to a queue, and queues are those of a bond's members.
    #[error("engine {engine}: packets come by the queues of members, and the interface has none")]
    NoMembers {
        /// The engine.
        engine: &'static str,
    },
    /// An AF_XDP socket sees received packets only.
    #[error("option direction: packets that the host sends do not come to engine {engine}")]
    SentAtSocket {
        /// The engine.
        engine: &'static str,
    },
    /// Sampling with a socket of AF_XDP.
    #[error("option sample: engine {engine} does not sample")]
    SampledAtSocket {
        /// The engine.
        engine: &'static str,
    },
    /// All interfaces at a tap that captures one.
    #[error("engine {engine} captures on one interface, not on \"any\"")]
    AnyAtTap {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::mode`] on all interfaces.
    #[error("option mode: packets are stolen from one interface, not from \"any\"")]
    StealsFromAny,
    /// [`CaptureOptions::all_namespaces`] with one interface.
    #[error(
        "option netns: all network namespaces are captured on device \"any\", not on \"{device}\""
    )]
    NamespacesOfOne {
        /// The device.
        device: String,
    },
    /// [`CaptureOptions::all_namespaces`] with an engine that works in one.
    #[error("option netns: engine {engine} captures in one network namespace, tcx in all")]
    NamespacesAtEngine {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::all_namespaces`] with [`CaptureOptions::cooked`]: the header has no room for the namespace.
    #[error("option netns: interfaces of several network namespaces cannot share one link type")]
    CookedEverywhere,
    /// [`CaptureOptions::who`] with an engine that sees no sockets.
    #[error("option who: engine {engine} cannot find the process of a packet, tcx can")]
    WhoAtEngine {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::mode`] with a filter that user space applies to what the kernel lets through.
    #[error(
        "option mode: packets cannot be stolen by container or control group, which the kernel does not test"
    )]
    StealsByGroup,
    /// A filter that asks for a fact about processes which [`CaptureOptions::who`] leaves out.
    #[error("option who: the filter asks for a fact that is not recorded (--who={field})")]
    NotRecorded {
        /// The fact, as `--who` names it.
        field: &'static str,
    },
    /// [`CaptureOptions::who`] with several readers.
    #[error("option who: processes are recorded by one reading thread only")]
    WhoByThreads,
    /// [`CaptureOptions::timestamp`] on all interfaces.
    #[error("option timestamp: the adapter's clock belongs to one interface, not to \"any\"")]
    AdapterClockOfAny,
}

impl CaptureOptions {
    /// Checks every value.
    ///
    /// # Errors
    ///
    /// The first invalid option.
    pub fn validate(&self) -> Result<(), OptionError> {
        let value = self.snaplen;
        if !(1..=MAX_SNAPLEN).contains(&value) {
            return Err(OptionError::Snaplen { value });
        }
        let value = self.timeout;
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&value) {
            return Err(OptionError::Timeout { value });
        }
        if let Some(value) = self.busy_poll.filter(|&value| value > MAX_BUSY_POLL) {
            return Err(OptionError::BusyPoll { value });
        }
        let is_wrong = |value: &u8| !(1..=MAX_PRIORITY).contains(value);
        if let Some(value) = self.priority.filter(is_wrong) {
            return Err(OptionError::Priority { value });
        }
        match self.cpus.iter().find(|&&cpu| cpu >= CPUS_MAX) {
            Some(&value) => Err(OptionError::Cpu { value }),
            None => Ok(()),
        }
    }

    /// Binds the calling thread, which should be the one that reads the source, to the chosen processors, and
    /// gives it the chosen priority. A priority needs CAP_SYS_NICE.
    ///
    /// # Errors
    ///
    /// No chosen processor is online, or the privilege is missing.
    pub fn place_thread(&self) -> ringtap_sys::Result<()> {
        if !self.cpus.is_empty() {
            ringtap_sys::sched::set_affinity(&self.cpus)?;
        }
        self.priority.map_or(Ok(()), ringtap_sys::sched::set_fifo)
    }

    /// Returns the timeout in the unit and width of the kernel's timer; `validate` limits it.
    pub(crate) fn timeout_ms(&self) -> u16 {
        u16::try_from(self.timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut CaptureOptions)) -> Result<(), OptionError> {
        let mut options = CaptureOptions::default();
        change(&mut options);
        options.validate()
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(CaptureOptions::default().validate(), Ok(()));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let long = Duration::from_secs(66);
        assert_eq!(
            with(|o| o.snaplen = 0),
            Err(OptionError::Snaplen { value: 0 })
        );
        assert_eq!(
            with(|o| o.snaplen = 262_145),
            Err(OptionError::Snaplen { value: 262_145 })
        );
        assert_eq!(
            with(|o| o.timeout = long),
            Err(OptionError::Timeout { value: long })
        );
        let none = Duration::ZERO;
        assert_eq!(
            with(|o| o.timeout = none),
            Err(OptionError::Timeout { value: none })
        );
        assert_eq!(
            with(|o| o.busy_poll = Some(long)),
            Err(OptionError::BusyPoll { value: long })
        );
        assert_eq!(
            with(|o| o.priority = Some(0)),
            Err(OptionError::Priority { value: 0 })
        );
        assert_eq!(
            with(|o| o.priority = Some(100)),
            Err(OptionError::Priority { value: 100 })
        );
        assert_eq!(
            with(|o| o.cpus = vec![0, 8192]),
            Err(OptionError::Cpu { value: 8192 })
        );
        let text = with(|o| o.snaplen = 0).unwrap_err().to_string();
        assert_eq!(
            text,
            "option snaplen: 0 is invalid: it must be between 1 and 262144 bytes"
        );
    }

    #[test]
    fn time_outs_are_rounded_up_to_milliseconds() {
        let options = |timeout| CaptureOptions {
            timeout,
            ..CaptureOptions::default()
        };
        assert_eq!(options(Duration::from_micros(1001)).timeout_ms(), 2);
        assert_eq!(options(MAX_TIMEOUT).timeout_ms(), u16::MAX);
    }
}

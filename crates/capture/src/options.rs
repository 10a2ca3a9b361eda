//! How to capture: plain values, checked before the first system call.

use std::num::NonZeroU32;
use std::time::Duration;

pub use ringtap_packet::MAX_SNAPLEN;
pub use ringtap_sys::packet::{Fanout, FanoutMode, TimestampSource};
use ringtap_sys::sched::CPUS_MAX;

use crate::LinkType;

/// The packet engine's timer counts milliseconds in 16 bits.
const MAX_TIMEOUT: Duration = Duration::from_millis(u16::MAX as u64);
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_BUSY_POLL: Duration = Duration::from_secs(1);
const MAX_PRIORITY: u8 = 99;

/// Which packets, by the way they go.
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

/// Whether the host sees the packets too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does: packets go on as if nobody captured.
    #[default]
    Copy,
    /// It does not: what is captured ends here. For received packets only.
    Steal,
}

/// How one packet in so many is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleMode {
    /// Each by chance of its own.
    #[default]
    Random,
    /// Each N-th on its processor; at the taps only.
    Regular,
}

/// How precise timestamps of the host's clock are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The clock is read for each packet.
    #[default]
    Fine,
    /// The clock is read once for the packets that a driver takes from its queue in one go (a poll of
    /// NAPI, 64 packets at most): at XDP in the driver (Linux 6.1), else as fine. What a driver finds
    /// in its queue has come before; a clock that is read for each of them tells when it got to them.
    Poll,
    /// The time of the kernel's last tick, which costs nothing; at the taps only (Linux 5.11), else
    /// as fine.
    Coarse,
    /// No time at all: every stamp is 0; at the taps only, else as fine.
    None,
}

/// How far a program in the kernel goes with each packet: for measurements of what each step costs. A
/// packet socket's filter accepts nothing before [`Stage::Copy`], so that it has no clock to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is called, and no more.
    Hook,
    /// It filters.
    Filter,
    /// It reads the clock, too, and captures nothing.
    Timestamp,
    /// All of it, as without a measurement.
    Copy,
}

/// How to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The most that is captured of a packet, in bytes; 1 to [`MAX_SNAPLEN`].
    pub snaplen: u32,
    /// Memory for packets that wait to be read, in bytes. Where the system does not have it, the
    /// capture takes less and [`crate::Description::memory`] says so.
    pub buffer: u64,
    /// The longest that a packet waits until it is handed over, and that [`crate::Source::next`]
    /// waits for one; 1 ms to 65,535 ms.
    pub timeout: Duration,
    /// How long [`crate::Source::next`] waits for a packet, where that is not the time-out; in the
    /// packet engine and the taps, for which a wait costs nothing while packets are late.
    pub wait: Option<Duration>,
    /// Bytes of records that are worth a delivery before the time-out, over all processors; at the
    /// taps. The other engines deliver block by block.
    pub min_to_copy: u32,
    /// Hand packets over as soon as the engine can, whatever the time-out; it costs more work per
    /// packet. [`crate::Description::delivery_bound`] tells how soon that is.
    pub immediate: bool,
    /// Receive what is addressed to others. Undone when the source is dropped, or its process dies.
    pub promiscuous: bool,
    /// Received packets, sent ones, or both.
    pub direction: Direction,
    /// Packets of this protocol only (`ETH_P_*`, as the kernel has it of a packet); all for none and for
    /// `ETH_P_ALL`, 3.
    pub protocol: Option<u16>,
    /// Whose clock stamps the packets.
    pub timestamp: TimestampSource,
    /// How precise that clock is.
    pub precision: Precision,
    /// Capture one packet in so many, chosen in the kernel.
    pub sample: Option<NonZeroU32>,
    /// How that one is chosen.
    pub sample_mode: SampleMode,
    /// Whether the host sees the packets too; stealing is for the taps.
    pub mode: Mode,
    /// Steal also where the host's own connections hang on the device
    /// ([`crate::hook::steal_hazards`]).
    pub force: bool,
    /// Do without one order in time over all processors; at the taps, whose rings are merged else.
    pub unordered: bool,
    /// Hand out the packets of `tcx:any` in one form, with the header LINUX_SLL2 in the place of
    /// their own, as a pcap file and libpcap need it. Else each interface is one of
    /// [`crate::Source::interfaces`], with packets as they are; interfaces that come later are added.
    pub cooked: bool,
    /// Share the interface's packets with other sources.
    pub fanout: Option<Fanout>,
    /// How long to look for packets without sleeping, before each wait; at most 1 s. Also asked of
    /// the driver (`SO_BUSY_POLL`), for which CAP_NET_ADMIN is needed.
    pub busy_poll: Option<Duration>,
    /// Real-time priority (SCHED_FIFO, 1 to 99) of the thread that calls
    /// [`CaptureOptions::place_thread`].
    pub priority: Option<u8>,
    /// Processors for that thread; empty for all.
    pub cpus: Vec<usize>,
    /// Ask about once a second whether another program was put before the capture's at a tcx chain, and
    /// report it ([`crate::Error::Overtaken`]). The kernel tells it to the device's network namespace and
    /// those with `CAP_NET_ADMIN` only, which [`crate::Description::required_capabilities`] then has among the rights to keep.
    pub watch_chain: bool,
    /// The capture is studied, not used: its programs in the kernel go as far as this only, at the taps
    /// and in packet sockets, and [`crate::Source::programs`] tells the parts of the taps'.
    pub study: Option<Stage>,
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
            fanout: None,
            busy_poll: None,
            priority: None,
            cpus: Vec::new(),
            watch_chain: false,
            study: None,
        }
    }
}

/// An option with a value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// [`CaptureOptions::snaplen`].
    #[error("option snaplen: {value} is not within 1 and {MAX_SNAPLEN} bytes")]
    Snaplen {
        /// Bytes.
        value: u32,
    },
    /// [`CaptureOptions::timeout`].
    #[error("option timeout: {value:?} is not within {MIN_TIMEOUT:?} and {MAX_TIMEOUT:?}")]
    Timeout {
        /// The time-out.
        value: Duration,
    },
    /// [`CaptureOptions::busy_poll`].
    #[error("option busy-poll: {value:?} is more than {MAX_BUSY_POLL:?}")]
    BusyPoll {
        /// The duration.
        value: Duration,
    },
    /// [`CaptureOptions::priority`].
    #[error("option priority: {value} is not within 1 and {MAX_PRIORITY}")]
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
    /// [`CaptureOptions::protocol`] at a tap, of packets that do not tell it.
    #[error("option protocol: not supported at a tap on packets of {link_type}")]
    ProtocolOfLinkType {
        /// What packets begin with.
        link_type: LinkType,
    },
    /// [`CaptureOptions::direction`] at XDP.
    #[error("option direction: XDP sees received packets only; tcx sees those that are sent, too")]
    SentAtXdp,
    /// [`CaptureOptions::fanout`] at a tap.
    #[error(
        "option threads: engine {engine} is read by one thread, whatever the number of processors that receive; \
         several threads are for engine packet"
    )]
    SharedTap {
        /// The engine.
        engine: &'static str,
    },
    /// Engine xsk without consent.
    #[error("engine xsk takes packets away from the host: ask for that with mode steal")]
    XskSteals,
    /// A socket of AF_XDP is bound to a queue, and queues are those of a bond's members.
    #[error("engine {engine}: packets come by the queues of members, and the interface has none")]
    NoMembers {
        /// The engine.
        engine: &'static str,
    },
    /// Only received packets come to a socket of AF_XDP.
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
    /// All interfaces at a tap that takes one.
    #[error("engine {engine} captures on one interface, not on \"any\"")]
    AnyAtTap {
        /// The engine.
        engine: &'static str,
    },
    /// [`CaptureOptions::mode`] on all interfaces.
    #[error("option mode: packets are stolen from one interface, not from \"any\"")]
    StealsFromAny,
    /// [`CaptureOptions::timestamp`] on all interfaces.
    #[error("option timestamp: the adapter's clock belongs to one interface, not to \"any\"")]
    AdapterClockOfAny,
}

impl CaptureOptions {
    /// Checks every value.
    ///
    /// # Errors
    ///
    /// The first option whose value cannot be.
    pub fn validate(&self) -> Result<(), OptionError> {
        if !(1..=MAX_SNAPLEN).contains(&self.snaplen) {
            return Err(OptionError::Snaplen {
                value: self.snaplen,
            });
        }
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&self.timeout) {
            return Err(OptionError::Timeout {
                value: self.timeout,
            });
        }
        if let Some(value) = self.busy_poll.filter(|&value| value > MAX_BUSY_POLL) {
            return Err(OptionError::BusyPoll { value });
        }
        if let Some(value) = self
            .priority
            .filter(|value| !(1..=MAX_PRIORITY).contains(value))
        {
            return Err(OptionError::Priority { value });
        }
        match self.cpus.iter().find(|&&cpu| cpu >= CPUS_MAX) {
            Some(&value) => Err(OptionError::Cpu { value }),
            None => Ok(()),
        }
    }

    /// Binds the calling thread, which should be the one that reads the source, to the chosen
    /// processors and gives it the chosen priority. Needs CAP_SYS_NICE for a priority.
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

    /// The time-out in the unit and width of the kernel's timer; `validate` bounds it.
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
        assert_eq!(text, "option snaplen: 0 is not within 1 and 262144 bytes");
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

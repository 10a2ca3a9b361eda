//! Settings that can be tried.

use serde::{Deserialize, Serialize};

use crate::Component;

/// A setting that can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "setting", content = "value")]
pub enum Trial {
    /// Stamps of the kernel's last tick.
    CoarseClock,
    /// This many bytes of each packet.
    Snaplen(u32),
    /// Deliveries of this many bytes.
    MinToCopy(u32),
    /// A ring of this many bytes.
    Buffer(u64),
    /// This many microseconds of looking for packets before each sleep.
    BusyPoll(u32),
    /// The reader on this processor.
    Cpu(usize),
    /// Received packets handed on to these processors, a bit for each (RPS).
    Rps(u64),
    /// No joining of received packets.
    NoGro,
}

impl Trial {
    /// Returns the option of `ringtap dump` for it, or the command for the interface of that name.
    #[must_use]
    pub fn option(self, device: &str) -> String {
        match self {
            Self::CoarseClock => "-j host_lowprec".to_owned(),
            Self::Snaplen(bytes) => format!("-s {bytes}"),
            Self::MinToCopy(bytes) => format!("--min-to-copy {}", size(bytes.into())),
            Self::Buffer(bytes) => format!("-B {}", size(bytes)),
            Self::BusyPoll(_) => "--busy-poll".to_owned(),
            Self::Cpu(cpu) => format!("--cpu {cpu}"),
            Self::Rps(mask) => {
                // One file for each queue: tee writes them all.
                format!("echo {mask:x} | tee /sys/class/net/{device}/queues/rx-*/rps_cpus")
            }
            Self::NoGro => format!("ethtool -K {device} gro off"),
        }
    }

    /// Returns the component that it is meant to make cheaper.
    #[must_use]
    pub fn component(self) -> Component {
        match self {
            Self::CoarseClock => Component::Timestamp,
            Self::Snaplen(_) => Component::Copy,
            Self::MinToCopy(_) | Self::BusyPoll(_) => Component::Wake,
            Self::Buffer(_) | Self::Cpu(_) => Component::Reader,
            Self::Rps(_) | Self::NoGro => Component::Stack,
        }
    }

    /// Returns whether it is a setting of the interface.
    pub(crate) const fn is_of_interface(self) -> bool {
        matches!(self, Self::Rps(_) | Self::NoGro)
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

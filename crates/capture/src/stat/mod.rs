//! Statistics mode: packets and bytes counted by filter in the kernel, nothing captured.
//!
//! What it is: up to [`MAX_FILTERS`] filters in one program at a hook, and counters that it adds to.
//! There is no ring and no buffer, no packet is copied, and the application does nothing per
//! packet: the counters are memory that it shares with the kernel, one set a processor, and reading
//! them is reading memory. What it is not: it stores nothing; packets that no filter accepts are in
//! the total only.
//!
//! ```no_run
//! use std::thread::sleep;
//! use std::time::Duration;
//!
//! use ringtap_capture::Filter;
//! use ringtap_capture::stat::{StatOptions, Statistics};
//!
//! # fn main() -> Result<(), ringtap_capture::Error> {
//! let filters = [Filter::new("udp"), Filter::new("tcp port 443")];
//! let mut statistics = Statistics::open("eth0", &filters, &StatOptions::default())?;
//! for _ in 0..10 {
//!     sleep(Duration::from_secs(1));
//!     let interval = statistics.read();
//!     println!("{:.0} packets/s", interval.total.packets as f64 / interval.elapsed.as_secs_f64());
//! }
//! # Ok(())
//! # }
//! ```

mod counters;
mod describe;
mod program;

use std::time::{Duration, Instant};

use ringtap_filter::Program;
use ringtap_filter::ebpf::AssembleError;
use ringtap_filter::ebpf::lower::LowerError;
use ringtap_sys::bpf::{self, Feature, Features, Kernel};
use ringtap_sys::privileges::Capability;

use crate::engines::{Device, Engine};
use crate::hook::{Attached, Hook, HookChoice, HookDevice, HookError, Wanted, attach};
use crate::{Direction, Filter, LinkType, MAX_SNAPLEN, Mode, Result};
use counters::Counters;
pub use describe::StatDescription;
use program::Emission;

/// The most filters that one program counts.
pub const MAX_FILTERS: usize = 256;

/// How to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatOptions {
    /// Whether packets that a filter accepts go on to the host.
    pub mode: Mode,
    /// Which packets, by the way they go. Stealing takes received ones.
    pub direction: Direction,
    /// Whether to steal where the host's connections hang on the device.
    pub force: bool,
}

/// Why statistics could not be had of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatError {
    /// The engine has no hook.
    #[error("{device}: engine {engine} does not count; use xdp, tcx or none")]
    Engine {
        /// The device as given.
        device: String,
        /// The engine.
        engine: &'static str,
    },
    /// All interfaces at once.
    #[error("{device}: count on one interface; \"any\" has no hook")]
    Any {
        /// The device as given.
        device: String,
    },
    /// Packets at the hook do not begin with what the filters are compiled for.
    #[error("{device}: packets of link type {link_type} cannot be counted by filters")]
    LinkType {
        /// The device.
        device: String,
        /// What a capture of its packets would begin with.
        link_type: LinkType,
    },
    /// Too many filters.
    #[error("{found} filters; one program counts {MAX_FILTERS}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// A filter asks for what is not known at the hook, or is too long.
    #[error("filter {number} ({expression}): {source}")]
    Filter {
        /// Its number, from 1 on.
        number: usize,
        /// Its expression.
        expression: String,
        /// What it asks for.
        source: LowerError,
    },
    /// The filters together make a program with jumps that the kernel does not have.
    #[error("the filters together: {0}")]
    Assemble(#[from] AssembleError),
}

/// Packets, and their bytes as they were on the wire (without frame check sequence), VLAN tags
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets. One that receive offload has joined from several counts once, at tcx.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(before.packets),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }
}

/// What was counted in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The true length of it, to divide by.
    pub elapsed: Duration,
    /// By filter, in their order.
    pub filters: Vec<Count>,
    /// All packets at the hook.
    pub total: Count,
}

impl Interval {
    /// Nothing counted by so many filters.
    fn of(filters: usize) -> Self {
        Self {
            filters: vec![Count::default(); filters],
            ..Self::default()
        }
    }
}

/// Filters that count. Dropped, they are gone from the kernel.
#[derive(Debug)]
pub struct Statistics {
    attached: Attached,
    counters: Counters,
    opened: Instant,
    read_at: Instant,
    /// As they were at the last reading.
    before: Interval,
    /// Since the last reading.
    interval: Interval,
    description: StatDescription,
}

impl Statistics {
    /// Counts on `device` from the return on: `eth0`, `xdp:eth0`, `tcx:eth0`. Received and sent
    /// packets are counted, and go on to the host, unless the options say otherwise.
    ///
    /// Needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, until it returns. To be called in the network
    /// namespace of the device.
    ///
    /// # Errors
    /// A filter that is none, or that cannot be told at the hook; a device that cannot be counted
    /// on; what the kernel refuses.
    pub fn open(device: &str, filters: &[Filter], options: &StatOptions) -> Result<Self> {
        Self::open_on(&Kernel::running(), device, filters, options)
    }

    /// [`Statistics::open`] on a kernel behind a gate, for tests of what other kernels do.
    ///
    /// # Errors
    /// As [`Statistics::open`].
    pub fn open_on(
        kernel: &Kernel,
        device: &str,
        filters: &[Filter],
        options: &StatOptions,
    ) -> Result<Self> {
        if filters.len() > MAX_FILTERS {
            return Err(StatError::TooMany {
                found: filters.len(),
            }
            .into());
        }
        let (name, hook) = hook_of(device)?;
        let device = HookDevice::find(name)?;
        let programs = compile(&device, filters)?;
        let features = Features::probe(kernel);
        let failed = |source| HookError::Bpf {
            device: device.name.clone(),
            source,
        };
        let counters = Counters::create(kernel, programs.len()).map_err(failed)?;
        let emission = Emission {
            programs: &programs,
            link_type: device.link_type,
            counters: &counters,
            mode: options.mode,
            xdp_frags: features.has(Feature::XdpFrags),
            tag_restorer: device.tag_restorer,
            long_jumps: features.has(Feature::LongJumps),
        };
        let wanted = Wanted {
            hook,
            mode: options.mode,
            direction: options.direction,
            force: options.force,
            // Who asks for XDP gets it, and is told what it does not see.
            reads_tags_at_xdp: hook == HookChoice::Xdp || device.tag_restorer.is_some(),
            stamps: None,
        };
        let code = emission.code(filters)?;
        let attached = attach(kernel, &device, &wanted, &mut |place| {
            let (kind, instructions) = code.of(place);
            let name = "ringtap_stat";
            if place.is_xdp() && device.tag_restorer.is_some() {
                let index = device.index;
                return bpf::Program::load_for_device(kernel, name, kind, instructions, index);
            }
            bpf::Program::load(kernel, name, kind, instructions)
        })?;
        let opened = Instant::now();
        let description = StatDescription::new(&device, &attached, options, &features);
        Ok(Self {
            attached,
            counters,
            opened,
            read_at: opened,
            before: Interval::of(filters.len()),
            interval: Interval::of(filters.len()),
            description,
        })
    }

    /// What was counted since the last reading, or since the opening. No system call but for the
    /// clock; nothing is allocated.
    pub fn read(&mut self) -> &Interval {
        let now = Instant::now();
        let interval = &mut self.interval;
        interval.elapsed = now - self.read_at;
        self.read_at = now;
        let slots = interval.filters.iter_mut().zip(&mut self.before.filters);
        for (slot, (count, before)) in slots.enumerate() {
            let current = self.counters.load(slot);
            *count = current.since(*before);
            *before = current;
        }
        let current = self.counters.load(interval.filters.len());
        interval.total = current.since(self.before.total);
        self.before.total = current;
        self.before.elapsed = now - self.opened;
        interval
    }

    /// What the last reading gave.
    #[must_use]
    pub fn last(&self) -> &Interval {
        &self.interval
    }

    /// What was counted since the opening, up to the last reading.
    #[must_use]
    pub fn totals(&self) -> &Interval {
        &self.before
    }

    /// Whether the filters are still attached: false once the device is gone. One or two system
    /// calls.
    #[must_use]
    pub fn is_attached(&mut self) -> bool {
        self.attached.hooks.iter_mut().all(Hook::is_attached)
    }

    /// Capabilities to keep after privileges are given up, so that all is taken away at the end;
    /// none where the kernel does that by itself.
    #[must_use]
    pub fn keeps(&self) -> &'static [Capability] {
        self.attached.keeps()
    }

    /// Where and how it counts, with the reasons.
    #[must_use]
    pub fn describe(&self) -> &StatDescription {
        &self.description
    }
}

/// The interface's name and the hook that the device asks for.
fn hook_of(given: &str) -> Result<(&str, HookChoice)> {
    let device = Device::parse(given)?;
    let hook = match device.engine.map(|engine: &Engine| engine.name) {
        None => HookChoice::Automatic,
        Some("xdp") => HookChoice::Xdp,
        Some("tcx") => HookChoice::Tcx,
        Some(engine) => {
            let device = given.to_owned();
            return Err(StatError::Engine { device, engine }.into());
        }
    };
    if device.name == "any" {
        let device = given.to_owned();
        return Err(StatError::Any { device }.into());
    }
    Ok((device.name, hook))
}

fn compile(device: &HookDevice, filters: &[Filter]) -> Result<Vec<Program>> {
    let link_type = device.link_type;
    if ![LinkType::ETHERNET, LinkType::RAW].contains(&link_type) {
        let device = device.name.clone();
        return Err(StatError::LinkType { device, link_type }.into());
    }
    let compiled = filters.iter().map(|filter| {
        filter
            .on_device(&device.name)
            .compile(link_type, MAX_SNAPLEN)
    });
    compiled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_choose_hooks() {
        assert_eq!(hook_of("eth0").unwrap(), ("eth0", HookChoice::Automatic));
        assert_eq!(hook_of("xdp:eth0").unwrap(), ("eth0", HookChoice::Xdp));
        assert_eq!(hook_of("tcx:eth0").unwrap(), ("eth0", HookChoice::Tcx));
        for (device, text) in [
            (
                "packet:eth0",
                "packet:eth0: engine packet does not count; use xdp, tcx or none",
            ),
            ("any", "any: count on one interface; \"any\" has no hook"),
        ] {
            assert_eq!(hook_of(device).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn too_many_filters_are_refused_before_anything_else() {
        let filters = vec![Filter::new("udp"); MAX_FILTERS + 1];
        let refused = Statistics::open("", &filters, &StatOptions::default())
            .err()
            .unwrap();
        assert_eq!(refused.to_string(), "257 filters; one program counts 256");
    }
}

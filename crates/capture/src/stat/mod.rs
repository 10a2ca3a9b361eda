//! Statistics mode: counts packets and bytes by filter in the kernel, and captures nothing.
//!
//! One program at a hook has up to [`MAX_FILTERS`] filters, and increments counters. There is no ring and no
//! buffer, no packet is copied, and the application does nothing per packet. The counters are memory that it
//! shares with the kernel, one set per processor. Packets that no filter accepts count only in the total.
//!
//! A user without the privilege to attach programs counts with a packet socket instead, in a thread of this
//! process that examines every packet. Packets that arrive too fast for it are counted as lost.
//! [`Statistics::describe`] reports which of both is used.
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
mod socket;

use std::time::{Duration, Instant};

use ringtap_filter::Program;
use ringtap_filter::ebpf::AssembleError;
use ringtap_filter::ebpf::lower::LowerError;
use ringtap_sys::bpf::{self, Feature, Features, Kernel};
use ringtap_sys::netlink::Netlink;
use ringtap_sys::privileges::Capability;

use crate::engines::{Device, DropCounters, Engine};
use crate::hook::{
    Announced, Attached, Hook, HookChoice, HookDevice, HookError, HookPoint, Sight, Thieves,
    Wanted, attach,
};
use crate::{Direction, Error, Filter, LinkType, MAX_SNAPLEN, Mode, OptionError, Result};
pub(crate) use counters::{Counters, slot_offset};
pub use describe::StatDescription;
use program::Emission;
use socket::SocketCounters;

/// The engine that counts by reason.
const DROPS: &str = "drop";

/// The maximum number of filters in one program.
pub const MAX_FILTERS: usize = 256;

ringtap_packet::options! {
    /// Options of [`Statistics`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StatOptions {
        /// Whether packets that match a filter also go on to the host.
        pub mode: Mode,
        /// The direction of packets. Only received packets can be stolen.
        pub direction: Direction,
        /// Whether to steal even if the host's connections use the device.
        pub force: bool,
        /// Whether [`Statistics::begin`] starts the counting thread if no hook counts, so that privileges can be
        /// given up before.
        pub begins_later: bool,
    }
}

/// The reasons why statistics failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatError {
    /// The engine has no hook.
    #[error("{device}: engine {engine} does not count; use xdp, tcx, packet or none")]
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
    /// Several filters on dropped packets, which are counted by reason.
    #[error(
        "{device}: dropped packets are counted by reason; one filter selects them, not {found}"
    )]
    DropFilters {
        /// The device as given.
        device: String,
        /// The number of filters.
        found: usize,
    },
    /// Packets at the hook have another link type than the filters.
    #[error("{device}: packets of link type {link_type} cannot be counted by filters")]
    LinkType {
        /// The device.
        device: String,
        /// The link type in a capture.
        link_type: LinkType,
    },
    /// Too many filters.
    #[error("{found} filters; one program counts {MAX_FILTERS}")]
    TooMany {
        /// Their number.
        found: usize,
    },
    /// A filter tests a property that is unknown at the hook, or is too long.
    #[error("filter {number} ({expression}): {source}")]
    Filter {
        /// Its number, from 1.
        number: usize,
        /// Its expression.
        expression: String,
        /// The property.
        r#source: LowerError,
    },
    /// The filters together need jumps that the kernel does not support.
    #[error("the filters together: {0}")]
    Assemble(AssembleError),
    /// There is no privilege for a hook or for a packet socket.
    #[error("{hook}; nor by a packet socket: {socket}")]
    NoWay {
        /// The reason for the hook.
        hook: Box<Error>,
        /// The reason for the socket.
        socket: Box<Error>,
    },
}

impl From<AssembleError> for StatError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(error)
    }
}

/// Packets, and their bytes on the wire (without frame check sequence, with VLAN tags).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets. At tcx, packets that receive offload has merged count as one.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(before.packets),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }
}

/// The counts of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its exact length, to divide by.
    pub elapsed: Duration,
    /// The counts by filter, in their order; of dropped packets, by reason ([`Statistics::reasons`]).
    pub filters: Vec<Count>,
    /// All packets at the hook, or of the socket.
    pub total: Count,
    /// Packets that came and are in none of these counts: none at a hook; at a socket, those for which the
    /// ring was full; dropped packets that the program could not read. `None` if the kernel does not report it.
    pub lost: Option<u64>,
    /// Packets that the interface received while none reached the hook, since another program took them
    /// earlier. `None` if unknown. [`Statistics::look`] updates it.
    pub before_hook: Option<u64>,
}

impl Interval {
    /// Returns zero counts for this number of filters.
    fn of(filters: usize) -> Self {
        Self {
            filters: vec![Count::default(); filters],
            ..Self::default()
        }
    }
}

/// Counting filters. Dropping them removes them from the kernel.
#[derive(Debug)]
pub struct Statistics {
    way: Way,
    opened: Instant,
    read_at: Instant,
    /// The counts at the last reading.
    before: Interval,
    /// The counts since the last reading.
    interval: Interval,
    description: StatDescription,
}

/// The counting mechanism.
#[derive(Debug)]
enum Way {
    /// A program at hooks.
    Hooks {
        attached: Attached,
        counters: Counters,
        /// Where received packets are counted.
        received: Option<Box<Received>>,
        /// The captures from which the program takes packets.
        _announced: Announced,
    },
    /// A thread that reads a socket.
    Socket(SocketCounters),
    /// A program at the tracepoint of dropped packets.
    Drops(DropCounters),
}

/// Whether received packets reach the program.
#[derive(Debug)]
struct Received {
    sight: Sight,
    /// Captures that take packets earlier. `None` if nothing can come earlier.
    thieves: Option<Thieves>,
    /// Packets until the last check.
    before: u64,
}

impl Received {
    /// Returns the sign of received packets. `None` if programs see only sent packets.
    fn at(
        attached: &Attached,
        device: &HookDevice,
        thieves: Option<Thieves>,
    ) -> Result<Option<Self>> {
        let places = || attached.hooks.iter().map(Hook::place);
        if !places().any(HookPoint::is_ingress) {
            return Ok(None);
        }
        let netlink = Netlink::open().map_err(Error::interface(&device.name))?;
        let is_first = places().all(|place| place.is_xdp() || !place.is_ingress());
        Ok(Some(Self {
            sight: Sight::new(netlink, device.index),
            thieves: thieves.filter(|_| !is_first),
            before: 0,
        }))
    }
}

/// The request in the device's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A hook, or whatever is available if no engine is named.
    Hook(HookChoice),
    /// A packet socket.
    Socket,
}

impl Statistics {
    /// Counts on `device` from the return on: `eth0`, `xdp:eth0`, `tcx:eth0`, `packet:eth0`. Unless the
    /// options differ, received and sent packets are counted, and go on to the host.
    ///
    /// A device without an engine is counted at a hook, else by a packet socket. A hook needs CAP_BPF,
    /// CAP_NET_ADMIN and CAP_PERFMON, a socket CAP_NET_RAW, until this returns. Call it in the network
    /// namespace of the device.
    ///
    /// # Errors
    /// An invalid filter, or one that the hook does not support; a device without support; a failed system
    /// call.
    pub fn open(device: &str, filters: &[Filter], options: &StatOptions) -> Result<Self> {
        Self::open_on(&Kernel::running(), device, filters, options)
    }

    /// The same as [`Statistics::open`], with a restricted kernel, for tests of other kernels.
    ///
    /// # Errors
    /// The same errors as [`Statistics::open`].
    #[doc(hidden)]
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
        let drops = Device::parse(device)?;
        if drops.engine.is_some_and(|engine| engine.name == DROPS) {
            return Self::at_drops(kernel, &drops, filters, options);
        }
        let (name, asked) = asked_of(device)?;
        let mut device = HookDevice::find(name)?;
        let programs = compile(&device, filters)?;
        let hook = match asked {
            Asked::Socket => return Self::by_socket(&device, programs, options, None),
            Asked::Hook(hook) => hook,
        };
        if hook.may_be_xdp() {
            device = device.restoring_tags()?;
        }
        match Self::at_hook(kernel, &device, hook, &programs, filters, options) {
            Err(error) if hook == HookChoice::Automatic && is_obstacle(&error, options) => {
                let socket = Self::by_socket(&device, programs, options, Some(&error));
                socket.map_err(|socket| both(error, socket))
            }
            outcome => outcome,
        }
    }

    fn at_drops(
        kernel: &Kernel,
        device: &Device<'_>,
        filters: &[Filter],
        options: &StatOptions,
    ) -> Result<Self> {
        let found = filters.len();
        if found > 1 {
            let device = device.given.to_owned();
            return Err(StatError::DropFilters { device, found }.into());
        }
        if options.mode == Mode::Steal {
            return Err(OptionError::CannotSteal { engine: DROPS }.into());
        }
        let counters = DropCounters::open(kernel, device, filters.first(), options.direction)?;
        let slots = counters.names().len();
        let description = StatDescription::of_drops(device.given);
        Ok(Self::new(Way::Drops(counters), slots, description))
    }

    /// Returns the names of the counts in [`Interval::filters`], if packets are counted by reason (`drop:`).
    /// Empty if they are counted by filter.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        match &self.way {
            Way::Drops(counters) => counters.names(),
            _ => &[],
        }
    }

    fn by_socket(
        device: &HookDevice,
        programs: Vec<Program>,
        options: &StatOptions,
        reason: Option<&Error>,
    ) -> Result<Self> {
        let filters = programs.len();
        let (mut counters, description) = SocketCounters::open(device, programs, options, reason)?;
        if !options.begins_later {
            counters.begin();
        }
        Ok(Self::new(Way::Socket(counters), filters, description))
    }

    fn at_hook(
        kernel: &Kernel,
        device: &HookDevice,
        hook: HookChoice,
        programs: &[Program],
        filters: &[Filter],
        options: &StatOptions,
    ) -> Result<Self> {
        let features = Features::probe(kernel);
        let failed = |source| HookError::Bpf {
            device: device.name.clone(),
            source,
        };
        let counters = Counters::create(kernel, programs.len()).map_err(failed)?;
        let emission = Emission {
            programs,
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
            // A user who requests XDP gets it, and a note reports what it does not see.
            reads_tags_at_xdp: hook == HookChoice::Xdp || device.tag_restorer.is_some(),
            stamps: None,
        };
        let code = emission.code(filters)?;
        let thieves = Thieves::listen(Some(device.index));
        let attached = attach(kernel, device, &wanted, &mut |place| {
            let (kind, instructions) = code.of(place);
            let name = "ringtap_stat";
            if place.is_xdp() && device.tag_restorer.is_some() {
                let index = device.index;
                return bpf::Program::load_for_device(kernel, name, kind, instructions, index);
            }
            bpf::Program::load(kernel, name, kind, instructions)
        })?;
        let announced = match options.mode {
            // Without a filter nothing is stolen.
            Mode::Steal if !filters.is_empty() => attached.announce(false, thieves.as_ref()),
            _ => Announced::default(),
        };
        let mut description = StatDescription::new(device, &attached, options);
        description
            .notes
            .extend(announced.note().map(|note| note.to_string()));
        let received = Received::at(&attached, device, thieves)?.map(Box::new);
        let way = Way::Hooks {
            attached,
            counters,
            received,
            _announced: announced,
        };
        Ok(Self::new(way, filters.len(), description))
    }

    fn new(way: Way, filters: usize, description: StatDescription) -> Self {
        let opened = Instant::now();
        Self {
            way,
            opened,
            read_at: opened,
            before: Interval::of(filters),
            interval: Interval::of(filters),
            description,
        }
    }

    /// Starts the counting thread, if there is one and [`StatOptions::begins_later`] is set; so does the
    /// first reading. Until then packets wait in the socket's ring.
    pub fn begin(&mut self) {
        if let Way::Socket(counters) = &mut self.way {
            counters.begin();
        }
    }

    /// Returns the counts since the last reading, or since the opening. It does not allocate; at a hook its
    /// only system call reads the clock, unless packets do not reach the hook. A socket's packet is counted
    /// at most 10 ms after it came, if the counting thread keeps up.
    pub fn read(&mut self) -> &Interval {
        self.begin();
        let now = Instant::now();
        let interval = &mut self.interval;
        interval.elapsed = now - self.read_at;
        self.read_at = now;
        let slots = interval.filters.iter_mut().zip(&mut self.before.filters);
        for (slot, (count, before)) in slots.enumerate() {
            let current = self.way.filter(slot);
            *count = current.since(*before);
            *before = current;
        }
        let current = self.way.total();
        interval.total = current.since(self.before.total);
        self.before.total = current;
        let lost = self.way.lost();
        let before = self.before.lost.unwrap_or_default();
        interval.lost = lost.map(|lost| lost.saturating_sub(before));
        self.before.lost = lost.or(self.before.lost);
        let missed = self.way.before_hook();
        let before = self.before.before_hook.unwrap_or_default();
        interval.before_hook = missed.map(|missed| missed.saturating_sub(before));
        // Unknown once, it is unknown for the whole.
        self.before.before_hook = missed;
        self.before.elapsed = now - self.opened;
        interval
    }

    /// Ends counting by a socket, after waiting packets have been counted: for a complete last reading. It
    /// takes some 20 ms, at most a second. At a hook no packets wait, and counting continues.
    pub fn settle(&mut self) {
        if let Way::Socket(counters) = &mut self.way {
            counters.settle();
        }
    }

    /// Returns the result of the last reading.
    #[must_use]
    pub fn last(&self) -> &Interval {
        &self.interval
    }

    /// Returns the counts from the opening to the last reading.
    #[must_use]
    pub fn totals(&self) -> &Interval {
        &self.before
    }

    /// Returns whether the filters are still attached: false if the device was removed. One or two system
    /// calls.
    #[must_use]
    pub fn is_attached(&mut self) -> bool {
        match &mut self.way {
            Way::Hooks { attached, .. } => attached.hooks.iter_mut().all(Hook::is_attached),
            Way::Socket(counters) => counters.is_attached(),
            Way::Drops(_) => true,
        }
    }

    /// Returns a change in whether received packets reach the hook: [`Error::Blind`] if another program takes
    /// them earlier, [`Error::SeesAgain`] if they come again. Also returns other captures that take packets
    /// earlier, [`Error::TakenBefore`], and their end, [`Error::TakenNoMore`]. Call it about once a second.
    /// `None` if a socket counts, or only sent packets are counted.
    pub fn look(&mut self) -> Option<Error> {
        let Way::Hooks {
            attached,
            counters,
            received: Some(watched),
            ..
        } = &mut self.way
        else {
            return None;
        };
        if let Some(news) = watched.thieves.as_mut().and_then(Thieves::look) {
            return Some(news.into_error(self.description.device.clone()));
        }
        if !watched.sight.is_due() {
            return None;
        }
        let mut hooks = attached.hooks.iter();
        let hook = hooks.find(|hook| hook.place().is_ingress())?;
        let received = counters.load(counters.total_slot(true)).packets;
        let has_run = std::mem::replace(&mut watched.before, received) != received;
        let device = self.description.device.clone();
        let change = watched.sight.look(has_run);
        change.map(|change| change.into_error(device, hook.place()))
    }

    /// Returns the capabilities to keep after privileges are given up, so that everything is removed at the
    /// end. Empty if the kernel does that by itself.
    #[must_use]
    pub fn required_capabilities(&self) -> &'static [Capability] {
        match &self.way {
            Way::Hooks { attached, .. } => attached.required_capabilities(),
            Way::Socket(_) | Way::Drops(_) => &[],
        }
    }

    /// Removes the programs. This is for the copy of a process after fork(2) that still has the
    /// [`Statistics::required_capabilities`].
    pub fn detach(&mut self) {
        if let Way::Hooks { attached, .. } = &mut self.way {
            attached.hooks.clear();
        }
    }

    /// Returns where and how it counts, with the reasons.
    #[must_use]
    pub fn describe(&self) -> &StatDescription {
        &self.description
    }
}

impl Way {
    fn filter(&self, slot: usize) -> Count {
        match self {
            Self::Hooks { counters, .. } => counters.load(slot),
            Self::Socket(counters) => counters.load(slot),
            Self::Drops(counters) => counters.load(slot),
        }
    }

    fn total(&self) -> Count {
        match self {
            Self::Hooks { counters, .. } => counters.total(),
            Self::Socket(counters) => counters.total(),
            Self::Drops(counters) => counters.total(),
        }
    }

    fn before_hook(&mut self) -> Option<u64> {
        match self {
            Self::Hooks { received, .. } => {
                let received = received.as_mut()?;
                let is_known = !received.thieves.as_ref().is_some_and(Thieves::hide_some);
                is_known.then(|| received.sight.missed())
            }
            Self::Socket(_) | Self::Drops(_) => None,
        }
    }

    fn lost(&self) -> Option<u64> {
        match self {
            Self::Hooks { .. } => Some(0),
            Self::Socket(counters) => counters.lost(),
            Self::Drops(counters) => counters.lost(),
        }
    }
}

/// Returns the interface's name, and the request in the device's name.
fn asked_of(given: &str) -> Result<(&str, Asked)> {
    let device = Device::parse(given)?;
    let asked = match device.engine.map(|engine: &Engine| engine.name) {
        None => Asked::Hook(HookChoice::Automatic),
        Some("packet") => Asked::Socket,
        Some("xdp") => Asked::Hook(HookChoice::Xdp),
        Some("tcx") => Asked::Hook(HookChoice::Tcx),
        Some(engine) => {
            let device = given.to_owned();
            return Err(StatError::Engine { device, engine }.into());
        }
    };
    if device.name == "any" {
        let device = given.to_owned();
        return Err(StatError::Any { device }.into());
    }
    Ok((device.name, asked))
}

/// Returns whether a socket may count if no hook does.
fn is_obstacle(error: &Error, options: &StatOptions) -> bool {
    let by_hook = matches!(
        error,
        Error::Hook(_) | Error::Stat(StatError::Filter { .. } | StatError::Assemble(_))
    );
    by_hook && options.mode == Mode::Copy
}

/// Returns the error if neither way works.
fn both(hook: Error, socket: Error) -> Error {
    if !hook.is_permission_denied() {
        return hook;
    }
    let (hook, socket) = (Box::new(hook), Box::new(socket));
    StatError::NoWay { hook, socket }.into()
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
    fn devices_choose_what_counts() {
        for (device, name, asked) in [
            ("eth0", "eth0", Asked::Hook(HookChoice::Automatic)),
            ("xdp:eth0", "eth0", Asked::Hook(HookChoice::Xdp)),
            ("tcx:eth0", "eth0", Asked::Hook(HookChoice::Tcx)),
            ("packet:eth0", "eth0", Asked::Socket),
        ] {
            assert_eq!(asked_of(device).unwrap(), (name, asked), "{device}");
        }
        for (device, text) in [
            (
                "xsk:eth0",
                "xsk:eth0: engine xsk does not count; use xdp, tcx, packet or none",
            ),
            ("any", "any: count on one interface; \"any\" has no hook"),
            (
                "packet:any",
                "packet:any: count on one interface; \"any\" has no hook",
            ),
        ] {
            assert_eq!(asked_of(device).unwrap_err().to_string(), text);
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

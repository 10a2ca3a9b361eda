//! Statistics mode: packets and bytes counted by filter in the kernel, nothing captured.
//!
//! What it is: up to [`MAX_FILTERS`] filters in one program at a hook, and counters that it adds to.
//! There is no ring and no buffer, no packet is copied, and the application does nothing per
//! packet: the counters are memory that it shares with the kernel, one set a processor, and reading
//! them is reading memory. What it is not: it stores nothing; packets that no filter accepts are in
//! the total only.
//!
//! Who has no right to attach programs counts by a packet socket instead, in a thread of this process
//! that looks at every packet; what comes too fast for it is told as lost. [`Statistics::describe`]
//! says which of both it is.
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

use crate::engines::{Device, Engine};
use crate::hook::{
    Announced, Attached, Change, Hook, HookChoice, HookDevice, HookError, HookPoint, Sight,
    Thieves, Wanted, attach,
};
use crate::{Direction, Error, Filter, LinkType, MAX_SNAPLEN, Mode, Result};
use counters::Counters;
pub use describe::StatDescription;
use program::Emission;
use socket::SocketCounters;

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
    /// Whether a thread that counts, where no hook does, is left to [`Statistics::begin`]: so that
    /// privileges can be given up before.
    pub begins_later: bool,
}

/// Why statistics could not be had of a device.
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
        r#source: LowerError,
    },
    /// The filters together make a program with jumps that the kernel does not have.
    #[error("the filters together: {0}")]
    Assemble(AssembleError),
    /// There is neither the right to a hook nor to a packet socket.
    #[error("{hook}; nor by a packet socket: {socket}")]
    NoWay {
        /// Why not at a hook.
        hook: Box<Error>,
        /// Why not by a socket.
        socket: Box<Error>,
    },
}

impl From<AssembleError> for StatError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(error)
    }
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

/// What was counted in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The true length of it, to divide by.
    pub elapsed: Duration,
    /// By filter, in their order.
    pub filters: Vec<Count>,
    /// All packets at the hook, or of the socket.
    pub total: Count,
    /// Packets that came and are in none of these counts: none at a hook, those that found no room at
    /// a socket; nothing where the kernel does not tell.
    pub lost: Option<u64>,
    /// Packets that the interface received while none reached the hook, since another program took them
    /// before; nothing where that is not known. Found out by [`Statistics::look`].
    pub before_hook: Option<u64>,
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
    way: Way,
    opened: Instant,
    read_at: Instant,
    /// As they were at the last reading.
    before: Interval,
    /// Since the last reading.
    interval: Interval,
    description: StatDescription,
}

/// What counts.
#[derive(Debug)]
enum Way {
    /// A program at hooks.
    Hooks {
        attached: Attached,
        counters: Counters,
        /// Where received packets are counted.
        received: Option<Box<Received>>,
        /// The captures that the program takes packets away from.
        _announced: Announced,
    },
    /// A thread that reads a socket.
    Socket(SocketCounters),
}

/// Whether received packets reach the program.
#[derive(Debug)]
struct Received {
    sight: Sight,
    /// Captures that take packets away before; `None` where nothing can come before.
    thieves: Option<Thieves>,
    /// Packets until the last look.
    before: u64,
}

impl Received {
    /// Nothing where programs see sent packets only.
    fn at(
        attached: &Attached,
        device: &HookDevice,
        thieves: Option<Thieves>,
    ) -> Result<Option<Self>> {
        let places = || attached.hooks.iter().map(Hook::place);
        if !places().any(HookPoint::is_ingress) {
            return Ok(None);
        }
        let netlink = Netlink::open().map_err(|source| Error::Interface {
            device: device.name.clone(),
            source,
        })?;
        let is_first = places().all(|place| place.is_xdp() || !place.is_ingress());
        Ok(Some(Self {
            sight: Sight::new(netlink, device.index),
            thieves: thieves.filter(|_| !is_first),
            before: 0,
        }))
    }
}

/// What the device asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A hook, or by no engine's name whatever there is.
    Hook(HookChoice),
    /// A packet socket.
    Socket,
}

impl Statistics {
    /// Counts on `device` from the return on: `eth0`, `xdp:eth0`, `tcx:eth0`, `packet:eth0`. Received
    /// and sent packets are counted, and go on to the host, unless the options say otherwise.
    ///
    /// A device that names no engine is counted on at a hook, else by a packet socket. The former needs
    /// CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, the latter CAP_NET_RAW, until it returns. To be called
    /// in the network namespace of the device.
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
            // Who asks for XDP gets it, and is told what it does not see.
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
            // Without a filter nothing is taken.
            Mode::Steal if !filters.is_empty() => attached.announce(false, thieves.as_ref()),
            _ => Announced::default(),
        };
        let mut description = StatDescription::new(device, &attached, options, &features);
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

    /// Starts the thread that counts, where there is one and [`StatOptions::begins_later`] has left it
    /// to this; so does the first reading. Until then packets wait in the socket's ring.
    pub fn begin(&mut self) {
        if let Way::Socket(counters) = &mut self.way {
            counters.begin();
        }
    }

    /// What was counted since the last reading, or since the opening. Nothing is allocated; at a hook
    /// there is no system call but for the clock, unless packets do not reach it. A socket's packet is counted 10 ms after it came at
    /// the latest, if the thread that counts keeps up.
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
        // Not known once, it is not known for the whole.
        self.before.before_hook = missed;
        self.before.elapsed = now - self.opened;
        interval
    }

    /// Ends counting by a socket, after what is on its way has been counted: for a last reading that
    /// leaves nothing out. It takes some 20 ms, a second at most. At a hook there is nothing on
    /// its way, and counting goes on.
    pub fn settle(&mut self) {
        if let Way::Socket(counters) = &mut self.way {
            counters.settle();
        }
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
        match &mut self.way {
            Way::Hooks { attached, .. } => attached.hooks.iter_mut().all(Hook::is_attached),
            Way::Socket(counters) => counters.is_attached(),
        }
    }

    /// Returns a change in whether received packets reach the hook: [`Error::Blind`] where another
    /// program takes them before, [`Error::SeesAgain`] where they come again; and other captures that
    /// take packets before, [`Error::TakenBefore`], with their end, [`Error::TakenNoMore`]. To be asked about once a
    /// second; nothing where a socket counts, or sent packets only.
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
        let (device, hook) = (self.description.device.clone(), hook.place().to_string());
        watched.sight.look(has_run).map(|change| match change {
            Change::Blind { packets } => Error::Blind {
                device,
                hook,
                packets,
            },
            Change::Sees { packets } => Error::SeesAgain {
                device,
                hook,
                packets,
            },
        })
    }

    /// Capabilities to keep after privileges are given up, so that all is taken away at the end;
    /// none where the kernel does that by itself.
    #[must_use]
    pub fn required_capabilities(&self) -> &'static [Capability] {
        match &self.way {
            Way::Hooks { attached, .. } => attached.required_capabilities(),
            Way::Socket(_) => &[],
        }
    }

    /// Where and how it counts, with the reasons.
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
        }
    }

    fn total(&self) -> Count {
        match self {
            Self::Hooks { counters, .. } => counters.total(),
            Self::Socket(counters) => counters.total(),
        }
    }

    fn before_hook(&mut self) -> Option<u64> {
        match self {
            Self::Hooks { received, .. } => {
                let received = received.as_mut()?;
                let is_known = !received.thieves.as_ref().is_some_and(Thieves::hide_some);
                is_known.then(|| received.sight.missed())
            }
            Self::Socket(_) => None,
        }
    }

    fn lost(&self) -> Option<u64> {
        match self {
            Self::Hooks { .. } => Some(0),
            Self::Socket(counters) => counters.lost(),
        }
    }
}

/// The interface's name, and what the device asks for.
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

/// Whether a socket may count what no hook does.
fn is_obstacle(error: &Error, options: &StatOptions) -> bool {
    let by_hook = matches!(
        error,
        Error::Hook(_) | Error::Stat(StatError::Filter { .. } | StatError::Assemble(_))
    );
    by_hook && options.mode == Mode::Copy
}

/// What is told where neither way counts.
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

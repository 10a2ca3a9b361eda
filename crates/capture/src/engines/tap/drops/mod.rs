//! Engine `drop`: the packets that the kernel drops, with the reason and the place.
//!
//! A program at the tracepoint `kfree_skb` (it needs no function that can be probed) runs for each packet
//! that the kernel frees for another reason than that it was used. It copies the packet to memory of its
//! processor ([`super::program::drops`]), filters it, and writes a record to the tap's ring. The reader gives
//! names to the numbers in records ([`notes`]).
//!
//! It needs Linux 5.17, whose tracepoint has a reason, and the kernel's types. `drop:` captures on all interfaces
//! of all network namespaces, `drop:eth0` on one.

mod count;
mod facts;
mod notes;
mod xdp;

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::lower::scratch;
use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, Tracepoint, possible_cpus};
use ringtap_sys::netlink::{Link, LinkWatch, Netlink};
use ringtap_sys::netns::Namespace;
use ringtap_sys::symbols::KernelSymbols;
use ringtap_sys::tap::{Control, Doorbell};

use super::TapSource;
use super::open::{Start, note_of};
use super::plan::{Bound, Form, Programs};
use super::program::drops::{Drops, OPTION_BYTES};
use super::program::largest_record;
use super::rings::RingSet;
use crate::describe::{KernelClock, Note};
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::{AllLosses, InterfaceLosses, Target};
use crate::engines::{Device, Request};
use crate::hook::{HookError, HookPoint, Side};
use crate::options::{CaptureOptions, Mode, OptionError, TimestampSource};
use crate::readers::Readers;
use crate::stats::XdpLosses;
use crate::{Error, Filter, Interface, LinkType, Result};
pub(crate) use count::DropCounters;
pub(crate) use facts::Facts;
use notes::Notes;
use xdp::XdpCounters;

/// The engine's name, and that of its interface in capture files.
const ENGINE: &str = "drop";
/// The form of records.
pub(super) const FORM: Form = Form::own(LinkType::LINUX_SLL2);
/// Stands for the tracepoint where a program's place is asked for.
pub(super) const PLACE: HookPoint = HookPoint::Tcx(Side::Ingress);

/// The state of a capture of dropped packets, beside its rings.
pub(super) struct DropTap {
    /// The settings of programs.
    pub(super) settings: Drops,
    /// The program at the tracepoint.
    attached: Option<(bpf::Program, Tracepoint)>,
    /// The runs that the kernel left out, of earlier programs.
    missed_before: u64,
    pub(super) notes: Notes,
    /// Counts losses before the kernel has a buffer: by adapters, and at XDP. `None` for one interface.
    adapters: Option<AllLosses>,
    xdp: Option<XdpCounters>,
    /// Held for its programs.
    _scratch: Map,
}

impl DropTap {
    /// Attaches a program in place of the present one.
    pub(super) fn attach(&mut self, kernel: &Kernel, program: bpf::Program) -> bpf::Result<()> {
        let point = Tracepoint::at_function(kernel, &program)?;
        let missed = self.missed();
        let before = self.attached.replace((program, point));
        if before.is_some() {
            self.missed_before = missed.unwrap_or(self.missed_before);
        }
        Ok(())
    }

    /// Takes the program away from the tracepoint.
    pub(super) fn detach(&mut self) {
        self.missed_before = self.missed().unwrap_or(self.missed_before);
        self.attached = None;
    }

    /// Returns the packets whose run the kernel left out, since the program was running on their processor.
    /// `None` if the kernel does not report it.
    pub(super) fn missed(&self) -> Option<u64> {
        let Some((program, _)) = &self.attached else {
            return Some(self.missed_before);
        };
        let info = program.info().ok()?;
        Some(self.missed_before + info.recursion_misses)
    }

    /// Returns the packets that adapters have lost since the opening.
    pub(super) fn lost_by_adapters(&mut self) -> Option<u64> {
        self.adapters.as_mut().and_then(AllLosses::since_opening)
    }

    /// Returns the packets that were lost at XDP since the opening.
    pub(super) fn lost_at_xdp(&self) -> Option<XdpLosses> {
        self.xdp.as_ref().map(XdpCounters::load)
    }

    /// Returns another handle to the program.
    pub(super) fn programs(&self) -> bpf::Result<Vec<bpf::Program>> {
        let attached = self.attached.iter();
        attached.map(|(program, _)| program.try_clone()).collect()
    }
}

/// Loads the smallest program.
pub(crate) fn trial(kernel: &Kernel) -> bpf::Result<()> {
    let Ok(facts) = Facts::of_kernel() else {
        // The missing feature has its own message.
        return bpf::Feature::DropReasons.check(kernel);
    };
    let options = CaptureOptions::default();
    let (settings, _scratch) = settings(kernel, facts, None, &options)?;
    let rings = RingSet::create(kernel, || vec![0], 1, record())?;
    let (control, doorbell) = (Control::create(kernel)?, Doorbell::create(kernel)?);
    let programs = Programs {
        kernel,
        device: Bound::ANY,
        home: None,
        plan: &FilterPlan::new(None, &options),
        options: &options,
        room: scratch::BYTES,
        geometry: rings.geometry(),
        maps: rings.maps(&control, &doorbell),
        drops: Some(&settings),
    };
    let (program, _) = programs.load_or_older(FORM, PLACE, KernelClock::Tai)?;
    let point = Tracepoint::at_function(kernel, &program)?;
    drop(point);
    Ok(())
}

/// Returns the bytes of the largest record.
pub(super) fn record() -> u32 {
    largest_record(scratch::BYTES) + u32::from(OPTION_BYTES.unsigned_abs())
}

/// Returns the settings of programs, and the map of their memory.
fn settings(
    kernel: &Kernel,
    facts: &Facts,
    only: Option<(u32, u32)>,
    options: &CaptureOptions,
) -> bpf::Result<(Drops, Map)> {
    let processors = u32::try_from(possible_cpus()).unwrap_or(u32::MAX);
    let spec = MapSpec::new(
        "ringtap_scratch",
        MapKind::ARRAY,
        scratch::VALUE,
        processors,
    );
    let map = Map::create(kernel, &spec)?;
    let drops = Drops {
        layout: facts.layout,
        reasons: facts.reasons.clone(),
        tracepoint: facts.tracepoint,
        scratch: map.as_fd().as_raw_fd(),
        only,
        direction: options.direction,
    };
    Ok((drops, map))
}

/// Checks everything that can be rejected before anything is created.
fn plan(options: &CaptureOptions, filter: Option<&Filter>) -> Result<FilterPlan> {
    options.validate()?;
    let engine = ENGINE;
    if options.fanout.is_some() {
        return Err(OptionError::SharedTap { engine }.into());
    }
    if options.mode == Mode::Steal {
        return Err(OptionError::CannotSteal { engine }.into());
    }
    if options.timestamp == TimestampSource::Adapter {
        return Err(OptionError::AdapterClockAtSocket { engine }.into());
    }
    check_processes(filter, options)?;
    FilterPlan::of_dropped(filter, options)
}

/// Opens a capture of dropped packets. It has one reader.
pub(crate) fn open(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let plan = plan(request.options, request.filter)?;
    let mut source = prepare(device, request, plan)?;
    source.attach_to_drops()?;
    Ok(Readers::of_one(source))
}

/// The facts about the system at the opening.
struct Known {
    netlink: Netlink,
    links: Vec<Link>,
    target: Target,
    namespace: u64,
}

impl Known {
    fn find(device: &Device<'_>) -> Result<Self> {
        let failed = Error::interface(device.given);
        let mut netlink = Netlink::open().map_err(failed)?;
        let target = Target::find(&mut netlink, device.name, device.given)?;
        Ok(Self {
            links: netlink.links().map_err(failed)?,
            netlink,
            target,
            namespace: Namespace::current()?.inode()?,
        })
    }

    /// Returns the only interface, and its namespace.
    fn only(&self) -> Option<(u32, u32)> {
        match &self.target {
            Target::Any => None,
            Target::One(link) => Some((link.index, u32::try_from(self.namespace).ok()?)),
        }
    }
}

/// Returns the interface of the capture as files describe it.
fn interface(target: &Target, options: &CaptureOptions, filter: Option<&Filter>) -> Interface {
    let mut interface = Target::Any.description(LinkType::LINUX_SLL2, options.snaplen);
    let only = match target {
        Target::Any => String::new(),
        Target::One(_) => target.name(),
    };
    interface.name = Some(format!("{ENGINE}:{only}"));
    interface.description = Some("packets that the kernel dropped".to_owned());
    interface.filter = filter.map(Filter::for_file);
    interface
}

/// Makes everything but the program.
fn prepare(device: &Device<'_>, request: Request<'_>, plan: FilterPlan) -> Result<TapSource> {
    let (options, name) = (request.options, device.given);
    let facts = Facts::of_kernel().map_err(|feature| Error::KernelLacks {
        device: name.to_owned(),
        engine: ENGINE,
        feature,
    })?;
    let watch = LinkWatch::open().map_err(Error::interface(name))?;
    let known = Known::find(device)?;
    let kernel = device.host().kernel;
    let scratch = settings(&kernel, facts, known.only(), options);
    let (settings, scratch) = scratch.map_err(|source| HookError::of_bpf(name, source))?;
    let symbols = KernelSymbols::read();
    let hidden = symbols.as_ref().err();
    let hidden = hidden.map(|error| Note::NoSymbols(error.to_string()));
    let notes = Notes::new(&facts.names, symbols.ok(), known.namespace, &known.links);
    let mut tap = TapSource::new(Start {
        engine: ENGINE,
        device,
        name,
        bound: Bound::ANY,
        options,
        room: scratch::BYTES,
        record: record(),
        interfaces: vec![interface(&known.target, options, request.filter)],
        plan,
        netlink: known.netlink,
        watch,
    })?;
    tap.kernel_clock = tap.kernel_clock.by_packet();
    // A socket of its own: the other one is for names.
    let own = Netlink::open().map_err(Error::interface(name))?;
    let (adapters, xdp, losses) = match known.target {
        Target::Any => {
            let adapters = AllLosses::new(own, &known.links);
            (Some(adapters), XdpCounters::open(&kernel), None)
        }
        Target::One(_) => (None, None, InterfaceLosses::new(own, &known.target)),
    };
    tap.losses = losses;
    tap.drops = Some(DropTap {
        settings,
        attached: None,
        missed_before: 0,
        notes,
        adapters,
        xdp,
        _scratch: scratch,
    });
    tap.notes.extend(hidden);
    tap.notes.extend(note_of(tap.owners.as_ref()));
    Ok(tap)
}

impl TapSource {
    /// Loads the program and attaches it, with the best clock that it can read.
    fn attach_to_drops(&mut self) -> Result<()> {
        self.set_clock(self.kernel_clock);
        let failed = |source| HookError::of_bpf(&self.device, source);
        let programs = self.programs();
        let loaded = programs.load_or_older(FORM, PLACE, self.kernel_clock);
        let (program, clock) = loaded.map_err(failed)?;
        self.kernel_clock = clock;
        self.set_clock(clock);
        if let Some(drops) = &mut self.drops {
            drops.attach(&self.kernel, program).map_err(failed)?;
        }
        Ok(())
    }

    /// Learns the names of new interfaces. Without them, their index is shown.
    pub(super) fn name_links(&mut self) {
        if let (Some(drops), Ok(links)) = (&mut self.drops, self.netlink.links()) {
            drops.notes.name_interfaces(&links);
        }
    }
}

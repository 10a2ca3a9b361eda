//! Opening a tap: rings first, then the programs, so that no packet finds a half-made capture.

use std::time::{Duration, Instant};

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{self, Hook as LoweringHook, LowerError, Vlan};
use ringtap_savefile::InterfaceTable;
use ringtap_sys::bpf::{self, Kernel, ProgramKind};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::packet::{LinkLayer, Promiscuous, TimestampSource};
use ringtap_sys::tap::{Clock, Control, Doorbell, Geometry};

use super::TapSource;
use super::program::{Maps, Tap, largest_record};
use super::reader::Reader;
use super::rings::RingSet;
use super::wait::{Pace, State};
use crate::describe::{self, FilterPlace, KernelClock, Memory, Note, UserSpaceReason};
use crate::engines::Device;
use crate::engines::interface::{InterfaceLosses, Target};
use crate::engines::link::link_of;
use crate::filter::{FilterTable, at_hook};
use crate::hook::{
    self, Attached, Hook, HookChoice, HookDevice, HookError, Place, TagRestorer, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, Precision};
use crate::{Description, Error, Filter, LinkType, Result, Source};

/// Opens a tap at tcx.
pub(crate) fn open_tcx(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    open("tcx", HookChoice::Tcx, device, options, filter)
}

/// Opens a tap at XDP.
pub(crate) fn open_xdp(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    if options.direction == Direction::Out {
        return Err(OptionError::SentAtXdp.into());
    }
    open("xdp", HookChoice::Xdp, device, options, filter)
}

/// Opens a tap where packets can be stolen best.
pub(crate) fn open_stealing(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    open("xdp", HookChoice::Automatic, device, options, filter)
}

/// A tap has one reader.
pub(crate) fn refuse_fanout(
    device: &Device<'_>,
    _: &CaptureOptions,
    _: Option<&Filter>,
    _: usize,
) -> Result<Vec<Box<dyn Source>>> {
    let engine = device.engine().name;
    Err(OptionError::SharedTap { engine }.into())
}

fn open(
    engine: &'static str,
    choice: HookChoice,
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    options.validate()?;
    if options.timestamp == TimestampSource::Adapter {
        return Err(OptionError::AdapterClockAtTap.into());
    }
    if device.name == "any" {
        return Err(OptionError::AnyAtTap { engine }.into());
    }
    let hook_device = HookDevice::find(device.name).map_err(|error| named(error, device))?;
    if !hook_device.is_up {
        return Err(Error::InterfaceDown {
            device: device.given.to_owned(),
        });
    }
    let (link_type, layer) = link_of(hook_device.hardware_type);
    if matches!(layer, LinkLayer::CookedV2 | LinkLayer::Netlink) {
        return Err(Error::NoLinkType {
            device: device.given.to_owned(),
            link_type,
        });
    }
    let opening = Opening::new(engine, device, hook_device, options, filter)?;
    Ok(Box::new(opening.attach(choice, options, filter)?))
}

/// Unknown devices are told by the text that the user gave.
fn named(error: Error, device: &Device<'_>) -> Error {
    match error {
        Error::NoSuchDevice { .. } => Error::NoSuchDevice {
            device: device.given.to_owned(),
        },
        other => other,
    }
}

pub(super) fn bpf_error(device: &str, source: bpf::Error) -> Error {
    Error::Hook(HookError::Bpf {
        device: device.to_owned(),
        source,
    })
}

/// A tap on the way.
struct Opening {
    engine: &'static str,
    kernel: Kernel,
    device: HookDevice,
    target: Target,
    netlink: Netlink,
    rings: RingSet,
    control: Control,
    doorbell: Doorbell,
    clock: Clock,
    room: u32,
    promiscuous: Option<Promiscuous>,
}

impl Opening {
    fn new(
        engine: &'static str,
        device: &Device<'_>,
        hook_device: HookDevice,
        options: &CaptureOptions,
        filter: Option<&Filter>,
    ) -> Result<Self> {
        if let Some(filter) = filter {
            // A filter that is none is told before anything is made.
            filter.compile(hook_device.link_type, options.snaplen)?;
        }
        let interface_error = |source| Error::Interface {
            device: device.given.to_owned(),
            source,
        };
        let mut netlink = Netlink::open().map_err(interface_error)?;
        let target = Target::find(&mut netlink, device.name, device.given)?;
        let kernel = Kernel::running();
        let room = target.largest_packet().min(MAX_SNAPLEN);
        let failed = |source| bpf_error(&hook_device.name, source);
        let rings =
            RingSet::create(&kernel, options.buffer, largest_record(room)).map_err(failed)?;
        let control = Control::create(&kernel).map_err(failed)?;
        let doorbell = Doorbell::create(&kernel).map_err(failed)?;
        let promiscuous = options
            .promiscuous
            .then(|| Promiscuous::join(&hook_device.name, hook_device.index))
            .transpose()?;
        Ok(Self {
            engine,
            kernel,
            target,
            netlink,
            rings,
            control,
            doorbell,
            clock: Clock::watch()?,
            room,
            promiscuous,
            device: hook_device,
        })
    }

    /// Lets packets in.
    fn attach(
        self,
        choice: HookChoice,
        options: &CaptureOptions,
        filter: Option<&Filter>,
    ) -> Result<TapSource> {
        let mut kernel_clock = clock_of(options);
        let link_type = self.device.link_type;
        let geometry = self.rings.geometry();
        let maps = self.rings.maps(&self.control, &self.doorbell);
        let plan = FilterPlan::compile(filter, link_type, self.device.index, options)?;
        set_clock(&self.control, kernel_clock);
        let wanted = Wanted {
            hook: choice,
            direction: if choice == HookChoice::Xdp {
                Direction::In
            } else {
                options.direction
            },
            mode: options.mode,
            force: options.force,
            // Who asks for XDP gets it, and is told what it does not see.
            reads_tags_at_xdp: choice == HookChoice::Xdp || self.device.tag_restorer.is_some(),
        };
        let attached = hook::attach(&self.kernel, &self.device, &wanted, &mut |place| {
            let plan = plan.for_place(place);
            let programs = Programs {
                kernel: &self.kernel,
                device: Bound::of(&self.device),
                plan: &plan,
                options,
                room: self.room,
                geometry,
                maps,
            };
            match programs.load(place, kernel_clock) {
                // Before Linux 6.1 programs cannot read atomic time.
                Err(error) if kernel_clock == KernelClock::Tai => {
                    let loaded = programs.load(place, KernelClock::Monotonic);
                    let program = loaded.map_err(|_| error)?;
                    kernel_clock = KernelClock::Monotonic;
                    set_clock(&self.control, kernel_clock);
                    Ok(program)
                }
                outcome => outcome,
            }
        })?;
        let plan = plan.for_hooks(&attached.hooks);
        let notes = notes(&attached, &self.device, &self.rings, options);
        let mut interface = self.target.description(link_type, options.snaplen);
        interface.filter = filter.map(Filter::for_file);
        let interfaces = [interface];
        let pace = Pace::new(self.rings.rings.len());
        Ok(TapSource {
            engine: engine_of(&attached, self.engine),
            bound: Bound::of(&self.device),
            device: self.device.name,
            kernel: self.kernel,
            reader: Reader::new(self.rings, !options.unordered, options.snaplen),
            control: self.control,
            doorbell: self.doorbell,
            clock: self.clock,
            kernel_clock,
            attached,
            waker: Waker::new()?,
            options: options.clone(),
            room: self.room,
            table: InterfaceTable::new(0, &interfaces),
            interfaces,
            plan,
            pace,
            losses: InterfaceLosses::new(
                Netlink::open().map_err(|source| Error::Interface {
                    device: self.target.name(),
                    source,
                })?,
                &self.target,
            ),
            netlink: self.netlink,
            state: State::Up,
            looked: Instant::now(),
            _promiscuous: self.promiscuous,
            notes,
        })
    }
}

/// The engine's name by the hook that was taken.
fn engine_of(attached: &Attached, asked: &'static str) -> &'static str {
    match attached.hooks.first().map(Hook::place) {
        Some(place) if place.is_xdp() => "xdp",
        Some(_) => "tcx",
        None => asked,
    }
}

fn clock_of(options: &CaptureOptions) -> KernelClock {
    match options.precision {
        Precision::Fine => KernelClock::Tai,
        Precision::Coarse => KernelClock::Coarse,
        Precision::None => KernelClock::None,
    }
}

/// Tells programs how far their clock is from the wall clock.
pub(super) fn set_clock(control: &Control, clock: KernelClock) {
    match clock {
        KernelClock::Tai => control.set_clock_offset(Clock::from_tai()),
        KernelClock::Monotonic | KernelClock::Coarse => {
            control.set_clock_offset(Clock::from_monotonic());
        }
        KernelClock::None => {}
    }
}

/// A filter, and whether hooks can run it.
#[derive(Clone, Debug)]
pub(super) struct FilterPlan {
    program: Option<Program>,
    table: Option<FilterTable>,
    /// Why a hook cannot.
    obstacle: Option<LowerError>,
}

impl FilterPlan {
    pub(super) fn new(
        filter: Option<&Filter>,
        link_type: LinkType,
        index: u32,
        hooks: &[Hook],
        options: &CaptureOptions,
    ) -> Result<Self> {
        Ok(Self::compile(filter, link_type, index, options)?.for_hooks(hooks))
    }

    fn compile(
        filter: Option<&Filter>,
        link_type: LinkType,
        index: u32,
        options: &CaptureOptions,
    ) -> Result<Self> {
        let compile = |filter: &Filter| filter.compile(link_type, options.snaplen);
        let program = filter.map(compile).transpose()?;
        let table = program
            .as_ref()
            .map(|program| FilterTable::of_one(program, link_type, index, options.snaplen));
        Ok(Self {
            program,
            table,
            obstacle: None,
        })
    }

    /// The plan where one of the hooks cannot run the filter: no hook does.
    fn for_hooks(self, hooks: &[Hook]) -> Self {
        hooks
            .iter()
            .fold(self, |plan, hook| plan.for_place(hook.place()))
    }

    fn for_place(&self, place: Place) -> Self {
        let mut plan = self.clone();
        let hook = if place.is_xdp() {
            LoweringHook::Xdp { frags: true }
        } else {
            LoweringHook::Tcx(Vlan::Restored)
        };
        let lowered = plan
            .program
            .as_ref()
            .map(|program| lower::standalone(&at_hook(program, place), hook));
        if let Some(Err(error)) = lowered {
            plan.obstacle = Some(error);
        }
        plan
    }

    /// The filter that hooks run.
    fn in_kernel(&self) -> Option<&Program> {
        self.program.as_ref().filter(|_| self.obstacle.is_none())
    }

    /// The filter for packets that an older one let through, and whether it is for all.
    #[inline]
    pub(super) fn in_user_space(&self) -> (Option<&FilterTable>, bool) {
        (self.table.as_ref(), self.obstacle.is_some())
    }

    /// Where the filter runs.
    pub(super) fn place(&self) -> FilterPlace {
        match (&self.program, &self.obstacle) {
            (None, _) => FilterPlace::None,
            (Some(program), None) => FilterPlace::Kernel {
                instructions: program.insns().len(),
            },
            (Some(_), Some(error)) => FilterPlace::UserSpace {
                reason: UserSpaceReason::NotForHook(*error),
            },
        }
    }
}

/// The device, as far as programs depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) index: u32,
    /// What puts VLAN tags back at XDP.
    pub(super) tags: Option<TagRestorer>,
}

impl Bound {
    fn of(device: &HookDevice) -> Self {
        Self {
            index: device.index,
            tags: device.tag_restorer,
        }
    }
}

/// What programs are made of.
pub(super) struct Programs<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) device: Bound,
    pub(super) plan: &'a FilterPlan,
    pub(super) options: &'a CaptureOptions,
    pub(super) room: u32,
    pub(super) geometry: Geometry,
    pub(super) maps: Maps,
}

impl Programs<'_> {
    pub(super) fn load(&self, place: Place, clock: KernelClock) -> bpf::Result<bpf::Program> {
        let filter = self.plan.in_kernel();
        let filter = filter.map(|program| at_hook(program, place));
        let everything = self.plan.program.is_some() && filter.is_none();
        let tap = Tap {
            place,
            filter: filter.as_ref(),
            // A filter that runs here may look at what is not kept.
            snaplen: if everything {
                MAX_SNAPLEN
            } else {
                self.options.snaplen
            },
            room: self.room,
            sample: self
                .options
                .sample
                .map(|one_in| (one_in.get(), self.options.sample_mode)),
            clock,
            tags: self.device.tags,
            steal: self.options.mode == Mode::Steal,
            geometry: self.geometry,
            maps: self.maps,
        };
        let kind = if place.is_xdp() {
            ProgramKind::Xdp { frags: true }
        } else {
            ProgramKind::SchedCls
        };
        // 32-bit jumps are there since 6.6; most filters do without.
        let code = tap.emit(false).or_else(|_| tap.emit(true));
        let code = code.unwrap_or_default();
        let name = "ringtap";
        if place.is_xdp() && self.device.tags.is_some() {
            let index = self.device.index;
            return bpf::Program::load_for_device(self.kernel, name, kind, &code, index);
        }
        bpf::Program::load(self.kernel, name, kind, &code)
    }
}

fn notes(
    attached: &Attached,
    device: &HookDevice,
    rings: &RingSet,
    options: &CaptureOptions,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let (requested, obtained) = (options.buffer, rings.bytes());
    if obtained > requested {
        notes.push(Note::LargerBuffer {
            requested,
            obtained,
        });
    } else if obtained < requested / 2 {
        notes.push(Note::SmallerBuffer {
            requested,
            obtained,
        });
    }
    let passed = attached.passed_over.iter();
    notes.extend(passed.map(|hook| Note::PassedOver(hook.to_string())));
    let at_xdp = attached.hooks.iter().any(|hook| hook.place().is_xdp());
    if at_xdp && device.takes_tags && device.tag_restorer.is_none() {
        notes.push(Note::TagsNotSeen);
    }
    let hazards = attached.hazards.iter();
    notes.extend(hazards.map(|hazard| Note::StealsFrom(hazard.to_string())));
    notes
}

/// How the capture works.
pub(super) fn describe(source: &TapSource) -> Description {
    let rings = source.reader.current();
    let hooks = &source.attached.hooks;
    let at_xdp = hooks.iter().any(|hook| hook.place().is_xdp());
    let stolen = source.options.mode == Mode::Steal;
    let both = |side: fn(Place) -> bool| hooks.iter().any(|hook| side(hook.place()));
    let direction = match (both(Place::is_ingress), both(|place| !place.is_ingress())) {
        (true, true) => Direction::Both,
        (true, false) => Direction::In,
        (false, _) => Direction::Out,
    };
    let mut blind = Vec::new();
    if at_xdp {
        blind.push("packets that the host sends");
    } else {
        blind.push("packets that an XDP program took");
        blind.push(
            "segments before receive offload joined them, or after send offload divides them",
        );
    }
    if let Some(uncovered) = source.attached.uncovered
        && !at_xdp
    {
        blind.push(match uncovered {
            hook::Uncovered::SentOnLoopback => "the second copy of each packet on loopback",
            hook::Uncovered::SentWhileStealing => {
                "packets that the host sends: only received ones can be stolen"
            }
            hook::Uncovered::SentWithoutHook => "packets that the host sends: there is no hook",
        });
    }
    let count = u32::try_from(rings.rings.len()).unwrap_or(u32::MAX);
    Description {
        engine: source.engine,
        choice: None,
        device: source.device.clone(),
        link_types: vec![source.interfaces[0].link_type],
        hook: hook_name(hooks, stolen),
        clock: describe::Clock::Kernel(source.kernel_clock),
        vlan: match (at_xdp, source.interfaces[0].link_type) {
            (true, _) if source.bound.tags.is_some() => {
                "put back at byte 12 where the driver took them out"
            }
            (true, _) => "as the driver shows them",
            (false, LinkType::ETHERNET) => "put back at byte 12 where the kernel took them out",
            (false, _) => "as the interface shows them",
        },
        memory: Some(Memory {
            block_size: u32::try_from(rings.geometry().size()).unwrap_or(u32::MAX),
            blocks: count,
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        promiscuous: source.options.promiscuous,
        direction,
        delivery_bound: Some(if source.options.immediate {
            Duration::from_millis(1)
        } else {
            source.options.timeout
        }),
        filter: source.plan.place(),
        fanout_group: None,
        notes: source.notes.clone(),
        blind,
    }
}

fn hook_name(hooks: &[Hook], stolen: bool) -> &'static str {
    let is = |wanted: fn(&Place) -> bool| hooks.iter().any(|hook| wanted(&hook.place()));
    let name = |copied, taken| if stolen { taken } else { copied };
    if is(|place| *place == Place::Xdp(bpf::XdpMode::Native)) {
        name(
            "XDP in the driver; packets go on to the host",
            "XDP in the driver; packets end here",
        )
    } else if is(|place| place.is_xdp()) {
        name(
            "generic XDP; packets go on to the host",
            "generic XDP; packets end here",
        )
    } else if is(|place| matches!(place, Place::Clsact(_))) {
        "clsact; packets go on to the host"
    } else {
        name(
            "tcx; packets go on to the host",
            "tcx ingress; packets end here",
        )
    }
}

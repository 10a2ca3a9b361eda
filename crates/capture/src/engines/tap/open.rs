//! Opening a tap: rings first, then the programs, so that no packet finds a half-made capture.

use std::time::{Duration, Instant};

use ringtap_savefile::InterfaceTable;
use ringtap_sys::bpf::{self, Kernel};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{LinkWatch, Netlink};
use ringtap_sys::packet::{LinkLayer, Promiscuous, TimestampSource};
use ringtap_sys::receive_stamps::ReceiveStamps;
use ringtap_sys::tap::{Clock, Control, Doorbell};

use super::TapSource;
use super::chain::ChainWatch;
use super::plan::{Bound, Form, Programs};
use super::polls::Polls;
use super::program::largest_record;
use super::reader::Reader;
use super::rings::RingSet;
use super::wait::{State, WaitHistory};
use crate::describe::{self, KernelClock, Memory, Note};
use crate::engines::Device;
use crate::engines::filter_plan::FilterPlan;
use crate::engines::interface::{InterfaceLosses, Target};
use crate::engines::link::link_of;
use crate::engines::packet;
use crate::hook::{
    self, Announced, Attached, Hook, HookChoice, HookDevice, HookError, HookPoint, Sight,
    StampReader, Thieves, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, Precision};
use crate::{Description, Error, Filter, LinkType, Result, Source};

/// `IFF_UP` (netdevice(7)).
const UP: u32 = 1;

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
    if device.name == "any" {
        return match choice {
            HookChoice::Tcx => Ok(Box::new(super::any::open(device, options, filter)?)),
            _ => Err(OptionError::AnyAtTap { engine }.into()),
        };
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
    let hook_device = for_hook(hook_device, choice)?;
    let mut opening = Opening::new(engine, device, hook_device, options, filter)?;
    if options.timestamp == TimestampSource::Adapter {
        let asked = AdapterClock::ask(device, &opening.device, choice)?;
        opening.adapter_clock = Some(asked);
    }
    Ok(Box::new(opening.attach(choice, options, filter)?))
}

/// The device with what programs at that hook take.
fn for_hook(device: HookDevice, choice: HookChoice) -> Result<HookDevice> {
    let device = device.remembering_home();
    if choice.may_be_xdp() {
        device.restoring_tags()
    } else {
        Ok(device)
    }
}

/// The adapter's clock, where packets are to be stamped by it.
struct AdapterClock {
    reader: StampReader,
    switched_on: Option<ReceiveStamps>,
    note: Option<Note>,
}

impl AdapterClock {
    /// Has the adapter stamp packets. What it stamps unasked will do where the driver tells XDP stamps,
    /// and takes no requests.
    fn ask(device: &Device<'_>, found: &HookDevice, choice: HookChoice) -> Result<Self> {
        let started = device.host().stamper.start(&found.name, found.index);
        let reader = StampReader::find(found.index, started.is_ok());
        let reader = reader.map_err(|source| Error::Interface {
            device: device.given.to_owned(),
            source,
        })?;
        match started.map_err(|source| packet::explain(source, device.given)) {
            Ok(stamps) => Ok(Self {
                reader,
                note: stamps.must_undo().then_some(Note::AdapterStamps),
                switched_on: Some(stamps),
            }),
            Err(Error::NoAdapterClock { source, .. })
                if choice == HookChoice::Xdp && reader.is_told_at_xdp() =>
            {
                Ok(Self {
                    reader,
                    switched_on: None,
                    note: Some(Note::AdapterNotAsked(source.to_string())),
                })
            }
            Err(error) => Err(error),
        }
    }
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

/// A tap on the way.
struct Opening {
    engine: &'static str,
    kernel: Kernel,
    device: HookDevice,
    target: Target,
    netlink: Netlink,
    watch: LinkWatch,
    rings: RingSet,
    control: Control,
    doorbell: Doorbell,
    clock: Clock,
    room: u32,
    promiscuous: Option<Promiscuous>,
    adapter_clock: Option<AdapterClock>,
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
        let watch = LinkWatch::open().map_err(interface_error)?;
        let target = Target::find(&mut netlink, device.name, device.given)?;
        let host = device.host();
        let kernel = host.kernel;
        let room = target.largest_packet().min(MAX_SNAPLEN);
        let failed = |source| HookError::of_bpf(&hook_device.name, source);
        let rings = RingSet::create(
            &kernel,
            host.processors,
            options.buffer,
            largest_record(room),
        )
        .map_err(failed)?;
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
            watch,
            rings,
            control,
            doorbell,
            clock: Clock::watch(&host.wall)?,
            room,
            promiscuous,
            device: hook_device,
            adapter_clock: None,
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
        let stamps = self.adapter_clock.as_ref().map(|clock| clock.reader);
        let bound = Bound::of(&self.device, stamps);
        let link_type = self.device.link_type;
        let geometry = self.rings.geometry();
        let maps = self.rings.maps(&self.control, &self.doorbell);
        let plan = FilterPlan::of_one(filter, &self.device, options)?;
        let mut polls = None;
        if kernel_clock == KernelClock::TaiByPoll && !choice.may_be_xdp() {
            kernel_clock = KernelClock::Tai;
        }
        if kernel_clock == KernelClock::TaiByPoll {
            polls = Polls::watch(&self.kernel, &self.device, &maps);
            if polls.is_none() {
                kernel_clock = KernelClock::Tai;
            }
        }
        set_clock(&self.control, &self.clock, kernel_clock);
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
            stamps,
        };
        let thieves = Thieves::listen(Some(self.device.index));
        let attached = hook::attach(&self.kernel, &self.device, &wanted, &mut |place| {
            let plan = plan.for_place(place);
            let programs = Programs {
                kernel: &self.kernel,
                device: bound,
                home: self.device.home.as_ref(),
                plan: &plan,
                options,
                room: self.room,
                geometry,
                maps,
            };
            let form = Form::own(link_type);
            match programs.load(form, place, kernel_clock) {
                // Before Linux 6.1 programs cannot read atomic time.
                Err(error) if is_atomic(kernel_clock) => {
                    let loaded = programs.load(form, place, KernelClock::Monotonic);
                    let program = loaded.map_err(|_| error)?;
                    kernel_clock = KernelClock::Monotonic;
                    set_clock(&self.control, &self.clock, kernel_clock);
                    Ok(program)
                }
                outcome => outcome,
            }
        })?;
        let is_native = |hook: &Hook| hook.place() == HookPoint::Xdp(bpf::XdpMode::Native);
        if polls.is_some() && !attached.hooks.iter().any(is_native) {
            polls = None;
            kernel_clock = KernelClock::Tai;
        }
        let announced = match options.mode {
            Mode::Steal => attached.announce(filter.is_none(), thieves.as_ref()),
            Mode::Copy => Announced::default(),
        };
        let plan = plan.for_hooks(&attached.hooks);
        let mut notes = notes(&attached, &self.device, &self.rings, options);
        let (switched_on, note) = self
            .adapter_clock
            .map_or((None, None), |clock| (clock.switched_on, clock.note));
        notes.extend(note);
        notes.extend(announced.note());
        let mut interface = self.target.description(link_type, options.snaplen);
        interface.filter = filter.map(Filter::for_file);
        let interfaces = vec![interface];
        let history = WaitHistory::new(self.rings.rings.len());
        // What has happened so far is mostly our own doing, such as promiscuous mode.
        let _ = self.watch.take();
        let mut netlink = self.netlink;
        let link = netlink.link(&self.device.name);
        let is_still_up =
            link.is_ok_and(|link| link.index == self.device.index && link.flags & UP != 0);
        let interface_error = |source| Error::Interface {
            device: self.target.name(),
            source,
        };
        let receives = attached.hooks.iter().any(|hook| hook.place().is_ingress());
        // Nothing runs before XDP.
        let mut hooks = attached.hooks.iter().map(Hook::place);
        let attached_may_be_robbed = hooks.any(|place| place.is_ingress() && !place.is_xdp());
        let sight = match receives {
            true => {
                let netlink = Netlink::open().map_err(interface_error)?;
                Some(Sight::new(netlink, self.device.index))
            }
            false => None,
        };
        Ok(TapSource {
            engine: engine_of(&attached, self.engine),
            bound,
            home: self.device.home,
            receive_stamps: switched_on,
            device: self.device.name,
            kernel: self.kernel,
            reader: Reader::new(self.rings, !options.unordered, options.snaplen),
            control: self.control,
            doorbell: self.doorbell,
            clock: self.clock,
            kernel_clock,
            attached,
            chain: ChainWatch::new(),
            polls,
            waker: Waker::new()?,
            options: options.clone(),
            room: self.room,
            table: InterfaceTable::new(0, &interfaces),
            announced: interfaces.len(),
            interfaces,
            any: None,
            plan,
            history,
            shares: Vec::new(),
            losses: InterfaceLosses::new(Netlink::open().map_err(interface_error)?, &self.target),
            sight,
            thieves: thieves.filter(|_| attached_may_be_robbed),
            _announced: announced,
            netlink,
            watch: self.watch,
            changed: !is_still_up,
            polled: None,
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

/// Whether it needs Linux 6.1.
pub(super) fn is_atomic(clock: KernelClock) -> bool {
    matches!(clock, KernelClock::Tai | KernelClock::TaiByPoll)
}

pub(super) fn clock_of(options: &CaptureOptions) -> KernelClock {
    match options.precision {
        // Packets without the adapter's stamp are few, or not of one poll.
        Precision::Poll if options.timestamp == TimestampSource::Adapter => KernelClock::Tai,
        Precision::Fine => KernelClock::Tai,
        Precision::Poll => KernelClock::TaiByPoll,
        Precision::Coarse => KernelClock::Coarse,
        Precision::None => KernelClock::None,
    }
}

/// Tells programs how far their clock is from the wall clock.
pub(super) fn set_clock(control: &Control, clock: &Clock, which: KernelClock) {
    match which {
        KernelClock::Tai | KernelClock::TaiByPoll => control.set_clock_offset(clock.from_tai()),
        KernelClock::Monotonic | KernelClock::Coarse => {
            control.set_clock_offset(clock.from_monotonic());
        }
        KernelClock::None => {}
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
    notes.extend(
        attached
            .passed_over_texts()
            .into_iter()
            .map(Note::PassedOver),
    );
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
    let both = |side: fn(HookPoint) -> bool| hooks.iter().any(|hook| side(hook.place()));
    let direction = match (
        both(HookPoint::is_ingress),
        both(|place| !place.is_ingress()),
    ) {
        (true, true) => Direction::Both,
        (true, false) => Direction::In,
        (false, _) => Direction::Out,
    };
    let mut link_types = Vec::new();
    for interface in &source.interfaces {
        if !link_types.contains(&interface.link_type) {
            link_types.push(interface.link_type);
        }
    }
    let vlan = match (at_xdp, link_types.first()) {
        (true, _) if source.bound.tags.is_some() => {
            "put back at byte 12 where the driver took them out"
        }
        (true, _) => "as the driver shows them",
        (false, Some(&LinkType::ETHERNET)) => "put back at byte 12 where the kernel took them out",
        (false, Some(&LinkType::LINUX_SLL2)) => "put back where the kernel took them out",
        (false, _) => "as the interface shows them",
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
        link_types,
        hook: hook_name(hooks, stolen),
        clock: match source.bound.stamps {
            Some(_) => describe::Clock::Adapter(source.kernel_clock),
            None => describe::Clock::Kernel(source.kernel_clock),
        },
        vlan,
        memory: Some(Memory {
            block_size: u32::try_from(rings.geometry().size()).unwrap_or(u32::MAX),
            blocks: count,
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        loopback: source.bound.loopback,
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
    let is = |wanted: fn(&HookPoint) -> bool| hooks.iter().any(|hook| wanted(&hook.place()));
    let name = |copied, taken| if stolen { taken } else { copied };
    if is(|place| *place == HookPoint::Xdp(bpf::XdpMode::Native)) {
        name(
            "XDP in the driver; packets go on to the host",
            "XDP in the driver; packets end here",
        )
    } else if is(|place| place.is_xdp()) {
        name(
            "generic XDP; packets go on to the host",
            "generic XDP; packets end here",
        )
    } else if is(|place| matches!(place, HookPoint::Clsact(_))) {
        "clsact; packets go on to the host"
    } else {
        name(
            "tcx; packets go on to the host",
            "tcx ingress; packets end here",
        )
    }
}

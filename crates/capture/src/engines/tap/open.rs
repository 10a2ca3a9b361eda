//! Opens a tap: rings first, then the programs, so that no packet meets an incomplete capture.

use std::time::Instant;

use ringtap_savefile::InterfaceTable;
use ringtap_sys::bpf::{self, Kernel};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{LinkWatch, Netlink};
use ringtap_sys::packet::{LinkLayer, Promiscuous, TimestampSource};
use ringtap_sys::tap::{Clock, Control, Doorbell};

use super::TapSource;
use super::chain::ChainWatch;
use super::plan::{Bound, Form};
use super::polls::Polls;
use super::program::largest_record;
use super::reader::Reader;
use super::rings::RingSet;
use super::wait::{State, WaitHistory};
use crate::describe::{KernelClock, Note};
use crate::devices::Flags;
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::{InterfaceLosses, Target};
use crate::engines::link::link_of;
use crate::engines::{Device, Request, packet};
use crate::filter::Groups;
use crate::hook::{
    self, Announced, Attached, Hook, HookChoice, HookDevice, HookError, HookPoint, Sight,
    StampReader, Thieves, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, Precision};
use crate::readers::Readers;
use crate::who::Owners;
use crate::{Error, Filter, Interface, Result, Source};

/// Opens a tap at tcx.
pub(crate) fn open_tcx(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    open(("tcx", HookChoice::Tcx), device, request)
}

/// Opens a tap at XDP.
pub(crate) fn open_xdp(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    if request.options.direction == Direction::Out {
        return Err(OptionError::SentAtXdp.into());
    }
    open(("xdp", HookChoice::Xdp), device, request)
}

/// Opens a tap at the best hook for stealing.
pub(crate) fn open_stealing(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let where_it_can = ("xdp", HookChoice::Automatic);
    open(where_it_can, device, request)
}

/// An engine's name, and its hook.
type Way = (&'static str, HookChoice);

fn open(way: Way, device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let Request { options, count, .. } = request;
    if count > 1 && options.who.is_some() {
        return Err(OptionError::WhoByThreads.into());
    }
    if count < 2 {
        return Ok(Readers::of_one(open_one(way, device, request)?));
    }
    let own = CaptureOptions {
        wait: None,
        ..options.clone()
    };
    let own = Request {
        options: &own,
        ..request
    };
    let mut tap = open_one(way, device, own)?;
    let sources = tap.give_away(count, options.wait.unwrap_or(options.timeout))?;
    if sources.is_empty() {
        return Ok(Readers::of_one(tap));
    }
    let tap: Option<Box<dyn Source>> = Some(Box::new(tap));
    Ok(Readers { sources, tap })
}

fn open_one(way: Way, device: &Device<'_>, request: Request<'_>) -> Result<TapSource> {
    let Request {
        options, filter, ..
    } = request;
    let (engine, choice) = way;
    options.validate()?;
    check_processes(filter, options)?;
    if options.fanout.is_some() {
        return Err(OptionError::SharedTap { engine }.into());
    }
    if options.who.is_some() && choice != HookChoice::Tcx {
        return Err(OptionError::WhoAtEngine { engine }.into());
    }
    if device.name == "any" {
        return match choice {
            HookChoice::Tcx => super::any::open(device, request),
            _ => Err(OptionError::AnyAtTap { engine }.into()),
        };
    }
    let found = device.find_up()?;
    let (link_type, layer) = link_of(found.hardware_type);
    if matches!(layer, LinkLayer::CookedV2 | LinkLayer::Netlink) {
        return Err(Error::NoLinkType {
            device: device.given.to_owned(),
            link_type,
        });
    }
    let found = for_hook(found, choice)?;
    if let Some(filter) = filter {
        // An invalid filter is reported before anything is created.
        let filter = filter.clone().with_processes(options.who.is_some());
        filter.compile(link_type, options.snaplen)?;
    }
    start(way, device, &found, request)
}

/// Makes everything, and lets packets in.
fn start(
    (engine, choice): Way,
    device: &Device<'_>,
    found: &HookDevice,
    request: Request<'_>,
) -> Result<TapSource> {
    let Request {
        options, filter, ..
    } = request;
    let interface_error = Error::interface(device.given);
    let mut netlink = Netlink::open().map_err(interface_error)?;
    let watch = LinkWatch::open().map_err(interface_error)?;
    let target = Target::find(&mut netlink, device.name, device.given)?;
    let room = target.largest_packet().min(MAX_SNAPLEN);
    let mut interface = target.description(found.link_type, options.snaplen);
    interface.filter = filter.map(Filter::for_file);
    let mut tap = TapSource::new(Start {
        engine,
        device,
        name: &found.name,
        bound: Bound::of(found),
        options,
        room,
        record: largest_record(room),
        interfaces: vec![interface],
        plan: FilterPlan::new(None, options),
        netlink,
        watch,
    })?;
    tap.home.clone_from(&found.home);
    let join = || Promiscuous::join(&found.name, found.index);
    let promiscuous = options.promiscuous.then(join).transpose()?;
    let adapter = tap.ask_adapter(choice, device, found)?;
    tap.plan = FilterPlan::of_one(filter, found, options)?;
    let thieves = Thieves::listen(Some(found.index));
    tap.install(choice, found)?;
    let announced = match options.mode {
        Mode::Steal => tap.attached.announce(filter.is_none(), thieves.as_ref()),
        Mode::Copy => Announced::default(),
    };
    tap.plan = tap.plan.clone().for_hooks(&tap.attached.hooks);
    tap.notes = notes(&tap.attached, found, tap.reader.current(), options);
    tap.notes.extend(adapter);
    tap.notes.extend(announced.note());
    tap.notes.extend(note_of(tap.owners.as_ref()));
    // Most events so far are our own, such as promiscuous mode.
    let _ = tap.watch.take();
    tap.changed = !is_up(&mut tap.netlink, found);
    let another_netlink = || Netlink::open().map_err(Error::interface(&found.name));
    let mut places = tap.attached.hooks.iter().map(Hook::place);
    if places.any(HookPoint::is_ingress) {
        tap.sight = Some(Sight::new(another_netlink()?, found.index));
    }
    tap.losses = InterfaceLosses::new(another_netlink()?, &target);
    tap.thieves = thieves.filter(|_| may_be_robbed(&tap.attached));
    tap.engine = engine_of(&tap.attached, engine);
    Ok(TapSource {
        _announced: announced,
        _promiscuous: promiscuous,
        ..tap
    })
}

/// Returns the device with the facts that programs at that hook need.
fn for_hook(device: HookDevice, choice: HookChoice) -> Result<HookDevice> {
    let device = device.remembering_home();
    if choice.may_be_xdp() {
        device.restoring_tags()
    } else {
        Ok(device)
    }
}

/// The properties of a tap that depend on its kind.
pub(super) struct Start<'a> {
    pub(super) engine: &'static str,
    pub(super) device: &'a Device<'a>,
    /// The device's name in messages.
    pub(super) name: &'a str,
    pub(super) bound: Bound,
    pub(super) options: &'a CaptureOptions,
    /// The bytes of the largest packet.
    pub(super) room: u32,
    /// The bytes of the largest record.
    pub(super) record: u32,
    pub(super) interfaces: Vec<Interface>,
    pub(super) plan: FilterPlan,
    pub(super) netlink: Netlink,
    pub(super) watch: LinkWatch,
}

impl TapSource {
    /// Makes a tap without any program.
    pub(super) fn new(start: Start<'_>) -> Result<Self> {
        let (options, device) = (start.options, start.name);
        let host = start.device.host();
        let kernel = host.kernel;
        let failed = |source| HookError::of_bpf(device, source);
        let rings = RingSet::create(&kernel, host.processors, options.buffer, start.record);
        let rings = rings.map_err(failed)?;
        Ok(Self {
            engine: start.engine,
            choice: start.device.choice(),
            device: device.to_owned(),
            bound: start.bound,
            history: WaitHistory::new(rings.rings.len()),
            reader: Reader::new(rings, !options.unordered, options.snaplen),
            control: Control::create(&kernel).map_err(failed)?,
            doorbell: Doorbell::create(&kernel).map_err(failed)?,
            owners: open_owners(&kernel, device, options)?,
            kernel,
            clock: Clock::watch(&host.wall)?,
            kernel_clock: clock_of(options),
            attached: Attached::default(),
            chain: ChainWatch::new(),
            polls: None,
            waker: Waker::new()?,
            options: options.clone(),
            room: start.room,
            table: InterfaceTable::new(0, &start.interfaces),
            announced: start.interfaces.len(),
            interfaces: start.interfaces,
            any: None,
            drops: None,
            plan: start.plan,
            shares: Vec::new(),
            losses: None,
            sight: None,
            thieves: None,
            _announced: Announced::default(),
            netlink: start.netlink,
            watch: start.watch,
            changed: false,
            polled: None,
            state: State::Up,
            looked: Instant::now(),
            _promiscuous: None,
            groups: Groups::default(),
            home: None,
            receive_stamps: None,
            notes: Vec::new(),
        })
    }

    /// Makes the adapter stamp packets, if requested. Returns a note on it. If the driver does not support
    /// requests but passes stamps to XDP, those are used.
    fn ask_adapter(
        &mut self,
        choice: HookChoice,
        device: &Device<'_>,
        found: &HookDevice,
    ) -> Result<Option<Note>> {
        if self.options.timestamp != TimestampSource::Adapter {
            return Ok(None);
        }
        let started = device.host().stamper.start(&found.name, found.index);
        let reader = StampReader::find(found.index, started.is_ok());
        let reader = reader.map_err(Error::interface(device.given))?;
        self.bound.stamps = Some(reader);
        match started.map_err(|source| packet::explain(source, device.given)) {
            Ok(stamps) => {
                let note = stamps.must_undo().then_some(Note::AdapterStamps);
                self.receive_stamps = Some(stamps);
                Ok(note)
            }
            Err(Error::NoAdapterClock { source, .. })
                if choice == HookChoice::Xdp && reader.is_told_at_xdp() =>
            {
                Ok(Some(Note::AdapterNotAsked(source.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Attaches programs to the hooks, with the best clock that they can read.
    fn install(&mut self, choice: HookChoice, device: &HookDevice) -> Result<()> {
        let set = self.reader.current();
        let (geometry, maps) = (set.geometry(), self.maps(set));
        let (mut clock, mut polls) = (self.kernel_clock, None);
        if clock == KernelClock::TaiByPoll && choice.may_be_xdp() {
            polls = Polls::watch(&self.kernel, device, &maps);
        }
        if polls.is_none() {
            clock = clock.by_packet();
        }
        self.set_clock(clock);
        let wanted = self.wanted_hooks(choice, device);
        let attached = hook::attach(&self.kernel, device, &wanted, &mut |place| {
            let plan = self.plan.for_place(place);
            let programs = self.programs_for(&plan, geometry, maps);
            let form = Form::own(device.link_type);
            let (program, readable) = programs.load_or_older(form, place, clock)?;
            if readable != clock {
                clock = readable;
                self.set_clock(clock);
            }
            Ok(program)
        })?;
        let is_native = |hook: &Hook| hook.place() == HookPoint::Xdp(bpf::XdpMode::Native);
        if polls.is_some() && !attached.hooks.iter().any(is_native) {
            polls = None;
            clock = clock.by_packet();
        }
        self.attached = attached;
        self.kernel_clock = clock;
        self.polls = polls;
        Ok(())
    }

    fn wanted_hooks(&self, choice: HookChoice, device: &HookDevice) -> Wanted {
        Wanted {
            hook: choice,
            direction: if choice == HookChoice::Xdp {
                Direction::In
            } else {
                self.options.direction
            },
            mode: self.options.mode,
            force: self.options.force,
            // A user who requests XDP gets it; a note reports that tags are not seen.
            reads_tags_at_xdp: choice == HookChoice::Xdp || device.tag_restorer.is_some(),
            stamps: self.bound.stamps,
        }
    }

    /// Passes the difference of their clock from the wall clock to programs.
    pub(super) fn set_clock(&self, which: KernelClock) {
        match which {
            KernelClock::Tai | KernelClock::TaiByPoll => {
                self.control.set_clock_offset(self.clock.from_tai());
            }
            KernelClock::Monotonic | KernelClock::Coarse => {
                self.control.set_clock_offset(self.clock.from_monotonic());
            }
            KernelClock::None => {}
        }
    }
}

/// Starts recording the owners of sockets, if requested.
fn open_owners(kernel: &Kernel, device: &str, options: &CaptureOptions) -> Result<Option<Owners>> {
    let owners = options
        .who
        .map(|who| Owners::open(kernel, who, options.container_names.clone()));
    owners.transpose().map_err(|error| Error::Who {
        device: device.to_owned(),
        reason: error.to_string(),
    })
}

/// Returns the notes on processes that could not be examined, and on how others are found.
pub(super) fn note_of(owners: Option<&Owners>) -> Vec<Note> {
    let Some(owners) = owners else {
        return Vec::new();
    };
    let processes = owners.unreadable();
    let unknown = (processes > 0).then_some(Note::NotExamined { processes });
    let coarse = (!owners.by_function()).then_some(Note::FunctionsNotTraced);
    unknown.into_iter().chain(coarse).collect()
}

/// Returns whether the interface exists and is up.
fn is_up(netlink: &mut Netlink, device: &HookDevice) -> bool {
    let link = netlink.link(&device.name);
    link.is_ok_and(|link| link.index == device.index && Flags(link.flags).is_up())
}

/// Returns whether other programs may take packets earlier. Nothing runs before XDP.
fn may_be_robbed(attached: &Attached) -> bool {
    let mut places = attached.hooks.iter().map(Hook::place);
    places.any(|place| place.is_ingress() && !place.is_xdp())
}

/// Returns the engine's name for the hook.
fn engine_of(attached: &Attached, asked: &'static str) -> &'static str {
    match attached.hooks.first().map(Hook::place) {
        Some(place) if place.is_xdp() => "xdp",
        Some(_) => "tcx",
        None => asked,
    }
}

fn clock_of(options: &CaptureOptions) -> KernelClock {
    match options.precision {
        // Packets without the adapter's stamp are few, or not from one poll.
        Precision::Poll if options.timestamp == TimestampSource::Adapter => KernelClock::Tai,
        Precision::Fine => KernelClock::Tai,
        Precision::Poll => KernelClock::TaiByPoll,
        Precision::Coarse => KernelClock::Coarse,
        Precision::None => KernelClock::None,
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

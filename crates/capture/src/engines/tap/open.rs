//! Opens a tap: rings first, then the programs, so that no packet meets an incomplete capture.

use std::time::Instant;

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
use super::program::{Maps, largest_record};
use super::reader::Reader;
use super::rings::RingSet;
use super::wait::{State, WaitHistory};
use crate::describe::{KernelClock, Note};
use crate::engines::Device;
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::{InterfaceLosses, Target};
use crate::engines::link::link_of;
use crate::engines::packet;
use crate::filter::Groups;
use crate::hook::{
    self, Announced, Attached, Hook, HookChoice, HookDevice, HookError, HookPoint, Sight,
    StampReader, Thieves, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, Precision};
use crate::readers::Readers;
use crate::who::Owners;
use crate::{Error, Filter, Result, Source};

/// `IFF_UP` (netdevice(7)).
const UP: u32 = 1;

/// Opens a tap at tcx.
pub(crate) fn open_tcx(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    open(("tcx", HookChoice::Tcx), device, options, filter, count)
}

/// Opens a tap at XDP.
pub(crate) fn open_xdp(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    if options.direction == Direction::Out {
        return Err(OptionError::SentAtXdp.into());
    }
    open(("xdp", HookChoice::Xdp), device, options, filter, count)
}

/// Opens a tap at the best hook for stealing.
pub(crate) fn open_stealing(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    let where_it_can = ("xdp", HookChoice::Automatic);
    open(where_it_can, device, options, filter, count)
}

fn open(
    way: (&'static str, HookChoice),
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    if count > 1 && options.who.is_some() {
        return Err(OptionError::WhoByThreads.into());
    }
    if count < 2 {
        return Ok(Readers::of_one(open_one(way, device, options, filter)?));
    }
    let own = CaptureOptions {
        wait: None,
        ..options.clone()
    };
    let mut tap = open_one(way, device, &own, filter)?;
    let sources = tap.give_away(count, options.wait.unwrap_or(options.timeout))?;
    if sources.is_empty() {
        return Ok(Readers::of_one(tap));
    }
    let tap: Option<Box<dyn Source>> = Some(Box::new(tap));
    Ok(Readers { sources, tap })
}

fn open_one(
    (engine, choice): (&'static str, HookChoice),
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<TapSource> {
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
            HookChoice::Tcx => super::any::open(device, options, filter),
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
    opening.attach(choice, options, filter)
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

/// The adapter's clock, if it stamps packets.
struct AdapterClock {
    reader: StampReader,
    switched_on: Option<ReceiveStamps>,
    note: Option<Note>,
}

impl AdapterClock {
    /// Makes the adapter stamp packets. If the driver does not support requests but passes stamps to XDP,
    /// those are used.
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

/// Names an unknown device by the user's text.
fn named(error: Error, device: &Device<'_>) -> Error {
    match error {
        Error::NoSuchDevice { .. } => Error::NoSuchDevice {
            device: device.given.to_owned(),
        },
        other => other,
    }
}

/// A tap that is being opened.
struct Opening {
    engine: &'static str,
    choice: Option<String>,
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
    owners: Option<Owners>,
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
            // An invalid filter is reported before anything is created.
            let filter = filter.clone().with_processes(options.who.is_some());
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
        let owners = open_owners(&kernel, &hook_device.name, options)?;
        let promiscuous = options
            .promiscuous
            .then(|| Promiscuous::join(&hook_device.name, hook_device.index))
            .transpose()?;
        Ok(Self {
            engine,
            choice: device.choice(),
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
            owners,
        })
    }

    /// Lets packets in.
    #[expect(
        clippy::too_many_lines,
        reason = "most of it names the fields of the source"
    )]
    fn attach(
        self,
        choice: HookChoice,
        options: &CaptureOptions,
        filter: Option<&Filter>,
    ) -> Result<TapSource> {
        let stamps = self.adapter_clock.as_ref().map(|clock| clock.reader);
        let bound = Bound::of(&self.device, stamps);
        let plan = FilterPlan::of_one(filter, &self.device, options)?;
        let thieves = Thieves::listen(Some(self.device.index));
        let installed = self.install(choice, options, &plan, bound)?;
        let attached = installed.attached;
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
        notes.extend(note_of(self.owners.as_ref()));
        let link_type = self.device.link_type;
        let mut interface = self.target.description(link_type, options.snaplen);
        interface.filter = filter.map(Filter::for_file);
        let interfaces = vec![interface];
        // Most events so far are our own, such as promiscuous mode.
        let _ = self.watch.take();
        let mut netlink = self.netlink;
        let is_still_up = is_up(&mut netlink, &self.device);
        let another_netlink = || {
            Netlink::open().map_err(|source| Error::Interface {
                device: self.target.name(),
                source,
            })
        };
        let sight = if attached.hooks.iter().any(|hook| hook.place().is_ingress()) {
            Some(Sight::new(another_netlink()?, self.device.index))
        } else {
            None
        };
        let may_be_robbed = may_be_robbed(&attached);
        Ok(TapSource {
            engine: engine_of(&attached, self.engine),
            choice: self.choice,
            bound,
            home: self.device.home,
            receive_stamps: switched_on,
            device: self.device.name,
            kernel: self.kernel,
            history: WaitHistory::new(self.rings.rings.len()),
            reader: Reader::new(self.rings, !options.unordered, options.snaplen),
            control: self.control,
            doorbell: self.doorbell,
            clock: self.clock,
            kernel_clock: installed.clock,
            attached,
            chain: ChainWatch::new(),
            polls: installed.polls,
            waker: Waker::new()?,
            options: options.clone(),
            room: self.room,
            table: InterfaceTable::new(0, &interfaces),
            announced: interfaces.len(),
            interfaces,
            any: None,
            drops: None,
            plan,
            shares: Vec::new(),
            losses: InterfaceLosses::new(another_netlink()?, &self.target),
            sight,
            thieves: thieves.filter(|_| may_be_robbed),
            _announced: announced,
            netlink,
            watch: self.watch,
            changed: !is_still_up,
            polled: None,
            state: State::Up,
            looked: Instant::now(),
            _promiscuous: self.promiscuous,
            owners: self.owners,
            groups: Groups::default(),
            notes,
        })
    }

    /// Attaches programs to the hooks, with the best clock that they can read.
    fn install(
        &self,
        choice: HookChoice,
        options: &CaptureOptions,
        plan: &FilterPlan,
        bound: Bound,
    ) -> Result<Installed> {
        let geometry = self.rings.geometry();
        let maps = Maps {
            owners: self.owners.as_ref().map(Owners::maps),
            ..self.rings.maps(&self.control, &self.doorbell)
        };
        let (mut clock, mut polls) = (clock_of(options), None);
        if clock == KernelClock::TaiByPoll && choice.may_be_xdp() {
            polls = Polls::watch(&self.kernel, &self.device, &maps);
        }
        if clock == KernelClock::TaiByPoll && polls.is_none() {
            clock = KernelClock::Tai;
        }
        set_clock(&self.control, &self.clock, clock);
        let wanted = self.wanted(choice, options);
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
                drops: None,
            };
            let form = Form::own(self.device.link_type);
            match programs.load(form, place, clock) {
                // Before Linux 6.1 programs cannot read TAI.
                Err(error) if is_atomic(clock) => {
                    let loaded = programs.load(form, place, KernelClock::Monotonic);
                    let program = loaded.map_err(|_| error)?;
                    clock = KernelClock::Monotonic;
                    set_clock(&self.control, &self.clock, clock);
                    Ok(program)
                }
                outcome => outcome,
            }
        })?;
        let is_native = |hook: &Hook| hook.place() == HookPoint::Xdp(bpf::XdpMode::Native);
        if polls.is_some() && !attached.hooks.iter().any(is_native) {
            polls = None;
            clock = KernelClock::Tai;
        }
        Ok(Installed {
            attached,
            clock,
            polls,
        })
    }

    fn wanted(&self, choice: HookChoice, options: &CaptureOptions) -> Wanted {
        Wanted {
            hook: choice,
            direction: if choice == HookChoice::Xdp {
                Direction::In
            } else {
                options.direction
            },
            mode: options.mode,
            force: options.force,
            // A user who requests XDP gets it; a note reports that tags are not seen.
            reads_tags_at_xdp: choice == HookChoice::Xdp || self.device.tag_restorer.is_some(),
            stamps: self.adapter_clock.as_ref().map(|clock| clock.reader),
        }
    }
}

/// Starts recording the owners of sockets, if requested.
pub(super) fn open_owners(
    kernel: &Kernel,
    device: &str,
    options: &CaptureOptions,
) -> Result<Option<Owners>> {
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

/// Programs attached to their hooks.
struct Installed {
    attached: Attached,
    /// The clock that stamps packets.
    clock: KernelClock,
    polls: Option<Polls>,
}

/// Returns whether the interface exists and is up.
fn is_up(netlink: &mut Netlink, device: &HookDevice) -> bool {
    let link = netlink.link(&device.name);
    link.is_ok_and(|link| link.index == device.index && link.flags & UP != 0)
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

/// Returns whether it needs Linux 6.1.
pub(super) fn is_atomic(clock: KernelClock) -> bool {
    matches!(clock, KernelClock::Tai | KernelClock::TaiByPoll)
}

pub(super) fn clock_of(options: &CaptureOptions) -> KernelClock {
    match options.precision {
        // Packets without the adapter's stamp are few, or not from one poll.
        Precision::Poll if options.timestamp == TimestampSource::Adapter => KernelClock::Tai,
        Precision::Fine => KernelClock::Tai,
        Precision::Poll => KernelClock::TaiByPoll,
        Precision::Coarse => KernelClock::Coarse,
        Precision::None => KernelClock::None,
    }
}

/// Passes the difference of their clock from the wall clock to programs.
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

//! All interfaces at once: `tcx:any`.
//!
//! There is one set of rings. Each interface has the same programs, one for each form of records and
//! direction. They are loaded at the opening, also for forms without an interface yet, so that later
//! interfaces need no privilege to load. The program looks up the interface of a record in a map that is
//! written before it is attached. In the cooked form, the record's own header names it.
//!
//! Interfaces without a reliable header are not covered; a note names them.

use std::collections::VecDeque;
use std::time::Instant;

use ringtap_savefile::InterfaceTable;
use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{Link, LinkWatch, Netlink};
use ringtap_sys::packet::LinkLayer;
use ringtap_sys::tap::{Clock, Control, Doorbell};

use super::TapSource;
use super::chain::ChainWatch;
use super::open::{clock_of, note_of, open_owners, set_clock};
use super::plan::{Bound, Form};
use super::program::{Cooked, Maps, largest_record};
use super::reader::Reader;
use super::rings::RingSet;
use super::wait::{State, WaitHistory};
use crate::describe::{KernelClock, Note};
use crate::engines::Device;
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::Target;
use crate::engines::link::{self, link_of};
use crate::filter::Groups;
use crate::hook::{
    self, Announced, Attached, HookChoice, HookDevice, HookError, HookPoint, Side, Thieves, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, TimestampSource};
use crate::who::Owners;
use crate::{Error, Filter, Interface, LinkType, Result};

/// The device's name.
const DEVICE: &str = "any";
/// The maximum number of interfaces of one capture. Later ones are reported as not covered.
const INTERFACES_MAX: u32 = 4096;
/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// Hardware types whose programs are always loaded: `ARPHRD_ETHER`, `ARPHRD_LOOPBACK`, `ARPHRD_NONE`
/// (tunnels).
const USUAL: [u16; 3] = [1, link::LOOPBACK, 0xfffe];

/// The state of a capture on all interfaces, beside its rings.
pub(super) struct Any {
    /// The numbers of interfaces in records, by the kernel's number. `None` in the cooked form.
    names: Option<Map>,
    /// The programs by form and place.
    pub(super) loaded: Vec<Loaded>,
    /// The kernel's numbers of the interfaces that were examined.
    known: Vec<u32>,
    /// The kernel's number of each of the capture's own interfaces; none in the cooked form.
    indices: Vec<u32>,
    /// New interfaces that are not captured and not yet reported.
    uncovered: VecDeque<Error>,
}

/// A program, ready to be attached.
pub(super) struct Loaded {
    pub(super) form: Form,
    pub(super) place: HookPoint,
    pub(super) program: bpf::Program,
}

impl Any {
    /// Returns the map for programs.
    fn names(&self) -> Option<&Map> {
        self.names.as_ref()
    }

    /// Returns the kernel's number of each of the capture's own interfaces.
    pub(super) fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// Returns the form of an interface's records. `None` if its packets have no reliable header.
pub(super) fn form_of(hardware_type: u16, is_cooked: bool) -> Option<Form> {
    let (link_type, layer) = link_of(hardware_type);
    let header = match layer {
        LinkLayer::Ethernet => ETHERNET,
        LinkLayer::Native if link_type == LinkType::RAW => 0,
        LinkLayer::Native if !is_cooked => return Some(Form::own(link_type)),
        _ => return None,
    };
    let cooked = is_cooked.then_some(Cooked {
        header,
        hardware_type,
    });
    Some(Form { link_type, cooked })
}

/// Checks everything that can be rejected before anything is created.
fn plan(options: &CaptureOptions, filter: Option<&Filter>) -> Result<FilterPlan> {
    if options.mode == Mode::Steal {
        return Err(OptionError::StealsFromAny.into());
    }
    if options.timestamp == TimestampSource::Adapter {
        return Err(OptionError::AdapterClockOfAny.into());
    }
    check_processes(filter, options)?;
    if options.cooked {
        return FilterPlan::cooked(filter, options);
    }
    if let Some(filter) = filter {
        let filter = filter.clone().with_processes(options.who.is_some());
        filter.compile(LinkType::ETHERNET, options.snaplen)?;
    }
    Ok(FilterPlan::new(filter, options))
}

/// Returns the only interface of a cooked capture. Others are added when programs are attached.
fn first_interfaces(options: &CaptureOptions, filter: Option<&Filter>) -> Vec<Interface> {
    let cooked = options.cooked.then(|| {
        let mut interface = Target::Any.description(LinkType::LINUX_SLL2, options.snaplen);
        interface.filter = filter.map(Filter::for_file);
        interface
    });
    cooked.into_iter().collect()
}

/// Opens a tap on all interfaces.
#[expect(
    clippy::too_many_lines,
    reason = "most of it names the fields of the source"
)]
pub(super) fn open(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<TapSource> {
    let plan = plan(options, filter)?;
    let watch = LinkWatch::open().map_err(interface_error)?;
    let mut netlink = Netlink::open().map_err(interface_error)?;
    let links = netlink.links().map_err(interface_error)?;
    let host = device.host();
    let kernel = host.kernel;
    let failed = |source| HookError::of_bpf(DEVICE, source);
    let room = room_for(&links);
    let rings = RingSet::create(
        &kernel,
        host.processors,
        options.buffer,
        largest_record(room),
    )
    .map_err(failed)?;
    let names = (!options.cooked).then(|| make_names(&kernel)).transpose();
    let owners = open_owners(&kernel, DEVICE, options)?;
    let kernel_clock = match clock_of(options) {
        // Packets that are captured here are not seen in polls alone.
        KernelClock::TaiByPoll => KernelClock::Tai,
        clock => clock,
    };
    let control = Control::create(&kernel).map_err(failed)?;
    let clock = Clock::watch(&host.wall)?;
    set_clock(&control, &clock, kernel_clock);
    let interfaces = first_interfaces(options, filter);
    let receives = options.direction != Direction::Out;
    let thieves = receives.then(|| Thieves::listen(None)).flatten();
    let notes = options.promiscuous.then_some(Note::NotPromiscuous);
    let history = WaitHistory::new(rings.rings.len());
    let mut source = TapSource {
        engine: "tcx",
        choice: device.choice(),
        bound: Bound::ANY,
        device: DEVICE.to_owned(),
        kernel: kernel.clone(),
        reader: Reader::new(rings, !options.unordered, options.snaplen),
        control,
        doorbell: Doorbell::create(&kernel).map_err(failed)?,
        clock,
        kernel_clock,
        attached: Attached::default(),
        chain: ChainWatch::new(),
        polls: None,
        waker: Waker::new()?,
        options: options.clone(),
        room,
        table: InterfaceTable::new(0, &interfaces),
        announced: 0,
        interfaces,
        any: Some(Any {
            names: names.map_err(failed)?,
            loaded: Vec::new(),
            known: Vec::new(),
            indices: Vec::new(),
            uncovered: VecDeque::new(),
        }),
        drops: None,
        plan,
        history,
        shares: Vec::new(),
        losses: None,
        sight: None,
        thieves,
        _announced: Announced::default(),
        netlink,
        watch,
        changed: false,
        polled: None,
        state: State::Up,
        looked: Instant::now(),
        _promiscuous: None,
        home: None,
        receive_stamps: None,
        notes: notes.into_iter().chain(note_of(owners.as_ref())).collect(),
        owners,
        groups: Groups::default(),
    };
    for (device, error) in source.cover(&links)? {
        let reason = error.to_string();
        source.notes.push(Note::NotCovered { device, reason });
    }
    source.load_usual()?;
    source.announced = source.interfaces.len();
    if source.attached.hooks.is_empty() {
        return Err(Error::NoSuchDevice {
            device: "tcx:any".to_owned(),
        });
    }
    Ok(source)
}

fn interface_error(source: ringtap_sys::netlink::Error) -> Error {
    Error::Interface {
        device: DEVICE.to_owned(),
        source,
    }
}

/// Returns the longest packet of any of the interfaces.
fn room_for(links: &[Link]) -> u32 {
    let one = |link: &Link| Target::One(Box::new(link.clone())).largest_packet();
    let most = links.iter().map(one).max().unwrap_or_default();
    most.max(Target::Any.largest_packet()).min(MAX_SNAPLEN)
}

fn make_names(kernel: &Kernel) -> bpf::Result<Map> {
    let spec = MapSpec::new("ringtap_names", MapKind::Hash, 4, INTERFACES_MAX);
    Map::create(kernel, &spec)
}

impl TapSource {
    /// Returns what programs need to know of the present rings.
    pub(super) fn maps(&self, set: &RingSet) -> Maps {
        use std::os::fd::{AsFd, AsRawFd};
        let names = self.any.as_ref().and_then(Any::names);
        Maps {
            interfaces: names.map(|map| map.as_fd().as_raw_fd()),
            owners: self.owners.as_ref().map(Owners::maps),
            ..set.maps(&self.control, &self.doorbell)
        }
    }

    /// Attaches to new interfaces, and drops those that were removed.
    ///
    /// # Errors
    /// The kernel does not list the interfaces.
    pub(super) fn follow_links(&mut self) -> Result<()> {
        let links = self.netlink.links().map_err(interface_error)?;
        let uncovered = self.cover(&links)?.into_iter();
        let uncovered = uncovered.map(|(device, source)| Error::NotCovered {
            device,
            source: Box::new(source),
        });
        if let Some(any) = &mut self.any {
            any.uncovered.extend(uncovered);
        }
        Ok(())
    }

    /// Returns an error for a new interface that is not captured, once for each.
    pub(super) fn report_uncovered(&mut self) -> Result<()> {
        let next = self.any.as_mut().and_then(|any| any.uncovered.pop_front());
        next.map_or(Ok(()), Err)
    }

    /// Attaches to interfaces that are new. Returns those that it could not attach to.
    fn cover(&mut self, links: &[Link]) -> Result<Vec<(String, Error)>> {
        let mut uncovered = Vec::new();
        let exists = |index: u32| links.iter().any(|link| link.index == index);
        self.attached
            .hooks
            .retain(|hook| exists(hook.device().index));
        let Some(any) = &mut self.any else {
            return Ok(uncovered);
        };
        any.known.retain(|&index| exists(index));
        for link in links {
            let any = self.any.as_mut().map(|any| &mut any.known);
            let Some(known) = any.filter(|known| !known.contains(&link.index)) else {
                continue;
            };
            known.push(link.index);
            match self.attach_to(link) {
                // It was removed while the program was attached.
                Ok(()) | Err(Error::NoSuchDevice { .. } | Error::Hook(HookError::Gone { .. })) => {}
                // Without the first of all, the reason is everyone's.
                Err(error @ Error::Hook(_)) if self.attached.hooks.is_empty() => return Err(error),
                Err(error) => uncovered.push((link.name.to_string(), error)),
            }
        }
        Ok(uncovered)
    }

    fn attach_to(&mut self, link: &Link) -> Result<()> {
        let is_cooked = self.options.cooked;
        let Some(form) = form_of(link.hardware_type, is_cooked) else {
            return Err(Error::NoLinkType {
                device: link.name.to_string(),
                link_type: link_of(link.hardware_type).0,
            });
        };
        let device = HookDevice::find(&link.name.to_string())?;
        if !is_cooked {
            self.name_interface(link, form)?;
        }
        let wanted = Wanted {
            hook: HookChoice::Tcx,
            direction: self.options.direction,
            mode: Mode::Copy,
            force: false,
            reads_tags_at_xdp: false,
            stamps: None,
        };
        let kernel = self.kernel.clone();
        let mut attached = hook::attach(&kernel, &device, &wanted, &mut |place| {
            self.program(form, place)
        })?;
        for note in attached
            .passed_over_texts()
            .into_iter()
            .map(Note::PassedOver)
        {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self.attached.hooks.append(&mut attached.hooks);
        Ok(())
    }

    /// Adds an interface to the capture, and stores its number for programs.
    fn name_interface(&mut self, link: &Link, form: Form) -> Result<()> {
        self.plan.add(form.link_type, link.index)?;
        let target = Target::One(Box::new(link.clone()));
        let mut interface: Interface = target.description(form.link_type, self.options.snaplen);
        interface.filter = self.plan.for_file();
        let name = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        self.interfaces.push(interface);
        self.table = InterfaceTable::new(0, &self.interfaces);
        let Some(any) = &mut self.any else {
            return Ok(());
        };
        any.indices.push(link.index);
        let Some(names) = any.names() else {
            return Ok(());
        };
        let named = names.update(link.index, &name.to_ne_bytes());
        named.map_err(|source| HookError::of_bpf(DEVICE, source).into())
    }

    /// Returns the program for a form and a place, loaded once.
    fn program(&mut self, form: Form, place: HookPoint) -> bpf::Result<bpf::Program> {
        let loaded = self.any.iter().flat_map(|any| &any.loaded);
        let mut same = loaded.filter(|loaded| loaded.form == form && loaded.place == place);
        if let Some(loaded) = same.next() {
            return loaded.program.try_clone();
        }
        self.plan = self.plan.for_place(place);
        let program = match self.load(form, place) {
            // Before Linux 6.1 programs cannot read TAI.
            Err(error) if self.kernel_clock == KernelClock::Tai => {
                self.kernel_clock = KernelClock::Monotonic;
                set_clock(&self.control, &self.clock, self.kernel_clock);
                self.load(form, place).map_err(|_| error)?
            }
            outcome => outcome?,
        };
        let ready = program.try_clone()?;
        if let Some(any) = &mut self.any {
            any.loaded.push(Loaded {
                form,
                place,
                program,
            });
        }
        Ok(ready)
    }

    fn load(&self, form: Form, place: HookPoint) -> bpf::Result<bpf::Program> {
        self.programs().load(form, place, self.kernel_clock)
    }

    /// Loads the missing programs for the usual kinds of interfaces.
    fn load_usual(&mut self) -> Result<()> {
        let mut places: Vec<HookPoint> = Vec::new();
        for hook in &self.attached.hooks {
            if !places.contains(&hook.place()) {
                places.push(hook.place());
            }
        }
        let sent = HookPoint::Tcx(Side::Egress);
        if places.contains(&HookPoint::Tcx(Side::Ingress))
            && self.options.direction != Direction::In
            && !places.contains(&sent)
        {
            places.push(sent);
        }
        let is_cooked = self.options.cooked;
        for form in USUAL.iter().filter_map(|&kind| form_of(kind, is_cooked)) {
            if !is_cooked && self.plan.prepare(form.link_type).is_err() {
                // Interfaces of that kind are reported as not covered.
                continue;
            }
            for &place in &places {
                let loaded = self.program(form, place);
                loaded.map_err(|source| HookError::of_bpf(DEVICE, source))?;
            }
        }
        Ok(())
    }
}

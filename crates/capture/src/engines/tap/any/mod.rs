//! All interfaces at once: `tcx:any`, in one network namespace or in all ([`namespaces`]).
//!
//! There is one set of rings. Each interface has the same programs, one for each form of records and
//! direction. They are loaded at the opening, also for forms without an interface yet, so that later
//! interfaces need no privilege to load. The program looks up the interface of a record in a map that is
//! written before it is attached. In the cooked form, the record's own header names it.
//!
//! Interfaces without a reliable header are not covered; a note names them.

mod namespaces;
mod reports;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use ringtap_savefile::InterfaceTable;
use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec};
use ringtap_sys::errno::EAGAIN;
use ringtap_sys::netlink::{Link, LinkWatch, Netlink};
use ringtap_sys::packet::LinkLayer;

use reports::Reports;

use super::TapSource;
use super::open::{Start, note_of};
use super::plan::{Bound, Form};
use super::program::{Cooked, Maps, largest_record};
use super::rings::RingSet;
use crate::describe::Note;
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::Target;
use crate::engines::link::{self, link_of};
use crate::engines::{Device, Request};
use crate::hook::{
    self, Hook, HookChoice, HookDevice, HookError, HookPoint, Side, Thieves, Wanted,
};
use crate::options::{CaptureOptions, Direction, MAX_SNAPLEN, Mode, OptionError, TimestampSource};
use crate::who::Owners;
use crate::{Error, Filter, Interface, LinkType, Result};

/// The device's name.
const DEVICE: &str = "any";
/// The maximum number of interfaces of the capture's own network namespace, and of another one. Later ones are
/// reported as not covered.
const INTERFACES_MAX: u32 = 4096;
const FOREIGN_MAX: u32 = 512;
/// The maximum number of interfaces of a namespace that the follower attaches to in one look, so that one namespace does
/// not hold up the others.
const AT_ONCE: usize = 64;
/// The maximum number of interfaces in the whole time of a capture in all network namespaces.
const ALL_INTERFACES_MAX: usize = 65_536;
/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// Hardware types whose programs are always loaded: `ARPHRD_ETHER`, `ARPHRD_LOOPBACK`, `ARPHRD_NONE`
/// (tunnels).
const USUAL: [u16; 3] = [1, link::LOOPBACK, 0xfffe];

/// The state of a capture on all interfaces, beside its rings.
pub(super) struct Any {
    /// The network namespaces, the capture's own first.
    spaces: Vec<Space>,
    /// The kernel's number of each of the capture's own interfaces; none in the cooked form.
    indices: Vec<u32>,
    /// New interfaces that are not captured and not yet reported.
    uncovered: VecDeque<Error>,
    /// The way of news from the process that follows network namespaces, if all are captured.
    reports: Option<Reports>,
}

/// The state of a network namespace. The kernel numbers the interfaces of each from 1, so each has its own map and
/// programs. Nothing here holds the namespace: it can go.
#[derive(Default)]
pub(super) struct Space {
    /// Its inode number and the label of its interfaces. `None` for the capture's own namespace.
    foreign: Option<(u64, String)>,
    /// Distinguishes it from a later one with the same number, if the kernel does.
    cookie: Option<u64>,
    /// The numbers of interfaces in records, by the kernel's number. `None` in the cooked form.
    names: Option<Map>,
    /// The programs by form and place.
    pub(super) loaded: Vec<Loaded>,
    /// The kernel's numbers of the interfaces that were examined.
    known: Vec<u32>,
    /// The programs at its interfaces. Those of the capture's own namespace are in the source.
    hooks: Vec<Hook>,
}

impl Space {
    /// Forgets interfaces, by the kernel's number.
    fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        let Self { known, names, .. } = self;
        known.retain(|&index| {
            let is_gone = is_gone(index);
            if let Some(names) = names.as_ref().filter(|_| is_gone) {
                // It has none if it could not be captured.
                let _ = names.delete(index);
            }
            !is_gone
        });
    }

    /// Returns the name of an interface in the capture.
    fn label(&self, name: &str) -> String {
        match &self.foreign {
            Some((_, label)) => format!("{label}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// A program, ready to be attached.
pub(super) struct Loaded {
    pub(super) form: Form,
    pub(super) place: HookPoint,
    pub(super) program: bpf::Program,
}

/// The place of the capture's own network namespace.
const OWN: usize = 0;

impl Any {
    /// Returns the capture's own network namespace.
    pub(super) fn own(&self) -> &Space {
        &self.spaces[OWN]
    }

    /// Sets the programs of the capture's own network namespace.
    pub(super) fn set_loaded(&mut self, loaded: Vec<Loaded>) {
        self.spaces[OWN].loaded = loaded;
    }

    /// Returns whether all network namespaces are captured.
    pub(super) fn is_everywhere(&self) -> bool {
        self.reports.is_some()
    }

    /// Returns what becomes readable when another process reports interfaces.
    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        let reports = self.reports.as_ref();
        let receiver = reports.and_then(|reports| reports.receiver.as_ref());
        receiver.map(AsFd::as_fd)
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
    if options.cooked && options.all_namespaces {
        return Err(OptionError::CookedEverywhere.into());
    }
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
pub(super) fn open(device: &Device<'_>, request: Request<'_>) -> Result<TapSource> {
    let Request {
        options, filter, ..
    } = request;
    let plan = plan(options, filter)?;
    let watch = LinkWatch::open().map_err(interface_error)?;
    let reports = options.all_namespaces.then(|| {
        namespaces::check_privileges(device.given)?;
        Reports::new(&watch)
    });
    let mut netlink = Netlink::open().map_err(interface_error)?;
    let links = netlink.links().map_err(interface_error)?;
    let room = room_for(&links);
    let mut source = TapSource::new(Start {
        engine: "tcx",
        device,
        name: DEVICE,
        bound: Bound::ANY,
        options,
        room,
        record: largest_record(room),
        interfaces: first_interfaces(options, filter),
        plan,
        netlink,
        watch,
    })?;
    source.announced = 0;
    source.any = Some(Any {
        spaces: vec![own_space(&source.kernel, options)?],
        indices: Vec::new(),
        uncovered: VecDeque::new(),
        reports: reports.transpose()?,
    });
    // Packets that are captured here are not seen in polls alone.
    source.kernel_clock = source.kernel_clock.by_packet();
    source.set_clock(source.kernel_clock);
    if options.direction != Direction::Out {
        source.thieves = Thieves::listen(None);
    }
    if options.promiscuous {
        source.notes.push(Note::NotPromiscuous);
    }
    source.notes.extend(note_of(source.owners.as_ref()));
    let mut uncovered = source.cover(OWN, &links)?;
    if options.all_namespaces {
        uncovered.extend(source.cover_namespaces()?);
    }
    for (device, error) in uncovered {
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

fn own_space(kernel: &Kernel, options: &CaptureOptions) -> Result<Space> {
    let names = (!options.cooked).then(|| make_names(kernel, INTERFACES_MAX));
    let names = names.transpose();
    Ok(Space {
        names: names.map_err(|source| HookError::of_bpf(DEVICE, source))?,
        ..Space::default()
    })
}

fn interface_error(source: ringtap_sys::netlink::Error) -> Error {
    Error::interface(DEVICE)(source)
}

/// Returns the longest packet of any of the interfaces.
fn room_for(links: &[Link]) -> u32 {
    let one = |link: &Link| Target::One(Box::new(link.clone())).largest_packet();
    let most = links.iter().map(one).max().unwrap_or_default();
    most.max(Target::Any.largest_packet()).min(MAX_SNAPLEN)
}

/// Converts an interface that is not captured, and the reason.
fn not_covered((device, source): (String, Error)) -> Error {
    Error::NotCovered {
        device,
        source: Box::new(source),
    }
}

fn make_names(kernel: &Kernel, most: u32) -> bpf::Result<Map> {
    let spec = MapSpec::new("ringtap_names", MapKind::Hash, 4, most);
    Map::create(kernel, &spec)
}

impl TapSource {
    /// Returns what programs need to know of the present rings.
    pub(super) fn maps(&self, set: &RingSet) -> Maps {
        self.maps_in(OWN, set)
    }

    /// Returns what programs in a network namespace need to know of the present rings.
    fn maps_in(&self, at: usize, set: &RingSet) -> Maps {
        use std::os::fd::AsRawFd;
        let space = self.any.as_ref().and_then(|any| any.spaces.get(at));
        let names = space.and_then(|space| space.names.as_ref());
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
        let uncovered = self.cover(OWN, &links)?.into_iter();
        let uncovered = uncovered.map(not_covered);
        if let Some(any) = &mut self.any {
            any.uncovered.extend(uncovered);
        }
        Ok(())
    }

    /// Returns an error for a new interface that is not captured, once for each.
    pub(super) fn report_uncovered(&mut self) -> Result<()> {
        let has_packets = self.reader.available() > 0;
        let Some(any) = &mut self.any else {
            return Ok(());
        };
        match any.uncovered.pop_front() {
            // The end comes after the packets, and is reported each time.
            Some(Error::FollowerGone) => {
                any.uncovered.push_back(Error::FollowerGone);
                match has_packets {
                    true => Ok(()),
                    false => Err(Error::FollowerGone),
                }
            }
            next => next.map_or(Ok(()), Err),
        }
    }

    /// Attaches to interfaces that are new in a network namespace, which the calling thread must be in. Returns those
    /// that it could not attach to.
    fn cover(&mut self, at: usize, links: &[Link]) -> Result<Vec<(String, Error)>> {
        let mut uncovered = Vec::new();
        let exists = |index: u32| links.iter().any(|link| link.index == index);
        let is_follower = self.is_follower();
        let Some(space) = self.any.as_mut().and_then(|any| any.spaces.get_mut(at)) else {
            return Ok(uncovered);
        };
        let hooks = match at {
            OWN => &mut self.attached.hooks,
            _ => &mut space.hooks,
        };
        hooks.retain(|hook| exists(hook.device().index));
        space.forget(|index| !exists(index));
        let known = |link: &&Link| !space.known.contains(&link.index);
        let most = match is_follower {
            true => AT_ONCE,
            false => usize::MAX,
        };
        let new: Vec<&Link> = links.iter().filter(known).take(most).collect();
        for link in new {
            let attached = self.attach_to(at, link.index);
            match &attached {
                // It was removed while the program was attached, or the reader has no room for the report.
                Err(Error::NoSuchDevice { .. } | Error::Hook(HookError::Gone { .. })) => continue,
                Err(Error::System(error)) if error.errno() == Some(EAGAIN) => return Ok(uncovered),
                _ => {}
            }
            if let Some(space) = self.any.as_mut().and_then(|any| any.spaces.get_mut(at)) {
                space.known.push(link.index);
            }
            match attached {
                Ok(()) => {}
                // Without the first of all, the reason is everyone's.
                Err(error @ Error::Hook(_)) if self.attached.hooks.is_empty() => return Err(error),
                Err(error) => uncovered.push((self.label(at, link), error)),
            }
        }
        Ok(uncovered)
    }

    /// Returns the name of an interface in the capture.
    fn label(&self, at: usize, link: &Link) -> String {
        let name = String::from_utf8_lossy(link.name.as_bytes());
        let space = self.any.as_ref().and_then(|any| any.spaces.get(at));
        space.map_or_else(|| name.to_string(), |space| space.label(&name))
    }

    fn attach_to(&mut self, at: usize, index: u32) -> Result<()> {
        // It may have another name since the interfaces were listed.
        let (link, device) = HookDevice::at(index)?;
        let link = &link;
        let is_cooked = self.options.cooked;
        let Some(form) = form_of(link.hardware_type, is_cooked) else {
            return Err(Error::NoLinkType {
                device: self.label(at, link),
                link_type: link_of(link.hardware_type).0,
            });
        };
        if !is_cooked {
            self.name_interface(at, link, form)?;
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
            self.program(at, form, place)
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
        let space = self.any.as_mut().and_then(|any| any.spaces.get_mut(at));
        let hooks = match space.filter(|_| at != OWN) {
            Some(space) => &mut space.hooks,
            None => &mut self.attached.hooks,
        };
        hooks.append(&mut attached.hooks);
        Ok(())
    }

    /// Adds an interface to the capture, and stores its number for programs.
    fn name_interface(&mut self, at: usize, link: &Link, form: Form) -> Result<()> {
        if self.interfaces.len() >= ALL_INTERFACES_MAX {
            return Err(Error::TooManyInterfaces {
                most: ALL_INTERFACES_MAX,
            });
        }
        self.plan.add(form.link_type, link.index)?;
        let name = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        let space = self.any.as_ref().and_then(|any| any.spaces.get(at));
        if let Some(names) = space.and_then(|space| space.names.as_ref()) {
            let named = names.update(link.index, &name.to_ne_bytes());
            named.map_err(|source| HookError::of_bpf(DEVICE, source))?;
        }
        let target = Target::One(Box::new(link.clone()));
        let mut interface: Interface = target.description(form.link_type, self.options.snaplen);
        interface.filter = self.plan.for_file();
        interface.name = Some(self.label(at, link));
        let Some(any) = &mut self.any else {
            return Ok(());
        };
        if let Some((number, _)) = &any.spaces[at].foreign {
            interface.description = Some(format!("network namespace {number}"));
        }
        if let Some(reports) = &any.reports {
            reports.send_interface(&interface, link.index)?;
        }
        self.interfaces.push(interface);
        self.table = InterfaceTable::new(0, &self.interfaces);
        any.indices.push(link.index);
        Ok(())
    }

    /// Returns the program for a form and a place, loaded once.
    fn program(&mut self, at: usize, form: Form, place: HookPoint) -> bpf::Result<bpf::Program> {
        let space = self.any.as_ref().and_then(|any| any.spaces.get(at));
        let loaded = space.into_iter().flat_map(|space| &space.loaded);
        let mut same = loaded.filter(|loaded| loaded.form == form && loaded.place == place);
        if let Some(loaded) = same.next() {
            return loaded.program.try_clone();
        }
        self.plan = self.plan.for_place(place);
        let set = self.reader.current();
        let programs = self.programs_for(&self.plan, set.geometry(), self.maps_in(at, set));
        let clock = self.kernel_clock;
        // Once one program reads TAI, all do.
        let (program, readable) = match self.has_no_program() {
            true => programs.load_or_older(form, place, clock)?,
            false => (programs.load(form, place, clock)?, clock),
        };
        if readable != clock {
            self.kernel_clock = readable;
            self.set_clock(readable);
        }
        let ready = program.try_clone()?;
        if let Some(space) = self.any.as_mut().and_then(|any| any.spaces.get_mut(at)) {
            space.loaded.push(Loaded {
                form,
                place,
                program,
            });
        }
        Ok(ready)
    }

    fn has_no_program(&self) -> bool {
        let mut spaces = self.any.iter().flat_map(|any| &any.spaces);
        spaces.all(|space| space.loaded.is_empty())
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
                let loaded = self.program(OWN, form, place);
                loaded.map_err(|source| HookError::of_bpf(DEVICE, source))?;
            }
        }
        Ok(())
    }
}

//! Opens the engine: sockets first, then the program that redirects packets to them.

use std::time::{Duration, Instant};

use ringtap_sys::bpf::{Feature, Kernel};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{Link, LinkWatch, Netlink};
use ringtap_sys::packet::{Promiscuous, TimestampSource};
use ringtap_sys::poll::ReadSet;
use ringtap_sys::tap::Clock;
use ringtap_sys::xsk::Receiver;

use super::members::{Member, Opener, members_of, used_queues};
use super::wait::Naps;
use super::{Losses, Queue, SocketSource};
use crate::describe::{self, KernelClock, Memory, Note};
use crate::engines::filter_plan::FilterPlan;
use crate::engines::interface::Target;
use crate::engines::{Device, Host, Request};
use crate::hook::{self, HookChoice, HookDevice, StealHazard, Wanted};
use crate::options::{CaptureOptions, Direction, Mode, OptionError};
use crate::readers::Readers;
use crate::{Description, Error, Filter, Result};

const ENGINE: &str = "xsk";

/// Opens a capture, which has one reader.
pub(crate) fn open(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let Request {
        options, filter, ..
    } = request;
    options.validate()?;
    if options.who.is_some() {
        let engine = ENGINE;
        return Err(OptionError::WhoAtEngine { engine }.into());
    }
    check(device, options)?;
    let found = device.find_up()?.remembering_home();
    let host = device.host();
    let wanted = wanted(options);
    let hazards = hook::consent(&found, &wanted)?;
    let plan = FilterPlan::of_one(filter, &found, options)?.for_xdp_sockets();
    let failed = Error::interface(device.given);
    // Before the members are listed, so that none joins or leaves in between.
    let watch = LinkWatch::open().map_err(failed)?;
    let mut netlink = Netlink::open().map_err(failed)?;
    let target = Target::find(&mut netlink, device.name, device.given)?;
    let is_aggregate = is_aggregate(&found, &host);
    let links = links_of(&mut netlink, &found, is_aggregate).map_err(failed)?;
    if links.is_empty() {
        return Err(OptionError::NoMembers { engine: ENGINE }.into());
    }
    let opener = opener(&host, wanted, options, &links, is_aggregate)?;
    let promiscuous = options
        .promiscuous
        .then(|| Promiscuous::join(&found.name, found.index))
        .transpose()?;
    let members = open_members(&opener, &links, &plan, is_aggregate.then_some(&found))?;
    let mut interface = target.description(found.link_type, options.snaplen);
    interface.filter = filter.map(Filter::for_file);
    let clock = Clock::watch(&host.wall)?;
    Ok(Readers::of_one(SocketSource {
        notes: notes(&members, &hazards, is_aggregate),
        offset: offset_of(opener.clock, &clock),
        naps: Naps::new(fewest_frames(&members), options),
        clock,
        device: found,
        is_aggregate,
        members,
        opener,
        refused: Vec::new(),
        down: Vec::new(),
        past: Losses::default(),
        turn: Queue::default(),
        plan,
        has_changed: false,
        interfaces: [interface],
        options: options.clone(),
        waker: Waker::new()?,
        polled: ReadSet::default(),
        delivered: 0,
        netlink,
        watch,
        changed: false,
        looked: Instant::now(),
        blocks: 0,
        _promiscuous: promiscuous,
    }))
}

fn wanted(options: &CaptureOptions) -> Wanted {
    Wanted {
        hook: HookChoice::XdpAlone,
        mode: Mode::Steal,
        direction: Direction::In,
        force: options.force,
        // A user who requests this engine gets it, and a note reports what it does not see.
        reads_tags_at_xdp: true,
        stamps: None,
    }
}

/// Opens all members, or none: if one cannot be opened, the others are dropped.
fn open_members(
    opener: &Opener,
    links: &[Link],
    plan: &FilterPlan,
    aggregate: Option<&HookDevice>,
) -> Result<Vec<Member>> {
    let members = links.iter().map(|link| {
        let opened = opener.open(link, plan);
        opened.map_err(|error| match aggregate {
            None => error,
            Some(aggregate) => Error::Member {
                device: aggregate.name.clone(),
                member: link.name.to_string(),
                source: Box::new(error),
            },
        })
    });
    members.collect()
}

/// Returns whether packets come through the queues of the device's members. The kernel accepts XDP programs
/// for a bond, and drops the packets that they redirect to its sockets.
fn is_aggregate(device: &HookDevice, host: &Host) -> bool {
    let kind = device.kind.as_deref();
    kind.is_some_and(|kind| host.aggregates.contains(&kind))
}

/// Returns the interfaces through whose queues packets come.
fn links_of(
    netlink: &mut Netlink,
    device: &HookDevice,
    is_aggregate: bool,
) -> ringtap_sys::netlink::Result<Vec<Link>> {
    if !is_aggregate {
        return Ok(vec![netlink.link(&device.name)?]);
    }
    let links = netlink.links()?;
    Ok(members_of(&links, device.index).cloned().collect())
}

/// Returns how members are opened, with the memory divided among their queues.
fn opener(
    host: &Host,
    wanted: Wanted,
    options: &CaptureOptions,
    links: &[Link],
    is_aggregate: bool,
) -> Result<Opener> {
    let mut queues = 0;
    for link in links {
        queues += u64::from(used_queues(link)?);
    }
    Ok(Opener {
        kernel: host.kernel.clone(),
        wanted,
        share: options.buffer / queues.max(1),
        busy_poll: options.busy_poll,
        marked: options.study.is_some(),
        clock: clock_of(&host.kernel),
        spares_control: is_aggregate,
    })
}

/// Returns the clock that programs of this kernel can read.
pub(super) fn clock_of(kernel: &Kernel) -> KernelClock {
    match Feature::TaiClock.check(kernel) {
        Ok(()) => KernelClock::Tai,
        Err(_) => KernelClock::Monotonic,
    }
}

/// Returns the difference from the programs' clock to the wall clock, in nanoseconds.
pub(super) fn offset_of(which: KernelClock, clock: &Clock) -> u64 {
    match which {
        KernelClock::Monotonic => clock.from_monotonic(),
        _ => clock.from_tai(),
    }
}

/// Returns the frames of the smallest queue.
fn fewest_frames(members: &[Member]) -> u32 {
    let receivers = members.iter().flat_map(|member| &member.receivers);
    receivers.map(Receiver::frames).min().unwrap_or_default()
}

/// Rejects options that this engine does not support.
fn check(device: &Device<'_>, options: &CaptureOptions) -> Result<()> {
    if device.name == "any" {
        return Err(OptionError::AnyAtTap { engine: ENGINE }.into());
    }
    if options.mode != Mode::Steal {
        return Err(OptionError::XskSteals.into());
    }
    if options.direction == Direction::Out {
        return Err(OptionError::SentAtSocket { engine: ENGINE }.into());
    }
    if options.timestamp == TimestampSource::Adapter {
        return Err(OptionError::AdapterClockAtSocket { engine: ENGINE }.into());
    }
    if options.sample.is_some() {
        return Err(OptionError::SampledAtSocket { engine: ENGINE }.into());
    }
    Ok(())
}

fn notes(members: &[Member], hazards: &[StealHazard], is_aggregate: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    for member in members {
        let passed = member.attached.passed_over_texts();
        notes.extend(passed.into_iter().map(Note::PassedOver));
        let has_no_restorer = member.device.tag_restorer.is_none() || !member.is_native();
        if member.device.takes_tags && has_no_restorer && !notes.contains(&Note::TagsNotSeen) {
            notes.push(Note::TagsNotSeen);
        }
    }
    notes.extend(all_hazards(members, hazards).map(Note::StealsFrom));
    notes.extend(members.iter().filter_map(|member| member.announced.note()));
    let longest = members.iter().map(Member::longest_packet).min();
    let longest = longest.unwrap_or_default();
    if members.iter().any(|member| member.mtu + 22 > longest) {
        notes.push(Note::LongPacketsLost { longest });
    }
    let queues = members.iter().map(|member| member.receivers.len()).sum();
    if queues > 1 {
        notes.push(Note::OrderByQueue { queues });
    }
    if is_aggregate {
        notes.push(Note::ControlSpared);
    }
    notes
}

/// Returns the host's uses of the device, and of its members.
fn all_hazards(members: &[Member], of_device: &[StealHazard]) -> impl Iterator<Item = String> {
    let of_members = members.iter().flat_map(|member| {
        let own = member.attached.hazards.iter().filter(|hazard| {
            let is_own = matches!(hazard, StealHazard::Route { through, .. } if through.is_empty());
            is_own && !of_device.contains(hazard)
        });
        own.map(|hazard| format!("{}: {hazard}", member.device.name))
    });
    of_device.iter().map(ToString::to_string).chain(of_members)
}

/// Returns how the capture works.
pub(super) fn describe(source: &SocketSource) -> Description {
    let members = || source.members.iter().filter(|member| !member.has_left);
    let receivers = || members().flat_map(|member| &member.receivers);
    let zero_copy = receivers().all(Receiver::is_zero_copy);
    let hook = match (members().all(Member::is_native), zero_copy) {
        (_, true) => "AF_XDP, zero-copy; packets end here",
        (true, false) => "AF_XDP, copied from the driver; packets end here",
        (false, false) => "AF_XDP, copied from generic XDP; packets end here",
    };
    let mut notes = source.notes.clone();
    if source.is_aggregate {
        notes.push(Note::Members {
            names: members().map(|member| member.device.name.clone()).collect(),
        });
    }
    Description {
        engine: ENGINE,
        choice: None,
        device: source.device.name.clone(),
        link_types: vec![source.device.link_type],
        hook,
        clock: describe::Clock::Kernel(source.opener.clock),
        vlan: if members().any(|member| member.device.tag_restorer.is_some()) {
            "put back at byte 12 where the driver took them out"
        } else {
            "as the driver shows them"
        },
        memory: receivers().map(Receiver::memory).min().map(|bytes| Memory {
            block_size: u32::try_from(bytes).unwrap_or(u32::MAX),
            blocks: u32::try_from(receivers().count()).unwrap_or(u32::MAX),
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        loopback: source.device.is_loopback,
        promiscuous: source.options.promiscuous,
        direction: Direction::In,
        delivery_bound: Some(Duration::from_millis(1)),
        filter: source.plan.place(),
        fanout_group: None,
        required_capabilities: &[],
        notes,
        blind: vec!["packets that the host sends"],
    }
}

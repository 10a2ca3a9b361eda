//! Opening: sockets first, then the program that sends packets to them.

use std::time::Duration;

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::LowerError;
use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, ProgramKind};
use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{Link, Netlink};
use ringtap_sys::packet::{Promiscuous, TimestampSource};
use ringtap_sys::poll::ReadSet;
use ringtap_sys::tap::Clock;
use ringtap_sys::xsk::{Binding, QueueOptions, Receiver};

use super::{SocketSource, program};
use crate::describe::{self, FilterPlace, KernelClock, Memory, Note, UserSpaceReason};
use crate::engines::Device;
use crate::engines::interface::{InterfaceLosses, Target};
use crate::filter::{FilterTable, at_hook};
use crate::hook::{self, Hook, HookChoice, HookDevice, HookError, Place, Wanted};
use crate::options::{CaptureOptions, Direction, Mode, OptionError};
use crate::{Description, Error, Filter, Result, Source};

const ENGINE: &str = "xsk";
/// What kind of device a bond is.
const BOND: &str = "bond";
/// The most queues and the most frames of a queue.
const MOST_QUEUES: u32 = 1 << 10;
const MOST_FRAMES: u64 = 1 << 18;
const LEAST_FRAMES: u64 = 64;
/// Bytes that a frame needs beside the packet: what the kernel keeps free, and Ethernet's header
/// with two tags.
const BESIDE_MTU: u32 = 256 + 22;

/// Opens a capture.
pub(crate) fn open(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    options.validate()?;
    check(device, options)?;
    let found = HookDevice::find(device.name)
        .map_err(|error| match error {
            Error::NoSuchDevice { .. } => Error::NoSuchDevice {
                device: device.given.to_owned(),
            },
            other => other,
        })?
        .remembering_home();
    if found.kind.as_deref() == Some(BOND) {
        return Err(refuse_bond(&found)?.into());
    }
    let wanted = Wanted {
        hook: HookChoice::XdpAlone,
        mode: Mode::Steal,
        direction: Direction::In,
        force: options.force,
        // Who asks for this engine gets it, and is told what it does not see.
        reads_tags_at_xdp: true,
        stamps: None,
    };
    hook::consent(&found, &wanted)?;
    let plan = FilterPlan::new(filter, &found, options.snaplen)?;
    let failed = |source| Error::Interface {
        device: device.given.to_owned(),
        source,
    };
    let mut netlink = Netlink::open().map_err(failed)?;
    let target = Target::find(&mut netlink, device.name, device.given)?;
    let link = netlink.link(&found.name).map_err(failed)?;
    let queues = used_queues(&link)?;
    let receivers = open_receivers(&found, options, queues, link.mtu)?;
    let host = device.host();
    let kernel = host.kernel;
    let sockets = map_of(&kernel, &receivers).map_err(|source| bpf_error(&found, source))?;
    let promiscuous = options
        .promiscuous
        .then(|| Promiscuous::join(&found.name, found.index))
        .transpose()?;
    let loading = Loading {
        kernel: &kernel,
        device: &found,
        plan: &plan,
        sockets: &sockets,
        marked: options.study.is_some(),
    };
    let attached = hook::attach(&kernel, &found, &wanted, &mut |place| loading.load(place))?;
    let mut interface = target.description(found.link_type, options.snaplen);
    interface.filter = filter.map(Filter::for_file);
    let clock = Clock::watch(&host.wall)?;
    Ok(Box::new(SocketSource {
        notes: notes(&found, &attached, &receivers, link.mtu),
        losses: InterfaceLosses::new(netlink, &target),
        offset: clock.from_tai(),
        clock,
        kernel: kernel.clone(),
        device: found,
        receivers,
        turn: 0,
        sockets,
        attached,
        plan,
        has_changed: false,
        interfaces: [interface],
        options: options.clone(),
        waker: Waker::new()?,
        polled: ReadSet::default(),
        delivered: 0,
        _promiscuous: promiscuous,
    }))
}

/// The kernel takes XDP programs for a bond, and drops what they redirect to its sockets: the packets
/// are those of its members.
fn refuse_bond(bond: &HookDevice) -> Result<OptionError> {
    let links = Netlink::open().and_then(|mut netlink| netlink.links());
    let links = links.map_err(|source| Error::Interface {
        device: bond.name.clone(),
        source,
    })?;
    Ok(OptionError::BondAtSocket {
        engine: ENGINE,
        members: members(&links, bond.index),
    })
}

fn members(links: &[Link], master: u32) -> Vec<String> {
    let of_it = links.iter().filter(|link| link.master == Some(master));
    of_it
        .map(|link| format!("{ENGINE}:{}", link.name))
        .collect()
}

/// Options that this engine cannot follow.
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

/// A socket for each queue that the device has, all with one memory.
fn open_receivers(
    device: &HookDevice,
    options: &CaptureOptions,
    queues: u32,
    mtu: u32,
) -> Result<Vec<Receiver>> {
    let frame_size = if mtu + BESIDE_MTU <= 2048 { 2048 } else { 4096 };
    let frames = options.buffer / u64::from(frame_size) / u64::from(queues);
    let frames = frames.clamp(LEAST_FRAMES, MOST_FRAMES);
    let frames = u32::try_from(1 << frames.ilog2()).unwrap_or(1 << 18);
    let queues = (0..queues).map(|queue| QueueOptions {
        ifindex: device.index,
        queue,
        frames,
        frame_size,
        binding: Binding::Automatic,
    });
    let queues: Vec<QueueOptions> = queues.collect();
    let receivers = Receiver::open_all(&queues)?;
    if let Some(duration) = options.busy_poll {
        for receiver in &receivers {
            busy_poll(receiver, duration)?;
        }
    }
    Ok(receivers)
}

/// The receive queues that the adapter uses; the stack may know more.
fn used_queues(link: &Link) -> Result<u32> {
    let known = link.rx_queues.unwrap_or(1).clamp(1, MOST_QUEUES);
    let channels = Ethtool::open()?.channels(&link.name).ok().flatten();
    let used = channels.map(|channels| channels.rx.saturating_add(channels.combined));
    Ok(used
        .filter(|used| *used > 0)
        .map_or(known, |used| used.min(known)))
}

/// Asks for polling of the driver; a kernel that has no such thing does without.
fn busy_poll(receiver: &Receiver, duration: Duration) -> Result<()> {
    const ENOPROTOOPT: i32 = 92;
    match receiver.set_busy_poll(duration) {
        Err(error) if error.errno() == Some(ENOPROTOOPT) => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn map_of(kernel: &Kernel, receivers: &[Receiver]) -> bpf::Result<Map> {
    let sockets = Map::create(
        kernel,
        &MapSpec {
            name: "ringtap_xsk",
            kind: MapKind::XskMap,
            value_size: 4,
            max_entries: u32::try_from(receivers.len()).unwrap_or(MOST_QUEUES),
            numa_node: None,
            inner: None,
        },
    )?;
    for (queue, receiver) in (0..).zip(receivers) {
        sockets.update_fd(queue, receiver)?;
    }
    Ok(sockets)
}

pub(super) fn bpf_error(device: &HookDevice, source: bpf::Error) -> Error {
    Error::Hook(HookError::Bpf {
        device: device.name.clone(),
        source,
    })
}

/// A filter, and whether the program can run it.
pub(super) struct FilterPlan {
    program: Option<Program>,
    table: Option<FilterTable>,
    obstacle: Option<LowerError>,
}

impl FilterPlan {
    pub(super) fn new(filter: Option<&Filter>, device: &HookDevice, snaplen: u32) -> Result<Self> {
        let link_type = device.link_type;
        // All that comes here was received.
        let received = Place::Xdp(bpf::XdpMode::Native);
        let compile = |filter: &Filter| -> Result<Program> {
            Ok(at_hook(&filter.compile(link_type, snaplen)?, received))
        };
        let program = filter.map(compile).transpose()?;
        let hook = ringtap_filter::ebpf::lower::Hook::Xdp { frags: false };
        let lowered = program
            .as_ref()
            .map(|program| ringtap_filter::ebpf::lower::standalone(program, hook));
        Ok(Self {
            table: program
                .as_ref()
                .map(|program| FilterTable::of_one(program, link_type, device.index, snaplen)),
            obstacle: lowered.and_then(std::result::Result::err),
            program,
        })
    }

    fn in_kernel(&self) -> Option<&Program> {
        self.program.as_ref().filter(|_| self.obstacle.is_none())
    }

    /// The filter that packets still have to pass here: where the kernel cannot run it, or where
    /// some may have come by an older one.
    pub(super) fn in_user_space(&self, has_changed: bool) -> Option<&FilterTable> {
        let is_needed = has_changed || self.obstacle.is_some();
        self.table.as_ref().filter(|_| is_needed)
    }

    fn place(&self) -> FilterPlace {
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

/// What programs are loaded from.
pub(super) struct Loading<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) device: &'a HookDevice,
    pub(super) plan: &'a FilterPlan,
    pub(super) sockets: &'a Map,
    /// Whether the kernel is told the parts of the program.
    pub(super) marked: bool,
}

impl Loading<'_> {
    pub(super) fn load(&self, place: Place) -> bpf::Result<bpf::Program> {
        let kernel = self.kernel;
        let kind = ProgramKind::Xdp { frags: false };
        let native = place == Place::Xdp(bpf::XdpMode::Native);
        let tags = self.device.tag_restorer.filter(|_| native);
        let written = program::write(self.plan.in_kernel(), tags, self.sockets);
        // The plan has tried the filter; 32-bit jumps are there since 6.6, and most do without.
        let mut asm = written.unwrap_or_default();
        let code = asm.finish_marked().or_else(|_| {
            asm.allow_long_jumps(true);
            asm.finish_marked()
        });
        let (code, marks) = code.unwrap_or_default();
        let options = bpf::LoadOptions {
            device: tags.map(|_| self.device.index),
            namespace: self.device.home.as_ref(),
            marks: if self.marked { &marks } else { &[] },
        };
        bpf::Program::load_with(kernel, "ringtap_xsk", kind, &code, &options)
    }
}

fn notes(
    device: &HookDevice,
    attached: &hook::Attached,
    receivers: &[Receiver],
    mtu: u32,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let passed = attached.passed_over.iter();
    notes.extend(passed.map(|hook| Note::PassedOver(hook.to_string())));
    let native = attached
        .hooks
        .iter()
        .all(|hook| hook.place() == Place::Xdp(bpf::XdpMode::Native));
    if device.takes_tags && (device.tag_restorer.is_none() || !native) {
        notes.push(Note::TagsNotSeen);
    }
    let hazards = attached.hazards.iter();
    notes.extend(hazards.map(|hazard| Note::StealsFrom(hazard.to_string())));
    let longest = receivers.first().map_or(0, Receiver::longest_packet);
    if mtu + 22 > longest {
        notes.push(Note::LongPacketsLost { longest });
    }
    if receivers.len() > 1 {
        notes.push(Note::OrderByQueue {
            queues: receivers.len(),
        });
    }
    notes
}

/// How the capture works.
pub(super) fn describe(source: &SocketSource) -> Description {
    let zero_copy = source.receivers.iter().all(Receiver::is_zero_copy);
    let native = |hook: &Hook| hook.place() == Place::Xdp(bpf::XdpMode::Native);
    let hook = match (source.attached.hooks.iter().all(native), zero_copy) {
        (_, true) => "AF_XDP, zero-copy; packets end here",
        (true, false) => "AF_XDP, copied from the driver; packets end here",
        (false, false) => "AF_XDP, copied from generic XDP; packets end here",
    };
    let memory = source.receivers.first().map(Receiver::memory);
    Description {
        engine: ENGINE,
        choice: None,
        device: source.device.name.clone(),
        link_types: vec![source.device.link_type],
        hook,
        clock: describe::Clock::Kernel(KernelClock::Tai),
        vlan: if source.device.tag_restorer.is_some() {
            "put back at byte 12 where the driver took them out"
        } else {
            "as the driver shows them"
        },
        memory: memory.map(|bytes| Memory {
            block_size: u32::try_from(bytes).unwrap_or(u32::MAX),
            blocks: u32::try_from(source.receivers.len()).unwrap_or(u32::MAX),
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        loopback: source.device.is_loopback,
        promiscuous: source.options.promiscuous,
        direction: Direction::In,
        delivery_bound: Some(Duration::from_millis(1)),
        filter: source.plan.place(),
        fanout_group: None,
        notes: source.notes.clone(),
        blind: vec!["packets that the host sends"],
    }
}

#[cfg(test)]
mod tests {
    use ringtap_sys::netlink::Name;

    use super::*;

    #[test]
    fn members_of_a_bond_are_named_as_devices() {
        let link = |index: u32, name: &str, master| Link {
            index,
            name: Name::new(name.as_bytes()),
            master,
            ..Link::default()
        };
        let links = [
            link(2, "eth0", Some(4)),
            link(3, "eth1", Some(4)),
            link(4, "bond0", None),
            link(5, "eth2", Some(6)),
        ];
        let members = members(&links, 4);
        assert_eq!(members, ["xsk:eth0", "xsk:eth1"]);
        let error = OptionError::BondAtSocket {
            engine: ENGINE,
            members,
        };
        assert!(
            error.to_string().ends_with(": xsk:eth0, xsk:eth1"),
            "{error}"
        );
    }
}

//! The devices whose queues a capture reads: the opened one, or the members of a bond or team, which has no
//! queues of its own in the kernel.
//!
//! Each has its sockets, its memory and its program. A member that leaves the bond is returned to the host at
//! once, and its packets are still delivered. A new member is opened like the others, if the process still
//! has the privileges.

use std::time::Duration;

use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, Program, ProgramKind};
use ringtap_sys::errno::ENOPROTOOPT;
use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Link, Netlink};
use ringtap_sys::xsk::{Binding, QueueOptions, Receiver, Statistics};

use super::program;
use crate::describe::KernelClock;
use crate::engines::filter_plan::FilterPlan;
use crate::engines::interface::{InterfaceLosses, Target};
use crate::filter::at_hook;
use crate::hook::{self, Announced, Attached, Hook, HookDevice, HookError, HookPoint, Wanted};
use crate::{Error, Result};

/// The maximum number of queues, and of frames of a queue.
const MOST_QUEUES: u32 = 1 << 10;
const MOST_FRAMES: u64 = 1 << 18;
const LEAST_FRAMES: u64 = 64;
/// The bytes that a frame needs beside the packet: the kernel's headroom, and an Ethernet header with two
/// tags.
const BESIDE_MTU: u32 = 256 + 22;

/// The losses of a capture, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// No free frame, no room in the ring, or too long.
    pub(super) ring: u64,
    /// Before the host saw them. `None` if an interface does not report it.
    pub(super) interface: Option<u64>,
}

/// A device with its sockets and the program that feeds them.
pub(super) struct Member {
    // Dropped in this order: the program first, so that nothing comes to sockets that are half gone.
    pub(super) attached: Attached,
    /// The captures from which its program takes packets.
    pub(super) announced: Announced,
    pub(super) sockets: Map,
    /// By queue.
    pub(super) receivers: Vec<Receiver>,
    pub(super) device: HookDevice,
    pub(super) mtu: u32,
    losses: Option<InterfaceLosses>,
    /// Whether it has left; its packets must still be delivered.
    pub(super) has_left: bool,
}

/// How members are opened, at the start and later.
pub(super) struct Opener {
    pub(super) kernel: Kernel,
    pub(super) wanted: Wanted,
    /// The memory for each queue, in bytes.
    pub(super) share: u64,
    pub(super) busy_poll: Option<Duration>,
    /// Whether the kernel gets the parts of the program.
    pub(super) marked: bool,
    /// The clock of the programs' stamps.
    pub(super) clock: KernelClock,
    /// Whether the control frames of a bond go on to the host.
    pub(super) spares_control: bool,
}

impl Opener {
    /// Opens the sockets of a device in the calling thread's network namespace, then redirects its packets to
    /// them. If it fails, nothing remains.
    pub(super) fn open(&self, link: &Link, plan: &FilterPlan) -> Result<Member> {
        let name = link.name.to_string();
        let device = HookDevice::find(&name)?
            .restoring_tags()?
            .remembering_home();
        let receivers = self.receivers(&device, link)?;
        let sockets = map_of(&self.kernel, &receivers);
        let sockets = sockets.map_err(|source| HookError::of_bpf(&device.name, source))?;
        let attached = {
            let load = &mut |place| self.load(&device, &sockets, plan, place);
            hook::attach(&self.kernel, &device, &self.wanted, load)?
        };
        let announced = attached.announce(plan.in_kernel_for_all().is_none(), None);
        let netlink = Netlink::open().map_err(Error::interface(&name))?;
        Ok(Member {
            attached,
            announced,
            sockets,
            receivers,
            device,
            mtu: link.mtu,
            losses: InterfaceLosses::new(netlink, &Target::One(Box::new(link.clone()))),
            has_left: false,
        })
    }

    /// Opens a socket for each queue of the device, all with one memory.
    fn receivers(&self, device: &HookDevice, link: &Link) -> Result<Vec<Receiver>> {
        let needed = link.mtu.saturating_add(BESIDE_MTU);
        let frame_size = if needed <= 2048 { 2048 } else { 4096 };
        let frames = (self.share / u64::from(frame_size)).clamp(LEAST_FRAMES, MOST_FRAMES);
        let frames = u32::try_from(1 << frames.ilog2()).unwrap_or(1 << 18);
        let queues = (0..used_queues(link)?).map(|queue| QueueOptions {
            ifindex: device.index,
            queue,
            frames,
            frame_size,
            binding: Binding::Automatic,
        });
        let queues: Vec<QueueOptions> = queues.collect();
        let receivers = Receiver::open_all(&queues)?;
        if let Some(duration) = self.busy_poll {
            for receiver in &receivers {
                busy_poll(receiver, duration)?;
            }
        }
        Ok(receivers)
    }

    /// Returns the program for a device.
    pub(super) fn load(
        &self,
        device: &HookDevice,
        sockets: &Map,
        plan: &FilterPlan,
        place: HookPoint,
    ) -> bpf::Result<Program> {
        let kind = ProgramKind::Xdp { frags: false };
        let native = place == HookPoint::Xdp(bpf::XdpMode::Native);
        let tags = device.tag_restorer.filter(|_| native);
        let filter = plan.in_kernel_for_all();
        let filter = filter.map(|program| at_hook(program, place));
        let written = program::write(
            filter.as_ref(),
            tags,
            self.spares_control,
            self.clock,
            sockets,
        );
        // The plan has tested the filter; 32-bit jumps exist since 6.6, and most filters do without.
        let mut asm = written.unwrap_or_default();
        let code = asm.finish_marked().or_else(|_| {
            asm.allow_long_jumps(true);
            asm.finish_marked()
        });
        let (code, marks) = code.unwrap_or_default();
        let options = bpf::LoadOptions {
            device: tags.map(|_| device.index),
            namespace: device.home.as_ref(),
            marks: if self.marked { &marks } else { &[] },
            ..bpf::LoadOptions::default()
        };
        Program::load_with(&self.kernel, "ringtap_xsk", kind, &code, &options)
    }
}

impl Member {
    /// Returns whether the program is still attached.
    pub(super) fn is_attached(&mut self) -> bool {
        self.attached.hooks.iter_mut().all(Hook::is_attached)
    }

    /// Returns the device's packets to the host.
    pub(super) fn leave(&mut self) {
        self.attached = Attached::default();
        self.has_left = true;
    }

    /// Returns how many packets wait to be read.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.receivers.iter().map(Receiver::available);
        waiting.map(u64::from).sum()
    }

    pub(super) fn losses(&mut self) -> Result<Losses> {
        let mut ring = 0;
        for receiver in &self.receivers {
            let Statistics {
                dropped, ring_full, ..
            } = receiver.statistics()?;
            ring += dropped + ring_full;
        }
        let losses = self.losses.as_mut();
        Ok(Losses {
            ring,
            interface: losses.and_then(InterfaceLosses::since_opening),
        })
    }

    pub(super) fn is_native(&self) -> bool {
        let native = |hook: &Hook| hook.place() == HookPoint::Xdp(bpf::XdpMode::Native);
        self.attached.hooks.iter().all(native)
    }

    /// Returns the longest packet that its frames hold, in bytes.
    pub(super) fn longest_packet(&self) -> u32 {
        self.receivers.first().map_or(0, Receiver::longest_packet)
    }
}

/// Returns the members of a bond or team, in the order of their numbers.
pub(super) fn members_of(links: &[Link], master: u32) -> impl Iterator<Item = &Link> {
    links.iter().filter(move |link| link.master == Some(master))
}

/// Returns the receive queues that the adapter uses; the stack may know more.
pub(super) fn used_queues(link: &Link) -> Result<u32> {
    let known = link.rx_queues.unwrap_or(1).clamp(1, MOST_QUEUES);
    let channels = Ethtool::open()?.channels(&link.name).ok().flatten();
    let used = channels.map(|channels| channels.rx.saturating_add(channels.combined));
    Ok(used
        .filter(|used| *used > 0)
        .map_or(known, |used| used.min(known)))
}

/// Requests polling of the driver; a kernel without it continues without.
fn busy_poll(receiver: &Receiver, duration: Duration) -> Result<()> {
    match receiver.set_busy_poll(duration) {
        Err(error) if error.errno() == Some(ENOPROTOOPT) => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Loads the smallest program and drops it, to test whether this kernel accepts it.
pub(crate) fn trial(kernel: &Kernel) -> bpf::Result<()> {
    let sockets = empty_map(kernel, 1)?;
    let clock = super::open::clock_of(kernel);
    // An empty filter has no errors.
    let asm = program::write(None, None, false, clock, &sockets).unwrap_or_default();
    let code = asm.finish().unwrap_or_default();
    let kind = ProgramKind::Xdp { frags: false };
    Program::load(kernel, "ringtap_xsk", kind, &code).map(drop)
}

fn empty_map(kernel: &Kernel, queues: u32) -> bpf::Result<Map> {
    let spec = MapSpec::new("ringtap_xsk", MapKind::XskMap, 4, queues);
    Map::create(kernel, &spec)
}

fn map_of(kernel: &Kernel, receivers: &[Receiver]) -> bpf::Result<Map> {
    let queues = u32::try_from(receivers.len()).unwrap_or(MOST_QUEUES);
    let sockets = empty_map(kernel, queues)?;
    for (queue, receiver) in (0..).zip(receivers) {
        sockets.update_fd(queue, receiver)?;
    }
    Ok(sockets)
}

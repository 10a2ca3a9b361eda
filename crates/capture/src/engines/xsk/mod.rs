//! Engine `xsk`: AF_XDP sockets, one for each receive queue of a device.
//!
//! An XDP program filters and stamps packets, which are read in place from memory that driver and application
//! share. They end here: the host does not see them, so the engine needs the same consent as a stealing tap.
//! It sees no sent packets, and does not sort the packets of several queues.
//!
//! A bond or team has no queues of its own: the capture is one over the queues of all its members.
//!
//! The program puts the stamp before the packet (`bpf_xdp_adjust_meta`). A driver without room there leaves
//! it out; packets then have the time at which they were read.

mod follow;
mod members;
mod open;
mod program;
mod records;
mod wait;

use std::time::{Duration, Instant};

use ringtap_savefile::Interface;
use ringtap_sys::bpf::Program;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{LinkWatch, Netlink};
use ringtap_sys::packet::Promiscuous;
use ringtap_sys::poll::ReadSet;
use ringtap_sys::tap::Clock;

use crate::block::Origin;
use crate::describe::Note;
use crate::engines::filter_plan::FilterPlan;
use crate::hook::{HookDevice, HookError};
use crate::options::CaptureOptions;
use crate::{Block, Description, Dropped, Filter, Next, Result, Source, Stats};
pub(crate) use members::trial;
use members::{Losses, Member, Opener};
pub(crate) use open::open;
pub(crate) use records::{SocketPackets, SocketRecords};
use wait::Naps;

/// The maximum number of packets in a block: enough to make overhead small, few enough to return their frames
/// soon.
const BATCH: u32 = 256;

/// A queue of a member, by their positions in the source's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Queue {
    member: usize,
    queue: usize,
}

/// A capture by this engine.
struct SocketSource {
    /// The device that was opened.
    device: HookDevice,
    /// Whether it is a bond or similar, whose members are captured.
    is_aggregate: bool,
    /// The device itself, or its members.
    members: Vec<Member>,
    opener: Opener,
    /// Members that could not be opened, by their numbers.
    refused: Vec<u32>,
    /// Interfaces that are down, by their numbers.
    down: Vec<u32>,
    /// The losses of removed members.
    past: Losses,
    /// The queue that is checked first.
    turn: Queue,
    naps: Naps,
    plan: FilterPlan,
    /// Whether packets may come that the present filter has not seen in the kernel.
    has_changed: bool,
    clock: Clock,
    /// The difference from the program's clock to the wall clock, in nanoseconds.
    offset: u64,
    interfaces: [Interface; 1],
    options: CaptureOptions,
    waker: Waker,
    polled: ReadSet,
    delivered: u64,
    /// The network namespace of the device.
    netlink: Netlink,
    watch: LinkWatch,
    /// Whether interfaces may have changed since the last check.
    changed: bool,
    looked: Instant,
    /// The number of blocks since the clock was read.
    blocks: u32,
    _promiscuous: Option<Promiscuous>,
    notes: Vec<Note>,
}

impl SocketSource {
    fn next_within(&mut self, limit: Duration) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        let queue = match self.ready() {
            Some(queue) => {
                self.look_now_and_then()?;
                Some(queue)
            }
            None => self.wait(limit)?,
        };
        let Some(queue) = queue else {
            let woken = self.waker.is_pending() && self.waker.take();
            return Ok(if woken { Next::Woken } else { Next::TimedOut });
        };
        self.turn = Queue {
            queue: queue.queue + 1,
            ..queue
        };
        let (filter, always) = self.plan.in_user_space();
        // If the program runs the filter, some packets may have passed an older one.
        let filter = filter.filter(|_| always || self.has_changed);
        let batch = self.members[queue.member].receivers[queue.queue].batch(BATCH);
        self.delivered += batch.len() as u64;
        let records =
            SocketRecords::new(batch, self.offset, self.options.snaplen, filter.is_some());
        Ok(Next::Block(Block::new(Origin::Socket(records), filter)))
    }

    /// Returns the losses of all members together, including removed ones.
    fn losses(&mut self) -> Result<Losses> {
        let mut sum = self.past;
        for member in &mut self.members {
            let losses = member.losses()?;
            sum.ring += losses.ring;
            sum.interface = match (sum.interface, losses.interface) {
                (Some(sum), Some(lost)) => Some(sum + lost),
                (sum, lost) => sum.or(lost),
            };
        }
        Ok(sum)
    }
}

impl Source for SocketSource {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn next(&mut self) -> Result<Next<'_>> {
        self.next_within(self.options.timeout)
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        self.next_within(Duration::ZERO)
    }

    fn stats(&mut self) -> Result<Stats> {
        let lost = self.losses()?;
        let waiting: u64 = self.members.iter().map(Member::waiting).sum();
        Ok(Stats {
            received: Some(self.delivered + waiting + lost.ring),
            dropped: Dropped {
                ring: Some(lost.ring),
                interface: lost.interface,
                ..Dropped::default()
            },
            ..Stats::default()
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        let plan = FilterPlan::of_one(filter, &self.device, &self.options)?.for_xdp_sockets();
        // All are loaded before the first is exchanged.
        let mut programs = Vec::new();
        for member in &self.members {
            for hook in &member.attached.hooks {
                let (device, sockets) = (&member.device, &member.sockets);
                let program = self.opener.load(device, sockets, &plan, hook.place());
                programs.push(program.map_err(|source| HookError::of_bpf(&device.name, source))?);
            }
        }
        let members = self.members.iter_mut();
        let hooks = members.flat_map(|member| &mut member.attached.hooks);
        for (hook, program) in hooks.zip(programs) {
            hook.replace(program)?;
        }
        self.plan = plan;
        self.has_changed = true;
        Ok(())
    }

    fn programs(&self) -> Result<Vec<Program>> {
        let mut all = Vec::new();
        for member in &self.members {
            all.extend(member.attached.programs()?);
        }
        Ok(all)
    }

    fn describe(&self) -> Description {
        open::describe(self)
    }
}

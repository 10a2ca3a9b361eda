//! Engine `xsk`: AF_XDP sockets, one for each receive queue of a device.
//!
//! What it is: packets that an XDP program has chosen with the filter and stamped, read in place from
//! memory that driver and application share. They end here: the host does not see them, so that the
//! engine needs the same consent as a tap that steals. What it is not: it sees nothing that the host
//! sends, and does not put the packets of several queues into one order.
//!
//! The stamp lies in front of the packet, where the program has put it (`bpf_xdp_adjust_meta`). A
//! driver that has no room there leaves it out; packets then have the time at which they were read.

mod open;
mod program;
mod records;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_savefile::Interface;
use ringtap_sys::bpf::{Kernel, Map, Program};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::packet::Promiscuous;
use ringtap_sys::poll::ReadSet;
use ringtap_sys::tap::Clock;
use ringtap_sys::xsk::Receiver;

use crate::describe::Note;
use crate::engines::interface::InterfaceLosses;
use crate::filter::FilterTable;
use crate::hook::{Attached, HookDevice};
use crate::options::CaptureOptions;
use crate::{Block, Description, Dropped, Error, Filter, Next, Result, Source, Stats};
use open::FilterPlan;
pub(crate) use open::open;
pub(crate) use records::{SocketPackets, SocketRecords};

/// Packets of a block at most: enough to make the work around them small, few enough to give their
/// frames back soon.
const BATCH: u32 = 256;
/// How often an idle capture looks whether its device is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A capture by this engine.
struct SocketSource {
    device: HookDevice,
    /// By queue.
    receivers: Vec<Receiver>,
    /// The queue that is asked first.
    turn: usize,
    sockets: Map,
    attached: Attached,
    plan: FilterPlan,
    /// Whether packets may come that the present filter has not seen in the kernel.
    has_changed: bool,
    clock: Clock,
    kernel: Kernel,
    /// From the program's clock to the wall clock, in nanoseconds.
    offset: u64,
    interfaces: [Interface; 1],
    options: CaptureOptions,
    waker: Waker,
    polled: ReadSet,
    delivered: u64,
    losses: Option<InterfaceLosses>,
    _promiscuous: Option<Promiscuous>,
    notes: Vec<Note>,
}

impl SocketSource {
    /// The next queue that has packets.
    fn ready(&self) -> Option<usize> {
        let queues = self.receivers.len();
        let from_turn = (0..queues).map(|step| (self.turn + step) % queues);
        from_turn
            .into_iter()
            .find(|&queue| self.receivers[queue].available() > 0)
    }

    /// Has the driver looked after its queues without sleeping, for so long; true where packets came.
    fn poll_driver(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        loop {
            for receiver in &self.receivers {
                receiver.poll_driver();
            }
            if self.ready().is_some() {
                return true;
            }
            if Instant::now() >= end || self.waker.is_pending() {
                return false;
            }
        }
    }

    /// Waits for packets; nothing where the time is over or the waker was used.
    fn wait(&mut self, limit: Duration) -> Result<Option<usize>> {
        let deadline = Instant::now() + limit;
        loop {
            // Drivers that wait for it are told that there are frames.
            for receiver in &mut self.receivers {
                drop(receiver.batch(0));
            }
            if let Some(queue) = self.ready() {
                return Ok(Some(queue));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.waker.is_pending() {
                return Ok(None);
            }
            if let Some(duration) = self.options.busy_poll
                && self.poll_driver(duration.min(left))
            {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let fds = self.receivers.iter().map(AsFd::as_fd);
            let fds = fds.chain([self.waker.as_fd()]);
            let ready = self.polled.wait(fds, left.min(LOOK_EVERY))?;
            if self.clock.take_change()? {
                self.offset = self.clock.from_tai();
            }
            if !ready
                && !self
                    .attached
                    .hooks
                    .iter_mut()
                    .all(crate::hook::Hook::is_attached)
            {
                return Err(Error::InterfaceGone {
                    device: self.device.name.clone(),
                });
            }
        }
    }

    fn next_within(&mut self, limit: Duration) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        let queue = match self.ready() {
            Some(queue) => Some(queue),
            None => self.wait(limit)?,
        };
        let Some(queue) = queue else {
            let woken = self.waker.is_pending() && self.waker.take();
            return Ok(if woken { Next::Woken } else { Next::TimedOut });
        };
        self.turn = queue + 1;
        let filter: Option<&FilterTable> = self.plan.in_user_space(self.has_changed);
        let batch = self.receivers[queue].batch(BATCH);
        self.delivered += batch.len() as u64;
        let records =
            SocketRecords::new(batch, self.offset, self.options.snaplen, filter.is_some());
        Ok(Next::Block(Block::from_socket(records, filter)))
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
        let (mut lost, mut waiting) = (0, 0);
        for receiver in &self.receivers {
            let statistics = receiver.statistics()?;
            lost += statistics.dropped + statistics.ring_full;
            waiting += u64::from(receiver.available());
        }
        Ok(Stats {
            received: Some(self.delivered + waiting + lost),
            dropped: Dropped {
                hook: None,
                sampling: None,
                ring: Some(lost),
                interface: self
                    .losses
                    .as_mut()
                    .and_then(InterfaceLosses::since_opening),
                application: None,
            },
            freezes: None,
            stamped_by_host: None,
            clamped: None,
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        let plan = FilterPlan::new(filter, &self.device, self.options.snaplen)?;
        let loading = open::Loading {
            kernel: &self.kernel,
            device: &self.device,
            plan: &plan,
            sockets: &self.sockets,
            marked: self.options.study.is_some(),
        };
        for hook in &mut self.attached.hooks {
            let program = loading.load(hook.place());
            hook.replace(program.map_err(|source| open::bpf_error(&self.device, source))?)?;
        }
        self.plan = plan;
        self.has_changed = true;
        Ok(())
    }

    fn programs(&self) -> Result<Vec<Program>> {
        Ok(self.attached.programs()?)
    }

    fn describe(&self) -> Description {
        open::describe(self)
    }
}

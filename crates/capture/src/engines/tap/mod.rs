//! Engines `tcx` and `xdp`: the tap, a program of ringtap's own in the kernel that leaves packets in
//! mapped rings.
//!
//! What it is: filter, sampling, stamping and copying in the kernel, at a hook of the interface; a
//! reader that hands records out where they lie. What it is not: it needs `CAP_BPF`,
//! `CAP_NET_ADMIN` and `CAP_PERFMON`, and Linux 5.12 (at XDP 5.18).
//!
//! Data in: a device, options, a filter. Data out: blocks of records, each a pcapng enhanced packet
//! block, so that a capture file takes a whole block as it is.
//!
//! # When packets are handed over
//!
//! When [`CaptureOptions::min_to_copy`] bytes of records are there, over all rings together, or at
//! the time-out; in immediate mode at once. A reader that finds enough when it comes back makes no
//! system call. Else it naps while packets come fast, so that the program never has to ring; where
//! they do not, it asks for the doorbell and sleeps ([`ringtap_sys::tap`] argues that no wake-up is
//! lost).
//!
//! # No stray packets
//!
//! Rings are in place before the program is attached. A filter is replaced together with its program,
//! in one step; after an RCU grace period the rings' heads mark where packets of the old filter end,
//! and those are run through the new one here. New rings come with new programs; the old ones are
//! read to their end before.

mod any;
mod chain;
mod description;
mod merge;
mod open;
mod plan;
mod polls;
mod program;
mod reader;
mod rings;
mod shared;
pub(crate) mod trial;
mod wait;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use ringtap_savefile::{Interface, InterfaceTable, Item};
use ringtap_sys::bpf::{Kernel, Program};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{LinkWatch, Netlink};
use ringtap_sys::netns::Namespace;
use ringtap_sys::packet::Promiscuous;
use ringtap_sys::poll::PollGroup;
use ringtap_sys::receive_stamps::ReceiveStamps;
use ringtap_sys::sched::wait_for_all_cpus;
use ringtap_sys::tap::{Clock, Control, Doorbell, Geometry};

use crate::describe::{KernelClock, Note};
use crate::engines::filter_plan::FilterPlan;
use crate::engines::interface::InterfaceLosses;
use crate::hook::{Announced, Attached, Hook, HookError, HookPoint, Sight, Thieves};
use crate::options::CaptureOptions;
use crate::source::{Change, Delivery, Polling};
use crate::{Description, Dropped, Filter, Next, Result, Source, Stats};
use any::{Any, Loaded, form_of};
use chain::ChainWatch;
pub(crate) use open::{open_stealing, open_tcx, open_xdp};
use plan::{Bound, Form, Programs};
use polls::Polls;
use program::Maps;
use reader::Reader;
pub(crate) use reader::TapRecords;
use shared::Share;
use wait::{State, WaitHistory, Waited};

/// A descriptor that is readable for several reasons.
struct Polled {
    group: PollGroup,
    /// Makes it so for packets for which the doorbell does not ring any more.
    more: Waker,
}

impl Polled {
    fn new([first, second, third]: [BorrowedFd<'_>; 3]) -> Result<Self> {
        let more = Waker::new()?;
        let group = PollGroup::new([first, second, third, more.as_fd()])?;
        Ok(Self { group, more })
    }

    /// Whether there are packets for which the doorbell does not ring.
    fn has_more(&self, has_more: bool) {
        match (has_more, self.more.is_pending()) {
            (true, false) => self.more.wake(),
            (false, true) => {
                self.more.take();
            }
            _ => {}
        }
    }
}

/// A capture by this engine.
struct TapSource {
    engine: &'static str,
    /// Why this engine was chosen, where the device names none.
    choice: Option<String>,
    device: String,
    bound: Bound,
    kernel: Kernel,
    reader: Reader,
    control: Control,
    doorbell: Doorbell,
    clock: Clock,
    kernel_clock: KernelClock,
    attached: Attached,
    /// What stands before the programs, where that is watched.
    chain: ChainWatch,
    /// What ends the stamps of polls, where they have one each.
    polls: Option<Polls>,
    waker: Waker,
    options: CaptureOptions,
    /// Bytes that the largest packet needs.
    room: u32,
    interfaces: Vec<Interface>,
    /// How many of the interfaces the user of the source was told of.
    announced: usize,
    /// What it takes to capture on all interfaces.
    any: Option<Any>,
    table: InterfaceTable,
    /// The filter, and where it runs.
    plan: FilterPlan,
    history: WaitHistory,
    /// Those that read the rings in the place of this source.
    shares: Vec<Share>,
    netlink: Netlink,
    watch: LinkWatch,
    /// Whether an interface has changed that was not looked at since.
    changed: bool,
    /// What somebody waits for by [`Polling::fd`]: the doorbell, and changes of interfaces and clock.
    polled: Option<Polled>,
    state: State,
    /// When a reader that does not sleep asked whether interfaces have changed.
    looked: Instant,
    losses: Option<InterfaceLosses>,
    /// Whether received packets reach the program; nothing where they are not captured.
    sight: Option<Sight>,
    /// Other captures that take packets away before this one.
    thieves: Option<Thieves>,
    /// Those that this one takes packets away from; told until its own programs are gone.
    _announced: Announced,
    /// Held for its effect.
    _promiscuous: Option<Promiscuous>,
    /// The network namespace of the interface, where there is one interface.
    home: Option<Namespace>,
    /// What has the adapter stamp packets, where its stamps are wanted.
    receive_stamps: Option<ReceiveStamps>,
    notes: Vec<Note>,
}

impl TapSource {
    /// Keeps stamps on the wall clock, after it was set.
    fn follow_clock(&self) -> Result<()> {
        if self.clock.take_change()? {
            open::set_clock(&self.control, &self.clock, self.kernel_clock);
        }
        Ok(())
    }

    /// Has the doorbell rung for the next packet, where somebody polls for it; whether one has come
    /// until then. The descriptor is then readable, else it is not.
    fn comes_while_armed(&self) -> bool {
        let Some(polled) = &self.polled else {
            return false;
        };
        self.doorbell.silence();
        let armed = self.control.arm(1, || self.reader.available());
        let comes = !armed || self.reader.has_old_rings();
        polled.has_more(comes);
        comes
    }

    fn begin_delivery(&mut self) {
        self.state = State::Up;
        self.reader.begin_delivery();
    }

    /// The next block of the delivery.
    fn deliver(&mut self) -> Next<'_> {
        let (filter, always) = self.plan.in_user_space();
        match self.reader.next_block(&self.table, filter, always) {
            Some(block) => Next::Block(block),
            None => Next::TimedOut,
        }
    }

    /// An interface that its user was not told of yet.
    #[inline]
    fn next_interface(&mut self) -> Option<Item<'static>> {
        if self.announced == self.interfaces.len() {
            return None;
        }
        self.announced += 1;
        u32::try_from(self.announced - 1).ok().map(Item::Interface)
    }

    /// Bytes that are worth a delivery.
    fn wanted(&self) -> u64 {
        if self.options.immediate {
            1
        } else {
            // Half a ring at most, lest it become full before.
            let most = self.reader.current().geometry().size() / 2;
            u64::from(self.options.min_to_copy).clamp(1, most)
        }
    }

    /// The plan for another filter.
    fn plan_for(&self, filter: Option<&Filter>) -> Result<FilterPlan> {
        let (hooks, options) = (&self.attached.hooks, &self.options);
        let mut plan = match (&self.any, hooks.first()) {
            (Some(_), _) if options.cooked => return FilterPlan::cooked(filter, options),
            (None, Some(hook)) => FilterPlan::of_one(filter, hook.device(), options)?,
            _ => FilterPlan::new(filter, options),
        };
        if let Some(any) = &self.any {
            // Interfaces that are gone stay the capture's: their packets may wait in the rings.
            for (interface, &index) in self.interfaces.iter().zip(any.indices()) {
                plan.add(interface.link_type, index)?;
            }
            for loaded in &any.loaded {
                // A filter that is none for interfaces that may come: they will not be covered.
                let _ = plan.prepare(loaded.form.link_type);
            }
        }
        Ok(plan.for_hooks(hooks))
    }

    /// The programs that run, and those that wait for interfaces to come.
    fn forms_and_places(&self) -> Vec<(Form, HookPoint)> {
        match &self.any {
            Some(any) => {
                let loaded = any.loaded.iter();
                loaded.map(|loaded| (loaded.form, loaded.place)).collect()
            }
            None => {
                let hooks = self.attached.hooks.iter();
                let form = |hook: &Hook| Form::own(hook.device().link_type);
                hooks.map(|hook| (form(hook), hook.place())).collect()
            }
        }
    }

    /// Has programs made for the present rings take the place of those that run.
    fn replace_programs(
        &mut self,
        plan: &FilterPlan,
        geometry: Geometry,
        maps: Maps,
    ) -> Result<()> {
        let programs = Programs {
            kernel: &self.kernel,
            device: self.bound,
            home: self.home.as_ref(),
            plan,
            options: &self.options,
            room: self.room,
            geometry,
            maps,
        };
        // It is there before the programs that need it, and stays until they are gone.
        let polls = match (&self.polls, self.attached.hooks.first()) {
            (Some(_), Some(hook)) => Polls::watch(&self.kernel, hook.device(), &maps),
            _ => None,
        };
        if polls.is_none() && self.kernel_clock == KernelClock::TaiByPoll {
            self.kernel_clock = KernelClock::Tai;
        }
        let mut loaded: Vec<Loaded> = Vec::new();
        for (form, place) in self.forms_and_places() {
            if form.cooked.is_none() && !plan.is_for(form.link_type) {
                continue;
            }
            let program = programs.load(form, place, self.kernel_clock);
            let program = program.map_err(|source| HookError::of_bpf(&self.device, source))?;
            loaded.push(Loaded {
                form,
                place,
                program,
            });
        }
        for hook in &mut self.attached.hooks {
            let form = match &self.any {
                Some(_) => form_of(hook.device().hardware_type, self.options.cooked),
                None => Some(Form::own(hook.device().link_type)),
            };
            let mut fitting = loaded.iter();
            let fitting = fitting.find(|new| Some(new.form) == form && new.place == hook.place());
            if let Some(new) = fitting {
                let program = new.program.try_clone();
                hook.replace(program.map_err(|source| HookError::of_bpf(&self.device, source))?)?;
            }
        }
        if let Some(any) = &mut self.any {
            any.loaded = loaded;
        }
        // A kernel that refuses has its programs run for microseconds more; that is waited for.
        if wait_for_all_cpus().is_err() {
            std::thread::sleep(wait::GRACE_WITHOUT_BARRIER);
        }
        self.polls = polls;
        Ok(())
    }
}

impl TapSource {
    fn set_delivery(&mut self, delivery: Delivery) -> Result<()> {
        let mut options = self.options.clone();
        options.timeout = delivery.timeout;
        options.min_to_copy = delivery.min_to_copy;
        options.immediate = delivery.immediate;
        options.validate()?;
        self.options = options;
        Ok(())
    }

    fn set_buffer(&mut self, bytes: u64) -> Result<()> {
        self.refuse_while_shared("the buffer of a shared capture")?;
        let record = program::largest_record(self.room);
        let set = self.reader.current().again(&self.kernel, bytes, record);
        let set = set.map_err(|source| HookError::of_bpf(&self.device, source))?;
        let (geometry, maps) = (set.geometry(), self.maps(&set));
        let plan = self.plan.clone();
        self.replace_programs(&plan, geometry, maps)?;
        self.options.buffer = bytes;
        self.reader.succeed(set);
        Ok(())
    }
}

impl Source for TapSource {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    #[inline]
    fn next(&mut self) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        if !self.shares.is_empty() {
            return self.tend();
        }
        if !self.reader.is_delivering() {
            self.reader.leave_old_rings();
            if !self.reader.has_old_rings() && self.reader.available() < self.wanted() {
                match self.wait()? {
                    Waited::Ready => {}
                    Waited::TimedOut
                        if self.reader.available() == 0
                            && self.announced == self.interfaces.len() =>
                    {
                        return Ok(Next::TimedOut);
                    }
                    Waited::TimedOut => {}
                    Waited::Woken => return Ok(Next::Woken),
                }
            }
            if let Some(next) = self.next_interface() {
                return Ok(Next::Meta(next));
            }
            self.begin_delivery();
        }
        Ok(self.deliver())
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        if !self.shares.is_empty() {
            self.look_at_rest(wait::LOOK_EVERY)?;
            self.look_at_programs()?;
            self.look_at_sight()?;
            self.look_at_thieves()?;
            self.wake_readers();
            return Ok(Next::TimedOut);
        }
        if !self.reader.is_delivering() {
            self.reader.leave_old_rings();
            let is_empty = !self.reader.has_old_rings() && self.reader.available() == 0;
            // What makes the descriptor readable is to be looked at, lest it stay so.
            let looks = if is_empty && self.polled.is_some() {
                Duration::ZERO
            } else {
                wait::LOOK_EVERY
            };
            self.look_at_rest(looks)?;
            self.look_at_chain()?;
            self.look_at_programs()?;
            self.look_at_sight()?;
            self.look_at_thieves()?;
            if is_empty && !self.comes_while_armed() {
                return Ok(Next::TimedOut);
            }
            if let Some(next) = self.next_interface() {
                return Ok(Next::Meta(next));
            }
            self.begin_delivery();
            if !self.reader.is_delivering() {
                // Old rings that are written still: there will be something at once.
                self.comes_while_armed();
                return Ok(Next::TimedOut);
            }
        }
        Ok(self.deliver())
    }

    fn stats(&mut self) -> Result<Stats> {
        self.follow_clock()?;
        let counters = self.reader.counters();
        let elsewhere = self.reader.current().without_ring().ok();
        let losses = self.losses.as_mut();
        Ok(Stats {
            received: Some(counters.stored + counters.full),
            dropped: Dropped {
                hook: elsewhere.map(|count| count + counters.unreadable + counters.contended),
                sampling: Some(counters.sampled),
                ring: Some(counters.full),
                interface: losses.and_then(InterfaceLosses::since_opening),
                before_hook: self.missed(),
                application: None,
            },
            freezes: None,
            stamped_by_host: self.bound.stamps.map(|_| counters.by_host),
            clamped: Some(counters.clamped),
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        self.refuse_while_shared("the filter of a shared capture")?;
        let plan = self.plan_for(filter)?;
        let set = self.reader.current();
        let (geometry, maps) = (set.geometry(), self.maps(set));
        self.replace_programs(&plan, geometry, maps)?;
        self.reader.mark_stale();
        self.plan = plan;
        Ok(())
    }

    fn change(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Delivery(delivery) => self.set_delivery(delivery),
            Change::Buffer(bytes) => self.set_buffer(bytes),
            other => Err(other.refused()),
        }
    }

    fn polling(&mut self) -> Option<&mut dyn Polling> {
        Some(self)
    }

    fn programs(&self) -> Result<Vec<Program>> {
        Ok(self.attached.programs()?)
    }

    fn describe(&self) -> Description {
        description::describe(self)
    }
}

impl Polling for TapSource {
    /// The doorbell and the rest; whoever waits for it is rung for the first packet that comes once
    /// [`Source::try_next`] had none.
    fn fd(&mut self) -> Result<RawFd> {
        let polled = match self.polled.take() {
            Some(polled) => polled,
            None => Polled::new([
                self.doorbell.as_fd(),
                self.watch.as_fd(),
                self.clock.as_fd(),
            ])?,
        };
        let fd = polled.group.as_fd().as_raw_fd();
        self.polled = Some(polled);
        if !self.reader.is_delivering() {
            self.comes_while_armed();
        }
        Ok(fd)
    }

    fn settle(&mut self, has_more: bool) {
        let Some(polled) = &self.polled else {
            return;
        };
        if has_more || self.reader.is_delivering() {
            polled.has_more(true);
        } else if self.reader.available() == 0 {
            self.comes_while_armed();
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.polled.as_ref().map(|_| chain::ASK_EVERY)
    }
}

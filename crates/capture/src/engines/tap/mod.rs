//! Engines `tcx` and `xdp`: the tap, a program of ringtap in the kernel that puts packets into mapped rings.
//!
//! The program filters, samples, stamps and copies in the kernel, at a hook of the interface. A reader
//! returns records in place. The tap needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, and Linux 5.12 (at
//! XDP 5.18).
//!
//! A device, options and a filter go in. Blocks of records come out, each record a pcapng enhanced packet
//! block, so that a capture file can store whole blocks unchanged.
//!
//! # When packets are handed over
//!
//! A delivery happens when the rings together hold [`CaptureOptions::min_to_copy`] bytes of records, or at
//! the timeout; immediately in immediate mode. If a reader finds enough records, it makes no system call.
//! Otherwise it naps while packets come fast, so that the program need not ring. If they come slowly, it
//! requests the doorbell and sleeps ([`ringtap_sys::tap`] argues that no wake-up is lost).
//!
//! # No stray packets
//!
//! Rings are set up before the program is attached. A filter is replaced together with its program, in one
//! step. After an RCU grace period the rings' heads mark the end of the old filter's packets, which then pass
//! through the new filter here. New rings come with new programs; the old ones are read to their end first.

mod any;
mod chain;
mod description;
pub(crate) mod drops;
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

use ringtap_savefile::{ByteOrder, Interface, InterfaceTable, Item, PacketRun};
use ringtap_sys::bpf::{Kernel, Program};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{LinkWatch, Netlink};
use ringtap_sys::netns::Namespace;
use ringtap_sys::packet::Promiscuous;
use ringtap_sys::poll::PollGroup;
use ringtap_sys::receive_stamps::ReceiveStamps;
use ringtap_sys::sched::wait_for_all_cpus;
use ringtap_sys::tap::{Clock, Control, Doorbell, Geometry};

use crate::block::Origin;
use crate::describe::{KernelClock, Note};
use crate::engines::filter_plan::{FilterPlan, check_processes};
use crate::engines::interface::InterfaceLosses;
use crate::filter::{Described, Groups};
use crate::hook::{Announced, Attached, Hook, HookError, HookPoint, Sight, Thieves};
use crate::options::CaptureOptions;
use crate::source::{Change, Delivery, Polling};
use crate::who::Owners;
use crate::{Block, Description, Dropped, Error, Filter, Next, Result, Source, Stats};
use any::{Any, Loaded, form_of};
use chain::ChainWatch;
use drops::DropTap;
pub(crate) use open::{open_stealing, open_tcx, open_xdp};
use plan::{Bound, Form, Programs};
use polls::Polls;
use program::Maps;
use reader::Reader;
pub(crate) use reader::TapRecords;
use shared::Share;
use wait::{State, WaitHistory, Waited};

/// A descriptor that becomes readable for several reasons.
struct Polled {
    group: PollGroup,
    /// Makes it readable for packets that do not ring the doorbell.
    more: Waker,
}

impl Polled {
    fn new([first, second, third]: [BorrowedFd<'_>; 3]) -> Result<Self> {
        let more = Waker::new()?;
        let group = PollGroup::new([first, second, third, more.as_fd()])?;
        Ok(Self { group, more })
    }

    /// Records whether there are packets that do not ring the doorbell.
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
    /// Why this engine was chosen, if the device names none.
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
    /// The programs before its own, if they are watched.
    chain: ChainWatch,
    /// The program that ends the stamps of polls, if each poll has one stamp.
    polls: Option<Polls>,
    waker: Waker,
    options: CaptureOptions,
    /// The number of bytes for the largest packet.
    room: u32,
    interfaces: Vec<Interface>,
    /// The number of interfaces that the user of the source knows.
    announced: usize,
    /// The state of a capture on all interfaces.
    any: Option<Any>,
    /// The state of a capture of dropped packets.
    drops: Option<DropTap>,
    table: InterfaceTable,
    /// The filter, and where it runs.
    plan: FilterPlan,
    history: WaitHistory,
    /// The readers that read the rings instead of this source.
    shares: Vec<Share>,
    netlink: Netlink,
    watch: LinkWatch,
    /// Whether an interface has changed and was not examined yet.
    changed: bool,
    /// The descriptors behind [`Polling::fd`]: the doorbell, and changes of interfaces and clock.
    polled: Option<Polled>,
    state: State,
    /// When a reader that does not sleep last checked the interfaces for changes.
    looked: Instant,
    losses: Option<InterfaceLosses>,
    /// Whether received packets reach the program. `None` if they are not captured.
    sight: Option<Sight>,
    /// Other captures that take packets before this one.
    thieves: Option<Thieves>,
    /// The captures from which this one takes packets. They are notified when its programs are gone.
    _announced: Announced,
    /// The owners of sockets, if the processes of packets are recorded.
    owners: Option<Owners>,
    /// The control groups of the processes that were described so far.
    groups: Groups,
    /// Held for its effect.
    _promiscuous: Option<Promiscuous>,
    /// The network namespace of the interface, if there is only one.
    home: Option<Namespace>,
    /// Makes the adapter stamp packets, if its stamps are requested.
    receive_stamps: Option<ReceiveStamps>,
    notes: Vec<Note>,
}

impl TapSource {
    /// Keeps stamps on the wall clock after it was set.
    fn follow_clock(&self) -> Result<()> {
        if self.clock.take_change()? {
            self.set_clock(self.kernel_clock);
        }
        Ok(())
    }

    /// Requests the doorbell for the next packet, if somebody polls for it. Returns whether one has come in
    /// the meantime. The descriptor is then readable, else not.
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

    /// Begins a delivery. The interfaces of all its packets are known then, if another process attaches programs.
    fn begin_delivery(&mut self) -> Result<()> {
        self.state = State::Up;
        self.reader.begin_delivery();
        match self.is_everywhere() {
            true => self.take_reports(),
            false => Ok(()),
        }
    }

    /// Returns whether all network namespaces are captured.
    fn is_everywhere(&self) -> bool {
        self.any.as_ref().is_some_and(Any::is_everywhere)
    }

    /// Rejects a change of programs that only another process could make.
    fn refuse_everywhere(&self, what: &'static str) -> Result<()> {
        match self.is_everywhere() {
            true => Err(Error::FixedAtOpening { what }),
            false => Ok(()),
        }
    }

    /// Returns the next block of the delivery. Processes come before their packets: they were recorded before
    /// the packets that the delivery consists of.
    fn deliver(&mut self) -> Next<'_> {
        if self.owners.as_mut().is_some_and(Owners::advance) {
            let block = self.owners.as_ref().and_then(Owners::block);
            let Some(item) = block.map(Item::Other) else {
                return Next::TimedOut;
            };
            if let Some(described) = Described::of(&item) {
                self.plan.learn(&described);
                self.groups.learn(described);
            }
            return Next::Meta(item);
        }
        let (filter, always) = self.plan.in_user_space();
        let Some(block) = self.reader.next_block(&self.table, filter, always) else {
            return Next::TimedOut;
        };
        let Some(drops) = &mut self.drops else {
            return Next::Block(block);
        };
        let totals = drops.notes.rewrite(&block, self.options.snaplen);
        drop(block);
        let records = drops.notes.records();
        let run = PacketRun::from_ring(records, ByteOrder::NATIVE, &self.table, 0, totals);
        Next::Block(Block::new(Origin::Run(run), None))
    }

    /// Returns an interface that the user does not know yet.
    #[inline]
    fn next_interface(&mut self) -> Option<Item<'static>> {
        if self.announced == self.interfaces.len() {
            return None;
        }
        self.announced += 1;
        u32::try_from(self.announced - 1).ok().map(Item::Interface)
    }

    /// Returns the number of bytes at which packets are delivered.
    fn wanted(&self) -> u64 {
        if self.options.immediate {
            1
        } else {
            // At most half a ring, so that it does not become full before.
            let most = self.reader.current().geometry().size() / 2;
            u64::from(self.options.min_to_copy).clamp(1, most)
        }
    }

    /// Returns the plan for another filter.
    fn plan_for(&self, filter: Option<&Filter>) -> Result<FilterPlan> {
        check_processes(filter, &self.options)?;
        let (hooks, options) = (&self.attached.hooks, &self.options);
        if self.drops.is_some() {
            return FilterPlan::of_dropped(filter, options);
        }
        if self.any.is_some() && options.cooked {
            let mut plan = FilterPlan::cooked(filter, options)?;
            plan.learn_all(&self.groups);
            return Ok(plan);
        }
        let mut plan = match (&self.any, hooks.first()) {
            (None, Some(hook)) => FilterPlan::of_one(filter, hook.device(), options)?,
            _ => FilterPlan::new(filter, options),
        };
        if let Some(any) = &self.any {
            // Removed interfaces stay in the capture: their packets may wait in the rings.
            for (interface, &index) in self.interfaces.iter().zip(any.indices()) {
                plan.add(interface.link_type, index)?;
            }
            for loaded in &any.own().loaded {
                // The filter does not support later interfaces: they will not be covered.
                let _ = plan.prepare(loaded.form.link_type);
            }
        }
        plan.learn_all(&self.groups);
        Ok(plan.for_hooks(hooks))
    }

    /// Returns the forms and places of the running programs, and of those that wait for later interfaces.
    fn forms_and_places(&self) -> Vec<(Form, HookPoint)> {
        match &self.any {
            Some(any) => {
                let loaded = any.own().loaded.iter();
                loaded.map(|loaded| (loaded.form, loaded.place)).collect()
            }
            None => {
                let hooks = self.attached.hooks.iter();
                let form = |hook: &Hook| Form::own(hook.device().link_type);
                hooks.map(|hook| (form(hook), hook.place())).collect()
            }
        }
    }

    /// Returns the input of programs for the present filter and rings.
    fn programs(&self) -> Programs<'_> {
        let set = self.reader.current();
        self.programs_for(&self.plan, set.geometry(), self.maps(set))
    }

    fn programs_for<'a>(
        &'a self,
        plan: &'a FilterPlan,
        geometry: Geometry,
        maps: Maps,
    ) -> Programs<'a> {
        Programs {
            kernel: &self.kernel,
            device: self.bound,
            home: self.home.as_ref(),
            plan,
            options: &self.options,
            room: self.room,
            geometry,
            maps,
            drops: self.drops.as_ref().map(|drops| &drops.settings),
        }
    }

    /// Replaces the running programs with programs for the present rings.
    fn replace_programs(
        &mut self,
        plan: &FilterPlan,
        geometry: Geometry,
        maps: Maps,
    ) -> Result<()> {
        // It exists before the programs that need it, and until they are gone.
        let polls = match (&self.polls, self.attached.hooks.first()) {
            (Some(_), Some(hook)) => Polls::watch(&self.kernel, hook.device(), &maps),
            _ => None,
        };
        if polls.is_none() {
            self.kernel_clock = self.kernel_clock.by_packet();
        }
        let programs = self.programs_for(plan, geometry, maps);
        if self.drops.is_some() {
            let program = programs.load(drops::FORM, drops::PLACE, self.kernel_clock);
            let program = program.map_err(|source| HookError::of_bpf(&self.device, source))?;
            return self.replace_at_drops(program);
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
            any.set_loaded(loaded);
        }
        wait_for_programs();
        self.polls = polls;
        Ok(())
    }

    /// Replaces the program for dropped packets. For a moment there is none, or a packet would be captured
    /// twice.
    fn replace_at_drops(&mut self, program: Program) -> Result<()> {
        let Some(drops) = &mut self.drops else {
            return Ok(());
        };
        drops.detach();
        let attached = drops.attach(&self.kernel, program);
        attached.map_err(|source| HookError::of_bpf(&self.device, source))?;
        wait_for_programs();
        Ok(())
    }
}

/// Waits until programs that were replaced no longer run. If the kernel has no barrier, some microseconds more
/// than they take are waited for.
fn wait_for_programs() {
    if wait_for_all_cpus().is_err() {
        std::thread::sleep(wait::GRACE_WITHOUT_BARRIER);
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
        self.refuse_everywhere("the buffer of a capture in all network namespaces")?;
        let record = match self.drops {
            Some(_) => drops::record(),
            None => program::largest_record(self.room),
        };
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
            self.begin_delivery()?;
        }
        // Another process may have added some since.
        if let Some(next) = self.next_interface() {
            return Ok(Next::Meta(next));
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
            // The cause of the readable descriptor must be handled, or it would stay readable.
            let looks = if is_empty && self.polled.is_some() {
                Duration::ZERO
            } else {
                wait::LOOK_EVERY
            };
            self.look_at_rest(looks)?;
            self.ask_for_chain()?;
            self.look_at_programs()?;
            self.look_at_sight()?;
            self.look_at_thieves()?;
            if is_empty && !self.comes_while_armed() {
                return Ok(Next::TimedOut);
            }
            if let Some(next) = self.next_interface() {
                return Ok(Next::Meta(next));
            }
            self.begin_delivery()?;
            if !self.reader.is_delivering() {
                // Old rings that are still being written: something will come soon.
                self.comes_while_armed();
                return Ok(Next::TimedOut);
            }
        }
        if let Some(next) = self.next_interface() {
            return Ok(Next::Meta(next));
        }
        Ok(self.deliver())
    }

    fn stats(&mut self) -> Result<Stats> {
        self.follow_clock()?;
        let counters = self.reader.counters();
        let elsewhere = self.reader.current().without_ring().ok();
        let elsewhere = match &self.drops {
            Some(drops) => elsewhere.and_then(|count| Some(count + drops.missed()?)),
            None => elsewhere,
        };
        let losses = self.losses.as_mut();
        let interface = losses.and_then(InterfaceLosses::since_opening);
        let drops = self.drops.as_mut();
        let interface = interface.or_else(|| drops.and_then(DropTap::lost_by_adapters));
        Ok(Stats {
            received: Some(counters.stored + counters.full),
            dropped: Dropped {
                hook: elsewhere.map(|count| count + counters.unreadable + counters.contended),
                sampling: Some(counters.sampled),
                ring: Some(counters.full),
                interface,
                before_hook: self.missed(),
                application: None,
            },
            freezes: None,
            stamped_by_host: self.bound.stamps.map(|_| counters.by_host),
            clamped: Some(counters.clamped),
            xdp: self.drops.as_ref().and_then(DropTap::lost_at_xdp),
            who: self.owners.as_ref().and_then(Owners::losses),
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        self.refuse_while_shared("the filter of a shared capture")?;
        self.refuse_everywhere("the filter of a capture in all network namespaces")?;
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
        let mut programs = self.attached.programs()?;
        if let Some(drops) = &self.drops {
            let own = drops.programs();
            programs.extend(own.map_err(|source| HookError::of_bpf(&self.device, source))?);
        }
        Ok(programs)
    }

    fn look_at_chain(&mut self) -> Result<()> {
        self.ask_for_chain()
    }

    fn follow(&mut self) -> Result<()> {
        self.follow_everywhere()
    }

    fn leave_to_follower(&mut self) {
        TapSource::leave_to_follower(self);
    }

    fn followed(&self) -> Option<BorrowedFd<'_>> {
        self.is_everywhere().then(|| self.watch.as_fd())
    }

    fn describe(&self) -> Description {
        description::describe(self)
    }
}

impl Polling for TapSource {
    /// Returns the descriptor of the doorbell and other events. It rings for the first packet that comes
    /// after [`Source::try_next`] had none.
    fn fd(&mut self) -> Result<RawFd> {
        let polled = match self.polled.take() {
            Some(polled) => polled,
            None => Polled::new([self.doorbell.as_fd(), self.changes(), self.clock.as_fd()])?,
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

//! Decides where the filter of a capture at hooks runs: in their programs, or in user space if one of them
//! cannot run it.
//!
//! A filter that asks for processes runs in steps. A program that knows nothing of them rejects packets by their
//! bytes, so that the process of few is looked up. A second one tests number, user and name. Containers and control
//! groups are known in user space only, which then applies the whole filter to what is left.

use ringtap_filter::Program;
use ringtap_filter::ebpf::Assembler;
use ringtap_filter::ebpf::lower::{self, Exits, Hook as LoweringHook, LowerError, Vlan};
use ringtap_filter::process::{Asked, ProcessTests};
use ringtap_savefile::CaptureFilter;
use ringtap_sys::bpf::XdpMode;

use super::protocol::of_protocol;
use crate::describe::{FilterPlace, UserSpaceReason};
use crate::filter::{Answers, Described, FilterTable, Groups, at_hook};
use crate::hook::{Hook, HookDevice, HookPoint, Side};
use crate::options::{CaptureOptions, Mode, OptionError};
use crate::{Filter, LinkType, MAX_SNAPLEN, Result};

/// A place on the stack for a tag in a program that is only tried.
const ANY_PLACE: i16 = -256;
/// `ETH_P_ALL`.
const ALL_PROTOCOLS: u16 = 3;

/// A filter's programs for a link type.
#[derive(Clone, Debug)]
struct Programs {
    link_type: LinkType,
    whole: Program,
    in_kernel: InKernel,
}

/// A filter's programs in the kernel.
#[derive(Clone, Debug)]
pub(super) struct InKernel {
    /// Tests the packet.
    pub(super) packet: Program,
    /// Then tests the packet and what its tag says of its process.
    pub(super) process: Option<Program>,
}

/// A filter for the interfaces of a capture, and whether hooks can run it.
#[derive(Clone, Debug)]
pub(super) struct FilterPlan {
    filter: Option<Filter>,
    snaplen: u32,
    /// Packets of this protocol only.
    protocol: Option<u16>,
    /// The questions of the filter about processes.
    asked: Asked,
    /// For each link type among the interfaces.
    programs: Vec<Programs>,
    table: Option<FilterTable>,
    /// The reason why a hook cannot run it.
    obstacle: Option<UserSpaceReason>,
}

/// Checks that the facts which a filter asks for are recorded, and that it takes no packets away that it rejects
/// in user space.
///
/// # Errors
/// One of them is not so.
pub(super) fn check_processes(filter: Option<&Filter>, options: &CaptureOptions) -> Result<()> {
    let (Some(filter), Some(who)) = (filter, options.who) else {
        return Ok(());
    };
    let asked = filter.asked();
    if options.mode == Mode::Steal && !asked.questions.is_empty() {
        return Err(OptionError::StealsByGroup.into());
    }
    let field = if asked.name && !who.comm {
        "comm"
    } else if asked.uid && !who.uid {
        "uid"
    } else if !asked.questions.is_empty() && !who.cgroup {
        "cgroup"
    } else {
        return Ok(());
    };
    Err(OptionError::NotRecorded { field }.into())
}

impl FilterPlan {
    /// Returns the plan without any interface.
    pub(super) fn new(filter: Option<&Filter>, options: &CaptureOptions) -> Self {
        let snaplen = options.snaplen;
        let protocol = options.protocol.filter(|&one| one != ALL_PROTOCOLS);
        // Capturing only one protocol is also a filter.
        let everything = || protocol.map(|_| Filter::new(""));
        let filter = filter.cloned().or_else(everything);
        let asked = filter.as_ref().map(Filter::asked).unwrap_or_default();
        let answers = Answers::new(asked.clone(), &Groups::default());
        Self {
            table: filter
                .as_ref()
                .map(|_| FilterTable::of_live(snaplen, answers)),
            filter: filter.map(|filter| filter.with_processes(options.who.is_some())),
            snaplen,
            protocol,
            asked,
            programs: Vec::new(),
            obstacle: None,
        }
    }

    /// Returns the plan for one interface.
    ///
    /// # Errors
    /// The filter does not support its link type.
    pub(super) fn of_one(
        filter: Option<&Filter>,
        device: &HookDevice,
        options: &CaptureOptions,
    ) -> Result<Self> {
        let mut plan = Self::new(filter, options);
        plan.add(device.link_type, device.index)?;
        Ok(plan)
    }

    /// Returns the plan for packets that get a header of another form at the hook, where no hook can test it.
    ///
    /// # Errors
    /// The filter does not support that form.
    pub(super) fn cooked(filter: Option<&Filter>, options: &CaptureOptions) -> Result<Self> {
        let mut plan = Self::new(filter, options);
        plan.add(LinkType::LINUX_SLL2, 0)?;
        plan.obstacle = plan.filter.as_ref().map(|_| UserSpaceReason::CookedAtHook);
        Ok(plan)
    }

    /// Returns the plan for dropped packets, which a program at a tracepoint tests in the form of their records.
    ///
    /// # Errors
    /// The filter does not support that form.
    pub(super) fn of_dropped(filter: Option<&Filter>, options: &CaptureOptions) -> Result<Self> {
        let mut plan = Self::new(filter, options);
        plan.add(LinkType::LINUX_SLL2, 0)?;
        let place = HookPoint::Tcx(Side::Ingress);
        Ok(plan.tried_at(place, LoweringHook::Scratch))
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// The filter does not support its link type.
    pub(super) fn add(&mut self, link_type: LinkType, index: u32) -> Result<()> {
        self.prepare(link_type)?;
        let mut programs = self.programs.iter();
        let found = programs.find(|programs| programs.link_type == link_type);
        if let (Some(table), Some(found)) = (&mut self.table, found) {
            table.add(&found.whole, link_type, index);
        }
        Ok(())
    }

    /// Compiles the filter for a link type that may have no interface yet.
    ///
    /// # Errors
    /// The filter does not support it.
    pub(super) fn prepare(&mut self, link_type: LinkType) -> Result<()> {
        let Some(filter) = self.filter.as_ref().filter(|_| !self.knows(link_type)) else {
            return Ok(());
        };
        let of_protocol = |program: Program| match self.protocol {
            Some(protocol) => of_protocol(protocol, &program, link_type),
            None => Ok(program),
        };
        let whole = of_protocol(filter.compile(link_type, self.snaplen)?)?;
        // User space may read bytes beyond the snaplen of packets that it filters again.
        let snaplen = match self.asked.questions.is_empty() {
            true => self.snaplen,
            false => MAX_SNAPLEN,
        };
        let knowing = |processes| {
            let compiled = filter.compile_knowing(processes, link_type, snaplen);
            compiled.and_then(of_protocol)
        };
        let in_kernel = match self.asked.anything {
            false => InKernel {
                packet: whole.clone(),
                process: None,
            },
            true => InKernel {
                packet: knowing(ProcessTests::Ignored)?,
                process: Some(knowing(ProcessTests::WithoutAnswers)?),
            },
        };
        self.programs.push(Programs {
            link_type,
            whole,
            in_kernel,
        });
        Ok(())
    }

    /// Returns whether the filter supports packets of a link type.
    pub(super) fn is_for(&self, link_type: LinkType) -> bool {
        self.filter.is_none() || self.knows(link_type)
    }

    fn knows(&self, link_type: LinkType) -> bool {
        self.programs.iter().any(|one| one.link_type == link_type)
    }

    /// Returns the filter in the form of capture files.
    pub(super) fn for_file(&self) -> Option<CaptureFilter> {
        self.filter.as_ref().map(Filter::for_file)
    }

    /// Answers the filter's questions for all control groups that are known.
    pub(super) fn learn_all(&mut self, groups: &Groups) {
        let answers = Answers::new(self.asked.clone(), groups);
        if let Some(table) = &mut self.table {
            table.set_answers(answers);
        }
    }

    /// Answers the filter's questions for another control group.
    pub(super) fn learn(&mut self, described: &Described) {
        if let Some(table) = &mut self.table {
            table.learn(described);
        }
    }

    /// Returns the plan if one of the hooks cannot run the filter: no hook runs it.
    pub(super) fn for_hooks(self, hooks: &[Hook]) -> Self {
        hooks
            .iter()
            .fold(self, |plan, hook| plan.for_place(hook.place()))
    }

    /// Returns the plan for taps at a place.
    pub(super) fn for_place(&self, place: HookPoint) -> Self {
        let hook = if place.is_xdp() {
            LoweringHook::Xdp { frags: true }
        } else {
            LoweringHook::Tcx(Vlan::Restored)
        };
        self.clone().tried_at(place, hook)
    }

    /// Returns the plan for sockets after XDP, which sees received packets alone, each in one buffer.
    pub(super) fn for_xdp_sockets(self) -> Self {
        let place = HookPoint::Xdp(XdpMode::Native);
        self.tried_at(place, LoweringHook::Xdp { frags: false })
    }

    fn tried_at(mut self, place: HookPoint, hook: LoweringHook) -> Self {
        if self.obstacle.is_none() {
            let programs = self.programs.iter().map(|one| &one.in_kernel);
            let refused = programs
                .into_iter()
                .find_map(|programs| programs.tried(place, hook).err());
            self.obstacle = refused.map(UserSpaceReason::NotForHook);
        }
        self
    }

    /// Returns whether there is a filter, wherever it runs.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the filter that hooks run for all packets of a capture whose interfaces have one link type, and that
    /// does not ask for processes.
    pub(super) fn in_kernel_for_all(&self) -> Option<&Program> {
        let program = self.programs.first().map(|one| &one.in_kernel.packet);
        program.filter(|_| self.obstacle.is_none())
    }

    /// Returns the programs that hooks run for packets of a link type.
    pub(super) fn in_kernel(&self, link_type: LinkType) -> Option<&InKernel> {
        let mut programs = self.programs.iter();
        let found = programs.find(|one| one.link_type == link_type);
        let found = found.filter(|_| self.obstacle.is_none());
        found.map(|one| &one.in_kernel)
    }

    /// Returns the filter for packets that an older one let through, and whether it is for all.
    #[inline]
    pub(super) fn in_user_space(&self) -> (Option<&FilterTable>, bool) {
        let always = self.obstacle.is_some() || !self.asked.questions.is_empty();
        (self.table.as_ref(), always)
    }

    /// Returns where the filter runs.
    pub(super) fn place(&self) -> FilterPlace {
        match (self.programs.first(), &self.obstacle) {
            (None, _) => FilterPlace::None,
            (Some(_), None) if !self.asked.questions.is_empty() => FilterPlace::Both,
            (Some(one), None) => FilterPlace::Kernel {
                instructions: one.whole.insns().len(),
            },
            (Some(_), Some(reason)) => FilterPlace::UserSpace {
                reason: reason.clone(),
            },
        }
    }
}

impl InKernel {
    /// Returns the programs for a hook ([`at_hook`]).
    pub(super) fn at_hook(&self, place: HookPoint) -> Self {
        Self {
            packet: at_hook(&self.packet, place),
            process: self.process.as_ref().map(|one| at_hook(one, place)),
        }
    }

    /// Checks that a hook can run them.
    fn tried(&self, place: HookPoint, hook: LoweringHook) -> std::result::Result<(), LowerError> {
        let programs = self.at_hook(place);
        lower::standalone(&programs.packet, hook)?;
        let Some(process) = &programs.process else {
            return Ok(());
        };
        let mut asm = Assembler::new();
        let exits = Exits {
            accept: asm.label(),
            reject: asm.label(),
        };
        lower::with_process(process, hook, ANY_PLACE, &mut asm, exits)
    }
}

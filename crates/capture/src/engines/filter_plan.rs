//! Decides where the filter of a capture at hooks runs: in their programs, or in user space if one of them
//! cannot run it.

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{self, Hook as LoweringHook, Vlan};
use ringtap_savefile::CaptureFilter;
use ringtap_sys::bpf::XdpMode;

use super::protocol::of_protocol;
use crate::describe::{FilterPlace, UserSpaceReason};
use crate::filter::{FilterTable, at_hook};
use crate::hook::{Hook, HookDevice, HookPoint, Side};
use crate::options::CaptureOptions;
use crate::{Filter, LinkType, Result};

/// `ETH_P_ALL`.
const ALL_PROTOCOLS: u16 = 3;

/// A filter for the interfaces of a capture, and whether hooks can run it.
#[derive(Clone, Debug)]
pub(super) struct FilterPlan {
    filter: Option<Filter>,
    snaplen: u32,
    /// Packets of this protocol only.
    protocol: Option<u16>,
    /// For each link type among the interfaces.
    programs: Vec<(LinkType, Program)>,
    table: Option<FilterTable>,
    /// The reason why a hook cannot run it.
    obstacle: Option<UserSpaceReason>,
}

impl FilterPlan {
    /// Returns the plan without any interface.
    pub(super) fn new(filter: Option<&Filter>, options: &CaptureOptions) -> Self {
        let snaplen = options.snaplen;
        let protocol = options.protocol.filter(|&one| one != ALL_PROTOCOLS);
        // Capturing only one protocol is also a filter.
        let everything = || protocol.map(|_| Filter::new(""));
        let filter = filter.cloned().or_else(everything);
        Self {
            table: filter.as_ref().map(|_| FilterTable::of_live(snaplen)),
            filter,
            snaplen,
            protocol,
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
        let program = self.programs.iter().find(|(of, _)| *of == link_type);
        if let (Some(table), Some((_, program))) = (&mut self.table, program) {
            table.add(program, link_type, index);
        }
        Ok(())
    }

    /// Compiles the filter for a link type that may have no interface yet.
    ///
    /// # Errors
    /// The filter does not support it.
    pub(super) fn prepare(&mut self, link_type: LinkType) -> Result<()> {
        if let Some(filter) = &self.filter
            && self.program(link_type).is_none()
        {
            let mut program = filter.compile(link_type, self.snaplen)?;
            if let Some(protocol) = self.protocol {
                program = of_protocol(protocol, &program, link_type)?;
            }
            self.programs.push((link_type, program));
        }
        Ok(())
    }

    /// Returns whether the filter supports packets of a link type.
    pub(super) fn is_for(&self, link_type: LinkType) -> bool {
        self.filter.is_none() || self.program(link_type).is_some()
    }

    /// Returns the filter in the form of capture files.
    pub(super) fn for_file(&self) -> Option<CaptureFilter> {
        self.filter.as_ref().map(Filter::for_file)
    }

    fn program(&self, link_type: LinkType) -> Option<&Program> {
        let mut programs = self.programs.iter();
        let found = programs.find(|(of, _)| *of == link_type);
        found.map(|(_, program)| program)
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
            let refused = self
                .programs
                .iter()
                .find_map(|(_, program)| lower::standalone(&at_hook(program, place), hook).err());
            self.obstacle = refused.map(UserSpaceReason::NotForHook);
        }
        self
    }

    /// Returns whether there is a filter, wherever it runs.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the filter that hooks run for all packets of a capture whose interfaces have one link type.
    pub(super) fn in_kernel_for_all(&self) -> Option<&Program> {
        let program = self.programs.first().map(|(_, program)| program);
        program.filter(|_| self.obstacle.is_none())
    }

    /// Returns the filter that hooks run for packets of a link type.
    pub(super) fn in_kernel(&self, link_type: LinkType) -> Option<&Program> {
        let program = self.program(link_type);
        program.filter(|_| self.obstacle.is_none())
    }

    /// Returns the filter for packets that an older one let through, and whether it is for all.
    #[inline]
    pub(super) fn in_user_space(&self) -> (Option<&FilterTable>, bool) {
        (self.table.as_ref(), self.obstacle.is_some())
    }

    /// Returns where the filter runs.
    pub(super) fn place(&self) -> FilterPlace {
        match (self.programs.first(), &self.obstacle) {
            (None, _) => FilterPlace::None,
            (Some((_, program)), None) => FilterPlace::Kernel {
                instructions: program.insns().len(),
            },
            (Some(_), Some(reason)) => FilterPlace::UserSpace {
                reason: reason.clone(),
            },
        }
    }
}

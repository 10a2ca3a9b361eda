//! What programs are made of: the filter by link type, the form of records, the options.

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{self, Hook as LoweringHook, Vlan};
use ringtap_savefile::CaptureFilter;
use ringtap_sys::bpf::{self, Kernel, ProgramKind};
use ringtap_sys::netns::Namespace;
use ringtap_sys::tap::Geometry;

use super::program::{Cooked, Maps, Tap};
use super::protocol::of_protocol;
use crate::describe::{FilterPlace, KernelClock, UserSpaceReason};
use crate::filter::{FilterTable, at_hook};
use crate::hook::{Hook, HookDevice, HookPoint, StampReader, TagRestorer};
use crate::options::{CaptureOptions, MAX_SNAPLEN, Mode, Stage};
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
    /// Why a hook cannot.
    obstacle: Option<UserSpaceReason>,
}

impl FilterPlan {
    /// The plan for no interface yet.
    pub(super) fn new(filter: Option<&Filter>, options: &CaptureOptions) -> Self {
        let snaplen = options.snaplen;
        let protocol = options.protocol.filter(|&one| one != ALL_PROTOCOLS);
        // To take packets of one protocol only is a filter, too.
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

    /// The plan for one interface.
    ///
    /// # Errors
    /// The filter is none for its link type.
    pub(super) fn of_one(
        filter: Option<&Filter>,
        device: &HookDevice,
        options: &CaptureOptions,
    ) -> Result<Self> {
        let mut plan = Self::new(filter, options);
        plan.add(device.link_type, device.index)?;
        Ok(plan)
    }

    /// The plan for packets that get a header of another form at the hook, where no hook can test it.
    ///
    /// # Errors
    /// The filter is none for that form.
    pub(super) fn cooked(filter: Option<&Filter>, options: &CaptureOptions) -> Result<Self> {
        let mut plan = Self::new(filter, options);
        plan.add(LinkType::LINUX_SLL2, 0)?;
        plan.obstacle = plan.filter.as_ref().map(|_| UserSpaceReason::CookedAtHook);
        Ok(plan)
    }

    /// Takes one more interface in.
    ///
    /// # Errors
    /// The filter is none for its link type.
    pub(super) fn add(&mut self, link_type: LinkType, index: u32) -> Result<()> {
        self.prepare(link_type)?;
        let program = self.programs.iter().find(|(of, _)| *of == link_type);
        if let (Some(table), Some((_, program))) = (&mut self.table, program) {
            table.add(program, link_type, index);
        }
        Ok(())
    }

    /// Compiles the filter for a link type that no interface may have yet.
    ///
    /// # Errors
    /// The filter is none for it.
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

    /// Whether the filter is one for records of that form.
    pub(super) fn is_for(&self, form: Form) -> bool {
        self.filter.is_none() || form.cooked.is_some() || self.program(form.link_type).is_some()
    }

    /// The filter as a capture file names it.
    pub(super) fn for_file(&self) -> Option<CaptureFilter> {
        self.filter.as_ref().map(Filter::for_file)
    }

    fn program(&self, link_type: LinkType) -> Option<&Program> {
        let mut programs = self.programs.iter();
        let found = programs.find(|(of, _)| *of == link_type);
        found.map(|(_, program)| program)
    }

    /// The plan where one of the hooks cannot run the filter: no hook does.
    pub(super) fn for_hooks(self, hooks: &[Hook]) -> Self {
        hooks
            .iter()
            .fold(self, |plan, hook| plan.for_place(hook.place()))
    }

    pub(super) fn for_place(&self, place: HookPoint) -> Self {
        let mut plan = self.clone();
        let hook = if place.is_xdp() {
            LoweringHook::Xdp { frags: true }
        } else {
            LoweringHook::Tcx(Vlan::Restored)
        };
        if plan.obstacle.is_none() {
            let refused = plan
                .programs
                .iter()
                .find_map(|(_, program)| lower::standalone(&at_hook(program, place), hook).err());
            plan.obstacle = refused.map(UserSpaceReason::NotForHook);
        }
        plan
    }

    /// The filter that hooks run for packets of a link type.
    fn in_kernel(&self, link_type: LinkType) -> Option<&Program> {
        let program = self.program(link_type);
        program.filter(|_| self.obstacle.is_none())
    }

    /// The filter for packets that an older one let through, and whether it is for all.
    #[inline]
    pub(super) fn in_user_space(&self) -> (Option<&FilterTable>, bool) {
        (self.table.as_ref(), self.obstacle.is_some())
    }

    /// Where the filter runs.
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

/// What records of an interface are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// What the interface's packets begin with.
    pub(super) link_type: LinkType,
    /// What they get instead.
    pub(super) cooked: Option<Cooked>,
}

impl Form {
    /// Packets as they are.
    pub(super) const fn own(link_type: LinkType) -> Self {
        Self {
            link_type,
            cooked: None,
        }
    }
}

/// The device, as far as programs depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The kernel's number of it; 0 for all interfaces.
    pub(super) index: u32,
    /// What puts VLAN tags back at XDP.
    pub(super) tags: Option<TagRestorer>,
    /// What tells the adapter's stamps, where those are wanted.
    pub(super) stamps: Option<StampReader>,
    /// Whether it is loopback.
    pub(super) loopback: bool,
}

impl Bound {
    /// To all interfaces.
    pub(super) const ANY: Self = Self {
        index: 0,
        tags: None,
        stamps: None,
        loopback: false,
    };

    pub(super) fn of(device: &HookDevice, stamps: Option<StampReader>) -> Self {
        Self {
            stamps,
            index: device.index,
            tags: device.tag_restorer,
            loopback: device.is_loopback,
        }
    }
}

/// What programs are made of.
pub(super) struct Programs<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) device: Bound,
    /// The network namespace of the device, where it is remembered.
    pub(super) home: Option<&'a Namespace>,
    pub(super) plan: &'a FilterPlan,
    pub(super) options: &'a CaptureOptions,
    pub(super) room: u32,
    pub(super) geometry: Geometry,
    pub(super) maps: Maps,
}

impl Programs<'_> {
    pub(super) fn load(
        &self,
        form: Form,
        place: HookPoint,
        clock: KernelClock,
    ) -> bpf::Result<bpf::Program> {
        let filter = self.plan.in_kernel(form.link_type);
        let filter = filter.map(|program| at_hook(program, place));
        let everything = self.plan.filter.is_some() && filter.is_none();
        let mut tap = Tap {
            place,
            filter: filter.as_ref(),
            // A filter that runs here may look at what is not kept.
            snaplen: if everything {
                MAX_SNAPLEN
            } else {
                self.options.snaplen
            },
            room: self.room,
            sample: self
                .options
                .sample
                .map(|one_in| (one_in.get(), self.options.sample_mode)),
            clock,
            stamps: self.device.stamps,
            tags: self.device.tags,
            cooked: form.cooked,
            steal: self.options.mode == Mode::Steal,
            geometry: self.geometry,
            maps: self.maps,
            borrow: true,
            stage: self.options.study.unwrap_or(Stage::Copy),
        };
        self.load_tap(&tap).or_else(|error| {
            // A kernel that finds the program too long gets one that knows its own processor's ring only.
            if !tap.borrows() {
                return Err(error);
            }
            tap.borrow = false;
            self.load_tap(&tap).map_err(|_| error)
        })
    }

    fn load_tap(&self, tap: &Tap<'_>) -> bpf::Result<bpf::Program> {
        let place = tap.place;
        let kind = if place.is_xdp() {
            ProgramKind::Xdp { frags: true }
        } else {
            ProgramKind::SchedCls
        };
        // 32-bit jumps are there since 6.6; most filters do without.
        let code = tap.emit(false).or_else(|_| tap.emit(true));
        let (code, marks) = code.unwrap_or_default();
        let calls_driver =
            self.device.tags.is_some() || self.device.stamps.is_some_and(|one| one.serves(place));
        let options = bpf::LoadOptions {
            device: (place.is_xdp() && calls_driver).then_some(self.device.index),
            namespace: self.home,
            marks: if self.options.study.is_some() {
                &marks
            } else {
                &[]
            },
            ..bpf::LoadOptions::default()
        };
        bpf::Program::load_with(self.kernel, "ringtap", kind, &code, &options)
    }
}

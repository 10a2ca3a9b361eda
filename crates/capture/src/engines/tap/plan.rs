//! The input of programs: the form of records, the device, the options.

use ringtap_sys::bpf::{self, Kernel, ProgramKind};
use ringtap_sys::netns::Namespace;
use ringtap_sys::tap::Geometry;

use super::program::drops::Drops;
use super::program::{Cooked, Maps, Tap};
use crate::LinkType;
use crate::describe::KernelClock;
use crate::engines::filter_plan::FilterPlan;
use crate::hook::{HookDevice, HookPoint, StampReader, TagRestorer};
use crate::options::{CaptureOptions, MAX_SNAPLEN, Mode, Stage};

/// The form of an interface's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The link type of the interface's packets.
    pub(super) link_type: LinkType,
    /// The link type that replaces it.
    pub(super) cooked: Option<Cooked>,
}

impl Form {
    /// Returns the form of unchanged packets.
    pub(super) const fn own(link_type: LinkType) -> Self {
        Self {
            link_type,
            cooked: None,
        }
    }
}

/// The properties of the device that programs depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The kernel's number of it; 0 for all interfaces.
    pub(super) index: u32,
    /// Restores VLAN tags at XDP.
    pub(super) tags: Option<TagRestorer>,
    /// Reads the adapter's stamps, if they are requested.
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

    pub(super) fn of(device: &HookDevice) -> Self {
        Self {
            stamps: None,
            index: device.index,
            tags: device.tag_restorer,
            loopback: device.is_loopback,
        }
    }
}

/// The input of programs.
pub(super) struct Programs<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) device: Bound,
    /// The network namespace of the device, if it is stored.
    pub(super) home: Option<&'a Namespace>,
    pub(super) plan: &'a FilterPlan,
    pub(super) options: &'a CaptureOptions,
    pub(super) room: u32,
    pub(super) geometry: Geometry,
    pub(super) maps: Maps,
    /// The settings of a program for dropped packets.
    pub(super) drops: Option<&'a Drops>,
}

impl Programs<'_> {
    /// Loads a program with this clock. Programs that cannot read TAI, which needs Linux 6.1, get the monotonic
    /// clock.
    pub(super) fn load_or_older(
        &self,
        form: Form,
        place: HookPoint,
        clock: KernelClock,
    ) -> bpf::Result<(bpf::Program, KernelClock)> {
        let older = KernelClock::Monotonic;
        match self.load(form, place, clock) {
            Err(error) if clock.by_packet() == KernelClock::Tai => {
                let program = self.load(form, place, older).map_err(|_| error)?;
                Ok((program, older))
            }
            outcome => Ok((outcome?, clock)),
        }
    }

    pub(super) fn load(
        &self,
        form: Form,
        place: HookPoint,
        clock: KernelClock,
    ) -> bpf::Result<bpf::Program> {
        let filter = self.plan.in_kernel(form.link_type);
        let filter = filter.map(|programs| programs.at_hook(place));
        let (_, always) = self.plan.in_user_space();
        let in_user_space = always || (self.plan.has_filter() && filter.is_none());
        let mut tap = Tap {
            place,
            filter: filter.as_ref().map(|programs| &programs.packet),
            process: filter
                .as_ref()
                .and_then(|programs| programs.process.as_ref()),
            // A filter in user space may read bytes beyond the snaplen.
            snaplen: if in_user_space {
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
            drops: self.drops,
            steal: self.options.mode == Mode::Steal,
            geometry: self.geometry,
            maps: self.maps,
            namespace: self.namespace(),
            borrow: true,
            stage: self.options.study.unwrap_or(Stage::Copy),
        };
        self.load_tap(&tap).or_else(|error| {
            // A kernel that finds the program too long gets one that knows only its own processor's ring.
            if !tap.borrows() {
                return Err(error);
            }
            tap.borrow = false;
            self.load_tap(&tap).map_err(|_| error)
        })
    }

    /// Returns the number of the network namespace; 0 if nobody asks for it, or if it is unknown.
    fn namespace(&self) -> u32 {
        if self.maps.owners.is_none() {
            return 0;
        }
        let own;
        let namespace = match self.home {
            Some(home) => Some(home),
            None => {
                own = Namespace::current().ok();
                own.as_ref()
            }
        };
        let number = namespace.and_then(|namespace| namespace.inode().ok());
        number.map_or(0, |number| u32::try_from(number).unwrap_or(0))
    }

    fn load_tap(&self, tap: &Tap<'_>) -> bpf::Result<bpf::Program> {
        let place = tap.place;
        let kind = if let Some(drops) = tap.drops {
            drops.kind()
        } else if place.is_xdp() {
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

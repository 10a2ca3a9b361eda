//! Programs attached, watched, replaced.

use ringtap_sys::bpf::{self, Kernel, Link, Program, TcxPlace, query_tcx};
use ringtap_sys::netlink::Netlink;
use ringtap_sys::privileges::Capability;

use super::clsact::ClsactFilter;
use super::{
    Announced, HookDevice, HookError, HookPoint, PassedOver, Reason, Side, Uncovered, Wanted,
};
use super::{StealHazard, Thieves, steal_hazards};
use crate::options::{Direction, Mode};

/// Error numbers of the kernel.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EINTR: i32 = 4;
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const ENOMEM: i32 = 12;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ERANGE: i32 = 34;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const ENOBUFS: i32 = 105;
}

type Result<T> = std::result::Result<T, HookError>;

/// Programs at a device, one for received packets, one for sent ones, or both. Dropped, they are
/// gone; packets are as if they had never been there.
#[derive(Debug, Default)]
#[must_use = "dropping it detaches the programs"]
pub struct Attached {
    /// What is attached, received packets first.
    pub hooks: Vec<Hook>,
    /// Hooks that came first and could not be taken.
    pub passed_over: Vec<PassedOver>,
    /// What was asked for and is not seen.
    pub uncovered: Option<Uncovered>,
    /// What hangs on the device and is being cut off, with the consent of the caller.
    pub hazards: Vec<StealHazard>,
}

impl Attached {
    /// The programs, by other fds.
    ///
    /// # Errors
    /// No fd is left.
    pub fn programs(&self) -> Result<Vec<Program>> {
        let programs = self.hooks.iter().map(|hook| {
            hook.program.try_clone().map_err(|source| HookError::Bpf {
                device: hook.device.name.clone(),
                source,
            })
        });
        programs.collect()
    }

    /// Why hooks that come first were passed over, a sentence each. Where the kernel has no tcx and clsact
    /// takes its place for both directions, that is one.
    #[must_use]
    pub fn passed_over_texts(&self) -> Vec<String> {
        let is_clsact = |hook: &Hook| matches!(hook.place, HookPoint::Clsact(_));
        let has_stand_in = self.hooks.iter().any(is_clsact);
        let mut texts: Vec<String> = Vec::new();
        for passed in &self.passed_over {
            let text = match passed.reason {
                Reason::NoTcx if has_stand_in => {
                    format!("not at tcx: {}; clsact takes its place", passed.reason)
                }
                _ => passed.to_string(),
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// Tells captures that run already that these programs take packets away before them: all packets, or
    /// those that a filter matches. The thief may listen itself.
    pub(crate) fn announce(&self, all: bool, own: Option<&Thieves>) -> Announced {
        let mut received = self.hooks.iter().filter(|hook| hook.place.is_ingress());
        received.next().map_or_else(Announced::default, |hook| {
            Announced::to_others(hook.device.index, hook.place, all, own)
        })
    }

    /// Capabilities that must be kept so that all is taken away at the end: none where programs are
    /// held by links.
    #[must_use]
    pub fn required_capabilities(&self) -> &'static [Capability] {
        let is_clsact = |hook: &Hook| matches!(hook.holder, Holder::Clsact(_));
        if self.hooks.iter().any(is_clsact) {
            &[Capability::NET_ADMIN]
        } else {
            &[]
        }
    }
}

/// A program at a hook.
#[derive(Debug)]
pub struct Hook {
    place: HookPoint,
    program: Program,
    /// Nothing where the kernel does not tell.
    program_id: Option<u32>,
    holder: Holder,
    kernel: Kernel,
    device: HookDevice,
}

#[derive(Debug)]
enum Holder {
    Link(Link),
    Clsact(ClsactFilter),
}

/// Where a program stands among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It sees every packet.
    First,
    /// Others run before it, and may end the way of a packet.
    Behind {
        /// How many.
        others: usize,
    },
    /// It is attached no more: the device is gone, or somebody has removed the program.
    Gone,
}

/// Attaches a program for each side that is wanted, at the best place to be had; `load` makes the
/// program for a place. Needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`.
///
/// The device must be one of the calling thread's network namespace.
///
/// # Errors
/// Before anything is attached: no consent to steal ([`Wanted::force`]) where something hangs on the
/// device. Then what the kernel refuses; nothing stays attached.
pub fn attach(
    kernel: &Kernel,
    device: &HookDevice,
    wanted: &Wanted,
    load: &mut dyn FnMut(HookPoint) -> bpf::Result<Program>,
) -> Result<Attached> {
    let hazards = consent(device, wanted)?;
    let mut attaching = Attaching {
        kernel,
        device,
        wanted,
        load,
        passed_over: Vec::new(),
    };
    let (wanted, mut uncovered) = attaching.sides();
    let mut hooks = Vec::new();
    for side in [Side::Ingress, Side::Egress] {
        let candidates = wanted.candidates(side);
        if candidates.is_empty() {
            continue;
        }
        match attaching.first_of(&candidates)? {
            Some(hook) => hooks.push(hook),
            // The other direction is worth having, and what is missing is told.
            None if side == Side::Egress && !hooks.is_empty() => {
                uncovered = Some(Uncovered::SentWithoutHook);
            }
            None => {
                return Err(HookError::NoHook {
                    device: device.name.clone(),
                    passed_over: attaching.passed_over,
                });
            }
        }
    }
    Ok(Attached {
        hooks,
        passed_over: attaching.passed_over,
        uncovered,
        hazards,
    })
}

/// The hazards that the caller has consented to. [`attach`] asks by itself; who takes something from
/// the host before that asks first.
pub(crate) fn consent(device: &HookDevice, wanted: &Wanted) -> Result<Vec<StealHazard>> {
    if wanted.mode == Mode::Copy {
        return Ok(Vec::new());
    }
    let name = || device.name.clone();
    if wanted.direction == Direction::Out {
        return Err(HookError::StealsSent { device: name() });
    }
    let read = Netlink::open().and_then(|mut netlink| steal_hazards(&mut netlink, device.index));
    let hazards = read.map_err(|source| HookError::Netlink {
        device: name(),
        source,
    })?;
    if hazards.is_empty() || wanted.force {
        return Ok(hazards);
    }
    Err(HookError::Hazardous {
        device: name(),
        hazards,
    })
}

struct Attaching<'a> {
    kernel: &'a Kernel,
    device: &'a HookDevice,
    wanted: &'a Wanted,
    load: &'a mut dyn FnMut(HookPoint) -> bpf::Result<Program>,
    passed_over: Vec<PassedOver>,
}

impl Attaching<'_> {
    /// The wish without what cannot be had or would be double.
    fn sides(&self) -> (Wanted, Option<Uncovered>) {
        let mut wanted = *self.wanted;
        if wanted.direction != Direction::Both {
            return (wanted, None);
        }
        let uncovered = match (wanted.mode, self.device.is_loopback) {
            (_, true) => Uncovered::SentOnLoopback,
            (Mode::Steal, false) => Uncovered::SentWhileStealing,
            (Mode::Copy, false) => return (wanted, None),
        };
        wanted.direction = Direction::In;
        (wanted, Some(uncovered))
    }

    /// The first place that takes its program.
    fn first_of(&mut self, candidates: &[HookPoint]) -> Result<Option<Hook>> {
        for &place in candidates {
            if let Some(reason) = self.objection(place) {
                self.passed_over.push(PassedOver { place, reason });
                continue;
            }
            let program = (self.load)(place)
                .map_err(|source| HookError::of_bpf(&self.device.name, source))?;
            match self.hold(place, &program)? {
                Ok(holder) => {
                    return Ok(Some(Hook {
                        place,
                        program_id: id_of(&program),
                        program,
                        holder,
                        kernel: self.kernel.clone(),
                        device: self.device.clone(),
                    }));
                }
                Err(reason) => self.passed_over.push(PassedOver { place, reason }),
            }
        }
        Ok(None)
    }

    /// What is known against a place before anything is tried.
    fn objection(&self, place: HookPoint) -> Option<Reason> {
        match place {
            HookPoint::Xdp(_) if self.device.takes_tags && !self.wanted.reads_tags_at_xdp => {
                Some(Reason::VlanTagsTakenOut)
            }
            _ if self
                .wanted
                .stamps
                .is_some_and(|stamps| !stamps.serves(place)) =>
            {
                Some(Reason::NoAdapterStamps)
            }
            HookPoint::Clsact(_) if self.wanted.mode == Mode::Steal => {
                Some(Reason::OutlivesProcess)
            }
            _ => None,
        }
    }

    /// Attaches a program; the reason where the place cannot be had.
    fn hold(
        &self,
        place: HookPoint,
        program: &Program,
    ) -> Result<std::result::Result<Holder, Reason>> {
        let index = self.device.index;
        match place {
            HookPoint::Xdp(mode) => match Link::xdp(program, self.kernel, index, mode) {
                Ok(link) => Ok(Ok(Holder::Link(link))),
                Err(error) => self.refused_xdp(error).map(Err),
            },
            HookPoint::Tcx(side) => {
                match Link::tcx(program, self.kernel, index, side, TcxPlace::First, None) {
                    Ok(link) => Ok(Ok(Holder::Link(link))),
                    Err(error) if is_one_of(error.errno(), &[errno::EINVAL, errno::EOPNOTSUPP]) => {
                        Ok(Err(Reason::NoTcx))
                    }
                    Err(error) => Err(HookError::of_bpf(&self.device.name, error)),
                }
            }
            HookPoint::Clsact(side) => match ClsactFilter::attach(program, index, side) {
                Ok(filter) => Ok(Ok(Holder::Clsact(filter))),
                Err(error) if is_one_of(error.errno(), &NO_CLSACT) => {
                    Ok(Err(Reason::NoClsact(error)))
                }
                Err(error) => Err(HookError::of_netlink(&self.device.name, error)),
            },
        }
    }

    fn refused_xdp(&self, error: bpf::Error) -> Result<Reason> {
        match error.errno() {
            Some(errno::EBUSY | errno::EEXIST) => Ok(Reason::XdpTaken {
                id: self.xdp_program(),
            }),
            Some(errno::EOPNOTSUPP | errno::ERANGE | errno::EINVAL) => {
                Ok(Reason::DriverRefuses(error))
            }
            _ => Err(HookError::of_bpf(&self.device.name, error)),
        }
    }

    /// The program that has taken XDP, as it is now.
    fn xdp_program(&self) -> Option<u32> {
        let links = Netlink::open().and_then(|mut netlink| netlink.links());
        let link = links
            .ok()?
            .into_iter()
            .find(|link| link.index == self.device.index)?;
        link.xdp.first().map(|program| program.id)
    }
}

/// What a kernel answers that was built without the qdisc or BPF filters, or where the qdisc
/// `ingress` stands in its place.
const NO_CLSACT: [i32; 4] = [
    errno::ENOENT,
    errno::EEXIST,
    errno::EINVAL,
    errno::EOPNOTSUPP,
];

/// What leaves open whether a program is still there: memory is short, or, before Linux 5.19, the right to
/// use bpf(2) was given up.
const UNANSWERED: [i32; 5] = [
    errno::EPERM,
    errno::EINTR,
    errno::EAGAIN,
    errno::ENOMEM,
    errno::ENOBUFS,
];

fn is_one_of(errno: Option<i32>, known: &[i32]) -> bool {
    errno.is_some_and(|errno| known.contains(&errno))
}

fn id_of(program: &Program) -> Option<u32> {
    program.info().ok().map(|info| info.id)
}

impl Hook {
    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> HookPoint {
        self.place
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &HookDevice {
        &self.device
    }

    /// The program that runs.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs another program from the next packet on; none is missed in between.
    ///
    /// # Errors
    /// The kernel refuses the program, or the device is gone.
    pub fn replace(&mut self, program: Program) -> Result<()> {
        match &mut self.holder {
            Holder::Link(link) => {
                let updated = link.update(&program, Some(&self.program));
                updated.map_err(|source| HookError::Bpf {
                    device: self.device.name.clone(),
                    source,
                })?;
            }
            Holder::Clsact(filter) => {
                let replaced = filter.replace(&program);
                replaced.map_err(|source| HookError::of_netlink(&self.device.name, source))?;
            }
        }
        self.program_id = id_of(&program);
        self.program = program;
        Ok(())
    }

    /// Whether the program is still attached, and not another in its place: one system call, to be made
    /// about once a second.
    #[must_use]
    pub fn is_attached(&mut self) -> bool {
        match &mut self.holder {
            Holder::Link(link) => match link.info() {
                Ok(info) => {
                    let own = self.program_id.is_none_or(|id| id == info.program_id);
                    info.ifindex.is_some() && own
                }
                Err(error) => is_one_of(error.errno(), &UNANSWERED),
            },
            Holder::Clsact(filter) => match filter.before() {
                Ok(before) => before.is_some(),
                Err(error) => is_one_of(error.errno(), &UNANSWERED),
            },
        }
    }

    /// Where the program stands among others now; to be asked in the network namespace of the
    /// device. [`super::attach()`] puts programs first; one that comes later and is put first, too,
    /// runs before them.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn standing(&mut self) -> Result<Standing> {
        if !self.is_attached() {
            return Ok(Standing::Gone);
        }
        let before = match (&mut self.holder, self.place) {
            (Holder::Link(link), HookPoint::Tcx(side)) => {
                let of_chain = query_tcx(&self.kernel, self.device.index, side).and_then(|chain| {
                    let id = link.info()?.id;
                    let is_ours = |member: &bpf::TcxMember| member.link_id == Some(id);
                    Ok(chain.members.iter().position(is_ours))
                });
                of_chain.map_err(|source| HookError::Bpf {
                    device: self.device.name.clone(),
                    source,
                })?
            }
            (Holder::Link(_), _) => Some(0),
            (Holder::Clsact(filter), _) => filter
                .before()
                .map_err(|source| HookError::of_netlink(&self.device.name, source))?,
        };
        Ok(match before {
            None => Standing::Gone,
            Some(0) => Standing::First,
            Some(others) => Standing::Behind { others },
        })
    }
}

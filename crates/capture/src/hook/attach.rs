//! Attaches, watches and replaces programs.

use ringtap_sys::bpf::{self, Kernel, Link, Program, TcxPlace, query_tcx};
use ringtap_sys::errno;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::privileges::Capability;

use super::clsact::ClsactFilter;
use super::{
    Announced, HookDevice, HookError, HookPoint, PassedOver, Reason, Side, Uncovered, Wanted,
};
use super::{StealHazard, Thieves, steal_hazards};
use crate::options::{Direction, Mode};

type Result<T> = std::result::Result<T, HookError>;

/// Programs at a device, for received packets, for sent ones, or for both. Dropping them detaches them
/// without a trace.
#[derive(Debug, Default)]
#[must_use = "dropping it detaches the programs"]
pub struct Attached {
    /// The attached programs, received packets first.
    pub hooks: Vec<Hook>,
    /// Preferred hooks that were not available.
    pub passed_over: Vec<PassedOver>,
    /// The requested packets that are not seen.
    pub uncovered: Option<Uncovered>,
    /// The host's uses of the device that are being cut off, with the consent of the caller.
    pub hazards: Vec<StealHazard>,
}

impl Attached {
    /// Returns duplicate descriptors of the programs.
    ///
    /// # Errors
    /// There are no free file descriptors.
    pub fn programs(&self) -> Result<Vec<Program>> {
        let programs = self.hooks.iter().map(|hook| {
            hook.program.try_clone().map_err(|source| HookError::Bpf {
                device: hook.device.name.clone(),
                source,
            })
        });
        programs.collect()
    }

    /// Returns why preferred hooks were passed over, one sentence each. If clsact replaces tcx in both
    /// directions, that is one sentence.
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

    /// Notifies running captures that these programs take packets before them: all packets, or those that
    /// match a filter. `own` excludes the thief's own listener.
    pub(crate) fn announce(&self, all: bool, own: Option<&Thieves>) -> Announced {
        let mut received = self.hooks.iter().filter(|hook| hook.place.is_ingress());
        received.next().map_or_else(Announced::default, |hook| {
            Announced::to_others(hook.device.index, hook.place, all, own)
        })
    }

    /// Returns the capabilities that must be kept to detach everything at the end. Empty if links hold the
    /// programs.
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
    /// `None` if the kernel does not report it.
    program_id: Option<u32>,
    holder: Holder,
    kernel: Kernel,
    device: HookDevice,
}

#[derive(Debug)]
enum Holder {
    Link(Link),
    Clsact(ClsactFilter),
    /// A copy of the process holds the program.
    Left,
}

/// The position of a program among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It sees every packet.
    First,
    /// Other programs run before it, and may drop packets.
    Behind {
        /// The number of these programs.
        others: usize,
    },
    /// It is no longer attached: the device was removed, or the program was.
    Gone,
}

/// Attaches a program for each requested direction, at the best available place. `load` returns the program
/// for a place. Needs `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`.
///
/// The device must be in the calling thread's network namespace.
///
/// # Errors
/// No consent to steal ([`Wanted::force`]) although the host uses the device; this is checked before anything
/// is attached. Otherwise a failed system call; nothing stays attached.
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
            // The other direction is still useful, and the missing one is reported.
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

/// Returns the hazards that the caller has consented to. [`attach`] checks by itself; other ways of taking
/// packets from the host check this first.
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
    /// Returns the request without parts that are unavailable or redundant.
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

    /// Returns the first place that accepts its program.
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

    /// Returns the known obstacle of a place before anything is tried.
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

    /// Attaches a program. Returns the reason if the place is not available.
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

    /// Returns the program that now occupies XDP.
    fn xdp_program(&self) -> Option<u32> {
        let links = Netlink::open().and_then(|mut netlink| netlink.links());
        let link = links
            .ok()?
            .into_iter()
            .find(|link| link.index == self.device.index)?;
        link.xdp.first().map(|program| program.id)
    }
}

/// The errors of a kernel without the qdisc or BPF filters, or with the qdisc `ingress` in its place.
const NO_CLSACT: [i32; 4] = [
    errno::ENOENT,
    errno::EEXIST,
    errno::EINVAL,
    errno::EOPNOTSUPP,
];

/// The errors that do not show whether a program still exists: memory is short, or, before Linux 5.19, the
/// privilege for bpf(2) was given up.
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
    /// Returns its place.
    #[must_use]
    pub fn place(&self) -> HookPoint {
        self.place
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &HookDevice {
        &self.device
    }

    /// Returns the running program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Leaves the program to a copy of the process (fork(2)), which detaches it: dropping this only closes it. It counts as attached.
    pub(crate) fn leave(&mut self) {
        if let Holder::Clsact(filter) = &mut self.holder {
            filter.leave();
        }
        self.holder = Holder::Left;
    }

    /// Returns whether it has sockets in the device's network namespace, which keep the namespace.
    pub(crate) fn holds_namespace(&self) -> bool {
        matches!(self.holder, Holder::Clsact(_))
    }

    /// Runs another program from the next packet on, without missing a packet.
    ///
    /// # Errors
    /// The kernel rejects the program, or the device was removed.
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
            // Captures whose programs a copy holds refuse other filters.
            Holder::Left => return Ok(()),
        }
        self.program_id = id_of(&program);
        self.program = program;
        Ok(())
    }

    /// Returns whether the program is still attached and was not replaced: one system call, to be made about
    /// once a second.
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
            // The copy looks after it.
            Holder::Left => true,
        }
    }

    /// Returns the program's present position among others. Call it in the network namespace of the device.
    /// [`super::attach()`] puts programs first; a later program that is also put first runs before them.
    ///
    /// # Errors
    /// The kernel does not report it.
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
            (Holder::Link(_) | Holder::Left, _) => Some(0),
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

//! Which process each packet belongs to.
//!
//! Programs at the entry of kernel functions write the current process into a socket's storage when the socket
//! is created, bound, connected, accepted, read and written. The tap's program reads it from a packet's socket:
//! a sent packet knows its socket, and the socket of a received one is looked up. Nothing is derived from the
//! process that happens to run when a packet arrives.
//!
//! Sockets that exist when the capture is opened are found in `/proc`.
//!
//! The storage of a socket goes with the socket, so there is no table that becomes full. All programs go with
//! the process that holds [`Owners`].

mod closed;
mod held;
mod names;
mod program;

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use ringtap_packet::process::{PROCESS_TAG_BYTES, ProcessDescription, ProcessTag};
use ringtap_savefile::{ProcessBlock, RawBlock};
use ringtap_sys::bpf::{
    self, Events, Kernel, KernelTypes, Link, Map, MapKind, MapSpec, Program, ProgramKind,
    Tracepoint,
};

use ringtap_sys::cgroup;

pub(crate) use closed::key;
use held::Held;
pub use names::ContainerNamer;
use names::Names;
use program::{COMPONENT, COMPONENTS, Hook, Maps, Place, Structures};
pub(crate) use program::{OWNER_TAG, STABLE};

/// The facts that are recorded of a packet's process, beside its number, its thread and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of the user"
)]
pub struct Who {
    /// The name of the process.
    pub comm: bool,
    /// The effective user.
    pub uid: bool,
    /// The command line, for which a process's memory is read. The environment is never recorded.
    pub command_line: bool,
    /// The control group, which may name a container.
    pub cgroup: bool,
}

impl Who {
    /// Everything.
    pub const ALL: Self = Self {
        comm: true,
        uid: true,
        command_line: true,
        cgroup: true,
    };
    /// The process's number, thread and start only.
    pub const PID: Self = Self {
        comm: false,
        uid: false,
        command_line: false,
        cgroup: false,
    };
}

impl Default for Who {
    fn default() -> Self {
        Self::ALL
    }
}

/// The counts of what could not be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhoLosses {
    /// Uses of sockets that had no memory for the process: packets of these sockets name no process, or an
    /// earlier one is not replaced.
    pub refused: u64,
    /// Processes whose description was lost because too many came at once. Their packets name them.
    pub undescribed: u64,
}

/// Why processes cannot be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhoError {
    #[error(transparent)]
    Bpf(#[from] bpf::Error),
    #[error(transparent)]
    System(#[from] ringtap_sys::Error),
    #[error("the kernel does not describe its own types (/sys/kernel/btf/vmlinux is missing)")]
    NoTypes,
    #[error("the kernel has no {0}")]
    Lacks(&'static str),
    #[error("at functions: {functions}; at control groups: {groups}")]
    Neither {
        functions: Box<WhoError>,
        groups: Box<WhoError>,
    },
}

/// Bytes of the buffer for descriptions of processes.
const EVENTS: usize = 4 << 20;
/// The number of processes whose description is known to have been passed on. Beyond it a process may be
/// described twice.
const SEEN: u32 = 16_384;

/// The programs that record the owners of sockets, and their maps.
#[derive(Debug)]
pub(crate) struct Owners {
    _points: Vec<Point>,
    /// Whether programs run at the kernel's functions; otherwise where control groups and tracepoints let them.
    by_function: bool,
    owners: Map,
    _seen: Map,
    /// The owners of connections without a socket, if the kernel supports it.
    closed: Option<Map>,
    counters: Map,
    events: Events,
    /// Descriptions of the processes that were found at the opening.
    found: VecDeque<Vec<u8>>,
    /// The block that is delivered.
    block: Vec<u8>,
    /// How many processes could not be examined at the opening.
    unreadable: usize,
    /// The names of containers, if anybody knows them.
    names: Option<Names>,
}

impl Owners {
    /// Starts recording owners.
    pub(crate) fn open(
        kernel: &Kernel,
        who: Who,
        namer: Option<ContainerNamer>,
    ) -> Result<Self, WhoError> {
        let types = KernelTypes::read()?.ok_or(WhoError::NoTypes)?;
        let structures = Structures::find(&types).map_err(WhoError::Lacks)?;
        let spec = MapSpec::new("ringtap_owners", MapKind::SocketStorage, program::OWNER, 0);
        let owners = Map::create(kernel, &spec)?;
        let key_size = program::SEEN_KEY;
        let spec = MapSpec::new("ringtap_seen", MapKind::LruHash { key_size }, 8, SEEN);
        let seen = Map::create(kernel, &spec)?;
        let spec = MapSpec::new("ringtap_refused", MapKind::ARRAY, 16, 1);
        let counters = Map::create(kernel, &spec)?;
        let events = Events::create(kernel, "ringtap_procs", EVENTS)?;
        let fd = |map: &Map| map.as_fd().as_raw_fd();
        let maps = Maps {
            owners: fd(&owners),
            seen: fd(&seen),
            counters: fd(&counters),
            events: fd(events.map()),
        };
        let attaching = Attaching {
            kernel,
            types: &types,
            structures: &structures,
            maps,
            who,
        };
        let (mut points, by_function) = attaching.attach_all()?;
        let closed = attaching.attach_to_closed()?;
        let (closed, point) = closed.map_or((None, None), |(map, point)| (Some(map), Some(point)));
        points.extend(point);
        // Programs record later sockets, and their records win over those found here.
        let Held { found, unreadable } = held::record(&owners, who);
        Ok(Self {
            _points: points,
            by_function,
            owners,
            _seen: seen,
            closed,
            counters,
            events,
            found: found.into(),
            block: Vec::new(),
            unreadable,
            names: namer.map(Names::new),
        })
    }

    /// Returns the maps of owners, for the tap's program.
    pub(crate) fn maps(&self) -> OwnerMaps {
        let fd = |map: &Map| map.as_fd().as_raw_fd();
        OwnerMaps {
            by_socket: fd(&self.owners),
            closed: self.closed.as_ref().map(fd),
        }
    }

    /// Returns whether programs run at the kernel's functions, so that every use of a socket is seen before its
    /// packets.
    pub(crate) fn by_function(&self) -> bool {
        self.by_function
    }

    /// Returns how many processes could not be examined at the opening.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Returns what could not be recorded. `None` if the kernel does not say.
    pub(crate) fn losses(&self) -> Option<WhoLosses> {
        let mut value = [0; 16];
        self.counters.lookup(0, &mut value).ok()?;
        let (refused, undescribed) = value.split_at(8);
        Some(WhoLosses {
            refused: u64::from_ne_bytes(refused.try_into().ok()?),
            undescribed: u64::from_ne_bytes(undescribed.try_into().ok()?),
        })
    }

    /// Takes the description of another process, if there is one; [`Owners::block`] then returns it.
    pub(crate) fn advance(&mut self) -> bool {
        let is_there = self.take();
        if let (true, Some(names)) = (is_there, &mut self.names) {
            names.add(&mut self.block);
        }
        is_there
    }

    fn take(&mut self) -> bool {
        if let Some(found) = self.found.pop_front() {
            self.block = found;
            return true;
        }
        let block = &mut self.block;
        // A record of another form than the program's is passed over.
        while let Some(described) = self.events.take(|event| describe(event, block)) {
            if described.is_some() {
                return true;
            }
        }
        false
    }

    /// Returns the block that describes the process which [`Owners::advance`] took.
    pub(crate) fn block(&self) -> Option<RawBlock<'_>> {
        RawBlock::built(&self.block)
    }
}

/// The maps of owners, by their fds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerMaps {
    pub(crate) by_socket: RawFd,
    /// By the key of a connection ([`key`]).
    pub(crate) closed: Option<RawFd>,
}

/// A program at its place; dropping it detaches it.
#[derive(Debug)]
enum Point {
    Traced(#[expect(dead_code, reason = "held for its effect")] Tracepoint),
    Grouped(#[expect(dead_code, reason = "held for its effect")] Link),
}

/// The maps and the kernel's types with which programs are attached.
struct Attaching<'a> {
    kernel: &'a Kernel,
    types: &'a KernelTypes,
    structures: &'a Structures,
    maps: Maps,
    who: Who,
}

impl Attaching<'_> {
    /// Attaches programs to the kernel's functions, or, if it allows no programs there, elsewhere. Returns also
    /// whether it does.
    fn attach_all(&self) -> Result<(Vec<Point>, bool), WhoError> {
        let refused = match self.attach_to(&program::FUNCTIONS, None) {
            Ok(points) => return Ok((points, true)),
            Err(error) => error,
        };
        let group = cgroup::open_root()?;
        match self.attach_to(&program::WITHOUT_FUNCTIONS, Some(&group)) {
            Ok(points) => Ok((points, false)),
            Err(error) => Err(WhoError::Neither {
                functions: Box::new(refused),
                groups: Box::new(error),
            }),
        }
    }

    /// Attaches the program that keeps the owners of closed connections. Without it their last packets are
    /// unknown.
    fn attach_to_closed(&self) -> Result<Option<(Map, Point)>, WhoError> {
        let kind = MapKind::LruHash {
            key_size: u32::from(key::BYTES.unsigned_abs()),
        };
        let bytes = u32::try_from(PROCESS_TAG_BYTES).unwrap_or_default();
        let spec = MapSpec::new("ringtap_closed", kind, bytes, closed::CONNECTIONS);
        let map = Map::create(self.kernel, &spec)?;
        let fd = map.as_fd().as_raw_fd();
        let found = closed::code(self.types, self.maps.owners, fd);
        let Some((code, tracepoint)) = found.zip(self.types.tracepoint(closed::TRACEPOINT)) else {
            return Ok(None);
        };
        let kind = ProgramKind::TypedTracepoint { tracepoint };
        let program = Program::load(self.kernel, "ringtap_closed", kind, &code)?;
        let point = Tracepoint::at_function(self.kernel, &program)?;
        Ok(Some((map, Point::Traced(point))))
    }

    fn attach_to(&self, places: &[Place], group: Option<&OwnedFd>) -> Result<Vec<Point>, WhoError> {
        let mut points = Vec::new();
        for place in places {
            match self.attach(place, group) {
                Ok(point) => points.push(point),
                // A function that this kernel has not, or has compiled into its callers.
                Err(_) if !place.is_needed => {}
                Err(error) => return Err(error),
            }
        }
        Ok(points)
    }

    fn attach(&self, place: &Place, group: Option<&OwnedFd>) -> Result<Point, WhoError> {
        let kind = match place.hook {
            Hook::Function(name, _) => {
                let function = self.types.function(name).ok_or(WhoError::Lacks(name))?;
                ProgramKind::FunctionEntry { function }
            }
            Hook::Tracepoint(name) => {
                let tracepoint = self.types.tracepoint(name).ok_or(WhoError::Lacks(name))?;
                ProgramKind::TypedTracepoint { tracepoint }
            }
            Hook::Cgroup(hook) => ProgramKind::Cgroup(hook),
        };
        let code = program::code(*place, self.structures, self.maps, self.who);
        let program = Program::load(self.kernel, "ringtap_who", kind, &code)?;
        Ok(match (place.hook, group) {
            (Hook::Cgroup(hook), Some(group)) => {
                Point::Grouped(Link::cgroup(&program, self.kernel, group.as_fd(), hook)?)
            }
            _ => Point::Traced(Tracepoint::at_function(self.kernel, &program)?),
        })
    }
}

/// Encodes a program's record as a block.
fn describe(event: &[u8], block: &mut Vec<u8>) -> Option<()> {
    let tag = ProcessTag::parse(event)?;
    let length = event.get(PROCESS_TAG_BYTES..)?.first_chunk()?;
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    let command_line = event.get(program::COMMAND_AT..)?.get(..length)?;
    let names = event.get(program::CGROUP_AT..)?;
    let names = names.chunks_exact(COMPONENT).take(COMPONENTS);
    let description = ProcessDescription {
        command_line: command_line.to_vec(),
        cgroup: path_of(names),
        ..ProcessDescription::default()
    };
    ProcessBlock { tag, description }.encode(block);
    Some(())
}

/// Returns the path of a control group from the names of its folders, the innermost first, each ended by a
/// zero byte. The outermost folder has no name. A path with more folders than were recorded begins with `…`.
fn path_of<'a>(names: impl Iterator<Item = &'a [u8]>) -> String {
    let text = |name: &'a [u8]| name.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut names: Vec<&[u8]> = names.map(text).collect();
    let end = names.iter().position(|name| name.is_empty());
    names.truncate(end.unwrap_or(names.len()));
    if names.is_empty() {
        return "/".to_owned();
    }
    let mut path = end.map_or("…", |_| "").to_owned();
    for name in names.iter().rev() {
        path.push('/');
        path.push_str(&String::from_utf8_lossy(name));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together_from_the_root_on() {
        let path = |names: &[&'static [u8]]| path_of(names.iter().copied());
        assert_eq!(
            path(&[b"ssh.service\0x", b"system.slice\0", b"\0"]),
            "/system.slice/ssh.service"
        );
        assert_eq!(path(&[b"\0", b"\0"]), "/");
        assert_eq!(path(&[b"b\0", b"a\0"]), "…/a/b");
    }

    #[test]
    fn records_of_another_form_are_passed_over() {
        let mut block = Vec::new();
        assert!(describe(&[], &mut block).is_none());
        assert!(describe(&[0; 4096], &mut block).is_none());
        let mut event = vec![0; program::EVENT as usize];
        event[..4].copy_from_slice(&[b'P', 1, 0, 1]);
        assert!(describe(&event, &mut block).is_some());
        event[PROCESS_TAG_BYTES..][..4].fill(0xff);
        assert!(
            describe(&event, &mut block).is_none(),
            "a length beyond the record"
        );
    }
}

//! Programs at the qdisc `clsact`, for kernels without tcx.
//!
//! Nothing binds a filter there to a process. Its owner removes it when it is dropped. In case the owner is
//! killed, each filter has a name that its owner also holds as an abstract socket of the network namespace
//! (unix(7)). The kernel removes the socket with the process, so the next capture recognizes a filter without
//! an owner, and removes it.

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use ringtap_sys::bpf::Program;
use ringtap_sys::netlink::{self, BpfFilter, Netlink};

use super::Side;

/// The prefix of names, and the suffix if the qdisc was created for such a filter: the last of them removes
/// it.
const PREFIX: &str = "ringtap:";
const MADE_QDISC: &str = ":qdisc";
/// Names tried before giving up; a second one is needed only if process ids of several namespaces collide.
const ATTEMPTS: u32 = 1_000;

/// A program for one direction of a device; it is removed when dropped.
#[derive(Debug)]
pub(super) struct ClsactFilter {
    /// A socket of the device's network namespace, usable from any thread.
    netlink: Netlink,
    filter: BpfFilter,
    made_qdisc: bool,
    /// Whether a copy of the process removes it.
    is_left: bool,
    /// Shows that the filter has an owner.
    _claim: UnixDatagram,
}

impl ClsactFilter {
    /// Puts a program before the device's filters, after it has removed those without an owner.
    pub(super) fn attach(program: &Program, index: u32, side: Side) -> netlink::Result<Self> {
        let mut netlink = Netlink::open()?;
        let is_ours = remove_orphans(&mut netlink, index)?;
        let made_qdisc = netlink.add_clsact(index)? || is_ours;
        let claimed = claim(made_qdisc);
        let added = claimed.and_then(|(name, claim)| {
            let filter = netlink.add_bpf_filter(index, side, &name, program.as_fd())?;
            Ok((filter, claim))
        });
        match added {
            Ok((filter, claim)) => Ok(Self {
                netlink,
                filter,
                made_qdisc,
                is_left: false,
                _claim: claim,
            }),
            Err(error) => {
                remove_qdisc(&mut netlink, index, made_qdisc);
                Err(error)
            }
        }
    }

    /// Leaves the removal to a copy of the process.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Runs another program from now on.
    pub(super) fn replace(&mut self, program: &Program) -> netlink::Result<()> {
        self.netlink
            .replace_bpf_filter(&self.filter, program.as_fd())
    }

    /// Returns how many BPF filters run before it. `None` if it was removed.
    pub(super) fn before(&mut self) -> netlink::Result<Option<usize>> {
        let filter = &self.filter;
        let known = self.netlink.bpf_filters(filter.index, filter.side)?;
        let is_ours =
            |other: &BpfFilter| (other.priority, other.handle) == (filter.priority, filter.handle);
        Ok(known.iter().position(is_ours))
    }
}

impl Drop for ClsactFilter {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // It fails if the device or the filter was removed, or the privilege was given up; in the last case
        // the next owner removes it.
        let _ = self.netlink.remove_bpf_filter(&self.filter);
        remove_qdisc(&mut self.netlink, self.filter.index, self.made_qdisc);
    }
}

/// Removes the qdisc that was created here, unless others use it.
fn remove_qdisc(netlink: &mut Netlink, index: u32, made: bool) {
    if made && netlink.clsact_has_filters(index).is_ok_and(|used| !used) {
        let _ = netlink.remove_clsact(index);
    }
}

/// Removes filters whose owners have ended. Returns whether the qdisc was created for such filters.
fn remove_orphans(netlink: &mut Netlink, index: u32) -> netlink::Result<bool> {
    let mut made_qdisc = false;
    for side in [Side::Ingress, Side::Egress] {
        for filter in netlink.bpf_filters(index, side)? {
            if !filter.name.starts_with(PREFIX) {
                continue;
            }
            made_qdisc |= filter.name.ends_with(MADE_QDISC);
            if is_unclaimed(&filter.name) {
                netlink.remove_bpf_filter(&filter)?;
            }
        }
    }
    Ok(made_qdisc)
}

/// Returns a name that nobody else holds in this network namespace.
fn claim(made_qdisc: bool) -> netlink::Result<(String, UnixDatagram)> {
    let suffix = if made_qdisc { MADE_QDISC } else { "" };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for number in 0..ATTEMPTS {
        let name = format!("{PREFIX}{}:{number}{suffix}", std::process::id());
        match hold(&name) {
            Ok(socket) => return Ok((name, socket)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(last))
}

fn failed(source: io::Error) -> netlink::Error {
    ringtap_sys::Error::new("bind(AF_UNIX)", "the name of a filter", source).into()
}

fn hold(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

fn is_unclaimed(name: &str) -> bool {
    hold(name).is_ok()
}

//! The interfaces of all network namespaces, of those that appear later too.
//!
//! A program can only be attached by a thread in the interface's namespace. Each look lists the namespaces, enters
//! each, and attaches to what is new. Nothing stays open there, since a socket or a descriptor would keep a namespace
//! whose processes have ended.

use std::fs;

use ringtap_packet::process::container_of;
use ringtap_savefile::InterfaceTable;
use ringtap_sys::errno::{ENOENT, EPERM};
use ringtap_sys::netlink::Netlink;
use ringtap_sys::netns::{self, Found, Namespace};
use ringtap_sys::privileges::{self, Capability};
use ringtap_sys::process::raise_open_files;

use super::reports::Report;
use super::{Any, FOREIGN_MAX, OWN, Space, interface_error, make_names, not_covered};
use crate::engines::tap::TapSource;
use crate::hook::{Hook, HookError, HookPoint, Side};
use crate::{Error, Interface, Result};

impl Space {
    /// Takes over the present label, since a container may have got its process later. Another namespace with the same
    /// number begins anew.
    fn meet(&mut self, cookie: Option<u64>, label: String) {
        if self.cookie.is_some() && self.cookie != cookie {
            self.hooks.clear();
            self.forget(|_| true);
        }
        self.cookie = cookie;
        if let Some((_, known)) = &mut self.foreign {
            *known = label;
        }
    }
}

impl TapSource {
    /// Attaches to the interfaces of other network namespaces that have none of the capture's programs yet. Returns
    /// those that it could not attach to.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub(super) fn cover_namespaces(&mut self) -> Result<Vec<(String, Error)>> {
        let own = Namespace::current()?.inode()?;
        let found = netns::list()?;
        self.leave_namespaces(&found);
        let mut uncovered = Vec::new();
        for one in found.iter().filter(|one| one.inode != own) {
            let is_new = self.place_of(one).is_none();
            match self.cover_namespace(one) {
                Ok(covered) => uncovered.extend(covered),
                // It has gone since it was found.
                Err(Error::System(error)) if error.errno() == Some(ENOENT) => {}
                Err(error) if is_new => uncovered.push((label_of(one), error)),
                // It was reported before.
                Err(_) => {}
            }
        }
        Ok(uncovered)
    }

    /// Attaches to the new interfaces of a namespace.
    fn cover_namespace(&mut self, found: &Found) -> Result<Vec<(String, Error)>> {
        let at = self.space_of(found)?;
        found.open()?.run(|| {
            let mut netlink = Netlink::open().map_err(interface_error)?;
            if let Some(space) = self.any.as_mut().and_then(|any| any.spaces.get_mut(at)) {
                space.meet(netlink.namespace_cookie(), label_of(found));
            }
            self.cover(at, &netlink.links().map_err(interface_error)?)
        })?
    }

    /// Forgets the namespaces that are gone. One that only a descriptor holds is no longer listed, but its interfaces
    /// are still captured.
    fn leave_namespaces(&mut self, found: &[Found]) {
        let Some(any) = &mut self.any else {
            return;
        };
        any.spaces.retain_mut(|space| {
            let Some((number, _)) = space.foreign else {
                return true;
            };
            if found.iter().any(|one| one.inode == number) {
                return true;
            }
            space
                .hooks
                .retain_mut(|hook| !hook.holds_namespace() && hook.is_attached());
            !space.hooks.is_empty()
        });
    }

    /// Returns whether this process is the copy that follows namespaces.
    pub(super) fn is_follower(&self) -> bool {
        let reports = self.any.as_ref().and_then(|any| any.reports.as_ref());
        reports.is_some_and(|reports| reports.is_follower)
    }

    fn place_of(&self, found: &Found) -> Option<usize> {
        let is_it = |space: &Space| {
            let foreign = space.foreign.as_ref();
            foreign.is_some_and(|(number, _)| *number == found.inode)
        };
        self.any.as_ref()?.spaces.iter().position(is_it)
    }

    /// Returns the place of a namespace, which is made if it is new.
    fn space_of(&mut self, found: &Found) -> Result<usize> {
        if let Some(at) = self.place_of(found) {
            return Ok(at);
        }
        let names = make_names(&self.kernel, FOREIGN_MAX);
        let names = names.map_err(|source| HookError::of_bpf(super::DEVICE, source))?;
        let Some(any) = &mut self.any else {
            return Ok(OWN);
        };
        any.spaces.push(Space {
            foreign: Some((found.inode, label_of(found))),
            names: Some(names),
            ..Space::default()
        });
        Ok(any.spaces.len() - 1)
    }

    /// Does the follower's work: attaches to what is new, and reports it to the reader.
    pub(in crate::engines::tap) fn follow_everywhere(&mut self) -> Result<()> {
        let Some(reports) = self.any.as_mut().and_then(|any| any.reports.as_mut()) else {
            return Ok(());
        };
        reports.follow();
        let _ = self.watch.take();
        // The reader goes on using the socket of the source.
        let links = Netlink::open().and_then(|mut netlink| netlink.links());
        let own = links.map_err(interface_error);
        let own = own.and_then(|links| self.cover(OWN, &links));
        let mut uncovered = self.cover_namespaces()?;
        uncovered.extend(own?);
        let reports = self.any.as_ref().and_then(|any| any.reports.as_ref());
        for (device, error) in uncovered {
            let reason = error.to_string();
            if let Some(reports) = reports {
                reports.send(&Report::Uncovered { device, reason })?;
            }
        }
        Ok(())
    }

    /// Leaves the programs to the follower, a copy of this process.
    pub(in crate::engines::tap) fn leave_to_follower(&mut self) {
        if let Some(reports) = self.any.as_mut().and_then(|any| any.reports.as_mut()) {
            reports.read();
        }
        let spaces = self.any.iter_mut().flat_map(|any| &mut any.spaces);
        for mut hook in spaces.flat_map(|space| space.hooks.drain(..)) {
            hook.leave();
        }
        if self.is_everywhere() {
            self.attached.hooks.iter_mut().for_each(Hook::leave);
        }
    }

    /// Takes the reports that are there.
    pub(in crate::engines::tap) fn take_reports(&mut self) -> Result<()> {
        let mut has_grown = false;
        while let Some(Any {
            reports: Some(reports),
            indices,
            uncovered,
            ..
        }) = &mut self.any
        {
            match reports.take()? {
                None => break,
                Some(Report::End) => {
                    uncovered.push_back(Error::FollowerGone);
                    self.changed = true;
                }
                Some(Report::Uncovered { device, reason }) => {
                    let error = Error::NotFollowed { reason };
                    uncovered.push_back(not_covered((device, error)));
                }
                Some(Report::Interface {
                    index,
                    link_type,
                    mac,
                    name,
                    description,
                }) => {
                    // The follower has done the same, so it succeeds. Numbers must agree in any case.
                    let _ = self.plan.add(link_type, index);
                    let mut interface = Interface::new(link_type, self.options.snaplen);
                    (interface.name, interface.mac) = (Some(name), mac);
                    interface.description = description;
                    interface.filter = self.plan.for_file();
                    self.interfaces.push(interface);
                    indices.push(index);
                    has_grown = true;
                }
            }
        }
        if has_grown {
            // As the follower does before it loads programs.
            self.plan = self.plan.for_place(HookPoint::Tcx(Side::Ingress));
            self.table = InterfaceTable::new(0, &self.interfaces);
        }
        Ok(())
    }
}

/// Checks that all namespaces can be found and entered, and raises the limit on open files: each interface needs some.
pub(super) fn check_privileges(device: &str) -> Result<()> {
    let held = privileges::capabilities()?.effective;
    for (needed, name) in [
        (Capability::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (Capability::SYS_PTRACE, "CAP_SYS_PTRACE"),
    ] {
        if !held.contains(needed) {
            let call = std::io::Error::from_raw_os_error(EPERM);
            return Err(Error::NotPermitted {
                device: device.to_owned(),
                needed: name,
                source: ringtap_sys::Error::new("setns", "all network namespaces", call),
            });
        }
    }
    raise_open_files();
    Ok(())
}

/// Returns the label of a namespace's interfaces: the container of its first process, the name that a mount gives
/// it, or its number.
fn label_of(found: &Found) -> String {
    let groups = found
        .pid
        .and_then(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    let groups = groups.unwrap_or_default();
    let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let container = paths.find_map(container_of);
    match (container, &found.name) {
        (Some(container), _) => container.short().to_owned(),
        (None, Some(name)) => name.clone(),
        (None, None) => format!("net:[{}]", found.inode),
    }
}

//! The interfaces of all network namespaces, of those that appear later too.
//!
//! A program can only be attached by a thread in the interface's namespace. Each look lists the namespaces, enters
//! each, and attaches to what is new. Nothing stays open there, since a socket or a descriptor would keep a namespace
//! whose processes have ended.

use std::fs;

use ringtap_packet::process::container_of;
use ringtap_savefile::InterfaceTable;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::netns::{self, Found, Namespace};

use super::reports::Report;
use super::{Any, FOREIGN_MAX, OWN, Space, interface_error, make_names, not_covered};
use crate::engines::tap::TapSource;
use crate::hook::HookError;
use crate::{Error, Interface, Result};

impl TapSource {
    /// Attaches to the interfaces of other network namespaces that have none of the capture's programs yet. Returns
    /// those that it could not attach to.
    ///
    /// # Errors
    /// The privilege to enter them is missing, or /proc is.
    pub(super) fn cover_namespaces(&mut self) -> Result<Vec<(String, Error)>> {
        let own = Namespace::current()?.inode()?;
        let found = netns::list()?;
        self.leave_namespaces(&found);
        let mut uncovered = Vec::new();
        for one in found.iter().filter(|one| one.inode != own) {
            // It may have gone since it was found.
            let Ok(namespace) = one.open() else {
                continue;
            };
            let (at, is_new) = self.space_of(one)?;
            let covered = namespace.run(|| {
                let links = Netlink::open().and_then(|mut netlink| netlink.links());
                self.cover(at, &links.map_err(interface_error)?)
            });
            match covered.map_err(Error::from).and_then(|covered| covered) {
                Ok(covered) => uncovered.extend(covered),
                // Without the privilege none can be entered.
                Err(error) if error.is_permission_denied() && !self.is_follower() => {
                    return Err(error);
                }
                Err(error) if is_new => uncovered.push((label_of(one), error)),
                Err(_) => {}
            }
        }
        Ok(uncovered)
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
            space.hooks.retain_mut(super::Hook::is_attached);
            !space.hooks.is_empty()
        });
    }

    fn is_follower(&self) -> bool {
        let reports = self.any.as_ref().and_then(|any| any.reports.as_ref());
        reports.is_some_and(|reports| reports.is_follower)
    }

    /// Returns the place of a namespace, which is made if it is new, and whether it is.
    fn space_of(&mut self, found: &Found) -> Result<(usize, bool)> {
        let names = || {
            let made = make_names(&self.kernel, FOREIGN_MAX);
            made.map_err(|source| HookError::of_bpf(super::DEVICE, source))
        };
        let Some(any) = &mut self.any else {
            return Ok((OWN, false));
        };
        let is_it = |space: &Space| {
            space
                .foreign
                .as_ref()
                .is_some_and(|(number, _)| *number == found.inode)
        };
        if let Some(at) = any.spaces.iter().position(is_it) {
            return Ok((at, false));
        }
        any.spaces.push(Space {
            foreign: Some((found.inode, label_of(found))),
            names: Some(names()?),
            ..Space::default()
        });
        Ok((any.spaces.len() - 1, true))
    }

    /// Does the follower's work: attaches to what is new, and reports it to the reader.
    pub(in crate::engines::tap) fn follow_everywhere(&mut self) -> Result<()> {
        let Some(reports) = self.any.as_mut().and_then(|any| any.reports.as_mut()) else {
            return Ok(());
        };
        reports.is_follower = true;
        let _ = self.watch.take();
        // The reader goes on using the socket of the source.
        let links = Netlink::open().and_then(|mut netlink| netlink.links());
        let mut uncovered = self.cover(OWN, &links.map_err(interface_error)?)?;
        uncovered.extend(self.cover_namespaces()?);
        let reports = self.any.as_ref().and_then(|any| any.reports.as_ref());
        for (device, error) in uncovered {
            let reason = error.to_string();
            if let Some(reports) = reports {
                reports.send(&Report::Uncovered { device, reason })?;
            }
        }
        Ok(())
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
                    // The follower has done the same, so it succeeds.
                    self.plan.add(link_type, index)?;
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
            self.table = InterfaceTable::new(0, &self.interfaces);
        }
        Ok(())
    }
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

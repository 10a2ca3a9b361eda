//! The names of containers, which only their runtimes know: the caller is asked, once for each control group.

use std::fmt;
use std::sync::Arc;

use ringtap_packet::process::ContainerNames;
use ringtap_savefile::{ProcessBlock, RawBlock};

use crate::filter::Latest;

/// A function that returns the names of the container at the path of a control group (version 2).
///
/// The reading thread calls it before the first packet of a process of another group, so it must not take long.
#[derive(Clone)]
pub struct ContainerNamer(Arc<Name>);

/// No names if they cannot be found now: another process of the group is a reason to ask again.
type Name = dyn Fn(&str) -> Option<ContainerNames> + Send + Sync;

impl ContainerNamer {
    /// Returns one that calls a function. `None` from it means that it could not find out.
    #[must_use]
    pub fn new(name: impl Fn(&str) -> Option<ContainerNames> + Send + Sync + 'static) -> Self {
        Self(Arc::new(name))
    }
}

impl fmt::Debug for ContainerNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContainerNamer")
    }
}

impl PartialEq for ContainerNamer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ContainerNamer {}

/// The names of the latest control groups.
#[derive(Debug)]
pub(super) struct Names {
    namer: ContainerNamer,
    known: Latest<ContainerNames>,
}

impl Names {
    pub(super) fn new(namer: ContainerNamer) -> Self {
        Self {
            namer,
            known: Latest::default(),
        }
    }

    /// Adds the container's names to the block that describes a process.
    pub(super) fn add(&mut self, block: &mut Vec<u8>) {
        let Some(mut process) = RawBlock::built(block).and_then(|raw| ProcessBlock::parse(&raw))
        else {
            return;
        };
        if process.description.container().is_none() {
            return;
        }
        let group = process.tag.cgroup();
        let known = self.known.get(group).cloned();
        let names = known.or_else(|| self.ask(group, &process.description.cgroup));
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            process.description.container = names;
            let mut named = Vec::new();
            process.encode(&mut named);
            *block = named;
        }
    }

    fn ask(&mut self, group: u64, path: &str) -> Option<ContainerNames> {
        let names = (self.namer.0)(path)?;
        // Groups without a number are different ones.
        if group != 0 {
            self.known
                .insert(group, names.clone(), ContainerNames::bytes);
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ringtap_packet::process::{ProcessDescription, ProcessFacts, ProcessTag};

    use super::*;

    #[test]
    fn a_group_is_asked_for_until_there_is_an_answer() {
        let asked = Arc::new(AtomicU32::new(0));
        let namer = ContainerNamer::new({
            let asked = Arc::clone(&asked);
            move |path| {
                let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
                (!first).then(|| ContainerNames {
                    name: format!("at {path}"),
                    ..ContainerNames::default()
                })
            }
        });
        let mut names = Names::new(namer);
        let mut named = |group: u64, path: &str| {
            let facts = ProcessFacts {
                cgroup: group,
                ..ProcessFacts::default()
            };
            let tag = facts.encode();
            let tag = ProcessTag::parse(&tag).expect("a tag");
            let description = ProcessDescription {
                cgroup: path.to_owned(),
                ..ProcessDescription::default()
            };
            let mut block = Vec::new();
            ProcessBlock { tag, description }.encode(&mut block);
            names.add(&mut block);
            let raw = RawBlock::built(&block).expect("whole");
            let description = ProcessBlock::parse(&raw).expect("a process").description;
            description.container.name
        };
        assert_eq!(named(7, "/system.slice/ssh.service"), "", "no container");
        for expected in ["", "at /lxc/web", "at /lxc/web"] {
            assert_eq!(named(8, "/lxc/web"), expected);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        // Their numbers are unknown.
        assert_eq!(named(0, "/lxc/one"), "at /lxc/one");
        assert_eq!(named(0, "/lxc/two"), "at /lxc/two");
    }
}

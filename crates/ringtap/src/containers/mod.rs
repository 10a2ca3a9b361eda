//! The containers that run on this host: a process of each, and its names.
//!
//! Runtimes name the control groups of containers after their ids, so `/proc` has the ids of all of them. The names
//! that users give are in the runtimes' own files ([`runtimes`]).

mod asked;
mod runtimes;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use ringtap_packet::process::{Container, container_of};

pub(crate) use asked::Asked;
use runtimes::Runtimes;

/// A program of podman beside each container, in a control group named after it. It runs in the host's namespaces.
const MONITOR: &str = "libpod-conmon-";
/// The most containers that an error lists.
const LISTED: usize = 8;

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// One of its processes.
    pub(crate) pid: u32,
    /// The id, shortened as runtimes print it.
    pub(crate) id: String,
    /// Empty if its control group does not say.
    pub(crate) runtime: &'static str,
    /// Its name, or else its id.
    pub(crate) label: String,
    /// The number of its network namespace.
    namespace: u64,
}

/// A container is not found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContainerError {
    #[error(
        "no such container runs here{}",
        listed(.0)
    )]
    Unknown(Vec<Running>),
    #[error("several containers have this name{}", listed(.0))]
    Several(Vec<Running>),
}

fn listed(found: &[Running]) -> String {
    let names = found.iter().take(LISTED);
    let names: Vec<String> = names
        .map(|one| match one.label == one.id {
            true => format!("{} {}", one.runtime, one.id),
            false => format!("{} {} ({})", one.runtime, one.label, one.id),
        })
        .map(|name| name.trim().to_owned())
        .collect();
    let more = if found.len() > LISTED { ", …" } else { "" };
    match names.is_empty() {
        true => String::new(),
        false => format!(" (running: {}{more})", names.join(", ")),
    }
}

/// Returns the number of a process in the container with this id, first digits of an id, name, or UID or name of its pod.
///
/// # Errors
/// None runs, or several with different networks do.
pub(crate) fn process_of(name: &str) -> Result<u32, ContainerError> {
    let named = running(|container| container.is_named(name));
    let Some(first) = named.first() else {
        return Err(ContainerError::Unknown(running(|_| true)));
    };
    // Those of a pod share its network.
    if named.iter().any(|one| one.namespace != first.namespace) {
        return Err(ContainerError::Several(named));
    }
    Ok(first.pid)
}

/// Returns the containers that are asked for, one process of each.
pub(crate) fn running(is_asked: impl Fn(&Container<'_>) -> bool) -> Vec<Running> {
    let runtimes = Runtimes::new(None);
    let mut found = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let Some(container) = container_in(&groups) else {
            continue;
        };
        if found.contains_key(container.id) {
            continue;
        }
        let names = runtimes.names_of(pid, &container);
        let container = Container {
            names: Some(&names),
            ..container
        };
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
        let running = is_asked(&container).then(|| Running {
            pid,
            id: container.short().to_owned(),
            runtime: container.runtime,
            label: container.label().to_owned(),
            namespace: namespace.map_or(0, |file| file.ino()),
        });
        found.insert(container.id.to_owned(), running);
    }
    found.into_values().flatten().collect()
}

/// Returns the container that the text of `/proc/PID/cgroup` names in one of its hierarchies.
fn container_in(groups: &str) -> Option<Container<'_>> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths
        .filter(|path| !path.contains(MONITOR))
        .find_map(container_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn containers_are_named_in_each_hierarchy() {
        let unified = format!("0::/system.slice/docker-{ID}.scope\n");
        let older = format!("9:name=systemd:/libpod_parent/libpod-{ID}\n8:pids:/\n0::/\n");
        for (groups, runtime) in [(unified, "docker"), (older, "podman")] {
            let found = container_in(&groups).expect("a container");
            assert_eq!((found.id, found.runtime), (ID, runtime), "{groups}");
        }
        assert_eq!(container_in("0::/user.slice/user-0.slice\n"), None);
        // podman's own program beside the container.
        let monitor = format!("0::/machine.slice/libpod-conmon-{ID}.scope\n");
        assert_eq!(container_in(&monitor), None);
    }

    #[test]
    fn errors_list_what_runs() {
        let one = Running {
            pid: 7,
            id: "0123456789ab".to_owned(),
            runtime: "podman",
            label: "web".to_owned(),
            namespace: 1,
        };
        let error = ContainerError::Unknown(vec![one]);
        let text = error.to_string();
        assert!(
            text.ends_with(" (running: podman web (0123456789ab))"),
            "{text}"
        );
        let text = ContainerError::Unknown(Vec::new()).to_string();
        assert!(text == "no such container runs here", "{text}");
    }
}

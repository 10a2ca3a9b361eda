//! Values of options that the system knows.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate as Candidate;
use ringtap_capture::{ENGINES, LinkType, devices};
use ringtap_sys::ethtool::Timestamping;

use crate::cli::NAMED;
use crate::containers;

/// Words of the filter language that a name known to the system follows.
const PROCESS: &str = "process";
const CONTAINER: &str = "container";

/// Words with which expressions of the filter language begin or go on.
const FILTER_WORDS: &str = "and arp broadcast process container uid dst ether gateway greater host icmp icmp6 inbound \
                            ip ip6 less mpls multicast net not or outbound port portrange sctp src tcp udp vlan";

/// Returns interfaces, `any`, and the engines to put before them; behind an engine its interfaces.
pub(super) fn interfaces(current: &OsStr) -> Vec<Candidate> {
    let current = current.to_string_lossy();
    let devices = devices::list().unwrap_or_default();
    let engine = current.split_once(':').map(|(engine, _)| engine);
    if let Some(engine) = engine.filter(|engine| ENGINES.iter().any(|known| known.name == *engine))
    {
        let named = devices.iter().map(|device| {
            Candidate::new(format!("{engine}:{}", device.name)).help(describe(device))
        });
        return matching(named, &current);
    }
    let engines = ENGINES.iter().map(|engine| {
        Candidate::new(format!("{}:", engine.name)).help(Some(engine.summary.into()))
    });
    matching(devices.iter().map(named).chain(engines), &current)
}

/// Returns the names of interfaces.
pub(super) fn plain_interfaces(current: &OsStr) -> Vec<Candidate> {
    let devices = devices::list().unwrap_or_default();
    matching(devices.iter().map(named), &current.to_string_lossy())
}

fn named(device: &devices::DeviceInfo) -> Candidate {
    Candidate::new(device.name.to_string()).help(describe(device))
}

fn describe(device: &devices::DeviceInfo) -> Option<clap::builder::StyledStr> {
    if device.is_any() {
        return Some("all interfaces".into());
    }
    let kind = device
        .kind
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let state = if device.flags.is_up() { "up" } else { "down" };
    Some(format!("{kind} {state}").trim().to_owned().into())
}

/// Returns the sources of timestamps that the interface of the command line has; without one, all.
pub(super) fn timestamps(current: &OsStr) -> Vec<Candidate> {
    let adapter = device_of(std::env::args()).is_none_or(|device| {
        let name = device
            .split_once(':')
            .map_or(device.as_str(), |(_, name)| name);
        devices::timestamping(name)
            .is_ok_and(|stamps| stamps.is_some_and(Timestamping::can_stamp_all))
    });
    let known = [
        ("host", "the host's clock"),
        ("host_lowprec", "the time of the last tick"),
        ("host_hiprec", "a clock read for each packet"),
        ("adapter", "the adapter's clock, set to the host's"),
        ("adapter_unsynced", "the adapter's clock"),
        ("none", "no timestamps"),
    ];
    let offered = known
        .into_iter()
        .filter(|(name, _)| adapter || !name.starts_with("adapter"));
    let candidates = offered.map(|(name, help)| Candidate::new(name).help(Some(help.into())));
    matching(candidates, &current.to_string_lossy())
}

/// Returns the value of `-i` among the words of a command line.
fn device_of(words: impl Iterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.collect();
    let attached = |word: &String| {
        let value = word
            .strip_prefix("--interface=")
            .or_else(|| word.strip_prefix("-i"));
        value
            .filter(|value| !value.is_empty() && !value.starts_with("nterface"))
            .map(str::to_owned)
    };
    let place = words
        .iter()
        .position(|word| word == "-i" || word == "--interface");
    let separate = place.and_then(|place| words.get(place + 1).cloned());
    separate.or_else(|| words.iter().find_map(attached))
}

/// Returns the names of link types.
pub(super) fn link_types(current: &OsStr) -> Vec<Candidate> {
    let known = LinkType::known().filter_map(|link_type| {
        let help = link_type.description().map(Into::into);
        Some(Candidate::new(link_type.name()?).help(help))
    });
    matching(known, &current.to_string_lossy())
}

/// Returns the names of the containers that run; the id of one whose name is unknown.
pub(super) fn containers(current: &OsStr) -> Vec<Candidate> {
    let found = containers::running(|_| true).into_iter();
    let named = found.map(|one| {
        let name = match is_plain(&one.label) {
            true => one.label,
            false => one.id,
        };
        Candidate::new(name).help(Some(one.runtime.into()))
    });
    matching(named, &current.to_string_lossy())
}

/// Returns the names of network namespaces.
pub(super) fn namespaces(current: &OsStr) -> Vec<Candidate> {
    let entries = std::fs::read_dir(NAMED).into_iter().flatten().flatten();
    let names = entries.map(|entry| Candidate::new(entry.file_name()));
    matching(names, &current.to_string_lossy())
}

/// Returns the names of users.
pub(super) fn users(current: &OsStr) -> Vec<Candidate> {
    names("/etc/passwd", current)
}

/// Returns the names of groups.
pub(super) fn groups(current: &OsStr) -> Vec<Candidate> {
    names("/etc/group", current)
}

/// Returns the first fields of a file's lines.
fn names(path: &str, current: &OsStr) -> Vec<Candidate> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let names = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name);
    matching(names.map(Candidate::new), &current.to_string_lossy())
}

/// Returns words of the filter language; behind `process` and `container`, the names of those that run.
pub(super) fn filter_words(current: &OsStr) -> Vec<Candidate> {
    // Shells give the words up to the one that is completed.
    match std::env::args().nth_back(1).as_deref() {
        Some(PROCESS) => return processes(current),
        Some(CONTAINER) => return containers(current),
        _ => {}
    }
    matching(
        FILTER_WORDS.split(' ').map(Candidate::new),
        &current.to_string_lossy(),
    )
}

/// Returns the names of processes, each once.
fn processes(current: &OsStr) -> Vec<Candidate> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        Some(name.trim_end_matches('\n').to_owned()).filter(|name| is_plain(name))
    });
    let names: BTreeSet<String> = names.collect();
    matching(
        names.into_iter().map(Candidate::new),
        &current.to_string_lossy(),
    )
}

/// Returns whether a shell reads nothing else in a name.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

/// Keeps those that begin with what is typed.
fn matching(candidates: impl Iterator<Item = Candidate>, current: &str) -> Vec<Candidate> {
    let fits = |candidate: &Candidate| candidate.get_value().to_string_lossy().starts_with(current);
    candidates.filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(line: &str) -> Option<String> {
        device_of(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn the_device_is_found_in_each_form() {
        for line in [
            "dump -i eth0 -j",
            "dump --interface eth0",
            "dump -ieth0",
            "dump --interface=eth0",
        ] {
            assert_eq!(device(line).as_deref(), Some("eth0"), "{line}");
        }
        assert_eq!(device("dump -r x -j"), None);
        assert_eq!(device("dump --immediate"), None);
    }
}

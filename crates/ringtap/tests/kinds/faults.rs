//! A device changes under a capture: it goes down and comes back, is renamed, is deleted; promiscuous mode is
//! restored.

use std::path::Path;

use ringtap_testkit::netns::Side;
use ringtap_testkit::{Test, test};

use crate::exchange;
use crate::topology::{Hosts, Kind, Peer, ip, rename};
use crate::{ENGINES, LIMIT, Listed, capture, end, filter, frames};

/// Datagrams before and after a change.
const FEW: usize = 6;

pub(crate) fn tests(kind: &'static Kind) -> Vec<Test> {
    let needs = kind.needs();
    let mut tests = vec![test(
        format!("{}_promiscuous_mode_is_left_as_it_was", kind.name),
        &needs,
        move || promiscuous_mode(kind),
    )];
    // Every namespace has one loopback device, which stays and keeps its name. A parent is a veth, whose
    // changes are tested under its own name.
    if kind.peer == Peer::Across && kind.device != "veth0" {
        tests.push(test(
            format!("{}_captures_on_under_a_new_name_and_after_down", kind.name),
            &needs,
            move || renamed(kind),
        ));
    }
    if kind.peer != Peer::Itself {
        tests.push(test(
            format!("{}_deleted_ends_the_capture", kind.name),
            &needs,
            move || deleted(kind),
        ));
    }
    tests
}

fn usable(hosts: &Hosts, kind: &Kind) -> impl Iterator<Item = &'static str> {
    let listed = Listed::new(hosts, kind);
    ENGINES
        .into_iter()
        .filter(move |engine| listed.unusable(engine).is_none())
}

/// Returns the number of requests for promiscuous mode.
pub(crate) fn promiscuity(side: &Side, device: &str) -> u64 {
    let output = side
        .namespace
        .output("ip", &["-j", "-d", "link", "show", device]);
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    links[0]["promiscuity"].as_u64().expect("a number")
}

fn promiscuous_mode(kind: &Kind) -> Result<(), String> {
    let hosts = Hosts::new(kind);
    let before = promiscuity(&hosts.left, kind.device);
    for engine in usable(&hosts, kind) {
        let device = format!("{engine}:{}", kind.device);
        let running = capture(&hosts, &device, "inout", Path::new("/dev/null"), "udp");
        let during = promiscuity(&hosts.left, kind.device);
        running.signal("KILL").map_err(|error| error.to_string())?;
        running.wait(LIMIT).map_err(|error| error.to_string())?;
        let after = promiscuity(&hosts.left, kind.device);
        if (during, after) != (before + 1, before) {
            return Err(format!(
                "{engine}: promiscuity was {before}, is {during} during a capture, {after} after SIGKILL"
            ));
        }
    }
    Ok(())
}

fn renamed(kind: &Kind) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = Hosts::new(kind);
    exchange::wait_until_joined(&hosts, kind);
    for engine in usable(&hosts, kind) {
        let file = folder.path().join(engine);
        let device = format!("{engine}:{}", kind.device);
        let filter = filter(kind, "udp", engine);
        let running = capture(&hosts, &device, "in", &file, &filter);
        exchange::datagrams(&hosts, kind, FEW);
        for (from, to) in [(kind.device, "k9"), ("k9", kind.device)] {
            rename(&hosts.left, from, to);
            exchange::wait_until_joined(&hosts, kind);
            exchange::datagrams(&hosts, kind, FEW);
        }
        end(running)?;
        let captured = frames(&file).1.len();
        if captured != 3 * FEW {
            return Err(format!("{engine}: {captured} of {} frames", 3 * FEW));
        }
    }
    Ok(())
}

fn deleted(kind: &Kind) -> Result<(), String> {
    let engines: Vec<_> = usable(&Hosts::new(kind), kind).collect();
    for engine in engines {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = Hosts::new(kind);
        exchange::wait_until_joined(&hosts, kind);
        let file = folder.path().join(engine);
        let device = format!("{engine}:{}", kind.device);
        let filter = filter(kind, "udp", engine);
        let running = capture(&hosts, &device, "inout", &file, &filter);
        exchange::datagrams(&hosts, kind, FEW);
        match &hosts.adapter {
            Some(adapter) => adapter.unplug().map_err(|error| error.to_string())?,
            None => ip(&hosts.left, &format!("link delete {}", kind.device)),
        }
        let output = running
            .wait(LIMIT)
            .map_err(|error| format!("{engine}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let is_named = text.contains(&format!("{}: the interface", kind.device));
        if output.status.code() != Some(1) || !is_named {
            return Err(format!("{engine}: {}: {text}", output.status));
        }
        let captured = frames(&file).1.len();
        let least = match (engine, kind.peer) {
            ("xdp", Peer::Nobody) => 0,
            _ => FEW,
        };
        if captured < least {
            return Err(format!(
                "{engine}: {captured} frames before the end, not {least}"
            ));
        }
    }
    Ok(())
}

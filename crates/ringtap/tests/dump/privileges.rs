//! The privileges that a capture needs, and those that it gives up.

use std::process::Command;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::descendants;
use ringtap_testkit::{Need, Test, test};

use crate::namespaces::has_name;
use crate::program::{LIMIT, RINGTAP, capturing, dump_live, finished, interrupted, stderr};

pub(crate) fn tests() -> Vec<Test> {
    let without_rights = [Need::Root, Need::Tool("setpriv")];
    vec![
        test(
            "capabilities_are_dropped_after_opening",
            &[Need::Root],
            capabilities_go,
        ),
        test(
            "names_of_containers_are_read_with_one_capability",
            &[Need::Root, Need::Kernel(5, 12)],
            names_are_read,
        ),
        test("z_changes_the_user", &[Need::Root], user_changes),
        test(
            "a_missing_capability_is_named",
            &without_rights,
            capability_is_named,
        ),
        test(
            "a_missing_capability_is_named_without_root",
            &[Need::NotRoot],
            without_root,
        ),
    ]
}

fn status_of(id: u32) -> String {
    std::fs::read_to_string(format!("/proc/{id}/status")).expect("a running process")
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {status}"))
        .trim()
}

/// Waits until a field of the process's status is as expected: privileges go after the ring is open.
fn wait_for(id: u32, what: &str, holds: impl Fn(&str) -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !holds(&status_of(id)) {
        assert!(
            std::time::Instant::now() < deadline,
            "{what}: {}",
            status_of(id)
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The capabilities of an opened capture. At clsact another process keeps the one that removes the filters
/// (docs/explanation/privileges.md).
const NO_CAPABILITIES: &str = "0000000000000000";

fn capabilities_go() {
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    let running = capturing(command.args(["-w", "/dev/null"]), &pair.right);
    let none = |status: &str| {
        ["CapEff:", "CapPrm:"]
            .iter()
            .all(|name| field(status, name) == NO_CAPABILITIES)
    };
    wait_for(running.id(), "capabilities are left", none);
    interrupted(running);
}

/// The capability that reads all files (`CAP_DAC_READ_SEARCH`).
const READS_ALL: &str = "0000000000000004";

/// The process that knows containers may read files, and goes with the capture.
fn names_are_read() {
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("who.pcapng");
    let running = capturing(command.args(["--who", "-w"]).arg(file), &pair.right);
    let is_it = |process: &u32| has_name(*process, "ringtap-names");
    let helper = descendants(running.id()).into_iter().find(is_it);
    let helper = helper.expect("a process that knows containers");
    let few = |status: &str| {
        ["CapEff:", "CapPrm:", "CapBnd:"]
            .iter()
            .all(|name| field(status, name) == READS_ALL)
    };
    wait_for(helper, "capabilities are left", few);
    let none = |status: &str| field(status, "CapPrm:") == NO_CAPABILITIES;
    wait_for(running.id(), "capabilities are left", none);
    interrupted(running);
    assert!(!has_name(helper, "ringtap-names"), "it is there still");
}

fn user_changes() {
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    let running = capturing(
        command.args(["-Z", "nobody", "-w", "/dev/null"]),
        &pair.right,
    );
    let changed = |status: &str| {
        let ids: Vec<&str> = field(status, "Uid:").split_whitespace().collect();
        ids == ["65534"; 4] && field(status, "CapPrm:") == NO_CAPABILITIES
    };
    wait_for(running.id(), "still root", changed);
    interrupted(running);
}

fn capability_is_named() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command("setpriv");
    command.args([
        "--inh-caps=-net_raw,-net_admin",
        "--bounding-set=-net_raw,-net_admin",
    ]);
    command.args([RINGTAP, "dump", "-i", &pair.right.device]);
    assert_named(&mut command);
}

fn without_root() {
    assert_named(Command::new(RINGTAP).args(["dump", "-i", "lo"]));
}

fn assert_named(command: &mut Command) {
    let output = finished(command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("CAP_NET_RAW"),
        "{}",
        stderr(&output)
    );
}

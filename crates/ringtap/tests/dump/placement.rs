//! Where packets are received: threads of the kernel on chosen processors, for as long as the capture runs.

use std::fs;
use std::process::Command;
use std::time::Instant;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::traffic::{Rate, Replay, Traffic};
use ringtap_testkit::{Need, Test, test};

use crate::program::{LIMIT, RINGTAP, capturing, dump_live, figure, finished, interrupted, stderr};

/// Shows the namespace's interfaces under /sys, to this process alone.
const MOUNTED: &str = "mount -t sysfs none /sys && exec \"$0\" \"$@\"";

pub(crate) fn tests() -> Vec<Test> {
    let needs = [
        Need::Root,
        Need::Tool("unshare"),
        Need::Tool("tcpreplay"),
        Need::InitialPids,
        Need::Kernel(6, 8),
    ];
    vec![
        test("packets_are_received_on_chosen_processors", &needs, chosen),
        test(
            "what_cannot_be_received_by_threads_is_told",
            &[Need::Root, Need::Tool("unshare"), Need::Kernel(5, 12)],
            told,
        ),
    ]
}

fn with_interfaces(side: &Side, program: &str) -> Command {
    let mut command = side.namespace.command("unshare");
    command.args(["--mount", "sh", "-c", MOUNTED, program]);
    command
}

fn is_threaded(side: &Side) -> String {
    let mut command = with_interfaces(side, "cat");
    command.arg(format!("/sys/class/net/{}/threaded", side.device));
    let output = finished(&mut command);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the processors of all threads that receive for a device of that name.
fn processors(device: &str) -> Vec<String> {
    let of = |folder: &std::path::Path| {
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let is_its = name.starts_with(&format!("napi/{device}-"));
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let mut lines = status.lines();
        let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        is_its.then(|| list.trim().to_owned())
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| of(&entry.path())).collect()
}

fn chosen() {
    const PACKETS: u64 = 500;
    let (_folder, sent) = Traffic::file_of(PACKETS);
    let pair = VethPair::new();
    let mut command = with_interfaces(&pair.right, RINGTAP);
    let device = format!("xdp:{}", pair.right.device);
    let placed = ["--packet-cpu", "0", "--cpu", "0", "--priority", "fifo:1"];
    command.args(["dump", "-w", "/dev/null", "-i", &device]);
    let running = capturing(command.args(placed), &pair.right);
    assert_eq!(is_threaded(&pair.right), "1");
    let processors = processors(&pair.right.device);
    assert!(processors.iter().any(|list| list == "0"), "{processors:?}");
    Replay::new(&sent, Rate::Pps(20_000)).run(&pair.left);
    let summary = stderr(&interrupted(running));
    assert_eq!(
        figure(&summary, "packets captured"),
        Some(PACKETS),
        "{summary}"
    );
    assert!(
        summary.contains("of the kernel until the capture ends"),
        "{summary}"
    );
    assert_eq!(is_threaded(&pair.right), "0", "put back");
    killed(&device, &placed, &pair.right);
}

/// A capture that is killed leaves the interface as it was, too: a helper process puts it back.
fn killed(device: &str, placed: &[&str], side: &Side) {
    let mut command = with_interfaces(side, RINGTAP);
    command.args(["dump", "-w", "/dev/null", "-i", device]);
    let running = capturing(command.args(placed), side);
    assert_eq!(is_threaded(side), "1");
    running.signal("KILL").expect("a signal");
    running.wait(LIMIT).expect("it ends");
    let deadline = Instant::now() + LIMIT;
    while is_threaded(side) != "0" {
        assert!(Instant::now() < deadline, "not put back");
    }
}

fn told() {
    let pair = VethPair::new();
    let mut elsewhere = dump_live(&pair.right);
    let mut without = with_interfaces(&pair.right, RINGTAP);
    without.args(["dump", "-i", &pair.right.device]);
    let mut any = pair.right.namespace.command(RINGTAP);
    any.args(["dump", "-i", "tcx:any"]);
    for (command, expected) in [
        (
            &mut elsewhere,
            "/sys shows the interfaces of another network namespace",
        ),
        (&mut without, "no queues that the kernel polls"),
        (&mut any, "--packet-cpu is for the threads of one interface"),
    ] {
        let output = finished(command.args(["-w", "/dev/null", "--packet-cpu", "0"]));
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains(expected),
            "{text}"
        );
    }
}

//! `ringtap gen` at both ends of a wire: one end counts the packets that the other sends.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let live = &[Need::Root];
    suite(vec![
        test("all_arrives_and_is_counted", live, all_arrives),
        test("live_frames_are_counted", live, live_frames),
        test("one_that_is_cut_arrives_as_many", live, segmentation),
        test("losses_and_doubles_are_found", live, losses),
        test("choices_are_explained", live, choices_are_explained),
        test("consent_and_usage", &[Need::Root], usage),
    ])
}

fn generator(side: &Side, device: &str, arguments: &[&str]) -> Command {
    let mut command = side.namespace.command(RINGTAP);
    command
        .args(["gen", "-i", device, "--json-stats"])
        .args(arguments);
    command
}

fn run(side: &Side, device: &str, arguments: &[&str]) -> Output {
    let mut command = generator(side, device, arguments);
    Running::start_piped(&mut command)
        .unwrap()
        .wait(LIMIT)
        .unwrap()
}

fn receiving(side: &Side, device: &str, arguments: &[&str]) -> Running {
    let mut command = generator(side, device, &[&["--receive"], arguments].concat());
    let mut running = Running::start_piped(&mut command).unwrap();
    running.wait_until_capturing(side, LIMIT).unwrap();
    running
}

fn interrupted(running: Running) -> serde_json::Value {
    running.signal("INT").unwrap();
    let output = running.wait(LIMIT).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&output)
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no summary: {text}"))).unwrap()
}

fn all_arrives() {
    let pair = VethPair::new();
    for arguments in [
        &[
            "-c", "3000", "--pps", "20000", "--size", "imix", "--flows", "100",
        ][..],
        &[
            "-c",
            "500",
            "--mbps",
            "20",
            "--poisson",
            "--size",
            "60-1514:97",
        ],
        &["-c", "1000", "--pps", "20000", "--burst", "100"],
        &[
            "-c", "1000", "-6", "--pps", "20000", "--size", "imix", "--flows", "9",
        ],
    ] {
        let receiver = receiving(&pair.right, "veth1", &[]);
        let sent = json(&run(&pair.left, "veth0", arguments));
        let told = interrupted(receiver);
        let run = &told["runs"][0];
        assert_eq!(run["received"], sent["sent"], "{arguments:?}: {told}");
        assert_eq!(run["bytes"], sent["bytes"]);
        for what in ["lost", "duplicates", "reordered", "first", "far_behind"] {
            assert_eq!(run[what], 0, "{what}: {told}");
        }
        let latency = &run["latency"];
        let at = |key: &str| latency[key].as_u64().unwrap();
        assert!(at("min_ns") <= at("p50_ns") && at("p50_ns") <= at("p9999_ns"));
        assert_eq!(told["dropped"]["ring"], 0);
    }
}

/// The output of `--explain` comes before the packets go out.
fn choices_are_explained() {
    let pair = VethPair::new();
    let generic = "back-end: packet, because it keeps the schedule best at this rate";
    let asked = "back-end: packet, because it was requested";
    for (device, reason) in [("veth0", generic), ("packet:veth0", asked)] {
        let output = run(
            &pair.left,
            device,
            &["-c", "10", "--pps", "1000", "--explain"],
        );
        let text = String::from_utf8_lossy(&output.stderr);
        for line in [reason, "capabilities: none"] {
            assert!(text.lines().any(|seen| seen == line), "{line}: {text}");
        }
    }
}

fn live_frames() {
    let pair = VethPair::new();
    let receiver = receiving(&pair.right, "xdp:veth1", &["--mode", "steal"]);
    let arguments = ["-c", "20000", "--pps", "200000", "--size", "60-200"];
    let output = run(&pair.left, "veth0", &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let sent = json(&output);
    assert_eq!(sent["back_end"], "live");
    assert_eq!(sent["sent"], 20_000);
    let told = interrupted(receiver);
    let run = &told["runs"][0];
    // Only packets for which the driver had no room may be missing.
    let received = run["received"].as_u64().unwrap();
    let lost = run["lost"].as_u64().unwrap();
    let last = run["last"].as_u64().unwrap();
    assert_eq!(received + lost, last + 1 - run["first"].as_u64().unwrap());
    assert!(received > 10_000, "{told}");
    assert_eq!(
        (&run["duplicates"], &run["reordered"]),
        (&0.into(), &0.into())
    );
}

/// The other end's XDP program makes the kernel cut before the wire.
fn segmentation() {
    let pair = VethPair::new();
    for (size, family) in [("60", "--source=10.0.0.1"), ("1514", "--ipv6")] {
        let receiver = receiving(&pair.right, "xdp:veth1", &["--mode", "steal"]);
        let arguments = ["-c", "5000", "--gso", "--size", size, family];
        let output = run(&pair.left, "veth0", &arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let sent = json(&output);
        assert_eq!(
            (&sent["back_end"], &sent["sent"]),
            (&"packet".into(), &5_000.into())
        );
        let told = interrupted(receiver);
        let run = &told["runs"][0];
        let dropped = pair
            .left
            .namespace
            .netlink()
            .link("veth0")
            .unwrap()
            .counters
            .tx_dropped;
        assert_eq!(run["received"].as_u64().unwrap() + dropped, 5_000, "{told}");
        assert_eq!(dropped, 0);
        assert_eq!(run["bytes"], sent["bytes"]);
        for what in ["lost", "duplicates", "reordered", "first"] {
            assert_eq!(run[what], 0, "{what}: {told}");
        }
    }
    for wrong in ["--flows=2", "--size=60,70", "--size=imix"] {
        let output = run(&pair.left, "veth0", &["-c", "5", "--gso", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
}

fn losses() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("generated.pcap");
    let file = file.to_str().unwrap();
    // Captured, then sent again with a gap, doubles, and a part overtaken.
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args(["dump", "-i", "veth1", "-w", file, "-c", "100"]);
    let mut capture = Running::start_piped(&mut command).unwrap();
    capture.wait_until_capturing(&pair.right, LIMIT).unwrap();
    run(&pair.left, "veth0", &["-c", "100", "--pps", "10000"]);
    assert!(capture.wait(LIMIT).unwrap().status.success());
    let receiver = receiving(&pair.right, "veth1", &[]);
    let number = "ether[48:4]";
    for part in [
        format!("{number} < 40"),
        format!("{number} >= 60"),
        format!("{number} >= 50 and {number} < 60"),
        format!("{number} >= 90"),
    ] {
        let mut command = pair.left.namespace.command(RINGTAP);
        let command = command.args(["send", "-i", "veth0", "-r", file, "--topspeed", &part]);
        assert!(command.output().unwrap().status.success());
    }
    let told = interrupted(receiver);
    let run = &told["runs"][0];
    let counts = ["received", "lost", "duplicates", "reordered"].map(|key| run[key].as_u64());
    assert_eq!(counts, [Some(100), Some(10), Some(10), Some(10)], "{told}");
}

fn usage() {
    let pair = VethPair::new();
    let mut netlink = pair.left.namespace.netlink();
    netlink
        .add_default_route("veth0", pair.right.ipv4.into())
        .unwrap();
    for bad in [
        &[][..],
        &["-c", "5"],
        &["-c", "5", "--pps", "2000"],
        &["-c", "5", "--pps", "10", "--size", "59"],
        &["-c", "5", "--pps", "10", "--poisson", "--burst", "3"],
        &["--receive", "--pps", "10"],
        &["-c", "5", "--flows", "0"],
    ] {
        let output = run(&pair.left, "veth0", bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {output:?}");
    }
    let output = run(&pair.left, "veth0", &["-c", "5", "--pps", "1000"]);
    assert_eq!(json(&output)["sent"], 5);
    let output = run(&pair.left, "veth0", &["-c", "5", "--yes"]);
    assert_eq!(json(&output)["sent"], 5);
}

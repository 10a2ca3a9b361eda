//! How a live capture ends: by a signal, by its count, with its interface.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};
use ringtap_testkit::{Need, Test, test};

use crate::program::{
    LIMIT, RINGTAP, bytes, capturing, dump_live, figure, frames, interrupted, stderr, succeeded,
};

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Root, Need::Tool("tcpreplay")];
    let tap = [Need::Root, Need::Tool("tcpreplay"), Need::Kernel(5, 12)];
    vec![
        test("signals_end_cleanly", &needs, signals),
        test(
            "a_signal_after_the_first_line_ends_cleanly",
            &needs[..1],
            at_once,
        ),
        test(
            "a_signal_after_the_first_line_of_a_tap_ends_cleanly",
            &[Need::Root, Need::Kernel(5, 12)],
            || ends_at_once(&["dump", "-w", "/dev/null", "-i"], "tcx"),
        ),
        test("nohup_is_respected", &needs, hangup_ignored),
        test("a_quiet_capture_ends_at_once", &needs[..1], quiet),
        test("count_ends_the_capture", &needs, count),
        test(
            "usr1_prints_the_summary_and_goes_on",
            &needs,
            summary_in_between,
        ),
        test("json_stats_of_a_capture", &tap, json_stats),
        test(
            "an_interface_that_vanishes_is_reported",
            &needs,
            interface_vanishes,
        ),
        test(
            "an_interface_that_goes_down_is_reported",
            &needs,
            interface_goes_down,
        ),
    ]
}

/// Returns a pair, a file of 500 packets, and a folder that holds it.
fn scene() -> (VethPair, tempfile::TempDir, Replay) {
    let (folder, sent) = Traffic::file_of(500);
    (
        VethPair::new(),
        folder,
        Replay::new(sent, Rate::Pps(20_000)),
    )
}

fn signals() {
    let (pair, folder, replay) = scene();
    for signal in ["INT", "TERM", "HUP"] {
        let written = folder.path().join("captured.pcap");
        let mut command = dump_live(&pair.right);
        let running = capturing(command.arg("-w").arg(&written), &pair.right);
        replay.run(&pair.left);
        running.signal(signal).expect("a signal");
        let output = succeeded(running.wait(LIMIT).expect("an end"));
        assert!(
            output.stdout.is_empty(),
            "{signal}: nothing belongs on standard output"
        );
        let summary = stderr(&output);
        assert_eq!(
            figure(&summary, "packets captured"),
            Some(500),
            "{signal}: {summary}"
        );
        assert_eq!(frames(&bytes(&written)).len(), 500, "{signal}");
    }
}

/// A program that has read that a capture runs may end it: signals are handled before that is written, which
/// a full pipe delays here.
fn at_once() {
    for command in [
        &["dump", "-w", "/dev/null", "-i"][..],
        &["flow", "--top", "1", "-i"],
        &["stat", "-i"],
        &["gen", "--duration", "60s", "-i"],
    ] {
        ends_at_once(command, "packet");
    }
}

fn ends_at_once(command: &[&str], engine: &str) {
    const PIPE: usize = 64 << 10;
    let pair = VethPair::new();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'.'; PIPE]).expect("room");
    let mut ringtap = pair.right.namespace.command(RINGTAP);
    ringtap.args(command);
    ringtap.arg(format!("{engine}:{}", pair.right.device));
    ringtap.stdout(Stdio::null()).stderr(writer);
    let mut running = Running::start(&mut ringtap).expect("ringtap starts");
    // This is the only other end.
    drop(ringtap);
    running
        .wait_until_resting(LIMIT)
        .expect("it waits for room");
    running.signal("INT").expect("a signal");
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    let output = running.wait(LIMIT).expect("an end");
    let status = output.status;
    assert!(status.success(), "{command:?}: {status} {}", &text[PIPE..]);
    assert!(text.contains(" on "), "{}", &text[PIPE..]);
}

/// Started by `nohup`, a capture outlives its terminal.
fn hangup_ignored() {
    let (pair, _folder, replay) = scene();
    let mut command = pair.right.namespace.command("sh");
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    command.args(["-c", script, RINGTAP, "dump", "-i", &pair.right.device]);
    let running = capturing(command.args(["-w", "/dev/null"]), &pair.right);
    running.signal("HUP").expect("a signal");
    replay.run(&pair.left);
    let summary = stderr(&interrupted(running));
    assert_eq!(figure(&summary, "packets captured"), Some(500), "{summary}");
}

/// No packet ever comes: only the signal can wake the capture.
fn quiet() {
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    let running = capturing(command.args(["-w", "-", "--timeout", "60000"]), &pair.right);
    running.signal("INT").expect("a signal");
    let output = succeeded(running.wait(LIMIT / 4).expect("an end before the timeout"));
    assert!(frames(&output.stdout).is_empty());
    assert_eq!(figure(&stderr(&output), "packets captured"), Some(0));
}

fn count() {
    let (pair, folder, replay) = scene();
    let written = folder.path().join("captured.pcap");
    let mut command = dump_live(&pair.right);
    let running = capturing(command.args(["-c", "123", "-w"]).arg(&written), &pair.right);
    replay.run(&pair.left);
    let output = succeeded(running.wait(LIMIT).expect("an end"));
    assert_eq!(frames(&bytes(&written)).len(), 123);
    assert_eq!(figure(&stderr(&output), "packets captured"), Some(123));
}

fn summary_in_between() {
    let (pair, folder, replay) = scene();
    let written = folder.path().join("captured.pcap");
    let mut command = dump_live(&pair.right);
    let running = capturing(command.arg("-w").arg(&written), &pair.right);
    replay.run(&pair.left);
    running.signal("USR1").expect("a signal");
    replay.run(&pair.left);
    let output = interrupted(running);
    let summaries = stderr(&output);
    let count = summaries
        .lines()
        .filter(|line| line.ends_with(" captured"))
        .count();
    assert_eq!(count, 2, "{summaries}");
    assert_eq!(frames(&bytes(&written)).len(), 1000);
}

fn json_stats() {
    let (pair, folder, replay) = scene();
    let written = folder.path().join("captured.pcap");
    let mut command = dump_live(&pair.right);
    let running = capturing(
        command.args(["--json-stats", "-w"]).arg(&written),
        &pair.right,
    );
    replay.run(&pair.left);
    let text = stderr(&interrupted(running));
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a JSON object");
    let json: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    let mut expected = [
        "engine", "seconds", "captured", "received", "bytes", "dropped",
    ];
    expected.sort_unstable();
    assert_eq!(sorted(keys), expected);
    assert_eq!(json["engine"], "tcx");
    assert_eq!(
        (&json["captured"], &json["received"]),
        (&500.into(), &500.into())
    );
    assert!(
        json["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    let sum: usize = frames(&bytes(&written))
        .iter()
        .map(|frame| frame.len())
        .sum();
    assert_eq!(json["bytes"], sum);
    let dropped = json["dropped"].as_object().expect("an object");
    let places = [
        "application",
        "before_hook",
        "hook",
        "interface",
        "ring",
        "sampling",
    ];
    assert_eq!(sorted(dropped.keys().collect()), places);
    assert_eq!(dropped["ring"], 0);
    assert!(
        dropped
            .values()
            .all(|value| value.is_null() || value.is_u64())
    );
}

fn sorted(mut keys: Vec<&String>) -> Vec<&str> {
    keys.sort_unstable();
    keys.into_iter().map(String::as_str).collect()
}

fn interface_vanishes() {
    let (pair, folder, replay) = scene();
    let written = folder.path().join("captured.pcap");
    let mut command = dump_live(&pair.right);
    let running = capturing(command.arg("-w").arg(&written), &pair.right);
    replay.run(&pair.left);
    pair.right
        .namespace
        .netlink()
        .delete(&pair.right.device)
        .expect("deleted");
    assert_reported(running, &pair.right.device);
    assert_eq!(
        frames(&bytes(&written)).len(),
        500,
        "what came before is kept"
    );
}

/// A link that flaps must not end a capture of days: the capture says it, once, and waits.
fn interface_goes_down() {
    goes_down_and_up(&[]);
    goes_down_and_up(&["--threads", "2"]);
}

fn goes_down_and_up(arguments: &[&str]) {
    let (pair, folder, replay) = scene();
    let written = folder.path().join("captured.pcap");
    let mut command = dump_live(&pair.right);
    command.arg("-w").arg(&written).args(arguments);
    let mut running = capturing(&mut command, &pair.right);
    replay.run(&pair.left);
    let mut netlink = pair.right.namespace.netlink();
    let report = format!("{}: the interface is down", pair.right.device);
    netlink.set_up(&pair.right.device, false).expect("down");
    running.wait_until_told(&report, LIMIT).expect("a report");
    netlink.set_up(&pair.right.device, true).expect("up");
    netlink
        .wait_until_up(&pair.right.device, LIMIT)
        .expect("a carrier");
    replay.run(&pair.left);
    let text = stderr(&interrupted(running));
    assert_eq!(text.matches(&report).count(), 1, "{text}");
    assert_eq!(
        frames(&bytes(&written)).len(),
        1000,
        "before and after: {text}"
    );
}

fn assert_reported(running: Running, device: &str) {
    let output = running.wait(LIMIT).expect("an end");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(device), "{text}");
    assert_eq!(figure(&text, "packets captured"), Some(500), "{text}");
}

//! Triggers, requests and alerts copy the packets around them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, test};

use crate::scene::{LIMIT, RINGTAP, Scene, ended, same, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    vec![
        test("a_request_copies_the_window", &root, requested),
        test(
            "triggers_beyond_those_that_wait_are_counted",
            &root,
            ignored,
        ),
        test("a_packet_a_rate_and_a_loss_trigger", &root, triggered),
        test("a_signal_copies_the_window", &root, signalled),
        test("a_copy_may_have_a_filter", &root, selected),
        test("an_alert_of_the_meter_copies_the_window", &root, alerted),
        test(
            "copies_that_are_removed_give_back_their_room",
            &root,
            removed,
        ),
        test("the_path_of_the_folder_may_be_long", &root, long),
    ]
}

fn signalled() {
    let scene = Scene::new();
    let options = ["--budget", "64M", "--before", "10s", "--after", "100ms"];
    let running = scene.recording(&options);
    scene.sender().send(0..100, 300);
    scene.wait_for(99);
    running.signal("USR1").expect("a signal");
    let reasons = incidents(&scene, 1);
    assert_eq!(reasons[0]["trigger"], "signal");
    same(&copied(&scene, &reasons[0]), 0..100);
    ended(running);
}

fn selected() {
    for codec in ["none", "zstd:1"] {
        let scene = Scene::new();
        let running = scene.recording(&[
            "--budget",
            "64M",
            "--compress",
            codec,
            "--before",
            "10s",
            "--after",
            "100ms",
            "--trigger-filter",
            "dst host 10.0.1.7",
        ]);
        scene.sender().send(0..5000, 700);
        scene.wait_for(4999);
        let output = scene.ask(&["record", "trigger", "x"], &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        let reasons = incidents(&scene, 1);
        assert_eq!(reasons[0]["packets"], 500);
        let sevens = (0..5000).filter(|number| number % 10 == 7);
        same(&copied(&scene, &reasons[0]), sevens);
        ended(running);
        let json = stdout(&scene.ask(&["record", "status", "--json"], &[]));
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        // The file of 350 kB and some room for its metadata.
        let bytes = json["incident_bytes"].as_u64().expect("a number");
        assert!((300_000..800_000).contains(&bytes), "{json}");
    }
}
/// Waits until the folder of incidents has this number of reasons, and returns them.
fn incidents(scene: &Scene, count: usize) -> Vec<serde_json::Value> {
    let begun = std::time::Instant::now();
    loop {
        let entries = std::fs::read_dir(scene.dir().join("incidents")).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let reasons = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let reasons = reasons.filter_map(|path| {
            serde_json::from_str(&std::fs::read_to_string(path).expect("text")).ok()
        });
        let reasons: Vec<serde_json::Value> = reasons.collect();
        if reasons.len() >= count {
            return reasons;
        }
        assert!(begun.elapsed() < crate::scene::LIMIT, "{reasons:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Returns the numbers of the packets that a copy has.
fn copied(scene: &Scene, reason: &serde_json::Value) -> Vec<u64> {
    let files = reason["files"].as_array().expect("files").iter();
    let names = files.map(|name| name.as_str().expect("a name"));
    let paths = names.map(|name| scene.dir().join("incidents").join(name));
    paths
        .flat_map(|path| crate::scene::numbers(&path))
        .collect()
}

fn requested() {
    let scene = Scene::new();
    let none = scene.root.path().join("none");
    let none = none.to_str().expect("a name");
    let output = Command::new(RINGTAP)
        .args(["record", "trigger", "x", "--dir", none])
        .output();
    let output = output.expect("ringtap runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no recorder runs"),
        "{}",
        stderr(&output)
    );
    let window = ["--before", "2s", "--after", "1s", "--cool-down", "1h"];
    let running =
        scene.recording(&[&["--budget", "64M", "--file-size", "1M"], &window[..]].concat());
    let sender = scene.sender();
    sender.send(0..1000, 700);
    std::thread::sleep(std::time::Duration::from_secs(4));
    sender.send(1000..2000, 700);
    for _ in 0..2 {
        let output = scene.ask(&["record", "trigger", "by hand"], &[]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    sender.send(2000..2100, 700);
    let reasons = incidents(&scene, 1);
    std::thread::sleep(std::time::Duration::from_secs(4));
    sender.send(3000..3010, 700);
    let found = copied(&scene, &reasons[0]);
    assert!(
        (1000..2100).all(|number| found.contains(&number)),
        "{reasons:?}"
    );
    assert!(!found.contains(&0), "{reasons:?}");
    let said = stderr(&ended(running));
    // The second request is in the cool-down.
    assert_eq!(incidents(&scene, 1).len(), 1, "{said}");
    assert_eq!(reasons[0]["trigger"], "by_hand");
    assert_eq!(reasons[0]["reason"], "requested");
    // A copy stays although the budget needs room.
    let status = stdout(&scene.ask(&["record", "status"], &[]));
    assert!(status.contains("bytes in incidents"), "{status}");
}

fn ignored() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--after", "1h"]);
    for number in 0..67 {
        let name = format!("t{number}");
        let output = scene.ask(&["record", "trigger", &name], &[]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let said = stderr(&ended(running));
    assert_eq!(said.matches("ignored, since 64 copies wait").count(), 3);
    let json = stdout(&scene.ask(&["record", "status", "--json"], &[]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["incidents"], 64, "{json}");
    assert_eq!(json["ignored_triggers"], 3, "{json}");
    let text = stdout(&scene.ask(&["record", "status"], &[]));
    assert!(text.contains("3 triggers NOT OBEYED"), "{text}");
}

fn triggered() {
    let scene = Scene::new();
    let options = [
        "--budget",
        "64M",
        "--before",
        "1s",
        "--after",
        "1s",
        "--cool-down",
        "1h",
        "--trigger",
        "seven=dst host 10.0.1.7 and less 100",
        "--trigger",
        "fast=rate udp > 2k/s",
        "--trigger",
        "never=loss > 1000000",
    ];
    let running = scene.recording(&options);
    let sender = scene.sender();
    sender.send(0..5, 300);
    sender.send(7..8, 60);
    let reasons = incidents(&scene, 1);
    assert_eq!(reasons[0]["trigger"], "seven");
    assert!(copied(&scene, &reasons[0]).contains(&7));
    sender.send(100..20_000, 300);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    sender.send(20_000..20_010, 300);
    let reasons = incidents(&scene, 2);
    let names: Vec<&str> = reasons
        .iter()
        .filter_map(|reason| reason["trigger"].as_str())
        .collect();
    assert!(names.contains(&"fast"), "{reasons:?}");
    ended(running);
    assert_eq!(incidents(&scene, 2).len(), 2);
}

fn alerted() {
    let scene = Scene::new();
    let options = [
        "--budget",
        "64M",
        "--before",
        "10s",
        "--after",
        "100ms",
        "--cool-down",
        "1h",
        "--trigger",
        "fan=alert scan > 5",
        "--trigger",
        "fast=alert rate > 100G",
    ];
    let running = scene.recording(&options);
    let sender = scene.sender();
    // Ten hosts, none of which answers.
    sender.send(0..50, 300);
    let reasons = incidents(&scene, 1);
    assert_eq!(reasons[0]["trigger"], "fan");
    let reason = reasons[0]["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("10.0.0.1 opened flows to more than 5 hosts"),
        "{reason}"
    );
    same(&copied(&scene, &reasons[0]), 0..50);
    let said = stderr(&ended(running));
    assert_eq!(said.matches("trigger fan: ").count(), 2, "{said}");
    assert!(!said.contains("trigger fast"), "{said}");
}

fn removed() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--before", "10s", "--after", "100ms"]);
    scene.sender().send(0..2000, 1000);
    scene.wait_for(1999);
    let output = scene.ask(&["record", "trigger", "x"], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    incidents(&scene, 1);
    let status = || {
        let text = stdout(&scene.ask(&["record", "status", "--json"], &[]));
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        (json["incident_bytes"].as_u64(), json["incidents"].as_u64())
    };
    let wait_for = |is_there: &dyn Fn(u64) -> bool| {
        let begun = Instant::now();
        let mut found = status();
        while !is_there(found.0.expect("a number")) {
            assert!(begun.elapsed() < LIMIT, "{found:?}");
            std::thread::sleep(Duration::from_millis(100));
            found = status();
        }
        assert_eq!(found.1, Some(1));
    };
    wait_for(&|bytes| bytes > 1_500_000);
    for entry in std::fs::read_dir(scene.dir().join("incidents")).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    wait_for(&|bytes| bytes < 50_000);
    ended(running);
}

fn long() {
    let scene = Scene::new();
    let folder = scene
        .root
        .path()
        .join("d".repeat(100))
        .join("e".repeat(100));
    std::fs::create_dir_all(folder.parent().expect("a parent")).expect("a folder");
    let side = &scene.pair.right;
    let mut command = side.namespace.command(RINGTAP);
    command.args([
        "record",
        "-i",
        &side.device,
        "--budget",
        "64M",
        "--after",
        "1s",
        "--dir",
    ]);
    command.arg(&folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command).expect("ringtap starts");
    running
        .wait_until_told("recording on", LIMIT)
        .expect("it records");
    scene.sender().send(0..10, 300);
    let mut request = Command::new(RINGTAP);
    request
        .args(["record", "trigger", "x", "--dir"])
        .arg(&folder);
    let output = request.output().expect("ringtap runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&ended(running));
    assert!(said.contains("trigger x: requested"), "{said}");
}

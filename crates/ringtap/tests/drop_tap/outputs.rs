//! Filters, files, flows, lists and messages.

use std::net::UdpSocket;
use std::process::Command;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::causes::send;
use crate::scene::{Capture, LIMIT, RINGTAP, read};

fn has_port(packet: &Value, port: u16) -> bool {
    packet["udp"]["dst_port"] == port
}

pub(crate) fn filters() {
    let pair = VethPair::new();
    let filter = "udp dst port 10 and src host 10.99.0.1 and inbound and greater 60";
    let capture = Capture::start(&pair.right, &[filter]);
    send(&pair, 9, 5, 100);
    send(&pair, 10, 4, 10);
    send(&pair, 10, 3, 100);
    let found = capture.finish();
    assert_eq!(found.packets.len(), 3, "{:#?}", found.lines);
    assert!(found.packets.iter().all(|packet| has_port(packet, 10)));
    // Other directions and snaplens.
    let capture = Capture::start(&pair.right, &["-s", "60", "--direction", "out"]);
    send(&pair, 9, 5, 100);
    let found = capture.finish();
    let received = found.packets.iter().filter(|packet| has_port(packet, 9));
    assert_eq!(received.count(), 0, "{:#?}", found.lines);
    let capture = Capture::start(&pair.right, &["-s", "60"]);
    send(&pair, 9, 5, 100);
    let found = capture.finish();
    let cut = |packet: &&Value| packet["caplen"] == 60 && packet["len"] == 148;
    assert_eq!(
        found.packets.iter().filter(cut).count(),
        5,
        "{:#?}",
        found.lines
    );
}

pub(crate) fn one_device() {
    let pair = VethPair::new();
    let capture = Capture::start(&pair.right, &[]);
    send(&pair, 9, 3, 20);
    pair.right.run(|| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        socket
            .send_to(b"on loopback", ("127.0.0.1", 9))
            .expect("sent");
    });
    let found = capture.finish();
    // The other end's namespace has a device with this number, too.
    assert_eq!(found.packets.len(), 3, "{:#?}", found.lines);
    assert_eq!(found.lines.len(), 3, "{:#?}", found.lines);
}

pub(crate) fn lines() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    let device = format!("drop:{}", pair.right.device);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("drops.pcapng");
    command
        .args(["dump", "-n", "--print", "-i", &device, "-w"])
        .arg(&file);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_told("capturing on drop:", LIMIT)
        .expect("a capture");
    send(&pair, 9, 2, 20);
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    let live = String::from_utf8(output.stdout).expect("UTF-8");
    let live: Vec<String> = live.lines().map(str::to_owned).collect();
    assert_eq!(live.len(), 2, "{live:?}");
    assert!(live[0].contains(" drop NO_SOCKET at "), "{}", live[0]);
    assert!(live[0].contains("+0x"), "{}", live[0]);
    assert_eq!(read(&file, &["-n"]), live);
    // A copy of the file has the same.
    let copy = folder.path().join("copy.pcapng");
    let mut command = Command::new(RINGTAP);
    command
        .args(["dump", "-r"])
        .arg(&file)
        .arg("-w")
        .arg(&copy)
        .arg("udp");
    let output = command.output().expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&copy, &["-n"]), live);
}

pub(crate) fn flows() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    let device = format!("drop:{}", pair.right.device);
    command.args(["flow", "-i", &device]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_told("metering on drop:", LIMIT)
        .expect("a capture");
    send(&pair, 9, 7, 20);
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find(|line| line.starts_with("10.99.0.1 "));
    let words: Vec<&str> = host.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.get(3), Some(&"7"), "{text}");
}

pub(crate) fn counts() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    let device = format!("drop:{}", pair.right.device);
    command.args(["stat", "--interval", "1h", "--json", "-i", &device, "udp"]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_told("counting on drop:", LIMIT)
        .expect("counters");
    send(&pair, 9, 11, 20);
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    let counted: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = counted["reasons"].as_array().expect("reasons");
    assert_eq!(rows.len(), 1, "{counted}");
    assert_eq!(rows[0]["reason"], "NO_SOCKET", "{counted}");
    assert_eq!(rows[0]["packets"], 11, "{counted}");
    assert_eq!(rows[0]["bytes"], 11 * (20 + 8 + 20), "{counted}");
    assert_eq!(counted["lost"], 0, "{counted}");
}

pub(crate) fn devices() {
    let mut command = Command::new(RINGTAP);
    let output = command
        .args(["devices", "lo"])
        .output()
        .expect("ringtap runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("drop (tap on packets that the kernel drops)"),
        "{text}"
    );
}

pub(crate) fn explained() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    let device = format!("drop:{}", pair.right.device);
    command.args(["dump", "-i", &device, "--explain-capture", "-c", "1"]);
    command.args(["-w", "/dev/null", "udp dst port 9"]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_told("system calls:", LIMIT)
        .expect("a capture");
    // It captures, and ends by itself.
    send(&pair, 9, 1, 20);
    let output = running.wait(LIMIT).expect("an end");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in [
        "engine:         drop\n",
        "tracepoint kfree_skb",
        "in the kernel, ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

pub(crate) fn wrong_use() {
    for (arguments, text) in [
        (&["dump", "-i", "drop:nosuch0"][..], "no such interface"),
        (
            &["dump", "-i", "drop:", "--mode", "steal"],
            "engine drop cannot steal",
        ),
        (&["stat", "-i", "drop:", "udp", "tcp"], "one filter"),
        (
            &["stat", "-i", "drop:", "--mode", "steal", "udp"],
            "cannot steal",
        ),
        (&["dump", "-i", "drop:", "udp and and"], "unexpected"),
    ] {
        let output = Command::new(RINGTAP)
            .args(arguments)
            .output()
            .expect("ringtap runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_ne!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

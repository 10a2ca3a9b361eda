//! `ringtap explain-loss`: losses that are caused on purpose are found at their layer, one by one.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, ExitCode};
use std::time::Duration;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, suite, test};
use serde_json::Value;

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let root = &[Need::Root];
    suite(vec![
        test("a_port_without_socket_is_found", root, no_port),
        test("a_full_socket_is_found_with_its_process", root, full_socket),
        test("a_wrong_checksum_is_found", root, checksum),
        test("a_sender_without_route_is_found", root, reverse_path),
        test("a_program_at_xdp_is_found", root, xdp),
        test(
            "a_full_scheduler_is_found",
            &[Need::Root, Need::Tool("tc")],
            scheduler,
        ),
        test("nothing_lost_is_said", root, nothing),
        test("wrong_use_is_refused", &[], wrong_use),
    ])
}

/// Starts the command on a side, and waits until it has read the counters for the first time.
fn start(side: &Side, arguments: &[&str]) -> Running {
    let mut command = side.namespace.command(RINGTAP);
    command
        .args(["explain-loss", "--interval", "1m"])
        .args(arguments);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    let told = running.wait_until_told("counters", LIMIT);
    told.expect("the first reading");
    running
}

/// Ends the interval; returns the output.
fn finish(running: Running) -> String {
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns what the command finds while `work` runs.
fn losses_of(side: &Side, work: impl FnOnce()) -> Value {
    let running = start(side, &["--json"]);
    work();
    serde_json::from_str(&finish(running)).expect("JSON")
}

/// Returns how often a counter of a layer counted.
fn lost(report: &Value, layer: &str, counter: &str) -> u64 {
    let losses = report["losses"].as_array().expect("losses").iter();
    let of_layer = losses.filter(|loss| loss["layer"] == layer);
    let mut found = of_layer.filter(|loss| loss["counter"].as_str() == Some(counter));
    found
        .next()
        .map_or(0, |loss| loss["lost"].as_u64().unwrap_or(0))
}

/// Sends datagrams from the left to a port of the right end.
fn send(pair: &VethPair, port: u16, count: usize) {
    let to = SocketAddr::from((pair.right.ipv4, port));
    pair.left.run(|| {
        let socket = UdpSocket::bind((pair.left.ipv4, 0)).expect("a socket");
        for _ in 0..count {
            socket.send_to(&[0; 500], to).expect("sent");
        }
    });
}

/// Sends packets that are built from a description.
fn send_built(pair: &VethPair, count: usize, layers: &str) {
    let mac = pair.right.mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut command = pair.left.namespace.command(RINGTAP);
    command.args(["send", "-i", &pair.left.device, "-c", &count.to_string()]);
    command.args(["--build", &format!("eth(dst={mac})/{layers}")]);
    let output = command.output().expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
}

fn no_port() {
    let pair = VethPair::new();
    let report = losses_of(&pair.right, || send(&pair, 9, 50));
    assert_eq!(lost(&report, "transport", "Udp NoPorts"), 50, "{report}");
    assert_eq!(lost(&report, "socket", "Udp RcvbufErrors"), 0, "{report}");
}

fn full_socket() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    let sent = 5000;
    let running = start(&pair.right, &["--json"]);
    send(&pair, 5000, sent);
    let report: Value = serde_json::from_str(&finish(running)).expect("JSON");
    socket.set_nonblocking(true).expect("a socket");
    let held = std::iter::from_fn(|| socket.recv(&mut [0; 512]).ok()).count();
    let full = lost(&report, "socket", "Udp RcvbufErrors");
    assert_eq!(full, (sent - held) as u64, "{report}");
    assert!(full > 0, "the buffer holds {sent} datagrams");
    let found = &report["sockets"][0];
    assert_eq!(found["local"], address.to_string(), "{report}");
    assert_eq!(found["lost"].as_u64(), Some(full), "{report}");
    assert_eq!(found["pid"].as_u64(), Some(std::process::id().into()));

    let running = start(&pair.right, &[]);
    send(&pair, 5000, sent);
    let text = finish(running);
    assert!(text.contains("udp 10.99.0.2:5000"), "{text}");
    let explained = "of UDP that found the receive buffer of their socket full\nwhat helps: the program reads more slowly";
    assert!(text.contains(explained), "{text}");
}

fn checksum() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let _socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    let (from, to) = (pair.left.ipv4, pair.right.ipv4);
    let layers =
        format!("ipv4(src={from},dst={to})/udp(dport=5000,checksum=0x1234)/\"a wrong checksum\"");
    let report = losses_of(&pair.right, || send_built(&pair, 7, &layers));
    assert_eq!(
        lost(&report, "transport", "Udp InCsumErrors"),
        7,
        "{report}"
    );
}

fn reverse_path() {
    let pair = VethPair::new();
    pair.right.run(|| {
        std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1")
            .expect("a setting of the namespace");
    });
    let to = pair.right.ipv4;
    let layers = format!("ipv4(src=203.0.113.5,dst={to})/udp(dport=9)/\"from nowhere\"");
    let report = losses_of(&pair.right, || send_built(&pair, 4, &layers));
    let found = lost(&report, "network", "TcpExt IPReversePathFilter");
    assert_eq!(found, 4, "{report}");
}

fn xdp() {
    let pair = VethPair::new();
    let mut thief = pair.right.namespace.command(RINGTAP);
    let device = format!("xdp:{}", pair.right.device);
    thief.args(["dump", "--mode", "steal", "-w", "/dev/null", "-i", &device]);
    let mut thief = Running::start_piped(&mut thief).expect("ringtap starts");
    thief
        .wait_until_capturing(&pair.right, LIMIT)
        .expect("a capture");
    let report = losses_of(&pair.right, || send(&pair, 9, 30));
    let dropped = lost(&report, "xdp", "rx_queue_0_xdp_drops");
    assert!(dropped >= 30, "{report}");
    assert_eq!(lost(&report, "transport", "Udp NoPorts"), 0, "{report}");
}

fn scheduler() {
    let pair = VethPair::new();
    let left = &pair.left;
    let limit = ["rate", "8kbit", "burst", "1600", "limit", "1600"];
    let mut words = vec!["qdisc", "add", "dev", &left.device, "root", "tbf"];
    words.extend(limit);
    left.namespace.output("tc", &words);
    let running = start(left, &["-i", &left.device, "--json"]);
    send(&pair, 9, 40);
    let report: Value = serde_json::from_str(&finish(running)).expect("JSON");
    let output = left
        .namespace
        .output("tc", &["-s", "qdisc", "show", "dev", &left.device]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let dropped = lost(&report, "qdisc", "tbf");
    assert!(dropped > 20, "{report}");
    assert!(
        shown.contains(&format!("(dropped {dropped},")),
        "{dropped}: {shown}"
    );
}

fn nothing() {
    let pair = VethPair::new();
    let text = finish(start(&pair.right, &["-i", &pair.right.device]));
    assert!(text.ends_with("no packet was lost\n"), "{text}");
    for layer in ["adapter", "softnet", "netfilter", "socket"] {
        let line = text.lines().find(|line| line.starts_with(layer));
        assert!(line.is_some_and(|line| line.ends_with(" -")), "{text}");
    }
}

fn wrong_use() {
    for (arguments, status, text) in [
        (&["-i", "nosuch0"][..], 1, "no such device: \"nosuch0\""),
        (&["--interval", "never"][..], 2, "--interval"),
    ] {
        let mut command = Command::new(RINGTAP);
        command.arg("explain-loss").args(arguments);
        let output = command.output().expect("ringtap runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(text), "{said}");
    }
}

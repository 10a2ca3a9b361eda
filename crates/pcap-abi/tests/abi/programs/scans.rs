//! Scanners: they send by one function of the library and receive answers by another.

use std::net::TcpListener;

use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::{Need, Test, test};

use super::stage::{Stage, lines, same, sorted};

/// The port of the scanned host that is open.
const OPEN: u16 = 8080;

pub(super) fn tests() -> Vec<Test> {
    vec![
        scan("nmap_scans_by_syn", "nmap", nmap),
        scan("masscan_scans", "masscan", masscan),
        scan("arp_scan_finds_hosts", "arp-scan", arp_scan),
    ]
}

fn scan(name: &str, program: &'static str, scenario: fn(&Stage) -> String) -> Test {
    let needs = [Need::Root, Need::Tool(program)];
    test(format!("programs::{name}"), &needs, move || same(scenario))
}

/// Returns a pair whose right side listens on [`OPEN`], and the listener.
fn scanned() -> (VethPair, TcpListener) {
    let options = VethOptions {
        static_neighbours: false,
        ..VethOptions::default()
    };
    let pair = VethPair::with(&options);
    let listener = pair.right.run(|| TcpListener::bind(("10.99.0.2", OPEN)));
    (pair, listener.expect("a listener"))
}

fn nmap(stage: &Stage) -> String {
    let (pair, _listener) = scanned();
    let mut command = stage.command_on(&pair.left, "nmap");
    command.args([
        "-sS",
        "-n",
        "-p",
        "8078-8082",
        "--reason",
        "-oG",
        "-",
        "10.99.0.2",
    ]);
    lines(&stage.stdout(&mut command), |line| {
        line.starts_with("Host:")
    })
}

fn masscan(stage: &Stage) -> String {
    let (pair, _listener) = scanned();
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join("-");
    let mut command = stage.command_on(&pair.left, "masscan");
    command.args(["10.99.0.2", "-p8078-8082", "--rate", "100", "--wait", "2"]);
    command.args([
        "--adapter",
        "veth0",
        "--adapter-ip",
        "10.99.0.1",
        "--seed",
        "1",
    ]);
    command.args([
        "--adapter-mac",
        &mac(pair.left.mac),
        "--router-mac",
        &mac(pair.right.mac),
    ]);
    command.args(["--output-format", "list", "--output-filename", "-"]);
    let found = lines(&stage.stdout(&mut command), |line| line.starts_with("open"));
    // The last column is the time.
    let parts = found
        .lines()
        .map(|line| line.split_whitespace().take(4).collect::<Vec<_>>());
    sorted(
        &parts
            .map(|parts| parts.join(" "))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn arp_scan(stage: &Stage) -> String {
    let (pair, _listener) = scanned();
    let mut command = stage.command_on(&pair.left, "arp-scan");
    command.args(["-I", "veth0", "-r", "2", "-t", "400", "10.99.0.0/29"]);
    let seen = stage.stdout(&mut command);
    lines(&seen, |line| !line.starts_with("Ending"))
}

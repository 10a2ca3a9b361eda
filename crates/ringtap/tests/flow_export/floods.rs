//! A collector between a good exporter and those that send whatever they like: real datagrams, of
//! addresses of the loopback network.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{LIMIT, RINGTAP, json_lines, number};
use crate::collectors::waiting;
use crate::transport::listening;

const GOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const BAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
/// Datagrams up to the collector's reads, so that its socket has room for all.
const BURST: usize = 50;
const REST: Duration = Duration::from_millis(2);

/// Waits until the collector on that port has taken all datagrams.
fn settle(port: u16) {
    let deadline = Instant::now() + LIMIT;
    while waiting(port).is_some_and(|bytes| bytes > 0) {
        assert!(Instant::now() < deadline, "it does not read");
        sleep(REST);
    }
}

/// A collector that runs.
pub(crate) struct Collector {
    running: Running,
    address: String,
    folder: tempfile::TempDir,
}

/// The result.
pub(crate) struct Collected {
    pub(crate) stats: Value,
    pub(crate) text: String,
    pub(crate) records: Vec<Value>,
}

impl Collector {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let notices = folder.path().join("notices");
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "--collect", "udp:127.0.0.1:0", "--top", "0"]);
        command.args(["--json-stats", "-w"]);
        command.arg(folder.path().join("records.json"));
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&notices).expect("a file"));
        let running = Running::start(&mut command).expect("ringtap starts");
        let address = listening(&notices);
        let address = address.strip_prefix("udp:").expect("UDP").to_owned();
        Self {
            running,
            address,
            folder,
        }
    }

    /// Returns a socket of an exporter with that address.
    pub(crate) fn exporter(&self, address: Ipv4Addr) -> UdpSocket {
        let socket = UdpSocket::bind((address, 0)).expect("an address of loopback");
        socket.connect(&self.address).expect("loopback");
        socket
    }

    pub(crate) fn end(self) -> Collected {
        let address: SocketAddr = self.address.parse().expect("an address");
        settle(address.port());
        self.running.signal("INT").expect("it runs");
        let output = self.running.wait(LIMIT).expect("it ends");
        assert!(output.status.success());
        let text = std::fs::read_to_string(self.folder.path().join("notices"));
        let text = text.expect("a file");
        let stats = text.lines().last();
        let stats: Value = serde_json::from_str(stats.expect("a line")).expect("an object");
        assert_eq!(number(&stats, "dropped"), 0, "{text}");
        Collected {
            records: json_lines(&self.folder.path().join("records.json")),
            stats,
            text,
        }
    }
}

/// Returns a message of NetFlow v9.
fn message(source: u32, set: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 9, 0, 1, 0, 0, 0, 9];
    bytes.extend(1_700_000_000_u32.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(source.to_be_bytes());
    bytes.extend(set.to_be_bytes());
    let length = u16::try_from(content.len() + 4).expect("short");
    bytes.extend(length.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// Returns template 256: source and destination address, packets.
fn template(source: u32) -> Vec<u8> {
    let fields = [0, 8, 0, 4, 0, 12, 0, 4, 0, 2, 0, 4];
    message(source, 0, &[&[1, 0, 0, 3][..], &fields].concat())
}

/// Returns a flow of this many packets by that template.
fn flow(source: u32, packets: u8) -> Vec<u8> {
    message(source, 256, &[10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, packets])
}

pub(crate) fn send(socket: &UdpSocket, number: usize, datagram: &[u8]) {
    socket.send(datagram).expect("loopback");
    if number % BURST == BURST - 1 {
        settle(socket.peer_addr().expect("it is connected").port());
    }
}

/// Returns the report on an exporter.
fn of<'a>(stats: &'a Value, exporter: &str) -> &'a Value {
    let list = stats["exporters"].as_array().expect("a list");
    let mut found = list.iter().filter(|one| one["exporter"] == exporter);
    found.next().expect("the exporter is listed")
}

/// 1,200 source ids of one address: that address loses its oldest, another one nothing.
pub(crate) fn ids() {
    let collector = Collector::start(&[]);
    let (good, bad) = (collector.exporter(GOOD), collector.exporter(BAD));
    send(&good, 0, &template(1));
    for id in 0..1_200 {
        send(&bad, id as usize, &template(id));
    }
    send(&good, 0, &flow(1, 7));
    let collected = collector.end();
    let stats = &collected.stats;
    assert_eq!(collected.records.len(), 1, "{}", collected.text);
    assert_eq!(collected.records[0]["exporter"], "127.0.0.9");
    assert_eq!(number(stats, "without_template"), 0);
    assert_eq!(number(stats, "sources_forgotten"), 1_200 - 512);
    assert_eq!(number(stats, "templates_forgotten"), 1_200 - 512);
    assert_eq!(number(of(stats, "127.0.0.8"), "sources_forgotten"), 688);
    assert_eq!(number(of(stats, "127.0.0.9"), "sources_forgotten"), 0);
    assert_eq!(number(of(stats, "127.0.0.9"), "records"), 1);
}

/// 6,000 addresses, more than are remembered; an address that has sent records is.
pub(crate) fn addresses() {
    let collector = Collector::start(&[]);
    let good = collector.exporter(GOOD);
    send(&good, 0, &template(1));
    send(&good, 0, &flow(1, 1));
    for number in 0..6_000_u16 {
        let [high, low] = number.to_be_bytes();
        let made_up = collector.exporter(Ipv4Addr::new(127, 1, high, low));
        send(&made_up, number.into(), &template(1));
    }
    send(&good, 0, &flow(1, 2));
    let collected = collector.end();
    let stats = &collected.stats;
    assert_eq!(collected.records.len(), 2, "{}", collected.text);
    assert_eq!(number(stats, "without_template"), 0);
    assert!(number(stats, "known_exporters") <= 4_096);
    let known = number(stats, "known_exporters") + number(stats, "exporters_forgotten");
    assert_eq!(known, 6_001);
    assert_eq!(stats["exporters"].as_array().expect("a list").len(), 100);
}

/// Datagrams of others than `--allow` names are counted, and nothing else.
pub(crate) fn allowed() {
    let collector = Collector::start(&["--allow", "127.0.0.9", "--allow", "127.0.1.0/24"]);
    let exporters = [GOOD, Ipv4Addr::new(127, 0, 1, 77), BAD];
    for address in exporters {
        let socket = collector.exporter(address);
        send(&socket, 0, &template(1));
        send(&socket, 0, &flow(1, 1));
    }
    let collected = collector.end();
    let stats = &collected.stats;
    assert_eq!(number(stats, "not_allowed"), 2);
    assert_eq!(number(stats, "datagrams"), 4);
    assert_eq!(number(stats, "known_exporters"), 2);
    let senders: Vec<_> = collected
        .records
        .iter()
        .map(|record| &record["exporter"])
        .collect();
    assert_eq!(senders, ["127.0.0.9", "127.0.1.77"]);
}

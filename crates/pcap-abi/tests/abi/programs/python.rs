//! Python's modules on the library: one by `ctypes`, one compiled.

use std::fs;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, test};

use super::stage::{Stage, same, sample, text};
use crate::library::LIMIT;

/// Debian's own interpreter, for which the packages are installed.
const PYTHON: &str = "/usr/bin/python3";

const SCAPY: &str = r#"
import sys
from scapy.all import *
conf.use_pcap = True
conf.verb = 0
print(sorted(i for i in get_if_list() if i in ("lo", "veth0")))
print("capturing", flush=True)
for packet in sniff(iface="veth0", filter="udp and greater 100", count=20, timeout=20):
    print(packet.summary(), len(packet))
sendp(Ether(dst="02:00:00:00:00:09") / IP(dst="10.99.0.2") / UDP() / b"hello", iface="veth0")
"#;

/// Ends with its timeout, although packets never stop arriving.
const SCAPY_TIMES_OUT: &str = r#"
import socket, threading, time
from scapy.all import *
conf.use_pcap = True
conf.verb = 0
to = Ether(src="02:00:00:00:00:08", dst="02:00:00:00:00:09") / IP(src="10.99.0.1", dst="10.99.0.2")
frame = bytes(to / ICMP() / b"hello")
done = threading.Event()
def send():
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("veth0", 0))
    while not done.is_set():
        sender.send(frame)
        time.sleep(0.01)
threading.Thread(target=send, daemon=True).start()
packets = sniff(iface="veth0", filter="icmp", timeout=2)
done.set()
print("returned", len(packets) > 10, all(bytes(packet) == frame for packet in packets))
"#;

const SCAPY_SENDS: &str = r#"
from scapy.all import *
conf.use_pcap = True
conf.verb = 0
to = Ether(src="02:00:00:00:00:08", dst="02:00:00:00:00:09") / IP(src="10.99.0.1", dst="10.99.0.2")
sendp(to / UDP(sport=7, dport=9) / b"hello", iface="veth0")
sendp([to / TCP(seq=number) / Raw(b"x" * number) for number in range(1, 40)], iface="veth0")
"#;
/// The number of packets that this script sends.
const SENT: usize = 40;

const PCAPY: &str = r#"
import sys
import pcapy
reader = pcapy.open_offline(sys.argv[1])
print(reader.datalink())
reader.setfilter("tcp port 80")
header, data = reader.next()
while header is not None:
    print(header.getts(), header.getcaplen(), header.getlen(), data[:60].hex())
    header, data = reader.next()
try:
    pcapy.open_offline("missing")
except pcapy.PcapError as error:
    print(error)
try:
    pcapy.open_live("no-such-device", 100, 0, 10)
except pcapy.PcapError as error:
    print(error)
live = pcapy.open_live("veth0", 65535, 1, 50)
print(live.datalink(), live.getnonblock())
live.setfilter("udp")
for number in range(20):
    header, data = live.next()
    while header is None:
        header, data = live.next()
    print(header.getlen(), data[:60].hex())
"#;

pub(super) fn tests() -> Vec<Test> {
    vec![
        module("scapy_captures", "scapy", |stage| live(stage, SCAPY, None)),
        module("scapy_sends", "scapy", scapy_sends),
        test(
            "programs::scapy_times_out",
            &[Need::Root, Need::PythonModule("scapy")],
            || same(scapy_times_out),
        ),
        module("pcapy_captures", "pcapy", |stage| {
            live(stage, PCAPY, Some("ndpi/http_auth.pcap"))
        }),
    ]
}

fn module(name: &str, module: &'static str, scenario: fn(&Stage) -> String) -> Test {
    let needs = [
        Need::Root,
        Need::Corpus,
        Need::Tool("tcpreplay"),
        Need::PythonModule(module),
    ];
    test(format!("programs::{name}"), &needs, move || same(scenario))
}

fn scapy_times_out(stage: &Stage) -> String {
    let pair = VethPair::new();
    fs::write(stage.path("times_out.py"), SCAPY_TIMES_OUT).expect("a script");
    let mut command = stage.command_on(&pair.left, PYTHON);
    stage.stdout(command.arg("times_out.py"))
}

/// Returns the packets that arrive, captured by Debian's tcpdump.
fn scapy_sends(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut watcher = pair.right.namespace.command("tcpdump");
    watcher.args([
        "-i",
        "veth1",
        "-nn",
        "-t",
        "-e",
        "-xx",
        "-c",
        &SENT.to_string(),
    ]);
    watcher.env_remove("LD_LIBRARY_PATH");
    let mut watcher = Running::start_piped(&mut watcher).expect("tcpdump starts");
    let ready = watcher.wait_until_capturing(&pair.right, LIMIT);
    ready.expect("tcpdump captures");
    fs::write(stage.path("sends.py"), SCAPY_SENDS).expect("a script");
    let mut command = stage.command_on(&pair.left, PYTHON);
    stage.stdout(command.arg("sends.py"));
    let seen = text(&watcher.wait(LIMIT).expect("tcpdump ends").stdout);
    let packets = seen
        .lines()
        .filter(|line| line.starts_with("02:00:00:00:00:08 >"));
    assert_eq!(packets.count(), SENT, "{seen}");
    seen
}

fn live(stage: &Stage, script: &str, file: Option<&str>) -> String {
    let pair = VethPair::new();
    fs::write(stage.path("script.py"), script).expect("a script");
    let mut command = stage.command_on(&pair.left, PYTHON);
    command.arg("script.py").args(file.map(sample));
    let output = stage.capture(&pair, &mut command);
    text(&output.stdout)
}

//! A capture with flows of every kind, and the probe run on it.

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use etherparse::PacketBuilder;
use ringtap_testkit::pcap;
use ringtap_testkit::process::Running;
use serde_json::Value;

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const CLIENT4: [u8; 4] = [192, 0, 2, 1];
const SERVER4: [u8; 4] = [198, 51, 100, 2];
const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const SERVER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// A request whose text has what formats must escape: quotes, an invisible character that turns the direction of
/// text, a byte that is not UTF-8, a backslash.
const REQUEST: &[u8] =
    b"GET /a?b=\"c,d\" HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: x\xe2\x80\xae\xff\\\r\n\r\n";
/// Enough for several messages.
const UDP_FLOWS: u16 = 300;

/// A file in a folder of its own.
pub(crate) struct Capture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

/// Writes the capture.
pub(crate) fn capture() -> Capture {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.pcap");
    let mut frames = Vec::new();
    connection(&mut frames);
    echoes(&mut frames);
    tagged(&mut frames);
    for flow in 0..UDP_FLOWS {
        for packet in 0..=flow % 3 {
            let length = usize::from(20 + flow + packet);
            frames.push(udp4(50_000 + flow, 53, length));
        }
        if flow % 4 == 0 {
            frames.push(udp6(50_000 + flow, 53, 30));
        }
    }
    pcap::write(&path, frames).expect("a file");
    Capture { folder, path }
}

/// A connection of TCP from the handshake to its end.
fn connection(frames: &mut Vec<Vec<u8>>) {
    let client = || {
        PacketBuilder::ethernet2(CLIENT, SERVER)
            .ipv4(CLIENT4, SERVER4, 64)
            .tcp(40_000, 443, 100, 1000)
    };
    let server = || {
        PacketBuilder::ethernet2(SERVER, CLIENT)
            .ipv4(SERVER4, CLIENT4, 60)
            .tcp(443, 40_000, 900, 1000)
    };
    let mut send = |builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>, data: &[u8]| {
        frames.push(built(|bytes| builder.write(bytes, data)));
    };
    let mut request = REQUEST.to_vec();
    request.resize(300, 0);
    let mut push = |builder, length| send(builder, &vec![0; length]);
    push(client().syn(), 0);
    push(server().syn().ack(101), 0);
    push(client().ack(901), 0);
    send(client().ack(901).psh(), &request);
    let mut push = |builder, length| send(builder, &vec![0; length]);
    push(server().ack(401).psh(), 1400);
    push(server().ack(401).fin(), 0);
    push(client().ack(2302).fin(), 0);
}

fn echoes(frames: &mut Vec<Vec<u8>>) {
    for sequence in 0..3 {
        let request = PacketBuilder::ethernet2(CLIENT, SERVER)
            .ipv4(CLIENT4, SERVER4, 64)
            .icmpv4_echo_request(7, sequence);
        frames.push(built(|bytes| request.write(bytes, &[0; 56])));
        let reply = PacketBuilder::ethernet2(SERVER, CLIENT)
            .ipv4(SERVER4, CLIENT4, 64)
            .icmpv4_echo_reply(7, sequence);
        frames.push(built(|bytes| reply.write(bytes, &[0; 56])));
        let request = PacketBuilder::ethernet2(CLIENT, SERVER)
            .ipv6(CLIENT6, SERVER6, 64)
            .icmpv6_echo_request(7, sequence);
        frames.push(built(|bytes| request.write(bytes, &[0; 56])));
    }
}

fn tagged(frames: &mut Vec<Vec<u8>>) {
    let vlan = |id: u16| etherparse::VlanId::try_new(id).expect("a VLAN");
    let single = PacketBuilder::ethernet2(CLIENT, SERVER)
        .single_vlan(vlan(100))
        .ipv4(CLIENT4, SERVER4, 64)
        .udp(1000, 2000);
    frames.push(built(|bytes| single.write(bytes, &[0; 40])));
    let double = PacketBuilder::ethernet2(CLIENT, SERVER)
        .double_vlan(vlan(200), vlan(300))
        .ipv4(CLIENT4, SERVER4, 64)
        .udp(1001, 2001);
    frames.push(built(|bytes| double.write(bytes, &[0; 40])));
}

fn udp4(source: u16, destination: u16, length: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(CLIENT, SERVER)
        .ipv4(CLIENT4, SERVER4, 64)
        .udp(source, destination);
    built(|bytes| builder.write(bytes, &vec![0; length]))
}

fn udp6(source: u16, destination: u16, length: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(CLIENT, SERVER)
        .ipv6(CLIENT6, SERVER6, 64)
        .udp(source, destination);
    built(|bytes| builder.write(bytes, &vec![0; length]))
}

fn built<E: std::fmt::Debug>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("a packet");
    bytes
}

/// Returns a port that nobody uses, outside of the kernel's ephemeral range; each is returned once.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(37);
    loop {
        let number = own.wrapping_add(TOLD.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).expect("a port");
        let address = ("127.0.0.1", port);
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return port;
        }
    }
}

/// The output of a run of the probe.
pub(crate) struct Probed {
    /// The records of `-w FILE.json`.
    pub(crate) records: Vec<Value>,
    /// The object of `--json-stats`.
    pub(crate) stats: Value,
    pub(crate) notices: String,
}

/// Runs the probe on the capture.
pub(crate) fn probe(capture: &Capture, arguments: &[&str]) -> Probed {
    let json = capture.folder.path().join("records.json");
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "--top", "0", "--json-stats", "-r"]);
    command
        .arg(&capture.path)
        .arg("-w")
        .arg(&json)
        .args(arguments);
    let running = Running::start_piped(&mut command).expect("ringtap starts");
    let output = running.wait(LIMIT).expect("it ends");
    let notices = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notices}");
    assert!(output.stdout.is_empty(), "no tables were asked for");
    let stats = notices.lines().last().expect("statistics");
    Probed {
        records: json_lines(&json),
        stats: serde_json::from_str(stats).expect("an object"),
        notices,
    }
}

/// Returns the objects of a file, one a line.
pub(crate) fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a file");
    let object = |line| serde_json::from_str(line).expect("an object");
    text.lines().map(object).collect()
}

/// Returns a number of a record, 0 if there is none.
pub(crate) fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or(0)
}

/// Returns a text of a record, empty if there is none.
pub(crate) fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or("")
}

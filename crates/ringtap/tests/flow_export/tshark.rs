//! tshark decodes every message and reports its errors.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use etherparse::PacketBuilder;
use ringtap_testkit::pcap;
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{LIMIT, capture, number, probe, text};
use crate::collectors::Case;
use crate::transport::accept;

/// The port that tshark takes for one of collectors.
const PORT: u16 = 2055;

/// The datagrams of a run.
pub(crate) fn datagrams(case: &Case) {
    let capture = capture();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let timeout = Some(Duration::from_millis(200));
    socket.set_read_timeout(timeout).expect("a socket");
    let address = format!("udp:{}", socket.local_addr().expect("an address"));
    let arguments = [case.arguments, &["--export", &address]].concat();
    let probed = probe(&capture, &arguments);
    let mut frames = Vec::new();
    let mut datagram = vec![0; 65_535];
    while let Ok(length) = socket.recv(&mut datagram) {
        let frame = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
            .udp(40_000, PORT);
        let mut bytes = Vec::new();
        frame
            .write(&mut bytes, &datagram[..length])
            .expect("a packet");
        assert!(bytes.len() <= 1514, "it fits an Ethernet frame");
        frames.push(bytes);
    }
    let messages = number(&probed.stats["exports"][0], "messages");
    assert_eq!(frames.len() as u64, messages, "all came");
    let file = capture.folder.path().join("export.pcap");
    pcap::write(&file, &frames).expect("a file");
    without_complaint(&file);
    if case.arguments.contains(&"--fields") {
        names(&file);
    }
    let records = probed.records.iter();
    let expressible = records.filter(|record| case.ipv6 || !text(record, "src").contains(':'));
    assert_eq!(counters(&file), told(expressible));
}

/// Returns packets and bytes of the records' flows in both directions, sorted.
fn told<'r>(records: impl Iterator<Item = &'r Value>) -> Vec<(u64, u64)> {
    let mut expected: Vec<_> = records
        .flat_map(|record| {
            let forward = (number(record, "packets"), number(record, "bytes"));
            let reverse = (
                number(record, "reverse_packets"),
                number(record, "reverse_bytes"),
            );
            [forward, reverse]
        })
        .filter(|&(packets, _)| packets > 0)
        .collect();
    expected.sort_unstable();
    expected
}

/// The bytes of a connection are an IPFIX file with all records.
pub(crate) fn connection() {
    let capture = capture();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = format!("tcp:{}", listener.local_addr().expect("an address"));
    let collector = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = accept(&listener).read_to_end(&mut bytes);
        read.map(|_| bytes)
    });
    let probed = probe(&capture, &["--biflow", "--export", &address]);
    let bytes = collector.join().expect("a collector").expect("its bytes");
    let export = &probed.stats["exports"][0];
    assert_eq!(number(export, "bytes"), bytes.len() as u64);
    assert_eq!(number(export, "flows"), probed.records.len() as u64);
    let file = capture.folder.path().join("connection.ipfix");
    std::fs::write(&file, bytes).expect("a file");
    without_complaint(&file);
    assert_eq!(counters(&file), told(probed.records.iter()));
}

/// A file of IPFIX.
pub(crate) fn file() {
    let capture = capture();
    let file = capture.folder.path().join("flows.ipfix");
    let name = file.to_str().expect("a name");
    let probed = probe(&capture, &["--biflow", "--tcp", "--nano", "-w", name]);
    without_complaint(&file);
    let told = counters(&file);
    let packets: u64 = told.iter().map(|&(packets, _)| packets).sum();
    let of = |record: &Value| number(record, "packets") + number(record, "reverse_packets");
    assert_eq!(packets, probed.records.iter().map(of).sum::<u64>());
    assert_eq!(probed.stats["files"][1]["file"], name);
}

/// The templates have the user's enterprise number for elements that are registered nowhere else, and no other number.
pub(crate) fn enterprise() {
    let capture = capture();
    let file = capture.folder.path().join("flows.ipfix");
    let name = file.to_str().expect("a name");
    let enterprises = |options: &[&str]| {
        let mut arguments = vec!["--biflow", "--fields", "all", "-w", name];
        arguments.extend(options);
        probe(&capture, &arguments);
        let text = tshark(
            &file,
            &["-T", "fields", "-e", "cflow.template_ipfix_field_pen"],
        );
        let numbers = text.split([',', '\t', '\n']).filter(|it| !it.is_empty());
        numbers.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let set = |own: &str| ["29305", "35632", own].map(str::to_owned).into();
    assert_eq!(enterprises(&[]), set("32473"));
    assert_eq!(enterprises(&["--enterprise", "54321"]), set("54321"));
}

/// Texts are decoded, each in the element that is registered for it.
fn names(file: &Path) {
    let expected = [
        ("cflow.http_request_host", "www.example.org"),
        ("cflow.http_request_method", "GET"),
        ("cflow.http_request_target", "/a?b=\"c,d\""),
        ("cflow.http_user_agent", "x\\u{202e}\\xff\\\\"),
        ("cflow.pie.ntop.flow_server_name", "www.example.org"),
        ("cflow.appl_name", "http"),
    ];
    for (field, text) in expected {
        let found = tshark(file, &["-T", "fields", "-E", "aggregator=/s", "-e", field]);
        // Newer versions escape backslashes once more.
        let unescaped = found.replace("\\\\", "\\");
        let has_it = found.contains(text) || unescaped.contains(text);
        assert!(has_it, "{field}: {text} is not in {found}");
    }
}

pub(crate) fn tshark(file: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("tshark");
    let decode = format!("udp.port=={PORT},cflow");
    command
        .arg("-r")
        .arg(file)
        .args(["-d", &decode])
        .args(arguments);
    let output = Running::start_piped(&mut command).expect("tshark starts");
    let output = output.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Nothing is malformed or remarked upon, each message is one of flows, and each template is known.
pub(crate) fn without_complaint(file: &Path) {
    let complaints = tshark(file, &["-Y", "_ws.expert || _ws.malformed || !cflow"]);
    assert_eq!(complaints, "");
    let details = tshark(file, &["-V"]);
    let unknown = details
        .lines()
        .filter(|line| line.contains("no template") || line.contains("Unknown"));
    assert_eq!(unknown.count(), 0);
}

/// Returns packets and bytes of all flows and directions, sorted.
fn counters(file: &Path) -> Vec<(u64, u64)> {
    let fields = ["-T", "fields", "-e", "cflow.packets", "-e", "cflow.octets"];
    let text = tshark(file, &fields);
    let mut counters = Vec::new();
    for line in text.lines() {
        let mut columns = line.split('\t').map(|column| {
            let numbers = column.split(',').filter(|number| !number.is_empty());
            numbers
                .map(|number| number.parse::<u64>().expect("a number"))
                .collect::<Vec<_>>()
        });
        let mut next = || columns.next().unwrap_or_default();
        let (packets, bytes) = (next(), next());
        assert_eq!(packets.len(), bytes.len());
        counters.extend(packets.into_iter().zip(bytes));
    }
    counters.sort_unstable();
    counters
}

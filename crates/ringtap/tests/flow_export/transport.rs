//! The ways to collectors: losses on them, and repeats.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{LIMIT, Probed, RINGTAP, capture, free_port, json_lines, number, probe};

/// Returns the report of a run on its first collector.
fn export(probed: &Probed) -> &Value {
    &probed.stats["exports"][0]
}

/// Nothing listens: the run continues, and every record is counted as lost.
pub(crate) fn down() {
    let capture = capture();
    for version in ["5", "9", "ipfix"] {
        let address = format!("udp:127.0.0.1:{}", free_port());
        let probed = probe(&capture, &["--version", version, "--export", &address]);
        let export = export(&probed);
        assert_eq!(number(export, "flows"), 0);
        assert_eq!(number(export, "messages"), 0);
        let not_expressible = number(export, "not_expressible");
        let lost = number(export, "lost_flows");
        assert_eq!(lost + not_expressible, probed.records.len() as u64);
        assert_eq!(not_expressible > 0, version == "5", "flows of IPv6");
        let told = probed.notices.matches("connection refused").count();
        assert_eq!(told, 1, "it is said once: {}", probed.notices);
    }
}

/// ringtap collects what ringtap exports.
pub(crate) fn collected() {
    for version in ["5", "9", "ipfix"] {
        let capture = capture();
        let json = capture.folder.path().join("collected.json");
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "--collect", "udp:127.0.0.1:0", "--top", "5"]);
        command.args(["--json-stats", "-w"]).arg(&json);
        // A notice has the port, and a file keeps it until the end.
        let notices = capture.folder.path().join("notices");
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::fs::File::create(&notices).expect("a file"));
        let collector = Running::start(&mut command).expect("ringtap starts");
        let address = listening(&notices);
        let arguments = ["--version", version, "--domain", "9", "--export", &address];
        let probed = probe(&capture, &arguments);
        // Datagrams in the socket are taken after the signal, too.
        collector.signal("INT").expect("it runs");
        let output = collector.wait(LIMIT).expect("it ends");
        assert!(output.status.success());
        let tables = String::from_utf8_lossy(&output.stdout);
        assert!(tables.contains("hosts by bytes"), "{tables}");
        let notices = std::fs::read_to_string(&notices).expect("a file");
        let stats: Value = notices
            .lines()
            .last()
            .and_then(|line| serde_json::from_str(line).ok())
            .expect("statistics");
        for loss in ["malformed", "without_template", "dropped", "not_flows"] {
            assert_eq!(number(&stats, loss), 0, "{loss}");
        }
        assert_eq!(
            number(&stats, "datagrams"),
            number(export(&probed), "messages")
        );
        let expressible = |record: &&Value| {
            version != "5" || record["src"].as_str().is_some_and(|a| !a.contains(':'))
        };
        let sent: Vec<_> = probed.records.iter().filter(expressible).collect();
        let collected = json_lines(&json);
        assert_eq!(collected.len(), sent.len());
        for (sent, collected) in sent.iter().zip(&collected) {
            for key in [
                "src",
                "dst",
                "src_port",
                "dst_port",
                "protocol",
                "icmp_type",
                "packets",
                "bytes",
            ] {
                assert_eq!(sent[key], collected[key], "{key}");
            }
            assert_eq!(collected["domain"], 9);
            assert_eq!(collected["exporter"], "127.0.0.1");
        }
    }
}

/// Returns the address that a collector reports.
pub(crate) fn listening(notices: &std::path::Path) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(notices).unwrap_or_default();
        let told = text
            .lines()
            .find_map(|line| line.strip_prefix("ringtap: collecting on "));
        if let Some(address) = told
            && text.ends_with('\n')
        {
            return address.to_owned();
        }
        assert!(Instant::now() < deadline, "it does not listen: {text}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns the set numbers of the messages that a connection brings to its end, and the first sequence
/// number.
fn session(mut stream: TcpStream) -> (Vec<u16>, u32, usize) {
    let mut bytes = Vec::new();
    // The other side may be cut off.
    let _ = stream.read_to_end(&mut bytes);
    let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let mut sets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        assert_eq!(number(at), 10, "a message of IPFIX begins here");
        sets.push(number(at + 16));
        at += usize::from(number(at + 2));
    }
    assert_eq!(at, bytes.len(), "messages are whole");
    let sequence = bytes.get(8..12).map_or(0, |bytes| {
        u32::from_be_bytes(bytes.try_into().expect("four"))
    });
    (sets, sequence, bytes.len())
}

/// Returns the next connection, if it comes in time.
pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let deadline = Instant::now() + LIMIT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket");
                return stream;
            }
            Err(error) => assert!(Instant::now() < deadline, "no connection: {error}"),
        }
        sleep(Duration::from_millis(5));
    }
}

/// A collector that goes away and comes back gets templates first, and numbers from 0.
pub(crate) fn reconnects() {
    let capture = capture();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = format!("tcp:{}", listener.local_addr().expect("an address"));
    // Standard input, so that the probe runs until it is closed.
    let mut command = Command::new(RINGTAP);
    command.args([
        "flow",
        "--top",
        "0",
        "--json-stats",
        "--export",
        &address,
        "-r",
        "-",
    ]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("ringtap starts");
    let mut input = child.stdin.take().expect("a pipe");
    let running = Running::watch(child);
    let packets = std::fs::read(&capture.path).expect("a file");
    let half = packets.len() / 2;
    // A connection is made when the file's beginning was read.
    std::io::Write::write_all(&mut input, &packets[..half]).expect("it reads");
    drop(accept(&listener));
    let second = thread::spawn(move || session(accept(&listener)));
    std::io::Write::write_all(&mut input, &packets[half..]).expect("it reads");
    drop(input);
    let output = running.wait(LIMIT).expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let stats: Value =
        serde_json::from_str(text.lines().last().expect("statistics")).expect("an object");
    let export = &stats["exports"][0];
    assert_eq!(number(export, "connections"), 2, "{text}");
    let (sets, sequence, _) = second.join().expect("a session");
    assert_eq!(sets[0], 2, "templates come first");
    assert_eq!(sequence, 0);
    let records = number(&stats["records"], "total");
    assert_eq!(
        number(export, "flows") + number(export, "lost_flows"),
        records
    );
}

/// Nobody takes the connection: all records are counted as lost, and the run ends.
pub(crate) fn tcp_down() {
    let capture = capture();
    let address = format!("tcp:127.0.0.1:{}", free_port());
    let probed = probe(&capture, &["--export", &address]);
    let export = export(&probed);
    assert_eq!(number(export, "lost_flows"), probed.records.len() as u64);
    assert_eq!(number(export, "flows"), 0);
    assert_eq!(export["connections"], 0);
}

//! Other collectors: each gets the probe's records of one capture, and must report its flows.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ringtap_testkit::need::find_tool;
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{Capture, LIMIT, capture, free_port, json_lines, number, probe, text};

/// How the probe is asked to export.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// The factor of counters.
    pub(crate) sampling: u64,
    /// Whether flows of IPv6 can be expressed.
    pub(crate) ipv6: bool,
}

const PLAIN: Case = Case {
    name: "in_v9",
    arguments: &["--version", "9"],
    sampling: 1,
    ipv6: true,
};

pub(crate) const CASES: [Case; 8] = [
    PLAIN,
    Case {
        name: "in_v5",
        arguments: &["--version", "5"],
        ipv6: false,
        ..PLAIN
    },
    Case {
        name: "in_v5_sampled",
        arguments: &["--version", "5", "--sample", "every:3"],
        sampling: 3,
        ipv6: false,
    },
    Case {
        name: "in_v9_sampled",
        arguments: &["--version", "9", "--sample", "every:3"],
        sampling: 3,
        ..PLAIN
    },
    Case {
        name: "in_ipfix_sampled",
        arguments: &["--sample", "every:3", "--nano"],
        sampling: 3,
        ..PLAIN
    },
    Case {
        name: "in_ipfix_both_ways",
        arguments: &["--biflow", "--tcp"],
        ..PLAIN
    },
    Case {
        name: "in_v9_with_all_fields",
        arguments: &["--version", "9", "--fields", "all"],
        ..PLAIN
    },
    Case {
        name: "in_ipfix_with_all_fields",
        arguments: &["--biflow", "--fields", "all"],
        ..PLAIN
    },
];

/// A flow in the fields that all collectors report: addresses, ports, protocol; times in milliseconds if they
/// are that precise.
type Flows = BTreeMap<String, Totals>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    packets: u64,
    bytes: u64,
    reverse_packets: u64,
    reverse_bytes: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.reverse_packets += other.reverse_packets;
        self.reverse_bytes += other.reverse_bytes;
    }
}

/// The identity of a flow.
struct Key<'a> {
    source: &'a str,
    destination: &'a str,
    ports: (u64, u64),
    protocol: String,
    /// VLAN, link-layer addresses, times: the fields that this collector reports.
    more: String,
}

impl Key<'_> {
    fn text(self) -> String {
        let (source, destination) = self.ports;
        format!(
            "{} {}:{source} > {}:{destination} {}",
            self.protocol, self.source, self.destination, self.more
        )
    }
}

/// Returns the flows that the probe itself wrote, as a collector should report them.
pub(crate) fn expected(records: &[Value], case: &Case, more: impl Fn(&Value) -> String) -> Flows {
    let mut flows = Flows::new();
    for record in records {
        if !case.ipv6 && text(record, "src").contains(':') {
            continue;
        }
        let icmp = number(record, "icmp_type") * 256 + number(record, "icmp_code");
        let key = Key {
            source: text(record, "src"),
            destination: text(record, "dst"),
            // Type and code are in the field of the destination port.
            ports: (
                number(record, "src_port"),
                number(record, "dst_port") + icmp,
            ),
            protocol: number(record, "protocol").to_string(),
            more: more(record),
        };
        let scaled = |name| number(record, name) * case.sampling;
        flows.entry(key.text()).or_default().add(Totals {
            packets: scaled("packets"),
            bytes: scaled("bytes"),
            reverse_packets: scaled("reverse_packets"),
            reverse_bytes: scaled("reverse_bytes"),
        });
    }
    assert!(flows.len() > 100, "a capture with many flows");
    flows
}

/// A running collector, and its address.
pub(crate) struct Collector {
    running: Running,
    port: u16,
}

impl Collector {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = free_port();
        let running = Running::start_piped(&mut command(port));
        let mut running = running.expect("it is installed");
        let deadline = Instant::now() + LIMIT;
        while waiting(port).is_none() {
            assert!(!running.has_ended(), "{:?}", running.wait(LIMIT));
            assert!(Instant::now() < deadline, "it does not listen");
            sleep(Duration::from_millis(5));
        }
        Self { running, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn address(&self) -> String {
        format!("udp:127.0.0.1:{}", self.port)
    }

    /// Waits until it has taken all datagrams that came.
    pub(crate) fn settle(&self) {
        let deadline = Instant::now() + LIMIT;
        while waiting(self.port).is_some_and(|bytes| bytes > 0) {
            assert!(Instant::now() < deadline, "it does not read");
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn end(self, signal: &str) -> Output {
        self.running.signal(signal).expect("it runs");
        self.running.wait(LIMIT).expect("it ends")
    }
}

/// Returns the bytes that wait at the socket of a local port (`/proc/net/udp`, the second half of the fifth
/// column). `None` while nothing listens.
pub(crate) fn waiting(port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").expect("proc(5)");
    let port = format!(":{port:04X}");
    let line = table.lines().find(|line| {
        let local = line.split_whitespace().nth(1);
        local.is_some_and(|local| local.ends_with(&port))
    })?;
    let (_, waiting) = line.split_whitespace().nth(4)?.split_once(':')?;
    u64::from_str_radix(waiting, 16).ok()
}

pub(crate) fn tool(name: &str) -> Command {
    Command::new(find_tool(name).expect("a need of the test"))
}

fn export_to(collector: &Collector, capture: &Capture, case: &Case) -> Vec<Value> {
    let address = collector.address();
    let arguments = [case.arguments, &["--export", &address]].concat();
    let probed = probe(capture, &arguments);
    let export = &probed.stats["exports"][0];
    assert_eq!(number(export, "lost_messages"), 0, "{export}");
    probed.records
}

/// Checks nfcapd and nfdump: nothing skipped, no gap in the sequence, the same flows.
pub(crate) fn nfdump(case: &Case) {
    let capture = capture();
    let folder = capture.folder.path().join("nfcapd");
    std::fs::create_dir(&folder).expect("a folder");
    let collector = Collector::start(|port| {
        let mut command = tool("nfcapd");
        command.args([
            "-b",
            "127.0.0.1",
            "-C",
            "none",
            "-B",
            "4000000",
            "-t",
            "3600",
        ]);
        command.args(["-p", &port.to_string(), "-w"]).arg(&folder);
        command
    });
    let records = export_to(&collector, &capture, case);
    collector.settle();
    let log = collector.end("TERM");
    let log =
        String::from_utf8_lossy(&log.stdout).into_owned() + &String::from_utf8_lossy(&log.stderr);
    let log = log.lines().filter(|line| !line.contains("SO_RCVBUF"));
    let log: Vec<_> = log.collect();
    let totals = log.iter().find(|line| line.starts_with("Ident:"));
    let totals = totals.expect("totals at the end");
    // nfdump 1.7.5 adds the number of blocks.
    assert!(
        totals.contains("Sequence Errors: 0, Bad Packets: 0"),
        "{totals}"
    );
    for line in &log {
        let told = line.to_lowercase();
        let complaint = [
            "unknown",
            "skip",
            "not enough",
            "size error",
            "length error",
        ];
        assert!(!complaint.iter().any(|word| told.contains(word)), "{line}");
    }
    let reported = nfdump_flows(&folder);
    let more = |record: &Value| {
        if case.name.contains("v5") {
            return nfdump_more(record, 0, "", "");
        }
        let (source, destination) = (text(record, "src_mac"), text(record, "dst_mac"));
        nfdump_more(record, number(record, "vlan"), source, destination)
    };
    assert_same(&expected(&records, case, more), &reported);
}

/// Times to the millisecond, and what of the link layer NetFlow v5 does not have.
fn nfdump_more(record: &Value, vlan: u64, source: &str, destination: &str) -> String {
    // 2023-11-14T22:13:20.000
    let millis = |key| text(record, key).chars().take(23).collect::<String>();
    let (first, last) = (millis("first"), millis("last"));
    format!("{first} {last} {vlan} {source} {destination}")
}

/// Returns nfdump's output for the files of a folder.
pub(crate) fn nfdump_records(folder: &Path) -> Vec<Value> {
    let mut nfdump = tool("nfdump");
    nfdump
        .env("TZ", "UTC")
        .arg("-R")
        .arg(folder)
        .args(["-o", "json"]);
    let output = Running::start_piped(&mut nfdump).expect("nfdump starts");
    let output = output.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("a list")
}

/// Returns the flows in the files of nfcapd.
fn nfdump_flows(folder: &Path) -> Flows {
    let mut flows = Flows::new();
    for record in &nfdump_records(folder) {
        let address = |four: &'static str, six: &'static str| {
            let four = text(record, four);
            if four.is_empty() {
                text(record, six)
            } else {
                four
            }
        };
        let zero = "00:00:00:00:00:00";
        let mac = |key| {
            if text(record, key) == zero {
                ""
            } else {
                text(record, key)
            }
        };
        let icmp = number(record, "icmp_type") * 256 + number(record, "icmp_code");
        let key = Key {
            source: address("src4_addr", "src6_addr"),
            destination: address("dst4_addr", "dst6_addr"),
            ports: (
                number(record, "src_port"),
                number(record, "dst_port") + icmp,
            ),
            protocol: number(record, "proto").to_string(),
            more: nfdump_more(
                record,
                number(record, "src_vlan"),
                mac("in_src_mac"),
                mac("in_dst_mac"),
            ),
        };
        flows.entry(key.text()).or_default().add(Totals {
            packets: number(record, "in_packets"),
            bytes: number(record, "in_bytes"),
            reverse_packets: number(record, "out_packets"),
            reverse_bytes: number(record, "out_bytes"),
        });
    }
    flows
}

/// Checks nfacctd of pmacct, which multiplies by the sampling. It has no second direction.
pub(crate) fn pmacct(case: &Case) {
    let capture = capture();
    let folder = capture.folder.path();
    let output = folder.join("pmacct.json");
    let collector = Collector::start(|port| {
        let config = folder.join("nfacctd.conf");
        let text = format!(
            "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\n\
             nfacctd_renormalize: true\nnfacctd_time_new: true\nplugins: print\n\
             aggregate: src_host,dst_host,src_port,dst_port,proto,vlan,src_mac,dst_mac\n\
             print_output: json\nprint_output_file: {}\nprint_output_file_append: true\n\
             print_refresh_time: 1\nplugin_pipe_size: 10240000\nplugin_buffer_size: 400\npidfile: {}\n",
            output.display(),
            folder.join("pid").display()
        );
        std::fs::write(&config, text).expect("a file");
        let mut command = tool("nfacctd");
        command.arg("-f").arg(config);
        command
    });
    // Records that come before its parts are connected wait until its end.
    let deadline = Instant::now() + LIMIT;
    while !output.exists() {
        assert!(Instant::now() < deadline, "it does not write");
        push_on(collector.port);
        sleep(Duration::from_millis(200));
    }
    let records = export_to(&collector, &capture, case);
    let more = |record: &Value| {
        let plain = "0 00:00:00:00:00:00 00:00:00:00:00:00".to_owned();
        if case.name.contains("v5") {
            return plain;
        }
        let (source, destination) = (text(record, "src_mac"), text(record, "dst_mac"));
        format!("{} {source} {destination}", number(record, "vlan"))
    };
    let mut expected = expected(&records, case, more);
    for totals in expected.values_mut() {
        totals.reverse_packets = 0;
        totals.reverse_bytes = 0;
    }
    // Its buffers hold a record each, and the last one is handed on when another comes.
    push_on(collector.port);
    let deadline = Instant::now() + LIMIT;
    while written(&output) < expected.len() && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    let log = collector.end("INT");
    let log =
        String::from_utf8_lossy(&log.stdout).into_owned() + &String::from_utf8_lossy(&log.stderr);
    for line in log.lines() {
        let word = ["WARN", "ERROR", "malformed", "Discarded"];
        assert!(!word.iter().any(|word| line.contains(word)), "{line}");
    }
    assert_same(&expected, &pmacct_flows(&output));
}

/// The source of flows that are of no interest.
const PUSHER: [u8; 4] = [203, 0, 113, 1];

/// How many of them it takes.
const PUSHED: u8 = 20;

/// Sends more flows, in NetFlow v5.
fn push_on(port: u16) {
    let mut message = vec![0; 24 + 48 * usize::from(PUSHED)];
    message[1] = 5;
    message[3] = PUSHED;
    message[8..12].copy_from_slice(&1_700_000_000u32.to_be_bytes());
    for (port, record) in (0..).zip(message[24..].chunks_mut(48)) {
        record[..4].copy_from_slice(&PUSHER);
        // A packet of 100 bytes, of UDP.
        record[19] = 1;
        record[23] = 100;
        record[33] = port;
        record[38] = 17;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let sent = socket.send_to(&message, ("127.0.0.1", port));
    assert_eq!(sent.expect("it is sent"), message.len());
}

/// Returns the number of flows in a file that may exist.
fn written(output: &Path) -> usize {
    let text = std::fs::read_to_string(output).unwrap_or_default();
    text.lines()
        .filter(|line| !line.contains("203.0.113.1"))
        .count()
}

fn pmacct_flows(output: &Path) -> Flows {
    let mut flows = Flows::new();
    for record in json_lines(output) {
        if text(&record, "ip_src") == "203.0.113.1" {
            continue;
        }
        let protocol = match text(&record, "ip_proto") {
            "icmp" => "1",
            "tcp" => "6",
            "udp" => "17",
            "ipv6-icmp" => "58",
            other => other,
        };
        let key = Key {
            source: text(&record, "ip_src"),
            destination: text(&record, "ip_dst"),
            ports: (number(&record, "port_src"), number(&record, "port_dst")),
            protocol: protocol.to_owned(),
            more: format!(
                "{} {} {}",
                // pmacct 1.7.8 names it "vlan_in".
                number(&record, "vlan") + number(&record, "vlan_in"),
                text(&record, "mac_src"),
                text(&record, "mac_dst")
            ),
        };
        flows.entry(key.text()).or_default().add(Totals {
            packets: number(&record, "packets"),
            bytes: number(&record, "bytes"),
            ..Totals::default()
        });
    }
    flows
}

/// Checks goflow2, which reports the sampling beside the counters. It has no second direction.
pub(crate) fn goflow(case: &Case) {
    let capture = capture();
    let output = capture.folder.path().join("goflow.json");
    let http = free_port();
    let collector = Collector::start(|port| {
        let mut command = tool("goflow2");
        // One worker, so that templates are read before their data.
        let listen = format!("netflow://127.0.0.1:{port}?count=1&workers=1");
        command.args(["-listen", &listen, "-addr", &format!("127.0.0.1:{http}")]);
        command.arg("-transport.file").arg(&output);
        command
    });
    let records = export_to(&collector, &capture, case);
    let more = |_: &Value| format!("1:{}", case.sampling);
    let mut expected = expected(
        &records,
        &Case {
            sampling: 1,
            ..*case
        },
        more,
    );
    for totals in expected.values_mut() {
        totals.reverse_packets = 0;
        totals.reverse_bytes = 0;
    }
    let sum = |flows: &Flows| flows.values().map(|totals| totals.packets).sum::<u64>();
    let deadline = Instant::now() + LIMIT;
    let mut reported = Flows::new();
    while sum(&reported) < sum(&expected) && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
        reported = goflow_flows(&output);
    }
    let log = collector.end("INT");
    let log =
        String::from_utf8_lossy(&log.stdout).into_owned() + &String::from_utf8_lossy(&log.stderr);
    assert!(
        !log.contains("level=WARN") && !log.contains("level=ERROR"),
        "{log}"
    );
    assert_same(&expected, &reported);
}

fn goflow_flows(output: &Path) -> Flows {
    let mut flows = Flows::new();
    let complete = |text: &str| text.is_empty() || text.ends_with('\n');
    if !std::fs::read_to_string(output).is_ok_and(|text| complete(&text)) {
        return flows;
    }
    for record in json_lines(output) {
        let protocol = match text(&record, "proto") {
            "ICMP" => "1",
            "TCP" => "6",
            "UDP" => "17",
            "IPv6-ICMP" => "58",
            other => other,
        };
        let key = Key {
            source: text(&record, "src_addr"),
            destination: text(&record, "dst_addr"),
            ports: (number(&record, "src_port"), number(&record, "dst_port")),
            protocol: protocol.to_owned(),
            // Without sampling v5 says 0.
            more: format!("1:{}", number(&record, "sampling_rate").max(1)),
        };
        flows.entry(key.text()).or_default().add(Totals {
            packets: number(&record, "packets"),
            bytes: number(&record, "bytes"),
            ..Totals::default()
        });
    }
    flows
}

/// Checks that the flows are the same; shows the first few of a difference.
pub(crate) fn assert_same(expected: &Flows, reported: &Flows) {
    let differing =
        |(key, totals): &(&String, &Totals), other: &Flows| other.get(*key) != Some(totals);
    let missing: Vec<_> = expected
        .iter()
        .filter(|flow| differing(flow, reported))
        .take(5)
        .collect();
    let surplus: Vec<_> = reported
        .iter()
        .filter(|flow| differing(flow, expected))
        .take(5)
        .collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "of {} flows, {} reported\nexpected: {missing:#?}\nreported: {surplus:#?}",
        expected.len(),
        reported.len()
    );
}

//! `ringtap web`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_testkit::netns::{Namespace, VethPair};
use ringtap_testkit::pcap::Pcap;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};
use serde_json::Value;

use super::client::Server;
use super::hostile as names;
use super::{LIMIT, RINGTAP};

const PACKETS: u64 = 20_000;
/// A capture with TLS and DNS.
pub(crate) const NAMED: &str = "ndpi/netflix.pcap";

pub(crate) fn traffic() -> Traffic {
    Traffic {
        packets: PACKETS,
        interval: 100_000,
        ..Traffic::default()
    }
}

pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer);
    let found = found.unwrap_or_else(|| panic!("no {pointer} in {value}"));
    found
        .as_u64()
        .unwrap_or_else(|| panic!("{pointer}: {found}"))
}

/// The row of a key.
fn row<'v>(top: &'v Value, key: &str) -> &'v Value {
    let rows = top["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["key"] == key);
    row.unwrap_or_else(|| panic!("no {key} in {top}"))
}

/// Live figures are those of the traffic, in the status, the rows, over time and in the summary.
pub(crate) fn counts() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    let sent = traffic().write_file(&file).expect("a file");
    let server = Server::start(
        &pair.right.namespace,
        &["-i", &pair.right.device, "--json-stats", "--kernel-cost"],
    );
    let before = server.get("/api/v1/cost").json();
    assert!(before["kernel_ns_per_packet"].is_null(), "{before}");
    let replayed = Replay::new(&file, Rate::Pps(20_000)).run(&pair.left);
    assert_eq!(replayed, sent.packets);
    let status = server.wait("all packets", |status| {
        count(status, "/totals/packets") >= sent.packets
    });
    assert_eq!(count(&status, "/totals/packets"), sent.packets);
    let headers = 14 * sent.packets;
    let udp = server
        .get("/api/v1/top?of=protocols&window=all&by=packets")
        .json();
    assert_eq!(count(row(&udp, "udp"), "/packets"), sent.udp);
    let top = server
        .get("/api/v1/top?of=hosts&window=all&limit=1000")
        .json();
    // Each packet has one host of this network, which is among those with most traffic.
    let rows = top["rows"].as_array().expect("rows").iter();
    let servers = rows.filter(|row| {
        row["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("192.0.2."))
    });
    let bytes: u64 = servers.map(|row| count(row, "/bytes")).sum();
    assert_eq!(bytes, count(&status, "/totals/bytes"));
    assert!(count(&status, "/totals/bytes") <= sent.bytes - headers);
    let series = server.get("/api/v1/series?by=total").json();
    let steps = series["series"][0]["packets"].as_array().expect("steps");
    assert_eq!(
        steps.iter().filter_map(Value::as_u64).sum::<u64>(),
        sent.packets
    );
    let losses = server.get("/api/v1/losses").json();
    assert_eq!(losses["layers"][3]["layer"], "ring");
    assert_eq!(count(&losses, "/layers/3/packets"), 0);
    let metrics = server.get("/metrics").text();
    assert!(
        metrics.contains(&format!("ringtap_packets_total {}\n", sent.packets)),
        "{metrics}"
    );
    let cost = server.get("/api/v1/cost").json();
    assert!(count(&cost, "/memory_bytes") > 1 << 20);
    let nanos = cost["kernel_ns_per_packet"].as_f64();
    assert!(nanos.is_some_and(|nanos| nanos > 0.0), "{cost}");
    let said = server.stop();
    let summary = said
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a summary");
    let summary: Value = serde_json::from_str(summary).expect("JSON");
    assert_eq!(count(&summary, "/packets"), sent.packets);
    assert_eq!(count(&summary, "/bytes"), count(&status, "/totals/bytes"));
}

/// Flows of a file by protocol are those that tshark counts.
pub(crate) fn file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    let sent = traffic().write_file(&file).expect("a file");
    let name = file.display().to_string();
    let namespace = Namespace::new();
    let server = Server::start(&namespace, &["-r", &name]);
    let status = server.wait("the file", |status| {
        count(status, "/totals/packets") == sent.packets
    });
    assert_eq!(status["file"], true);
    let tshark = |table: &str| {
        let output = Command::new("tshark")
            .args(["-n", "-q", "-z", table, "-r", &name])
            .stdin(Stdio::null())
            .output()
            .expect("tshark runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = text.lines().filter(|line| line.contains("<->"));
        rows.count() as u64
    };
    for protocol in ["tcp", "udp"] {
        let flows = server
            .get(&format!("/api/v1/flows?filter={protocol}&limit=1"))
            .json();
        assert_eq!(
            count(&flows, "/total"),
            tshark(&format!("conv,{protocol}")),
            "{protocol}"
        );
    }
    let host = row(&server.get("/api/v1/top?window=all").json(), "192.0.2.1").clone();
    let packets = Command::new("tshark")
        .args(["-n", "-r", &name, "-Y", "ip.addr == 192.0.2.1"])
        .stdin(Stdio::null())
        .output()
        .expect("tshark runs");
    let lines = String::from_utf8_lossy(&packets.stdout).lines().count() as u64;
    assert_eq!(count(&host, "/packets"), lines);
    server.stop();
}

/// Returns the number of packets in a pcap file: corpora have more or less of a capture.
pub(crate) fn packets_in(file: &Path) -> u64 {
    let bytes = std::fs::read(file).expect("a capture");
    let file = Pcap::parse(&bytes).expect("a pcap file");
    file.records().count() as u64
}

/// Server names of flows are those that tshark reads in ClientHellos; hosts have them, and DNS is counted.
pub(crate) fn names() {
    let file = ringtap_testkit::corpus::file(NAMED).expect("a capture");
    let name = file.display().to_string();
    let namespace = Namespace::new();
    let server = Server::start(&namespace, &["-r", &name]);
    let tshark = |filter: &str, field: &str| {
        let output = Command::new("tshark")
            .args(["-n", "-r", &name, "-Y", filter, "-T", "fields", "-e", field])
            .stdin(Stdio::null())
            .output()
            .expect("tshark runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .map(str::to_owned)
            .collect::<BTreeSet<String>>()
    };
    let packets = packets_in(&file);
    let status = server.wait("the file", |status| {
        count(status, "/totals/packets") == packets
    });
    assert_eq!(status["has_names"], true);
    let expected = tshark(
        "tls.handshake.extensions_server_name",
        "tls.handshake.extensions_server_name",
    );
    let flows = server.get("/api/v1/flows?limit=1000").json();
    let flows = flows["flows"].as_array().expect("flows");
    let named = flows.iter().filter(|flow| flow["name_source"] == "sni");
    let named: BTreeSet<String> = named
        .filter_map(|flow| flow["name"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(named, expected);
    let hosts = server.get("/api/v1/hosts?limit=1000").json();
    let hosts = hosts["rows"].as_array().expect("hosts");
    assert!(
        hosts.iter().any(|host| host["name_source"] == "sni"),
        "{hosts:?}"
    );
    let questions = tshark("dns.flags.response == 0 and udp.port == 53", "udp.stream");
    assert_eq!(count(&status, "/dns/queries"), questions.len() as u64);
    server.stop();
}

/// A server with a file of known traffic.
pub(crate) fn with_file(folder: &Path, namespace: &Namespace, arguments: &[&str]) -> Server {
    let file = folder.join("traffic.pcap");
    let sent = traffic().write_file(&file).expect("a file");
    let name = file.display().to_string();
    let server = Server::start(namespace, &[&["-r", &name], arguments].concat());
    if !arguments
        .iter()
        .any(|argument| ["--token", "--tls-cert"].contains(argument))
    {
        server.wait("the file", |status| {
            count(status, "/totals/packets") == sent.packets
        });
    }
    server
}

pub(crate) fn flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let all = server.get("/api/v1/flows?limit=1000").json();
    let flows = all["flows"].as_array().expect("flows").clone();
    let total = count(&all, "/total");
    assert!(
        total > 10 && flows.len() as u64 == total.min(1000),
        "{total}"
    );
    let bytes = |flow: &Value| count(flow, "/bytes") + count(flow, "/reverse_bytes");
    assert!(flows.is_sorted_by_key(|flow| std::cmp::Reverse(bytes(flow))));
    let https = server
        .get("/api/v1/flows?filter=tcp%20port%20443&sort=first&order=asc")
        .json();
    let https = https["flows"].as_array().expect("flows");
    assert!(!https.is_empty());
    for flow in https {
        assert_eq!(flow["protocol"], "tcp", "{flow}");
        let ports = [&flow["source_port"], &flow["destination_port"]];
        assert!(ports.iter().any(|port| **port == 443), "{flow}");
        assert_eq!(flow["application"], "tls", "{flow}");
    }
    assert!(https.is_sorted_by_key(|flow| count(flow, "/first_ms")));
    let none = server.get("/api/v1/flows?filter=tcp%20and%20udp").json();
    assert_eq!(count(&none, "/total"), 0);
    let wrong = server.get("/api/v1/flows?filter=tcp%20porrt");
    let text: Value = serde_json::from_slice(&wrong.body).expect("JSON");
    assert_eq!(
        (wrong.status, &text["position"]),
        (400, &Value::from(4)),
        "{text}"
    );
    let named = server.get("/api/v1/flows?filter=host%20strange.example");
    assert_eq!(named.status, 400, "names are not looked up");
    let id = flows[0]["id"].as_str().expect("an id");
    let detail = server.get(&format!("/api/v1/flows/{id}")).json();
    assert_eq!(detail["flow"], flows[0]);
    assert_eq!(server.get("/api/v1/flows/ffffffffff").status, 404);
    let csv = server.get("/api/v1/flows.csv?filter=udp").text();
    let udp = server.get("/api/v1/flows?filter=udp&limit=1").json();
    assert_eq!(csv.lines().count() as u64, count(&udp, "/total") + 1);
    let columns = csv.lines().map(|line| line.split(',').count());
    assert!(
        columns
            .collect::<Vec<_>>()
            .windows(2)
            .all(|two| two[0] == two[1]),
        "{csv}"
    );
    server.stop();
}

/// Systems, countries and vendors come from the databases of the command line.
pub(crate) fn places() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (mmdb, oui) = (path("places.mmdb"), path("manuf"));
    let database = ringtap_testkit::mmdb::places(64_500, "<b>Net\u{1b}[2J", "DE");
    fs::write(&mmdb, database).expect("a file");
    fs::write(&oui, "00:00:5E\tIANA\tInternet Assigned Numbers\n").expect("a file");
    let server = with_file(folder.path(), &namespace, &["--mmdb", &mmdb, "--oui", &oui]);
    let systems = server.get("/api/v1/top?of=as&window=all").json();
    let status = server.get("/api/v1/status").json();
    assert_eq!(row(&systems, "64500")["name"], "<b>Net[2J");
    // Each packet has one host of this network.
    let bytes = count(row(&systems, "64500"), "/bytes");
    assert_eq!(bytes, count(&status, "/totals/bytes"));
    let countries = server.get("/api/v1/top?of=countries&window=all").json();
    assert_eq!(count(row(&countries, "DE"), "/bytes"), bytes);
    let host = server.get("/api/v1/hosts/192.0.2.1?window=21600").json();
    assert_eq!(host["as"], "AS64500 <b>Net[2J");
    assert_eq!(host["country"], "DE");
    let series = host["series"]["series"].as_array().expect("lines");
    let sums = series.iter().map(|line| {
        let steps = line["bytes"].as_array().expect("steps").iter();
        steps.filter_map(Value::as_u64).sum::<u64>()
    });
    let sums: Vec<u64> = sums.collect();
    assert_eq!(
        sums,
        [count(&host, "/bytes_out"), count(&host, "/bytes_in")]
    );
    server.stop();
}

/// A flow that is looked at shows its packets from then on, and no more than 16.
pub(crate) fn first_bytes() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile.pcap");
    names::write(&file);
    let server = Server::start(&pair.right.namespace, &["-i", &pair.right.device]);
    let send = || Replay::new(&file, Rate::Pps(1000)).run(&pair.left);
    send();
    let listed = || server.get("/api/v1/flows?filter=tcp%20port%2080").json();
    server.wait_for("flow", || count(&listed(), "/total") > 0);
    let id = listed()["flows"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let detail = || server.get(&format!("/api/v1/flows/{id}")).json();
    assert_eq!(detail()["first_bytes"], serde_json::json!([]));
    for round in 1..=20 {
        send();
        server.wait_for(&format!("packet {round}"), || {
            let shown = detail()["first_bytes"].as_array().map_or(0, Vec::len);
            shown == usize::min(round, 16)
        });
    }
    let first = detail()["first_bytes"][0].clone();
    assert_eq!(first["direction"], "forward", "{first}");
    let hex = first["hex"].as_str().expect("bytes");
    assert!(
        hex.starts_with("45") && hex.len() as u64 == 2 * count(&first, "/length"),
        "{first}"
    );
    // GET / HTTP
    assert!(hex.contains("474554202f2048545450"), "{first}");
    server.stop();
}

/// A download has exactly the packets of its host, and tcpdump reads it.
pub(crate) fn download() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    traffic().write_file(&file).expect("a file");
    let server = Server::start(&pair.right.namespace, &["-i", &pair.right.device]);
    let address = server.address;
    let namespace = &pair.right.namespace;
    let body = std::thread::scope(|scope| {
        let downloading = scope.spawn(|| {
            namespace.run(|| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                let request = format!(
                    "GET /api/v1/packets?host=192.0.2.1&seconds=5 HTTP/1.0\r\nHost: {address}\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).expect("a request");
                let mut first = [0; 512];
                let count = stream.read(&mut first).expect("the header");
                let mut bytes = first[..count].to_vec();
                // The tap is open: what is sent from here on belongs to it.
                assert_eq!(Replay::new(&file, Rate::Pps(20_000)).run(&pair.left), PACKETS);
                stream.read_to_end(&mut bytes).expect("packets");
                bytes
            })
        });
        downloading.join().expect("a download")
    });
    let end = body
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a header");
    let downloaded = folder.path().join("download.pcapng");
    fs::write(&downloaded, &body[end + 4..]).expect("a file");
    let expected = tcpdump(&file, &["host", "192.0.2.1"]);
    assert!(expected.lines().count() > 100);
    assert_eq!(tcpdump(&downloaded, &[]), expected);
    server.stop();
}

/// Returns the packets of a file as tcpdump prints them.
fn tcpdump(file: &Path, filter: &[&str]) -> String {
    let mut command = Command::new("tcpdump");
    command.args(["-nqt", "-r"]).arg(file).args(filter);
    let output = command.stdin(Stdio::null()).output().expect("tcpdump runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packets of files can be downloaded once they are read, also those of the second file, and a flow has its first
/// bytes.
pub(crate) fn packets_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let [first, second] = ["traffic.pcap", "hostile.pcap"].map(|name| folder.path().join(name));
    let sent = traffic().write_file(&first).expect("a file");
    let named = names::write(&second) as u64;
    let [one, two] = [&first, &second].map(|path| path.display().to_string());
    let server = Server::start(&namespace, &["-r", &one, "-r", &two]);
    server.wait("both files", |status| {
        count(status, "/totals/packets") == sent.packets + named
    });
    let path = folder.path().join("download.pcapng");
    let downloaded = |what: &str| {
        let answer = server.get(&format!("/api/v1/packets?{what}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        fs::write(&path, answer.body).expect("a file");
        tcpdump(&path, &[])
    };
    for (what, filter) in [
        ("host=192.0.2.1", "host 192.0.2.1"),
        ("filter=host%2010.9.0.1", "host 10.9.0.1"),
        ("filter=udp", "udp"),
    ] {
        let expected = [&first, &second].map(|file| tcpdump(file, &[filter]));
        assert!(!expected.concat().is_empty(), "{filter}");
        assert_eq!(downloaded(what), expected.concat(), "{filter}");
    }
    let listed = server.get("/api/v1/flows?filter=host%2010.9.0.1%20and%20tcp%20port%2080");
    let id = listed.json()["flows"][0]["id"].clone();
    let id = id.as_str().expect("a flow");
    assert_eq!(
        downloaded(&format!("flow={id}")),
        tcpdump(&second, &["host 10.9.0.1 and tcp port 80"])
    );
    let detail = || server.get(&format!("/api/v1/flows/{id}")).json();
    server.wait_for("first bytes", || detail()["first_bytes"][0].is_object());
    let hex = detail()["first_bytes"][0]["hex"].to_string();
    // GET / HTTP
    assert!(hex.contains("474554202f2048545450"), "{hex}");
    server.stop();
}

/// Each path of the description answers, and JSON has the keys that its schema requires.
pub(crate) fn description() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let description = server.get("/api/v1/openapi.json").json();
    let flow = server.get("/api/v1/flows?limit=1").json()["flows"][0]["id"].clone();
    let flow = flow.as_str().expect("an id");
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 15);
    for (path, methods) in paths {
        if path == "/api/v1/events" || path == "/api/v1/packets" || methods.get("get").is_none() {
            continue;
        }
        let path = path.replace("{address}", "192.0.2.1").replace("{id}", flow);
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let schema = methods.pointer("/get/responses/200/content/application~1json/schema/$ref");
        if let Some(schema) = schema.and_then(Value::as_str) {
            check(&description, schema, &answer.json(), &path);
        }
    }
    server.stop();
}

/// Checks that a value has exactly the keys of its schema, and that lists and objects within have theirs.
fn check(description: &Value, schema: &str, value: &Value, place: &str) {
    let schema = description.pointer(schema.trim_start_matches('#'));
    let schema = schema.unwrap_or_else(|| panic!("{place}: no schema"));
    check_value(description, schema, value, place);
}

fn check_value(description: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(named) = schema["$ref"].as_str() {
        return check(description, named, value, place);
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for value in values {
            check_value(description, items, value, place);
        }
    }
    let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    else {
        return;
    };
    let keys: Vec<&String> = object.keys().collect();
    let mut expected: Vec<&String> = properties.keys().collect();
    let mut sorted = keys.clone();
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected, "{place}");
    for (key, schema) in properties {
        check_value(description, schema, &object[key], &format!("{place}.{key}"));
    }
}

/// History outlives the process, and a damaged one is kept aside.
pub(crate) fn history() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    traffic().write_file(&file).expect("a file");
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).expect("a folder");
    let name = kept.display().to_string();
    let start = || {
        let arguments = ["-i", &pair.right.device, "--dir", &name];
        Server::start(&pair.right.namespace, &arguments)
    };
    let sum = |server: &Server| {
        let series = server.get("/api/v1/series").json();
        let steps = series["series"][0]["packets"].as_array().cloned();
        let steps = steps.unwrap_or_default();
        steps.iter().filter_map(Value::as_u64).sum::<u64>()
    };
    let server = start();
    Replay::new(&file, Rate::Pps(20_000)).run(&pair.left);
    server.wait("all packets", |status| {
        count(status, "/totals/packets") == PACKETS
    });
    server.stop();
    let server = start();
    let status = server.wait("a tick", |status| count(status, "/now_ms") > 0);
    assert_eq!(status["has_history"], true);
    assert_eq!(sum(&server), PACKETS);
    server.stop();
    for file in ["history.a", "history.b"] {
        let path = kept.join(file);
        let mut bytes = fs::read(&path).expect("a file");
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        fs::write(&path, bytes).expect("a file");
    }
    let server = start();
    assert_eq!(server.wait("a tick", |_| true)["has_history"], false);
    let said = server.stop();
    assert!(said.contains("history is damaged"), "{said}");
    assert!(kept.join("history.a.damaged-1").exists(), "{said}");
}

/// Records of another exporter are shown as those of the own meter.
pub(crate) fn collect() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    let sent = traffic().write_file(&file).expect("a file");
    let namespace = Namespace::new();
    let server = Server::start(&namespace, &["--collect", "udp:127.0.0.1:4739"]);
    let mut exporter = namespace.command(RINGTAP);
    exporter.args(["flow", "--top", "0", "--export", "udp:127.0.0.1:4739", "-r"]);
    let exported = exporter
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert!(exported.status.success());
    let status = server.wait("all records", |status| {
        count(status, "/totals/packets") == sent.packets
    });
    let top = server.get("/api/v1/top?of=protocols&window=all").json();
    assert_eq!(count(row(&top, "udp"), "/packets"), sent.udp, "{status}");
    assert_eq!(status["packets_from"], serde_json::json!([]));
    let refused = server.get("/api/v1/packets?filter=udp").status;
    assert_eq!(refused, 409, "records have no packets");
    server.stop();
}

/// Prometheus scrapes, and its figures are those of the server.
pub(crate) fn prometheus() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let configuration = folder.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: ringtap\n    static_configs:\n      - targets: ['{}']\n",
        server.address
    );
    fs::write(&configuration, text).expect("a file");
    let mut command = namespace.command("prometheus");
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        ))
        .arg("--web.listen-address=127.0.0.1:19090");
    let prometheus = Running::start_piped(&mut command).expect("prometheus starts");
    let status = server.get("/api/v1/status").json();
    let expected = [
        ("ringtap_packets_total", count(&status, "/totals/packets")),
        (
            "ringtap_traffic_bytes_total",
            count(&status, "/totals/bytes"),
        ),
        ("ringtap_flows_total", count(&status, "/totals/flows")),
    ];
    let query = |name: &str| {
        namespace.run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:19090").ok()?;
            let request =
                format!("GET /api/v1/query?query={name} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            let (_, body) = answer.split_once("\r\n\r\n")?;
            let body: Value = serde_json::from_str(body).ok()?;
            body.pointer("/data/result/0/value/1")?
                .as_str()?
                .parse::<u64>()
                .ok()
        })
    };
    let deadline = std::time::Instant::now() + LIMIT;
    for (name, expected) in expected {
        let found = loop {
            match query(name) {
                Some(found) => break found,
                None => assert!(
                    std::time::Instant::now() < deadline,
                    "{name} is not scraped"
                ),
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        assert_eq!(found, expected, "{name}");
    }
    prometheus.signal("TERM").expect("a signal");
    prometheus.wait(LIMIT).expect("it ends");
    server.stop();
}

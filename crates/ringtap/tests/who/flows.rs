//! `ringtap flow --who`: the processes at the ends of flows, live and from files.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::repetitions;
use serde_json::Value;
use tempfile::TempDir;

use crate::captured::{Capturing, LIMIT, RINGTAP};
use crate::{Client, PORT, address, ask, run, serve};

/// A running meter.
struct Metering {
    running: Running,
    folder: TempDir,
}

impl Metering {
    fn start(side: &Side, device: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = side.namespace.command(RINGTAP);
        command.args([
            "flow",
            "-i",
            device,
            "--who",
            "--top",
            "0",
            "--json-stats",
            "-w",
        ]);
        command.arg(folder.path().join("live.json")).args(arguments);
        let mut running = Running::start_piped(&mut command).expect("ringtap starts");
        let side = Side {
            device: device.to_owned(),
            ..side.clone()
        };
        running
            .wait_until_capturing(&side, LIMIT)
            .expect("metering");
        Self { running, folder }
    }

    fn finish(self) -> Vec<Value> {
        self.running.signal("INT").expect("it runs");
        let output = self.running.wait(LIMIT).expect("it ends");
        assert!(output.status.success(), "{output:?}");
        let notices = String::from_utf8_lossy(&output.stderr).into_owned();
        let stats: Value =
            serde_json::from_str(notices.lines().last().expect("statistics")).expect("an object");
        assert_eq!(stats["who"]["refused"], 0, "{stats}");
        assert!(stats["processes_dropped"].is_null(), "{stats}");
        records(&self.folder.path().join("live.json"))
    }
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a file");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect()
}

/// Meters a file of `dump --who`.
fn of_file(path: &Path, arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let to: PathBuf = folder.path().join("file.json");
    let mut command = Command::new(RINGTAP);
    command
        .args(["flow", "--who", "--top", "0", "-r"])
        .arg(path);
    command.arg("-w").arg(&to).args(arguments);
    let output = command.output().expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
    records(&to)
}

/// Returns the facts about a record's processes by its ends: what must not depend on where packets come from.
fn processes(records: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let ends = ["src", "src_port", "dst", "dst_port", "protocol"];
    let facts = [
        "src_pid",
        "src_process",
        "src_uid",
        "src_cgroup",
        "src_container",
        "dst_pid",
        "dst_process",
        "dst_uid",
        "dst_cgroup",
        "dst_container",
    ];
    let row = |record: &Value| {
        let key = ends.map(|field| record[field].to_string()).join(" ");
        (key, facts.map(|field| record[field].clone()).into())
    };
    records.iter().map(row).collect()
}

fn pid(record: &Value, field: &str) -> Option<u32> {
    u32::try_from(record[field].as_u64()?).ok()
}

fn port(record: &Value, field: &str) -> Option<u16> {
    u16::try_from(record[field].as_u64()?).ok()
}

/// Many processes that connect, send and exit: each record names the one that sent, as its packets say, and a file of
/// the same packets gives the same records.
pub(crate) fn senders() {
    let pair = VethPair::new();
    let count = repetitions(100);
    let server = serve(&pair.right, count as usize);
    let capturing = Capturing::start(&pair.left, &[]);
    let both = Metering::start(&pair.left, &pair.left.device, &["--biflow"]);
    let each = Metering::start(&pair.left, &pair.left.device, &[]);
    let (to, to_port) = address(&pair.right, PORT);
    run(
        &pair.left,
        &["short_lived", &to, &to_port, &count.to_string()],
    );
    server.join().expect("served");
    let (both, each) = (both.finish(), each.finish());
    let captured = capturing.finish();
    let mut claimed: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for seen in captured.packets.iter().filter(|seen| seen.is_sent) {
        if let (Some(port), Some(pid)) = (seen.local_port(), seen.claimed) {
            claimed.entry(port).or_default().push(pid);
        }
    }
    let found = both
        .iter()
        .filter(|record| port(record, "dst_port") == Some(PORT))
        .map(|record| assert_names_client(record, &claimed))
        .count();
    assert!(found >= count as usize, "{found} of {count}");
    for record in &each {
        assert_names_its_end(record, &claimed);
    }
    let again = of_file(&captured.path, &["--biflow"]);
    assert_eq!(processes(&again), processes(&both));
}

/// A process that answers: the other end of the flow.
pub(crate) fn receivers() {
    let pair = VethPair::new();
    let metering = Metering::start(&pair.left, &pair.left.device, &["--biflow"]);
    let (to, to_port) = address(&pair.left, PORT);
    let client = Client::start(&pair.left, &["accepting_worker", &to, &to_port]);
    let parent = client.pid;
    let answer = ask(&pair);
    client.end();
    let records = metering.finish();
    let record = records
        .iter()
        .find(|record| port(record, "dst_port") == Some(PORT))
        .expect("a connection");
    // The worker that answered counts, not the process that listens.
    let worker = answer
        .strip_prefix("pid=")
        .and_then(|rest| rest.strip_suffix(';'));
    assert_eq!(
        record["dst_pid"].to_string(),
        worker.expect("a number"),
        "{record}"
    );
    assert_ne!(pid(record, "dst_pid"), Some(parent));
    assert!(record["src_pid"].is_null(), "{record}");
}

/// On loopback both ends are on this host.
pub(crate) fn both_ends() {
    let pair = VethPair::new();
    let here = Ipv4Addr::LOCALHOST.to_string();
    let metering = Metering::start(&pair.left, "lo", &["--biflow"]);
    let to_port = PORT.to_string();
    let server = Client::start(&pair.left, &["answers", &here, &to_port]);
    let served_by = server.pid;
    run(&pair.left, &["asks", &here, &to_port]);
    server.end();
    let records = metering.finish();
    let record = records
        .iter()
        .find(|record| port(record, "dst_port") == Some(PORT))
        .expect("a connection");
    assert_eq!(pid(record, "dst_pid"), Some(served_by), "{record}");
    let client = pid(record, "src_pid").expect("the client");
    assert_ne!(client, served_by);
    assert_eq!(record["src_process"], "python3");
}

/// Nobody is named where nobody is known, and only what was chosen is there.
pub(crate) fn unknown_and_chosen() {
    let pair = VethPair::new();
    let metering = Metering::start(
        &pair.left,
        &pair.left.device,
        &["--biflow", "--fields", "basic,src_pid,src_uid"],
    );
    // Nobody listens there: the kernel answers.
    let own = SocketAddr::from((pair.right.ipv4, 0));
    let socket = pair.right.run(|| UdpSocket::bind(own).expect("a socket"));
    socket.send_to(b"x", (pair.left.ipv4, 9)).expect("sent");
    let (to, to_port) = address(&pair.right, PORT);
    let mut sender = Client::start(&pair.left, &["named", &to, &to_port, "web-client", "1000"]);
    sender.tell();
    let sender_pid = sender.pid;
    sender.end();
    thread::sleep(std::time::Duration::from_millis(200));
    let records = metering.finish();
    let udp = |to: u16| {
        let found = records
            .iter()
            .find(|record| port(record, "dst_port") == Some(to));
        found.unwrap_or_else(|| panic!("no flow to {to}: {records:?}"))
    };
    // The sender is in another namespace of this host: its socket came through the cable.
    let unknown = udp(9);
    assert!(
        unknown["dst_pid"].is_null() && unknown["src_process"].is_null(),
        "{unknown}"
    );
    let known = udp(PORT);
    assert_eq!(pid(known, "src_pid"), Some(sender_pid), "{known}");
    assert_eq!(known["src_uid"], 1000, "{known}");
    assert!(
        known["src_process"].is_null() && known["src_cgroup"].is_null(),
        "{known}"
    );
}

/// Returns whether the process of this number used the port, as its packets claim.
fn used(claimed: &BTreeMap<u16, Vec<u32>>, port: Option<u16>, pid: Option<u32>) -> bool {
    let pids = port.and_then(|port| claimed.get(&port));
    pids.is_some_and(|pids| pid.is_some_and(|pid| pids.contains(&pid)))
}

/// Asserts that a record of both directions names the client, and only it: the server is elsewhere.
fn assert_names_client(record: &Value, claimed: &BTreeMap<u16, Vec<u32>>) {
    let (from, client) = (port(record, "src_port"), pid(record, "src_pid"));
    assert!(used(claimed, from, client), "{record}");
    assert_eq!(record["src_process"], "python3", "{record}");
    assert_eq!(record["src_uid"], 0, "{record}");
    let group = record["src_cgroup"].as_str().unwrap_or_default();
    assert!(group.starts_with('/'), "{record}");
    // The server's last packets may find no socket of the client: they show their sender.
    let server = pid(record, "dst_pid");
    assert!(
        server.is_none_or(|pid| pid == std::process::id()),
        "{record}"
    );
}

/// Asserts that a record of one direction names the client at its end.
fn assert_names_its_end(record: &Value, claimed: &BTreeMap<u16, Vec<u32>>) {
    let named = (pid(record, "src_pid"), pid(record, "dst_pid"));
    match (port(record, "src_port"), port(record, "dst_port")) {
        (from, Some(PORT)) => {
            assert!(
                used(claimed, from, named.0) && named.1.is_none(),
                "{record}"
            );
        }
        (Some(PORT), to) => {
            let is_server = named.0.is_none_or(|pid| pid == std::process::id());
            assert!(used(claimed, to, named.1) && is_server, "{record}");
        }
        _ => assert_eq!(named, (None, None), "{record}"),
    }
}

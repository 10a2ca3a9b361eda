//! Packets that arrive on two processors at a time, the two directions of each flow on different ones.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ringtap_sys::packet::inject::Injector;
use ringtap_sys::sched::{affinity, online_cpus, set_affinity};
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;

use super::{RINGTAP, number, rows, summary};

/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
/// Connections, and as many questions with answers.
const FLOWS: u8 = 60;
/// Packets of each direction beside the first ones.
const MORE: usize = 8;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// One sender's part before the other continues.
type Phase = Vec<Vec<u8>>;

/// Returns a frame from the client with that number, or to it.
fn frame(to: &Side, client: u8, from_client: bool, flags: Option<u8>, payload: usize) -> Vec<u8> {
    let (ports, protocol, header) = match flags {
        Some(_) => ([4000, 80], 6, 20),
        None => ([5000, 53], 17, 8),
    };
    let (own, other) = ([192, 0, 2, client], [198, 51, 100, client % 7]);
    let ends = [(own, ports[0]), (other, ports[1])];
    let (source, destination) = match from_client {
        true => (ends[0], ends[1]),
        false => (ends[1], ends[0]),
    };
    let length = u16::try_from(20 + header + payload).expect("short");
    let mut frame = to.mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend(source.0);
    frame.extend(destination.0);
    frame.extend(
        [source.1, destination.1]
            .iter()
            .flat_map(|port: &u16| port.to_be_bytes()),
    );
    match flags {
        Some(flags) => frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]),
        None => {
            frame.extend((length - 20).to_be_bytes());
            frame.extend([0, 0]);
        }
    }
    frame.resize(frame.len() + payload, 0);
    frame
}

/// Returns the packets of both senders in turn, and finally together: handshakes and requests, then data.
fn phases(to: &Side) -> [[Phase; 3]; 2] {
    let first = |from_client, flags| -> Phase {
        let all = (1..=FLOWS).flat_map(|client| {
            let question = frame(to, client, from_client, None, 10);
            [frame(to, client, from_client, Some(flags), 0), question]
        });
        all.collect()
    };
    let rest = |from_client| -> Phase {
        let each = |step: usize| {
            (1..=FLOWS).flat_map(move |client| {
                let data = frame(to, client, from_client, Some(ACK), step * 2);
                [data, frame(to, client, from_client, None, step * 3)]
            })
        };
        (0..MORE).flat_map(each).collect()
    };
    [
        [first(true, SYN), Vec::new(), rest(true)],
        [Vec::new(), first(false, SYN | ACK), rest(false)],
    ]
}

/// Returns the number of IP packets that the side's namespace has received: after the capture.
fn received(side: &Side) -> usize {
    let text = side.run(|| fs::read_to_string("/proc/thread-self/net/snmp").expect("procfs"));
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|name| name == "InReceives");
    let value = values.split(' ').nth(at.expect("it is counted"));
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}

/// Waits until this many were received; packets that never arrive are missing in the metered ones.
fn wait_until_received(side: &Side, count: usize) {
    let deadline = Instant::now() + LIMIT;
    while received(side) < count && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends from two processors; the packets of each.
fn send(pair: &VethPair) -> [usize; 2] {
    let (sender, receiver) = (&pair.left, &pair.right);
    let index = sender.namespace.netlink().index(&sender.device);
    let index = index.expect("it exists");
    let cpus = affinity().expect("it is told");
    let phases = phases(receiver);
    let totals = phases.each_ref().map(|all| all.iter().map(Vec::len).sum());
    let before = received(receiver);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for (phases, &cpu) in phases.iter().zip(cpus.as_slice()) {
            let barrier = &barrier;
            let injector = sender.run(|| Injector::open(index).expect("root"));
            let both: Vec<usize> = (0..3).map(|step| sizes(receiver, step)).collect();
            scope.spawn(move || {
                set_affinity(&[cpu]).expect("it is allowed");
                let mut sum = before;
                for (phase, size) in phases.iter().zip(both) {
                    for frame in phase {
                        injector.send(frame).expect("the end is up");
                    }
                    sum += size;
                    wait_until_received(receiver, sum);
                    barrier.wait();
                }
            });
        }
    });
    totals
}

/// Returns the packets of both senders in one phase.
fn sizes(to: &Side, step: usize) -> usize {
    phases(to).iter().map(|all| all[step].len()).sum()
}

type Row = HashMap<String, String>;

/// Meters the sent packets. Returns the summary, the records, and the packets of each sender.
fn probe(
    folder: &Path,
    engine: &str,
    options: &[&str],
) -> (serde_json::Value, Vec<Row>, [usize; 2]) {
    let pair = VethPair::new();
    let receiver = &pair.right;
    let records = folder.join("records.csv");
    let mut command: Command = receiver.namespace.command(RINGTAP);
    command.args(["flow", "--json-stats", "--top", "0", "-Q", "in", "-i"]);
    command.arg(format!("{engine}:{}", receiver.device));
    command.arg("-w").arg(&records).args(options).arg("ip");
    command.stdout(Stdio::null());
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_capturing(receiver, LIMIT)
        .expect("it captures");
    let sent = send(&pair);
    running.signal("INT").expect("it runs");
    let output = running.wait(LIMIT).expect("it ends");
    assert!(output.status.success());
    let summary = summary(&output);
    let all: usize = sent.iter().sum();
    assert_eq!(number(&summary["metered"]), all as u64, "{summary}");
    assert_eq!(number(&summary["dropped"]["ring"]), 0, "{summary}");
    (summary, rows(&records), sent)
}

/// Returns the fields that do not depend on when packets came.
fn totals(rows: &[Row]) -> Vec<Vec<String>> {
    const NAMES: [&str; 8] = [
        "src",
        "dst",
        "src_port",
        "dst_port",
        "protocol",
        "packets",
        "bytes",
        "tcp_flags",
    ];
    let row = |row: &Row| NAMES.map(|name| row[name].clone()).to_vec();
    let mut totals: Vec<_> = rows.iter().map(row).collect();
    totals.sort_unstable();
    totals
}

pub(crate) fn meet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, alone, _) = probe(folder.path(), "tcx", &[]);
    assert_eq!(one["readers"].as_array().map(Vec::len), Some(1), "{one}");
    assert_eq!(alone.len(), 4 * usize::from(FLOWS));
    // A reader for each ring; there is one per processor.
    let rings = online_cpus().expect("they are told").as_slice().len();
    let rings = rings.min(256).to_string();
    for (engine, threads) in [("tcx", &*rings), ("packet", "2")] {
        let (several, rows, sent) = probe(folder.path(), engine, &["--threads", threads]);
        assert_eq!(totals(&rows), totals(&alone), "{engine}");
        let readers: Vec<_> = several["readers"].as_array().expect("told").clone();
        if engine == "tcx" {
            let mut readers: Vec<_> = readers.iter().map(number).collect();
            readers.sort_unstable();
            let mut sent = sent.map(|count| count as u64);
            sent.sort_unstable();
            assert!(readers.ends_with(&sent), "{several}");
        } else {
            assert_eq!(readers.len(), 2, "{several}");
        }
    }
    let (summary, rows, _) = probe(
        folder.path(),
        "tcx",
        &["--threads", "2", "--biflow", "--tcp"],
    );
    assert_eq!(rows.len(), 2 * usize::from(FLOWS), "{summary}");
    let packets = (MORE + 1).to_string();
    for row in &rows {
        // The client was first, on whichever processor.
        assert!(["80", "53"].contains(&&*row["dst_port"]), "{row:?}");
        assert_eq!(
            (&row["packets"], &row["reverse_packets"]),
            (&packets, &packets)
        );
        let is_tcp = row["protocol"] == "6";
        for measure in ["server_rtt_ns", "client_rtt_ns"] {
            assert_eq!(!row[measure].is_empty(), is_tcp, "{row:?}");
        }
    }
}

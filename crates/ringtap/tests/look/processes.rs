//! `ringtap web --who`: the processes with most traffic, and those at the ends of a flow.

use std::net::{SocketAddr, UdpSocket};

use ringtap_testkit::netns::VethPair;
use serde_json::Value;

use crate::LIMIT;
use crate::client::Server;
use crate::web::count;

/// Datagrams in each direction.
pub(crate) const DATAGRAMS: u32 = 50;

/// Rows of processes have exactly what the totals and the summary have, where one process has all traffic.
pub(crate) fn live() {
    let pair = VethPair::new();
    let device = &pair.left.device;
    let arguments = ["-i", device, "--who", "--json-stats", "udp port 7000"];
    let server = Server::start(&pair.left.namespace, &arguments);
    exchange(&pair);
    let status = server.wait("all packets", |status| {
        count(status, "/totals/packets") == u64::from(2 * DATAGRAMS)
    });
    assert_eq!(status["has_processes"], true);
    let listed = || server.get("/api/v1/top?of=processes&window=all").json();
    let rows = |top: &Value| top["rows"].as_array().expect("rows").clone();
    server.wait_for("all packets of the process", || {
        let rows = rows(&listed());
        rows.first()
            .is_some_and(|row| count(row, "/packets") == u64::from(2 * DATAGRAMS))
    });
    let rows = rows(&listed());
    let [row] = &rows[..] else {
        panic!("one process: {rows:?}");
    };
    let pid = std::process::id();
    let key = row["key"].as_str().expect("a key");
    assert_eq!(key.split('@').next(), Some(&*pid.to_string()));
    let comm = std::fs::read_to_string("/proc/self/comm").expect("a name");
    assert_eq!(row["name"], comm.trim_end());
    assert_eq!(count(row, "/bytes"), count(&status, "/totals/bytes"));
    assert_eq!(count(row, "/bytes_out"), u64::from(DATAGRAMS) * (28 + 8));
    assert_eq!(count(row, "/flows"), 1);
    let filtered = server
        .get("/api/v1/top?of=processes&window=all&filter=udp")
        .json();
    assert_eq!(filtered["rows"][0]["key"], key, "{filtered}");
    let flow = server.get("/api/v1/flows").json()["flows"][0].clone();
    let process = &flow["source_process"];
    assert_eq!(
        (count(process, "/pid"), &process["key"]),
        (pid.into(), &row["key"])
    );
    assert!(
        process["cgroup"]
            .as_str()
            .is_some_and(|path| path.starts_with('/'))
    );
    let id = flow["id"].as_str().expect("an id");
    let detail = server.get(&format!("/api/v1/flows/{id}")).json();
    let fields = detail["fields"].as_array().expect("fields");
    let found = fields.iter().find(|field| field["name"] == "src_pid");
    assert_eq!(found.expect("a number")["value"], pid.to_string());
    // Processes are no labels.
    let metrics = server.get("/metrics").text();
    assert!(!metrics.contains(&pid.to_string()), "{metrics}");
    let said = server.stop();
    let summary = said.lines().find(|line| line.starts_with('{'));
    let summary: Value = serde_json::from_str(summary.expect("a summary")).expect("JSON");
    assert_eq!(count(&summary, "/bytes"), count(row, "/bytes"));
    assert_eq!(count(&summary, "/packets"), count(row, "/packets"));
}

/// Sends datagrams from the left side to the right one, and back.
pub(crate) fn exchange(pair: &VethPair) {
    let to = SocketAddr::from((pair.right.ipv4, 7000));
    let there = pair.right.run(|| UdpSocket::bind(to).expect("a socket"));
    let own = SocketAddr::from((pair.left.ipv4, 0));
    let here = pair.left.run(|| UdpSocket::bind(own).expect("a socket"));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    }
    for _ in 0..DATAGRAMS {
        here.send_to(b"question", to).expect("sent");
        let (_, from) = there.recv_from(&mut [0; 64]).expect("a question");
        there.send_to(b"an answer", from).expect("sent");
        here.recv_from(&mut [0; 64]).expect("an answer");
    }
}

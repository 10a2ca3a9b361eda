//! `ringtap dump --who`: the process of each packet, live and read back. Clients write their own number into their
//! packets, so that each packet says who sent it.

mod captured;
mod closed;
mod containers;
mod filters;
mod flows;
mod ipv6;
mod pods;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::{Need, Test, repetitions, suite, test};

use captured::{Captured, Capturing, LIMIT, RINGTAP, Seen};

const PYTHON: Need = Need::Tool("python3");
/// A kernel in which the taps work: they find the processes.
const TAP: Need = Need::Kernel(5, 12);
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/who/clients.py");
const PORT: u16 = 7000;

fn main() -> ExitCode {
    let live = &[Need::Root, TAP, Need::InitialPids, PYTHON];
    let uring = &[Need::Root, TAP, Need::InitialPids, PYTHON, Need::IoUring];
    let mut tests = vec![
        test("processes_that_exit_at_once", live, short_lived).serial(),
        test("datagrams_with_and_without_connection", live, datagrams),
        test("a_socket_passed_to_another_process", live, passed),
        test("a_worker_that_accepts", live, accepting_worker),
        test("a_worker_forked_after_accept", live, forking_worker),
        test("several_sockets_of_one_port", live, reuse_port),
        test("a_file_sent_by_the_kernel", live, send_file),
        test("sockets_of_io_uring", uring, ring),
        test("raw_sockets_and_echo_requests", live, raw),
        test("frames_of_packet_sockets", live, frames),
        test("sockets_that_existed_before", live, held),
        test("loopback_names_the_receiver", live, loopback),
        test(
            "forwarded_datagrams_are_nobody_s",
            &[Need::Root, TAP, Need::InitialPids, PYTHON, Need::Tool("ip")],
            forwarded,
        ),
        test("only_what_was_chosen_is_recorded", live, chosen),
        test("later_files_describe_processes_too", live, rotated),
        test("programs_go_with_the_process", live, gone),
        test(
            "other_programs_read_the_file",
            &[
                Need::Root,
                TAP,
                PYTHON,
                Need::Tool("tcpdump"),
                Need::Tool("tshark"),
            ],
            others,
        ),
        test("packets_after_the_end_of_a_connection", live, closed::late),
        test("ipv6_connections_and_datagrams", live, ipv6::exchanges).serial(),
        test("sockets_of_both_versions", live, ipv6::both_versions),
        test("filters_of_ipv6", live, ipv6::filtered),
    ];
    tests.extend(views());
    tests.extend(containers());
    suite(tests)
}

/// Tests of filters, flows and options.
fn views() -> Vec<Test> {
    let live = &[Need::Root, TAP, Need::InitialPids, PYTHON];
    vec![
        test(
            "filters_live_and_on_files",
            &[
                Need::Root,
                TAP,
                Need::InitialPids,
                PYTHON,
                Need::ControlGroups,
            ],
            filters::live_and_on_files,
        ),
        test("filters_of_received_packets", live, filters::received),
        test(
            "filters_ask_for_what_is_recorded",
            &[Need::Root],
            filters::refused,
        ),
        test("flows_name_the_process_that_sent", live, flows::senders).serial(),
        test(
            "flows_name_the_process_that_answers",
            live,
            flows::receivers,
        ),
        test("flows_on_loopback_name_both", live, flows::both_ends),
        test(
            "flows_of_nobody_name_nobody",
            live,
            flows::unknown_and_chosen,
        ),
        test("what_cannot_be_is_refused", &[Need::Root], refused),
    ]
}

/// Tests with containers.
fn containers() -> Vec<Test> {
    vec![
        test(
            "containers_are_found_by_their_groups",
            &[Need::Root, TAP, Need::InitialPids, Need::ControlGroups],
            containers::by_group,
        ),
        test(
            "pods_on_a_bridge_name_their_containers",
            &[
                Need::Root,
                TAP,
                Need::InitialPids,
                Need::ControlGroups,
                Need::Tool("ip"),
                Need::Tool("ping"),
            ],
            pods::on_the_bridge,
        ),
        test(
            "containers_of_podman_are_entered_by_name",
            &[
                Need::Root,
                TAP,
                Need::InitialPids,
                Need::ControlGroups,
                Need::Tool("podman"),
                Need::Tool("runc"),
                Need::Tool("ping"),
            ],
            containers::by_name,
        ),
    ]
}

/// A process of the clients' script.
struct Client {
    child: Child,
    /// Its number, if it has said that it is ready.
    pid: u32,
    input: Option<ChildStdin>,
}

impl Client {
    /// Starts a process that says when it is ready.
    fn start(side: &Side, arguments: &[&str]) -> Self {
        let mut command = side.namespace.command("python3");
        command.arg(CLIENTS).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let output = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        let told = BufReader::new(output).read_line(&mut line);
        told.expect("a line");
        let pid = line.trim().strip_prefix("ready ").expect("ready");
        Self {
            input: child.stdin.take(),
            pid: pid.parse().expect("a number"),
            child,
        }
    }

    fn tell(&mut self) {
        let input = self.input.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("written");
    }

    /// Ends the process's input, and waits for its end.
    fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}");
    }
}

/// Runs a process of the clients' script to its end.
fn run(side: &Side, arguments: &[&str]) {
    let mut all = vec![CLIENTS];
    all.extend_from_slice(arguments);
    side.namespace.output("python3", &all);
}

fn address(side: &Side, port: u16) -> (String, String) {
    (side.ipv4.to_string(), port.to_string())
}

/// Accepts this number of connections, answers each after its first bytes, and reads them to their end.
fn serve(side: &Side, connections: usize) -> thread::JoinHandle<()> {
    serve_at(side, side.ipv4.into(), connections)
}

fn serve_at(side: &Side, address: IpAddr, connections: usize) -> thread::JoinHandle<()> {
    let at = SocketAddr::from((address, PORT));
    let listener = side.run(|| TcpListener::bind(at).expect("a listening socket"));
    thread::spawn(move || {
        for _ in 0..connections {
            let (mut connection, _) = listener.accept().expect("a connection");
            let read = connection.read(&mut [0; 64]).expect("first bytes");
            if read > 0 {
                // The client may be gone.
                let _ = connection.write_all(b"ok");
            }
            let _ = connection.read_to_end(&mut Vec::new());
        }
    })
}

/// Asserts that each packet whose sender is known from its payload names that process.
fn assert_senders(captured: &Captured, expected: usize) {
    let mut found = 0;
    for seen in captured.packets.iter().filter(|seen| seen.is_sent) {
        let Some(claimed) = seen.claimed else {
            continue;
        };
        assert_eq!(seen.pid, Some(claimed), "{seen:?}");
        found += 1;
    }
    assert_eq!(found, expected, "{:?}", captured.packets);
}

fn short_lived() {
    let pair = VethPair::new();
    connect_and_exit(&pair, pair.right.ipv4.into());
}

/// Connects processes of the left side to an address of the right one.
fn connect_and_exit(pair: &VethPair, address: IpAddr) {
    let count = repetitions(300);
    let server = serve_at(&pair.right, address, count as usize);
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port, times) = (address.to_string(), PORT.to_string(), count.to_string());
    run(&pair.left, &["short_lived", &address, &port, &times]);
    server.join().expect("served");
    let captured = capturing.finish();
    assert_senders(&captured, count as usize);
    // Every other packet belongs to the process of its connection. A port may be used again after a reset.
    let mut owners: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for seen in captured.packets.iter().filter(|seen| seen.is_sent) {
        if let (Some(port), Some(pid)) = (seen.local_port(), seen.claimed) {
            owners.entry(port).or_default().push(pid);
        }
    }
    let (mut named, mut unknown) = (0, Vec::new());
    for seen in &captured.packets {
        let owners = seen.local_port().and_then(|port| owners.get(&port));
        match (seen.pid, owners) {
            // The receiver was not found: the server, which has sent it, is named instead.
            (Some(pid), Some(_)) if seen.is_from_sender => {
                assert_eq!(pid, std::process::id(), "{seen:?}");
                unknown.push(seen);
            }
            (Some(pid), Some(owners)) => {
                assert!(owners.contains(&pid), "{owners:?}: {seen:?}");
                named += 1;
            }
            (None, Some(_)) => unknown.push(seen),
            (pid, None) => assert_eq!(pid, None, "{seen:?}"),
        }
    }
    assert!(
        unknown.len() * 1000 <= named,
        "{named} named, unknown: {unknown:?}"
    );
    // Only processes whose packets were captured are described, and each is.
    let described: Vec<u32> = captured.described.keys().copied().collect();
    let mut expected: Vec<u32> = owners.into_values().flatten().collect();
    expected.sort_unstable();
    assert_eq!(described, expected);
    let texts = captured.described.values();
    assert!(
        texts.clone().all(|text| text.contains("clients.py")),
        "{texts:?}"
    );
}

fn datagrams() {
    let pair = VethPair::new();
    exchange_datagrams(&pair, pair.right.ipv4.into());
}

/// Sends datagrams of the left side to an address of the right one, and back.
fn exchange_datagrams(pair: &VethPair, address: IpAddr) {
    let at = SocketAddr::from((address, PORT));
    let server = pair.right.run(|| UdpSocket::bind(at).expect("a socket"));
    let echo = thread::spawn(move || {
        for _ in 0..2 {
            let mut buffer = [0; 64];
            let (length, from) = server.recv_from(&mut buffer).expect("a datagram");
            server.send_to(&buffer[..length], from).expect("sent");
        }
    });
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port) = (address.to_string(), PORT.to_string());
    run(&pair.left, &["datagrams", &address, &port]);
    echo.join().expect("answered");
    let captured = capturing.finish();
    assert_senders(&captured, 2);
    // The answers hold the number of their receiver.
    let answers = captured.packets.iter().filter(|seen| !seen.is_sent);
    let answers: Vec<&Seen> = answers.filter(|seen| seen.claimed.is_some()).collect();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer.pid, answer.claimed, "{answer:?}");
    }
}

fn passed() {
    let pair = VethPair::new();
    let server = serve(&pair.right, 1);
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["passed", &address, &port]);
    server.join().expect("served");
    let captured = capturing.finish();
    let senders = captured.senders();
    assert_eq!(senders.len(), 2, "{senders:?}");
    // Before Linux 6.16, or where functions cannot be traced, a passed socket is noticed after its first use.
    if captured.is_exact() {
        assert_senders(&captured, 2);
    }
}

/// Connects to a process of the left side, and returns what it sent.
fn ask(pair: &VethPair) -> String {
    let to = SocketAddr::from((pair.left.ipv4, PORT));
    let mut connection = pair
        .right
        .run(|| TcpStream::connect(to).expect("a connection"));
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

fn accepting_worker() {
    accepted_by("accepting_worker");
}

fn forking_worker() {
    accepted_by("forking_worker");
}

fn accepted_by(script: &str) {
    let pair = VethPair::new();
    let (address, port) = address(&pair.left, PORT);
    let capturing = Capturing::start(&pair.left, &[]);
    let client = Client::start(&pair.left, &[script, &address, &port]);
    let parent = client.pid;
    let answer = ask(&pair);
    client.end();
    let captured = capturing.finish();
    assert!(!answer.contains(&format!("pid={parent};")), "{answer}");
    if captured.is_exact() {
        assert_senders(&captured, 1);
    }
    // A request for a connection belongs to the process that listens.
    let request = captured.packets.iter().find(|seen| seen.listens);
    let request = request.expect("a request");
    assert_eq!(request.pid, Some(parent), "{request:?}");
}

fn reuse_port() {
    let pair = VethPair::new();
    let (address, port) = address(&pair.left, PORT);
    let capturing = Capturing::start(&pair.left, &[]);
    let start = || Client::start(&pair.left, &["reuse_port", &address, &port]);
    let servers = [start(), start()];
    let to = SocketAddr::from((pair.left.ipv4, PORT));
    for _ in 0..30 {
        let own = SocketAddr::from((pair.right.ipv4, 0));
        let socket = pair.right.run(|| UdpSocket::bind(own).expect("a socket"));
        socket.send_to(b"who?", to).expect("sent");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        socket.recv(&mut [0; 64]).expect("an answer");
    }
    for server in servers {
        server.end();
    }
    let captured = capturing.finish();
    assert_senders(&captured, 30);
    let answered: BTreeMap<u16, u32> = captured
        .packets
        .iter()
        .filter_map(|seen| Some((seen.remote_port()?, seen.claimed?)))
        .collect();
    assert!(answered.len() > 20, "ports differ");
    let asked = captured.packets.iter().filter(|seen| !seen.is_sent);
    for seen in asked {
        let answered_by = seen.remote_port().and_then(|port| answered.get(&port));
        assert_eq!(seen.pid.as_ref(), answered_by, "{seen:?}");
    }
}

fn send_file() {
    let pair = VethPair::new();
    let server = serve(&pair.right, 1);
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["send_file", &address, &port]);
    server.join().expect("served");
    assert_senders(&capturing.finish(), 1);
}

fn ring() {
    let pair = VethPair::new();
    let at = SocketAddr::from((pair.right.ipv4, PORT));
    let server = pair.right.run(|| UdpSocket::bind(at).expect("a socket"));
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["ring", &address, &port]);
    server.set_read_timeout(Some(LIMIT)).expect("a socket");
    for _ in 0..4 {
        server.recv(&mut [0; 64]).expect("a datagram");
    }
    let captured = capturing.finish();
    assert_senders(&captured, 4);
}

fn raw() {
    let pair = VethPair::new();
    let range = pair
        .left
        .namespace
        .set_sysctl("net/ipv4/ping_group_range", "0 2147483647");
    range.expect("echo requests are allowed");
    let capturing = Capturing::start(&pair.left, &[]);
    let address = pair.right.ipv4.to_string();
    run(&pair.left, &["raw", &address]);
    run(&pair.left, &["ping", &address]);
    let captured = capturing.finish();
    assert_senders(&captured, 2);
    // Answers have no ports, by which a socket could be found: they are unknown.
    for answer in captured.packets.iter().filter(|seen| !seen.is_sent) {
        assert_eq!(answer.pid, None, "{answer:?}");
    }
}

fn frames() {
    let pair = VethPair::new();
    let capturing = Capturing::start(&pair.left, &[]);
    run(&pair.left, &["frames", &pair.left.device]);
    let captured = capturing.finish();
    let mut claimed = captured
        .packets
        .iter()
        .filter(|seen| seen.claimed.is_some());
    let first = claimed.next().expect("a frame");
    // Where functions cannot be traced, the first packet is unknown: control groups see no packet sockets.
    if captured.is_by_function() {
        assert_eq!(first.pid, first.claimed);
    } else {
        assert!(first.pid.is_none() || first.pid == first.claimed);
    }
    let rest: Vec<&Seen> = claimed.collect();
    assert_eq!(rest.len(), 2);
    for seen in rest.iter().filter(|_| Need::Kernel(6, 3).unmet().is_none()) {
        assert_eq!(seen.pid, seen.claimed, "{seen:?}");
    }
}

fn held() {
    let pair = VethPair::new();
    let at = SocketAddr::from((pair.right.ipv4, PORT));
    let listener = pair.right.run(|| TcpListener::bind(at).expect("a socket"));
    let (address, port) = address(&pair.right, PORT);
    let mut client = Client::start(&pair.left, &["holder", &address, &port]);
    let (mut connection, _) = listener.accept().expect("a connection");
    let capturing = Capturing::start(&pair.left, &[]);
    // The process has not used its socket yet.
    connection.write_all(b"first").expect("sent");
    capturing.wait_for_packets(1);
    client.tell();
    connection.read_exact(&mut [0; 4]).expect("its number");
    let pid = client.pid;
    client.end();
    let captured = capturing.finish();
    assert!(captured.packets.iter().all(|seen| seen.pid == Some(pid)));
    assert!(captured.packets[0].is_held, "{:?}", captured.packets[0]);
    let last = captured.packets.iter().rfind(|seen| seen.claimed.is_some());
    assert!(!last.expect("its number").is_held);
}

fn loopback() {
    let pair = VethPair::new();
    let here = Ipv4Addr::LOCALHOST.to_string();
    let capturing = Capturing::start_on(&pair.left, "lo", &[]);
    let port = PORT.to_string();
    let server = Client::start(&pair.left, &["answers", &here, &port]);
    let served_by = server.pid;
    run(&pair.left, &["asks", &here, &port]);
    server.end();
    let captured = capturing.finish();
    let sent: Vec<&Seen> = captured
        .packets
        .iter()
        .filter(|seen| seen.claimed.is_some())
        .collect();
    assert_eq!(sent.len(), 2);
    // The question goes to the server, the answer to the client.
    assert_eq!(sent[0].pid, Some(served_by));
    assert_eq!(
        (sent[1].pid, sent[1].claimed),
        (sent[0].claimed, Some(served_by))
    );
}

fn forwarded() {
    let pair = VethPair::new();
    let there = &pair.right;
    there
        .namespace
        .set_sysctl("net/ipv4/ip_forward", "1")
        .expect("forwarding");
    there.namespace.output(
        "ip",
        &["route", "add", "10.98.0.0/24", "dev", &there.device],
    );
    let via = there.ipv4.to_string();
    pair.left
        .namespace
        .output("ip", &["route", "add", "10.98.0.0/24", "via", &via]);
    let server = Client::start(there, &["wildcard", "5353"]);
    let capturing = Capturing::start(there, &["--direction", "in"]);
    let own = SocketAddr::from((pair.left.ipv4, 0));
    let socket = pair.left.run(|| UdpSocket::bind(own).expect("a socket"));
    socket
        .send_to(b"to another host", ("10.98.0.7", 5353))
        .expect("sent");
    socket
        .send_to(b"to this host", (there.ipv4, 5353))
        .expect("sent");
    capturing.wait_for_packets(2);
    let pid = server.pid;
    server.end();
    let captured = capturing.finish();
    let datagrams = captured
        .packets
        .iter()
        .filter(|seen| seen.local_port() == Some(5353));
    let named: Vec<_> = datagrams
        .map(|seen| (seen.pid, seen.is_from_sender))
        .collect();
    // The first only shows its sender, whose socket came through the cable.
    assert_eq!(
        named,
        [(Some(std::process::id()), true), (Some(pid), false)]
    );
}

fn chosen() {
    let pair = VethPair::new();
    let server = serve(&pair.right, 1);
    let capturing = Capturing::start(&pair.left, &["--who=pid,comm"]);
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["short_lived", &address, &port, "1"]);
    server.join().expect("served");
    let captured = capturing.finish();
    assert_senders(&captured, 1);
    assert!(captured.described.values().all(String::is_empty));
    let file = captured.file.clone();
    let has = |text: &[u8]| file.windows(text.len()).any(|part| part == text);
    assert!(!has(b"clients.py"), "a command line was recorded");
    assert!(has(b"python3"), "the name was recorded");
}

fn rotated() {
    let pair = VethPair::new();
    let server = serve(&pair.right, 40);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("part.pcapng");
    let mut command = pair.left.namespace.command(RINGTAP);
    command
        .args(["dump", "-i", &pair.left.device, "--who", "-C", "20K", "-w"])
        .arg(&file);
    let mut running =
        ringtap_testkit::process::Running::start_piped(&mut command).expect("ringtap");
    running
        .wait_until_capturing(&pair.left, LIMIT)
        .expect("capturing");
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["short_lived", &address, &port, "40"]);
    server.join().expect("served");
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    assert!(output.status.success(), "{output:?}");
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    let mut files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() > 2, "{files:?}");
    for file in &files {
        let captured = captured::read(file);
        for seen in captured
            .packets
            .iter()
            .filter(|seen| seen.claimed.is_some())
        {
            let pid = seen.pid.expect("named");
            let described = captured.described.get(&pid).map(String::as_str);
            assert!(
                described.is_some_and(|text| text.contains("clients.py")),
                "{pid} in {file:?}"
            );
        }
    }
}

fn gone() {
    let pair = VethPair::new();
    let capturing = Capturing::start(&pair.left, &[]);
    let programs = capturing.programs();
    assert!(programs.len() > 2, "{programs:?}");
    capturing.kill();
    let kernel = ringtap_sys::bpf::Kernel::running();
    let until = Instant::now() + LIMIT;
    for program in programs {
        while ringtap_sys::bpf::Link::holding(&kernel, program)
            .expect("links")
            .is_some()
        {
            assert!(
                Instant::now() < until,
                "program {program} is still attached"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
    let pinned = Path::new("/sys/fs/bpf").read_dir().into_iter().flatten();
    let names = pinned.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(names.filter(|name| name.contains("ringtap")).count() == 0);
}

fn others() {
    let pair = VethPair::new();
    let server = serve(&pair.right, 3);
    let capturing = Capturing::start(&pair.left, &[]);
    let (address, port) = address(&pair.right, PORT);
    run(&pair.left, &["short_lived", &address, &port, "3"]);
    server.join().expect("served");
    let captured = capturing.finish();
    let file = captured.path.to_str().expect("a name");
    let lines = |program: &str, arguments: &[&str]| {
        let output = pair.left.namespace.output(program, arguments);
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    let packets = captured.packets.len();
    assert_eq!(lines("tcpdump", &["-nr", file]), packets);
    assert_eq!(lines("tshark", &["-r", file, "-Y", "eth"]), packets);
    // Wireshark shows the blocks that describe processes among the packets.
    let blocks = lines("tshark", &["-r", file, "-Y", "!eth"]);
    assert_eq!(blocks, captured.blocks);
}

fn refused() {
    let pair = VethPair::new();
    let told = |arguments: &[&str]| {
        let mut command = pair.left.namespace.command(RINGTAP);
        let output = command
            .arg("dump")
            .args(arguments)
            .output()
            .expect("ringtap");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for engine in ["packet", "xdp"] {
        let device = format!("{engine}:{}", pair.left.device);
        let text = told(&["-i", &device, "--who", "-c", "1"]);
        let expected = format!("engine {engine} cannot find the process of a packet, tcx can");
        assert!(text.contains(&expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let device = &pair.left.device;
    let text = told(&["-i", device, "--who", "-w", "/tmp/never.pcap"]);
    assert!(text.contains("write a pcapng file"), "{text}");
    let text = told(&[
        "-i",
        device,
        "--who",
        "--threads",
        "2",
        "-w",
        "/tmp/never.pcapng",
    ]);
    assert!(text.contains("--threads"), "{text}");
    let text = told(&["-i", device, "--who=environment"]);
    assert!(
        text.contains("pid, comm, uid, cmdline and cgroup"),
        "{text}"
    );
}

//! PCAP over IP: a capture that serves clients, ringtap and tshark among them, and servers that are read.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};
use ringtap_testkit::{Need, Test, make_certificates, test};

use crate::program::{
    LIMIT, RINGTAP, bytes, capturing, dump, dump_live, figure, finished, frames, interrupted,
    stderr, succeeded,
};

/// The port of the tests, each of which has a namespace of its own.
const LISTEN: &str = "tcp-listen:57012";
const SERVER: &str = "tcp:127.0.0.1:57012";

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Root, Need::Tool("tcpreplay")];
    let tshark = [Need::Root, Need::Tool("tcpreplay"), Need::Tool("tshark")];
    let openssl = [Need::Root, Need::Tool("tcpreplay"), Need::Tool("openssl")];
    vec![
        test("invalid_addresses_are_usage_errors", &[], invalid),
        test("pcap_of_another_server_is_read", &[], other_server),
        test("a_capture_is_read_by_another_ringtap", &needs, both_sides),
        test("a_capture_is_read_by_tshark", &tshark, wireshark),
        test("clients_with_certificates_are_served", &openssl, tls),
        test(
            "a_client_that_never_reads_loses_packets_alone",
            &needs,
            never_reads,
        ),
    ]
}

fn invalid() {
    let usage: [&[&str]; 11] = [
        &["-r", "tls:127.0.0.1:5"],
        &["-w", "tls-listen:5,cert=x"],
        &["-r", "tcp:host"],
        &["-r", "tcp:::1:5"],
        &["-w", "tcp-listen:host:5"],
        &["-w", "tcp-listen:"],
        &["-r", "x.pcap", "-w", LISTEN],
        &["-w", LISTEN, "--format", "pcap"],
        &["-w", LISTEN, "--compress", "zstd"],
        &["-w", LISTEN, "-C", "1"],
        &["-w", LISTEN, "--who"],
    ];
    for words in usage {
        let output = finished(dump().args(words));
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("tcp"),
            "{words:?}: {}",
            stderr(&output)
        );
    }
    // A port that nobody listens on: this listener has it, but is closed.
    let closed = TcpListener::bind("127.0.0.1:0")
        .and_then(|it| it.local_addr())
        .expect("a port");
    let output = finished(dump().args(["-r", &format!("tcp:{closed}")]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("refused"), "{}", stderr(&output));
}

fn other_server() {
    let (folder, path) = Traffic::file_of(300);
    let copy = folder.path().join("copy.pcap");
    for command in ["dump", "flow"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let name = format!("tcp:{}", listener.local_addr().expect("an address"));
        let pcap = bytes(&path);
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            client.write_all(&pcap).expect("a client that reads");
        });
        let mut ringtap = Command::new(RINGTAP);
        ringtap.args([command, "-r", &name]);
        if command == "dump" {
            ringtap.arg("-w").arg(&copy);
        }
        let output = succeeded(finished(&mut ringtap));
        server.join().expect("the server ends");
        assert!(stderr(&output).contains("300"), "{}", stderr(&output));
    }
    assert_eq!(frames(&bytes(&copy)), frames(&bytes(&path)));
}

/// Starts a capture that serves clients.
fn serving(side: &Side) -> Running {
    side.namespace.output("ip", &["link", "set", "lo", "up"]);
    capturing(dump_live(side).args(["-U", "-w", LISTEN]), side)
}

/// Starts a reader and returns it when it has the start of the stream.
fn reading(side: &Side, file: &std::path::Path) -> Running {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["dump", "-r", SERVER, "-w"]).arg(file);
    Running::start_piped(&mut command).expect("ringtap starts")
}

/// Returns a connection from inside the namespace that has got the start of the stream.
fn connected(side: &Side) -> TcpStream {
    side.run(|| {
        let mut stream = TcpStream::connect("127.0.0.1:57012").expect("a connection");
        stream.read_exact(&mut [0; 4]).expect("the stream's start");
        stream
    })
}

fn both_sides() {
    let (folder, path) = Traffic::file_of(500);
    let copy = folder.path().join("copy.pcap");
    let pair = VethPair::new();
    let server = serving(&pair.right);
    let left = connected(&pair.right);
    let reader = reading(&pair.right, &copy);
    wait_for_clients(&pair.right, 2);
    drop(left);
    Replay::new(path.clone(), Rate::Pps(5_000)).run(&pair.left);
    let server = interrupted(server);
    succeeded(reader.wait(LIMIT).expect("the reader ends with the server"));
    assert_eq!(frames(&bytes(&copy)), frames(&bytes(&path)));
    let told = stderr(&server);
    assert_eq!(figure(&told, "packets captured"), Some(500), "{told}");
    assert!(
        told.contains(": 500 packets sent, 0 packets lost"),
        "{told}"
    );
}

fn wireshark() {
    let (_folder, path) = Traffic::file_of(200);
    let pair = VethPair::new();
    let server = serving(&pair.right);
    let mut command = pair.right.namespace.command("tshark");
    command.args([
        "-i",
        "TCP@127.0.0.1:57012",
        "-c",
        "200",
        "-T",
        "fields",
        "-e",
        "frame.len",
    ]);
    let tshark = Running::start_piped(command.stdin(Stdio::null())).expect("tshark starts");
    wait_for_clients(&pair.right, 1);
    Replay::new(path, Rate::Pps(2_000)).run(&pair.left);
    let shown = succeeded(tshark.wait(LIMIT).expect("tshark has all packets"));
    let lines = shown.stdout.split(|&byte| byte == b'\n');
    assert_eq!(
        lines.filter(|line| !line.is_empty()).count(),
        200,
        "{}",
        stderr(&shown)
    );
    interrupted(server);
}

/// Returns the name of the server with TLS, for a client with this certificate.
fn encrypted(folder: &Path, authority: &str, client: Option<&str>) -> String {
    let file = |name: &str, ending: &str| format!("{}/{name}.{ending}", folder.display());
    let own = client.map_or(String::new(), |name| {
        format!(",cert={},key={}", file(name, "pem"), file(name, "key"))
    });
    format!("tls:127.0.0.1:57012,ca={}{own}", file(authority, "pem"))
}

/// Reads from a server into a file.
fn read_from(side: &Side, name: &str, file: &Path) -> Running {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["dump", "-r", name, "-w"]).arg(file);
    Running::start_piped(&mut command).expect("ringtap starts")
}

/// Clients of a server that serves none without a certificate of its authority: three that it refuses, more that
/// never speak than it serves, then ringtap and openssl.
fn tls() {
    let (folder, path) = Traffic::file_of(400);
    let folder = folder.path();
    make_certificates(folder);
    let pair = VethPair::new();
    let side = &pair.right;
    side.namespace.output("ip", &["link", "set", "lo", "up"]);
    let place = folder.display();
    let own = format!("cert={place}/server.pem,key={place}/server.key");
    let listen = format!("tls-listen:57012,{own},client-ca={place}/ca.pem");
    let server = capturing(dump_live(side).args(["-U", "-w", &listen]), side);
    for (authority, client, reason) in [
        ("other", Some("client"), "UnknownIssuer"),
        ("ca", Some("stranger"), "UnknownCA"),
        ("ca", None, "CertificateRequired"),
    ] {
        let wrong = encrypted(folder, authority, client);
        let reader = read_from(side, &wrong, &folder.join("never.pcap"));
        let output = reader.wait(LIMIT).expect("an end");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{wrong}: {said}");
    }
    let connect = || TcpStream::connect("127.0.0.1:57012").expect("a connection");
    let silent: Vec<TcpStream> = side.run(|| (0..40).map(|_| connect()).collect());
    let copies = ["ringtap.pcap", "openssl.pcapng"].map(|name| folder.join(name));
    let reader = read_from(side, &encrypted(folder, "ca", Some("client")), &copies[0]);
    let mut openssl = side.namespace.command("openssl");
    openssl.args(["s_client", "-quiet", "-connect", "127.0.0.1:57012"]);
    openssl.args(["-verify_return_error", "-CAfile", "ca.pem"]);
    openssl.args(["-cert", "client.pem", "-key", "client.key"]);
    let into = std::fs::File::create(&copies[1]).expect("a file");
    openssl
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(into);
    let openssl = Running::start(openssl.stderr(Stdio::piped())).expect("openssl starts");
    // Each has the start of the stream: ringtap opens its file then, openssl writes it.
    let has_begun = || copies[0].exists() && copies[1].metadata().is_ok_and(|file| file.len() > 0);
    while !has_begun() {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    Replay::new(path.clone(), Rate::Pps(5_000)).run(&pair.left);
    let told = stderr(&interrupted(server));
    drop(silent);
    succeeded(reader.wait(LIMIT).expect("the reader ends with the server"));
    openssl.wait(LIMIT).expect("openssl ends with the server");
    let same = folder.join("same.pcap");
    succeeded(finished(
        dump().arg("-r").arg(&copies[1]).arg("-w").arg(&same),
    ));
    for copy in [&copies[0], &same] {
        assert_eq!(frames(&bytes(copy)), frames(&bytes(&path)));
    }
    let served = told.matches(": 400 packets sent, 0 packets lost").count();
    assert_eq!(served, 2, "{told}");
    assert!(told.contains("3 clients refused by TLS"), "{told}");
    assert_eq!(told.matches(": refused: ").count(), 1, "{told}");
}

fn never_reads() {
    const PACKETS: u64 = 30_000;
    let (folder, path) = Traffic::file_of(PACKETS);
    let copy = folder.path().join("copy.pcap");
    let pair = VethPair::new();
    let server = serving(&pair.right);
    let silent = connected(&pair.right);
    let reader = reading(&pair.right, &copy);
    wait_for_clients(&pair.right, 2);
    let replay = Replay::new(path, Rate::Pps(20_000));
    for _ in 0..2 {
        replay.run(&pair.left);
    }
    let server = interrupted(server);
    succeeded(reader.wait(LIMIT).expect("the reader ends with the server"));
    drop(silent);
    let told = stderr(&server);
    let captured = figure(&told, "packets captured").expect("a summary");
    assert_eq!(frames(&bytes(&copy)).len() as u64, captured, "{told}");
    let lines: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("packets sent,"))
        .collect();
    let all = format!(": {captured} packets sent, 0 packets lost");
    assert_eq!(
        lines.iter().filter(|line| line.contains(&all)).count(),
        1,
        "{told}"
    );
    // The other one has what the kernel took for it, and every other packet is counted.
    let silent = lines
        .iter()
        .find(|line| !line.contains(&all))
        .expect("a second client");
    let numbers: Vec<u64> = silent
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers.iter().sum::<u64>(), captured, "{told}");
    assert!(numbers[1] > 0, "{told}");
}

/// Waits until this many clients are connected and their connections accepted.
fn wait_for_clients(side: &Side, count: usize) {
    let established = || {
        let filter = ["-Htnp", "state", "established", "sport", "=", ":57012"];
        let listed = side.namespace.output("ss", &filter);
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        // A connection that nobody has accepted has no process.
        text.lines().filter(|line| line.contains("ringtap")).count()
    };
    while established() < count {
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

//! Processes of IPv6 packets, and of sockets that serve both versions of IP.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use ringtap_testkit::netns::{VethOptions, VethPair};

use super::captured::{Capturing, LIMIT};
use super::{Client, PORT, connect_and_exit, exchange_datagrams};

/// Returns a pair with both versions.
fn pair() -> VethPair {
    VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    })
}

/// Returns the addresses of the left side, each with one of the right side.
fn ends(pair: &VethPair) -> [(IpAddr, IpAddr); 2] {
    let (left, right) = (&pair.left, &pair.right);
    [
        (left.ipv4.into(), right.ipv4.into()),
        (left.ipv6.into(), right.ipv6.into()),
    ]
}

pub(crate) fn exchanges() {
    let pair = pair();
    connect_and_exit(&pair, pair.right.ipv6.into());
    exchange_datagrams(&pair, pair.right.ipv6.into());
}

/// A socket of IPv6 also takes what comes over IPv4: connections, their last packets too, and datagrams.
pub(crate) fn both_versions() {
    let pair = pair();
    let port = PORT.to_string();
    let start = |script| Client::start(&pair.left, &[script, "::", &port]);
    let capturing = Capturing::start(&pair.left, &[]);
    let (stream, datagram) = (start("answers_all"), start("reuse_port"));
    let expected = [stream.pid, datagram.pid].map(|pid| format!("pid={pid};"));
    for (left, right) in ends(&pair) {
        let answers = [connected(&pair, left), asked(&pair, left, right)];
        assert_eq!(answers, expected, "{left}");
    }
    let pids = [stream.pid, datagram.pid];
    stream.end();
    datagram.end();
    let captured = capturing.finish();
    for is_ipv6 in [false, true] {
        let of_version = captured.packets.iter();
        let of_version = of_version.filter(|seen| seen.is_ipv6 == is_ipv6);
        let exchanged = of_version.filter(|seen| seen.local_port() == Some(PORT));
        let mut counts = [0; 2];
        for seen in exchanged {
            let place = pids.iter().position(|pid| seen.pid == Some(*pid));
            let place = place.unwrap_or_else(|| panic!("neither of {pids:?}: {seen:?}"));
            counts[place] += 1;
        }
        assert!(counts[0] >= 8 && counts[1] == 2, "{counts:?}");
    }
}

/// Connects to the left side, and returns what it sent. The connection ends in both directions.
fn connected(pair: &VethPair, left: IpAddr) -> String {
    let to = SocketAddr::from((left, PORT));
    let connected = pair.right.run(|| TcpStream::connect(to));
    let mut answer = String::new();
    let mut connection = connected.expect("a connection");
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Sends a datagram to the left side, and returns the answer.
fn asked(pair: &VethPair, left: IpAddr, right: IpAddr) -> String {
    let own = SocketAddr::from((right, 0));
    let socket = pair.right.run(|| UdpSocket::bind(own)).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    let sent = socket.send_to(b"who?", SocketAddr::from((left, PORT)));
    sent.expect("sent");
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// A filter finds processes behind the addresses of either version.
pub(crate) fn filtered() {
    let pair = pair();
    let server = Client::start(&pair.left, &["reuse_port", "::", &PORT.to_string()]);
    let pid = server.pid;
    // Which datagrams a filter takes: those of IPv4, those of IPv6.
    let cases = [
        (format!("ip6 and pid {pid}"), [0, 2]),
        (
            format!("ip and udp and process python3 and pid {pid}"),
            [2, 0],
        ),
        (format!("udp port {PORT} and pid {pid}"), [2, 2]),
        (format!("ip6 and udp port {PORT} and not pid {pid}"), [0, 0]),
        (format!("udp and (ip or not pid {pid})"), [2, 0]),
    ];
    for (expression, expected) in cases {
        let capturing = Capturing::start(&pair.left, &["--extended", &expression]);
        for (left, right) in ends(&pair) {
            asked(&pair, left, right);
        }
        let captured = capturing.finish();
        let count = |is_ipv6| {
            let of_version = captured.packets.iter();
            of_version.filter(|seen| seen.is_ipv6 == is_ipv6).count()
        };
        assert_eq!([false, true].map(count), expected, "{expression}");
    }
    server.end();
}

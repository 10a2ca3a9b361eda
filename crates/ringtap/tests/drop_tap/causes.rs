//! Packets that the kernel itself drops.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use ringtap_sys::netlink::Veth;
use ringtap_sys::packet::Instruction;
use ringtap_sys::packet::inject::attach_filter;
use ringtap_testkit::Need;
use ringtap_testkit::netns::VethPair;
use serde_json::Value;

use crate::scene::{
    Capture, Found, ICMP, ICMP_SUM, Ip, Sender, TCP, TCP_SUM, UDP, UDP_SUM, set, tcp, udp,
};

/// Flags of TCP.
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet that is dropped, its reasons, and the kernel from which on it has one of these.
struct Cause {
    name: &'static str,
    packet: Ip,
    reasons: &'static [&'static str],
    since: (u32, u32),
}

impl Cause {
    fn new(
        name: &'static str,
        packet: Ip,
        reasons: &'static [&'static str],
        since: (u32, u32),
    ) -> Self {
        Self {
            name,
            packet,
            reasons,
            since,
        }
    }
}

/// Returns a datagram from the left end to a port of the right one.
fn datagram(pair: &VethPair, id: u16, port: u16) -> Ip {
    Ip::over(pair, id, UDP, udp(port, b"dropped"))
}

/// Packets to the right end that no program gets.
fn unwanted(pair: &VethPair) -> Vec<Cause> {
    let segment = |id, is_right| {
        let segment = tcp((40_000, 9), (1, 0), SYN);
        Ip::over(pair, id, TCP, segment).summed(TCP_SUM, is_right)
    };
    let wrong = datagram(pair, 1003, 5000).summed(UDP_SUM, false);
    let mut damaged = datagram(pair, 1005, 9);
    damaged.is_damaged = true;
    let mut short = datagram(pair, 1006, 9);
    short.missing = 100;
    let unknown = Ip::over(pair, 1009, 253, b"nobody".to_vec());
    let echo = Ip::over(pair, 1012, ICMP, vec![8, 0, 0, 0, 0, 1, 0, 1]);
    let echo = echo.summed(ICMP_SUM, false);
    let no_socket = datagram(pair, 1001, 9);
    vec![
        Cause::new("no socket of UDP", no_socket, &["NO_SOCKET"], (5, 17)),
        Cause::new(
            "no socket of TCP",
            segment(1002, true),
            &["NO_SOCKET"],
            (5, 17),
        ),
        Cause::new("checksum of UDP", wrong, &["UDP_CSUM"], (5, 17)),
        Cause::new(
            "checksum of TCP",
            segment(1004, false),
            &["TCP_CSUM"],
            (5, 17),
        ),
        Cause::new("checksum of IP", damaged, &["IP_CSUM"], (5, 18)),
        Cause::new("shorter than stated", short, &["PKT_TOO_SMALL"], (5, 18)),
        Cause::new("unknown protocol", unknown, &["IP_NOPROTO"], (5, 18)),
        Cause::new("checksum of ICMP", echo, &["ICMP_CSUM"], (6, 0)),
    ]
}

/// Packets that the right end can't forward or does not believe. Its addresses are 10.99.0.2, and 10.88.0.1
/// on a wire whose packets have 600 bytes at most.
fn misrouted(pair: &VethPair) -> Vec<Cause> {
    let to = |target: [u8; 4], packet: Ip| Ip {
        target: Ipv4Addr::from(target),
        ..packet
    };
    let from = |source: Ipv4Addr, id| Ip {
        source,
        ..datagram(pair, id, 9)
    };
    let mut last_hop = to([10, 88, 0, 2], datagram(pair, 1007, 9));
    last_hop.ttl = 1;
    let no_route = to([198, 51, 100, 9], datagram(pair, 1008, 9));
    let nowhere = from(Ipv4Addr::new(203, 0, 113, 5), 1010);
    let long = to(
        [10, 88, 0, 2],
        Ip::over(pair, 1011, UDP, udp(9, &[7; 1000])),
    );
    let own = from(pair.right.ipv4, 1013);
    let group = from(Ipv4Addr::new(224, 0, 0, 5), 1014);
    let oneself = &["IP_LOCAL_SOURCE", "IP_INVALID_SOURCE"];
    vec![
        Cause::new("time to live", last_hop, &["IP_INHDR"], (6, 1)),
        Cause::new("no route", no_route, &["IP_INNOROUTES"], (6, 14)),
        Cause::new("reverse path", nowhere, &["IP_RPFILTER"], (5, 18)),
        Cause::new("longer than the wire", long, &["PKT_TOO_BIG"], (6, 1)),
        Cause::new("source of this host", own, oneself, (6, 14)),
        Cause::new(
            "source that is a group",
            group,
            &["IP_INVALID_SOURCE"],
            (6, 14),
        ),
    ]
}

/// Makes the right end a router with a narrow wire behind it.
fn make_router(pair: &VethPair) {
    let right = &pair.right;
    set(right, "ip_forward", "1");
    set(right, "conf/all/rp_filter", "1");
    let mut netlink = right.namespace.netlink();
    netlink
        .create_veth(&Veth::new("narrow", "behind"))
        .expect("a wire");
    for end in ["narrow", "behind"] {
        netlink.set_mtu(end, 600).expect("a narrow wire");
        netlink.set_up(end, true).expect("up");
    }
    let address = Ipv4Addr::new(10, 88, 0, 1);
    netlink
        .add_address("narrow", address.into(), 24)
        .expect("an address");
    let neighbour = Ipv4Addr::new(10, 88, 0, 2);
    let mac = [2, 0x88, 0, 0, 0, 2];
    netlink
        .add_neighbour("narrow", neighbour.into(), mac)
        .expect("a neighbour");
}

pub(crate) fn bad_packets() {
    let pair = VethPair::new();
    make_router(&pair);
    let bound = SocketAddr::from((pair.right.ipv4, 5000));
    let _socket = pair.right.run(|| UdpSocket::bind(bound).expect("a socket"));
    let capture = Capture::start(&pair.right, &[]);
    let sender = Sender::on(&pair);
    let mut causes = unwanted(&pair);
    causes.extend(misrouted(&pair));
    for cause in &causes {
        sender.ip(&cause.packet);
    }
    let other_host = Ip::over(&pair, 1020, UDP, udp(9, b"for another"));
    sender.frame([2, 0, 0, 0, 0, 0x77], 0x0800, &other_host.bytes());
    sender.frame(pair.right.mac, 0x88b5, &[0x55; 50]);
    let found = capture.finish();
    for cause in &causes {
        check(&found, cause);
    }
    let is_other = |packet: &Value| packet["ipv4"]["id"] == 1020;
    assert_eq!(found.count("OTHERHOST", is_other), 1, "{:#?}", found.lines);
    let is_unknown = |packet: &Value| packet["cooked"]["protocol"] == 0x88b5;
    assert_eq!(
        found.count("UNHANDLED_PROTO", is_unknown),
        1,
        "{:#?}",
        found.lines
    );
    // Every packet names the place, and its interface.
    for packet in &found.packets {
        let function = packet["drop"]["function"].as_str().unwrap_or_default();
        assert!(!function.is_empty(), "{packet}");
    }
    let here = found.with_id(1001);
    assert_eq!(
        here[0]["drop"]["interface"], pair.right.device,
        "{}",
        here[0]
    );
    let address = pair.left.mac.map(|byte| format!("{byte:02x}")).join(":");
    assert_eq!(
        here[0]["cooked"]["address"],
        address.as_str(),
        "{}",
        here[0]
    );
}

fn check(found: &Found, cause: &Cause) {
    let name = cause.name;
    let packets = found.with_id(cause.packet.id);
    // Messages of ICMP quote packets; they are not dropped here.
    assert_eq!(packets.len(), 1, "{name}: {:#?}", found.lines);
    let (major, minor) = cause.since;
    // An older kernel gives another reason.
    let is_named = Need::Kernel(major, minor).unmet().is_none();
    let reason = packets[0]["drop"]["reason"].as_str().expect("a reason");
    let is_right = !is_named || cause.reasons.contains(&reason);
    assert!(is_right, "{name}: {}", packets[0]);
}

/// Sends datagrams from the left to a port of the right end.
pub(crate) fn send(pair: &VethPair, port: u16, count: usize, len: usize) {
    let to = SocketAddr::from((pair.right.ipv4, port));
    pair.left.run(|| {
        let socket = UdpSocket::bind((pair.left.ipv4, 0)).expect("a socket");
        for _ in 0..count {
            socket.send_to(&vec![0; len], to).expect("sent");
        }
    });
}

pub(crate) fn full_socket() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    let capture = Capture::start(&pair.right, &[]);
    let sent = 2000;
    send(&pair, 5000, sent, 500);
    let found = capture.finish();
    socket.set_nonblocking(true).expect("a socket");
    let held = std::iter::from_fn(|| socket.recv(&mut [0; 512]).ok()).count();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 5000;
    assert!(held < sent, "the buffer holds {sent} datagrams");
    assert_eq!(
        found.count("SOCKET_RCVBUFF", is_it),
        sent - held,
        "{}",
        found.summary
    );
}

pub(crate) fn socket_filter() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    // ret 0
    let nothing = Instruction {
        code: 6,
        jt: 0,
        jf: 0,
        k: 0,
    };
    attach_filter(socket.as_fd(), &[nothing]).expect("a filter");
    let capture = Capture::start(&pair.right, &[]);
    send(&pair, 5000, 3, 20);
    let found = capture.finish();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 5000;
    assert_eq!(found.count("SOCKET_FILTER", is_it), 3, "{:#?}", found.lines);
}

pub(crate) fn neighbour() {
    let pair = VethPair::new();
    let device = &pair.right.device;
    set(
        &pair.right,
        &format!("neigh/{device}/retrans_time_ms"),
        "20",
    );
    let missing = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 77), 9));
    let capture = Capture::start(&pair.right, &[]);
    // It returns when the kernel gives up.
    let connected = pair.right.run(|| TcpStream::connect(missing));
    assert!(connected.is_err(), "there is no such host");
    let found = capture.finish();
    let is_it =
        |packet: &Value| packet["ipv4"]["dst"] == "10.99.0.77" && packet["direction"] == "out";
    let dropped = found.count("NEIGH_FAILED", is_it);
    let mut ids: Vec<String> = found
        .packets
        .iter()
        .filter(|packet| is_it(packet))
        .map(|packet| packet["ipv4"]["id"].to_string())
        .collect();
    ids.dedup();
    assert!(dropped > 0, "{:#?}", found.lines);
    assert_eq!(ids.len(), dropped, "each once: {:#?}", found.lines);
}

pub(crate) fn window() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 7000));
    let listener = pair
        .right
        .run(|| TcpListener::bind(address).expect("a listener"));
    let client = pair
        .left
        .run(|| TcpStream::connect(address).expect("connected"));
    let _server = listener.accept().expect("accepted");
    let port = client.local_addr().expect("an address").port();
    let capture = Capture::start(&pair.right, &[]);
    // The numbers of the connection are random; these are far from them.
    let segment = tcp((port, 7000), (0x1234_5678, 0x1234_5678), ACK);
    Sender::on(&pair).ip(&Ip::over(&pair, 2000, TCP, segment).summed(TCP_SUM, true));
    let found = capture.finish();
    let packets = found.with_id(2000);
    assert_eq!(packets.len(), 1, "{:#?}", found.lines);
    let reason = packets[0]["drop"]["reason"].as_str().expect("a reason");
    let expected = [
        "TCP_OLD_SEQUENCE",
        "TCP_INVALID_SEQUENCE",
        "TCP_INVALID_END_SEQUENCE",
    ];
    let is_named = Need::Kernel(6, 1).unmet().is_some() || expected.contains(&reason);
    assert!(is_named, "{}", packets[0]);
}

pub(crate) fn scheduler() {
    let pair = VethPair::new();
    let left = &pair.left;
    let mut words = vec!["qdisc", "add", "dev", &left.device, "root", "tbf"];
    words.extend(["rate", "8kbit", "burst", "1600", "limit", "1600"]);
    left.namespace.output("tc", &words);
    let capture = Capture::start(left, &[]);
    send(&pair, 9, 40, 500);
    let found = capture.finish();
    let shown = left
        .namespace
        .output("tc", &["-s", "qdisc", "show", "dev", &left.device]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 9;
    let reasons = ["QDISC_DROP", "QDISC_OVERLIMIT", "NOT_SPECIFIED"];
    let dropped: usize = reasons
        .iter()
        .map(|reason| found.count(reason, is_it))
        .sum();
    assert!(dropped > 20, "{:#?}", found.lines);
    assert!(
        shown.contains(&format!("(dropped {dropped},")),
        "{dropped}: {shown}"
    );
}

pub(crate) fn netfilter() {
    let pair = VethPair::new();
    let rules = "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
                 add rule ip t in udp dport 5001 drop";
    pair.right.namespace.output("nft", &[rules]);
    let capture = Capture::on("drop:", &pair.right, &["udp dst port 5001"]);
    send(&pair, 5001, 4, 20);
    let found = capture.finish();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 5001;
    assert_eq!(
        found.count("NETFILTER_DROP", is_it),
        4,
        "{:#?}",
        found.lines
    );
    let line = found.lines.iter().find(|line| line.contains(".5001: "));
    let line = line.expect("a line");
    let device = &pair.right.device;
    assert!(line.contains(" drop NETFILTER_DROP at "), "{line}");
    assert!(
        line.contains(&format!(" {device}: IP 10.99.0.1.")),
        "{line}"
    );
}

//! Dropped packets name the process that holds their socket.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use ringtap_testkit::netns::VethPair;
use serde_json::Value;

use super::causes::send;
use super::scene::{Capture, set};

/// Returns the numbers of the processes of the packets with a property.
fn processes(packets: &[Value], is_it: impl Fn(&Value) -> bool) -> Vec<Option<u64>> {
    let packets = packets.iter().filter(|packet| is_it(packet));
    packets
        .map(|packet| packet["process"]["pid"].as_u64())
        .collect()
}

fn own() -> Option<u64> {
    Some(std::process::id().into())
}

/// A connection request to a host that does not exist waits for the neighbour until the kernel gives up.
pub(crate) fn senders() {
    let pair = VethPair::new();
    let device = &pair.right.device;
    let slow = format!("neigh/{device}/retrans_time_ms");
    set(&pair.right, &slow, "20");
    let missing = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 77), 9));
    let capture = Capture::start(&pair.right, &["--who"]);
    let connected = pair.right.run(|| TcpStream::connect(missing));
    assert!(connected.is_err(), "there is no such host");
    let found = capture.finish();
    let named = processes(&found.packets, |packet| {
        packet["ipv4"]["dst"] == "10.99.0.77"
    });
    assert!(!named.is_empty(), "{:#?}", found.lines);
    assert!(named.iter().all(|pid| *pid == own()), "{named:?}");
}

/// The tracepoint names the receiver's socket.
pub(crate) fn receivers() {
    let pair = VethPair::new();
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let capture = Capture::start(&pair.right, &["--who"]);
    let _socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    send(&pair, 5000, 2000, 500);
    send(&pair, 5001, 3, 20);
    let found = capture.finish();
    let to = |port: u16| move |packet: &Value| packet["udp"]["dst_port"] == port;
    let named = processes(&found.packets, to(5000));
    assert!(!named.is_empty(), "the buffer holds all datagrams");
    assert!(named.iter().all(|pid| *pid == own()), "{named:?}");
    // No socket has this port, so there is no process.
    assert_eq!(processes(&found.packets, to(5001)), [None; 3]);
}

/// The kernel tests the process of a dropped packet.
pub(crate) fn filters() {
    let mine = format!("pid {} and udp", std::process::id());
    let other = "pid 1 and udp".to_owned();
    for (filter, expected) in [(mine, true), (other, false)] {
        let pair = VethPair::new();
        let address = SocketAddr::from((pair.right.ipv4, 5000));
        let capture = Capture::start(&pair.right, &["--who", "--extended", &filter]);
        let _socket = pair
            .right
            .run(|| UdpSocket::bind(address).expect("a socket"));
        send(&pair, 5000, 2000, 500);
        send(&pair, 5001, 3, 20);
        let found = capture.finish();
        let dropped = processes(&found.packets, |_| true);
        assert_eq!(!dropped.is_empty(), expected, "{filter}: {}", found.summary);
        let is_own = |pid: &Option<u64>| *pid == own();
        assert!(dropped.iter().all(is_own), "{filter}: {dropped:?}");
    }
}

//! Packets that are no drops, and very many that are.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use std::io::{Read as _, Write as _};

use ringtap_testkit::netns::VethPair;
use serde_json::Value;

use crate::causes::send;
use crate::scene::{Capture, ICMP, ICMP_SUM, Ip, Sender};

/// Returns the count in a line of the summary.
fn count_in(summary: &str, line: &str) -> u64 {
    let lines = summary.lines();
    let mut found = lines.filter_map(|text| text.strip_suffix(line));
    let count = found.next().and_then(|count| count.trim().parse().ok());
    count.unwrap_or_else(|| panic!("{line}: {summary}"))
}

pub(crate) fn consumed() {
    let pair = VethPair::new();
    let capture = Capture::start(&pair.right, &[]);
    // Echo requests that are answered, with a packet socket beside, for which packets are cloned.
    let mut other = pair.right.namespace.command(crate::scene::RINGTAP);
    other
        .args(["dump", "-w", "/dev/null", "-i"])
        .arg(format!("packet:{}", pair.right.device));
    let mut other =
        ringtap_testkit::process::Running::start_piped(&mut other).expect("ringtap starts");
    other
        .wait_until_capturing(&pair.right, crate::scene::LIMIT)
        .expect("a capture");
    let sender = Sender::on(&pair);
    for id in 3000..3100 {
        let echo = vec![8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4];
        sender.ip(&Ip::over(&pair, id, ICMP, echo).summed(ICMP_SUM, true));
    }
    // Datagrams and a connection that are read.
    let address = SocketAddr::from((pair.right.ipv4, 5000));
    let socket = pair
        .right
        .run(|| UdpSocket::bind(address).expect("a socket"));
    send(&pair, 5000, 50, 100);
    for _ in 0..50 {
        socket.recv(&mut [0; 200]).expect("a datagram");
    }
    let listener = pair
        .right
        .run(|| TcpListener::bind(address).expect("a listener"));
    let mut client = pair
        .left
        .run(|| TcpStream::connect(address).expect("connected"));
    let (mut server, _) = listener.accept().expect("accepted");
    client.write_all(&[7; 10_000]).expect("sent");
    server.read_exact(&mut [0; 10_000]).expect("read");
    drop(client);
    server.read_to_end(&mut Vec::new()).expect("the end");
    drop(server);
    let found = capture.finish();
    other.signal("INT").expect("a signal");
    other.wait(crate::scene::LIMIT).expect("an end");
    let of_flow = |packet: &&Value| {
        let id = packet["ipv4"]["id"].as_u64().unwrap_or_default();
        let port = |key: &str| packet[key]["dst_port"] == 5000 || packet[key]["src_port"] == 5000;
        (3000..3100).contains(&id) || port("udp") || port("tcp")
    };
    let drops: Vec<&Value> = found.packets.iter().filter(of_flow).collect();
    assert!(drops.is_empty(), "{drops:#?}");
}

pub(crate) fn burst() {
    const SENDERS: usize = 2;
    const EACH: usize = 15_000;
    let pair = VethPair::new();
    // Only these packets, whatever other namespaces drop.
    let capture = Capture::start(&pair.right, &["udp dst port 9"]);
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| send(&pair, 9, EACH, 100));
        }
    });
    let sent = (SENDERS * EACH) as u64;
    let found = capture.finish();
    let received = found.packets.len() as u64;
    assert_eq!(count_in(&found.summary, " packets captured"), received);
    let in_ring = count_in(&found.summary, " packets dropped in the ring");
    let at_hook = count_in_or_none(&found.summary, " packets dropped at the hook");
    // The kernel's queue to the other end may be full: those have another reason, and are drops here, too.
    assert_eq!(received + in_ring + at_hook, sent, "{}", found.summary);
    assert!(received > sent / 2, "{}", found.summary);
}

fn count_in_or_none(summary: &str, line: &str) -> u64 {
    if summary.contains(line) {
        count_in(summary, line)
    } else {
        0
    }
}

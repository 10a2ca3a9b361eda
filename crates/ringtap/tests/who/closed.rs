//! Packets that come when their connection has no socket any more.

use std::net::IpAddr;

use etherparse::PacketBuilder;
use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::traffic::{LiveFrames, Target};

use super::captured::Capturing;
use super::{PORT, run, serve_at};

/// The client's port.
const OWN: u16 = 6001;

/// A late packet and the reset that answers it name the process that had the connection.
pub(crate) fn late() {
    let pair = VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    });
    let (left, right) = (&pair.left, &pair.right);
    let versions: [(IpAddr, IpAddr); 2] = [
        (left.ipv4.into(), right.ipv4.into()),
        (left.ipv6.into(), right.ipv6.into()),
    ];
    for (own, other) in versions {
        let server = serve_at(right, other, 1);
        let capturing = Capturing::start(left, &[]);
        let numbers = [PORT, OWN].map(|port| port.to_string());
        run(
            left,
            &["aborted", &other.to_string(), &numbers[0], &numbers[1]],
        );
        server.join().expect("served");
        let frame = acknowledgement(&pair, other, own);
        let frames = LiveFrames::new(&frame, Target::ReceivedOn(left)).expect("frames");
        frames.send(1).expect("sent");
        let captured = capturing.finish();
        let of_connection = captured.packets.iter();
        let of_connection = of_connection.filter(|seen| seen.local_port() == Some(OWN));
        let all: Vec<_> = of_connection.collect();
        let owner = all.iter().find_map(|seen| seen.claimed);
        let [.., late, reset] = all[..] else {
            panic!("too few packets: {all:?}");
        };
        assert!(!late.is_sent && reset.is_sent, "{all:?}");
        assert!(owner.is_some(), "{all:?}");
        assert_eq!([late.pid, reset.pid], [owner, owner], "{all:?}");
    }
}

/// Returns a frame of the server that acknowledges bytes of the client.
fn acknowledgement(pair: &VethPair, from: IpAddr, to: IpAddr) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(pair.right.mac, pair.left.mac);
    let ip = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two versions"),
    };
    let packet = ip.tcp(PORT, OWN, 1000, 1024).ack(2000);
    let mut frame = Vec::new();
    packet.write(&mut frame, &[]).expect("a frame");
    frame
}

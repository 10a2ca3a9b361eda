//! `ip broadcast` on a device: its netmask decides, on every engine.

use std::net::{IpAddr, Ipv4Addr};

use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethOptions, VethPair};
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, Test, test};

use crate::program::{
    LIMIT, RINGTAP, bytes, capturing, dump, dump_live, finished, frames, interrupted, stderr,
};

/// The device's network is 172.16.0.0/20.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 16, 5, 1);
const PREFIX: u8 = 20;
/// Destinations, and whether the bits after the prefix are all ones or all zeros.
const DESTINATIONS: [([u8; 4], bool); 8] = [
    ([172, 16, 15, 255], true),
    ([172, 16, 5, 255], false),
    ([172, 16, 5, 0], false),
    ([172, 16, 0, 0], true),
    ([255, 255, 255, 255], true),
    ([172, 16, 5, 2], false),
    ([10, 1, 255, 255], true),
    ([10, 1, 8, 0], false),
];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test(
            "ip_broadcast_takes_the_netmask_of_the_device",
            &[Need::Root],
            of_the_device,
        ),
        test(
            "ip_broadcast_is_refused_without_a_netmask",
            &[Need::Root],
            not_known,
        ),
    ]
}

fn of_the_device() {
    let pair = VethPair::with(&VethOptions {
        ipv4: false,
        ..VethOptions::default()
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let side = &pair.right;
    let mut netlink = side.namespace.netlink();
    netlink
        .add_address(&side.device, IpAddr::V4(ADDRESS), PREFIX)
        .expect("an address");
    let sent = packets();
    let engines = [
        ("", Need::Root),
        ("packet:", Need::Root),
        ("tcx:", Need::Kernel(5, 12)),
        ("xdp:", Need::Kernel(5, 18)),
    ];
    for (engine, _) in engines.iter().filter(|(_, need)| need.unmet().is_none()) {
        let written = folder.path().join("captured.pcap");
        let mut command = side.namespace.command(RINGTAP);
        command.args(["dump", "-i", &format!("{engine}{}", side.device), "-w"]);
        let running = capturing(command.arg(&written).arg("ip broadcast"), side);
        inject(&pair.left, &sent);
        interrupted(running);
        let captured = bytes(&written);
        let expected: Vec<&[u8]> = sent
            .iter()
            .filter(|(_, taken)| *taken)
            .map(|(frame, _)| &frame[..])
            .collect();
        assert_eq!(frames(&captured), expected, "on {engine}{}", side.device);
    }
}

/// Returns a packet to each destination, and an ARP frame with such an address.
fn packets() -> Vec<(Vec<u8>, bool)> {
    let traffic = Traffic {
        packets: DESTINATIONS.len() as u64,
        ..Traffic::default()
    };
    let mut packets: Vec<(Vec<u8>, bool)> = traffic
        .frames()
        .into_iter()
        .zip(DESTINATIONS)
        .map(|(mut frame, (destination, taken))| {
            frame[30..34].copy_from_slice(&destination);
            (frame, taken)
        })
        .collect();
    let (mut arp, _) = packets[0].clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    packets.insert(1, (arp, false));
    packets
}

fn inject(side: &Side, packets: &[(Vec<u8>, bool)]) {
    let index = side.namespace.netlink().index(&side.device);
    let index = index.expect("the device exists");
    let injector = side.run(|| Injector::open(index).expect("root"));
    for (frame, _) in packets {
        injector.send(frame).expect("the end is up");
    }
}

/// In a file, on the device `any`, and on a device without an IPv4 address.
fn not_known() {
    let pair = VethPair::with(&VethOptions {
        ipv4: false,
        ..VethOptions::default()
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file.pcap");
    Traffic::default().write_file(&file).expect("a file");
    let mut of_a_file = dump();
    of_a_file.arg("-r").arg(&file);
    let mut any = pair.right.namespace.command(RINGTAP);
    any.args(["dump", "-i", "any"]);
    for mut command in [of_a_file, any, dump_live(&pair.right)] {
        let output = finished(command.args(["-w", "-", "ip broadcast"]));
        let (code, error) = (output.status.code(), stderr(&output));
        assert_eq!(code, Some(2), "{command:?} within {LIMIT:?}: {error}");
        assert!(error.contains("the netmask is not known"), "{error}");
        assert!(error.contains("hint: "), "{error}");
    }
}

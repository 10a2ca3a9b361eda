//! VLAN tags: captured packets equal those on the wire.

use ringtap_testkit::netns::VethPair;

use crate::support::{assert_as_of_a_file, collect, data, injector, ip_frame, open_on, prompt};

const DOT1Q: u16 = 0x8100;
const DOT1AD: u16 = 0x88a8;

/// Datagrams untagged, tagged once and twice.
fn frames() -> Vec<Vec<u8>> {
    let tags: [&[(u16, u16)]; 7] = [
        &[],
        &[(DOT1Q, 5)],
        &[(DOT1Q, 0x6005)],
        &[(DOT1Q, 6)],
        &[(DOT1AD, 7)],
        &[(DOT1AD, 7), (DOT1Q, 5)],
        &[(DOT1Q, 5), (DOT1Q, 6)],
    ];
    let protocols = [(17, (53, 4000)), (6, (80, 4000))];
    tags.iter()
        .flat_map(|tags| protocols.map(|(protocol, ports)| ip_frame(tags, protocol, ports)))
        .collect()
}

pub(crate) fn puts_tags_back() {
    let pair = VethPair::new();
    let frames = frames();
    let expected: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    for injector in [&left, &right] {
        let mut source = open_on(&pair.right, &prompt(), None);
        frames
            .iter()
            .for_each(|frame| injector.send(frame).unwrap());
        let seen = collect(&mut *source, frames.len());
        assert_eq!(data(&seen), expected);
        assert!(
            seen.iter()
                .all(|packet| packet.len as usize == packet.data.len())
        );
    }
    for snaplen in [10, 13, 16, 20] {
        let options = prompt().snaplen(snaplen);
        let mut source = open_on(&pair.right, &options, None);
        left.send(&frames[2]).unwrap();
        let seen = collect(&mut *source, 1);
        assert_eq!(
            seen[0].data,
            frames[2][..snaplen as usize],
            "snaplen {snaplen}"
        );
        assert_eq!(seen[0].len as usize, frames[2].len());
    }
}

pub(crate) fn filters_tags_as_a_file_would() {
    let frames = frames();
    let filters = [
        "vlan",
        "not vlan",
        "vlan 5",
        "vlan 5 and udp",
        "udp",
        "tcp or vlan 6",
        "vlan and vlan",
        "vlan 5 and vlan 6",
        "vlan 7 and vlan 5 and udp",
        "vlan and port 53",
        "udp or vlan 6 and udp",
        "len > 62",
        "less 60",
        "ether proto 0x0800",
        "ip",
    ];
    assert_as_of_a_file(&frames, &filters);
}

//! VLAN tags: what is captured is what was on the wire.

use ringtap_capture::{CaptureOptions, Filter, LinkType};
use ringtap_testkit::netns::VethPair;

use crate::support::{collect, data, drain, injector, ip_frame, open_on, prompt};

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
        let options = CaptureOptions {
            snaplen,
            ..prompt()
        };
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
    let pair = VethPair::new();
    let injector = injector(&pair.left);
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
    for filter in filters {
        let program = Filter::new(filter)
            .compile(LinkType::ETHERNET, 262_144)
            .unwrap();
        let accepts = |frame: &[u8]| program.run(frame, u32::try_from(frame.len()).unwrap()) > 0;
        let expected: Vec<_> = (0..frames.len()).filter(|&i| accepts(&frames[i])).collect();
        let mut source = open_on(&pair.right, &prompt(), Some(filter));
        frames
            .iter()
            .for_each(|frame| injector.send(frame).unwrap());
        let seen = drain(&mut *source, expected.len());
        let places: Vec<_> = seen
            .iter()
            .map(|seen| frames.iter().position(|f| *f == seen.data))
            .collect();
        assert_eq!(
            places,
            expected.into_iter().map(Some).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
}

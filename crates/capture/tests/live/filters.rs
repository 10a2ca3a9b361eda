//! Filters in the kernel select the same packets as on a file.

use ringtap_capture::{Filter, FilterPlace, Next};
use ringtap_testkit::netns::VethPair;

use crate::support::{
    assert_as_of_a_file, collect, data, drain, flooded, frame, injector, ip_frame, number, open_on,
    prompt,
};

pub(crate) fn filters_from_the_first_packet() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let frames = [
        ip_frame(&[], 17, (1, 2)),
        ip_frame(&[], 6, (1, 2)),
        frame(1, 60),
    ];
    flooded(&injector, &frames, || {
        for _ in 0..20 {
            let mut source = open_on(&pair.right, &prompt(), Some("udp"));
            for packet in collect(&mut *source, 200) {
                assert_eq!(packet.data, frames[0]);
            }
            assert!(matches!(
                source.describe().filter,
                FilterPlace::Kernel { .. }
            ));
        }
    });
}

/// The kernel's protocol of a packet: the one after a tag. It does not depend on the filter, and stays.
pub(crate) fn takes_one_protocol() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().protocol(Some(0x0800));
    let frames = [
        ip_frame(&[], 17, (1, 2)),
        frame(1, 60),
        ip_frame(&[(0x8100, 5)], 17, (1, 2)),
        ip_frame(&[], 6, (1, 2)),
    ];
    let [udp, _, tagged, tcp] = &frames;
    let mut source = open_on(&pair.right, &options, None);
    assert!(!source.describe().loopback);
    let mut seen = |filter: Option<&str>, wanted| {
        source.set_filter(filter.map(Filter::new).as_ref()).unwrap();
        for frame in &frames {
            injector.send(frame).unwrap();
        }
        data(&drain(&mut *source, wanted)).concat()
    };
    assert_eq!(seen(None, 3), [&udp[..], tagged, tcp].concat());
    assert_eq!(seen(Some("udp"), 1), udp.clone());
    assert_eq!(seen(None, 3), [&udp[..], tagged, tcp].concat());
}

pub(crate) fn changes_filters_without_mixing() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = open_on(&pair.right, &prompt(), Some("udp or ether proto 0x88b5"));
    let udp = ip_frame(&[], 17, (1, 2));
    let tcp = ip_frame(&[], 6, (1, 2));
    for _ in 0..100 {
        injector.send(&udp).unwrap();
        injector.send(&frame(1, 60)).unwrap();
        injector.send(&tcp).unwrap();
    }
    // Packets that match both filters stay; those that match only the old one are dropped.
    source.set_filter(Some(&Filter::new("tcp or udp"))).unwrap();
    for _ in 0..100 {
        injector.send(&tcp).unwrap();
        injector.send(&frame(2, 60)).unwrap();
    }
    let seen = drain(&mut *source, 200);
    let expected: Vec<&[u8]> = [vec![&udp[..]; 100], vec![&tcp[..]; 100]].concat();
    assert_eq!(data(&seen), expected);

    source.set_filter(None).unwrap();
    injector.send(&frame(3, 60)).unwrap();
    assert_eq!(number(&collect(&mut *source, 1)[0].data), 3);

    // An invalid filter leaves the old one in place.
    source.set_filter(Some(&Filter::new("udp"))).unwrap();
    assert!(
        source
            .set_filter(Some(&Filter::new("udp and and")))
            .is_err()
    );
    injector.send(&tcp).unwrap();
    injector.send(&udp).unwrap();
    assert_eq!(data(&drain(&mut *source, 1)), [&udp[..]]);
    assert!(matches!(source.next().unwrap(), Next::TimedOut));
}

pub(crate) fn filters_as_a_file_would() {
    let frames: Vec<_> = [
        (17, (53, 4000)),
        (17, (4000, 53)),
        (6, (80, 4000)),
        (1, (0, 0)),
    ]
    .iter()
    .map(|&(protocol, ports)| ip_frame(&[], protocol, ports))
    .chain([frame(5, 60), frame(6, 900)])
    .collect();
    let filters = [
        "",
        "udp",
        "not udp",
        "port 53",
        "src port 53",
        "tcp",
        "icmp",
        "ip",
        "arp",
        "len > 500",
        "greater 500 or tcp",
        "host 10.99.0.1",
        "dst net 10.99.0.0/24 and not port 53",
        "ether proto 0x88b5",
        "ether broadcast",
        "ether src 02:00:00:00:00:01",
    ];
    assert_as_of_a_file(&frames, &filters);
}

//! Filters on facts beside the packet's bytes: direction and interface.

use std::process::Stdio;

use ringtap_capture::{Filter, FilterPlace, Next, ReadOptions, Source as _, open_file};
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;

use crate::support::{
    data, drain, frame, injector, ip_frame, open_on, patience, prompt, wait_for_length,
};

/// Returns the packets that the end receives and sends, in turn; broadcast, so that only the direction
/// differs.
fn traffic(pair: &VethPair) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let kinds = |first: u16| {
        vec![
            frame(first.into(), 60),
            ip_frame(&[], 17, (first, 53)),
            ip_frame(&[(0x8100, 7)], 17, (first, 53)),
            ip_frame(&[], 6, (first, 80)),
        ]
    };
    let (received, sent) = (kinds(1), kinds(2));
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    for (received, sent) in received.iter().zip(&sent) {
        left.send(received).unwrap();
        right.send(sent).unwrap();
    }
    (received, sent)
}

/// Starts tcpdump with a filter, writing.
fn tcpdump(side: &Side, file: &std::path::Path, filter: &str) -> Running {
    let mut command = side.namespace.command("tcpdump");
    command.args(["-i", &side.device, "-U", "--immediate-mode", "-w"]);
    command.arg(file).arg(filter).stderr(Stdio::null());
    Running::start(&mut command).unwrap()
}

fn packets_of(file: &std::path::Path) -> Vec<Vec<u8>> {
    let mut source = open_file(file, &ReadOptions::default(), None).unwrap();
    let mut packets = Vec::new();
    loop {
        match source.next().unwrap() {
            Next::Block(block) => {
                packets.extend(block.packets().map(|packet| packet.data.to_vec()));
            }
            Next::End => return packets,
            _ => {}
        }
    }
}

pub(crate) fn directions_equal_tcpdump() {
    let pair = VethPair::new();
    let side = &pair.right;
    let index = side.namespace.netlink().index(&side.device).unwrap();
    // The filters, and how many packets they select of those received and those sent. None looks
    // at received UDP: tcpdump takes it for untagged where it was tagged.
    let filters = [
        ("inbound".to_owned(), [4, 0]),
        ("outbound".to_owned(), [0, 4]),
        ("not inbound".to_owned(), [0, 4]),
        ("inbound and tcp".to_owned(), [1, 0]),
        ("outbound and vlan 7 and udp".to_owned(), [0, 1]),
        (
            "(inbound and tcp) or (outbound and not ip)".to_owned(),
            [1, 2],
        ),
        (format!("ifindex {index}"), [4, 4]),
        (format!("ifindex {}", index + 1), [0, 0]),
        (format!("ifindex {index} and outbound and tcp"), [0, 1]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut running = Vec::new();
    for (number, (filter, _)) in filters.iter().enumerate() {
        let file = folder.path().join(number.to_string());
        let theirs = tcpdump(side, &file, filter);
        // tcpdump captures once its file has a header.
        wait_for_length(&file, 24);
        let ours = open_on(side, &prompt(), Some(filter));
        let place = ours.describe().filter;
        assert!(matches!(place, FilterPlace::Kernel { .. }), "{place:?}");
        running.push((filter, file, theirs, ours));
    }
    let (received, sent) = traffic(&pair);
    traffic(&pair);
    for ((filter, file, theirs, mut ours), (_, expected)) in running.into_iter().zip(&filters) {
        let seen = drain(&mut *ours, 2 * (expected[0] + expected[1]));
        let seen = data(&seen);
        let count = |of: &[Vec<u8>]| {
            seen.iter()
                .filter(|&&data| of.contains(&data.to_vec()))
                .count()
        };
        assert_eq!(
            [count(&received), count(&sent)],
            expected.map(|n| 2 * n),
            "{filter}"
        );
        // libpcap runs the first packet through an interpreter of its own, which knows no
        // direction and rejects it; so all is sent twice, and the first is not compared.
        let seen = seen.get(1..).unwrap_or_default();
        let bytes: usize = seen.iter().map(|data| 16 + data.len()).sum();
        wait_for_length(&file, 24 + bytes as u64);
        theirs.signal("TERM").unwrap();
        theirs.wait(patience()).unwrap();
        assert_eq!(seen, packets_of(&file), "{filter}");
    }
}

/// Programs with a loop run in user space, and there a new filter selects from the packets of the old one.
pub(crate) fn directions_in_user_space() {
    let pair = VethPair::new();
    for (filter, expected) in [
        ("inbound and not ip6 protochain 99", true),
        ("outbound and not ip6 protochain 99", false),
    ] {
        let mut source = open_on(&pair.right, &prompt(), Some(filter));
        let place = source.describe().filter;
        assert!(matches!(place, FilterPlace::UserSpace { .. }), "{place:?}");
        let (received, sent) = traffic(&pair);
        let expected = if expected { received } else { sent };
        assert_eq!(
            data(&drain(&mut *source, expected.len())),
            expected,
            "{filter}"
        );
    }
    let mut source = open_on(&pair.right, &prompt(), None);
    let (_, sent) = traffic(&pair);
    source.set_filter(Some(&Filter::new("outbound"))).unwrap();
    assert_eq!(data(&drain(&mut *source, sent.len())), sent);
    let (received, _) = traffic(&pair);
    assert_eq!(data(&drain(&mut *source, sent.len())), sent);
    source.set_filter(Some(&Filter::new("inbound"))).unwrap();
    traffic(&pair);
    assert_eq!(data(&drain(&mut *source, received.len())), received);
}

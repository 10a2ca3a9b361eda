//! All interfaces at once, in cooked form.

use std::process::Stdio;

use ringtap_capture::{Change, Filter, FilterPlace, LinkType, ReadOptions, Source, open_file};
use ringtap_testkit::netns::VethPair;

use crate::support::{
    collect, drain, frame, injector, injector_in, ip_frame, on_tap, open_in, prompt,
    wait_for_length,
};

pub(crate) fn any_equals_tcpdump() {
    let pair = VethPair::new();
    let namespace = &pair.right.namespace;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("any.pcap");
    let mut tcpdump = namespace
        .command("tcpdump")
        .args(["-i", "any", "-y", "LINUX_SLL2", "-U", "--immediate-mode"])
        .args(["-s", "2000", "-B", "8192", "--nano", "-w"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // tcpdump captures once its file has a header.
    wait_for_length(&file, 24);
    let mut source = open_in(namespace, "any", &prompt(), None);
    assert_eq!(source.interfaces()[0].link_type, LinkType::LINUX_SLL2);
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    let loopback = injector_in(namespace, "lo");
    for i in 0..20 {
        left.send(&frame(i, 60 + i as usize)).unwrap();
        right.send(&frame(1000 + i, 300)).unwrap();
        right.send(&ip_frame(&[], 17, (53, 4000))).unwrap();
        loopback.send(&ip_frame(&[], 17, (1, 2))).unwrap();
        // IEEE 802.3 with LLC, and one of another host's.
        let mut llc = frame(i, 60);
        llc[12..14].copy_from_slice(&[0, 46]);
        llc[0] = 2;
        left.send(&llc).unwrap();
    }
    let seen = collect(&mut *source, 100);
    let bytes: usize = seen.iter().map(|packet| 16 + packet.data.len()).sum();
    wait_for_length(&file, 24 + bytes as u64);
    let terminate = std::process::Command::new("kill")
        .arg(tcpdump.id().to_string())
        .status();
    assert!(terminate.unwrap().success());
    tcpdump.wait().unwrap();
    let mut theirs = open_file(&file, &ReadOptions::default(), None).unwrap();
    assert_eq!(theirs.interfaces()[0].link_type, LinkType::LINUX_SLL2);
    let mut expected = Vec::new();
    loop {
        match theirs.next().unwrap() {
            ringtap_capture::Next::Block(block) => {
                expected.extend(block.packets().map(|packet| packet.data.to_vec()));
            }
            ringtap_capture::Next::End => break,
            _ => {}
        }
    }
    assert_eq!(seen.len(), expected.len());
    for (index, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(&seen.data, expected, "packet {index}");
    }
}

pub(crate) fn any_keeps_tags() {
    let pair = VethPair::new();
    let left = injector(&pair.left);
    let mut source = open_in(&pair.right.namespace, "any", &prompt(), None);
    let tagged = ip_frame(&[(0x88a8, 0x6005)], 17, (53, 4000));
    left.send(&tagged).unwrap();
    let seen = collect(&mut *source, 1);
    assert_eq!(
        seen[0].data[..2],
        [0x88, 0xa8],
        "the tag's ethertype is the protocol"
    );
    assert_eq!(
        seen[0].data[20..],
        tagged[14..],
        "the rest of the tag begins the payload"
    );
    assert_eq!(seen[0].len as usize, tagged.len() - 14 + 20);

    let options = prompt().snaplen(30);
    let mut source = open_in(&pair.right.namespace, "any", &options, None);
    left.send(&tagged).unwrap();
    assert_eq!(collect(&mut *source, 1)[0].data.len(), 30);
}

/// Returns UDP and TCP under several tags, and frames without IP.
fn tagged_and_plain() -> Vec<Vec<u8>> {
    let tags: [&[(u16, u16)]; 5] = [
        &[],
        &[(0x8100, 5)],
        &[(0x88a8, 0x6005)],
        &[(0x8100, 6)],
        &[(0x8100, 0)],
    ];
    let of_ip = |tags| {
        [
            ip_frame(tags, 17, (53, 4000)),
            ip_frame(tags, 6, (80, 4000)),
        ]
    };
    let frames = tags.into_iter().flat_map(of_ip);
    frames.chain([frame(1, 60), frame(2, 900)]).collect()
}

pub(crate) fn any_filters_as_a_file_would() {
    let pair = VethPair::new();
    let left = injector(&pair.left);
    let frames = tagged_and_plain();
    let captured = |link_type, filter: Option<&str>, wanted| {
        let mut source = open_in(&pair.right.namespace, "any", &prompt(), None);
        // The tap at all interfaces has one header only.
        if source.interfaces()[0].link_type != link_type {
            let change = source.change(Change::LinkType(link_type));
            change.expect("another header");
        }
        let filter = filter.map(Filter::new);
        source.set_filter(filter.as_ref()).expect("a filter");
        frames.iter().for_each(|frame| left.send(frame).unwrap());
        let place = source.describe().filter;
        (drain(&mut *source, wanted), place)
    };
    let link_types = [LinkType::LINUX_SLL2, LinkType::LINUX_SLL];
    let link_types = if on_tap() {
        &link_types[..1]
    } else {
        &link_types
    };
    let filters = [
        "udp port 53",
        "udp",
        "not udp",
        "ip",
        "len > 500",
        "tcp or len > 900",
        "host 10.99.0.1",
        "less 66",
    ];
    for link_type in link_types.iter().copied() {
        let (all, _) = captured(link_type, None, frames.len());
        assert_eq!(all.len(), 12);
        for filter in filters {
            let program = Filter::new(filter).compile(link_type, 262_144).unwrap();
            let expected: Vec<_> = all
                .iter()
                .filter(|seen| program.run(&seen.data, seen.len) > 0)
                .collect();
            let (seen, place) = captured(link_type, Some(filter), expected.len());
            // At the tap, the header that it tests is not there yet.
            let in_kernel = matches!(place, FilterPlace::Kernel { .. });
            assert_eq!(in_kernel, !on_tap(), "{filter:?}: {place}");
            let seen: Vec<_> = seen.iter().map(|seen| &seen.data).collect();
            let expected: Vec<_> = expected.iter().map(|seen| &seen.data).collect();
            assert_eq!(seen, expected, "{link_type} {filter:?}");
        }
    }
}

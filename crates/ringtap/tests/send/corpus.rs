//! Every Ethernet packet of every file of the corpus, over a wire that takes the longest.

use std::path::Path;

use ringtap_packet::LinkType;
use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::netns::{VethOptions, VethPair};

use crate::support::{Receiver, send, summary};

/// The MTU of the wire, and the longest frame that it then takes: with a header, and a tag.
const MTU: u32 = 65_535;
const LONGEST: usize = MTU as usize + 14;
const HEADER: usize = 14;

/// Returns the Ethernet packets up to the first damage.
fn packets_of(file: &Path) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let Ok(mut reader) = Reader::open(file, &ReadOptions::default()) else {
        return packets;
    };
    let mut is_ethernet: Vec<bool> = Vec::new();
    loop {
        let types = reader.interfaces().iter().map(|i| i.link_type);
        is_ethernet.clear();
        is_ethernet.extend(types.map(|link_type| link_type == LinkType::ETHERNET));
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                let ours = run
                    .packets()
                    .filter(|packet| is_ethernet[packet.interface as usize]);
                packets.extend(ours.map(|packet| packet.data.to_vec()));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return packets,
        }
    }
}

pub(crate) fn arrives() {
    let pair = VethPair::with(&VethOptions {
        mtu: Some(MTU),
        ..VethOptions::default()
    });
    let mut receiver = Receiver::on(&pair.right);
    let (mut files, mut arrived, mut failures) = (0, 0, Vec::new());
    for file in ringtap_testkit::corpus::files() {
        let all = packets_of(&file);
        if all.is_empty() {
            continue;
        }
        let takes = |packet: &&Vec<u8>| (HEADER..=LONGEST).contains(&packet.len());
        let expected: Vec<_> = all.iter().filter(takes).collect();
        let name = file.to_str().unwrap();
        let output = send(&pair.left, &["-r", name, "--topspeed"]);
        let summary = summary(&output);
        let seen = receiver.take(expected.len());
        files += 1;
        arrived += seen.len();
        let rejected = summary["not_sent"]["rejected"].as_u64().unwrap();
        let is_right = summary["sent"].as_u64() == Some(expected.len() as u64)
            && rejected == (all.len() - expected.len()) as u64
            && seen.iter().eq(expected.iter().copied());
        if !is_right {
            let differs = seen.iter().zip(&expected).position(|(a, b)| a != *b);
            let (seen, expected) = (seen.len(), expected.len());
            failures.push(format!(
                "{name}: {seen} of {expected}, first difference {differs:?}, {summary}"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(
        files > 100 && arrived > 10_000,
        "{files} files, {arrived} packets"
    );
}

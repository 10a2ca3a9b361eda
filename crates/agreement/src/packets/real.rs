//! Packets of the corpus of captures, by link type, each content once.

use std::collections::{BTreeMap, HashSet};

use ringtap_testkit::corpus;
use ringtap_testkit::libpcap::Oracle;

use super::Packet;

/// Returns the packets of every link type in the corpus, by DLT value: at most `of_each_file` of
/// each file. Empty without a corpus.
///
/// # Panics
/// Panics if the helper that reads captures cannot be started.
/// When the helper that reads captures cannot be started.
#[must_use]
pub fn by_link_type(of_each_file: usize) -> BTreeMap<u32, Vec<Packet>> {
    let mut oracle = Oracle::start().expect("the helper starts");
    let mut found: BTreeMap<u32, Vec<Packet>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for file in corpus::files() {
        // The corpus also has files that libpcap rejects.
        let Ok(capture) = oracle.read(&file) else {
            continue;
        };
        let of_type = found.entry(capture.dlt).or_default();
        for packet in capture.packets.into_iter().take(of_each_file) {
            if seen.insert((capture.dlt, packet.data.clone())) {
                of_type.push((packet.data, packet.len));
            }
        }
    }
    found
}

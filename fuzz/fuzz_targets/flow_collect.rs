//! Datagrams of any sender, as a collector gets them: each is counted, none stops it. Its records can be
//! exported in each version, and be collected again without a complaint.
//!
//! The input is a sequence of datagrams of one exporter, each after two bytes of its length, so that
//! templates come before, after or instead of their data.
#![no_main]

use std::net::SocketAddr;
use std::time::Instant;

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{Encoder, ExportOptions, Message, Version};
use ringtap_flow_io::Decoder;

/// The number of records that are exported again: enough for several messages, and few enough if each claims
/// so much that it becomes thousands.
const MOST: usize = 20;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let from = SocketAddr::from(([192, 0, 2, 1], 2055));
    let mut decoder = Decoder::default();
    let mut records: Vec<FlowRecord> = Vec::new();
    let (mut datagrams, mut bytes, mut taken) = (0, 0, 0);
    let mut rest = input;
    while let Some((&length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        rest = behind;
        decoder.datagram(from, datagram, Instant::now(), &mut |record, _| {
            taken += 1;
            if records.len() < MOST {
                records.push(record.clone());
            }
        });
        datagrams += 1;
        bytes += datagram.len() as u64;
    }
    let seen = decoder.counters();
    assert_eq!((seen.datagrams, seen.bytes), (datagrams, bytes));
    assert_eq!(seen.records, taken);
    if records.is_empty() {
        return;
    }
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        export(&records, version, from);
    }
});

fn export(records: &[FlowRecord], version: Version, from: SocketAddr) {
    let options = ExportOptions::default()
        .version(version)
        .nanos(version == Version::Ipfix);
    let mut encoder = Encoder::new(options).expect("valid options");
    let mut again = Decoder::default();
    let mut sink = |message: Message<'_>| {
        assert!(message.bytes.len() <= usize::from(options.max_message));
        again.datagram(from, message.bytes, Instant::now(), &mut |_, _| ());
    };
    for record in records {
        encoder.record(record, &mut sink);
    }
    encoder.finish(&mut sink);
    let seen = again.counters();
    let complaints = seen.malformed
        + seen.without_template
        + seen.not_flows
        + seen.missed_v5_flows
        + seen.missed_v9_messages
        + seen.missed_ipfix_records;
    assert_eq!(complaints, 0, "{version:?}");
    assert_eq!(seen.records, encoder.counters().flows, "{version:?}");
}

//! Datagrams of anybody, as a collector gets them: each is counted, none stops it, and what it makes of
//! them can be exported in each version, and be collected again without a complaint.
//!
//! The input is a sequence of datagrams of one exporter, each behind two bytes of its length, so that
//! templates come before, after or instead of what they describe.
#![no_main]

use std::net::SocketAddr;

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{Encoder, ExportOptions, Message, Version};

/// The collector's own modules, from its sources, since a program is no library.
#[path = "../../crates/ringtap/src/flow"]
#[expect(dead_code, reason = "what only the program needs")]
mod flow {
    #[path = "outputs"]
    pub(crate) mod outputs {
        mod origin;
        pub(crate) use origin::Origin;
    }

    #[path = "collect"]
    pub(crate) mod collect {
        mod decode;
        mod exporters;
        mod fields;
        mod record;

        use std::net::SocketAddr;

        use ringtap_flow::FlowRecord;

        /// A collector.
        #[derive(Default)]
        pub(crate) struct Collector(decode::Decoder);

        /// What of its counters is compared.
        pub(crate) struct Seen {
            pub(crate) datagrams: u64,
            pub(crate) bytes: u64,
            pub(crate) records: u64,
            /// What should not be where the exporter is right.
            pub(crate) complaints: u64,
        }

        impl Collector {
            pub(crate) fn take(
                &mut self,
                from: SocketAddr,
                datagram: &[u8],
                mut sink: impl FnMut(&FlowRecord),
            ) {
                let mut take = |record: &FlowRecord, _: &super::outputs::Origin| sink(record);
                let now = std::time::Instant::now();
                self.0.datagram(from, datagram, now, &mut take);
            }

            pub(crate) fn seen(&self) -> Seen {
                let counters = self.0.counters();
                Seen {
                    datagrams: counters.datagrams,
                    bytes: counters.bytes,
                    records: counters.records,
                    complaints: counters.malformed
                        + counters.without_template
                        + counters.not_flows
                        + counters.missed_v5_flows
                        + counters.missed_v9_messages
                        + counters.missed_ipfix_records,
                }
            }
        }
    }
}

use flow::collect::Collector;

/// Records that are exported again: enough for several messages, and few enough where each claims so
/// much that it becomes thousands.
const MOST: usize = 20;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let from = SocketAddr::from(([192, 0, 2, 1], 2055));
    let mut collector = Collector::default();
    let mut records: Vec<FlowRecord> = Vec::new();
    let (mut datagrams, mut bytes, mut taken) = (0, 0, 0);
    let mut rest = input;
    while let Some((&length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        rest = behind;
        collector.take(from, datagram, |record| {
            taken += 1;
            if records.len() < MOST {
                records.push(record.clone());
            }
        });
        datagrams += 1;
        bytes += datagram.len() as u64;
    }
    let seen = collector.seen();
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
    let options = ExportOptions {
        version,
        nanos: version == Version::Ipfix,
        ..ExportOptions::default()
    };
    let mut encoder = Encoder::new(options).expect("valid options");
    let mut again = Collector::default();
    let mut sink = |message: Message<'_>| {
        assert!(message.bytes.len() <= usize::from(options.max_message));
        again.take(from, message.bytes, |_| ());
    };
    for record in records {
        encoder.record(record, &mut sink);
    }
    encoder.finish(&mut sink);
    let seen = again.seen();
    assert_eq!(seen.complaints, 0, "{version:?}");
    assert_eq!(seen.records, encoder.counters().flows, "{version:?}");
}

//! The cost of encoders: no memory per record.

use ringtap_flow::export::{Encoder, ExportOptions, Message, Refresh, Version};
use ringtap_flow::{FlowKey, FlowRecord, Traffic};
use ringtap_testkit::alloc::{Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SECOND: u64 = 1_000_000_000;
const RECORDS: u64 = 20_000;

fn record(number: u64) -> FlowRecord {
    let traffic = Traffic {
        packets: number,
        bytes: 100 * number,
        first_ns: 1_700_000_000 * SECOND,
        last_ns: 1_700_000_001 * SECOND,
        ..Traffic::default()
    };
    let [.., a, b, c] = number.to_be_bytes();
    FlowRecord {
        key: FlowKey {
            source: [10, a, b, c].into(),
            protocol: 17,
            vlan: number.is_multiple_of(2).then_some(7),
            ..FlowKey::default()
        },
        forward: traffic,
        reverse: number.is_multiple_of(3).then_some(traffic),
        ..FlowRecord::default()
    }
}

#[test]
fn records_are_encoded_without_allocations() {
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let options = ExportOptions::default()
            .version(version)
            .refresh(Some(Refresh {
                messages: u32::MAX,
                ..Refresh::default()
            }));
        let mut encoder = Encoder::new(options).expect("valid options");
        let mut flows = 0;
        let mut sink = |message: Message<'_>| flows += u64::from(message.flows);
        // A template is made when the first record needs it.
        for number in 0..100 {
            encoder.record(&record(number), &mut sink);
        }
        let ((), counts) = count(|| {
            for number in 100..RECORDS {
                encoder.record(&record(number), &mut sink);
            }
        });
        assert_eq!(counts.allocations, 0, "{version:?}");
        encoder.finish(&mut sink);
        let both = RECORDS.div_ceil(3);
        let expected = match version {
            Version::Ipfix => RECORDS,
            Version::V5 | Version::V9 => RECORDS + both,
        };
        assert_eq!(flows, expected, "{version:?}");
    }
}

//! Interim reports: what they count and what is left at the end is the whole.

use ringtap_flow::{FlowRecord, FlowSink, LinkType, Meter, MeterOptions, Packet, Reported};

use super::ways::wave;
use super::{SECOND, START};

/// Adds up reports, and the rest of flows that end.
#[derive(Default)]
struct Sums {
    reports: u64,
    /// Packets and bytes of both directions.
    added: [u64; 2],
    whole: [u64; 2],
    retransmissions: [u64; 2],
}

impl Sums {
    fn add(&mut self, record: &FlowRecord, reported: &Reported) {
        let before = [
            reported.packets + reported.reverse_packets,
            reported.bytes + reported.reverse_bytes,
        ];
        let now = [record.packets(), record.bytes()];
        for ((sum, now), before) in self.added.iter_mut().zip(now).zip(before) {
            *sum += now.checked_sub(before).expect("counters only grow");
        }
        assert!(record.forward.packets >= reported.packets, "one direction");
        self.retransmissions[0] += retransmissions(record) - u64::from(reported.retransmissions);
    }
}

fn retransmissions(record: &FlowRecord) -> u64 {
    record.tcp.map_or(0, |tcp| {
        u64::from(tcp.forward.retransmissions) + u64::from(tcp.reverse.retransmissions)
    })
}

impl FlowSink for Sums {
    fn record(&mut self, _: &FlowRecord) {
        unreachable!("there are interim reports");
    }

    fn interim(&mut self, record: &FlowRecord, reported: &Reported) {
        self.reports += 1;
        self.add(record, reported);
    }

    fn ended(&mut self, record: &FlowRecord, reported: &Reported) {
        self.add(record, reported);
        self.whole[0] += record.packets();
        self.whole[1] += record.bytes();
        self.retransmissions[1] += retransmissions(record);
    }
}

#[test]
fn reports_and_rests_are_the_whole() {
    for both_ways in [false, true] {
        let options = MeterOptions::default()
            .flows(5000)
            .both_ways(both_ways)
            .measure_tcp(true)
            .interim(true);
        let mut meter = Meter::new(&options).expect("valid options");
        let mut sums = Sums::default();
        let mut due = 0;
        for (time, data) in wave() {
            if time > due {
                meter.interim(START + due.saturating_sub(2 * SECOND), &mut sums);
                due = time + SECOND;
            }
            let packet = Packet {
                data: &data,
                len: u32::try_from(data.len()).expect("short"),
                time_ns: START + time,
                link: LinkType::RAW,
                input: 3,
            };
            meter.push(&packet, &mut sums);
        }
        meter.flush(&mut sums);
        assert!(sums.reports > 1000, "{} reports", sums.reports);
        assert_eq!(sums.added, sums.whole);
        assert_eq!(sums.whole[0], meter.counters().ip_packets);
        assert_eq!(sums.whole[1], meter.counters().ip_bytes);
        assert_eq!(sums.retransmissions[0], sums.retransmissions[1]);
    }
}

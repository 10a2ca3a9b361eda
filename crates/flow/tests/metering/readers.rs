//! Packets that several readers give to the meters.

use ringtap_flow::{
    Batch, Collator, Counters, FlowRecord, LinkType, Meter, MeterOptions, Packet, Spreader,
};
use ringtap_testkit::alloc::count;

use super::build::{ipv4, tcp, udp};
use super::{ACK, START, SYN, medley, meter};

/// Meters that get packets from several readers, each with some of the packets.
struct Stage {
    spreaders: Vec<Spreader>,
    meters: Vec<Meter>,
    collators: Vec<Collator>,
    /// Batches of each meter, on their way.
    sent: Vec<Vec<(usize, Batch)>>,
    /// Returned batches of each reader.
    back: Vec<Vec<Batch>>,
}

impl Stage {
    fn new(options: &MeterOptions, readers: usize, meters: usize) -> Self {
        let spreader = |_| Spreader::one_of(readers, options, meters).expect("valid options");
        let new = |_| Meter::new(options).expect("valid options");
        let spares = |_| (0..80).map(|_| Batch::for_readers(readers)).collect();
        Self {
            spreaders: (0..readers).map(spreader).collect(),
            meters: (0..meters).map(new).collect(),
            collators: (0..meters).map(|_| Collator::new(readers)).collect(),
            sent: (0..meters).map(|_| Vec::with_capacity(80)).collect(),
            back: (0..readers).map(spares).collect(),
        }
    }

    fn push(&mut self, reader: usize, time_ns: u64, data: &[u8]) {
        let packet = Packet {
            data,
            len: u32::try_from(data.len()).expect("short"),
            time_ns: START + time_ns,
            link: LinkType::RAW,
            input: 3,
        };
        let (sent, spares) = (&mut self.sent, &mut self.back[reader]);
        self.spreaders[reader].push(&packet, |meter, batch| {
            let empty = spares.pop().expect("batches come back");
            sent[meter].push((reader, std::mem::replace(batch, empty)));
        });
    }

    /// Lets a reader give its packets and its time.
    fn settle(&mut self, reader: usize, time_ns: u64) {
        let (sent, spares) = (&mut self.sent, &mut self.back[reader]);
        self.spreaders[reader].advance(START + time_ns);
        self.spreaders[reader].settle(|meter, batch| {
            let empty = spares.pop().expect("batches come back");
            sent[meter].push((reader, std::mem::replace(batch, empty)));
        });
    }

    /// Lets meters take the packets that were sent to them.
    fn take(&mut self, sink: &mut impl FnMut(&FlowRecord)) {
        let back = &mut self.back;
        let all = self.collators.iter_mut().zip(&mut self.meters);
        for ((collator, meter), sent) in all.zip(&mut self.sent) {
            for (reader, batch) in sent.drain(..) {
                if let Some(empty) = collator.put(reader, batch) {
                    back[reader].push(empty);
                }
                collator.take(meter, sink, |reader, batch| back[reader].push(batch));
            }
        }
    }

    fn finish(&mut self, sink: &mut impl FnMut(&FlowRecord)) -> Counters {
        let mut sum = Counters::default();
        for spreader in &self.spreaders {
            sum += spreader.counters();
        }
        for (collator, meter) in self.collators.iter_mut().zip(&mut self.meters) {
            collator.finish(meter, sink);
            meter.flush(sink);
            sum += meter.counters();
        }
        sum
    }

    fn early(&self) -> u64 {
        self.collators.iter().map(Collator::early).sum()
    }
}

/// Returns random numbers, the same each time.
fn chance() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_u32;
    move |below| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    }
}

#[test]
fn several_readers_give_the_records_of_one() {
    let packets = medley();
    let options = MeterOptions::default()
        .flows(4096)
        .both_ways(true)
        .measure_tcp(true);
    let key = |record: &FlowRecord| {
        let key = &record.key;
        let ports = (key.source_port, key.destination_port, key.protocol);
        (key.source, key.destination, ports, record.forward.first_ns)
    };
    let (mut expected, counters) = meter(&options, &packets);
    expected.sort_by_key(key);
    for (readers, meters) in [(2, 1), (3, 2)] {
        let (mut stage, mut random) = (Stage::new(&options, readers, meters), chance());
        let mut records = Vec::new();
        let mut sink = |record: &FlowRecord| records.push(record.clone());
        for (number, (time, data)) in packets.iter().enumerate() {
            // Directions of a flow, and even packets of one, come through any reader.
            stage.push(random(readers), *time, data);
            if number % 50 == 0 {
                // Readers and meters run in any order.
                stage.settle(random(readers), *time);
            }
            if random(300) == 0 {
                stage.take(&mut sink);
            }
        }
        (0..readers).for_each(|reader| stage.settle(reader, 0));
        stage.take(&mut sink);
        let sum = stage.finish(&mut sink);
        assert_eq!(stage.early(), 0);
        records.sort_by_key(key);
        assert_eq!(records.len(), expected.len(), "{readers} readers");
        for (record, expected) in records.iter().zip(&expected) {
            assert_eq!(record, expected, "{readers} readers");
        }
        let peak = counters.peak;
        assert_eq!(Counters { peak, ..sum }, counters, "{readers} readers");
    }
}

#[test]
fn an_answer_that_is_read_first_stays_an_answer() {
    let options = MeterOptions::default()
        .flows(64)
        .both_ways(true)
        .measure_tcp(true);
    let mut stage = Stage::new(&options, 2, 1);
    let mut records = Vec::new();
    let mut sink = |record: &FlowRecord| records.push(record.clone());
    let request = |time| (time, ipv4(1, 2, 17, &udp(1000, 53, b"?")));
    let answer = |time| (time, ipv4(2, 1, 17, &udp(53, 1000, b"!")));
    let part = |from, to, flags, sequence| ipv4(from, to, 6, &tcp(5, 80, flags, sequence, b""));
    let back = |from, to, flags, sequence| ipv4(from, to, 6, &tcp(80, 5, flags, sequence, b""));
    for (time, data) in [
        answer(2_000),
        (4_000, back(8, 7, SYN | ACK, 9)),
        answer(6_000),
    ] {
        stage.push(1, time, &data);
    }
    stage.settle(1, 9_000);
    stage.take(&mut sink);
    for (time, data) in [
        request(1_000),
        (3_000, part(7, 8, SYN, 1)),
        (5_000, part(7, 8, ACK, 2)),
        request(5_500),
    ] {
        stage.push(0, time, &data);
    }
    stage.settle(0, 9_000);
    stage.take(&mut sink);
    stage.finish(&mut sink);
    records.sort_by_key(|record| record.key.protocol);
    let [connection, question] = &records[..] else {
        panic!("{records:?}");
    };
    let measured = connection.tcp.expect("asked for");
    assert_eq!(connection.key.destination_port, 80);
    assert_eq!(measured.server_rtt_ns, Some(1_000));
    assert_eq!(measured.client_rtt_ns, Some(1_000));
    assert_eq!(question.key.destination_port, 53);
    assert_eq!(question.forward.packets, 2);
    assert_eq!(question.reverse.map(|reverse| reverse.packets), Some(2));
}

/// One reader of two is silent: the other's packets wait in bounded memory and are still counted, without any
/// allocation.
#[test]
fn a_reader_that_says_nothing_holds_nothing_up() {
    const PACKETS: u64 = 200_000;
    let options = MeterOptions::default().flows(1024).both_ways(true);
    let mut stage = Stage::new(&options, 2, 1);
    // The maximum that may wait, and one on its way.
    let most = (0..140).map(|_| Batch::for_readers(2)).collect();
    stage.back = vec![most, Vec::new()];
    let mut data = ipv4(1, 2, 17, &udp(1, 2, b""));
    let mut packets = 0;
    let mut sink = |record: &FlowRecord| packets += record.packets();
    let ((), counts) = count(|| {
        for number in 0..PACKETS {
            data[15] = u8::try_from(number % 200).unwrap_or(0);
            stage.push(0, number * 1000, &data);
            stage.take(&mut sink);
        }
    });
    assert_eq!(counts.allocations, 0);
    assert!(stage.early() > 0);
    stage.settle(0, PACKETS * 1000);
    stage.take(&mut sink);
    let counters = stage.finish(&mut sink);
    assert_eq!((packets, counters.ip_packets), (PACKETS, PACKETS));
}

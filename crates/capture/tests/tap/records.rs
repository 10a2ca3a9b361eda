//! The content of a record, and the number of records in a ring.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    Change, Clock, KernelClock, Next, PacketFlags, Precision, SampleMode, Timestamp,
};
use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::traffic::{LiveFrames, Target};

use crate::support::{Seen, drain, frame, injector, number, numbers, patience, prompt, send, tap};

/// Bytes of a record beside the packet and its padding.
const RECORD: usize = 44;

/// Returns the 32-bit word of a record in the machine's order.
fn word(record: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(record[at..at + 4].try_into().unwrap())
}

pub(crate) fn are_packet_blocks() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for engine in ["tcx", "xdp"] {
        let mut source = tap(engine, &pair.right, &prompt());
        injector.send(&frame(1, 61)).unwrap();
        loop {
            let Next::Block(block) = source.next().unwrap() else {
                continue;
            };
            let run = block.runs().unwrap().next().unwrap();
            let record = run.bytes();
            assert_eq!(record.len(), RECORD + 64);
            let words = [0, 4, 8, 20, 24].map(|at| word(record, at));
            assert_eq!(words, [6, 108, 0, 61, 61], "{engine}");
            assert_eq!(record[28..89], frame(1, 61));
            assert_eq!(record[89..92], [0; 3], "padding");
            assert_eq!(word(record, 104), 108, "the length again");
            let flags = if engine == "tcx" { 1 | 3 << 2 } else { 1 };
            assert_eq!(block.packets().next().unwrap().flags, PacketFlags(flags));
            break;
        }
    }
}

pub(crate) fn every_length_is_whole() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let bytes = |len: usize| -> Vec<u8> {
        let mut frame = frame(u32::try_from(len).unwrap(), len.max(18));
        (18..frame.len()).for_each(|at| frame[at] = u8::try_from(at * 7 % 251).unwrap());
        frame.truncate(len);
        frame
    };
    // Around the lengths at which programs copy in another way.
    for (engine, snaplen) in [("tcx", 300), ("xdp", 300), ("xdp", 77)] {
        let options = prompt().snaplen(snaplen);
        let mut source = tap(engine, &pair.right, &options);
        let lens = 14..=150;
        for len in lens.clone() {
            injector.send(&bytes(len)).unwrap();
        }
        let seen = drain(&mut *source, lens.clone().count());
        assert_eq!(seen.len(), lens.clone().count(), "{engine}");
        for (len, packet) in lens.zip(seen) {
            assert_eq!(packet.len as usize, len, "{engine}");
            let kept = len.min(snaplen as usize);
            assert_eq!(packet.data, bytes(len)[..kept], "{engine}");
        }
    }
}

/// Programs write records of packets that are longer than a short snaplen in a way of their own.
pub(crate) fn cut_packets_have_whole_records() {
    const SENT: usize = 350;
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for snaplen in [8_u32, 77, 96, 128] {
        // The smallest ring, so that records come to lie where others were.
        let options = prompt().buffer(1).snaplen(snaplen);
        let mut source = tap("xdp", &pair.right, &options);
        let kept = snaplen as usize;
        let padded = kept.next_multiple_of(4);
        let total = snaplen.next_multiple_of(4) + 44;
        for _ in 0..3 {
            (0..SENT).for_each(|_| send(&injector, &[0xee; 150]));
            let mut came = 0;
            while came < SENT {
                let Next::Block(block) = source.next().unwrap() else {
                    continue;
                };
                let run = block.runs().unwrap().next().unwrap();
                let mut rest = run.bytes();
                while !rest.is_empty() {
                    let (record, behind) = rest.split_at(total as usize);
                    let begin = [0, 4, 8, 20, 24].map(|at| word(record, at));
                    assert_eq!(begin, [6, total, 0, snaplen, 150]);
                    assert!(word(record, 12) > 0, "the time");
                    assert_eq!(record[28..28 + kept], [0xee; 150][..kept]);
                    assert!(record[28 + kept..28 + padded].iter().all(|byte| *byte == 0));
                    assert_eq!(
                        record[28 + padded..32 + padded],
                        [2_u16, 4].map(u16::to_ne_bytes).concat()
                    );
                    let end = [4, 8, 12].map(|at| word(record, 28 + padded + at));
                    assert_eq!(end, [1, 0, total]);
                    (rest, came) = (behind, came + 1);
                }
            }
        }
        assert_eq!(source.stats().unwrap().received, Some(3 * SENT as u64));
    }
}

pub(crate) fn blocks_are_whole_runs() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    // Small rings, so that they wrap often.
    let options = prompt().buffer(1 << 18).snaplen(2000);
    let mut source = tap("tcx", &pair.right, &options);
    let (mut sent, mut came) = (0, 0);
    let (mut bytes, mut captured) = (0, 0);
    while sent < 5_000 {
        for _ in 0..50 {
            injector
                .send(&frame(sent, 60 + sent as usize * 7 % 1400))
                .unwrap();
            sent += 1;
        }
        while came < sent {
            if let Next::Block(block) = source.next().unwrap() {
                let run = block.runs().unwrap().next().unwrap();
                assert_eq!(run.len(), run.packets().count());
                captured += run.captured_bytes();
                for packet in run.packets() {
                    assert_eq!(packet.data, frame(came, 60 + came as usize * 7 % 1400));
                    bytes += packet.data.len() as u64;
                    came += 1;
                }
            }
        }
    }
    assert_eq!(captured, bytes);
}

pub(crate) fn padding_shows_nothing_old() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().buffer(1);
    let mut source = tap("tcx", &pair.right, &options);
    for round in 0..40_u32 {
        (0..100).for_each(|_| injector.send(&[0xee; 1400]).unwrap());
        injector
            .send(&frame(round, 61 + round as usize % 3))
            .unwrap();
        let mut found = false;
        while !found {
            let Next::Block(block) = source.next().unwrap() else {
                continue;
            };
            let run = block.runs().unwrap().next().unwrap();
            let mut rest = run.bytes();
            while !rest.is_empty() {
                let (record, behind) = rest.split_at(word(rest, 4) as usize);
                let caplen = word(record, 20) as usize;
                if caplen < 1000 {
                    let padded = 28 + caplen.next_multiple_of(4);
                    assert!(record[28 + caplen..padded].iter().all(|byte| *byte == 0));
                    found = true;
                }
                rest = behind;
            }
        }
    }
}

pub(crate) fn whole_buffer_is_usable() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for (buffer, len) in [(1_usize << 20, 60_usize), (1 << 20, 1496), (1 << 19, 333)] {
        let options = prompt().buffer(buffer as u64);
        let mut source = tap("tcx", &pair.right, &options);
        let memory = source.describe().memory.unwrap();
        let ring = memory.block_size as usize;
        let fits = ring / (RECORD + len.next_multiple_of(4));
        // The reader is stalled. Packets on any processor can use all rings.
        let sent = fits * memory.blocks as usize * 2;
        (0..sent).for_each(|_| injector.send(&frame(7, len)).unwrap());
        let stats = source.stats().unwrap();
        let lost = stats.dropped.ring.unwrap();
        assert_eq!(stats.received, Some(sent as u64));
        let held = sent - usize::try_from(lost).unwrap();
        assert!(lost > 0);
        let fits = fits * memory.blocks as usize;
        assert!(held >= fits * 95 / 100, "{held} of {fits} at {len} bytes");
        assert_eq!(drain(&mut *source, held).len(), held);
    }
}

/// Returns the clock of a capture that asks for a stamp each poll. With `PREEMPT_RT` polls interrupt one another, and
/// each packet has a stamp.
fn clock_of_polls() -> KernelClock {
    let flag = std::fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    match flag.trim() {
        "1" => KernelClock::Tai,
        _ => KernelClock::TaiByPoll,
    }
}

pub(crate) fn whole_buffer_is_usable_by_polls() {
    let pair = VethPair::new();
    let options = prompt().buffer(1 << 20).precision(Precision::Poll);
    let mut source = tap("xdp", &pair.right, &options);
    let described = source.describe();
    assert_eq!(described.clock, Clock::Kernel(clock_of_polls()));
    let memory = described.memory.unwrap();
    let fits = memory.block_size as usize / (RECORD + 60) * memory.blocks as usize;
    let frames = LiveFrames::new(&frame(1, 60), Target::OutOf(&pair.left)).unwrap();
    let begin = Instant::now();
    let stats = loop {
        // The driver drops packets for which its queue has no room, so some are sent until enough have come.
        frames.send(256).unwrap();
        let stats = source.stats().unwrap();
        if stats.received.unwrap() >= 2 * fits as u64 {
            break stats;
        }
        assert!(begin.elapsed() < patience(), "{stats:?}");
        thread::sleep(Duration::from_millis(1));
    };
    let held = usize::try_from(stats.received.unwrap() - stats.dropped.ring.unwrap()).unwrap();
    assert!((fits * 95 / 100..=fits).contains(&held), "{held} of {fits}");
    let seen = drain(&mut *source, held);
    assert_eq!(seen.len(), held);
    assert!(seen.is_sorted_by_key(|packet| packet.timestamp));
}

pub(crate) fn losses_are_told_in_place() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().buffer(1);
    let mut source = tap("tcx", &pair.right, &options);
    let mut told = 0;
    let mut stored = 0_u64;
    for _ in 0..3 {
        (0..2000).for_each(|i| injector.send(&frame(i, 1400)).unwrap());
        let mut quiet = 0;
        while quiet < 3 {
            let Next::Block(block) = source.next().unwrap() else {
                quiet += 1;
                continue;
            };
            for (_, options) in block.packets_with_options() {
                stored += 1;
                if let Some(value) = options.get(4) {
                    told += u64::from_ne_bytes(value.try_into().unwrap());
                }
            }
        }
        // The next packet of each processor contains its losses; a few, so that all have had one.
        (0..50).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    }
    for (_, options) in drain_options(&mut *source) {
        stored += 1;
        told += options;
    }
    let stats = source.stats().unwrap();
    assert_eq!(stats.received, Some(6150));
    assert_eq!(stored + stats.dropped.ring.unwrap(), 6150);
    assert!(told > 0 && told <= stats.dropped.ring.unwrap());
    // Another processor's last loss may be untold, not most of them.
    assert!(told * 3 >= stats.dropped.ring.unwrap(), "{told} {stats:?}");
}

/// Returns length and reported losses of the remaining records.
fn drain_options(source: &mut dyn ringtap_capture::Source) -> Vec<(u32, u64)> {
    let mut told = Vec::new();
    let mut quiet = 0;
    while quiet < 3 {
        let Next::Block(block) = source.next().unwrap() else {
            quiet += 1;
            continue;
        };
        for (packet, options) in block.packets_with_options() {
            let losses = options
                .get(4)
                .map_or(0, |value| u64::from_ne_bytes(value.try_into().unwrap()));
            told.push((packet.len, losses));
        }
    }
    told
}

pub(crate) fn large_packets_are_whole() {
    let pair = VethPair::with(&VethOptions {
        mtu: Some(9000),
        ..VethOptions::default()
    });
    let injector = injector(&pair.left);
    for engine in ["tcx", "xdp"] {
        let mut source = tap(engine, &pair.right, &prompt());
        if engine == "xdp" {
            assert!(
                source.describe().hook.starts_with("XDP in the driver"),
                "{}",
                source.describe()
            );
        }
        let sizes = [60, 1514, 3500, 3521, 4096, 9014];
        for (i, &size) in (0..).zip(&sizes) {
            injector.send(&frame(i, size)).unwrap();
        }
        let seen = drain(&mut *source, sizes.len());
        assert_eq!(seen.len(), sizes.len());
        for (i, (packet, &size)) in (0..).zip(seen.iter().zip(&sizes)) {
            assert_eq!(packet.data, frame(i, size), "{engine} {size}");
            assert_eq!(packet.len as usize, size);
        }
    }
}

/// XDP hands out 65,535 bytes of a packet and no more.
pub(crate) fn what_is_cut_is_counted() {
    const MOST: usize = 65_535;
    let pair = VethPair::with(&VethOptions {
        mtu: Some(65_535),
        ..VethOptions::default()
    });
    let mut source = tap("xdp", &pair.right, &prompt());
    let injector = injector(&pair.left);
    let sizes = [60, MOST, MOST + 14];
    for (i, &size) in (0..).zip(&sizes) {
        injector.send(&frame(i, size)).unwrap();
    }
    let seen = drain(&mut *source, sizes.len());
    let lengths = |kept: fn(&Seen) -> usize| seen.iter().map(kept).collect::<Vec<_>>();
    assert_eq!(lengths(|packet| packet.len as usize), sizes);
    assert_eq!(lengths(|packet| packet.data.len()), [60, MOST, MOST]);
    assert_eq!(source.stats().unwrap().clamped, Some(1));
}

pub(crate) fn joined_segments_are_whole() {
    const BYTES: usize = 1 << 20;
    let pair = VethPair::new();
    let mut source = tap("tcx", &pair.right, &prompt());
    let address = (pair.right.ipv4, 9000);
    let listener = pair.right.run(|| TcpListener::bind(address).unwrap());
    let sender = pair.left.run(|| TcpStream::connect(address).unwrap());
    let (mut receiver, _) = listener.accept().unwrap();
    let writer = std::thread::spawn(move || {
        let mut sender = sender;
        sender.write_all(&vec![0x5a; BYTES]).unwrap();
    });
    let mut received = vec![0; BYTES];
    receiver.read_exact(&mut received).unwrap();
    writer.join().unwrap();
    let seen = drain(&mut *source, 1);
    assert!(
        seen.iter()
            .all(|packet| packet.data.len() == packet.len as usize)
    );
    let largest = seen.iter().map(|packet| packet.len).max().unwrap();
    assert!(
        largest > 10_000,
        "no joined segments, the largest has {largest}"
    );
    let inbound = seen.iter().filter(|packet| packet.flags.0 & 3 == 1);
    let payload: usize = inbound
        .map(|packet| packet.data.len().saturating_sub(66))
        .sum();
    assert!(payload >= BYTES);
    assert!(seen.iter().any(|packet| packet.flags.0 & 3 == 2), "answers");
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::new(i64::try_from(now.as_secs()).unwrap(), now.subsec_nanos())
}

pub(crate) fn polls_have_a_stamp_each() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().precision(Precision::Poll).buffer(16 << 20);
    let mut source = tap("xdp", &pair.right, &options);
    let described = source.describe().clock;
    assert_eq!(described, Clock::Kernel(clock_of_polls()));
    // Each of these is a poll of its own.
    let mut times = Vec::new();
    for number in 0..50 {
        let before = now();
        injector.send(&frame(number, 60)).unwrap();
        times.push((before, now()));
    }
    let seen = drain(&mut *source, 50);
    assert_eq!(numbers(&seen), (0..50).collect::<Vec<_>>());
    for ((before, after), packet) in times.into_iter().zip(seen) {
        assert!((before..=after).contains(&packet.timestamp));
    }
    // So are not these; rings that were exchanged are left nevertheless.
    pair.right
        .run(|| source.change(Change::Buffer(32 << 20)))
        .unwrap();
    let packets = 20_000;
    let frames = LiveFrames::new(&frame(1, 60), Target::OutOf(&pair.left)).unwrap();
    frames.send(packets).unwrap();
    let seen = drain(&mut *source, packets as usize);
    assert_eq!(seen.len(), packets as usize);
    let new = |two: &[Seen]| two[0].timestamp < two[1].timestamp;
    let stamps = seen.windows(2).filter(|two| new(two)).count();
    let is_shared = clock_of_polls() == KernelClock::TaiByPoll;
    assert!(
        stamps > 10 && (stamps < seen.len() / 4) == is_shared,
        "{stamps} stamps"
    );
    let is_sorted = seen.is_sorted_by_key(|packet| packet.timestamp);
    assert!(is_sorted);
    // At tcx packets come from elsewhere, too.
    let tcx = tap("tcx", &pair.right, &options);
    assert_eq!(tcx.describe().clock, Clock::Kernel(KernelClock::Tai));
}

pub(crate) fn stamps_follow_the_choice() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for precision in [Precision::Fine, Precision::Coarse, Precision::None] {
        let options = prompt().precision(precision);
        let mut source = tap("tcx", &pair.right, &options);
        let before = now();
        (0..20).for_each(|i| injector.send(&frame(i, 60)).unwrap());
        let seen = drain(&mut *source, 20);
        // A kernel thread may deliver them after the last call that sends.
        let after = now();
        assert_eq!(numbers(&seen), (0..20).collect::<Vec<_>>());
        // A tick is 10 ms at most, but the processor that counts them may be kept from it.
        let early = if precision == Precision::Coarse {
            1_000_000_000
        } else {
            0
        };
        for packet in seen {
            if precision == Precision::None {
                assert_eq!(packet.timestamp, Timestamp::default());
            } else {
                let stamp = packet.timestamp.as_nanos();
                let (before, after) = (before.as_nanos(), after.as_nanos());
                let is_between = (before - early..=after).contains(&stamp);
                assert!(is_between, "{precision:?}: {before} {stamp} {after}");
            }
        }
    }
}

pub(crate) fn samples_each_nth() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt()
        .sample(NonZeroU32::new(10))
        .sample_mode(SampleMode::Regular);
    let mut source = tap("tcx", &pair.right, &options);
    let processors = source.describe().memory.unwrap().blocks;
    (0..1000).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    let seen = drain(&mut *source, 100);
    let kept = u32::try_from(seen.len()).unwrap();
    // The first of each processor, and each tenth of its own.
    assert!((100..100 + processors).contains(&kept), "{kept}");
    assert_eq!(number(&seen[0].data), 0);
    let stats = source.stats().unwrap();
    assert_eq!(stats.received, Some(kept.into()));
    assert_eq!(stats.dropped.sampling, Some(u64::from(1000 - kept)));
}

//! Every packet arrives once, unchanged.

use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{CaptureOptions, Direction, Next, PacketFlags, Source, Timestamp};
use ringtap_testkit::alloc;
use ringtap_testkit::netns::{Namespace, VethPair};

use crate::support::{
    collect, data, drain, frame, injector, injector_in, notes, number, on_tap, open_in, open_on,
    prompt,
};

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::new(i64::try_from(now.as_secs()).unwrap(), now.subsec_nanos())
}

pub(crate) fn captures_every_packet() {
    let pair = VethPair::new();
    // All sent packets fit into each processor's part, however long the reader has to wait for one.
    let options = prompt().buffer(64 << 20);
    let mut source = open_on(&pair.right, &options, None);
    let injector = injector(&pair.left);
    let frames: Vec<_> = (0..20_000)
        .map(|i| frame(i, 60 + (i as usize * 7) % 1455))
        .collect();
    let before = now();
    let sender = std::thread::spawn({
        let frames = frames.clone();
        move || {
            frames
                .iter()
                .for_each(|frame| injector.send(frame).unwrap());
        }
    });
    let seen = collect(&mut *source, frames.len());
    sender.join().unwrap();
    let mut last = before;
    assert_eq!(seen.len(), frames.len());
    for (packet, frame) in seen.iter().zip(&frames) {
        assert_eq!(&packet.data, frame);
        assert_eq!(packet.len as usize, frame.len());
        assert!(
            packet.timestamp >= last,
            "{:?} after {last:?}",
            packet.timestamp
        );
        last = packet.timestamp;
    }
    assert!(last <= now());
    assert_eq!(source.stats().unwrap().dropped.ring, Some(0));
}

pub(crate) fn stamps_with_nanoseconds() {
    let pair = VethPair::new();
    let mut source = open_on(&pair.right, &prompt(), None);
    let injector = injector(&pair.left);
    (0..100).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    let seen = collect(&mut *source, 100);
    let fine = seen
        .iter()
        .filter(|packet| packet.timestamp.subsec_nanos() % 1000 != 0)
        .count();
    assert!(
        fine > 90,
        "{fine} of 100 timestamps are finer than a microsecond"
    );
}

pub(crate) fn cuts_to_the_snaplen() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for snaplen in [1, 14, 96, 1000] {
        let options = prompt().snaplen(snaplen);
        let mut source = open_on(&pair.right, &options, None);
        injector.send(&frame(7, 600)).unwrap();
        let seen = collect(&mut *source, 1);
        assert_eq!(seen[0].len, 600);
        assert_eq!(seen[0].data, frame(7, 600)[..600.min(snaplen as usize)]);
        assert_eq!(source.interfaces()[0].snaplen, snaplen);
    }
}

pub(crate) fn takes_one_direction() {
    let pair = VethPair::new();
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    let cases = [
        (Direction::In, vec![1]),
        (Direction::Out, vec![2]),
        (Direction::Both, vec![1, 2]),
    ];
    for (direction, expected) in cases {
        let options = prompt().direction(direction);
        let mut source = open_on(&pair.right, &options, None);
        left.send(&frame(1, 60)).unwrap();
        right.send(&frame(2, 60)).unwrap();
        let seen = drain(&mut *source, expected.len());
        let numbers: Vec<_> = seen.iter().map(|packet| number(&packet.data)).collect();
        assert_eq!(numbers, expected, "{direction:?}");
        for packet in &seen {
            let sent = number(&packet.data) == 2;
            let way = if sent {
                PacketFlags::OUTBOUND
            } else {
                PacketFlags::INBOUND
            };
            assert_eq!(packet.flags.0 & 3, way.0);
        }
        assert_eq!(
            source.stats().unwrap().received,
            Some(expected.len() as u64)
        );
    }
}

pub(crate) fn shows_loopback_once() {
    let namespace = Namespace::new();
    let injector = injector_in(&namespace, "lo");
    // A tap captures on one interface.
    let devices: &[&str] = if on_tap() { &["lo"] } else { &["lo", "any"] };
    for device in devices {
        for direction in [Direction::Both, Direction::In, Direction::Out] {
            let options = prompt().direction(direction);
            let mut source = open_in(&namespace, device, &options, None);
            (0..50).for_each(|i| injector.send(&frame(i, 60)).unwrap());
            let seen = drain(&mut *source, 50);
            assert_eq!(seen.len(), 50, "{device} {direction:?}");
            let stats = source.stats().unwrap();
            assert_eq!((stats.received, stats.dropped.ring), (Some(50), Some(0)));
        }
    }
}

pub(crate) fn counts_exactly() {
    const SENT: u64 = 3000;
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().buffer(1).snaplen(1500);
    let mut source = open_on(&pair.right, &options, None);
    assert_eq!(
        notes(&*source).len(),
        1,
        "the buffer is larger than one byte"
    );
    (0..3000).for_each(|i| injector.send(&frame(i, 1500)).unwrap());
    let dropped = source.stats().unwrap().dropped.ring.unwrap();
    let held = usize::try_from(SENT - dropped).unwrap();
    let captured = drain(&mut *source, held).len() as u64;
    let stats = source.stats().unwrap();
    assert_eq!(stats.dropped.ring, Some(dropped));
    assert_eq!(stats.received, Some(SENT));
    assert_eq!(captured + dropped, SENT);
    assert!(dropped > 0);
    assert_eq!(stats.freezes.is_none(), on_tap());
    assert_ne!(stats.freezes, Some(0));
    assert_eq!(stats.dropped.interface, Some(0));
    assert_eq!(source.stats().unwrap(), stats);
}

pub(crate) fn samples_about_one_in_n() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().sample(NonZeroU32::new(10));
    let mut source = open_on(&pair.right, &options, None);
    let sender = std::thread::spawn(move || {
        (0..10_000).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    });
    // Read in the meantime: where sending takes seconds, the ring's blocks are handed over nearly empty.
    let mut seen = 0;
    while !sender.is_finished() {
        if let Next::Block(block) = source.next().unwrap() {
            seen += block.packets().count();
        }
    }
    sender.join().unwrap();
    // The kernel has counted those that it let through.
    let let_through = usize::try_from(source.stats().unwrap().received.unwrap()).unwrap();
    seen += drain(&mut *source, let_through.saturating_sub(seen)).len();
    assert_eq!(seen, let_through);
    // Ten standard deviations.
    assert!((700..=1300).contains(&seen), "{seen} of 10,000");
    let left_out = on_tap().then_some(10_000 - seen as u64);
    assert_eq!(source.stats().unwrap().dropped.sampling, left_out);
}

pub(crate) fn allocates_nothing_per_packet() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default().timeout(Duration::from_millis(2));
    let mut source = open_on(&pair.right, &options, Some("ether proto 0x88b5"));
    let sender = std::thread::spawn(move || {
        (0..20_000).for_each(|i| injector.send(&frame(i, 200)).unwrap());
    });
    let read = |source: &mut dyn Source| {
        let (mut packets, mut blocks, mut bytes) = (0, 0, 0);
        while packets < 20_000 {
            if let Next::Block(block) = source.next().unwrap() {
                blocks += 1;
                for packet in &block {
                    packets += 1;
                    bytes += packet.data.len();
                }
            }
        }
        (packets, blocks, bytes)
    };
    let begun = Instant::now();
    let ((packets, blocks, bytes), counts) = alloc::count(|| read(&mut *source));
    sender.join().unwrap();
    assert_eq!((packets, bytes), (20_000, 200 * 20_000));
    // There are fewer and larger ones if the reader had to wait for its processor.
    assert!(blocks > 4, "{blocks} blocks");
    // Once a second the hooks are looked at, and at clsact at the start, too: the kernel sends a list.
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let is_clsact = source.describe().hook.starts_with("clsact");
    let most = 64 * (seconds + usize::from(is_clsact));
    assert!(
        usize::try_from(counts.allocations).unwrap() <= most,
        "{counts:?} in {blocks} blocks, with all their waits",
    );
    let (none, counts) = alloc::count(|| data(&[]).len());
    assert_eq!((none, counts.allocations), (0, 0));
    let (_, counts) = alloc::count(|| Vec::<u8>::with_capacity(64));
    assert_eq!(counts.allocations, 1, "the counting allocator counts");
}

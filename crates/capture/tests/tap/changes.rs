//! Changes while packets come.

use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Change, Delivery, Filter, Next};
use ringtap_testkit::netns::VethPair;

use crate::support::{drain, frame, injector, number, numbers, patience, prompt, tap};

const SENT: u32 = 60_000;

/// A capture that loses nothing for lack of room.
fn roomy() -> CaptureOptions {
    prompt().buffer(64 << 20)
}

pub(crate) fn filters_in_a_flood() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = tap("tcx", &pair.right, &roomy());
    let sender = thread::spawn(move || {
        (0..SENT).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    });
    let filters = [
        "ether proto 0x88b5",
        "",
        "ether[17] & 1 = 0",
        "ether[17] & 3 = 0",
    ];
    let mut seen = Vec::new();
    for (round, filter) in (0..).zip(filters.iter().cycle().take(40)) {
        let filter = (!filter.is_empty()).then(|| Filter::new(*filter));
        source.set_filter(filter.as_ref()).unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(3) {
            if let Next::Block(block) = source.next().unwrap() {
                for packet in &block {
                    let number = number(packet.data);
                    let matches = match round % 4 {
                        2 => number.is_multiple_of(2),
                        3 => number.is_multiple_of(4),
                        _ => true,
                    };
                    assert!(matches, "{number} in round {round}");
                    seen.push(number);
                }
            }
        }
    }
    source.set_filter(None).unwrap();
    sender.join().unwrap();
    seen.extend(numbers(&drain(&mut *source, 0)));
    // Every packet that matches every filter is there, and none is there twice. Each processor's
    // packets are in order; the sender may have moved once or more, in order as well.
    let fourths = seen
        .iter()
        .filter(|number| number.is_multiple_of(4))
        .count();
    assert_eq!(fourths, SENT as usize / 4);
    assert!(seen.windows(2).all(|two| two[0] < two[1]));
    assert_eq!(source.stats().unwrap().dropped.ring, Some(0));
}

pub(crate) fn the_buffer_in_a_flood() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = tap("tcx", &pair.right, &roomy());
    let sender = thread::spawn(move || {
        (0..SENT).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    });
    let mut seen = Vec::new();
    let begin = Instant::now();
    for round in 0..20 {
        source
            .change(Change::Buffer((16 << 20) << (round % 3)))
            .unwrap();
        for _ in 0..5 {
            if let Next::Block(block) = source.next().unwrap() {
                seen.extend(block.packets().map(|packet| number(packet.data)));
            }
        }
        assert!(begin.elapsed() < patience());
    }
    sender.join().unwrap();
    seen.extend(numbers(&drain(&mut *source, SENT as usize - seen.len())));
    assert_eq!(seen, (0..SENT).collect::<Vec<_>>());
    let stats = source.stats().unwrap();
    assert_eq!(stats.received, Some(SENT.into()));
    assert_eq!((stats.dropped.ring, stats.dropped.hook), (Some(0), Some(0)));
    assert_eq!(source.describe().memory.unwrap().bytes(), 32 << 20);
}

pub(crate) fn delivery() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = tap("tcx", &pair.right, &prompt());
    let long = Delivery {
        min_to_copy: 1 << 20,
        timeout: Duration::from_millis(400),
        immediate: false,
    };
    source.change(Change::Delivery(long)).unwrap();
    injector.send(&frame(1, 60)).unwrap();
    let begin = Instant::now();
    assert!(matches!(source.next().unwrap(), Next::Block(_)));
    assert!(begin.elapsed() >= Duration::from_millis(399));
    let at_once = Delivery {
        timeout: Duration::from_secs(60),
        immediate: true,
        ..long
    };
    source.change(Change::Delivery(at_once)).unwrap();
    injector.send(&frame(2, 60)).unwrap();
    let begin = Instant::now();
    assert!(matches!(source.next().unwrap(), Next::Block(_)));
    assert!(begin.elapsed() < patience());
    let wrong = Delivery {
        timeout: Duration::ZERO,
        ..long
    };
    assert!(source.change(Change::Delivery(wrong)).is_err());
}

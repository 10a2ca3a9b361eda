//! Waiting, and what ends it.

use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Next};
use ringtap_testkit::netns::VethPair;

use crate::support::{flooded, frame, injector, open_on, prompt};

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn wakes_without_traffic() {
    let pair = VethPair::new();
    let options = CaptureOptions::default().timeout(LONG);
    let mut source = open_on(&pair.right, &options, None);
    let waker = source.waker();
    let begin = Instant::now();
    // Before the wait: the wake-up is kept, and given once.
    waker.wake();
    assert!(matches!(source.next().unwrap(), Next::Woken));
    // During the wait.
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        waker.wake();
    });
    assert!(matches!(source.next().unwrap(), Next::Woken));
    thread.join().unwrap();
    assert!(begin.elapsed() < LONG / 2);
}

pub(crate) fn wakes_in_a_flood() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = open_on(&pair.right, &prompt(), None);
    let waker = source.waker();
    flooded(&injector, &[frame(1, 1500)], || {
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            waker.wake();
        });
        let begin = Instant::now();
        while !matches!(source.next().unwrap(), Next::Woken) {
            assert!(begin.elapsed() < LONG);
        }
        thread.join().unwrap();
    });
}

pub(crate) fn times_out() {
    let pair = VethPair::new();
    let options = CaptureOptions::default().timeout(Duration::from_millis(100));
    let mut source = open_on(&pair.right, &options, None);
    let begin = Instant::now();
    assert!(matches!(source.next().unwrap(), Next::TimedOut));
    assert!(
        begin.elapsed() >= Duration::from_millis(99),
        "{:?}",
        begin.elapsed()
    );
    assert!(begin.elapsed() < LONG);
}

pub(crate) fn delivers_immediately() {
    const PACKETS: u32 = 50;
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default().timeout(LONG).immediate(true);
    let mut source = open_on(&pair.right, &options, None);
    for i in 0..PACKETS {
        injector.send(&frame(i, 60)).unwrap();
        let begin = Instant::now();
        assert!(matches!(source.next().unwrap(), Next::Block(_)));
        assert!(begin.elapsed() < LONG, "it was the timeout's");
    }
    assert!(source.describe().delivery_bound.unwrap() <= Duration::from_millis(20));
}

//! The receive ring on a veth pair made by the test.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_sys::packet::inject::Injector;
use ringtap_sys::packet::{
    Geometry, GeometryRequest, Instruction, LinkLayer, Ring, RingOptions, TimestampSource,
    page_size,
};
use ringtap_sys::poll::{Interest, wait};
use ringtap_testkit::frames::frame;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::{Need, suite, test};
use std::os::fd::AsFd;

fn main() -> std::process::ExitCode {
    suite(vec![
        test(
            "delivers_frames_in_order",
            &[Need::Root],
            delivers_frames_in_order,
        ),
        test("wraps_around", &[Need::Root], wraps_around),
        test(
            "hands_over_each_packet_at_once",
            &[Need::Root],
            hands_over_each_packet_at_once,
        ),
        test(
            "wraps_around_in_slots",
            &[Need::Root],
            wraps_around_in_slots,
        ),
        test(
            "counts_what_it_dropped",
            &[Need::Root],
            counts_what_it_dropped,
        ),
        test(
            "filters_before_the_first_packet",
            &[Need::Root],
            filters_before_the_first_packet,
        ),
        test(
            "refuses_a_program_that_is_too_long",
            &[Need::Root],
            refuses_a_long_program,
        ),
    ])
}

const ACCEPT: [Instruction; 1] = [Instruction {
    code: 6,
    jt: 0,
    jf: 0,
    k: 65_535,
}];

fn options(device: &str, ifindex: u32) -> RingOptions<'_> {
    RingOptions {
        device,
        ifindex,
        link: LinkLayer::Ethernet,
        snaplen: 65_535,
        retire_timeout_ms: 10,
        immediate: false,
        promiscuous: false,
        ignore_outgoing: false,
        timestamp: TimestampSource::Host,
        busy_poll: None,
        fanout: None,
    }
}

fn ring(side: &Side, buffer: u64, snaplen: u32, filter: &[Instruction]) -> Ring {
    let ifindex = side.namespace.netlink().index(&side.device).unwrap();
    let request = GeometryRequest {
        buffer,
        snaplen,
        headroom: Ring::HEADROOM,
    };
    let geometry = Geometry::new(&request, page_size()).unwrap();
    let options = options(&side.device, ifindex);
    side.run(|| {
        let mut ring = Ring::open(&options, geometry).unwrap();
        ring.bind(&options).unwrap();
        ring.set_filter(filter).unwrap();
        ring
    })
}

fn injector(side: &Side) -> Injector {
    let ifindex = side.namespace.netlink().index(&side.device).unwrap();
    side.run(|| Injector::open(ifindex).unwrap())
}

/// Gives each block to `each` until `packets` have come or nothing more does.
fn read(ring: &mut Ring, packets: u64, mut each: impl FnMut(&ringtap_sys::packet::Frame<'_>)) {
    let mut seen = 0;
    while seen < packets {
        if !ring.is_ready() {
            let [ready] =
                wait([Interest::read(ring.as_fd())], Some(Duration::from_secs(2))).unwrap();
            assert!(!ready.failed);
            if !ready.readable && !ring.is_ready() {
                return;
            }
        }
        if let Some(block) = ring.take() {
            for frame in block.frames() {
                each(&frame);
                seen += 1;
            }
        }
    }
}

/// Returns a ring with a slot for each packet, whose timeout is too long to deliver any.
fn slots(side: &Side, buffer: u64, snaplen: u32) -> Ring {
    let ifindex = side.namespace.netlink().index(&side.device).unwrap();
    let request = GeometryRequest {
        buffer,
        snaplen,
        headroom: Ring::IMMEDIATE_HEADROOM,
    };
    let geometry = Geometry::new(&request, page_size()).unwrap();
    let options = RingOptions {
        immediate: true,
        retire_timeout_ms: 30_000,
        snaplen,
        ..options(&side.device, ifindex)
    };
    side.run(|| {
        let mut ring = Ring::open(&options, geometry).unwrap();
        ring.bind(&options).unwrap();
        ring.set_filter(&ACCEPT).unwrap();
        ring
    })
}

fn hands_over_each_packet_at_once() {
    let pair = VethPair::new();
    let mut ring = slots(&pair.right, 4 << 20, 65_535);
    let injector = injector(&pair.left);
    for number in 0..100 {
        let sent = frame(number, 60 + number as usize);
        injector.send(&sent).unwrap();
        let mut seen = Vec::new();
        // A block that is forgotten is found again unchanged.
        if number % 7 == 0 {
            while !ring.is_ready() {
                let limit = Some(Duration::from_secs(2));
                let [ready] = wait([Interest::read(ring.as_fd())], limit).unwrap();
                assert!(ready.readable);
            }
            let block = ring.take().unwrap();
            assert_eq!(block.frames().next().unwrap().data, sent);
            std::mem::forget(block);
        }
        read(&mut ring, 1, |frame| {
            assert_eq!((frame.len as usize, frame.ifindex != 0), (sent.len(), true));
            seen.push(frame.data.to_vec());
        });
        assert_eq!(seen, [sent]);
    }
    let statistics = ring.statistics().unwrap();
    assert_eq!((statistics.received, statistics.dropped), (100, 0));
    assert_eq!(statistics.damaged_blocks, 0);
}

fn wraps_around_in_slots() {
    let pair = VethPair::new();
    // Two blocks of 32 KiB with a few slots each.
    let mut ring = slots(&pair.right, 64 << 10, 4000);
    let injector = injector(&pair.left);
    let mut number = 0;
    for turn in 0..200 {
        let count = 1 + turn % 9;
        let frames: Vec<_> = (number..number + count).map(|n| frame(n, 1500)).collect();
        number += count;
        for frame in &frames {
            injector.send(frame).unwrap();
        }
        let mut seen = Vec::new();
        read(&mut ring, count.into(), |frame| {
            seen.push(frame.data.to_vec());
        });
        assert_eq!(seen, frames, "turn {turn}");
    }
    // Slots that are not given back are lost to the kernel, which counts dropped packets.
    for number in 0..100 {
        injector.send(&frame(number, 1500)).unwrap();
    }
    let mut seen = Vec::new();
    read(&mut ring, 100, |frame| {
        seen.push(frame.data.to_vec());
    });
    let expected: Vec<_> = (0..100).map(|n| frame(n, 1500)).take(seen.len()).collect();
    assert_eq!(seen, expected);
    let statistics = ring.statistics().unwrap();
    let lost = 100 - seen.len() as u64;
    assert!(lost > 0);
    assert_eq!(statistics.received, u64::from(number) + 100);
    assert_eq!((statistics.dropped, statistics.damaged_blocks), (lost, 0));
}

fn delivers_frames_in_order() {
    let pair = VethPair::new();
    let mut ring = ring(&pair.right, 1 << 20, 65_535, &ACCEPT);
    let injector = injector(&pair.left);
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let frames: Vec<_> = (0..500).map(|i| frame(i, 60 + i as usize)).collect();
    for frame in &frames {
        injector.send(frame).unwrap();
    }
    let mut seen = Vec::new();
    let mut last = before;
    read(&mut ring, 500, |frame| {
        let time = Duration::new(frame.secs.into(), frame.nanos);
        assert!(time >= last, "{time:?} after {last:?}");
        last = time;
        assert_eq!(frame.len as usize, frame.data.len());
        seen.push(frame.data.to_vec());
    });
    assert_eq!(seen, frames);
    assert!(last <= SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let statistics = ring.statistics().unwrap();
    assert_eq!((statistics.received, statistics.dropped), (500, 0));
    assert_eq!(statistics.damaged_blocks, 0);
}

fn wraps_around() {
    let pair = VethPair::new();
    let mut ring = ring(&pair.right, 1 << 16, 1500, &ACCEPT);
    assert_eq!(ring.geometry().blocks(), 2);
    let injector = injector(&pair.left);
    let mut expected = 0;
    for round in 0..50 {
        for i in 0..10 {
            injector.send(&frame(round * 10 + i, 1500)).unwrap();
        }
        read(&mut ring, 10, |seen| {
            assert_eq!(seen.data, frame(expected, 1500));
            expected += 1;
        });
    }
    assert_eq!(expected, 500);
    assert_eq!(ring.statistics().unwrap().received, 500);
}

fn counts_what_it_dropped() {
    let pair = VethPair::new();
    let mut ring = ring(&pair.right, 1 << 16, 1500, &ACCEPT);
    let injector = injector(&pair.left);
    for i in 0..300 {
        injector.send(&frame(i, 1500)).unwrap();
    }
    let mut captured = 0;
    read(&mut ring, 300, |_| captured += 1);
    let statistics = ring.statistics().unwrap();
    assert!(statistics.dropped > 0);
    assert!(statistics.freezes > 0);
    assert_eq!(captured + statistics.dropped, 300);
    assert_eq!(statistics.received, 300);
    assert_eq!(ring.statistics().unwrap(), statistics, "sums stay");
}

fn filters_before_the_first_packet() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    // Accepts frames whose number is odd: ld [14]; and #1; jeq #1; ret.
    let odd = [
        Instruction {
            code: 0x20,
            jt: 0,
            jf: 0,
            k: 14,
        },
        Instruction {
            code: 0x54,
            jt: 0,
            jf: 0,
            k: 1,
        },
        Instruction {
            code: 0x15,
            jt: 0,
            jf: 1,
            k: 1,
        },
        Instruction {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: 65_535,
        },
        Instruction {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: 0,
        },
    ];
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                injector.send(&frame(number, 60)).unwrap();
                number += 1;
            }
        });
        for _ in 0..20 {
            let mut ring = ring(&pair.right, 1 << 20, 1500, &odd);
            let mut seen = 0;
            read(&mut ring, 100, |frame| {
                assert_eq!(frame.data[17] & 1, 1);
                seen += 1;
            });
            assert!(seen >= 100);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

fn refuses_a_long_program() {
    let pair = VethPair::new();
    let ring = ring(&pair.right, 1 << 20, 1500, &ACCEPT);
    for len in [5000, 70_000] {
        let error = ring.set_filter(&ACCEPT.repeat(len)).unwrap_err();
        assert_eq!(error.call, "setsockopt(SO_ATTACH_FILTER)");
        assert!(error.errno().is_some());
    }
}

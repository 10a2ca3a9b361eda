//! Tests what is sent, when, and by which back-end.

use std::time::Duration;

use ringtap_capture::Timestamp;
use ringtap_send::{BackEndKind, SendError, SendOptions, SendQueue, SendStamps, Sender, Timing};
use ringtap_testkit::alloc;
use ringtap_testkit::netns::VethPair;

use crate::support::{bytes, drain, frame, frames, outgoing, receiver, sender};

pub(crate) fn queue_arrives_byte_for_byte() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(2_000);
    let mut queue = SendQueue::with_capacity(4 << 20);
    for frame in &sent {
        queue.append(Timestamp::default(), frame).unwrap();
    }
    let report = sender.transmit(&queue, Timing::TopSpeed).unwrap();
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!((report.packets, report.bytes), (2_000, bytes(&sent)));
    assert_eq!(
        (report.rejected, report.pending, report.stopped),
        (0, 0, false)
    );
    assert_eq!(drain(&mut *receiver, sent.len()), sent);
}

/// Many go by a ring, whose frames the kernel does not measure; one goes by a call that does.
pub(crate) fn many_are_judged_as_one_is() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sent = frames(100);
    sent.extend([13, 14, 15].map(|len| frame(1, len)));
    for len in [1513, 1514, 1515, 1517, 1518, 1519, 3_000] {
        let plain = frame(1, len);
        let mut tagged = plain.clone();
        tagged[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
        sent.extend([plain, tagged]);
    }
    sent.extend(frames(300));
    let mut many = sender(&pair.left, &SendOptions::default());
    let report = many.transmit(outgoing(&sent, 0), Timing::TopSpeed).unwrap();
    let told: Vec<_> = report
        .rejections
        .iter()
        .map(|one| (one.index, one.len, one.reason))
        .collect();
    let arrived = drain(&mut *receiver, sent.len() - report.rejections.len());
    assert_eq!(report.packets, arrived.len() as u64);
    let mut one = sender(&pair.left, &SendOptions::default());
    let mut expected = Vec::new();
    for (index, frame) in (0..).zip(&sent) {
        match one.send(frame) {
            Ok(()) => {}
            Err(SendError::Rejected { len, reason, .. }) => expected.push((index, len, reason)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(told, expected);
    assert_eq!(drain(&mut *receiver, arrived.len()), arrived);
    // One too short, five too long, and two with a tag, for which there is more room.
    assert_eq!(expected.len(), 1 + 5 + 2, "{expected:?}");
}

pub(crate) fn one_frame_at_a_time() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(20);
    for frame in &sent {
        sender.send(frame).unwrap();
    }
    assert!(matches!(
        sender.send(&[0; 3000]),
        Err(SendError::Rejected { len: 3000, .. })
    ));
    assert_eq!(drain(&mut *receiver, sent.len()), sent);
}

pub(crate) fn times_are_kept() {
    let pair = VethPair::new();
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(51);
    // 50 gaps of 400 µs, at twice the speed; 50 at 5,000 a second.
    for timing in [
        Timing::Recorded { multiplier: 2.0 },
        Timing::Packets { per_second: 5e3 },
    ] {
        let report = sender.transmit(outgoing(&sent, 400_000), timing).unwrap();
        assert_eq!(report.packets, 51, "{report:?}");
        assert!(report.elapsed >= Duration::from_millis(10), "{report:?}");
        assert_eq!(report.lateness.packets, 51);
        assert!(report.lateness.max >= report.lateness.median);
    }
    // Bits of frames; the last does not count, since it is sent when the others are over.
    let before_last = bytes(&sent[..50]) * 8;
    let timing = Timing::Bits {
        per_second: before_last as f64 * 100.0,
    };
    let report = sender.transmit(outgoing(&sent, 0), timing).unwrap();
    assert!(report.elapsed >= Duration::from_micros(9_999), "{report:?}");
    assert!(sender.begin(Timing::Packets { per_second: 0.0 }).is_err());
}

pub(crate) fn stamped() {
    let pair = VethPair::new();
    let mut options = SendOptions::default();
    options.stamps = Some(SendStamps::Software);
    let mut sender = sender(&pair.left, &options);
    let sent = frames(200);
    // The numbers continue from run to run.
    for timing in [
        Timing::Packets { per_second: 2e4 },
        Timing::TopSpeed,
        Timing::Recorded { multiplier: 1.0 },
    ] {
        let report = sender.transmit(outgoing(&sent, 50_000), timing).unwrap();
        assert_eq!(report.packets, 200);
        let Some(departures) = report.departures else {
            assert_eq!(timing, Timing::TopSpeed);
            continue;
        };
        assert_eq!(departures.stamped, 200, "{departures:?}");
        assert!(departures.median <= departures.p99 && departures.p99 <= departures.max);
    }
    let live = pair.left.run(|| Sender::open("live:veth0", &options));
    assert!(matches!(live, Err(SendError::Unsuitable { .. })));
}

pub(crate) fn allocates_nothing() {
    let pair = VethPair::new();
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(1_000);
    for timing in [
        Timing::TopSpeed,
        Timing::Packets { per_second: 1e5 },
        Timing::Recorded { multiplier: 1.0 },
    ] {
        let mut run = sender.begin(timing).unwrap();
        assert!(run.send(outgoing(&sent, 1_000)).is_continue());
        let (flow, counts) = alloc::count(|| run.send(outgoing(&sent, 1_000)));
        assert!(flow.is_continue());
        // The guard's memory grows to the packets of 10 ms, and then no more.
        assert!(counts.allocations <= 4, "{timing:?}: {counts:?}");
        assert_eq!(run.finish().packets, 2_000);
    }
}

pub(crate) fn devices_name_back_ends() {
    let pair = VethPair::new();
    let options = SendOptions::default();
    let open = |device: &str| pair.left.run(|| Sender::open(device, &options));
    let sender = open("packet:veth0").unwrap();
    assert_eq!(sender.back_end(), (BackEndKind::Packet, "it was requested"));
    assert_eq!(open("veth0").unwrap().back_end().0, BackEndKind::Packet);
    assert!(matches!(open("veth7"), Err(SendError::NoSuchDevice { .. })));
    assert!(matches!(
        open("pigeon:veth0"),
        Err(SendError::UnknownBackEnd { .. })
    ));
}

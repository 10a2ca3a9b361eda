//! Errors are in the report, to the packet.

use std::time::{Duration, Instant};

use ringtap_capture::Timestamp;
use ringtap_send::{OnRejected, Outgoing, Rejection, SendError, SendOptions, Timing};
use ringtap_testkit::netns::{Side, VethPair};

use crate::support::{drain, frame, frames, outgoing, patience, receiver, sender};

fn dropped_on_sending(side: &Side) -> u64 {
    let link = side.namespace.netlink().link(&side.device).unwrap();
    link.counters.tx_dropped
}

/// Waits until the device has sent a packet.
fn wait_for_the_first(side: &Side) {
    let mut netlink = side.namespace.netlink();
    let begin = Instant::now();
    while netlink.link(&side.device).unwrap().counters.tx_packets == 0 {
        assert!(begin.elapsed() < patience(), "nothing is sent");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the frames over and over, for runs that something else ends, whenever it does.
fn endless(frames: &[Vec<u8>]) -> impl Iterator<Item = Outgoing<'_>> {
    frames.iter().cycle().map(|frame| Outgoing {
        timestamp: Timestamp::default(),
        data: frame,
    })
}

pub(crate) fn rejected_frames_are_named() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sent = frames(300);
    sent[7] = frame(7, 1515);
    sent[280] = vec![1; 5];
    let mut skipping = sender(&pair.left, &SendOptions::default());
    let report = skipping
        .transmit(outgoing(&sent, 0), Timing::TopSpeed)
        .unwrap();
    assert_eq!((report.packets, report.rejected), (298, 2), "{report:?}");
    let named: Vec<_> = report
        .rejections
        .iter()
        .map(|one| (one.index, one.len, one.reason))
        .collect();
    let expected = [(7, 1515, Rejection::TooLong), (280, 5, Rejection::Invalid)];
    assert_eq!(named, expected);
    assert_eq!(drain(&mut *receiver, 298).len(), 298);

    let mut options = SendOptions::default();
    options.on_rejected = OnRejected::Stop;
    let report = sender(&pair.left, &options)
        .transmit(outgoing(&sent, 0), Timing::TopSpeed)
        .unwrap();
    assert_eq!(report.packets, 7);
    let (index, error) = report.error.unwrap();
    assert_eq!(index, 7);
    assert!(
        matches!(error, SendError::Rejected { len: 1515, .. }),
        "{error}"
    );
    assert_eq!(drain(&mut *receiver, 7), sent[..7]);
}

pub(crate) fn another_thread_stops() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sender = sender(&pair.left, &SendOptions::default());
    let waker = sender.waker();
    let sent = frames(2);
    // An hour between two packets.
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let first = drain(&mut *receiver, 1);
            waker.wake();
            assert_eq!(first, sent[..1]);
        });
        let packets = outgoing(&sent, 3_600_000_000_000);
        sender.transmit(packets, Timing::Recorded { multiplier: 1.0 })
    });
    let report = report.unwrap();
    assert!(report.stopped && report.error.is_none(), "{report:?}");
    assert_eq!(report.packets, 1);
    assert!(drain(&mut *receiver, 0).is_empty());
    // The next run is not stopped by it.
    let report = sender
        .transmit(outgoing(&sent, 0), Timing::TopSpeed)
        .unwrap();
    assert_eq!((report.packets, report.stopped), (2, false));
}

pub(crate) fn link_down_midway() {
    let pair = VethPair::new();
    let mut receiver = receiver(&pair.right);
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(1_000);
    let before = dropped_on_sending(&pair.left);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_the_first(&pair.left);
            let mut netlink = pair.left.namespace.netlink();
            netlink.set_up(&pair.left.device, false).unwrap();
        });
        let timing = Timing::Packets { per_second: 1e5 };
        sender.transmit(endless(&sent), timing)
    });
    let report = report.unwrap();
    let (index, error) = report.error.unwrap();
    assert!(matches!(error, SendError::InterfaceDown { .. }), "{error}");
    assert_eq!(index, report.packets);
    assert!(report.packets > 0);
    let dropped = dropped_on_sending(&pair.left) - before;
    let left = report.packets + report.queue_full - dropped;
    let arrived = drain(&mut *receiver, usize::try_from(left).unwrap());
    assert_eq!(arrived.len() as u64, left);
}

pub(crate) fn full_queue_is_counted_as_the_device_does() {
    let pair = VethPair::new();
    let mut options = SendOptions::default();
    options.patience = Duration::from_millis(100);
    let mut sender = sender(&pair.left, &options);
    // Without a carrier the kernel takes nothing past the queueing discipline.
    let mut netlink = pair.right.namespace.netlink();
    netlink.set_up(&pair.right.device, false).unwrap();
    let before = dropped_on_sending(&pair.left);
    let report = sender
        .transmit(outgoing(&frames(5), 0), Timing::TopSpeed)
        .unwrap();
    assert!(
        matches!(
            report.error,
            Some((0, SendError::Stuck { millis: 100, .. }))
        ),
        "{report:?}"
    );
    assert_eq!(report.packets, 0);
    assert!(report.queue_full > 1, "{report:?}");
    assert_eq!(dropped_on_sending(&pair.left) - before, report.queue_full);
}

pub(crate) fn device_goes_midway() {
    let pair = VethPair::new();
    let mut sender = sender(&pair.left, &SendOptions::default());
    let sent = frames(1_000);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_the_first(&pair.left);
            let mut netlink = pair.left.namespace.netlink();
            netlink.delete(&pair.left.device).unwrap();
        });
        let timing = Timing::Packets { per_second: 1e5 };
        sender.transmit(endless(&sent), timing)
    });
    let (index, error) = report.unwrap().error.unwrap();
    assert!(index > 0);
    assert!(
        matches!(
            error,
            SendError::InterfaceGone { .. } | SendError::InterfaceDown { .. }
        ),
        "{error}"
    );
}

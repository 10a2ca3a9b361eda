//! Generated frames: the kernel's frames equal those that are written here, and all arrive.

use std::time::Duration;

use ringtap_capture::{CaptureOptions, Mode, Source, Timestamp, open};
use ringtap_send::{
    Arrivals, BackEndKind, Demand, Generation, Outgoing, Report, SendError, SendOptions, Sender,
    Template, TemplateOptions, Timing, read_mark,
};
use ringtap_testkit::netns::{Side, VethPair};

use crate::support::{drain, frame, receiver};

/// Takes frames in the driver, which makes redirected ones arrive.
fn stealing(side: &Side) -> Box<dyn Source> {
    let options = CaptureOptions::default()
        .timeout(Duration::from_millis(20))
        .mode(Mode::Steal)
        .buffer(128 << 20);
    let device = format!("xdp:{}", side.device);
    side.run(|| open(&device, &options, None)).unwrap()
}

fn generate(side: &Side, device: &str, template: &Template, count: u64) -> Report {
    side.run(|| {
        let mut sender = Sender::open(device, &SendOptions::default()).unwrap();
        let generation = Generation {
            count: Some(count),
            duration: None,
        };
        // Slow enough that a veth's queue of 256 frames does not overflow.
        let arrivals = Arrivals::Constant { per_second: 2e5 };
        sender
            .generate(template, arrivals, &generation, |_| ())
            .unwrap()
    })
}

/// Each frame equals the template, with its number and time taken from itself.
fn check(template: &Template, run: u16, seen: &[Vec<u8>]) {
    let mut expected = vec![0; template.longest()];
    for (number, frame) in (0..).zip(seen) {
        let mark = read_mark(frame).unwrap();
        assert_eq!((mark.run, mark.number), (run, number));
        let len = template.write(number, mark.nanos, &mut expected);
        assert_eq!(frame, &expected[..len], "frame {number}");
    }
}

/// The run whose frames are IPv6.
const V6: u16 = 9;

fn templates() -> Vec<(u16, Template)> {
    let cases: [(u16, Vec<u16>, u32); 6] = [
        (0, vec![60], 1),
        (1, vec![61], 3),
        (0xffff, vec![60, 590, 61, 1514], 1),
        (7, (60..=200).collect(), 65_536),
        (8, vec![1514, 1513], 17),
        (V6, vec![80, 333, 81], 1_000),
    ];
    let template = |(run, sizes, flows)| {
        let (source, destination) = match run {
            V6 => ("2001:2::ffff:fff0", "2001:2::1:1"),
            _ => ("198.18.0.1", "198.19.0.1"),
        };
        let mut options = TemplateOptions::default();
        (options.sizes, options.flows, options.run) = (sizes, flows, run);
        options.source = source.parse().unwrap();
        options.destination = destination.parse().unwrap();
        (run, Template::new(&options).unwrap())
    };
    cases.into_iter().map(template).collect()
}

/// Sends frames of each template, and checks that all arrive unchanged.
fn generated(pair: &VethPair, device: &str, receiver: impl Fn() -> Box<dyn Source>, count: u64) {
    for (run, template) in templates() {
        let mut receiver = receiver();
        let report = generate(&pair.left, device, &template, count);
        assert!(report.error.is_none() && report.pending == 0, "{report:?}");
        let expected = (count, template.bytes(0, count));
        assert_eq!((report.packets, report.bytes), expected);
        let count = usize::try_from(count).unwrap();
        let seen = drain(&mut *receiver, count);
        assert_eq!(seen.len(), count);
        check(&template, run, &seen);
    }
}

pub(crate) fn live() {
    let pair = VethPair::new();
    generated(&pair, "live:veth0", || stealing(&pair.right), 3_000);
}

pub(crate) fn packet() {
    let pair = VethPair::new();
    generated(&pair, "packet:veth0", || receiver(&pair.right), 1_000);
}

pub(crate) fn xsk() {
    let pair = VethPair::new();
    generated(&pair, "xsk:veth0", || receiver(&pair.right), 3_000);
    let mut receiver = receiver(&pair.right);
    // Given frames, more than there is memory for at once, with one that is too long.
    let mut frames = crate::support::frames(5_000);
    frames[4_000] = frame(1, 1_600);
    let report = pair.left.run(|| {
        let mut sender = Sender::open("xsk:veth0", &SendOptions::default()).unwrap();
        let packets = crate::support::outgoing(&frames, 0);
        sender.transmit(packets, Timing::TopSpeed).unwrap()
    });
    assert_eq!(
        (report.packets, report.rejected, report.pending),
        (4_999, 1, 0)
    );
    frames.remove(4_000);
    assert_eq!(drain(&mut *receiver, frames.len()), frames);
}

pub(crate) fn repeats() {
    let pair = VethPair::new();
    let mut receiver = stealing(&pair.right);
    let frames = [frame(1, 60), frame(2, 1514), vec![0; 3_000], frame(3, 60)];
    let order = [0, 0, 0, 1, 2, 3, 3, 0];
    let packets = order.map(|index: usize| Outgoing {
        timestamp: Timestamp::default(),
        data: &frames[index],
    });
    let report = pair.left.run(|| {
        let mut sender = Sender::open("live:veth0", &SendOptions::default()).unwrap();
        sender.transmit(packets, Timing::TopSpeed).unwrap()
    });
    assert_eq!((report.packets, report.rejected), (7, 1), "{report:?}");
    let expected: Vec<_> = [0, 0, 0, 1, 3, 3, 0]
        .map(|index| frames[index].clone())
        .into();
    assert_eq!(drain(&mut *receiver, expected.len()), expected);
}

pub(crate) fn choices() {
    let pair = VethPair::new();
    let choose = |demand| {
        let mut options = SendOptions::default();
        options.demand = Some(demand);
        let sender = pair.left.run(|| Sender::open("veth0", &options)).unwrap();
        let (kind, reason) = sender.back_end();
        (kind, reason.to_owned())
    };
    let much = Demand {
        longest: 60,
        per_second: None,
    };
    // Without GRO and a program at the other end, the driver takes no redirected frames.
    let (kind, reason) = choose(much);
    assert_eq!(kind, BackEndKind::Packet);
    assert!(
        reason.contains("does not accept redirected frames"),
        "{reason}"
    );
    let opened = pair
        .left
        .run(|| Sender::open("live:veth0", &SendOptions::default()));
    assert!(matches!(opened, Err(SendError::Unsuitable { .. })));
    let _receiver = stealing(&pair.right);
    assert_eq!(choose(much).0, BackEndKind::Live);
    for little in [
        Demand {
            longest: 9_000,
            ..much
        },
        Demand {
            per_second: Some(1e3),
            ..much
        },
    ] {
        assert_eq!(choose(little).0, BackEndKind::Packet, "{little:?}");
    }
}

pub(crate) fn ends() {
    let pair = VethPair::new();
    let _receiver = stealing(&pair.right);
    let template = Template::new(&TemplateOptions::default()).unwrap();
    pair.left.run(|| {
        for device in ["live:veth0", "packet:veth0"] {
            let mut sender = Sender::open(device, &SendOptions::default()).unwrap();
            let generation = Generation {
                count: None,
                duration: Some(Duration::from_millis(50)),
            };
            let arrivals = Arrivals::Constant { per_second: 1e4 };
            let report = sender
                .generate(&template, arrivals, &generation, |_| ())
                .unwrap();
            // Due before 50 ms: exactly 500, unless the schedule was moved.
            assert!(report.packets <= 500, "{report:?}");
            assert_eq!(report.lateness.packets, report.packets);
            // An impossible schedule also ends in time, with the packets sent by then.
            let arrivals = Arrivals::Constant { per_second: 1e9 };
            let report = sender
                .generate(&template, arrivals, &generation, |_| ())
                .unwrap();
            assert!(report.packets < 50_000_000, "{report:?}");
            assert!(report.lateness.moved > Duration::ZERO, "{report:?}");
            let waker = sender.waker();
            waker.wake();
            let report = sender
                .generate(
                    &template,
                    Arrivals::TopSpeed,
                    &Generation::default(),
                    |_| (),
                )
                .unwrap();
            assert!(report.stopped && report.packets == 0, "{report:?}");
            let bad = Arrivals::Constant { per_second: 0.0 };
            assert!(
                sender
                    .generate(&template, bad, &generation, |_| ())
                    .is_err()
            );
        }
    });
}

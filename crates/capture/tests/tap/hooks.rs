//! The place of a tap, what it sees there, and what happens to packets.

use std::net::UdpSocket;

use ringtap_capture::{CaptureOptions, Direction, Host, Mode, open_on};
use ringtap_sys::bpf::{Kernel, Request};
use ringtap_testkit::Need;
use ringtap_testkit::netns::{Side, VethPair};

use crate::support::{drain, frame, injector, numbers, patience, prompt, tap, try_open};

pub(crate) fn xdp_sees_what_is_received() {
    let pair = VethPair::new();
    let mut source = tap("xdp", &pair.right, &prompt());
    let description = source.describe();
    assert_eq!(description.direction, Direction::In);
    assert!(description.blind.contains(&"packets that the host sends"));
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    for i in 0..100 {
        left.send(&frame(i, 60 + i as usize)).unwrap();
        right.send(&frame(1000 + i, 60)).unwrap();
    }
    let seen = drain(&mut *source, 100);
    assert_eq!(numbers(&seen), (0..100).collect::<Vec<_>>());
    assert!(seen.iter().all(|packet| packet.flags.0 & 3 == 1));
}

pub(crate) fn xdp_knows_the_direction() {
    let pair = VethPair::new();
    let (left, right) = (injector(&pair.left), injector(&pair.right));
    let cases = [
        ("inbound", vec![1]),
        ("outbound", vec![]),
        ("not outbound and ether proto 0x88b5", vec![1]),
        ("inbound and not ip6 protochain 99", vec![1]),
    ];
    for (filter, expected) in cases {
        let mut source = try_open("xdp", &pair.right, &prompt(), Some(filter)).unwrap();
        left.send(&frame(1, 60)).unwrap();
        right.send(&frame(2, 60)).unwrap();
        assert_eq!(
            numbers(&drain(&mut *source, expected.len())),
            expected,
            "{filter}"
        );
    }
}

pub(crate) fn xdp_puts_tags_back() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let tagged = |tag: [u8; 4]| {
        let mut tagged = frame(7, 60);
        tagged.splice(12..12, tag);
        tagged
    };
    let frames = [
        frame(7, 60),
        tagged([0x81, 0, 0x60, 5]),
        tagged([0x88, 0xa8, 0, 7]),
    ];
    let cases = [
        (None, vec![0, 1, 2]),
        (Some("vlan 5"), vec![1]),
        (Some("not vlan"), vec![0]),
    ];
    for (filter, expected) in cases {
        let mut source = try_open("xdp", &pair.right, &prompt(), filter).unwrap();
        frames
            .iter()
            .for_each(|frame| injector.send(frame).unwrap());
        let seen: Vec<_> = drain(&mut *source, expected.len())
            .into_iter()
            .map(|packet| packet.data)
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|i: usize| frames[i].clone())
            .collect();
        assert_eq!(seen, expected, "{filter:?}: {}", source.describe());
    }
}

/// Returns whether a datagram from left reaches a program on the right: it has, or it never will once a later
/// one has come that nothing steals.
fn arrives(pair: &VethPair, port: u16) -> bool {
    let socket = |side: &Side, port: u16| {
        let address = (side.ipv4, port);
        side.run(|| UdpSocket::bind(address).unwrap())
    };
    let (receiver, behind) = (socket(&pair.right, port), socket(&pair.right, 5999));
    let sender = socket(&pair.left, 0);
    for port in [port, 5999] {
        sender.send_to(b"tap", (pair.right.ipv4, port)).unwrap();
    }
    behind.set_read_timeout(Some(patience())).unwrap();
    behind.recv(&mut [0; 8]).unwrap();
    receiver.set_nonblocking(true).unwrap();
    receiver.recv(&mut [0; 8]).is_ok()
}

fn has_tcx() -> bool {
    Need::Tcx.unmet().is_none()
}

/// Returns the engines that can steal: a program at clsact would outlive its process.
fn stealing() -> &'static [&'static str] {
    if has_tcx() { &["tcx", "xdp"] } else { &["xdp"] }
}

/// On an older kernel, the error is a line with the missing feature and the version that has it.
pub(crate) fn opens_or_names_the_kernel() {
    let pair = VethPair::new();
    for (engine, major, minor) in [("tcx", 5, 12), ("xdp", 5, 18)] {
        let is_older = Need::Kernel(major, minor).unmet().is_some();
        let opened = try_open(engine, &pair.right, &prompt(), None);
        let refused = opened.err().map(|error| error.to_string());
        let expected = format!("(Linux {major}.{minor} or later)");
        let is_as_expected = match &refused {
            None => !is_older,
            Some(text) => is_older && text.ends_with(&expected) && !text.contains('\n'),
        };
        assert!(is_as_expected, "{engine}: {refused:?}");
    }
}

pub(crate) fn clsact_does_not_steal() {
    const EINVAL: i32 = 22;
    let pair = VethPair::new();
    let steal = prompt().mode(Mode::Steal);
    let without_tcx = |request: &Request<'_>| {
        if request.is_tcx() {
            Err(EINVAL)
        } else {
            Ok(())
        }
    };
    let host = Host {
        kernel: Kernel::behind(without_tcx),
        ..Host::default()
    };
    let device = format!("tcx:{}", pair.right.device);
    let refused = pair.right.run(|| open_on(&host, &device, &steal, None));
    let text = refused.err().expect("refused").to_string();
    assert!(text.contains("the kernel has no tcx (Linux 6.6)"), "{text}");
    let hint = format!("; use xdp:{}", pair.right.device);
    assert!(text.ends_with(&hint), "{text}");
}

pub(crate) fn steals_from_the_host() {
    let pair = VethPair::new();
    for engine in stealing() {
        for (mode, passes) in [(Mode::Copy, true), (Mode::Steal, false)] {
            let options = prompt().mode(mode);
            let mut source =
                try_open(engine, &pair.right, &options, Some("udp port 5000")).unwrap();
            assert_eq!(arrives(&pair, 5000), passes, "{engine} {mode:?}");
            assert!(arrives(&pair, 5001), "what the filter rejects goes on");
            assert_eq!(drain(&mut *source, 1).len(), 1);
        }
        assert!(arrives(&pair, 5000), "afterwards, all is as before");
    }
}

pub(crate) fn steals_only_by_consent() {
    let pair = VethPair::new();
    let side = &pair.right;
    let gateway = pair.left.ipv4.into();
    side.namespace
        .netlink()
        .add_default_route(&side.device, gateway)
        .unwrap();
    let steal = prompt().mode(Mode::Steal);
    for engine in stealing() {
        let Err(error) = try_open(engine, side, &steal, None) else {
            panic!("opened");
        };
        assert!(error.to_string().contains("--force"), "{error}");
        let forced = steal.clone().force(true);
        let source = try_open(engine, side, &forced, None).unwrap();
        assert!(!source.describe().notes.is_empty());
    }
}

pub(crate) fn second_xdp_moves_to_tcx() {
    let pair = VethPair::new();
    let mut first = tap("xdp", &pair.right, &prompt());
    let mut second = tap("xdp", &pair.right, &prompt());
    let description = second.describe();
    let place = if has_tcx() { "tcx" } else { "clsact" };
    assert!(description.hook.starts_with(place), "{}", description.hook);
    let note = description.notes[0].to_string();
    assert!(note.contains("another XDP program"), "{note}");
    let injector = injector(&pair.left);
    (0..50).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    for source in [&mut first, &mut second] {
        assert_eq!(
            numbers(&drain(&mut **source, 50)),
            (0..50).collect::<Vec<_>>()
        );
    }
}

pub(crate) fn several_taps_at_once() {
    let pair = VethPair::new();
    let short = prompt().snaplen(20);
    let filters = [Some("ether[17] = 1"), Some("ether[17] & 1 = 0"), None];
    let mut sources = filters.map(|filter| try_open("tcx", &pair.right, &short, filter).unwrap());
    let injector = injector(&pair.left);
    (0..100).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    let expected = [1, 50, 100];
    for (source, expected) in sources.iter_mut().zip(expected) {
        assert_eq!(drain(&mut **source, expected).len(), expected);
    }
    for source in &mut sources {
        let stats = source.stats().unwrap();
        assert_eq!(stats.dropped.ring, Some(0));
    }
}

pub(crate) fn refuses_what_it_cannot() {
    let pair = VethPair::new();
    let refused = |engine: &str, options: &CaptureOptions| {
        let result = try_open(engine, &pair.right, options, None);
        result
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let out = prompt().direction(Direction::Out);
    assert!(refused("xdp", &out).contains("received packets only"));
    let steal = out.mode(Mode::Steal);
    assert!(refused("tcx", &steal).contains("cannot be stolen"));
    let steal = prompt().mode(Mode::Steal);
    assert!(refused("packet", &steal).contains("cannot steal"));
    let any = |engine: &str, options: &CaptureOptions| {
        let device = format!("{engine}:any");
        let opened = pair
            .right
            .run(|| ringtap_capture::open(&device, options, None));
        opened.err().unwrap().to_string()
    };
    assert!(any("xdp", &prompt()).contains("one interface"));
    assert!(any("tcx", &steal).contains("one interface"));
}

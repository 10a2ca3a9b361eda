//! Statistics mode on the running kernel, against traffic whose numbers are known.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringtap_capture::stat::{Count, Interval, StatOptions, Statistics};
use ringtap_capture::{Direction, Error, Filter, Mode};
use ringtap_filter::ebpf::{Assembler, Helper, Reg};
use ringtap_filter::{CompileOptions, LinkType, Tables, compile};
use ringtap_sys::bpf::{self, Kernel, Program, ProgramKind, Request, TcxPlace, TcxSide};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::frames::patience;
use ringtap_testkit::netns::{Side, VethOptions, VethPair};
use ringtap_testkit::traffic::{LiveFrames, Sizes, Target, Traffic};
use ringtap_testkit::{Need, suite, test};

const EINVAL: i32 = 22;
const EXPRESSIONS: [&str; 7] = [
    "",
    "udp",
    "tcp port 443",
    "net 192.0.2.0/28 and not udp",
    "greater 600",
    "vlan 5 and tcp",
    "ip6",
];

fn main() -> ExitCode {
    let root = &[Need::Root];
    suite(vec![
        test("received_packets_are_counted_at_tcx", root, received_at_tcx),
        test("sent_packets_are_counted_at_tcx", root, sent_at_tcx),
        test("both_directions_add_up", root, both_directions),
        test("filters_know_the_direction", root, directions),
        test("packets_are_counted_at_xdp", root, at_xdp),
        test(
            "tags_beside_the_packet_are_put_back_at_xdp",
            &[Need::Root, Need::Kernel(6, 8)],
            tags_beside,
        ),
        test("packets_are_counted_at_clsact", root, at_clsact),
        test(
            "jumbo_frames_are_counted_whole",
            &[Need::Root, Need::Kernel(5, 18)],
            jumbo,
        ),
        test("two_hundred_and_fifty_six_filters_fit", root, many_filters),
        test("stealing_takes_what_filters_accept", root, stealing),
        test("two_count_at_the_same_time", root, two_at_once),
        test("intervals_add_up_to_the_totals", root, intervals),
        test("a_device_that_goes_keeps_its_counts", root, deleted),
        test("a_packet_socket_counts_too", root, by_socket),
        test("a_packet_socket_stands_in_without_rights", root, stand_in),
        test("what_a_packet_socket_loses_is_told", root, socket_losses),
        test("no_rights_are_named", &[Need::NotRoot], no_rights),
        test(
            "filters_are_checked_first",
            &[Need::Interfaces],
            wrong_filters,
        ),
    ])
}

/// A mix of frames, every fifth with a VLAN tag in it, and what each filter accepts of them: found
/// out by the interpreter, as on a file.
struct Mix {
    frames: Vec<Vec<u8>>,
}

impl Mix {
    fn new() -> Self {
        let traffic = Traffic {
            packets: 40,
            sizes: Sizes::Between(64, 1400),
            ..Traffic::default()
        };
        let mut frames = traffic.frames();
        for frame in frames.iter_mut().step_by(5) {
            frame.splice(12..12, [0x81, 0, 0, 5]);
        }
        // One that is neither IPv4 nor whole.
        frames.push([&[2; 12], &[0x86, 0xdd][..], &[0x60; 40]].concat());
        Self { frames }
    }

    /// Returns the counts by filter and in total, of this many runs through the mix.
    fn expected(&self, times: u64) -> (Vec<Count>, Count) {
        let count = |expression: &str| {
            let options = CompileOptions::new(LinkType::ETHERNET);
            let program = compile(expression, &options, &Tables::new()).expect("a filter");
            let length = |frame: &Vec<u8>| u32::try_from(frame.len()).expect("short");
            let accepted = self
                .frames
                .iter()
                .filter(|frame| program.run(frame, length(frame)) != 0);
            accepted.fold(Count::default(), |sum, frame| Count {
                packets: sum.packets + times,
                bytes: sum.bytes + times * frame.len() as u64,
            })
        };
        (EXPRESSIONS.map(count).to_vec(), count(""))
    }

    fn assert_counted(&self, interval: &Interval, times: u64) {
        let (filters, total) = self.expected(times);
        assert!(filters.iter().all(|count| count.packets > 0), "{filters:?}");
        for ((found, expected), expression) in
            interval.filters.iter().zip(&filters).zip(EXPRESSIONS)
        {
            assert_eq!(found, expected, "{expression:?}");
        }
        assert_eq!(interval.total, total);
    }

    /// Sends from an end through a socket.
    fn send_from(&self, side: &Side) {
        let index = index_of(side);
        let injector = side.run(|| Injector::open(index).expect("root"));
        for frame in &self.frames {
            injector.send(frame).expect("the end is up");
        }
    }
}

fn index_of(side: &Side) -> u32 {
    let index = side.namespace.netlink().index(&side.device);
    index.expect("it exists")
}

fn filters() -> Vec<Filter> {
    EXPRESSIONS.map(Filter::new).to_vec()
}

fn open(side: &Side, engine: &str, options: &StatOptions) -> Statistics {
    open_on(&Kernel::running(), side, engine, options)
}

fn open_on(kernel: &Kernel, side: &Side, engine: &str, options: &StatOptions) -> Statistics {
    let device = format!("{engine}{}", side.device);
    side.run(|| Statistics::open_on(kernel, &device, &filters(), options))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the hook of this kernel after the driver.
fn chain() -> &'static str {
    if Need::Tcx.unmet().is_none() {
        "tcx"
    } else {
        "clsact"
    }
}

/// Lets the right end receive a frame this many times: from the kernel if it can make frames (Linux 5.18),
/// else from the left end, from which they arrive a little later.
fn receive(pair: &VethPair, frame: &[u8], copies: u32) {
    if Need::Kernel(5, 18).unmet().is_none() {
        let frames = LiveFrames::new(frame, Target::ReceivedOn(&pair.right)).expect("loaded");
        frames.send(copies).expect("sent");
    } else {
        send(&pair.left, frame, copies);
    }
}

/// Sends a frame this many times by a socket.
fn send(side: &Side, frame: &[u8], copies: u32) {
    let index = index_of(side);
    let injector = side.run(|| Injector::open(index).expect("root"));
    for _ in 0..copies {
        injector.send(frame).expect("the end is up");
    }
}

fn received_at_tcx() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let mut statistics = open(&pair.right, "", &StatOptions::default());
    let place = chain();
    let expected = format!("{place} ingress and {place} egress");
    assert_eq!(statistics.describe().hooks(), expected);
    for frame in &mix.frames {
        receive(&pair, frame, 3);
    }
    wait_for(&mut statistics, mix.frames.len() as u64 * 3);
    mix.assert_counted(statistics.totals(), 3);
}

fn sent_at_tcx() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let sent = StatOptions::default().direction(Direction::Out);
    let received = StatOptions::default().direction(Direction::In);
    let mut sent = open(&pair.right, "tcx:", &sent);
    let mut received = open(&pair.right, "tcx:", &received);
    mix.send_from(&pair.right);
    mix.assert_counted(sent.read(), 1);
    assert_eq!(received.read().total, Count::default());
}

fn both_directions() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let mut statistics = open(&pair.right, "", &StatOptions::default());
    mix.send_from(&pair.right);
    for frame in &mix.frames {
        receive(&pair, frame, 1);
    }
    wait_for(&mut statistics, mix.frames.len() as u64 * 2);
    mix.assert_counted(statistics.totals(), 2);
}

fn directions() {
    let pair = VethPair::new();
    pair.right.keep_tags();
    let index = index_of(&pair.right);
    let filters = [
        Filter::new("inbound"),
        Filter::new("outbound"),
        Filter::new("(outbound and udp) or (inbound and not udp)"),
        Filter::new(format!("ifindex {index} and outbound")),
        Filter::new(format!("ifindex {}", index + 1)),
    ];
    let mix = Mix::new();
    let (each, total) = mix.expected(1);
    for engine in ["tcx:", "xdp:"] {
        let device = format!("{engine}{}", pair.right.device);
        let opened = pair
            .right
            .run(|| Statistics::open(&device, &filters, &StatOptions::default()));
        let mut statistics = opened.unwrap_or_else(|error| panic!("{error}"));
        // Twice as many are received as are sent.
        mix.send_from(&pair.right);
        mix.send_from(&pair.left);
        mix.send_from(&pair.left);
        wait_for(&mut statistics, mix.frames.len() as u64 * 3);
        let found = statistics.totals().filters.iter();
        let found: Vec<u64> = found.map(|count| count.packets).collect();
        let (all, udp) = (total.packets, each[1].packets);
        let expected = [2 * all, all, udp + 2 * (all - udp), all, 0];
        assert_eq!(found, expected, "{engine}");
    }
}

fn at_xdp() {
    let pair = VethPair::new();
    pair.right.keep_tags();
    let mix = Mix::new();
    let mut statistics = open(&pair.right, "xdp:", &StatOptions::default());
    assert_eq!(
        statistics.describe().hooks(),
        format!("XDP in the driver and {} egress", chain())
    );
    // Frames without a socket buffer, if the kernel makes them, and with one, from which the driver makes a
    // frame.
    for frame in &mix.frames {
        if Need::Kernel(5, 18).unmet().is_none() {
            let frames = LiveFrames::new(frame, Target::OutOf(&pair.left)).expect("loaded");
            frames.send(2).expect("sent");
        } else {
            send(&pair.left, frame, 2);
        }
    }
    mix.send_from(&pair.left);
    wait_for(&mut statistics, mix.frames.len() as u64 * 3);
    mix.assert_counted(statistics.totals(), 3);
}

/// The sender's kernel stores the tag separately, and so does veth. XDP sees the packet without it, and the
/// counting program restores it. The packet is passed on unchanged.
fn tags_beside() {
    let pair = VethPair::new();
    let _pushing = push_tags(&pair.left);
    let filters = [Filter::new("vlan 5 and udp"), Filter::new("udp")];
    let open = |device| {
        let opened = Statistics::open(device, &filters, &StatOptions::default());
        opened.unwrap_or_else(|error| panic!("{error}"))
    };
    let mut at_xdp = pair.right.run(|| open("xdp:veth1"));
    assert!(at_xdp.describe().hooks().starts_with("XDP in the driver"));
    assert!(at_xdp.describe().notes.is_empty());
    let mut at_tcx = pair.right.run(|| open("tcx:veth1"));
    let socket = pair
        .left
        .run(|| UdpSocket::bind("10.99.0.1:0").expect("free"));
    for _ in 0..20 {
        socket.send_to(&[7; 100], "10.99.0.2:9").expect("sent");
    }
    let expected = Count {
        packets: 20,
        bytes: 20 * (100 + 8 + 20 + 14 + 4),
    };
    for statistics in [&mut at_xdp, &mut at_tcx] {
        wait_for(statistics, 20);
        let totals = statistics.totals();
        assert_eq!(totals.filters, [expected, Count::default()]);
        assert_eq!(totals.total, expected);
    }
}

/// Gives each packet that the end sends a VLAN tag, as a VLAN interface would.
fn push_tags(side: &Side) -> bpf::Link {
    let mut asm = Assembler::new();
    asm.mov32(Reg::R2, i32::from(0x8100_u16.to_be()));
    asm.mov32(Reg::R3, 5);
    asm.call(Helper::SkbVlanPush);
    // TCX_NEXT
    asm.mov32(Reg::R0, -1);
    asm.exit();
    let kernel = Kernel::running();
    let code = asm.finish().expect("no jumps");
    let program = Program::load(&kernel, "push_tags", ProgramKind::SchedCls, &code);
    let program = program.expect("it is loaded");
    let index = index_of(side);
    let link = side.run(|| {
        let (hook, place) = (TcxSide::Egress, TcxPlace::Last);
        bpf::Link::tcx(&program, &kernel, index, hook, place, None)
    });
    link.expect("tcx")
}

/// Reads until this many packets were counted; packets into a veth pair are received a little later.
fn wait_for(statistics: &mut Statistics, packets: u64) {
    for _ in 0..2_000 {
        statistics.read();
        if statistics.totals().total.packets >= packets {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?} of {packets} packets", statistics.totals().total);
}

fn at_clsact() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let kernel = Kernel::behind(|request: &Request<'_>| {
        if request.is_tcx() {
            Err(EINVAL)
        } else {
            Ok(())
        }
    });
    let mut statistics = open_on(&kernel, &pair.right, "", &StatOptions::default());
    assert_eq!(
        statistics.describe().hooks(),
        "clsact ingress and clsact egress"
    );
    mix.send_from(&pair.right);
    for frame in &mix.frames {
        receive(&pair, frame, 1);
    }
    wait_for(&mut statistics, mix.frames.len() as u64 * 2);
    mix.assert_counted(statistics.totals(), 2);
    assert!(statistics.is_attached());
}

/// Frames of several pages, at XDP in several buffers.
fn jumbo() {
    let pair = VethPair::with(&VethOptions {
        mtu: Some(9_000),
        ..VethOptions::default()
    });
    pair.right.keep_tags();
    let mut at_xdp = open(&pair.right, "xdp:", &StatOptions::default());
    assert!(at_xdp.describe().hooks().starts_with("XDP in the driver"));
    let mut at_tcx = open(&pair.right, "tcx:", &StatOptions::default());
    let socket = pair
        .left
        .run(|| UdpSocket::bind("10.99.0.1:0").expect("free"));
    let payload = vec![0; 8_900];
    for _ in 0..20 {
        socket.send_to(&payload, "10.99.0.2:9").expect("sent");
    }
    let expected = Count {
        packets: 20,
        bytes: 20 * (8_900 + 8 + 20 + 14),
    };
    for statistics in [&mut at_xdp, &mut at_tcx] {
        wait_for(statistics, 20);
        let totals = statistics.totals();
        // The host answers that the port is closed, to a limited rate: not counted by "greater 600".
        assert_eq!(totals.filters[4], expected);
    }
}

fn many_filters() {
    let pair = VethPair::new();
    pair.right.keep_tags();
    let filters: Vec<Filter> = (0..256)
        .map(|number| {
            Filter::new(format!(
                "udp and (dst port {number} or host 10.0.0.{number})"
            ))
        })
        .collect();
    let mut frame = Traffic::default()
        .frames()
        .into_iter()
        .find(|frame| frame[23] == 17)
        .expect("a quarter is UDP");
    frame[36..38].copy_from_slice(&77_u16.to_be_bytes());
    for device in ["xdp:veth1", "tcx:veth1"] {
        let opened = pair
            .right
            .run(|| Statistics::open(device, &filters, &StatOptions::default()));
        let mut statistics = opened.unwrap_or_else(|error| panic!("{error}"));
        if device.starts_with("tcx") {
            receive(&pair, &frame, 100);
        } else {
            send(&pair.left, &frame, 100);
        }
        wait_for(&mut statistics, 100);
        for (number, count) in statistics.totals().filters.iter().enumerate() {
            let expected = if number == 77 { 100 } else { 0 };
            assert_eq!(count.packets, expected, "{device} {number}");
        }
    }
}

fn stealing() {
    let pair = VethPair::new();
    let socket = pair
        .right
        .run(|| UdpSocket::bind("10.99.0.2:7000").expect("free"));
    let other = pair
        .right
        .run(|| UdpSocket::bind("10.99.0.2:7001").expect("free"));
    let options = StatOptions::default().mode(Mode::Steal);
    let filters = [Filter::new("udp dst port 7000")];
    let sender = pair
        .left
        .run(|| UdpSocket::bind("10.99.0.1:0").expect("free"));
    // Nothing is stolen at clsact.
    let has_tcx = Need::Tcx.unmet().is_none();
    let device = if has_tcx { "tcx:veth1" } else { "xdp:veth1" };
    let opened = pair
        .right
        .run(|| Statistics::open(device, &filters, &options));
    let mut statistics = opened.expect("no default route");
    for _ in 0..10 {
        sender.send_to(b"taken", "10.99.0.2:7000").expect("sent");
    }
    sender.send_to(b"passed", "10.99.0.2:7001").expect("sent");
    let mut text = [0; 16];
    other.set_read_timeout(Some(patience())).expect("a socket");
    // The last datagram arrives, those before it have not.
    assert_eq!(other.recv(&mut text).expect("received"), 6);
    socket.set_nonblocking(true).expect("a socket");
    assert!(socket.recv(&mut text).is_err(), "it was stolen");
    let interval = statistics.read();
    assert_eq!(interval.filters[0].packets, 10);
    assert_eq!(interval.total.packets, 11);
    drop(statistics);
    // A process that another test is starting holds the program's link until its exec.
    let begun = Instant::now();
    while socket.recv(&mut text).is_err() {
        assert!(begun.elapsed() < patience(), "datagrams are still stolen");
        sender.send_to(b"again", "10.99.0.2:7000").expect("sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(text.starts_with(b"again"));
}

fn two_at_once() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let mut first = open(&pair.right, "", &StatOptions::default());
    let mut second = open(&pair.right, "", &StatOptions::default());
    mix.send_from(&pair.right);
    mix.assert_counted(first.read(), 1);
    drop(first);
    mix.send_from(&pair.right);
    mix.assert_counted(second.read(), 2);
}

fn intervals() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let mut statistics = open(&pair.right, "", &StatOptions::default());
    for _ in 0..3 {
        mix.send_from(&pair.right);
        mix.assert_counted(statistics.read(), 1);
    }
    let quiet = statistics.read();
    assert!(quiet.filters.iter().all(|count| *count == Count::default()));
    mix.assert_counted(statistics.totals(), 3);
}

fn deleted() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let mut statistics = open(&pair.right, "", &StatOptions::default());
    assert!(statistics.is_attached());
    mix.send_from(&pair.right);
    let mut netlink = pair.right.namespace.netlink();
    netlink.delete(&pair.right.device).expect("deleted");
    assert!(!statistics.is_attached());
    mix.assert_counted(statistics.read(), 1);
}

/// Reads until as many packets were counted or lost as were sent.
fn read_until(statistics: &mut Statistics, packets: u64) {
    let begun = Instant::now();
    loop {
        statistics.read();
        let totals = statistics.totals();
        if totals.total.packets + totals.lost.expect("told") >= packets {
            return;
        }
        assert!(begun.elapsed() < patience(), "{totals:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn by_socket() {
    let pair = VethPair::new();
    let mix = Mix::new();
    let received = StatOptions::default().direction(Direction::In);
    let mut statistics = open(&pair.right, "packet:", &received);
    let mut sent = open(&pair.left, "packet:", &StatOptions::default());
    for times in 1..=2 {
        mix.send_from(&pair.left);
        let (_, total) = mix.expected(times);
        for counting in [&mut statistics, &mut sent] {
            read_until(counting, total.packets);
            mix.assert_counted(counting.totals(), times);
            assert_eq!(counting.totals().lost, Some(0));
            assert!(counting.is_attached());
        }
    }
    let description = statistics.describe();
    assert!(!description.is_in_kernel());
    assert_eq!(description.hooks(), "packet socket");
    let netlink = &mut pair.right.namespace.netlink();
    netlink.delete(&pair.right.device).expect("deleted");
    let begun = Instant::now();
    while statistics.is_attached() {
        assert!(begun.elapsed() < patience());
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, total) = mix.expected(2);
    statistics.read();
    assert_eq!(statistics.totals().total, total);
}

/// The kernel with CAP_NET_RAW alone.
fn stand_in() {
    const EPERM: i32 = 1;
    let pair = VethPair::new();
    let kernel = Kernel::behind(|_: &Request<'_>| Err(EPERM));
    let mut statistics = open_on(&kernel, &pair.right, "", &StatOptions::default());
    let text = statistics.describe().to_string();
    assert!(text.contains("hook:           packet socket\n"), "{text}");
    assert!(text.contains("note:           not at a hook: "), "{text}");
    assert!(text.contains("Operation not permitted"), "{text}");
    assert!(statistics.required_capabilities().is_empty());
    let mix = Mix::new();
    mix.send_from(&pair.left);
    read_until(&mut statistics, mix.expected(1).1.packets);
    mix.assert_counted(statistics.totals(), 1);
    for (device, mode) in [("tcx:veth1", Mode::Copy), ("veth1", Mode::Steal)] {
        let options = StatOptions::default().mode(mode);
        let opened = pair
            .right
            .run(|| Statistics::open_on(&kernel, device, &filters(), &options));
        let error = opened.expect_err("neither asked for nor able");
        assert!(error.is_permission_denied(), "{error}");
    }
}

fn socket_losses() {
    const SENT: u32 = 40_000;
    let pair = VethPair::new();
    let options = StatOptions::default()
        .direction(Direction::In)
        .begins_later(true);
    let mut statistics = open(&pair.right, "packet:", &options);
    let frame = &Mix::new().frames[1];
    receive(&pair, frame, SENT);
    read_until(&mut statistics, SENT.into());
    let totals = statistics.totals();
    let lost = totals.lost.expect("told");
    // More than the ring holds, and nobody has read.
    assert!(lost > 0 && totals.total.packets > 0, "{totals:?}");
    assert_eq!(totals.total.packets + lost, SENT.into());
    let length = frame.len() as u64;
    assert_eq!(totals.total.bytes, totals.total.packets * length);
    assert_eq!(statistics.read().lost, Some(0));
}

fn no_rights() {
    let refused = Statistics::open("lo", &[], &StatOptions::default());
    let text = refused.expect_err("no rights").to_string();
    assert!(text.contains("CAP_BPF"), "{text}");
}

fn wrong_filters() {
    let filters = [Filter::new("udp"), Filter::new("udp port")];
    let refused = Statistics::open("lo", &filters, &StatOptions::default()).err();
    let Some(Error::Filter { expression, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(expression, "udp port");
}

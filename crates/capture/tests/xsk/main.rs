//! Engine `xsk` live: delivered packets equal the sent ones, and the host gets the rest.

mod faults;
mod members;

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    CaptureOptions, Error, Filter, Mode, Next, OptionError, Source, Timestamp, open,
};
use ringtap_testkit::frames::patience;
use ringtap_testkit::netns::{Namespace, Side, VethOptions, VethPair};
use ringtap_testkit::traffic::{LiveFrames, Sizes, Target, Traffic};
use ringtap_testkit::{Need, Test, suite, test};

use members::{ACTIVE_BACKUP, Master, ROUND_ROBIN};

fn main() -> ExitCode {
    if let Some(status) = faults::run_as_child() {
        return status;
    }
    let root = &[Need::Root];
    let mut tests = vec![
        test("packets_come_whole_in_order_and_stamped", root, whole),
        test("filters_choose_and_the_rest_goes_on", root, filtered),
        test("a_filter_is_replaced_while_it_runs", root, replaced),
        test("all_queues_are_read", root, all_queues),
        test("the_driver_is_polled", root, polled),
        // Its sender is the kernel's.
        test(
            "losses_are_counted",
            &[Need::Root, Need::Kernel(5, 18)],
            losses,
        ),
        test("a_deleted_interface_is_told", root, deleted),
        test("consent_is_asked_for", root, consent),
    ];
    tests.extend(of_members());
    tests.extend(of_faults());
    suite(tests)
}

fn of_faults() -> [Test; 9] {
    let root = &[Need::Root];
    let group = &[Need::Root, Need::MemoryGroup];
    [
        test(
            "killed_reader_leaves_nothing",
            root,
            faults::killed_reader_leaves_nothing,
        ),
        test(
            "short_of_memory_leaves_nothing",
            group,
            faults::short_of_memory_leaves_nothing,
        ),
        test("needs_capabilities", root, faults::needs_capabilities),
        test(
            "survives_a_new_name_and_mtu",
            &[Need::Root, Need::Kernel(6, 2)],
            faults::survives_a_new_name_and_mtu,
        ),
        test(
            "one_that_is_down_is_told_and_goes_on",
            root,
            faults::one_that_is_down_is_told_and_goes_on,
        ),
        test(
            "a_moved_interface_is_told",
            root,
            faults::a_moved_interface_is_told,
        ),
        test(
            "a_clock_that_is_set_is_followed",
            root,
            faults::a_clock_that_is_set_is_followed,
        ),
        test(
            "a_replaced_program_is_told",
            root,
            faults::a_replaced_program_is_told,
        ),
        // It counts descriptors of the process.
        test("openings_leak_nothing", root, faults::openings_leak_nothing).serial(),
    ]
}

type Body = fn(Master);

/// Returns the tests of members under all that can hold them.
fn of_members() -> Vec<Test> {
    let masters = [
        ("bridge", "bridge", Master::Bridge),
        ("bond", "balance_rr", Master::Bond(ROUND_ROBIN)),
        ("bond", "active_backup", Master::Bond(ACTIVE_BACKUP)),
        ("team", "team", Master::Team),
    ];
    let tests: [(&str, Body); 10] = [
        ("all_are_captured_on", members::all_are_captured_on),
        ("losses_are_summed", members::losses_are_summed),
        (
            "comings_and_goings_are_told",
            members::comings_and_goings_are_told,
        ),
        (
            "one_that_cannot_be_opened",
            members::one_that_cannot_be_opened,
        ),
        ("consent_is_for_the_bond", members::consent_is_for_the_bond),
        ("control_frames_go_on", members::control_frames_go_on),
        (
            "killed_reader_leaves_nothing",
            members::killed_reader_leaves_nothing,
        ),
        (
            "a_replaced_program_is_told",
            members::a_replaced_program_is_told,
        ),
        ("new_names_are_nothing", members::new_names_are_nothing),
        (
            "one_that_is_moved_is_told",
            members::one_that_is_moved_is_told,
        ),
    ];
    let mut all = Vec::new();
    for (kind, label, master) in masters {
        let needs = &[Need::Root, Need::Kind(kind)];
        for (name, body) in tests {
            // Interfaces get new names while they are up.
            let renames: &[Need] = &[Need::Root, Need::Kernel(6, 2), Need::Kind(kind)];
            let needs = if name == "new_names_are_nothing" {
                renames
            } else {
                needs
            };
            let name = format!("members_{name}_{label}");
            all.push(test(name, needs, move || body(master)));
        }
        if kind == "bond" {
            let name = format!("members_the_tap_sees_all_{label}");
            let needs = &[Need::Root, Need::Kernel(5, 18), Need::Kind(kind)];
            all.push(test(name, needs, move || members::the_tap_sees_all(master)));
        }
    }
    let bridge = &[Need::Root, Need::Kind("bridge")];
    all.push(test("members_none_is_told", bridge, members::none_is_told));
    all
}

/// Returns the XDP programs of an interface.
fn programs(namespace: &Namespace, name: &str) -> usize {
    let link = namespace.netlink().link(name);
    link.map_or(0, |link| link.xdp.len())
}

fn options() -> CaptureOptions {
    CaptureOptions::default()
        .mode(Mode::Steal)
        .timeout(Duration::from_millis(500))
        .buffer(4 << 20)
}

fn polled() {
    let pair = VethPair::new();
    let options = options().busy_poll(Some(Duration::from_millis(5)));
    let mut source = opened(&pair.right, &options, None);
    let frames = traffic(500);
    pair.left.inject(&frames);
    let mut seen = Vec::new();
    let begin = Instant::now();
    while seen.len() < frames.len() {
        match source.next().expect("the interface is there") {
            Next::Block(block) => seen.extend(block.packets().map(|packet| packet.data.to_vec())),
            Next::TimedOut => assert!(begin.elapsed() < patience(), "{} came", seen.len()),
            _ => {}
        }
    }
    assert_eq!(seen, frames);
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
}

fn opened(side: &Side, options: &CaptureOptions, filter: Option<&str>) -> Box<dyn Source> {
    let filter = filter.map(Filter::new);
    let device = format!("xsk:{}", side.device);
    let source = side.run(|| open(&device, options, filter.as_ref()));
    source.unwrap_or_else(|error| panic!("{error}"))
}

fn traffic(packets: u64) -> Vec<Vec<u8>> {
    let traffic = Traffic {
        packets,
        sizes: Sizes::Between(64, 1_500),
        ..Traffic::default()
    };
    traffic.frames()
}

/// Returns the next packets: when they were stamped, their bytes.
fn collect(source: &mut dyn Source, count: usize) -> Vec<(Timestamp, Vec<u8>)> {
    let mut packets = Vec::new();
    let begin = Instant::now();
    while packets.len() < count {
        match source.next().expect("it runs") {
            Next::Block(block) => {
                for packet in &block {
                    assert!(packet.len as usize >= packet.data.len());
                    packets.push((packet.timestamp, packet.data.to_vec()));
                }
            }
            Next::TimedOut if begin.elapsed() < patience() => {}
            other => panic!("{other:?} after {} of {count}", packets.len()),
        }
    }
    packets
}

fn bytes(packets: Vec<(Timestamp, Vec<u8>)>) -> Vec<Vec<u8>> {
    packets.into_iter().map(|(_, bytes)| bytes).collect()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.expect("after the epoch").as_nanos();
    Timestamp::from_nanos(i64::try_from(nanos).expect("this century"))
}

fn whole() {
    let pair = VethPair::new();
    let mut source = opened(&pair.right, &options(), None);
    let frames = traffic(700);
    let before = now();
    pair.left.inject(&frames);
    // After all were sent: a stamp of the reading would be later than this.
    let sent = now();
    let packets = collect(&mut *source, frames.len());
    let stamps: Vec<Timestamp> = packets.iter().map(|(stamp, _)| *stamp).collect();
    assert!(stamps.is_sorted());
    assert!(
        before <= stamps[0] && stamps[0] < sent,
        "{before:?} {:?} {sent:?}",
        stamps[0]
    );
    assert_eq!(bytes(packets), frames);
    let stats = source.stats().expect("counters");
    assert_eq!((stats.received, stats.dropped.ring), (Some(700), Some(0)));
    let text = source.describe().to_string();
    assert!(text.contains("AF_XDP, copied from the driver"), "{text}");
    assert!(text.contains("packets that the host sends"), "{text}");
}

fn filtered() {
    let pair = VethPair::new();
    let options = options().snaplen(60);
    let mut source = opened(&pair.right, &options, Some("inbound and udp dst port 7000"));
    let passed = pair
        .right
        .run(|| UdpSocket::bind("10.99.0.2:7001").expect("free"));
    let sender = pair
        .left
        .run(|| UdpSocket::bind("10.99.0.1:0").expect("free"));
    for _ in 0..10 {
        sender.send_to(&[1; 100], "10.99.0.2:7000").expect("sent");
        sender.send_to(&[2; 100], "10.99.0.2:7001").expect("sent");
    }
    let mut text = [0; 200];
    for _ in 0..10 {
        assert_eq!(passed.recv(&mut text).expect("the host gets it"), 100);
    }
    let packets = bytes(collect(&mut *source, 10));
    assert!(
        packets
            .iter()
            .all(|packet| packet.len() == 60 && packet[36..38] == [0x1b, 0x58])
    );
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
}

fn replaced() {
    let pair = VethPair::new();
    let mut source = opened(&pair.right, &options(), Some("udp"));
    let frames = traffic(100);
    let of = |protocol: u8| -> Vec<Vec<u8>> {
        let chosen = frames.iter().filter(|frame| frame[23] == protocol);
        chosen.cloned().collect()
    };
    pair.left.inject(&frames);
    assert_eq!(bytes(collect(&mut *source, of(17).len())), of(17));
    // Unread packets that the old filter let through are not for the new one.
    pair.left.inject(&frames);
    // A program is loaded for a device of the calling thread's namespace.
    let tcp = Filter::new("tcp");
    let set = pair.right.run(|| source.set_filter(Some(&tcp)));
    set.expect("a filter");
    pair.left.inject(&frames);
    assert_eq!(bytes(collect(&mut *source, of(6).len())), of(6));
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
}

fn all_queues() {
    let pair = VethPair::with(&VethOptions {
        queues: Some(2),
        ..VethOptions::default()
    });
    let mut source = opened(&pair.right, &options(), None);
    let text = source.describe().to_string();
    assert!(text.contains("packets of the 2 queues"), "{text}");
    let frames = traffic(200);
    pair.left.inject(&frames);
    let mut found = bytes(collect(&mut *source, frames.len()));
    let mut sent = frames;
    found.sort();
    sent.sort();
    assert_eq!(found, sent);
}

fn losses() {
    let pair = VethPair::new();
    let options = options().buffer(64 * 2048);
    let mut source = opened(&pair.right, &options, None);
    let frame = &traffic(1)[0];
    let sender = LiveFrames::new(frame, Target::OutOf(&pair.left)).expect("loaded");
    sender.send(1_000).expect("sent");
    assert_eq!(collect(&mut *source, 64).len(), 64);
    let stats = source.stats().expect("counters");
    assert_eq!(stats.received, Some(1_000));
    assert_eq!(stats.dropped.ring, Some(1_000 - 64));
}

fn deleted() {
    let pair = VethPair::new();
    let options = options().timeout(Duration::from_secs(10));
    let mut source = opened(&pair.right, &options, None);
    let mut netlink = pair.right.namespace.netlink();
    netlink.delete(&pair.right.device).expect("deleted");
    let told = loop {
        match source.next() {
            Ok(Next::TimedOut) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(told, Error::InterfaceGone { .. }), "{told}");
}

fn consent() {
    let pair = VethPair::new();
    let refused = |options: &CaptureOptions| {
        let opened = pair.right.run(|| open("xsk:veth1", options, None));
        opened.err().expect("refused").to_string()
    };
    let copy = CaptureOptions::default();
    assert_eq!(
        refused(&copy),
        Error::Option(OptionError::XskSteals).to_string()
    );
    let mut netlink = pair.right.namespace.netlink();
    netlink
        .add_default_route(&pair.right.device, pair.left.ipv4.into())
        .expect("a route");
    let text = refused(&options());
    assert!(text.contains("it carries the IPv4 default route"), "{text}");
    let forced = options().force(true);
    let source = opened(&pair.right, &forced, None);
    let notes = source.describe().to_string();
    assert!(notes.contains("stealing with consent"), "{notes}");
}

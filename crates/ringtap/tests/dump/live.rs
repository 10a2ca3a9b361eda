//! Captures of known traffic: every packet, byte for byte, and no other.

use std::path::Path;
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::pcap::{self, Pcap};
use ringtap_testkit::traffic::{Rate, Replay, Sizes, Traffic};
use ringtap_testkit::{Need, Test, repetitions, test};

use crate::program::{LIMIT, bytes, capturing, dump_live, figure, frames, interrupted, stderr};

/// `LINKTYPE_LINUX_SLL2`.
const COOKED_V2: u32 = 276;

/// The rate at which nothing may be lost: 200,000 packets a second, on an emulated machine as much less as it is
/// slower.
/// A million packets for five seconds at this rate, fewer on a slow machine.
fn traffic() -> Traffic {
    Traffic {
        packets: repetitions(1_000_000).into(),
        sizes: Sizes::Between(64, 128),
        seed: 7,
        interval: 5_000,
    }
}

fn at_speed() -> Rate {
    Rate::Pps(repetitions(200_000))
}

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Root, Need::Tool("tcpreplay")];
    vec![
        test("a_million_packets_at_200_kpps", &needs, million).serial(),
        test(
            "a_million_packets_filtered_at_200_kpps",
            &needs,
            million_filtered,
        )
        .serial(),
        test(
            "nothing_unfiltered_at_the_start",
            &needs,
            no_race_at_the_start,
        ),
        test("vlan_tags_are_as_in_the_file", &needs, vlan_tags),
        test("snapshot_length_cuts", &needs, snapshot_length),
        test("several_threads_miss_nothing", &needs, several_threads).serial(),
        test("any_device_is_cooked", &needs, any_device),
        test("directions_are_told_apart", &needs, directions),
        test(
            "live_pcapng_is_read_by_libpcap",
            &[needs[0], needs[1], Need::LibpcapDev],
            live_pcapng,
        ),
    ]
}

/// Captures what `sent` holds while it is replayed, with these arguments; the capture's bytes and
/// the summary.
fn capture(sent: &Path, rate: Rate, arguments: &[&str]) -> (Vec<u8>, String) {
    let pair = VethPair::new();
    let written = sent.with_extension("captured");
    let mut command = dump_live(&pair.right);
    let running = capturing(command.arg("-w").arg(&written).args(arguments), &pair.right);
    Replay::new(sent, rate).run(&pair.left);
    let output = interrupted(running);
    (bytes(&written), stderr(&output))
}

fn is_https(frame: &[u8]) -> bool {
    let port = 443_u16.to_be_bytes();
    frame[12..14] == [8, 0] && frame[23] == 6 && (frame[34..36] == port || frame[36..38] == port)
}

fn assert_same(captured: &[&[u8]], expected: &[&[u8]]) {
    if let Some(at) = captured
        .iter()
        .zip(expected)
        .position(|(one, other)| one != other)
    {
        panic!(
            "packet {at} of {} is another one than was sent",
            expected.len()
        );
    }
    assert_eq!(captured.len(), expected.len(), "packets captured and sent");
}

fn million() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sent = folder.path().join("sent.pcap");
    let traffic = traffic();
    traffic.write_file(&sent).expect("traffic");
    let (captured, summary) = capture(&sent, at_speed(), &[]);
    assert_eq!(
        figure(&summary, "dropped in the ring"),
        Some(0),
        "{summary}"
    );
    assert_same(&frames(&captured), &frames(&bytes(&sent)));
    assert_eq!(
        figure(&summary, "packets captured"),
        Some(traffic.packets),
        "{summary}"
    );
}

fn million_filtered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sent = folder.path().join("sent.pcap");
    let totals = traffic().write_file(&sent).expect("traffic");
    let (captured, summary) = capture(&sent, at_speed(), &["tcp", "port", "443"]);
    let sent = bytes(&sent);
    let expected: Vec<_> = frames(&sent)
        .into_iter()
        .filter(|frame| is_https(frame))
        .collect();
    assert_same(&frames(&captured), &expected);
    assert_eq!(
        figure(&summary, "packets captured"),
        Some(totals.https),
        "{summary}"
    );
}

/// The traffic starts before the capture and ends after it: packets in the ring from before the filter was
/// attached must not come out.
fn no_race_at_the_start() {
    let (folder, sent) = Traffic::file_of(20_000);
    let pair = VethPair::new();
    let replay = Replay {
        times: 10_000,
        ..Replay::new(&sent, Rate::Pps(50_000))
    };
    let sending = replay.start(&pair.left);
    let begun = Instant::now();
    for _ in 0..5 {
        let written = folder.path().join("captured.pcap");
        let mut command = dump_live(&pair.right);
        let running = capturing(
            command.arg("-w").arg(&written).arg("tcp port 443"),
            &pair.right,
        );
        // Enough for some that the filter takes.
        let before = sent_by(&pair.left);
        while sent_by(&pair.left) < before + 5_000 {
            assert!(begun.elapsed() < LIMIT, "nothing is sent");
            std::thread::sleep(Duration::from_millis(2));
        }
        interrupted(running);
        let captured = bytes(&written);
        let captured = frames(&captured);
        assert!(
            captured.iter().all(|frame| is_https(frame)),
            "a packet passed the filter"
        );
        assert!(!captured.is_empty(), "no traffic was seen");
    }
    drop(sending);
}

/// Returns the packets that the device has sent.
fn sent_by(side: &Side) -> u64 {
    let link = side.namespace.netlink().link(&side.device);
    link.expect("it is there").counters.tx_packets
}

/// The kernel takes VLAN tags out of frames; they are put back, and filters see them.
fn vlan_tags() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sent = folder.path().join("sent.pcap");
    let plain = Traffic {
        packets: 300,
        ..Traffic::default()
    }
    .frames();
    let tagged = (0_u16..)
        .zip(plain)
        .map(|(index, frame)| tag(&frame, index % 3));
    let tagged: Vec<Vec<u8>> = tagged.collect();
    pcap::write(&sent, &tagged).expect("traffic");
    let all: Vec<&[u8]> = tagged.iter().map(Vec::as_slice).collect();
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &[]);
    assert_same(&frames(&captured), &all);
    let of_seven: Vec<_> = all
        .iter()
        .copied()
        .filter(|frame| has_tag(frame, 7))
        .collect();
    assert_eq!(of_seven.len(), 100);
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &["vlan", "7"]);
    assert_same(&frames(&captured), &of_seven);
    let udp = |frame: &&[u8]| frame[12..14] == [8, 0] && frame[23] == 17;
    let untagged: Vec<_> = all.iter().copied().filter(udp).collect();
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &["udp"]);
    assert_same(&frames(&captured), &untagged);
}

/// Returns the frame untouched for 0, with VLAN 7 for 1, with VLAN 8 and priority 5 for 2 (IEEE 802.1Q).
fn tag(frame: &[u8], kind: u16) -> Vec<u8> {
    let control: [u8; 2] = match kind {
        0 => return frame.to_vec(),
        1 => [0, 7],
        _ => [0xa0, 8],
    };
    [&frame[..12], &[0x81, 0], &control, &frame[12..]].concat()
}

fn has_tag(frame: &[u8], id: u8) -> bool {
    frame[12..14] == [0x81, 0] && frame[15] == id
}

fn snapshot_length() {
    let (_folder, sent) = Traffic::file_of(200);
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &["-s", "80"]);
    let sent = bytes(&sent);
    let whole = frames(&sent);
    let cut: Vec<_> = whole
        .iter()
        .map(|frame| &frame[..frame.len().min(80)])
        .collect();
    assert_same(&frames(&captured), &cut);
    let pcap = Pcap::parse(&captured).expect("a pcap file");
    let lengths = pcap
        .records()
        .map(|record| record.expect("a record").len as usize);
    assert!(
        lengths.eq(whole.iter().map(|frame| frame.len())),
        "lengths on the wire"
    );
}

fn several_threads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sent = folder.path().join("sent.pcap");
    let traffic = Traffic {
        packets: 50_000,
        sizes: Sizes::Fixed(100),
        ..Traffic::default()
    };
    traffic.write_file(&sent).expect("traffic");
    let pair = VethPair::new();
    let written = sent.with_extension("captured");
    let mut command = dump_live(&pair.right);
    command.arg("-w").arg(&written).args(["--threads", "2"]);
    let mut running = capturing(&mut command, &pair.right);
    Replay::new(&sent, Rate::Pps(100_000)).run(&pair.left);
    running.wait_until_resting(LIMIT).expect("all is captured");
    // The counters in between also cover all threads.
    running.signal("USR1").expect("a signal");
    let told = running.wait_until_told("dropped by the interface", LIMIT);
    told.expect("told in between");
    let summary = stderr(&interrupted(running));
    let (captured, sent) = (bytes(&written), bytes(&sent));
    let (mut captured, mut expected) = (frames(&captured), frames(&sent));
    // The order holds within a thread only.
    captured.sort_unstable();
    expected.sort_unstable();
    assert_same(&captured, &expected);
    for what in [
        "50000 packets captured",
        "50000 packets received by the filter",
    ] {
        assert_eq!(summary.matches(what).count(), 2, "{summary}");
    }
}

fn any_device() {
    let (folder, sent) = Traffic::file_of(500);
    let pair = VethPair::new();
    let written = folder.path().join("captured.pcap");
    let mut command = pair.right.namespace.command(crate::program::RINGTAP);
    command.args(["dump", "-i", "any", "-w"]).arg(&written);
    let mut running = ringtap_testkit::process::Running::start_piped(&mut command).expect("starts");
    running
        .wait_until_capturing_any(&pair.right, crate::program::LIMIT)
        .expect("captures");
    Replay::new(&sent, Rate::Pps(10_000)).run(&pair.left);
    interrupted(running);
    let (captured, sent) = (bytes(&written), bytes(&sent));
    assert_eq!(
        Pcap::parse(&captured).expect("a pcap file").link_type,
        COOKED_V2
    );
    // The cooked header has 20 bytes, the Ethernet header that it replaces has 14.
    let captured: Vec<_> = frames(&captured)
        .into_iter()
        .map(|frame| &frame[20..])
        .collect();
    let expected: Vec<_> = frames(&sent)
        .into_iter()
        .map(|frame| &frame[14..])
        .collect();
    assert_same(&captured, &expected);
}

fn directions() {
    let (_folder, sent) = Traffic::file_of(200);
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &["--direction", "in"]);
    assert_eq!(frames(&captured).len(), 200);
    let (captured, _) = capture(&sent, Rate::Pps(10_000), &["--direction", "out"]);
    assert_eq!(frames(&captured).len(), 0);
}

fn live_pcapng() {
    let (_folder, sent) = Traffic::file_of(1_000);
    capture(&sent, Rate::Pps(10_000), &["--format", "pcapng"]);
    let written = sent.with_extension("captured");
    let capture = ringtap_testkit::libpcap::read(&written).expect("libpcap reads it");
    assert_eq!(capture.damage, None);
    let sent = bytes(&sent);
    let captured: Vec<_> = capture
        .packets
        .iter()
        .map(|packet| &packet.data[..])
        .collect();
    assert_same(&captured, &frames(&sent));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("a clock").as_secs()).expect("this century");
    assert!(
        capture
            .packets
            .iter()
            .all(|packet| (now - packet.secs).abs() < 3600),
        "wall time"
    );
}

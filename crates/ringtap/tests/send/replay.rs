//! Files replayed: rates, rounds, changes, faults.

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Sizes, Traffic};

use crate::support::{
    LIMIT, Receiver, bytes, comes_to, command, file, send, send_piped, sent, summary,
};

fn frames(packets: u64) -> Vec<Vec<u8>> {
    let traffic = Traffic {
        packets,
        ..Traffic::default()
    };
    traffic.frames()
}

fn status(output: &std::process::Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn files_in_rounds() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(3_000);
    let path = file(folder.path(), &frames, 10);
    let path = path.to_str().unwrap();
    let mut receiver = Receiver::on(&pair.right);
    let arguments = ["-r", path, "-r", path, "--loop", "2", "--multiplier", "3"];
    let output = send(&pair.left, &arguments);
    assert_eq!(status(&output), Some(0), "{output:?}");
    assert_eq!(sent(&output), 12_000);
    // Four times 30 ms, three times as fast.
    assert!(summary(&output)["seconds"].as_f64().unwrap() >= 0.039_98);
    let seen = receiver.take(12_000);
    assert!(seen.chunks(3_000).all(|round| round == frames));
}

pub(crate) fn standard_input() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(500);
    let path = file(folder.path(), &frames, 1);
    let mut receiver = Receiver::on(&pair.right);
    let output = send_piped(&pair.left, &["-r", "-", "--topspeed"], &path);
    assert_eq!(status(&output), Some(0), "{output:?}");
    assert_eq!(receiver.take(500), frames);
    // It cannot be read again.
    let output = send_piped(&pair.left, &["-r", "-", "--loop", "2"], &path);
    assert_eq!(status(&output), Some(2), "{output:?}");
}

/// An hour between two packets.
pub(crate) fn gaps() {
    const HOUR: u32 = 3_600_000_000;
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(3);
    let path = file(folder.path(), &frames, HOUR);
    let path = path.to_str().unwrap();
    let mut receiver = Receiver::on(&pair.right);
    let output = send(&pair.left, &["-r", path, "--max-gap", "20ms"]);
    assert_eq!(status(&output), Some(0), "{output:?}");
    assert_eq!(receiver.take(3), frames);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let gap = "after packet 1 there is a gap of 1.0 hours, which is shortened to 20.000ms";
    assert!(told.contains(gap), "{told}");
    let summary = summary(&output);
    assert_eq!(summary["gaps_shortened"], 2);
    assert_eq!(summary["gaps_left_out_seconds"], 7_199.96);

    // Without the option it waits, and reports that before.
    let notices = folder.path().join("notices");
    let mut command = command(&pair.left, &["-r", path]);
    command.stderr(std::fs::File::create(&notices).unwrap());
    let running = Running::start(&mut command).unwrap();
    let said = || std::fs::read_to_string(&notices).unwrap();
    let begun = std::time::Instant::now();
    let gap = "after packet 1 there is a gap of 1.0 hours, which is waited for; --max-gap";
    while !said().contains(gap) {
        assert!(begun.elapsed() < LIMIT, "{}", said());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.signal("INT").unwrap();
    running.wait(LIMIT).unwrap();
}

/// A fraction of a second or more in a file is reported, and the sum is used.
pub(crate) fn invalid_times() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &frames(2), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[28..32].copy_from_slice(&1_000_001_u32.to_ne_bytes());
    std::fs::write(&path, bytes).unwrap();
    let output = send(&pair.left, &["-r", path.to_str().unwrap()]);
    assert_eq!(status(&output), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("1 packet with an invalid time"), "{told}");
}

/// A filter that is refused is shown with the place in it.
pub(crate) fn wrong_filter() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &frames(2), 1);
    let output = send(&pair.left, &["-r", path.to_str().unwrap(), "tcp prt 80"]);
    assert_eq!(status(&output), Some(2), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("\n  tcp prt 80\n      ^^^\n"), "{told}");
}

/// Names after `-r` in order of time, and those of a list in its order.
pub(crate) fn lists() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(2);
    let write = |name: &str, frame: &[u8], gap: u32| {
        // The first packet is at the beginning of all times, so another one comes before.
        let path = folder.path().join(name);
        let all = crate::support::bytes(&[frame.to_vec(), frame.to_vec()], gap);
        let second = all.len() - (all.len() - 24) / 2;
        std::fs::write(&path, [&all[..24], &all[second..]].concat()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let later = write("a.pcap", &frames[1], 2_000_000);
    let earlier = write("b.pcap", &frames[0], 1_000_000);
    let list = folder.path().join("list");
    std::fs::write(&list, format!("{later}\n{earlier}\n")).unwrap();
    let mut receiver = Receiver::on(&pair.right);
    for (arguments, expected) in [
        (["-r", &later, &earlier, "ip"], [&frames[0], &frames[1]]),
        (
            [
                "-V",
                list.to_str().unwrap(),
                "--extended",
                "ip and (tcp or udp)",
            ],
            [&frames[1], &frames[0]],
        ),
    ] {
        let output = send(&pair.left, &arguments);
        assert_eq!(status(&output), Some(0), "{output:?}");
        assert!(receiver.take(2).iter().eq(expected), "{arguments:?}");
    }
}

pub(crate) fn filtered_and_counted() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(1_000);
    let path = file(folder.path(), &frames, 1);
    let path = path.to_str().unwrap();
    let mut receiver = Receiver::on(&pair.right);
    let output = send(&pair.left, &["-r", path, "-c", "50", "--topspeed", "udp"]);
    assert_eq!(sent(&output), 50);
    let udp: Vec<_> = frames.iter().filter(|frame| frame[23] == 17).collect();
    assert!(receiver.take(50).iter().eq(udp[..50].iter().copied()));
}

pub(crate) fn rewritten() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(2_000);
    let path = file(folder.path(), &frames, 1);
    let mut receiver = Receiver::on(&pair.right);
    let arguments = [
        "-r",
        path.to_str().unwrap(),
        "--topspeed",
        "--rewrite",
        "vlan=77",
        "--rewrite",
        "ip=10.0.0.0/8->172.0.0.0/8",
        "--rewrite",
        "eth.dst=02:00:00:00:00:99",
    ];
    let output = send(&pair.left, &arguments);
    assert_eq!(status(&output), Some(0), "{output:?}");
    let seen = receiver.take(2_000);
    for (seen, frame) in seen.iter().zip(&frames) {
        assert_eq!(seen[..6], [2, 0, 0, 0, 0, 0x99]);
        assert_eq!(seen[12..16], [0x81, 0, 0, 77]);
        let untagged = [&seen[..12], &seen[16..]].concat();
        let addresses = |frame: &[u8]| [frame[26], frame[30]];
        let mapped = addresses(frame).map(|byte| if byte == 10 { 172 } else { byte });
        assert_eq!(addresses(&untagged), mapped);
        assert_eq!(untagged[34..36], frame[34..36]);
        // All words of a right header sum to 0xffff.
        assert_eq!(sum(&untagged[14..34]), 0xffff);
    }
    // Correct checksums are recognized by computing them again.
    let arguments = [
        "-r",
        path.to_str().unwrap(),
        "--topspeed",
        "--fix-checksums",
    ];
    assert_eq!(sent(&send(&pair.left, &arguments)), 2_000);
    assert_eq!(receiver.take(2_000), frames);
}

fn sum(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|&word| u32::from(u16::from_be_bytes(word)))
        .sum();
    (sum & 0xffff) + (sum >> 16)
}

pub(crate) fn rates() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let traffic = Traffic {
        packets: 1_001,
        sizes: Sizes::Fixed(100),
        ..Traffic::default()
    };
    let path = file(folder.path(), &traffic.frames(), 50);
    let path = path.to_str().unwrap();
    // A thousand gaps: never in less time than asked for.
    for (rate, seconds) in [
        (["--pps", "20000"], 0.05),
        (["--mbps", "8"], 0.1),
        (["--multiplier", "0.5"], 0.1),
    ] {
        let output = send(&pair.left, &["-r", path, rate[0], rate[1]]);
        let summary = summary(&output);
        assert_eq!(summary["sent"], 1_001, "{rate:?}");
        let took = summary["seconds"].as_f64().unwrap();
        assert!(took >= seconds * 0.999_9, "{rate:?}: {took}");
        assert!(summary["lateness"]["max_ns"].as_u64().is_some());
        assert!(summary["departures"].is_null());
    }
    let arguments = ["-r", path, "--pps", "20000", "--tx-timestamps", "software"];
    let stamped = summary(&send(&pair.left, &arguments));
    assert_eq!(stamped["departures"]["stamped"], 1_001, "{stamped}");
}

pub(crate) fn misfits() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let mut all = frames(10);
    all[3] = vec![1; 1_600];
    let path = file(folder.path(), &all, 1);
    let path = path.to_str().unwrap();
    let mut receiver = Receiver::on(&pair.right);
    let output = send(&pair.left, &["-r", path, "--topspeed"]);
    assert_eq!(status(&output), Some(1), "{output:?}");
    let told = summary(&output);
    assert_eq!(
        (&told["sent"], &told["not_sent"]["rejected"]),
        (&9.into(), &1.into())
    );
    assert_eq!(receiver.take(9).len(), 9);
    let output = send(&pair.left, &["-r", path, "--topspeed", "--strict"]);
    assert_eq!(status(&output), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("packet 3: veth0: a frame of 1600 bytes"),
        "{text}"
    );
    assert_eq!(receiver.take(3), all[..3]);
    // A file of another link type has no packets for this wire.
    let mut raw = bytes(&frames(3), 1);
    raw[20..24].copy_from_slice(&101_u32.to_ne_bytes());
    let other = folder.path().join("raw.pcap");
    std::fs::write(&other, raw).unwrap();
    let output = send(&pair.left, &["-r", other.to_str().unwrap()]);
    assert_eq!(status(&output), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("link type EN10MB"), "{text}");
    assert!(receiver.drain().is_empty());
}

pub(crate) fn interrupted() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(100);
    let path = file(folder.path(), &frames, 1_000);
    let mut receiver = Receiver::on(&pair.right);
    let arguments = ["-r", path.to_str().unwrap(), "--loop", "0"];
    let mut running = Running::start_piped(&mut command(&pair.left, &arguments)).unwrap();
    let first = receiver.take(150);
    assert!(!running.has_ended());
    running.signal("INT").unwrap();
    let output = running.wait(LIMIT).unwrap();
    assert_eq!(status(&output), Some(0), "{output:?}");
    let told = summary(&output);
    assert_eq!(told["stopped"], true);
    let seen = first.len() + receiver.drain().len();
    assert_eq!(told["sent"], seen);
}

pub(crate) fn slow_receiver() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &frames(2_000), 1);
    // With a program attached, the other end has a queue of 256 packets that can be full.
    let dropping = ringtap_testkit::traffic::XdpDrop::on(&pair.right).unwrap();
    let counters = |side: &ringtap_testkit::netns::Side| {
        let link = side.namespace.netlink().link(&side.device).unwrap();
        link.counters
    };
    let before = (counters(&pair.left), counters(&pair.right));
    let arguments = ["-r", path.to_str().unwrap(), "--loop", "50", "--topspeed"];
    let output = send(&pair.left, &arguments);
    let told = summary(&output);
    let offered = told["sent"].as_u64().unwrap() + told["queue_full"].as_u64().unwrap();
    assert_eq!(told["sent"], 100_000);
    // The driver may still have some in its queue.
    comes_to(offered, || {
        let after = (counters(&pair.left), counters(&pair.right));
        let dropped = after.0.tx_dropped - before.0.tx_dropped;
        after.1.rx_packets - before.1.rx_packets + dropped
    });
    drop(dropping);
    // A capture that nobody reads while packets come: packets outside its ring were counted there.
    let mut receiver = Receiver::with_buffer(&pair.right, 1 << 20);
    let output = send(&pair.left, &arguments);
    let (seen, lost) = receiver.drain_with_losses();
    assert!(lost > 0);
    assert_eq!(sent(&output), seen.len() as u64 + lost);
}

pub(crate) fn consent() {
    let pair = VethPair::new();
    let mut netlink = pair.left.namespace.netlink();
    netlink
        .add_default_route(&pair.left.device, pair.right.ipv4.into())
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fast = file(folder.path(), &frames(1_500), 100);
    let fast = fast.to_str().unwrap();
    for rate in [
        &["--topspeed"][..],
        &["--pps", "1001"],
        &["--mbps", "1"],
        &[],
    ] {
        let output = send(&pair.left, &[&["-r", fast], rate].concat());
        assert_eq!(status(&output), Some(2), "{rate:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("needs --yes"), "{text}");
    }
    let output = send(&pair.left, &["-r", fast, "--topspeed", "--yes"]);
    assert_eq!(sent(&output), 1_500);
    let output = send(&pair.left, &["-r", fast, "-c", "20", "--pps", "1000"]);
    assert_eq!(sent(&output), 20);
}

pub(crate) fn built() {
    let pair = VethPair::new();
    let mut receiver = Receiver::on(&pair.right);
    let spec = "eth/vlan(id=9)/ipv4(dst=10.99.0.2)/udp(dport=53)/\"payload\"";
    let output = send(&pair.left, &["--build", spec, "-c", "300"]);
    assert_eq!(status(&output), Some(0), "{output:?}");
    assert_eq!(sent(&output), 300);
    let seen = receiver.take(300);
    assert!(seen.iter().all(|frame| *frame == seen[0]));
    assert_eq!(seen[0][12..16], [0x81, 0, 0, 9]);
    assert!(seen[0].ends_with(b"payload"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    let text = "[[packet]]\nspec = 'eth/arp'\n[[packet]]\nspec = 'eth/ipv6/icmpv6'\n";
    std::fs::write(&path, text).unwrap();
    let arguments = [
        "--build",
        path.to_str().unwrap(),
        "--loop",
        "3",
        "--pps",
        "2000",
    ];
    assert_eq!(sent(&send(&pair.left, &arguments)), 6);
    let types = receiver
        .take(6)
        .iter()
        .map(|frame| frame[13])
        .collect::<Vec<_>>();
    assert_eq!(types, [6, 0xdd, 6, 0xdd, 6, 0xdd]);
    let output = send(&pair.left, &["--build", "eth/ipv9"]);
    assert_eq!(status(&output), Some(2));
}

pub(crate) fn usage() {
    let output = |arguments: &[&str]| {
        let mut command = std::process::Command::new(crate::support::RINGTAP);
        command.arg("send").args(arguments).output().unwrap()
    };
    let run = |arguments: &[&str]| output(arguments).status.code();
    let file = ["-i", "lo", "-r", "/dev/null"];
    for bad in [
        &["--pps", "0"][..],
        &["--pps", "10", "--topspeed"],
        &["--rewrite", "ip=nonsense"],
        &["--multiplier", "-1"],
        &["-c", "0"],
    ] {
        assert_eq!(run(&[&file, bad].concat()), Some(2), "{bad:?}");
    }
    let both = ["-i", "lo", "-r", "/dev/null", "--build", "eth/ipv4/udp"];
    assert_eq!(run(&both), Some(2));
    // If no packets are named, the error lists every way to name some.
    let nothing = output(&["-i", "lo"]);
    assert_eq!(nothing.status.code(), Some(2));
    let told = String::from_utf8_lossy(&nothing.stderr);
    for source in ["--read <FILE>", "--build <SPEC>"] {
        assert!(told.contains(source), "{told}");
    }
    assert_eq!(run(&["-i", "pigeon:lo", "-r", "/dev/null"]), Some(2));
    assert_eq!(run(&["-i", "nowhere0", "-r", "/dev/null"]), Some(1));
}

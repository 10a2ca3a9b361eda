//! The places where packets are lost: the summary, the receiver and the device's counters agree.

use std::time::Duration;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Traffic, XdpDrop, XdpRecord};

use crate::support::{LIMIT, RINGTAP, Receiver, comes_to, command, file, summary};

fn frames(packets: u64) -> Vec<Vec<u8>> {
    let traffic = Traffic {
        packets,
        ..Traffic::default()
    };
    traffic.frames()
}

/// Returns the packets that the device has dropped on sending.
fn dropped(side: &Side) -> u64 {
    let link = side.namespace.netlink().link(&side.device).unwrap();
    link.counters.tx_dropped
}

/// Returns the frames for which one side had no receiver: those under way when it went down, which nobody
/// else counts, and later ones, which the other side has counted too.
fn missed_while_down(side: &Side) -> u64 {
    let link = side.namespace.netlink().link(&side.device).unwrap();
    link.counters.rx_dropped
}

fn received(side: &Side) -> u64 {
    let link = side.namespace.netlink().link(&side.device).unwrap();
    link.counters.rx_packets
}

fn offered(told: &serde_json::Value) -> u64 {
    told["sent"].as_u64().unwrap() + told["queue_full"].as_u64().unwrap()
}

fn set_up(side: &Side, up: bool) {
    let mut netlink = side.namespace.netlink();
    netlink.set_up(&side.device, up).unwrap();
}

/// A replay without end; its file is opened again for each round.
struct Endless {
    running: Running,
    _folder: tempfile::TempDir,
    /// Packets that have come.
    arrived: usize,
}

impl Endless {
    /// Returns once some packets have come.
    fn start(pair: &VethPair, receiver: &mut Receiver, timing: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), &frames(100), 50);
        let path = path.to_str().unwrap();
        let arguments = [&["-r", path, "--loop", "0"], timing].concat();
        let running = Running::start_piped(&mut command(&pair.left, &arguments)).unwrap();
        Self {
            running,
            _folder: folder,
            arrived: receiver.take(300).len(),
        }
    }
}

/// Few packets at once, and many.
const TIMINGS: [&[&str]; 2] = [&["--pps", "20000"], &["--topspeed"]];

pub(crate) fn link_down_midway() {
    TIMINGS.into_iter().for_each(link_down);
}

fn link_down(timing: &[&str]) {
    let pair = VethPair::new();
    let mut receiver = Receiver::on(&pair.right);
    let before = dropped(&pair.left);
    let replay = Endless::start(&pair, &mut receiver, timing);
    set_up(&pair.left, false);
    let output = replay.running.wait(LIMIT).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = summary(&output);
    let error = told["error"]["reason"].as_str().unwrap();
    assert!(error.contains("the interface is down"), "{told}");
    assert_eq!(told["error"]["packet"], told["sent"]);
    let arrived = (replay.arrived + receiver.drain().len()) as u64;
    let dropped = dropped(&pair.left) - before;
    assert_eq!(offered(&told), arrived + dropped, "{told}");
}

/// The other end takes nothing for a while: each packet that meets that is tried again, and counted by
/// the device each time.
pub(crate) fn queue_full_for_a_while() {
    TIMINGS.into_iter().for_each(queue_full);
}

fn queue_full(timing: &[&str]) {
    let pair = VethPair::new();
    let mut receiver = Receiver::on(&pair.right);
    let before = dropped(&pair.left);
    let missed = missed_while_down(&pair.right);
    let received = received(&pair.right);
    let replay = Endless::start(&pair, &mut receiver, timing);
    set_up(&pair.right, false);
    while dropped(&pair.left) == before {
        std::thread::sleep(Duration::from_millis(2));
    }
    set_up(&pair.right, true);
    receiver.take(300);
    replay.running.signal("INT").unwrap();
    let output = replay.running.wait(LIMIT).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = summary(&output);
    assert!(told["queue_full"].as_u64().unwrap() > 0, "{told}");
    // The receiver's socket is deaf for a moment longer than the device.
    let arrived = self::received(&pair.right) - received;
    let dropped = dropped(&pair.left) - before;
    let missed = missed_while_down(&pair.right) - missed;
    let known = arrived + dropped;
    let offered = offered(&told);
    assert!(
        (known..=known + missed).contains(&offered),
        "{known}, {missed}: {told}"
    );
}

pub(crate) fn interrupted_at_top_speed() {
    let pair = VethPair::new();
    let _counting = XdpDrop::on(&pair.right).unwrap();
    let received = || received(&pair.right);
    let before = (dropped(&pair.left), received());
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &frames(1_000), 50);
    let arguments = ["-r", path.to_str().unwrap(), "--loop", "0", "--topspeed"];
    let running = Running::start_piped(&mut command(&pair.left, &arguments)).unwrap();
    while received() < before.1 + 20_000 {
        std::thread::sleep(Duration::from_millis(2));
    }
    running.signal("TERM").unwrap();
    let output = running.wait(LIMIT).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = summary(&output);
    assert_eq!(told["stopped"], true);
    comes_to(offered(&told), || {
        received() - before.1 + (dropped(&pair.left) - before.0)
    });
}

/// Live frames: those passed to the driver, which counts frames for which it had no room.
pub(crate) fn live_frames() {
    let pair = VethPair::new();
    let received = XdpRecord::on(&pair.right, 0).unwrap();
    let device = format!("live:{}", pair.left.device);
    let mut command = pair.left.namespace.command(RINGTAP);
    command.args(["gen", "-i", &device, "-c", "300000"]);
    command.arg("--explain");
    let output = Running::start_piped(&mut command)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // Programs that are loaded run without a privilege.
    assert!(text.contains("capabilities: none\n"), "{text}");
    assert!(
        text.contains("300000 packets, 18000000 bytes handed to the driver"),
        "{text}"
    );
    comes_to(300_000, || {
        let refused = counter(&pair.left, "tx_queue_0_xdp_xmit_errors");
        received.count().unwrap() + refused
    });
}

/// Returns one of the driver's own counters.
fn counter(side: &Side, name: &str) -> u64 {
    let mut command = side.namespace.command("ethtool");
    let output = command.args(["-S", &side.device]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let prefix = format!("{name}:");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&prefix));
    let value = line.unwrap_or_else(|| panic!("no {name}: {text}"));
    value.trim().parse().unwrap()
}

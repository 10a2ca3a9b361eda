//! Live captures in namespaces, of frames whose number is known.

use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;

use super::{RINGTAP, number, summary};

/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
const FRAMES: u64 = 2_000;

/// Sends frames to a probe with these options; its summary.
fn probe(options: &[&str]) -> (serde_json::Value, u64) {
    let pair = VethPair::new();
    let (sender, receiver) = (&pair.left, &pair.right);
    let mut command: Command = receiver.namespace.command(RINGTAP);
    command.args(["flow", "--json-stats", "--top", "0", "-Q", "in", "-i"]);
    command.arg(&receiver.device).args(options);
    command.stdout(Stdio::null());
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_capturing(receiver, LIMIT)
        .expect("it captures");
    let bytes = send(sender);
    running.signal("INT").expect("it runs");
    let output = running.wait(LIMIT).expect("it ends");
    assert!(output.status.success());
    (summary(&output), bytes)
}

/// Sends the frames; their bytes of layer 3.
fn send(side: &Side) -> u64 {
    let index = side.namespace.netlink().index(&side.device);
    let index = index.expect("it exists");
    let traffic = Traffic {
        packets: FRAMES,
        ..Traffic::default()
    };
    let injector = side.run(|| Injector::open(index).expect("root"));
    let mut bytes = 0;
    for frame in traffic.frames() {
        injector.send(&frame).expect("the end is up");
        bytes += u64::from(u16::from_be_bytes([frame[16], frame[17]]));
    }
    bytes
}

pub(crate) fn meters() {
    for options in [
        &[][..],
        &["--biflow", "--tcp", "-s", "64"],
        &["--threads", "2", "--biflow"],
    ] {
        let options = [options, &["ip"]].concat();
        let (summary, bytes) = probe(&options);
        assert_eq!(number(&summary["metered"]), FRAMES, "{summary}");
        assert_eq!(number(&summary["bytes"]), bytes, "{summary}");
        assert_eq!(number(&summary["dropped"]["ring"]), 0, "{summary}");
        let records = &summary["records"];
        assert!(number(&records["total"]) > 1, "{summary}");
        assert_eq!(records["forced"], records["total"], "{summary}");
    }
}

pub(crate) fn samples() {
    let (summary, _) = probe(&["--sample", "every:4", "ip"]);
    let (metered, left_out) = (
        number(&summary["metered"]),
        number(&summary["dropped"]["sampling"]),
    );
    assert_eq!(metered + left_out, FRAMES, "{summary}");
    // Each processor counts for itself.
    assert!(metered.abs_diff(FRAMES / 4) <= 64, "{summary}");
}

//! Memory does not grow with the number of packets.

use std::process::Stdio;

use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Sizes, Traffic};
use ringtap_testkit::{Test, test};

use crate::program::{LIMIT, dump, figure, stderr, succeeded};

/// The tolerance of the peak: fragments of the allocator, pages touched late, in bytes.
const SLACK: u64 = 4 << 20;
const FEW: u64 = 100_000;
const MANY: u64 = 10_000_000;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("memory_is_flat_while_writing", &[], || {
            flat(&["-w", "/dev/null"], MANY);
        })
        .serial(),
        test("memory_is_flat_while_filtering", &[], || {
            flat(&["-w", "/dev/null", "tcp port 443"], MANY);
        })
        .serial(),
        test("memory_is_flat_while_writing_pcapng", &[], || {
            flat(&["-w", "/dev/null", "--format", "pcapng"], FEW * 20);
        })
        .serial(),
        test("memory_is_flat_while_printing", &[], || {
            flat(&["-n"], FEW * 10);
        })
        .serial(),
    ]
}

fn flat(arguments: &[&str], many: u64) {
    let few = peak(arguments, FEW);
    let many = peak(arguments, many);
    assert!(
        many < few + SLACK,
        "{few} bytes for few packets, {many} bytes for many"
    );
}

/// Returns the most memory that reading this many packets from a pipe takes, in bytes.
fn peak(arguments: &[&str], packets: u64) -> u64 {
    let mut command = dump();
    command.args(["-r", "-"]).args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("ringtap starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let running = Running::watch(child);
    let traffic = Traffic {
        packets,
        sizes: Sizes::Fixed(64),
        ..Traffic::default()
    };
    let totals = traffic.write(std::io::BufWriter::with_capacity(1 << 20, &mut pipe));
    let totals = totals.expect("the packets are read");
    // Everything except the pipe's content has been read, and the program waits for more.
    let peak = running.peak_memory().expect("a running program");
    drop(pipe);
    let output = succeeded(running.wait(LIMIT).expect("an end"));
    let expected = if arguments.contains(&"tcp port 443") {
        totals.https
    } else {
        packets
    };
    assert_eq!(figure(&stderr(&output), "packets captured"), Some(expected));
    peak
}

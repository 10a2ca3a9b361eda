//! How long a packet takes from the sender to the application, at a low rate, where the time-out
//! counts: in immediate mode, with several time-outs, and through tcpdump where it is installed.
//!
//! Makes two network namespaces with a veth pair between them; needs root. `cargo run --release
//! --example delay [PACKETS]`.
#![expect(
    clippy::unwrap_used,
    reason = "a measurement ends where something is missing"
)]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Next, Packet, ReadOptions, Source, open, open_stream};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};

/// Between two packets: no multiple of the time-outs, so that packets meet the timer at any phase.
const SPACING: Duration = Duration::from_micros(3_137);
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

fn main() {
    let packets = std::env::args()
        .nth(1)
        .map_or(1000, |text| text.parse().unwrap());
    let pair = VethPair::new();
    println!("{packets} packets, one each {SPACING:?}; delay in microseconds");
    println!(
        "{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "min", "median", "p99", "p99.9", "max"
    );
    let immediate = CaptureOptions {
        immediate: true,
        ..CaptureOptions::default()
    };
    let spinning = CaptureOptions {
        busy_poll: Some(Duration::from_millis(50)),
        ..immediate.clone()
    };
    report("immediate", own(&pair, &immediate, packets));
    report("immediate, busy polling", own(&pair, &spinning, packets));
    for millis in [1, 2, 10, 100] {
        let timeout = Duration::from_millis(millis);
        let options = CaptureOptions {
            timeout,
            ..CaptureOptions::default()
        };
        report(
            &format!("time-out {millis} ms"),
            own(&pair, &options, packets),
        );
    }
    if ringtap_testkit::need::find_tool("tcpdump").is_some() {
        report("tcpdump, immediate", tcpdump(&pair, true, packets));
        report("tcpdump", tcpdump(&pair, false, packets));
    }
}

fn report(name: &str, mut delays: Vec<Duration>) {
    delays.sort_unstable();
    let at = |permille: usize| delays[(delays.len() - 1) * permille / 1000].as_micros();
    let [min, median, p99, p999, max] = [0, 500, 990, 999, 1000].map(at);
    println!("{name:<28}{min:>10}{median:>10}{p99:>10}{p999:>10}{max:>10}");
}

/// Through a capture of this crate.
fn own(pair: &VethPair, options: &CaptureOptions, packets: usize) -> Vec<Duration> {
    let mut source = pair
        .right
        .run(|| open(&pair.right.device, options, None).unwrap());
    measure(&mut *source, &pair.left, packets)
}

/// Through `tcpdump -w -`, which writes each packet at once, and a pipe.
fn tcpdump(pair: &VethPair, immediate: bool, packets: usize) -> Vec<Duration> {
    let mut command = pair.right.namespace.command("tcpdump");
    command.args([
        "-i",
        &pair.right.device,
        "-U",
        "-w",
        "-",
        "ether proto 0x88b5",
    ]);
    if immediate {
        command.arg("--immediate-mode");
    }
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let stream = Box::new(child.0.stdout.take().unwrap());
    let mut source = open_stream(stream, "tcpdump", &ReadOptions::default(), None).unwrap();
    measure(&mut source, &pair.left, packets)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends packets that carry the time, and compares it with that of their arrival.
fn measure(source: &mut dyn Source, from: &Side, packets: usize) -> Vec<Duration> {
    let index = from.namespace.netlink().index(&from.device).unwrap();
    let injector = from.run(|| Injector::open(index).unwrap());
    let epoch = Instant::now();
    let sender = std::thread::spawn(move || {
        for _ in 0..packets {
            std::thread::sleep(SPACING);
            let nanos = u64::try_from(epoch.elapsed().as_nanos()).unwrap();
            let mut frame = vec![0xff; 12];
            frame.extend(ETHERTYPE);
            frame.extend(nanos.to_be_bytes());
            frame.resize(60, 0);
            injector.send(&frame).unwrap();
        }
    });
    let mut delays = Vec::with_capacity(packets);
    while delays.len() < packets {
        if let Next::Block(block) = source.next().unwrap() {
            let arrived = epoch.elapsed();
            delays.extend(block.packets().filter_map(|packet| delay(&packet, arrived)));
        }
    }
    sender.join().unwrap();
    delays
}

fn delay(packet: &Packet<'_>, arrived: Duration) -> Option<Duration> {
    let (header, rest) = packet.data.split_at_checked(14)?;
    let sent = Duration::from_nanos(u64::from_be_bytes(*rest.first_chunk()?));
    (header[12..] == ETHERTYPE).then(|| arrived.saturating_sub(sent))
}

//! Numbered packets on a wire, a recorder at its end, and what is in its folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A wire and a folder.
pub(crate) struct Scene {
    pub(crate) pair: VethPair,
    pub(crate) root: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            pair: VethPair::new(),
            root: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The recorder's folder.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("rec")
    }

    /// The recorder, with these options.
    pub(crate) fn record(&self, options: &[&str]) -> Command {
        let side = &self.pair.right;
        let mut command = side.namespace.command(RINGTAP);
        command.args(["record", "-i", &side.device, "--dir"]);
        command.arg(self.dir()).args(options);
        piped(&mut command);
        command
    }

    /// Starts it, and waits until it records.
    pub(crate) fn recording(&self, options: &[&str]) -> Running {
        let mut running = Running::start(&mut self.record(options)).expect("ringtap starts");
        running
            .wait_until_told("recording on", LIMIT)
            .expect("it records");
        running
    }

    /// Runs another command of ringtap on the folder.
    pub(crate) fn ask(&self, command: &[&str], options: &[&str]) -> Output {
        let mut ringtap = Command::new(RINGTAP);
        ringtap
            .args(command)
            .arg("--dir")
            .arg(self.dir())
            .args(options);
        piped(&mut ringtap).output().expect("ringtap runs")
    }

    /// Returns the numbers of the packets that an extraction has, in its order.
    pub(crate) fn numbers(&self, options: &[&str]) -> Vec<u64> {
        let file = self.root.path().join("answer.pcapng");
        let name = file.to_str().expect("a name");
        let output = self.ask(&["extract", "-w", name], options);
        assert!(output.status.success(), "{}", stderr(&output));
        numbers(&file)
    }

    /// Waits until an extraction has this packet.
    pub(crate) fn wait_for(&self, number: u64) {
        let begun = std::time::Instant::now();
        while !self.numbers(&[]).contains(&number) {
            assert!(begun.elapsed() < LIMIT, "packet {number} is not recorded");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn sender(&self) -> Sender {
        self.sender_in(&self.pair.left, &self.pair.left.device)
    }

    /// Returns a sender on a device of a side's namespace.
    pub(crate) fn sender_in(&self, side: &Side, device: &str) -> Sender {
        Sender::new(side, device)
    }
}

fn piped(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends numbered packets: UDP from 10.0.0.1 to 10.0.1.N, N being the last digit of the number.
pub(crate) struct Sender {
    injector: Injector,
}

/// The destination port of numbered packets.
pub(crate) const PORT: u16 = 4711;

impl Sender {
    fn new(side: &Side, device: &str) -> Self {
        let index = side.namespace.netlink().index(device).expect("a device");
        let injector = side.run(|| Injector::open(index).expect("root"));
        Self { injector }
    }

    pub(crate) fn send(&self, numbers: std::ops::Range<u64>, len: usize) {
        for number in numbers {
            let frame = frame(number, len);
            // The queue may be full for a moment.
            while self.injector.send(&frame).is_err() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Sends at a rate at which a recorder on a busy machine loses nothing: less than 30 MB/s.
    pub(crate) fn send_steadily(&self, numbers: std::ops::Range<u64>, len: usize) {
        for begin in numbers.clone().step_by(20) {
            self.send(begin..numbers.end.min(begin + 20), len);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends for as long as the result exists, about this many packets a second.
    pub(crate) fn run(self, first: u64, len: usize, per_second: u32) -> Endless {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let pause = Duration::from_secs(1) / (per_second / 10).max(1);
        let thread = std::thread::spawn(move || {
            let (mut next, mut sent) = (first, Vec::new());
            while !stop.load(Ordering::Relaxed) {
                sent.push((next, now()));
                self.send(next..next + 10, len);
                next += 10;
                std::thread::sleep(pause);
            }
            sent
        });
        Endless { over, thread }
    }
}

/// A sender at work.
pub(crate) struct Endless {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(u64, f64)>>,
}

impl Endless {
    /// Ends it. Returns the first number of each ten packets, and when they were sent.
    pub(crate) fn end(self) -> Vec<(u64, f64)> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a sender")
    }
}

/// Returns the time in seconds since the epoch.
pub(crate) fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

/// An Ethernet frame with a number in its payload.
fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0x99, 0, 0, 0, 2, 0x02, 0x99, 0, 0, 0, 1, 8, 0];
    let payload = len.saturating_sub(14).max(36);
    let total = u16::try_from(payload).expect("a size");
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    let last = u8::try_from(number % 10).expect("a digit");
    frame.extend([10, 0, 0, 1, 10, 0, 1, last]);
    frame.extend(1000_u16.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    // The rest hardly compresses.
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while frame.len() < 14 + payload {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        frame.extend(state.to_le_bytes());
    }
    frame.truncate(14 + payload);
    frame
}

/// Returns the numbers of the packets of a file.
pub(crate) fn numbers(file: &Path) -> Vec<u64> {
    let mut reader = Reader::open(file, &ReadOptions::default()).expect("a capture");
    let mut numbers = Vec::new();
    while let Some(item) = reader.next().expect("a whole file") {
        let Item::Run(run) = item else { continue };
        for packet in run.packets() {
            let is_numbered = packet.data.get(36..38) == Some(&PORT.to_be_bytes());
            let number = packet
                .data
                .get(42..50)
                .and_then(|bytes| bytes.first_chunk());
            if let (true, Some(number)) = (is_numbered, number) {
                numbers.push(u64::from_be_bytes(*number));
            }
        }
    }
    numbers
}

/// Compares numbers, with a short message.
pub(crate) fn same(found: &[u64], expected: impl Iterator<Item = u64> + Clone) {
    let differs = expected.clone().zip(found).find(|(a, b)| a != *b);
    let (count, wanted) = (found.len(), expected.count());
    assert!(
        differs.is_none() && count == wanted,
        "{count} of {wanted} packets, first difference {differs:?}"
    );
}

/// Returns the files with packets of a folder, the oldest first.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let found = ringtap_record::archive::look(folder).expect("a folder");
    let names = found.into_iter().map(|found| found.name);
    let data = names.filter(|name| name.ends_with(".pcapng") || name.ends_with(".zst"));
    data.map(|name| folder.join(name)).collect()
}

/// Ends a recorder by a signal, and returns what it said.
pub(crate) fn ended(running: Running) -> Output {
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("an end");
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

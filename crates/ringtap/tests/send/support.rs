//! The program, a receiver, files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Direction, Next, Source, open};
use ringtap_testkit::netns::Side;
use ringtap_testkit::process::Running;

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn command(side: &Side, arguments: &[&str]) -> Command {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["send", "-i", &side.device, "--json-stats"]);
    command.args(arguments);
    command
}

/// Runs to the end.
pub(crate) fn send(side: &Side, arguments: &[&str]) -> Output {
    let running = Running::start_piped(&mut command(side, arguments)).unwrap();
    running.wait(LIMIT).unwrap()
}

/// Returns the summary on standard error.
pub(crate) fn summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no summary: {text}"));
    serde_json::from_str(line).unwrap()
}

pub(crate) fn sent(output: &Output) -> u64 {
    summary(output)["sent"].as_u64().unwrap()
}

/// Waits until a count has the expected value: packets on their way are not counted yet.
pub(crate) fn comes_to(expected: u64, count: impl Fn() -> u64) {
    let begin = Instant::now();
    while count() < expected && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(count(), expected);
}

/// Receives all that comes in.
pub(crate) struct Receiver {
    source: Box<dyn Source>,
    /// Packets that the source has delivered.
    delivered: u64,
}

impl Receiver {
    pub(crate) fn on(side: &Side) -> Self {
        Self::with_buffer(side, 128 << 20)
    }

    pub(crate) fn with_buffer(side: &Side, buffer: u64) -> Self {
        let options = CaptureOptions::default()
            .timeout(Duration::from_millis(10))
            .direction(Direction::In)
            .buffer(buffer);
        let device = format!("packet:{}", side.device);
        Self {
            source: side.run(|| open(&device, &options, None)).unwrap(),
            delivered: 0,
        }
    }

    /// Returns the next packet. `None` if the time is over, or the interface is down for a while.
    fn next(&mut self) -> Vec<Vec<u8>> {
        match self.source.next() {
            Ok(Next::Block(block)) => {
                self.delivered += block.len() as u64;
                block.packets().map(|packet| packet.data.to_vec()).collect()
            }
            Ok(_) => Vec::new(),
            Err(error) if error.is_transient() => Vec::new(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns this many packets, and further ones that come with them.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let begin = Instant::now();
        while seen.len() < count && begin.elapsed() < LIMIT {
            seen.extend(self.next());
        }
        assert_eq!(self.source.stats().unwrap().dropped.ring, Some(0));
        seen
    }

    /// Returns packets until all that the kernel has taken have come, and nothing more for a while.
    pub(crate) fn drain(&mut self) -> Vec<Vec<u8>> {
        let (seen, lost) = self.drain_with_losses();
        assert_eq!(lost, 0);
        seen
    }

    /// Returns the same, and how many the ring had no room for.
    pub(crate) fn drain_with_losses(&mut self) -> (Vec<Vec<u8>>, u64) {
        let (mut seen, mut quiet) = (Vec::new(), 0);
        let begin = Instant::now();
        while quiet < 6 || (self.is_missing_some() && begin.elapsed() < LIMIT) {
            let more = self.next();
            quiet = if more.is_empty() { quiet + 1 } else { 0 };
            seen.extend(more);
        }
        (seen, self.source.stats().unwrap().dropped.ring.unwrap())
    }

    /// Returns whether the kernel has taken more packets than have come.
    fn is_missing_some(&mut self) -> bool {
        let stats = self.source.stats().unwrap();
        stats.received.unwrap() - stats.dropped.ring.unwrap() > self.delivered
    }
}

/// Returns a file of frames, this many microseconds apart.
pub(crate) fn file(folder: &Path, frames: &[Vec<u8>], gap: u32) -> PathBuf {
    let path = folder.join("frames.pcap");
    std::fs::write(&path, bytes(frames, gap)).unwrap();
    path
}

/// Returns the same in memory, of link type Ethernet.
pub(crate) fn bytes(frames: &[Vec<u8>], gap: u32) -> Vec<u8> {
    let mut file = ringtap_testkit::pcap::header(1).to_vec();
    for (index, frame) in (0_u32..).zip(frames) {
        let micros = u64::from(index) * u64::from(gap);
        let words = [
            u32::try_from(1_700_000_000 + micros / 1_000_000).unwrap(),
            u32::try_from(micros % 1_000_000).unwrap(),
            u32::try_from(frame.len()).unwrap(),
            u32::try_from(frame.len()).unwrap(),
        ];
        file.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        file.extend(frame);
    }
    file
}

/// Gives the program the file on its standard input.
pub(crate) fn send_piped(side: &Side, arguments: &[&str], input: &Path) -> Output {
    let mut command = command(side, arguments);
    command
        .stdin(std::fs::File::open(input).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Running::start(&mut command).unwrap().wait(LIMIT).unwrap()
}

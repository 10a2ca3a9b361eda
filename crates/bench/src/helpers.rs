//! Helpers that several experiments share: programs are run and timed, with their processor time
//! and summaries; frames are made.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::{Assembler, Reg};
use ringtap_lab::netns::Side;
use ringtap_lab::process::{Running, processor_time};
use ringtap_lab::traffic::{Sizes, Traffic};
use ringtap_sys::bpf::{Kernel, Program, ProgramKind, ProgramRun};
use ringtap_sys::cycles::{Usage, thread_id, thread_time};
use serde::de::DeserializeOwned;

use crate::session::Done;

/// Returns the last line of a program's output that is such a JSON object.
pub(crate) fn last_object<T: DeserializeOwned>(text: &str) -> Option<T> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| serde_json::from_str(line).ok())
}

/// Runs a program to its end; any exit status but success is an error.
pub(crate) fn check(command: &mut Command) -> Done {
    let program = Path::new(command.get_program()).display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}").into()),
        Err(error) => Err(format!("{program}: {error}").into()),
    }
}

/// The time that a program has to begin to capture, and to end.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Starts a program, and waits until it captures at that end of a wire.
pub(crate) fn capturing(command: &mut Command, side: &Side) -> io::Result<Running> {
    let mut running = Running::start_piped(command)?;
    running.wait_until_capturing(side, LIMIT)?;
    Ok(running)
}

/// Starts a program without standard input and output; what it writes to standard error is collected.
pub(crate) fn started(command: &mut Command) -> io::Result<Running> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Running::start(command.stderr(Stdio::piped()))
}

/// Ends a program in the way of Ctrl-C, and returns its output.
pub(crate) fn interrupted(running: Running) -> io::Result<Output> {
    running.signal("INT")?;
    running.wait(LIMIT)
}

/// Ends a program that has to succeed, and returns what it wrote to standard error.
pub(crate) fn ended(running: Running) -> Done<String> {
    Ok(succeeded(&interrupted(running)?)?)
}

/// Returns what a program printed as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns what a program that succeeded wrote to standard error; that is the error of one that failed.
pub(crate) fn succeeded(output: &Output) -> Result<String, String> {
    let said = text(&output.stderr);
    if output.status.success() {
        Ok(said)
    } else {
        Err(said)
    }
}

/// Returns the median of several values; other programs disturb some of them.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs a program without its output and returns the seconds that it takes.
pub(crate) fn timed(command: &mut Command) -> Done<f64> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    check(command)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Reads a file to its end, so that it is in the page cache.
pub(crate) fn fill_cache(file: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(file)?, &mut io::sink())
}

/// A kernel program that is run on one packet over and over, without a capture.
pub(crate) struct Alone {
    program: Program,
    /// A program that returns at once: the cost of a run itself.
    empty: Program,
    frame: Vec<u8>,
}

impl Alone {
    /// The runs of a measurement. The median of several measurements counts, because other programs
    /// disturb some of them.
    const RUNS: u32 = 50_000;
    const STRETCHES: usize = 11;

    /// Loads an XDP program, for a datagram in a frame of `frame` bytes.
    pub(crate) fn new(code: &Assembler, frags: bool, frame: u16) -> Done<Self> {
        let mut empty = Assembler::new();
        empty.mov32(Reg::R0, 1);
        empty.exit();
        let load = |code: &Assembler| -> Done<Program> {
            let kind = ProgramKind::Xdp { frags };
            let code = code.finish()?;
            Ok(Program::load(&Kernel::running(), "alone", kind, &code)?)
        };
        Ok(Self {
            program: load(code)?,
            empty: load(&empty)?,
            frame: datagram(frame),
        })
    }

    /// Returns the nanoseconds of a run, less those of a program that only returns.
    pub(crate) fn nanoseconds(&self) -> Done<f64> {
        let difference = |_| {
            let empty = self.time(&self.empty)?;
            Ok(self.time(&self.program)? - empty)
        };
        let differences = (0..Self::STRETCHES).map(difference).collect::<Done<_>>()?;
        Ok(median(differences).max(0.0))
    }

    /// Measures by this thread's processor time: the kernel's own account has whole nanoseconds
    /// only.
    fn time(&self, program: &Program) -> Done<f64> {
        let run = ProgramRun {
            data: &self.frame,
            repeat: Self::RUNS,
            ..ProgramRun::default()
        };
        let begun = thread_time(thread_id())?;
        program.run(&run)?;
        let took = thread_time(thread_id())?.saturating_sub(begun);
        Ok(took.as_secs_f64() * 1e9 / f64::from(Self::RUNS))
    }
}

/// Returns a UDP datagram in a frame of `size` bytes.
pub(crate) fn datagram(size: u16) -> Vec<u8> {
    let traffic = Traffic {
        sizes: Sizes::Fixed(size),
        ..Traffic::default()
    };
    let mut frames = traffic.frames();
    frames.retain(|frame| frame[23] == 17);
    frames.swap_remove(0)
}

/// Converts a count to a value for charts; counts here are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the number in `N packets captured`, which ringtap and tcpdump print, or in the summary
/// of `ringtap flow`.
pub(crate) fn captured(summary: &str) -> Option<u64> {
    number_before(summary, " captured").or_else(|| number_before(summary, " metered"))
}

/// Returns the number at the beginning of the first line with this end.
fn number_before(summary: &str, end: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.ends_with(end))?;
    line.split(' ').next()?.parse().ok()
}

/// Returns the number of packets that tcpdump took from the kernel: received, less those dropped. It includes
/// those of its last block, so nobody has to wait for its timeout of a second.
pub(crate) fn taken(summary: &str) -> Option<u64> {
    let received = number_before(summary, " received by filter")?;
    received.checked_sub(number_before(summary, " dropped by kernel")?)
}

/// Returns the number of packets in tcpdump's last block, which it would have received a second after its end.
pub(crate) fn in_hand(summary: &str) -> u64 {
    let both = taken(summary).zip(captured(summary));
    both.map_or(0, |(taken, captured)| taken.saturating_sub(captured))
}

/// Waits until a capturing program has read all packets: its timeout has passed and it is idle.
pub(crate) fn rest(running: &mut Running, timeout: Duration) -> io::Result<()> {
    std::thread::sleep(timeout);
    running.wait_until_resting(LIMIT)
}

/// Error numbers of `/proc` after a task has ended: for its entry, and for reading it.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// Returns the seconds that a process's threads spent on a processor, in user and kernel mode.
pub(crate) fn cpu_seconds(id: u32) -> io::Result<f64> {
    let mut sum = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        sum += match processor_time(&task?.path()) {
            // The thread has just ended.
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => continue,
            time => time?,
        };
    }
    Ok(sum.as_secs_f64())
}

/// Returns the processor seconds of all child processes that have ended.
pub(crate) fn children_seconds() -> Done<f64> {
    let used = Usage::of_children()?;
    Ok((used.user + used.system).as_secs_f64())
}

/// The busy and total time of a processor since boot, in ticks: a line of `/proc/stat` (proc(5)).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    busy: u64,
    all: u64,
}

impl Load {
    /// Reads the ticks of one processor; 0 if they are unknown.
    pub(crate) fn of(cpu: usize) -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::read(&text, cpu)
    }

    fn read(text: &str, cpu: usize) -> Self {
        let key = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&key));
        let ticks = line.unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = ticks.filter_map(|field| field.parse().ok()).collect();
        // User, nice, system, idle, iowait, irq, softirq, steal; guest time is already in the first
        // two.
        let all = ticks.iter().take(8).sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Self {
            busy: all - idle,
            all,
        }
    }

    /// Returns the busy share of the time since `before`, from 0 to 1; 0 if no tick passed.
    pub(crate) fn since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let busy = self.busy.saturating_sub(before.busy);
        if all == 0 {
            0.0
        } else {
            float(busy) / float(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, captured, cpu_seconds, taken};

    #[test]
    fn the_load_of_a_processor_is_read() {
        let text = "cpu  9 9 9 9\ncpu0 1 0 1 5 1 0 0 0 0 0\ncpu1 10 0 0 30 0 0 0 0 7 0\n";
        let load = Load::read(text, 1);
        assert!((load.since(Load::default()) - 0.25).abs() < 1e-9);
        assert!(Load::read(text, 7).since(load).abs() < 1e-9);
    }

    #[test]
    fn summaries_of_both_are_read() {
        assert_eq!(
            captured("7 packets captured\n8 packets received by filter\n"),
            Some(7)
        );
        assert_eq!(captured("7 packets\n6 packets of IP metered\n"), Some(6));
        assert_eq!(captured("nothing"), None);
        let tcpdump =
            "5 packets captured\n9 packets received by filter\n2 packets dropped by kernel\n";
        assert_eq!(taken(tcpdump), Some(7));
        assert_eq!(taken("5 packets captured\n"), None);
    }

    #[test]
    fn own_time_is_counted() {
        // The kernel updates a running thread's time at its next tick.
        let mut seconds = 0.0;
        for _ in 0..1_000_000 {
            seconds = cpu_seconds(std::process::id()).expect("own time");
            if seconds > 0.0 {
                break;
            }
        }
        assert!(seconds > 0.0 && seconds < 3600.0);
    }
}

//! Helpers that several experiments share: programs are run and timed, with their processor time
//! and summaries; frames are made.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::{Assembler, Reg};
use ringtap_lab::process::Running;
use ringtap_lab::traffic::{Sizes, Traffic};
use ringtap_sys::bpf::{Kernel, Program, ProgramKind, ProgramRun};
use ringtap_sys::cycles::{Usage, thread_id, thread_time};
use serde::de::DeserializeOwned;

/// Returns the last line of a program's output that is such a JSON object.
pub(crate) fn last_object<T: DeserializeOwned>(text: &str) -> Option<T> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| serde_json::from_str(line).ok())
}

/// Runs a program to its end; any exit status but success is an error.
pub(crate) fn check(command: &mut Command) -> Result<(), String> {
    let program = Path::new(command.get_program()).display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Runs a program without its output and returns the seconds that it takes.
pub(crate) fn timed(command: &mut Command) -> Result<f64, String> {
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
    pub(crate) fn new(code: &Assembler, frags: bool, frame: u16) -> Result<Self, String> {
        let mut empty = Assembler::new();
        empty.mov32(Reg::R0, 1);
        empty.exit();
        let load = |code: &Assembler| {
            let code = code.finish().map_err(|error| error.to_string())?;
            let kind = ProgramKind::Xdp { frags };
            let program = Program::load(&Kernel::running(), "alone", kind, &code);
            program.map_err(|error| error.to_string())
        };
        Ok(Self {
            program: load(code)?,
            empty: load(&empty)?,
            frame: datagram(frame),
        })
    }

    /// Returns the nanoseconds of a run, less those of a program that only returns.
    pub(crate) fn nanoseconds(&self) -> Result<f64, String> {
        let mut differences = Vec::new();
        for _ in 0..Self::STRETCHES {
            let empty = self.time(&self.empty)?;
            differences.push(self.time(&self.program)? - empty);
        }
        differences.sort_by(f64::total_cmp);
        Ok(differences[Self::STRETCHES / 2].max(0.0))
    }

    /// Measures by this thread's processor time: the kernel's own account has whole nanoseconds
    /// only.
    fn time(&self, program: &Program) -> Result<f64, String> {
        let run = ProgramRun {
            data: &self.frame,
            repeat: Self::RUNS,
            ..ProgramRun::default()
        };
        let now = || thread_time(thread_id()).map_err(|error| error.to_string());
        let begun = now()?;
        program.run(&run).map_err(|error| error.to_string())?;
        let took = now()?.saturating_sub(begun);
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
    let is_it = |line: &&str| line.ends_with(" captured") || line.ends_with(" metered");
    let line = summary.lines().find(is_it)?;
    line.split(' ').next()?.parse().ok()
}

/// Returns the number of packets that tcpdump took from the kernel: received, less those dropped. It includes
/// those of its last block, so nobody has to wait for its timeout of a second.
pub(crate) fn taken(summary: &str) -> Option<u64> {
    let number = |end: &str| -> Option<u64> {
        let line = summary.lines().find(|line| line.ends_with(end))?;
        line.split(' ').next()?.parse().ok()
    };
    number(" received by filter")?.checked_sub(number(" dropped by kernel")?)
}

/// Waits until a capturing program has read all packets: its timeout has passed and it is idle.
pub(crate) fn rest(running: &mut Running, timeout: Duration) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_secs(60);
    std::thread::sleep(timeout);
    let rested = running.wait_until_resting(LIMIT);
    rested.map_err(|error| error.to_string())
}

/// Error numbers of `/proc` after a task has ended: for its entry, and for reading it.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// Returns the seconds that a process's threads spent on a processor, in user and kernel mode.
/// Source: the first field of `schedstat`, in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
pub(crate) fn cpu_seconds(id: u32) -> io::Result<f64> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let text = match std::fs::read_to_string(task?.path().join("schedstat")) {
            // The thread has just ended.
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => continue,
            text => text?,
        };
        let field = text
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok());
        nanos += field.ok_or_else(|| io::Error::other("no schedstat"))?;
    }
    Ok(Duration::from_nanos(nanos).as_secs_f64())
}

/// Returns the processor seconds of all child processes that have ended.
pub(crate) fn children_seconds() -> Result<f64, String> {
    let used = Usage::of_children().map_err(|error| error.to_string())?;
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

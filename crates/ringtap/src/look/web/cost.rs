//! The cost of the process: its processor time and memory, as the kernel accounts them.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ringtap_capture::Source;
use ringtap_look::api::{Component, Cost};
use ringtap_sys::bpf::{Kernel, Program, Statistics};

use crate::look::error::LookError;
use crate::setup::setup;

/// Clock ticks per second of the accounts in `/proc`, which is the same on all processors that are supported.
const TICKS: f64 = 100.0;
const NANOS: f64 = 1e9;
/// Pages are of 4 KiB, or the figure is left out.
const PAGE: u64 = 4096;
/// The least time between two readings, in seconds.
const LEAST: f64 = 0.5;

/// Reads the accounts, and remembers them for the next time.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    last: Mutex<Option<Reading>>,
    in_kernel: Option<InKernel>,
}

/// The programs of a capture, whose run time the kernel measures.
#[derive(Debug)]
pub(super) struct InKernel {
    programs: Vec<Program>,
    _statistics: Statistics,
}

impl InKernel {
    /// Has the kernel measure run times while the value lives. Call it before privileges are given up.
    pub(super) fn measure(source: &dyn Source) -> Result<Self, LookError> {
        let failed = |source| setup("measure programs in the kernel (--kernel-cost)", source);
        let programs = source.programs()?;
        let statistics = Statistics::enable(&Kernel::running());
        Ok(Self {
            programs,
            _statistics: statistics.map_err(failed)?,
        })
    }
}

/// Returns the nanoseconds of all runs so far. `None` if there is no program, as with engine packet.
fn run_time(programs: &[Program]) -> Option<u64> {
    if programs.is_empty() {
        return None;
    }
    let runs = programs.iter().map(Program::info);
    runs.map(|info| Some(info.ok()?.run_time_ns)).sum()
}

#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    packets: u64,
    threads: Vec<(String, f64)>,
    kernel_ns: Option<u64>,
    shown: Cost,
}

impl Meter {
    /// Returns a meter of this process and of these programs.
    pub(super) fn new(in_kernel: Option<InKernel>) -> Self {
        Self {
            last: Mutex::default(),
            in_kernel,
        }
    }

    /// Returns the cost since the last reading, where so many packets were metered so far.
    pub(super) fn read(&self, packets: u64) -> Cost {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(last) = &*last
            && (now - last.at).as_secs_f64() < LEAST
        {
            return last.shown.clone();
        }
        let threads = threads();
        let kernel_ns = self
            .in_kernel
            .as_ref()
            .and_then(|kernel| run_time(&kernel.programs));
        let mut cost = Cost {
            memory_bytes: memory(),
            ..Cost::default()
        };
        if let Some(last) = &*last {
            let new = packets.saturating_sub(last.packets);
            #[expect(clippy::cast_precision_loss, reason = "a figure of few digits")]
            let by_packet = |seconds: f64| (new > 0).then(|| seconds * NANOS / new as f64);
            let spent = |(name, seconds): &(String, f64)| {
                let before = last.threads.iter().find(|(known, _)| known == name);
                seconds - before.map_or(0.0, |(_, seconds)| *seconds)
            };
            let all: f64 = threads.iter().map(spent).sum();
            cost.cpu_percent = Some(100.0 * all / (now - last.at).as_secs_f64());
            cost.ns_per_packet = by_packet(all);
            let component = |thread: &(String, f64)| {
                let ns = by_packet(spent(thread))?;
                let name = thread.0.clone();
                Some(Component { name, ns })
            };
            let kernel = kernel_ns.zip(last.kernel_ns);
            #[expect(clippy::cast_precision_loss, reason = "a figure of few digits")]
            let seconds = kernel.map(|(now, before)| now.saturating_sub(before) as f64 / NANOS);
            cost.kernel_ns_per_packet = seconds.and_then(by_packet);
            cost.components = threads.iter().filter_map(component).collect();
        }
        *last = Some(Reading {
            at: now,
            packets,
            threads,
            kernel_ns,
            shown: cost.clone(),
        });
        cost
    }
}

/// Returns the processor time of each thread, in seconds; those of one name together.
fn threads() -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    let Ok(folder) = fs::read_dir("/proc/self/task") else {
        return all;
    };
    for entry in folder.flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some((name, seconds)) = account(&stat) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += seconds,
                None => all.push((name, seconds)),
            }
        }
    }
    all
}

/// Returns name and seconds of a line of proc_pid_stat(5).
fn account(stat: &str) -> Option<(String, f64)> {
    let (begin, rest) = stat.rsplit_once(") ")?;
    let (_, name) = begin.split_once('(')?;
    let mut fields = rest.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), (user + system) / TICKS))
}

fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_program_its_time_is_unknown() {
        assert_eq!(run_time(&[]), None);
    }

    #[test]
    fn accounts_are_read_whatever_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 9 8 7";
        assert_eq!(account(stat), Some(("a) b".to_owned(), 2.0)));
        assert!(memory() > Some(0));
    }
}

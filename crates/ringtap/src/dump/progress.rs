//! Progress, only on a terminal: a bar while a large file is converted, a line during a live capture.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use ringtap_record::Gauge;

use crate::rights;

/// The size of the smallest file with a bar, in bytes. Smaller files are finished before anyone would look.
const WORTH_SHOWING: u64 = 64 << 20;
const REDRAW: Duration = Duration::from_millis(200);

/// Progress through the input files, by their bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    done_before: u64,
}

impl Progress {
    /// Returns a bar over the files' sizes. It is invisible if it would disturb other output.
    pub(crate) fn new(files: &[&Path], to_file: bool) -> Self {
        let size: u64 = files
            .iter()
            .filter_map(|file| rights::look(file).ok())
            .map(|kind| kind.size)
            .sum();
        let shown = to_file && size >= WORTH_SHOWING && io::stderr().is_terminal();
        let bar = if shown {
            ProgressBar::new(size)
        } else {
            ProgressBar::hidden()
        };
        if shown {
            bar.set_style(style());
            bar.enable_steady_tick(REDRAW);
        }
        Self {
            bar,
            done_before: 0,
        }
    }

    /// Sets the progress: `offset` bytes of the current file were read.
    pub(crate) fn at(&self, offset: u64) {
        self.bar.set_position(self.done_before + offset);
    }

    /// Marks the current file as finished, with `size` bytes read.
    pub(crate) fn next_file(&mut self, size: u64) {
        self.done_before += size;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    const TEMPLATE: &str = "{bar:30} {percent}% {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The line of a live capture. It is shown until this is dropped.
pub(crate) struct Line {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Shows packets and the state of the queue, if standard error is a terminal.
    pub(crate) fn show(packets: Arc<AtomicU64>, gauge: Arc<Gauge>) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("progress".into());
        let spawned = thread.spawn(move || {
            let bar = ProgressBar::new_spinner();
            let mut before = (Instant::now(), Seen::default());
            while stopped.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout) {
                let seen = Seen::look(&packets, &gauge);
                bar.set_message(seen.since(&before.1, before.0.elapsed(), &gauge));
                bar.tick();
                before = (Instant::now(), seen);
            }
            bar.finish_and_clear();
        });
        // The capture works without a line.
        spawned.ok().map(|thread| Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It only displays.
            let _ = thread.join();
        }
    }
}

const REFRESH: Duration = Duration::from_millis(500);

/// The counters at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    packets: u64,
    filled: u64,
    written: u64,
}

impl Seen {
    fn look(packets: &AtomicU64, gauge: &Gauge) -> Self {
        let (filled, written) = gauge.bytes();
        Self {
            packets: packets.load(Ordering::Relaxed),
            filled,
            written,
        }
    }

    /// Returns the line: totals, rates since `before`, the compression ratio, the queue.
    fn since(&self, before: &Self, elapsed: Duration, gauge: &Gauge) -> String {
        let millis = u64::try_from(elapsed.as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let rate = |now: u64, then: u64| now.saturating_sub(then).saturating_mul(1000) / millis;
        let (waiting, room) = gauge.depth();
        format!(
            "{} packets, {}/s; {} written, {}/s; ratio {}; queue {waiting}/{room}",
            HumanCount(self.packets),
            HumanCount(rate(self.packets, before.packets)),
            HumanBytes(self.written),
            HumanBytes(rate(self.written, before.written)),
            self.ratio(),
        )
    }

    /// Returns the ratio of input bytes to file bytes, once the files have any.
    fn ratio(&self) -> String {
        let hundredths = self.filled.saturating_mul(100).checked_div(self.written);
        hundredths.map_or_else(
            || "unknown".to_owned(),
            |ratio| format!("{}.{:02}", ratio / 100, ratio % 100),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_rates_and_ratio() {
        let before = Seen {
            packets: 1000,
            filled: 0,
            written: 1 << 20,
        };
        let now = Seen {
            packets: 3000,
            filled: 10 << 20,
            written: 3 << 20,
        };
        assert_eq!(
            now.since(&before, Duration::from_secs(2), &Gauge::default()),
            "3,000 packets, 1,000/s; 3.00 MiB written, 1.00 MiB/s; ratio 3.33; queue 0/0"
        );
    }

    #[test]
    fn while_all_waits_there_is_no_ratio() {
        let now = Seen {
            filled: 10 << 20,
            ..Seen::default()
        };
        assert_eq!(
            now.since(&Seen::default(), Duration::from_secs(2), &Gauge::default()),
            "0 packets, 0/s; 0 B written, 0 B/s; ratio unknown; queue 0/0"
        );
    }
}

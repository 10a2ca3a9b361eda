//! Reports on a run: its beginning and its end.

use std::fmt::Write as _;
use std::time::Duration;

use ringtap_send::{BackEndKind, Progress, Report, Sender};
use serde_json::json;

use super::gaps::{Shortened, describe as describe_time};
use crate::cli::CommonArgs;
use crate::notice::{add_counters, counted, notice, raw};
use crate::rights::Rights;

/// The packets that were sent and that were not, with the reasons.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) report: Report,
    pub(crate) back_end: BackEndKind,
    /// Packets with another link type than the interface's.
    pub(crate) other_link_type: u64,
    /// Sent packets that were not captured completely.
    pub(crate) cut: u64,
    /// Packets whose checksums could not be computed.
    pub(crate) unfixed: u64,
    /// The time that --max-gap left out.
    pub(crate) shortened: Shortened,
    pub(crate) is_timed: bool,
}

/// Reports the back-end for sending; with `--explain` also the reason, and the remaining privileges.
pub(crate) fn announce(sender: &Sender, args: &CommonArgs, rights: &Rights) {
    let (kind, reason) = sender.back_end();
    notice(format_args!(
        "sending on {} (back-end {}), link type {}",
        sender.device(),
        kind.name(),
        sender.link_type()
    ));
    for note in sender.notes() {
        notice(note);
    }
    if args.explain {
        raw(format_args!(
            "back-end: {}, because {reason}\n{}",
            kind.name(),
            rights.explain()
        ));
    }
}

/// Reports what was sent so far.
pub(crate) fn report_so_far(so_far: &Progress) {
    let (packets, bytes) = (
        counted(so_far.packets, "packet"),
        counted(so_far.bytes, "byte"),
    );
    raw(format_args!("{packets}, {bytes} so far\n"));
}

impl Summary {
    /// Returns the summary of packets that were made for the interface.
    pub(crate) fn new(report: Report, back_end: BackEndKind, is_timed: bool) -> Self {
        Self {
            report,
            back_end,
            other_link_type: 0,
            cut: 0,
            unfixed: 0,
            shortened: Shortened::default(),
            is_timed,
        }
    }

    /// Reports on standard error.
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            raw(format_args!("{}\n", self.json()));
        } else {
            raw(self.text());
        }
    }

    fn json(&self) -> serde_json::Value {
        let report = &self.report;
        let lateness = self.is_timed.then(|| {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            json!({
                "mean_ns": nanos(report.lateness.mean),
                "median_ns": nanos(report.lateness.median),
                "p99_ns": nanos(report.lateness.p99),
                "max_ns": nanos(report.lateness.max),
                "moved_ns": nanos(report.lateness.moved),
            })
        });
        let departures = report.departures.map(|departures| {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            json!({
                "stamped": departures.stamped,
                "median_ns": nanos(departures.median),
                "p99_ns": nanos(departures.p99),
                "max_ns": nanos(departures.max),
            })
        });
        json!({
            "back_end": self.back_end.name(),
            "seconds": report.elapsed.as_secs_f64(),
            "sent": report.packets,
            "bytes": report.bytes,
            "not_sent": {
                "rejected": report.rejected,
                "other_link_type": self.other_link_type,
                "pending": report.pending,
            },
            "queue_full": report.queue_full,
            "no_room": report.no_room,
            "cut": self.cut,
            "unfixed": self.unfixed,
            "backwards": report.backwards,
            "gaps_shortened": self.shortened.gaps,
            "gaps_left_out_seconds": self.shortened.time.as_secs_f64(),
            "stopped": report.stopped,
            "lateness": lateness,
            "departures": departures,
            "error": report.error.as_ref().map(|(index, error)| json!({
                "packet": index,
                "reason": error.to_string(),
            })),
        })
    }

    fn text(&self) -> String {
        let report = &self.report;
        let seconds = report.elapsed.as_secs_f64();
        let mut text = format!(
            "{}, {} {} in {seconds:.3} s{}\n",
            counted(report.packets, "packet"),
            counted(report.bytes, "byte"),
            self.back_end.verb(),
            rates(report)
        );
        add_counters(&mut text, self.counters());
        if self.shortened.gaps > 0 {
            let time = describe_time(self.shortened.time);
            let _ = writeln!(
                text,
                "{} shortened, by {time} in all",
                counted(self.shortened.gaps, "gap")
            );
        }
        for rejected in &report.rejections {
            let reason = rejected.reason.text();
            let (index, len) = (rejected.index, rejected.len);
            let _ = writeln!(
                text,
                "packet {index}: a frame of {} {reason}",
                counted(len as u64, "byte")
            );
        }
        self.add_times(&mut text);
        if report.stopped {
            text.push_str("stopped before the end\n");
        }
        text
    }

    /// Returns the counters that are reported only if they are not zero.
    fn counters(&self) -> [(u64, &'static str); 8] {
        let report = &self.report;
        [
            (
                report.rejected,
                "packets not sent, which the interface never accepts",
            ),
            (
                self.other_link_type,
                "packets not sent, of another link type than the interface",
            ),
            (
                report.pending,
                "packets accepted that had not left at the end",
            ),
            (
                report.queue_full,
                "times the queue was full; tried again (the device counts each as dropped on sending)",
            ),
            (
                report.no_room,
                "times the socket's memory was used up; waited",
            ),
            (self.cut, "packets sent as far as captured"),
            (
                self.unfixed,
                "packets whose checksum could not be computed (a fragment, cut, or damaged)",
            ),
            (
                report.backwards,
                "packets with an earlier time than the one before; sent at once",
            ),
        ]
    }

    /// Reports how late packets were handed over, and when they left.
    fn add_times(&self, text: &mut String) {
        let report = &self.report;
        if self.is_timed && report.lateness.packets > 0 {
            let late = &report.lateness;
            let _ = writeln!(
                text,
                "lateness: median {:.1?}, 99 % within {:.1?}, most {:.1?}; the schedule was moved by \
                 {:.1?} in all",
                late.median, late.p99, late.max, late.moved
            );
        }
        if let Some(left) = report.departures {
            let _ = writeln!(
                text,
                "{} stamped on leaving: off the schedule by {:.1?} in the median, 99 % within {:.1?}, \
                 most {:.1?}",
                counted(left.stamped, "packet"),
                left.median,
                left.p99,
                left.max
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn rates(report: &Report) -> String {
    let seconds = report.elapsed.as_secs_f64();
    if seconds <= 0.0 || report.packets < 2 {
        return String::new();
    }
    let packets = report.packets as f64 / seconds;
    let megabits = report.bytes as f64 * 8e-6 / seconds;
    format!(" ({packets:.0} packets/s, {megabits:.3} Mbit/s)")
}

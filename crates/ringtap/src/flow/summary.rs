//! The counters and losses of a run, as lines for people and as one JSON object for scripts.

use std::fmt::Write as _;
use std::time::Duration;

use ringtap_capture::Stats;
use ringtap_flow::{Counters, EndReason};
use ringtap_flow_io::{ExportReport, FileReport, OutputReport};

use crate::losses::{JsonDropped, JsonWho};
use crate::notice::{add_counters, counted, counted_as};
use crate::object::object;

/// The counters of one run beside the meter's own.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// The engine's name.
    pub(crate) engine: &'static str,
    pub(crate) elapsed: Duration,
    /// The packets that each thread has read.
    pub(crate) readers: Vec<u64>,
    /// The source's counters.
    pub(crate) stats: Stats,
}

object! {
    pub(super) struct Json(summary: &Summary, counters: &Counters, memory: usize, output: &OutputReport) {
        engine: &'static str = summary.engine,
        seconds: f64 = summary.elapsed.as_secs_f64(),
        received: Option<u64> = summary.stats.received,
        packets: u64 = counters.packets,
        readers: Vec<u64> = summary.readers.clone(),
        metered: u64 = counters.ip_packets,
        bytes: u64 = counters.ip_bytes,
        not_ip: u64 = counters.not_ip,
        malformed: u64 = counters.malformed,
        fragments: Fragments = Fragments::new(counters),
        records: Records = Records::new(counters),
        flows: Flows = Flows::new(counters, memory),
        inspected: Inspected = Inspected::new(counters),
        dropped: JsonDropped = JsonDropped::new(&summary.stats.dropped, summary.sampling(counters)),
        /// Only with `--who` in a live capture.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<JsonWho> = summary.stats.who.map(JsonWho::new),
        /// Packets whose process found no room, if there are any.
        #[serde(skip_serializing_if = "is_zero")]
        processes_dropped: u64 = counters.processes_dropped,
        #[serde(flatten)]
        outputs: OutputReport = output.clone(),
    }
}

object! {
    struct Fragments(counters: &Counters) {
        seen: u64 = counters.fragments,
        alone: u64 = counters.fragments_alone,
        evicted: u64 = counters.fragments_evicted,
    }
}

object! {
    struct Records(counters: &Counters) {
        total: u64 = counters.records(),
        idle: u64 = counters.ended_by(EndReason::Idle),
        active: u64 = counters.ended_by(EndReason::Active),
        end: u64 = counters.ended_by(EndReason::EndOfFlow),
        forced: u64 = counters.ended_by(EndReason::Forced),
        evicted: u64 = counters.ended_by(EndReason::NoResources),
    }
}

object! {
    struct Flows(counters: &Counters, reserved: usize) {
        now: u64 = counters.active,
        peak: u64 = counters.peak,
        memory: usize = reserved,
    }
}

object! {
    struct Inspected(counters: &Counters) {
        payloads: u64 = counters.payloads,
        handshakes_dropped: u64 = counters.handshakes_dropped,
        names: u64 = counters.names,
        names_evicted: u64 = counters.names_evicted,
        cuts_dropped: u64 = counters.cuts_dropped,
    }
}

impl Summary {
    /// Returns the summary as a text that ends a line.
    pub(crate) fn text(
        &self,
        counters: &Counters,
        memory: usize,
        outputs: &OutputReport,
        json: bool,
    ) -> String {
        if json {
            let object = serde_json::to_string(&self.json(counters, memory, outputs));
            return object.unwrap_or_default() + "\n";
        }
        self.lines(counters, memory) + &output_lines(outputs)
    }

    /// Returns the counters as `--json-stats` prints them.
    pub(super) fn json(&self, counters: &Counters, memory: usize, outputs: &OutputReport) -> Json {
        Json::new(self, counters, memory, outputs)
    }

    /// Returns the packets that sampling left out, in the kernel or here.
    fn sampling(&self, counters: &Counters) -> Option<u64> {
        let here = counters.sampled_out;
        let known = self.stats.dropped.sampling.or((here > 0).then_some(0));
        known.map(|count| count + here)
    }

    /// Returns the counters of processes that could not be recorded or kept.
    fn processes(&self, counters: &Counters) -> [(u64, &'static str); 3] {
        let who = self.stats.who.unwrap_or_default();
        [
            (
                who.refused,
                "uses of sockets could not be recorded: no memory for the process",
            ),
            (
                who.undescribed,
                "processes are named without their control group",
            ),
            (
                counters.processes_dropped,
                "packets without their process: flows had all places of the table",
            ),
        ]
    }

    fn lines(&self, counters: &Counters, memory: usize) -> String {
        let mut text = String::new();
        let dropped = &self.stats.dropped;
        let always = [
            (counters.packets, "packets"),
            (counters.ip_packets, "packets of IP metered"),
            (counters.ip_bytes, "bytes of layer 3"),
            (counters.records(), "records"),
            (counters.peak, "flows at a time at most"),
        ];
        let nonzero = [
            (counters.not_ip, "packets without IP"),
            (
                counters.malformed,
                "packets with a truncated or invalid IP header",
            ),
            (counters.fragments, "fragments"),
            (counters.fragments_alone, "fragments without the first one"),
            (
                counters.fragments_evicted,
                "fragmented datagrams dropped because the table was full",
            ),
            (dropped.hook.unwrap_or(0), "packets dropped at the hook"),
            (
                self.sampling(counters).unwrap_or(0),
                "packets left out by sampling",
            ),
            (
                dropped.interface.unwrap_or(0),
                "packets dropped by the interface",
            ),
            (
                dropped.before_hook.unwrap_or(0),
                "packets taken by another program before the hook",
            ),
        ];
        for (count, what) in always {
            let _ = writeln!(text, "{}", counted_as(count, what));
        }
        add_counters(&mut text, nonzero);
        add_counters(&mut text, inspected(counters));
        add_counters(&mut text, self.processes(counters));
        if let Some(ring) = dropped.ring.filter(|_| self.engine != "file") {
            let _ = writeln!(text, "{}", counted_as(ring, "packets dropped in the ring"));
        }
        let _ = writeln!(
            text,
            "{:.3} seconds, {} MiB reserved for flows",
            self.elapsed.as_secs_f64(),
            memory >> 20
        );
        text
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the counters of names and flows that found no room.
fn inspected(counters: &Counters) -> [(u64, &'static str); 4] {
    [
        (
            counters.handshakes_dropped,
            "handshakes over several packets not read: too many, or too long",
        ),
        (
            counters.names_evicted,
            "names of addresses dropped because the table was full",
        ),
        (
            counters.cuts_dropped,
            "long flows whose later records lack names: too many at a time",
        ),
        (counters.evicted(), "flows ended because the cache was full"),
    ]
}

/// Adds a line for each output, and for each kind of loss that occurred.
pub(super) fn output_lines(report: &OutputReport) -> String {
    let mut text = String::new();
    for export in &report.exports {
        export_lines(export, &mut text);
    }
    for FileReport { file, records } in &report.files {
        let _ = writeln!(text, "{file}: {} written", counted(*records, "record"));
    }
    #[cfg(feature = "parquet")]
    if let Some(store) = &report.store {
        store_lines(store, &mut text);
    }
    text
}

#[cfg(feature = "parquet")]
fn store_lines(report: &ringtap_flow_io::StoreReport, text: &mut String) {
    let name = &report.store;
    let _ = writeln!(
        text,
        "{name}: {} kept in {}, {}; the store has {}",
        counted(report.records, "record"),
        counted(report.files, "file"),
        counted(report.bytes, "byte"),
        counted(report.total_bytes, "byte")
    );
    let others = [
        (report.lost_queue, "records lost: the disk was too slow"),
        (report.lost_disk, "records lost: the disk did not take them"),
        (
            report.left_in_log,
            "records are in the log: the next start stores them",
        ),
        (
            report.recovered,
            "records stored from the log of an earlier run",
        ),
        (report.cut_bytes, "bytes at the end of that log are cut"),
        (report.not_logged, "records were not in the log"),
        (report.removed_files, "files removed by age or size"),
        (report.merged_files, "files merged"),
        (report.not_merged, "folders not merged"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{name}: {}", counted_as(count, what));
    }
}

fn export_lines(export: &ExportReport, text: &mut String) {
    let name = &export.collector;
    let _ = writeln!(
        text,
        "{name}: {} exported in {}, {}",
        counted(export.flows, "record"),
        counted(export.messages, "message"),
        counted(export.bytes, "byte")
    );
    if let Some(connections) = export.connections {
        let _ = writeln!(text, "{name}: connected {}", counted(connections, "time"));
    }
    let losses = [
        (export.lost_flows, "records lost on the way out"),
        (export.lost_messages, "messages lost on the way out"),
        (
            export.waiting_flows.unwrap_or(0),
            "records in the spool, not sent yet",
        ),
        (
            export.earlier_flows.unwrap_or(0),
            "records of earlier runs were in the spool",
        ),
        (
            export.not_expressible,
            "flows of IPv6 left out, which NetFlow v5 has no record for",
        ),
        (
            export.clamped,
            "records with times cut to the 49 days of NetFlow's clock",
        ),
    ];
    for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{name}: {}", counted_as(count, what));
    }
}

//! The counters and losses of a collector, as lines for people and as one JSON object for scripts.

use std::fmt::Write as _;

use ringtap_flow_io::{CollectReport, ExporterReport, OutputReport};
use serde::Serialize;

use super::super::summary::output_lines;
use crate::notice::{add_counters, counted_as};

/// The number of exporters that are shown to people. Those with forgotten entries come first.
const SHOWN: usize = 10;

/// The counters of a run.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) collected: CollectReport,
    #[serde(flatten)]
    pub(super) outputs: OutputReport,
}

impl Summary {
    /// Returns the summary as a text that ends a line.
    pub(super) fn text(&self, json: bool) -> String {
        if json {
            return serde_json::to_string(self).unwrap_or_default() + "\n";
        }
        self.lines()
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        let collected = &self.collected;
        let counters = &collected.counters;
        for (count, what) in [
            (counters.datagrams, "datagrams"),
            (counters.records, "records of flows"),
        ] {
            let _ = writeln!(text, "{}", counted_as(count, what));
        }
        add_counters(&mut text, self.counters());
        for exporter in collected.exporters.iter().take(SHOWN) {
            let _ = writeln!(text, "{}", line(exporter));
        }
        if let Some(more) = collected
            .known_exporters
            .checked_sub(SHOWN)
            .filter(|&more| more > 0)
        {
            let _ = writeln!(text, "{more} more exporters");
        }
        text.push_str(&output_lines(&self.outputs));
        let _ = writeln!(text, "{:.3} seconds", self.seconds);
        text
    }

    /// Returns the counters that are reported only if they are not zero.
    fn counters(&self) -> [(u64, &'static str); 18] {
        let collected = &self.collected;
        let counters = &collected.counters;
        [
            (counters.v5, "messages of NetFlow v5"),
            (counters.v9, "messages of NetFlow v9"),
            (counters.ipfix, "messages of IPFIX"),
            (counters.sflow, "datagrams of sFlow"),
            (counters.options, "records of options"),
            (
                counters.other_samples,
                "samples of counters, and others that are not packets",
            ),
            (counters.not_flows, "records without addresses"),
            (
                counters.without_template,
                "sets of records whose template had not come",
            ),
            (counters.malformed, "datagrams with errors"),
            (
                collected.not_allowed,
                "datagrams from addresses outside --allow, not decoded",
            ),
            (
                counters.exporters_forgotten,
                "exporters forgotten, because there were too many",
            ),
            (
                counters.sources_forgotten,
                "sources (domains) forgotten, because there were too many",
            ),
            (
                counters.templates_forgotten,
                "templates forgotten, because there were too many",
            ),
            (
                counters.missed_v5_flows,
                "flows of NetFlow v5 missing by their sequence numbers",
            ),
            (
                counters.missed_v9_messages,
                "messages of NetFlow v9 missing by their sequence numbers",
            ),
            (
                counters.missed_ipfix_records,
                "records of IPFIX missing by their sequence numbers",
            ),
            (
                counters.missed_sflow_datagrams,
                "datagrams of sFlow missing by their sequence numbers",
            ),
            (
                collected.dropped.unwrap_or(0),
                "datagrams dropped by the kernel: the socket had no room",
            ),
        ]
    }
}

/// Returns the received and forgotten entries of an exporter.
fn line(exporter: &ExporterReport) -> String {
    let counters = &exporter.counters;
    let mut text = format!(
        "exporter {}: datagrams {}, records {}, sources {}",
        exporter.exporter, counters.datagrams, counters.records, exporter.sources
    );
    if counters.sources_forgotten + counters.templates_forgotten > 0 {
        let _ = write!(
            text,
            "; beyond its quota: sources forgotten {}, templates {}",
            counters.sources_forgotten, counters.templates_forgotten
        );
    }
    text
}

//! What was collected and lost, as lines for people and as one JSON object for scripts.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::super::outputs::OutputReport;
use super::decode::Counters;
use crate::notice::counted_as;

/// The figures of a run.
pub(super) struct Summary {
    pub(super) elapsed: Duration,
    pub(super) counters: Counters,
    /// Datagrams that the kernel dropped for want of room in the socket.
    pub(super) dropped: Option<u64>,
    pub(super) outputs: OutputReport,
}

#[derive(Serialize)]
struct Json<'a> {
    seconds: f64,
    #[serde(flatten)]
    counters: &'a Counters,
    dropped: Option<u64>,
    #[serde(flatten)]
    outputs: &'a OutputReport,
}

impl Summary {
    /// The summary as a text that ends a line.
    pub(super) fn text(&self, json: bool) -> String {
        if json {
            let object = serde_json::to_string(&Json {
                seconds: self.elapsed.as_secs_f64(),
                counters: &self.counters,
                dropped: self.dropped,
                outputs: &self.outputs,
            });
            return object.unwrap_or_default() + "\n";
        }
        self.lines()
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        let counters = &self.counters;
        let always = [
            (counters.datagrams, "datagrams"),
            (counters.records, "records of flows"),
        ];
        let never_zero = [
            (counters.v5, "messages of NetFlow v5"),
            (counters.v9, "messages of NetFlow v9"),
            (counters.ipfix, "messages of IPFIX"),
            (counters.options, "records of options"),
            (counters.not_flows, "records without addresses"),
            (
                counters.without_template,
                "sets of records whose template had not come",
            ),
            (counters.malformed, "datagrams with errors"),
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
                self.dropped.unwrap_or(0),
                "datagrams dropped by the kernel: the socket had no room",
            ),
        ];
        for (count, what) in always {
            let _ = writeln!(text, "{}", counted_as(count, what));
        }
        for (count, what) in never_zero.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{}", counted_as(count, what));
        }
        text.push_str(&self.outputs.lines());
        let _ = writeln!(text, "{:.3} seconds", self.elapsed.as_secs_f64());
        text
    }
}

//! What outputs did, for the summary.

use std::fmt::Write as _;

use serde::Serialize;

use crate::notice::{counted, counted_as};

/// What all outputs did.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct OutputReport {
    /// Per collector.
    pub(crate) exports: Vec<ExportReport>,
    /// Per file.
    pub(crate) files: Vec<FileReport>,
}

/// What became of the records for one collector.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ExportReport {
    pub(crate) collector: String,
    /// Messages that the system took.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Records of flows in them.
    pub(crate) flows: u64,
    /// Messages that were lost on the way out: refused by the collector's host, no room in the
    /// socket, no route, no connection.
    pub(crate) lost_messages: u64,
    /// Records of flows in those, and records that found no room to wait for a connection.
    pub(crate) lost_flows: u64,
    /// Connections that were made, of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
    /// Flows that the protocol cannot express: those of IPv6 in NetFlow v5.
    pub(crate) not_expressible: u64,
    /// Records whose times were cut to the 49 days that NetFlow can tell apart.
    pub(crate) clamped: u64,
}

/// What was written into a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileReport {
    pub(crate) file: String,
    pub(crate) records: u64,
}

impl OutputReport {
    /// A line for each output, and for each kind of loss that happened.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for export in &self.exports {
            export.lines(&mut text);
        }
        for FileReport { file, records } in &self.files {
            let _ = writeln!(text, "{file}: {} written", counted(*records, "record"));
        }
        text
    }
}

impl ExportReport {
    fn lines(&self, text: &mut String) {
        let name = &self.collector;
        let _ = writeln!(
            text,
            "{name}: {} exported in {}, {}",
            counted(self.flows, "record"),
            counted(self.messages, "message"),
            counted(self.bytes, "byte")
        );
        if let Some(connections) = self.connections {
            let _ = writeln!(text, "{name}: connected {}", counted(connections, "time"));
        }
        let losses = [
            (self.lost_flows, "records lost on the way out"),
            (self.lost_messages, "messages lost on the way out"),
            (
                self.not_expressible,
                "flows of IPv6 left out, which NetFlow v5 has no record for",
            ),
            (
                self.clamped,
                "records with times cut to the 49 days of NetFlow's clock",
            ),
        ];
        for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{name}: {}", counted_as(count, what));
        }
    }
}

//! The counters of outputs.

use serde::Serialize;

use crate::export::Sums;

/// The counters of all outputs: sent, written and lost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OutputReport {
    /// One entry per collector.
    pub exports: Vec<ExportReport>,
    /// One entry per file.
    pub files: Vec<FileReport>,
    /// The store, if there is one.
    #[cfg(feature = "parquet")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<crate::StoreReport>,
}

/// The counters of one collector.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExportReport {
    /// The collector's address.
    pub collector: String,
    /// Messages that the system took.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Records of flows in them.
    pub flows: u64,
    /// Messages that were lost on the way out: refused by the collector's host, no room in the socket, no
    /// route, no connection.
    pub lost_messages: u64,
    /// Records of flows in lost messages, and records for which the queue had no room.
    pub lost_flows: u64,
    /// Records that wait in the spool, for the next run if this one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_flows: Option<u64>,
    /// Records of earlier runs that were in the spool at the start: they are sent first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_flows: Option<u64>,
    /// TCP connections that were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Flows that the protocol cannot express: IPv6 flows in NetFlow v5.
    pub not_expressible: u64,
    /// Records whose times were cut to the 49 days of NetFlow's clock.
    pub clamped: u64,
}

/// The counters of one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file's path.
    pub file: String,
    /// Records in the file.
    pub records: u64,
}

impl ExportReport {
    pub(crate) fn count(&mut self, sums: Sums, is_sent: bool) {
        if is_sent {
            self.messages += sums.messages;
            self.bytes += sums.bytes;
            self.flows += sums.flows;
        } else {
            self.lost_messages += sums.messages;
            self.lost_flows += sums.flows;
        }
    }

    /// Counts messages as lost that were counted as sent.
    pub(crate) fn take_back(&mut self, sums: Sums) {
        self.messages -= sums.messages;
        self.bytes -= sums.bytes;
        self.flows -= sums.flows;
        self.count(sums, false);
    }
}

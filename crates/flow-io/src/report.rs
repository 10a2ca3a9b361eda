//! What outputs did.

use ringtap_flow::export::Message;
use serde::Serialize;

/// What all outputs sent, wrote and lost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OutputReport {
    /// Per collector.
    pub exports: Vec<ExportReport>,
    /// Per file.
    pub files: Vec<FileReport>,
}

/// What became of the records for one collector.
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
    /// Messages that were lost on the way out: refused by the collector's host, no room in the
    /// socket, no route, no connection.
    pub lost_messages: u64,
    /// Records of flows in those, and records that found no room to wait for a connection.
    pub lost_flows: u64,
    /// Connections that were made, of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Flows that the protocol cannot express: those of IPv6 in NetFlow v5.
    pub not_expressible: u64,
    /// Records whose times were cut to the 49 days that NetFlow can tell apart.
    pub clamped: u64,
}

/// What was written into a file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file's path.
    pub file: String,
    /// Records that it holds.
    pub records: u64,
}

impl ExportReport {
    pub(crate) fn count(&mut self, message: &Message<'_>, is_sent: bool) {
        let flows = u64::from(message.flows);
        if is_sent {
            self.messages += 1;
            self.bytes += message.bytes.len() as u64;
            self.flows += flows;
        } else {
            self.lost_messages += 1;
            self.lost_flows += flows;
        }
    }
}

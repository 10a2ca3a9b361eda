//! What outputs did.

use serde::Serialize;

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

//! Where records leave.

use crate::FlowRecord;

/// What takes the records of flows that ended: an encoder, a file, a table.
///
/// It is called on the thread that meters, between packets, and must not wait: what cannot be passed
/// on at once is lost, and counted by the sink. Errors are kept by the sink until it is asked for
/// them.
///
/// Every `FnMut(&FlowRecord)` is a sink.
pub trait FlowSink {
    /// Takes the record of a flow that ended, or of a part of it where the active time-out passed.
    ///
    /// Records come in the order in which flows end, which is not the order of their first or last
    /// packets.
    fn record(&mut self, record: &FlowRecord);
}

impl<F: FnMut(&FlowRecord)> FlowSink for F {
    fn record(&mut self, record: &FlowRecord) {
        self(record);
    }
}

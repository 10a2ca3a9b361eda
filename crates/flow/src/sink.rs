//! The destination of records.

use crate::{FlowRecord, Reported};

/// Takes the records of flows that ended: an encoder, a file or a table.
///
/// It is called on the metering thread, between packets, and must not wait. A record that it cannot pass on
/// immediately is lost, and the sink counts it. The sink keeps errors until it is asked for them.
///
/// Every `FnMut(&FlowRecord)` is a sink.
pub trait FlowSink {
    /// Takes the record of a flow that ended, or of a part if the active timeout passed.
    ///
    /// Records come in the order in which flows end. That is not the order of their first or last packets.
    fn record(&mut self, record: &FlowRecord);

    /// Takes a flow that is still under way, from [`crate::Meter::interim`], with the part of its counters
    /// that earlier calls had. [`FlowRecord::end`] has no meaning.
    fn interim(&mut self, record: &FlowRecord, reported: &Reported) {
        let _ = (record, reported);
    }

    /// Takes the record of a flow that ended, where there are interim reports, in the place of
    /// [`FlowSink::record`].
    fn ended(&mut self, record: &FlowRecord, reported: &Reported) {
        let _ = reported;
        self.record(record);
    }
}

impl<F: FnMut(&FlowRecord)> FlowSink for F {
    fn record(&mut self, record: &FlowRecord) {
        self(record);
    }
}

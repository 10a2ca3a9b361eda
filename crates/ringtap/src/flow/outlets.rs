//! Where records go: every output that was asked for.

use ringtap_flow::{FlowRecord, FlowSink};

use super::error::FlowError;
use super::outputs::Outputs;
use super::probe::print_tables;
use super::talkers::Talkers;

/// All outputs of a run.
pub(crate) struct Outlets {
    /// Who sends and receives most.
    pub(crate) talkers: Option<Talkers>,
    /// Collectors and files.
    pub(crate) outputs: Outputs,
}

impl Outlets {
    /// Prints the tables of what came since they were printed last.
    pub(crate) fn print_tables(&mut self) -> Result<(), FlowError> {
        print_tables(self.talkers.as_mut())
    }
}

impl FlowSink for Outlets {
    fn record(&mut self, record: &FlowRecord) {
        if let Some(talkers) = &mut self.talkers {
            talkers.count(record);
        }
        self.outputs.record(record);
    }
}

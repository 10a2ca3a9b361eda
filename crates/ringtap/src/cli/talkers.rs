//! Options of the reports of `flow`.

use std::time::Duration;

use clap::Args;

use crate::values;

#[derive(Debug, Args)]
pub(crate) struct TalkerArgs {
    /// Number of rows in each table of hosts and flows with the most traffic (0: no tables)
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = values::whole::<u16>("rows", 0, Some(1_000)))]
    pub(crate) top: u16,
    /// Print the tables and counters at this interval, such as 10s or 5m, for flows that ended since; without
    /// it, at the end
    #[arg(long, value_name = "DUR", value_parser = values::interval)]
    pub(crate) interval: Option<Duration>,
    /// Print the counters as one JSON object on standard error
    #[arg(long)]
    pub(crate) json_stats: bool,
    /// Report on standard error how the capture works: engine, clock, memory, filter, what it cannot see
    #[arg(long)]
    pub(crate) explain_capture: bool,
}

//! Sends flow records to collectors, receives them from exporters, and writes them to files.
#![forbid(unsafe_code)]

mod address;
mod collect;
mod error;
mod export;
mod file;
mod origin;
mod outputs;
mod report;

pub use address::{CollectorAddress, ListenAddress};
pub use collect::{
    CollectReport, Collector, Counters, Decoder, Network, NetworkError, PeerCounters, PeerReport,
};
pub use error::OutputError;
pub use file::FileFormat;
pub use origin::Origin;
pub use outputs::{OutputOptions, Outputs};
pub use report::{ExportReport, FileReport, OutputReport};

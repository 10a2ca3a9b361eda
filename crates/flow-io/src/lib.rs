#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod collect;
mod error;
mod export;
mod file;
mod outputs;
mod places;
mod report;

pub use address::{CollectorAddress, ListenAddress};
pub use collect::{
    CollectCounters, CollectReport, Collector, Decoder, ExporterCounters, ExporterReport, Network,
    NetworkError, Origin,
};
pub use error::OutputError;
pub use file::FileFormat;
pub use outputs::{OutputOptions, Outputs};
pub use places::{PlaceError, PlaceFiles, Places};
pub use report::{ExportReport, FileReport, OutputReport};

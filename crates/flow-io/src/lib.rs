#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod collect;
mod error;
mod export;
mod file;
mod kafka_settings;
mod outputs;
mod places;
mod protobuf;
mod report;
#[cfg(feature = "parquet")]
mod store;

pub use address::{CollectorAddress, ListenAddress};
pub use collect::{
    CollectCounters, CollectReport, Collector, Decoder, ExporterCounters, ExporterReport, Network,
    NetworkError, Origin,
};
pub use error::OutputError;
pub use export::Spools;
pub use file::FileFormat;
pub use kafka_settings::KafkaSettings;
pub use outputs::{OutputContext, OutputOptions, Outputs, SpoolOptions};
pub use places::{PlaceError, PlaceFiles, Places};
pub use protobuf::MessageForm;
pub use report::{ExportReport, FileReport, OutputReport};
pub use ringtap_sys::output::Access;
#[cfg(feature = "parquet")]
pub use store::{
    LEAST_LOGGED_STORE, LEAST_STORE, OwnFiles, READERS_LOCK, Retention, STORE_LOCK, Store,
    StoreError, StoreFiles, StoreOptions, StoreReport, exporter_name, is_of_store,
};

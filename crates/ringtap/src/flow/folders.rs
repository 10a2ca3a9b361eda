//! The files that a run opens with the privileges of the user: the store of records, the spool of batches, and the
//! settings of Kafka.

use ringtap_flow_io::{KafkaSettings, OutputError, SpoolOptions, Spools};
#[cfg(feature = "parquet")]
use ringtap_flow_io::{Retention, StoreOptions, exporter_name};

use super::error::FlowError;
use crate::cli::FlowArgs;

/// A store of records; without the feature `parquet` there is none.
#[cfg(feature = "parquet")]
pub(super) use ringtap_flow_io::Store;
#[cfg(not(feature = "parquet"))]
pub(super) use std::convert::Infallible as Store;

/// The folders of the command line.
pub(crate) struct Folders {
    pub(super) store: Option<Store>,
    pub(super) spools: Spools,
    pub(super) kafka: KafkaSettings,
}

impl Folders {
    /// Opens the folders. Call it before privileges are given up.
    pub(super) fn open(args: &FlowArgs) -> Result<Self, FlowError> {
        let records = &args.records;
        let kafka = records.kafka_config.as_deref().map(KafkaSettings::read);
        let kafka = kafka.transpose()?.unwrap_or_default();
        let spools = match &records.spool {
            Some(folder) => {
                let options = SpoolOptions {
                    folder: folder.clone(),
                    size: records.spool_size.0,
                    access: records.files.access(),
                };
                Spools::open(&options, &records.export)?
            }
            None => Spools::default(),
        };
        Ok(Self {
            kafka,
            store: open_store(args)?,
            spools,
        })
    }
}

/// Refuses a store: this ringtap cannot write Parquet.
#[cfg(not(feature = "parquet"))]
fn open_store(args: &FlowArgs) -> Result<Option<Store>, FlowError> {
    match &args.store.store {
        Some(path) => Err(FlowError::Output(OutputError::NoParquet {
            path: path.clone(),
        })),
        None => Ok(None),
    }
}

/// Opens the store of the command line, if there is one.
#[cfg(feature = "parquet")]
fn open_store(args: &FlowArgs) -> Result<Option<Store>, FlowError> {
    let store = &args.store;
    let Some(folder) = &store.store else {
        return Ok(None);
    };
    use crate::rights::StoreOpener;
    use crate::values::Retain;
    let mut retention = Retention::default();
    for limit in &store.retain {
        match limit {
            Retain::Age(age) => retention.age = Some(*age),
            Retain::Size(size) => retention.size = Some(size.0),
        }
    }
    let access = args.records.files.access();
    let is_live = args.source.interface.is_some() || args.collect.is_some();
    let options = StoreOptions::default()
        .exporter(exporter_name(&super::outlets::probe_name(args)))
        .interval(store.store_interval)
        .fields(args.records.fields)
        .retention(retention)
        .access(access)
        .log(store.store_wal)
        .wait(!is_live)
        .notify(|text| crate::notice::notice(text));
    let opened = Store::open(folder, options, Box::new(StoreOpener(access)));
    Ok(Some(opened.map_err(OutputError::from)?))
}

//! The store of the command line.

use ringtap_flow_io::{OutputError, Retention, Store, StoreOptions, exporter_name};

use super::error::FlowError;
use super::outlets::probe_name;
use crate::cli::FlowArgs;
use crate::notice::notice;
use crate::rights::StoreOpener;
use crate::values::Retain;

/// Opens the store, if there is one. Call it before privileges are given up.
pub(super) fn open(args: &FlowArgs) -> Result<Option<Store>, FlowError> {
    let store = &args.store;
    let Some(folder) = &store.store else {
        return Ok(None);
    };
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
        .exporter(exporter_name(&probe_name(args)))
        .interval(store.store_interval)
        .fields(args.records.fields)
        .retention(retention)
        .access(access)
        .wait(!is_live)
        .notify(|text| notice(text));
    let opened = Store::open(folder, options, Box::new(StoreOpener(access)));
    Ok(Some(opened.map_err(OutputError::from)?))
}

//! The databases of `--mmdb` and `--oui`, for the model.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ringtap_flow::schema::Place;
use ringtap_flow_io::{PlaceError, Places};
use ringtap_look::Atlas;

use crate::cli::LookArgs;
use crate::flow::outlets::places;
use crate::rights;

/// Returns all files that a run reads: those of packets, and databases.
pub(super) fn inputs(args: &LookArgs) -> Vec<PathBuf> {
    let databases = args.mmdb.iter().chain(&args.oui);
    rights::named(args.source.read.iter().chain(databases))
}

/// Reads the databases; `None` without any.
///
/// # Errors
/// A file cannot be read, or is not a database.
pub(super) fn open(args: &LookArgs) -> Result<Option<Arc<dyn Atlas>>, PlaceError> {
    let places = places(&args.mmdb, args.oui.as_deref())?;
    Ok((!places.is_empty()).then(|| Arc::new(Loaded(places)) as Arc<dyn Atlas>))
}

#[derive(Debug)]
struct Loaded(Places);

impl Atlas for Loaded {
    fn place(&self, address: IpAddr, mac: Option<[u8; 6]>) -> Place<'_> {
        self.0.place(address, mac)
    }
}

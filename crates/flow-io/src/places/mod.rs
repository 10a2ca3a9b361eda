//! The user's databases about the ends of a flow: autonomous system and country of an address, vendor of a
//! MAC address.
//!
//! Data in: files in memory, read once. Data out: a [`Place`] for each end of a record. A file is checked
//! when it is loaded; what is wrong with a single entry later means that the entry is not found. Nothing is
//! ever fetched.

mod mmdb;
mod oui;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ringtap_flow::FlowRecord;
use ringtap_flow::schema::{Place, Row};

use mmdb::Database;
use oui::Vendors;

/// The largest database of addresses that is read, in bytes: the largest public ones have half of it.
const MMDB_MAX: u64 = 1 << 30;
/// The largest file of vendors that is read, in bytes.
const OUI_MAX: u64 = 64 << 20;

/// The files, as they were read.
#[derive(Debug, Default)]
pub struct PlaceFiles {
    mmdb: Vec<(PathBuf, Vec<u8>)>,
    oui: Option<(PathBuf, Vec<u8>)>,
}

/// The databases.
#[derive(Debug, Default)]
pub struct Places {
    databases: Vec<Database>,
    vendors: Option<Vendors>,
}

/// A database that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        r#source: io::Error,
    },
    /// It is too large.
    #[error("{}: the file is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// It is not in MaxMind's format, or damaged.
    #[error("{}: not a database in MaxMind's format: {reason}", path.display())]
    Mmdb {
        /// The file.
        path: PathBuf,
        /// The error of the reader.
        reason: maxminddb::MaxMindDbError,
    },
    /// It has neither autonomous systems nor countries.
    #[error("{}: its records have neither autonomous systems nor countries (type {kind:?})", path.display())]
    NoPlaces {
        /// The file.
        path: PathBuf,
        /// The type of database that it reports.
        kind: String,
    },
    /// It has no vendors.
    #[error("{}: no vendor found; expected oui.txt or oui.csv of IEEE, or Wireshark's manuf", path.display())]
    NoVendors {
        /// The file.
        path: PathBuf,
    },
}

impl PlaceFiles {
    /// Reads a database of addresses into memory.
    ///
    /// # Errors
    /// The file could not be opened, cannot be read, or is too large.
    pub fn add_mmdb(&mut self, path: &Path, file: io::Result<File>) -> Result<(), PlaceError> {
        let bytes = read(path, file, MMDB_MAX)?;
        self.mmdb.push((path.to_path_buf(), bytes));
        Ok(())
    }

    /// Reads a file of vendors into memory.
    ///
    /// # Errors
    /// As [`PlaceFiles::add_mmdb`].
    pub fn set_oui(&mut self, path: &Path, file: io::Result<File>) -> Result<(), PlaceError> {
        let bytes = read(path, file, OUI_MAX)?;
        self.oui = Some((path.to_path_buf(), bytes));
        Ok(())
    }
}

impl Places {
    /// Checks the files.
    ///
    /// # Errors
    /// A file is not in the expected format, or useless.
    pub fn new(files: PlaceFiles) -> Result<Self, PlaceError> {
        let databases = files.mmdb.into_iter();
        let databases = databases.map(|(path, bytes)| Database::new(path, bytes));
        let vendors = files.oui.map(|(path, bytes)| Vendors::new(path, &bytes));
        Ok(Self {
            databases: databases.collect::<Result<_, _>>()?,
            vendors: vendors.transpose()?,
        })
    }

    /// Whether there is no database.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty() && self.vendors.is_none()
    }

    /// Returns the row of a record, with what the databases know.
    #[inline]
    #[must_use]
    pub fn row<'a>(&'a self, record: &'a FlowRecord) -> Row<'a> {
        let mut row = Row::new(record);
        if self.is_empty() {
            return row;
        }
        let (key, macs) = (&record.key, record.macs);
        row.source = self.place(key.source, macs.map(|macs| macs.source));
        row.destination = self.place(key.destination, macs.map(|macs| macs.destination));
        row
    }

    /// Returns the place of an address, and the vendor of a MAC address.
    #[must_use]
    pub fn place(&self, address: IpAddr, mac: Option<[u8; 6]>) -> Place<'_> {
        let mut place = Place::default();
        for database in &self.databases {
            database.look_up(address, &mut place);
        }
        place.vendor = self
            .vendors
            .as_ref()
            .zip(mac)
            .and_then(|(vendors, mac)| vendors.of(mac));
        place
    }
}

fn read(path: &Path, file: io::Result<File>, limit: u64) -> Result<Vec<u8>, PlaceError> {
    let failed = |source| PlaceError::Read {
        path: path.to_path_buf(),
        source,
    };
    let mut bytes = Vec::new();
    let read = file.and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(PlaceError::TooLarge {
            path: path.to_path_buf(),
            limit,
        });
    }
    Ok(bytes)
}

//! How an archive opens and removes its files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringtap_sys::output::{self, Access, Output};

/// Opens and removes the files of an archive.
///
/// [`Access`] is the plain implementation: it works with the privileges of the process.
pub trait Files: Send + Sync {
    /// Opens a file for reading and writing, or creates it. Its content stays as it is.
    ///
    /// # Errors
    /// The same errors as open(2).
    fn write(&self, path: &Path) -> io::Result<Output>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The same errors as open(2).
    fn read(&self, path: &Path) -> io::Result<File>;

    /// Removes a file.
    ///
    /// # Errors
    /// The same errors as unlink(2).
    fn remove(&self, path: &Path) -> io::Result<()>;
}

impl Files for Access {
    fn write(&self, path: &Path) -> io::Result<Output> {
        output::open(path, *self, true).map(Output::from)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// A file that is in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name without the folder.
    pub name: String,
    /// The bytes that it takes on the disk, or its size if that is more.
    pub bytes: u64,
}

/// Returns the files that a recorder made in a folder, sorted by name.
///
/// # Errors
/// The folder cannot be read.
pub fn look(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !super::name::is_of_recorder(&name) {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) => found.push(Found {
                name,
                bytes: taken(&metadata),
            }),
            // It was removed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Returns the bytes that everything in a folder takes, folders in it included.
///
/// # Errors
/// A folder cannot be read.
pub fn bytes_below(folder: &Path) -> io::Result<u64> {
    Ok(taken(&fs::metadata(folder)?) + bytes_in(folder)?)
}

/// Returns the same without the folder itself.
///
/// # Errors
/// A folder cannot be read.
pub fn bytes_in(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path: PathBuf = entry.path();
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        sum += match metadata.is_dir() {
            true => bytes_below(&path)?,
            false => taken(&metadata),
        };
    }
    Ok(sum)
}

/// Returns the bytes that a file takes on the disk, or its size if that is more.
#[must_use]
pub fn taken(metadata: &fs::Metadata) -> u64 {
    metadata.len().max(metadata.blocks().saturating_mul(512))
}

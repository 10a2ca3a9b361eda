//! The folder of a recorder: created, locked, read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ringtap_record::archive::{
    self, Files, Found, INCIDENTS, LOCK, Listing, STATUS, Window, is_of_incident, open_catalogue,
};
use ringtap_sys::disk;
use ringtap_sys::output::{self, Access, Output};

use super::error::RecorderError;
use crate::rights::{self, ArchiveFolder, NamedFiles};

/// Opens files with the privileges of the user who started the program ([`rights`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opener(pub(crate) Access);

impl Files for Opener {
    fn write(&self, path: &Path) -> io::Result<Output> {
        rights::write(path, self.0, true)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        rights::read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        rights::remove(path)
    }
}

/// The folder of this recorder, which holds its lock.
pub(super) struct Locked {
    pub(super) directory: File,
    pub(super) found: Vec<Found>,
    pub(super) incidental: Incidental,
    /// The lock is held as long as the file is open.
    pub(super) lock: File,
}

/// The folder of the copies that triggers made.
pub(super) struct Incidental {
    pub(super) folder: File,
    /// The copies' files, and the bytes that they take.
    pub(super) files: BTreeMap<PathBuf, u64>,
    /// The bytes of everything else in it.
    pub(super) others: u64,
}

impl Incidental {
    fn open(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_of_incident) {
                files.insert(entry.path(), archive::taken(&entry.metadata()?));
            }
        }
        let all = archive::bytes_in(folder)?;
        Ok(Self {
            folder: File::open(folder)?,
            others: all.saturating_sub(files.values().sum()),
            files,
        })
    }

    /// Returns the bytes of everything in the folder.
    pub(super) fn bytes(&self) -> u64 {
        self.others + self.files.values().sum::<u64>()
    }
}

/// How often a lock is tried that another process holds, which may only have looked at it.
const TRIES: u32 = 10;
/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_millis(30);

impl Locked {
    /// Opens and locks the folder, which is created if it does not exist. Call it before privileges are given up.
    pub(super) fn open(folder: &Path, access: Access) -> Result<Self, RecorderError> {
        for path in [folder.to_owned(), folder.join(INCIDENTS)] {
            let mut builder = DirBuilder::new();
            match builder.mode(mode(access)).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(RecorderError::folder(&path)(error));
                }
                _ => {}
            }
        }
        let failed = RecorderError::folder;
        let directory = File::open(folder).map_err(failed(folder))?;
        let path = folder.join(LOCK);
        let lock = output::open(&path, access, true)
            .map_err(failed(&path))?
            .file;
        lock_file(&lock, folder)?;
        Ok(Self {
            directory,
            found: archive::look(folder).map_err(failed(folder))?,
            incidental: Incidental::open(&folder.join(INCIDENTS)).map_err(failed(folder))?,
            lock,
        })
    }
}

/// Returns the mode of a folder.
fn mode(access: Access) -> u32 {
    match access {
        Access::Owner => 0o700,
        Access::Group(_) => 0o750,
        Access::Umask => 0o777,
    }
}

fn lock_file(lock: &File, folder: &Path) -> Result<(), RecorderError> {
    for _ in 0..TRIES {
        match disk::try_lock(lock, true) {
            Ok(true) => return Ok(()),
            Ok(false) => thread::sleep(PAUSE),
            Err(error) => return Err(RecorderError::folder(folder)(error.source)),
        }
    }
    let status = fs::read_to_string(folder.join(STATUS)).unwrap_or_default();
    Err(RecorderError::Locked {
        folder: folder.to_owned(),
        process: super::status::process(&status),
    })
}

/// Returns whether a recorder runs in the folder.
pub(super) fn is_locked(folder: &Path) -> bool {
    let lock = rights::read(&folder.join(LOCK));
    lock.is_ok_and(|lock| matches!(disk::try_lock(&lock, false), Ok(false)))
}

/// Returns the files of a run that reads folders of recorders.
pub(crate) fn read_files(folders: &[PathBuf]) -> NamedFiles {
    let archives = folders.iter().map(|path| ArchiveFolder {
        path: path.clone(),
        is_written: false,
        is_asked: false,
    });
    NamedFiles {
        archives: archives.collect(),
        ..NamedFiles::default()
    }
}

/// A folder that is read, as it was found before privileges were given up.
pub(crate) struct Names {
    folder: PathBuf,
    found: Vec<String>,
}

impl Names {
    /// Reads the names of the files. Call it before privileges are given up.
    pub(crate) fn of(folder: &Path) -> Result<Self, RecorderError> {
        let found = archive::look(folder).map_err(RecorderError::folder(folder))?;
        Ok(Self {
            folder: folder.to_owned(),
            found: found.into_iter().map(|found| found.name).collect(),
        })
    }

    /// Returns the name of the catalogue that a recorder's status has. It needs no look into the folder.
    ///
    /// # Errors
    /// There is no status.
    pub(crate) fn by_status(folder: &Path) -> Result<Self, RecorderError> {
        let (_, status) = super::status::read(folder)?;
        let name = status.catalogue.map(archive::catalogue);
        Ok(Self {
            folder: folder.to_owned(),
            found: name.into_iter().collect(),
        })
    }
}

/// Reads the catalogue of a folder, as far as it is about a window.
pub(crate) fn catalogue(names: &Names, window: Window) -> Result<Listing, RecorderError> {
    let folder = &names.folder;
    let found = names.found.iter().map(String::as_str);
    let file = open_catalogue(&Opener::default(), folder, found);
    let file = file.map_err(RecorderError::folder(folder))?;
    let none = || RecorderError::NoCatalogue {
        folder: folder.clone(),
    };
    let listing = Listing::read(file.ok_or_else(none)?, window);
    listing
        .map_err(RecorderError::folder(folder))?
        .ok_or_else(none)
}

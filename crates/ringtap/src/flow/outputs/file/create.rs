//! Opening the files that are written, all of them or none.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{FileError, failed};

/// Where the bytes of a file go.
pub(super) type Output = Box<dyn Write + Send>;

/// A file that is open, and not yet emptied.
struct Opened<'p> {
    path: &'p Path,
    /// None for standard output.
    file: Option<File>,
    /// Whether it was not there before.
    is_new: bool,
    /// Device and number of a regular file.
    identity: Option<(u64, u64)>,
}

/// Opens the files in order. Only when all are open are those emptied that have content; else those
/// that are new are removed.
pub(super) fn open_all(paths: &[PathBuf]) -> Result<Vec<Output>, FileError> {
    let mut opened: Vec<Opened<'_>> = Vec::with_capacity(paths.len());
    for path in paths {
        let result = open(path).and_then(|next| match same(&opened, &next) {
            None => Ok(next),
            Some(other) => Err(FileError::Twice {
                path: path.clone(),
                other: other.to_path_buf(),
            }),
        });
        match result {
            Ok(next) => opened.push(next),
            Err(error) => {
                remove_new(&opened);
                return Err(error);
            }
        }
    }
    opened.into_iter().map(Opened::begin).collect()
}

fn open(path: &Path) -> Result<Opened<'_>, FileError> {
    if path == Path::new("-") {
        return Ok(Opened {
            path,
            file: None,
            is_new: false,
            identity: None,
        });
    }
    let mut options = OpenOptions::new();
    options.write(true);
    let (file, is_new) = match options.clone().create_new(true).open(path) {
        // Also what no file can be made at, such as a link to nowhere.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (options.create(true).open(path), false)
        }
        result => (result, true),
    };
    let file = file.map_err(|source| failed(path, source))?;
    let metadata = file.metadata().map_err(|source| failed(path, source))?;
    let identity = metadata.is_file().then(|| (metadata.dev(), metadata.ino()));
    Ok(Opened {
        path,
        file: Some(file),
        is_new,
        identity,
    })
}

/// The file among those that are open which `next` is.
fn same<'p>(opened: &[Opened<'p>], next: &Opened<'_>) -> Option<&'p Path> {
    let twice = |one: &&Opened<'_>| match (&one.file, &next.file) {
        (Some(_), Some(_)) => one.identity.is_some() && one.identity == next.identity,
        (None, None) => true,
        _ => false,
    };
    opened.iter().find(twice).map(|one| one.path)
}

fn remove_new(opened: &[Opened<'_>]) {
    for one in opened.iter().filter(|one| one.is_new) {
        // What cannot be removed stays, empty.
        let _ = std::fs::remove_file(one.path);
    }
}

impl Opened<'_> {
    fn begin(self) -> Result<Output, FileError> {
        let Some(file) = self.file else {
            return Ok(Box::new(io::stdout()));
        };
        // Pipes and devices have no length.
        if self.identity.is_some() {
            let emptied = file.set_len(0);
            emptied.map_err(|source| failed(self.path, source))?;
        }
        Ok(Box::new(BufWriter::with_capacity(1 << 16, file)))
    }
}

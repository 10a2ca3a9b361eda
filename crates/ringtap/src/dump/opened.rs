//! An output before anything is written to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

/// The output before anything is written: a file that was there is as it was.
pub(crate) struct Opened {
    file: File,
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// There was no such file before.
    Made,
    /// There was: an older capture, a pipe, a device.
    Found,
    /// It is standard output.
    Given,
}

impl Opened {
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = io::stdout().as_fd().try_clone_to_owned()?.into();
            let origin = Origin::Given;
            return Ok(Self { file, origin });
        }
        let mut options = OpenOptions::new();
        options.write(true);
        match options.clone().create_new(true).open(path) {
            Ok(file) => Ok(Self {
                file,
                origin: Origin::Made,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = options.create(true).truncate(false).open(path)?;
                let origin = Origin::Found;
                Ok(Self { file, origin })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is a file that was found or made by its name: not standard output, no pipe and no
    /// device.
    pub(crate) fn is_file(&self) -> bool {
        let regular = self.file.metadata().is_ok_and(|data| data.is_file());
        self.origin != Origin::Given && regular
    }

    /// The file, without what it held.
    pub(crate) fn emptied(self) -> io::Result<File> {
        if self.origin == Origin::Found && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        Ok(self.file)
    }

    /// Takes back that the file was made.
    pub(crate) fn withdraw(self, path: &Path) {
        if self.origin == Origin::Made {
            // It may be that the folder can't be written to any more; then the file stays, empty.
            let _ = fs::remove_file(path);
        }
    }
}

//! The one place where the command opens files to write to: captures, indices, records, charts.
//!
//! Data in: a name of the command line, and who may read the file ([`Access`]). Data out: an
//! [`Output`], which is open and yet untouched: a file that was there holds what it held until
//! [`Output::emptied`], which is called when the first bytes are there to be written. One that was
//! made goes again if it never comes to that. How a file is opened is [`ringtap_sys::output`]'s.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(crate) use ringtap_sys::output::Access;

use crate::rights::{self, Made};

/// An output before anything is written to it.
#[derive(Debug)]
pub(crate) struct Output {
    /// Nothing when it has been handed out.
    file: Option<File>,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// There was no such file before.
    Made(Made),
    /// There was: an older capture, a pipe, a device.
    Found,
    /// It is standard output.
    Given,
}

impl Output {
    /// Opens the file of that name, or makes it; `-` is standard output.
    ///
    /// # Errors
    /// As [`ringtap_sys::output::open`].
    pub(crate) fn open(path: &Path, access: Access) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = io::stdout().as_fd().try_clone_to_owned()?.into();
            return Ok(Self {
                file: Some(file),
                origin: Origin::Given,
            });
        }
        Self::at(path, access, false)
    }

    /// The same for a file whose content decides whether it may be overwritten; `-` is a name as any.
    ///
    /// # Errors
    /// As [`ringtap_sys::output::open`].
    pub(crate) fn open_readable(path: &Path, access: Access) -> io::Result<Self> {
        Self::at(path, access, true)
    }

    fn at(path: &Path, access: Access, readable: bool) -> io::Result<Self> {
        let written = rights::write(path, access, readable)?;
        Ok(Self {
            file: Some(written.file),
            origin: written.made.map_or(Origin::Found, Origin::Made),
        })
    }

    /// The file as it is.
    pub(crate) fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(gone)
    }

    /// Whether it is a file that was found or made by its name: not standard output, no pipe and no
    /// device.
    pub(crate) fn is_file(&self) -> bool {
        !self.is_standard() && self.identity().is_some()
    }

    /// Whether it is standard output.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.origin, Origin::Given)
    }

    /// Whether both lead to one regular file, by whatever names, or both to standard output.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = self.identity().is_some() && self.identity() == other.identity();
        same || (self.is_standard() && other.is_standard())
    }

    /// Whether standard output was redirected to this regular file.
    pub(crate) fn is_standard_output(&self) -> bool {
        let standard = io::stdout().as_fd().try_clone_to_owned();
        let standard = standard.ok().and_then(|fd| identity(&fd.into()));
        standard.is_some() && standard == self.identity()
    }

    /// Device and number of a regular file.
    fn identity(&self) -> Option<(u64, u64)> {
        identity(self.file.as_ref()?)
    }

    /// The file, without what it held; it stays now, whatever becomes of the run.
    ///
    /// # Errors
    /// It cannot be emptied.
    pub(crate) fn emptied(mut self) -> io::Result<File> {
        let file = self.file.take().ok_or_else(gone)?;
        if matches!(self.origin, Origin::Found) && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    let metadata = file.metadata().ok()?;
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

impl Drop for Output {
    /// Takes back that the file was made, where nothing was to be written to it.
    fn drop(&mut self) {
        if let (Some(_), Origin::Made(entry)) = (&self.file, &self.origin) {
            // It may be that the folder can't be written to any more; then the file stays, empty.
            let _ = entry.remove();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the output was handed out before")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_as_it_was_until_it_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "content").unwrap();
        drop(Output::open(&path, Access::Owner).unwrap());
        let output = Output::open(&path, Access::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        output.emptied().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_that_was_made_for_nothing_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let output = Output::open(&path, Access::Owner).unwrap();
        assert!(path.exists() && output.is_file());
        drop(output);
        assert!(!path.exists());
        Output::open(&path, Access::Owner)
            .unwrap()
            .emptied()
            .unwrap();
        assert!(path.exists());
    }

    #[test]
    fn one_file_by_two_names_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, link] = ["one", "two", "link"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("one", &link).unwrap();
        let open = |path: &Path| Output::open(path, Access::Owner).unwrap();
        let (first, second, again) = (open(&one), open(&two), open(&link));
        assert!(first.is_same(&again) && !first.is_same(&second));
        let null = || open(Path::new("/dev/null"));
        assert!(!null().is_same(&null()) && !null().is_file());
        let standard = || open(Path::new("-"));
        assert!(standard().is_same(&standard()) && !standard().is_file());
    }
}

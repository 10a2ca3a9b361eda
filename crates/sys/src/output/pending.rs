//! Outputs that are open and yet untouched.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Access, UnwrittenFile, open};

/// An output before anything is written to it.
///
/// An existing file keeps its content until [`Output::emptied`], which is called when the first bytes are
/// ready to be written. A file that was created for the output is removed if that never happens.
pub struct Output {
    /// `None` once it has been handed out.
    file: Option<File>,
    origin: Origin,
}

enum Origin {
    /// How to remove the file. `None` if it existed before.
    Made(Undo),
    /// There was: an older capture, a pipe, a device.
    Found,
    /// It is standard output.
    Given,
}

/// Removes a file that was made.
pub type Undo = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

impl From<UnwrittenFile> for Output {
    fn from(opened: UnwrittenFile) -> Self {
        let undo = opened
            .made
            .map(|entry| -> Undo { Box::new(move || entry.remove()) });
        Self::new(opened.file, undo)
    }
}

impl Output {
    /// Makes an output of an open file. `undo` removes the file; it is `None` if the file was there before.
    #[must_use]
    pub fn new(file: File, undo: Option<Undo>) -> Self {
        Self {
            file: Some(file),
            origin: undo.map_or(Origin::Found, Origin::Made),
        }
    }

    /// Opens the file of that name, or makes it, with the privileges of this process; `-` is standard output.
    ///
    /// # Errors
    /// The same as [`open`].
    pub fn named(path: &Path, access: Access) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Self::standard();
        }
        open(path, access, false).map(Self::from)
    }

    /// Returns standard output, by a descriptor of its own.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn standard() -> io::Result<Self> {
        Ok(Self {
            file: Some(io::stdout().as_fd().try_clone_to_owned()?.into()),
            origin: Origin::Given,
        })
    }

    /// Returns the file unchanged.
    ///
    /// # Errors
    /// The output was handed out before.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(gone)
    }

    /// Returns whether it is a file that was found or made by its name: not standard output, no pipe and no
    /// device.
    #[must_use]
    pub fn is_file(&self) -> bool {
        !self.is_standard() && self.identity().is_some()
    }

    /// Returns whether it is standard output.
    #[must_use]
    pub fn is_standard(&self) -> bool {
        matches!(self.origin, Origin::Given)
    }

    /// Returns whether both lead to one regular file, by whatever names, or both to standard output.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let same = self.identity().is_some() && self.identity() == other.identity();
        same || (self.is_standard() && other.is_standard())
    }

    /// Returns whether standard output was redirected to this regular file.
    #[must_use]
    pub fn is_standard_output(&self) -> bool {
        let standard = io::stdout().as_fd().try_clone_to_owned();
        let standard = standard.ok().and_then(|fd| identity(&fd.into()));
        standard.is_some() && standard == self.identity()
    }

    /// Returns device and inode number of a regular file.
    fn identity(&self) -> Option<(u64, u64)> {
        identity(self.file.as_ref()?)
    }

    /// Returns the file with its content. From now on it stays, whatever happens to the run.
    ///
    /// # Errors
    /// The output was handed out before.
    pub fn into_file(mut self) -> io::Result<File> {
        self.file.take().ok_or_else(gone)
    }

    /// Returns the file without its former content. From now on it stays, whatever happens to the run.
    ///
    /// # Errors
    /// The file cannot be emptied.
    pub fn emptied(mut self) -> io::Result<File> {
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

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.file).finish()
    }
}

impl Drop for Output {
    /// Removes a file that was created and to which nothing was written.
    fn drop(&mut self) {
        if let (Some(_), Origin::Made(undo)) = (&self.file, &self.origin) {
            // It may be that the folder can't be written to any more; then the file stays, empty.
            let _ = undo();
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
        drop(Output::named(&path, Access::Owner).unwrap());
        let output = Output::named(&path, Access::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        output.emptied().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_that_was_made_for_nothing_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let output = Output::named(&path, Access::Owner).unwrap();
        assert!(path.exists() && output.is_file());
        drop(output);
        assert!(!path.exists());
        Output::named(&path, Access::Owner)
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
        let open = |path: &Path| Output::named(path, Access::Owner).unwrap();
        let (first, second, again) = (open(&one), open(&two), open(&link));
        assert!(first.is_same(&again) && !first.is_same(&second));
        let null = || open(Path::new("/dev/null"));
        assert!(!null().is_same(&null()) && !null().is_file());
        let standard = || open(Path::new("-"));
        assert!(standard().is_same(&standard()) && !standard().is_file());
    }
}

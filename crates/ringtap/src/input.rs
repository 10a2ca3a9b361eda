//! Capture files that are named on the command line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ringtap_capture::index::{self, IndexUse, Search};
use ringtap_capture::{Error, FileSource, Filter, ReadOptions, Waker, open_file, open_stream};
use ringtap_sys::poll::{self, Interest};

use crate::signals::Requests;

/// Why an input could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// It is no capture file, or the filter is not for it.
    #[error("{}", crate::filter::describe(.0))]
    Capture(#[from] Error),
    /// Standard input could not be had.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Opens a capture file, or for `-` standard input. A reader of that or of a FIFO ends when it is
/// interrupted, though nothing comes.
pub(crate) fn open(
    path: &Path,
    filter: Option<&Filter>,
    interruption: Interruption,
) -> Result<FileSource, InputError> {
    open_with(path, &ReadOptions::default(), filter, interruption)
}

/// As [`open`], read in that way.
pub(crate) fn open_with(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
    interruption: Interruption,
) -> Result<FileSource, InputError> {
    if !may_be_silent(path) {
        return Ok(open_file(path, options, filter)?);
    }
    let (file, name) = if path.as_os_str() == "-" {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        (file, "standard input".to_owned())
    } else {
        (poll::open_fifo(path), path.display().to_string())
    };
    let file = file.map_err(|source| InputError::Read {
        path: path.to_owned(),
        source,
    })?;
    let stream = Interruptible { file, interruption };
    Ok(open_stream(Box::new(stream), &name, options, filter)?)
}

/// Whether it is standard input or a FIFO, whose writer may be silent for long.
pub(crate) fn may_be_silent(path: &Path) -> bool {
    let is_fifo = |path: &Path| path.metadata().is_ok_and(|it| it.file_type().is_fifo());
    path.as_os_str() == "-" || is_fifo(path)
}

/// Opens a capture file to search it, by its index where there is one.
pub(crate) fn open_indexed(
    path: &Path,
    filter: Option<&Filter>,
    search: &Search,
) -> Result<(FileSource, IndexUse), InputError> {
    let options = ReadOptions::default();
    Ok(index::open_indexed(path, &options, filter, search)?)
}

/// Standard input, or a FIFO, that ends when a signal asks for it, though its writer is silent.
struct Interruptible {
    file: File,
    interruption: Interruption,
}

/// How a signal reaches a reader that waits.
pub(crate) struct Interruption {
    waker: Waker,
    requests: Requests,
}

impl Interruption {
    pub(crate) fn new(waker: &Waker, requests: &Requests) -> Self {
        Self {
            waker: waker.clone(),
            requests: requests.clone(),
        }
    }
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let interests = [
                Interest::read(self.file.as_fd()),
                Interest::read(self.interruption.waker.as_fd()),
            ];
            let [input, interrupt] = poll::wait(interests, None).map_err(|error| error.source)?;
            if self.interruption.requests.stop() {
                return Ok(0);
            }
            if interrupt.readable {
                self.interruption.waker.take();
            }
            if !input.readable && !input.failed {
                continue;
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

/// Whether both lead to the same regular file, which must not be read and written at once. `-` is
/// standard input for `input` and standard output for `output`.
pub(crate) fn is_same_file(input: &Path, output: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let standard = |fd: BorrowedFd<'_>| File::from(fd.try_clone_to_owned()?).metadata();
    let read = match input.as_os_str().to_str() {
        Some("-") => standard(io::stdin().as_fd()),
        _ => input.metadata(),
    };
    let written = match output.as_os_str().to_str() {
        Some("-") => standard(io::stdout().as_fd()),
        _ => output.metadata(),
    };
    match (read, written) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_itself_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "x").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(is_same_file(&path, &link));
        assert!(!is_same_file(&path, &folder.path().join("c")));
        assert!(!is_same_file(
            Path::new("/dev/null"),
            Path::new("/dev/null")
        ));
    }
}

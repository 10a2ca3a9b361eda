//! Opens the capture files of the command line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use ringtap_capture::index::{self, IndexUse, Search};
use ringtap_capture::{Error, FileSource, Filter, ReadError, ReadOptions, Waker, open_stream};
use ringtap_sys::poll::{self, Interest};

use crate::notice::notice;
use crate::over_ip::{self, Connection};
use crate::rights::{self, Kind};
use crate::signals::Requests;

/// The reason why an input could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// It is not a capture file, or the filter does not support its link type.
    #[error("{}", crate::filter::describe(.0))]
    Capture(Error),
    /// Standard input could not be opened.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, r#source: io::Error },
    /// The file list of `-V` could not be read.
    #[error("-V {}: cannot read the list of files: {source}", path.display())]
    List { path: PathBuf, r#source: io::Error },
    /// The list is empty.
    #[error("-V {}: the list names no file; each line names one", path.display())]
    EmptyList { path: PathBuf },
}

impl From<Error> for InputError {
    fn from(error: Error) -> Self {
        Self::Capture(error)
    }
}

/// Returns whether the word names a file whose name has a dot or slash. No filter expression begins with such
/// a word.
pub(crate) fn names_file(word: &str) -> bool {
    word.contains(['.', '/']) && Path::new(word).is_file()
}

/// Adds files to those of `-r`: leading `words` that look like files, and the names in `list`. A list often
/// comes from a shell pattern, so indices in it are skipped. Returns whether there were such words; their
/// files are then read in order of time ([`sort_by_time`]).
pub(crate) fn add_lists(
    read: &mut Vec<PathBuf>,
    words: &mut Vec<String>,
    list: Option<&Path>,
) -> Result<bool, InputError> {
    let mut count = words.iter().take_while(|word| names_file(word)).count();
    if read.is_empty() {
        count = 0;
    }
    read.extend(words.drain(..count).map(PathBuf::from));
    if let Some(list) = list {
        read.extend(listed(list)?);
    }
    if read.len() > 1 {
        read.retain(|path| {
            let passed = is_index(path);
            if passed {
                notice(format_args!(
                    "{}: skipped, because it is an index",
                    path.display()
                ));
            }
            !passed
        });
    }
    Ok(count > 0)
}

/// Sorts files by the time of their first packets. It reads them, so privileges must be given up before.
pub(crate) fn sort_by_time(files: &mut [PathBuf]) {
    files.sort_by_cached_key(|path| crate::dump::first_time(path));
}

/// Returns the files that a file lists, one a line.
fn listed(list: &Path) -> Result<Vec<PathBuf>, InputError> {
    let failed = |source| InputError::List {
        path: list.to_owned(),
        source,
    };
    let text = match list.as_os_str().to_str() {
        Some("-") => io::read_to_string(io::stdin()),
        _ => std::fs::read_to_string(list),
    };
    let text = text.map_err(failed)?;
    let names = text.lines().map(str::trim_end);
    let files: Vec<PathBuf> = names
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect();
    if files.is_empty() {
        return Err(InputError::EmptyList {
            path: list.to_owned(),
        });
    }
    Ok(files)
}

/// Returns whether the file is an index of a capture. An empty one is what a crash leaves beside its capture.
fn is_index(path: &Path) -> bool {
    if path.extension().is_none_or(|extension| extension != "idx") {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    match read {
        Ok(0) => path.with_extension("").is_file(),
        Ok(_) => ringtap_savefile::index::is_index(&start),
        Err(_) => false,
    }
}

/// Opens a capture file, standard input for `-`, or a connection to a server. A reader of these or of a FIFO can
/// be interrupted even if nothing comes.
pub(crate) fn open(
    path: &Path,
    filter: Option<&Filter>,
    interruption: Interruption,
) -> Result<FileSource, InputError> {
    open_with(path, &ReadOptions::default(), filter, interruption)
}

/// The same as [`open`], with this way of reading.
pub(crate) fn open_with(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
    interruption: Interruption,
) -> Result<FileSource, InputError> {
    if !may_be_silent(path) {
        return Ok(of_opened(path, rights::read(path), options, filter)?);
    }
    let mut name = path.display().to_string();
    let stream = if path.as_os_str() == "-" {
        name = "standard input".to_owned();
        let file = io::stdin().as_fd().try_clone_to_owned();
        file.map(|file| Silent::File(file.into()))
    } else if over_ip::is_server(path) {
        let opened = Connection::open(path);
        opened.and_then(|it| it.never_wait().map(|()| Silent::Connection(it)))
    } else {
        rights::read(path).map(Silent::File)
    };
    let stream = stream.map_err(|source| InputError::Read {
        path: path.to_owned(),
        source,
    })?;
    let stream = Interruptible {
        stream,
        interruption,
    };
    Ok(open_stream(Box::new(stream), &name, options, filter)?)
}

/// Reads a file that was just opened, or returns the error.
pub(crate) fn of_opened(
    path: &Path,
    opened: io::Result<File>,
    options: &ReadOptions,
    filter: Option<&Filter>,
) -> Result<FileSource, Error> {
    let name = path.display().to_string();
    let file = opened.map_err(|error| ReadError::unopened(&name, error))?;
    FileSource::from_file(file, &name, options, filter)
}

/// Returns whether it is standard input, a server or a FIFO, whose writer may be silent for long.
pub(crate) fn may_be_silent(path: &Path) -> bool {
    path.as_os_str() == "-"
        || over_ip::is_server(path)
        || rights::look(path).is_ok_and(rights::Kind::is_fifo)
}

/// Opens a capture file to search it, with its index if there is one.
pub(crate) fn open_indexed(
    path: &Path,
    filter: Option<&Filter>,
    search: &Search,
) -> Result<(FileSource, IndexUse), InputError> {
    let options = ReadOptions::default();
    let opened = index::open_indexed_by(&rights::read, path, &options, filter, search);
    Ok(opened?)
}

/// Standard input, a connection or a FIFO that ends on a signal, even if its writer is silent.
struct Interruptible {
    stream: Silent,
    interruption: Interruption,
}

/// A stream whose writer may be silent for long.
enum Silent {
    /// Reading it may wait.
    File(File),
    /// Reading it never waits, and it may hold bytes that came before.
    Connection(Connection),
}

impl Silent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Connection(connection) => connection.as_fd(),
        }
    }

    /// Reads what has come. `is_ready` means that there is something. `None` if nothing has come.
    fn take(&mut self, buffer: &mut [u8], is_ready: bool) -> Option<io::Result<usize>> {
        let done = match self {
            Self::File(_) if !is_ready => return None,
            Self::File(file) => file.read(buffer),
            Self::Connection(connection) => connection.read(buffer),
        };
        let is_early = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        (!done.as_ref().is_err_and(is_early)).then_some(done)
    }
}

/// How a signal wakes a waiting reader.
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
        let mut is_ready = false;
        loop {
            if self.interruption.requests.stop() {
                return Ok(0);
            }
            if let Some(done) = self.stream.take(buffer, is_ready) {
                return done;
            }
            let interests = [
                Interest::read(self.stream.as_fd()),
                Interest::read(self.interruption.waker.as_fd()),
            ];
            let [input, interrupt] = poll::wait(interests, None).map_err(|error| error.source)?;
            if interrupt.readable {
                self.interruption.waker.take();
            }
            is_ready = input.readable || input.failed;
        }
    }
}

/// Returns whether both name the same regular file, which must not be read and written at once. `-` is
/// standard input for `input` and standard output for `output`.
pub(crate) fn is_same_file(input: &Path, output: &Path) -> bool {
    let standard = |fd: BorrowedFd<'_>| -> io::Result<Kind> {
        let metadata = File::from(fd.try_clone_to_owned()?).metadata()?;
        Ok(Kind::of(&metadata))
    };
    let read = match input.as_os_str().to_str() {
        Some("-") => standard(io::stdin().as_fd()),
        _ => rights::look(input),
    };
    let written = match output.as_os_str().to_str() {
        Some("-") => standard(io::stdout().as_fd()),
        _ => rights::look(output),
    };
    match (read, written) {
        (Ok(a), Ok(b)) => a.is_file() && (a.device, a.number) == (b.device, b.number),
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

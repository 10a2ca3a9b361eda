//! Opens all files that the command writes: captures, indices, records, charts.
//!
//! A name of the command line and the permissions ([`Access`]) go in. An [`Output`] comes out, open but
//! unchanged. [`ringtap_sys::output`] opens the file, with the privileges of [`rights`].

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

pub(crate) use ringtap_sys::output::{Access, Output};

use crate::rights;

/// Opens the file with this name, or creates it. `-` is standard output.
///
/// # Errors
/// The same errors as [`ringtap_sys::output::open`].
pub(crate) fn open(path: &Path, access: Access) -> io::Result<Output> {
    match path.as_os_str() == "-" {
        true => Output::standard(),
        false => rights::write(path, access, false),
    }
}

/// Returns the same for a file whose content decides whether it may be overwritten. `-` is an ordinary name
/// here.
///
/// # Errors
/// The same errors as [`ringtap_sys::output::open`].
pub(crate) fn open_readable(path: &Path, access: Access) -> io::Result<Output> {
    rights::write(path, access, true)
}

/// Writes a text to standard output. It is no error that the reader has closed the pipe.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

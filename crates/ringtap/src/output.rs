//! The one place where the command opens files to write to: captures, indices, records, charts.
//!
//! Data in: a name of the command line, and who may read the file ([`Access`]). Data out: an
//! [`Output`], which is open and yet untouched. How a file is opened is [`ringtap_sys::output`]'s, with
//! which rights is [`rights`]'.

use std::io;
use std::path::Path;

pub(crate) use ringtap_sys::output::{Access, Output};

use crate::rights;

/// Opens the file of that name, or makes it; `-` is standard output.
///
/// # Errors
/// As [`ringtap_sys::output::open`].
pub(crate) fn open(path: &Path, access: Access) -> io::Result<Output> {
    match path.as_os_str() == "-" {
        true => Output::standard(),
        false => rights::write(path, access, false),
    }
}

/// The same for a file whose content decides whether it may be overwritten; `-` is a name as any.
///
/// # Errors
/// As [`ringtap_sys::output::open`].
pub(crate) fn open_readable(path: &Path, access: Access) -> io::Result<Output> {
    rights::write(path, access, true)
}

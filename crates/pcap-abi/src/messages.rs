//! Errors in libpcap's words, where programs and users know these.

use std::ffi::c_int;

use ringtap_capture::Error;
use ringtap_filter::{CompileError, ErrorKind, NameKind};
use ringtap_savefile::{ReadError, ReadErrorKind, Structure};

use crate::status::os_text;

/// Bytes of the magic number, which libpcap reads separately.
const MAGIC: u64 = 4;

/// The message for an interface that was removed.
pub(crate) const GONE: &str = "The interface disappeared";
/// The message for a missing name of a file.
pub(crate) const NO_FILE_NAME: &str = "A null pointer was supplied as the file name";

/// Returns the message for a source that cannot be read (any further); `snapshot` as in [`of_file`].
pub(crate) fn of_source(error: &Error, snapshot: Option<c_int>) -> String {
    match error {
        Error::Read(error) => of_file(error, snapshot),
        Error::InterfaceGone { .. } => GONE.to_owned(),
        other => other.to_string(),
    }
}

/// Returns the message for a file that cannot be read (any further).
///
/// `snapshot` is the handle's snapshot length if the file is open.
fn of_file(error: &ReadError, snapshot: Option<c_int>) -> String {
    match error.kind() {
        ReadErrorKind::Open(source) => of_path(error.name(), source),
        ReadErrorKind::Read(source) => format!("error reading dump file: {}", of_os(source)),
        ReadErrorKind::UnknownFormat { .. } => "unknown file format".to_owned(),
        ReadErrorKind::Version { major: ..=1, .. } => "archaic pcap savefile format".to_owned(),
        ReadErrorKind::Version {
            format,
            major,
            minor,
            ..
        } => {
            format!("unsupported {format} savefile version {major}.{minor}")
        }
        ReadErrorKind::Truncated {
            structure,
            expected,
            found,
        } => truncated(*structure, *expected, *found),
        ReadErrorKind::CapturedLength {
            caplen,
            max,
            structure: Structure::RecordHeader,
            ..
        } => {
            let bound = snapshot.map_or_else(|| max.to_string(), |bound| bound.to_string());
            format!("invalid packet capture length {caplen}, bigger than snaplen of {bound}")
        }
        ReadErrorKind::NoInterface => NO_INTERFACE.to_owned(),
        other => other.to_string(),
    }
}

/// The message for a pcapng file without an interface.
pub(crate) const NO_INTERFACE: &str = "the capture file has no Interface Description Blocks";

fn truncated(structure: Structure, expected: u64, found: u64) -> String {
    let (what, expected, found) = match structure {
        Structure::Magic => ("file header", expected, found),
        Structure::FileHeader => ("file header", expected, found.saturating_sub(MAGIC)),
        Structure::RecordHeader => ("header", expected, found),
        Structure::RecordData => ("captured", expected, found),
        _ => {
            return format!(
                "truncated pcapng dump file; tried to read {expected} bytes, only got {found}"
            );
        }
    };
    format!("truncated dump file; tried to read {expected} {what} bytes, only got {found}")
}

/// Returns the system's text, without the number that Rust adds.
pub(crate) fn of_os(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), os_text)
}

/// Returns the message for a file for which a call of the system failed.
pub(crate) fn of_path(name: &str, error: &std::io::Error) -> String {
    format!("{name}: {}", of_os(error))
}

/// Returns the message for an expression that cannot be compiled.
pub(crate) fn of_filter(error: &CompileError) -> String {
    match &error.kind {
        ErrorKind::RejectsAll => "expression rejects all packets".to_owned(),
        ErrorKind::UnknownName {
            kind: NameKind::Host,
            name,
        }
        | ErrorKind::Lookup {
            kind: NameKind::Host,
            name,
            ..
        } => {
            format!("unknown host '{name}'")
        }
        ErrorKind::UnknownName { kind, name } => format!("unknown {kind} '{name}'"),
        ErrorKind::Unexpected(_)
        | ErrorKind::UnexpectedEnd
        | ErrorKind::Unclosed(_)
        | ErrorKind::NothingToInherit
        | ErrorKind::IllegalCharacter(_) => {
            "can't parse filter expression: syntax error".to_owned()
        }
        _ => error.to_string(),
    }
}

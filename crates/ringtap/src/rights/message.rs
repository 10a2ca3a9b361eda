//! The requests to a helper process, and its answers.
//!
//! A request is an operation, flags and a path. An answer is an error, or some numbers with the file.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The longest message, in bytes: a path, or an error text.
pub(super) const LONGEST: usize = 8192;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Operation {
    /// Open for reading.
    Read = 1,
    /// Return the kind of file.
    Look = 2,
    /// Open for writing, or create.
    Write = 3,
    /// Remove.
    Remove = 4,
    /// Run the command of `-z` with it.
    Run = 5,
    /// Answer once all commands have ended.
    Wait = 6,
    /// Take a read lease on the file in the request.
    Lease = 7,
    /// Return the lease.
    GiveBack = 8,
    /// Give an unfinished file of a store its name.
    Publish = 9,
    /// Exchange a folder of a store with its successor.
    Exchange = 10,
    /// Send the path's last part to the recorder's socket that is the rest of it.
    Ask = 11,
}

/// Also open for reading.
pub(super) const READABLE: u8 = 4;
/// Leave permissions to the umask.
pub(super) const BY_UMASK: u8 = 8;
/// Allow a group to read.
pub(super) const OF_GROUP: u8 = 16;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    pub(super) flags: u8,
    /// The number of the group, with [`OF_GROUP`].
    pub(super) group: u32,
    pub(super) path: &'a Path,
}

impl<'a> Request<'a> {
    /// Returns a request without flags.
    pub(super) fn plain(operation: Operation, path: &'a Path) -> Self {
        Self {
            operation,
            flags: 0,
            group: 0,
            path,
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.operation as u8, self.flags];
        bytes.extend(self.group.to_ne_bytes());
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[operation, flags], rest) = bytes.split_first_chunk()?;
        let (&group, path) = rest.split_first_chunk()?;
        let known = [
            Operation::Read,
            Operation::Look,
            Operation::Write,
            Operation::Remove,
            Operation::Run,
            Operation::Wait,
            Operation::Lease,
            Operation::GiveBack,
            Operation::Publish,
            Operation::Exchange,
            Operation::Ask,
        ];
        Some(Self {
            operation: known.into_iter().find(|known| *known as u8 == operation)?,
            flags,
            group: u32::from_ne_bytes(group),
            path: Path::new(OsStr::from_bytes(path)),
        })
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) device: u64,
    pub(crate) number: u64,
    pub(crate) mode: u32,
    /// Bytes.
    pub(crate) size: u64,
}

/// `S_IFMT`, `S_IFREG` and `S_IFIFO` of inode(7).
const FORMAT: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FIFO: u32 = 0o010_000;

impl Kind {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            number: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.len(),
        }
    }

    pub(crate) fn is_file(self) -> bool {
        self.mode & FORMAT == REGULAR
    }

    pub(crate) fn is_fifo(self) -> bool {
        self.mode & FORMAT == FIFO
    }
}

/// An answer, without its file.
#[derive(Debug)]
pub(super) enum Answer {
    Done {
        kind: Kind,
        /// Whether the file was created.
        made: bool,
    },
    Failed(io::Error),
}

impl Answer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Done { kind, made } => {
                let mut bytes = 0_i32.to_ne_bytes().to_vec();
                bytes.extend(kind.device.to_ne_bytes());
                bytes.extend(kind.number.to_ne_bytes());
                bytes.extend(kind.mode.to_ne_bytes());
                bytes.extend(kind.size.to_ne_bytes());
                bytes.push((*made).into());
                bytes
            }
            Self::Failed(error) => {
                let mut bytes = error.raw_os_error().unwrap_or(-1).to_ne_bytes().to_vec();
                bytes.extend(error.to_string().bytes().take(LONGEST - 4));
                bytes
            }
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&errno, rest) = bytes.split_first_chunk()?;
        Some(match i32::from_ne_bytes(errno) {
            0 => {
                let (&device, rest) = rest.split_first_chunk()?;
                let (&number, rest) = rest.split_first_chunk()?;
                let (&mode, rest) = rest.split_first_chunk()?;
                let (&size, rest) = rest.split_first_chunk()?;
                let kind = Kind {
                    device: u64::from_ne_bytes(device),
                    number: u64::from_ne_bytes(number),
                    mode: u32::from_ne_bytes(mode),
                    size: u64::from_ne_bytes(size),
                };
                let made = *rest.first()? != 0;
                Self::Done { kind, made }
            }
            errno if errno > 0 => Self::Failed(io::Error::from_raw_os_error(errno)),
            _ => {
                let text = String::from_utf8_lossy(rest).into_owned();
                Self::Failed(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let request = Request {
            operation: Operation::Look,
            flags: READABLE,
            group: 7,
            path: Path::new("/a/b"),
        };
        assert_eq!(Request::parse(&request.to_bytes()), Some(request));
        assert_eq!(Request::parse(&[0, 0]), None);
        assert_eq!(Request::parse(&[1]), None);
        let kind = Kind {
            device: 1 << 40,
            number: 7,
            mode: 0o100_600,
            size: 24,
        };
        let sent = Answer::Done { kind, made: true }.to_bytes();
        assert!(
            matches!(Answer::parse(&sent), Some(Answer::Done { kind: got, made: true }) if got == kind)
        );
        assert!(Answer::parse(&sent[..20]).is_none());
        assert!(kind.is_file() && !kind.is_fifo());
        let missing = io::Error::from_raw_os_error(2);
        let sent = Answer::Failed(missing).to_bytes();
        assert!(
            matches!(Answer::parse(&sent), Some(Answer::Failed(e)) if e.raw_os_error() == Some(2))
        );
        let sent = Answer::Failed(io::Error::other("of its own")).to_bytes();
        assert!(
            matches!(Answer::parse(&sent), Some(Answer::Failed(e)) if e.to_string() == "of its own")
        );
    }
}

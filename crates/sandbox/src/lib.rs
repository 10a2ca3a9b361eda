//! Restricts a process that reads data from the network, after it has opened its files, sockets and
//! programs.
//!
//! The crate uses Landlock and seccomp, through the crates `landlock` and `seccompiler`. Landlock
//! allows only the named files, and TCP only on request. A filter of system calls allows only the
//! calls that the run needs. Other calls fail with `ENOSYS`, as on a kernel without them; calls that
//! only an attacker makes, such as `execve`, end the process (`SIGSYS`).
//!
//! The sandbox does not replace dropping capabilities and root's identity, which must be done first
//! (`ringtap_sys::privileges`). Both restrictions apply to the calling thread and to threads that
//! it starts later, and cannot be removed. If the kernel lacks one of them, the other still
//! applies; [`Report`] lists the ones in force.
//!
//! Source: landlock(7), seccomp(2).
#![forbid(unsafe_code)]

mod calls;
mod files;

use std::fmt;
use std::path::PathBuf;

/// The resources that a run needs beyond memory, threads, time and open files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files to open for reading, and folders with everything beneath them.
    pub read: Vec<PathBuf>,
    /// Folders beneath which files are created, overwritten and removed.
    pub write: Vec<PathBuf>,
    /// Folders beneath which, in addition, folders are created and removed, and names are changed.
    pub arrange: Vec<PathBuf>,
    /// Whether packets are received or sent through the kernel: packet sockets, rings, maps and
    /// links of programs, netlink.
    pub devices: bool,
    /// Whether names are looked up or records are sent to collectors: Internet and local sockets.
    pub network: bool,
    /// Whether connections are accepted on a TCP socket that listens already.
    pub serves: bool,
    /// Whether the modes of the terminal are changed.
    pub terminal: bool,
}

impl Needs {
    /// Returns the needs of a run that receives packets from interfaces or sends them.
    #[must_use]
    pub fn of_devices() -> Self {
        Self {
            devices: true,
            ..Self::default()
        }
    }
}

/// The reason why a restriction is not in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The kernel has no Landlock, or it is disabled.
    #[error("the kernel does not support Landlock")]
    NoLandlock,
    /// The kernel rejected the rules.
    #[error(transparent)]
    Rules(#[from] landlock::RulesetError),
    /// The filter could not be created.
    #[error(transparent)]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel rejected the filter.
    #[error(transparent)]
    Call(#[from] seccompiler::Error),
}

/// The restrictions in force.
#[derive(Debug)]
pub struct Report {
    /// The restriction of files, or the reason why there is none.
    pub files: Result<Fence, Obstacle>,
    /// The number of allowed system calls.
    pub calls: Result<usize, Obstacle>,
}

/// The restriction of files by Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The version of Landlock's interface.
    pub version: i32,
    /// The number of files and folders that are still allowed.
    pub rules: usize,
    /// Whether TCP is restricted, too.
    pub without_tcp: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files {
            Ok(fence) => {
                let places = match fence.rules {
                    0 => "none can be opened".to_owned(),
                    1 => "1 path can be opened".to_owned(),
                    many => format!("{many} paths can be opened"),
                };
                let tcp = if fence.without_tcp { ", no TCP" } else { "" };
                writeln!(f, "files: {places} (Landlock {}){tcp}", fence.version)?;
            }
            Err(reason) => writeln!(f, "files: not restricted ({reason})")?,
        }
        match &self.calls {
            Ok(count) => writeln!(f, "system calls: {count} allowed (seccomp)"),
            Err(reason) => writeln!(f, "system calls: not restricted ({reason})"),
        }
    }
}

/// Restricts the process permanently. A restriction that the kernel does not support is listed in
/// the report and is no error, so that ringtap runs on old kernels.
///
/// Call it after dropping privileges and before starting threads.
#[must_use]
pub fn confine(needs: &Needs) -> Report {
    Report {
        files: files::restrict(needs),
        calls: calls::restrict(needs),
    }
}

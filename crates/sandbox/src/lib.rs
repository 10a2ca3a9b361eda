//! What a process may still do once its files, sockets and programs are open.
//!
//! What it is: two fences around a process that reads what strangers send, by the crates `landlock` and
//! `seccompiler`. Landlock ([`files`]) leaves it those files that it names, and TCP only where it asks
//! for that. A filter of system calls ([`calls`]) leaves it those that the run needs; other calls are
//! answered with `ENOSYS`, as by a kernel that lacks them, and those that only an intruder makes, such as
//! `execve`, end the process (`SIGSYS`).
//!
//! What it is not: a substitute for giving up capabilities and root's identity, which comes first
//! (`ringtap_sys::privileges`). Both fences hold for the calling thread and for threads that it starts
//! later, and can't be taken down. A kernel that lacks one of them gets the other: [`Report`] says what
//! stands.
//!
//! Source: landlock(7), seccomp(2).
#![forbid(unsafe_code)]

mod calls;
mod files;

use std::fmt;
use std::path::PathBuf;

/// What a run needs beyond memory, threads, time and the files that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files, and folders with all that is beneath them, that are opened for reading.
    pub read: Vec<PathBuf>,
    /// Folders beneath which files are made, overwritten and removed.
    pub write: Vec<PathBuf>,
    /// Packets come from the kernel, or go there: packet sockets, rings, maps and links of programs,
    /// netlink.
    pub devices: bool,
    /// Names are looked up, or records sent to collectors: sockets of the Internet and of the host.
    pub network: bool,
}

impl Needs {
    /// What a run needs that takes packets from devices, or gives them some.
    #[must_use]
    pub fn of_devices() -> Self {
        Self {
            devices: true,
            ..Self::default()
        }
    }
}

/// Why a fence does not stand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The kernel has no Landlock, or it is not switched on.
    #[error("the kernel does without Landlock")]
    NoLandlock,
    /// The rules were refused.
    #[error(transparent)]
    Rules(#[from] landlock::RulesetError),
    /// The filter could not be made.
    #[error(transparent)]
    Filter(#[from] seccompiler::BackendError),
    /// The filter was refused.
    #[error(transparent)]
    Call(#[from] seccompiler::Error),
}

/// What stands.
#[derive(Debug)]
pub struct Report {
    /// The version of Landlock's interface whose rules hold, and whether all that was asked for does.
    pub files: Result<Fence, Obstacle>,
    /// How many system calls are allowed.
    pub calls: Result<usize, Obstacle>,
}

/// How much of the fence around files stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The version of the interface.
    pub version: i32,
    /// The files and folders that are left.
    pub rules: usize,
    /// Whether TCP is fenced off, too.
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

/// Puts up the fences, for good. What cannot stand is in the report, and is no error: a run is not
/// refused for the kernel's age.
///
/// To be called when privileges were given up and before threads are started.
#[must_use]
pub fn confine(needs: &Needs) -> Report {
    Report {
        files: files::restrict(needs),
        calls: calls::restrict(needs),
    }
}

//! Network namespaces without a name: they exist as long as a file descriptor holds them.
//!
//! Threads and child processes can enter them. This module mounts nothing and writes no file, so
//! even a killed process leaves nothing behind: the kernel removes a namespace, with its virtual
//! interfaces, when its last fd, socket and process is gone.
//!
//! Source: `network_namespaces(7)`, `user_namespaces(7)`, unshare(2), setns(2).

mod list;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use crate::netlink::{self, Netlink};
use crate::{Error, Result};
pub use list::{Found, list};

const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, held by an fd. Clones hold the same namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Creates a namespace that holds only a loopback interface, which is down. The calling thread
    /// does not enter it. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system forbids it, or /proc is not mounted.
    pub fn new() -> Result<Self> {
        // A separate thread enters the namespace and ends; the fd keeps the namespace.
        on_thread(|| {
            unshare(libc::CLONE_NEWNET, "CLONE_NEWNET")?;
            Self::open(Path::new(OWN_NAMESPACE))
        })?
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Self> {
        Self::open(Path::new(OWN_NAMESPACE))
    }

    /// Opens the namespace behind a path: `/proc/PID/ns/net`, or a name under `/run/netns`.
    ///
    /// # Errors
    /// The path cannot be opened. Whether it is a namespace shows only when it is entered.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|e| Error::new("open", path.display().to_string(), e))?;
        Ok(Self {
            fd: Arc::new(file.into()),
        })
    }

    /// Returns the inode number that identifies the namespace on this system.
    ///
    /// # Errors
    /// The fd cannot be examined.
    pub fn inode(&self) -> Result<u64> {
        let file = self.fd.try_clone().map(File::from);
        let metadata = file.and_then(|file| file.metadata());
        metadata
            .map(|m| m.ino())
            .map_err(|e| Error::new("fstat", "network namespace", e))
    }

    /// Returns a path to the namespace for other programs (`nsenter --net=PATH`), valid as long as
    /// this process holds the namespace.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Runs a closure on a new thread inside the namespace and waits for it. A panic continues in
    /// the calling thread. Sockets that the closure opens stay in the namespace, even if it returns
    /// them. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The thread cannot be created, or the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_thread(|| self.enter().map(|()| work()))?
    }

    /// Runs a closure inside the namespace. If the calling thread is in it already, runs it
    /// directly; otherwise as [`Namespace::run`], which needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The same as [`Namespace::run`].
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let here = Self::current().and_then(|here| here.inode());
        if here.is_ok() && here.ok() == self.inode().ok() {
            return Ok(work());
        }
        self.run(work)
    }

    /// Moves only the calling thread into the namespace. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system forbids it, or the opened file is not a network namespace.
    pub fn enter(&self) -> Result<()> {
        setns(self.fd.as_fd()).map_err(|e| Error::new("setns", "CLONE_NEWNET", e))
    }

    /// Makes the children of `command` start inside the namespace.
    pub fn command<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let fd = Arc::clone(&self.fd);
        // SAFETY: between fork and exec the closure makes one system call on an fd that it owns a
        // share of; it allocates nothing and takes no lock (io::Error from errno holds a number).
        unsafe { command.pre_exec(move || setns(fd.as_fd())) }
    }

    /// Opens an rtnetlink client that works in this namespace from any thread.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the socket cannot be created.
    pub fn netlink(&self) -> netlink::Result<Netlink> {
        self.run(Netlink::open)?
    }

    /// Sets a network variable of the namespace, such as `net/ipv4/ip_forward` (sysctl(8)).
    ///
    /// # Errors
    /// The kernel has no such variable (`ENOENT`), or it cannot be written.
    pub fn set_sysctl(&self, variable: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{variable}");
        // /proc/sys/net shows the namespace of the thread that opens the file.
        self.run(|| fs::write(&path, value))?
            .map_err(|e| Error::new("write", path, e))
    }

    /// Turns IPv6 off for the interfaces of the namespace, present and future, so that it sends no
    /// neighbour, router or multicast messages by itself. A kernel without IPv6 counts as success.
    ///
    /// # Errors
    /// The variables cannot be written.
    pub fn disable_ipv6(&self) -> Result<()> {
        for scope in ["all", "default"] {
            match self.set_sysctl(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1") {
                Err(error) if error.errno() == Some(libc::ENOENT) => {}
                result => result?,
            }
        }
        Ok(())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The reason why a process could not become root of a new user namespace.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// Only a process with one thread may do it (`user_namespaces(7)`): call it before all else.
    #[error("a user namespace must be created before threads start: there are {0} threads")]
    Threads(usize),
    /// The system forbids it: `user.max_user_namespaces`, `kernel.unprivileged_userns_clone`,
    /// AppArmor or a container's seccomp filter.
    #[error("the system forbids user namespaces to this user: {0}")]
    Forbidden(Error),
    /// Something else failed.
    #[error(transparent)]
    Call(#[from] Error),
}

/// Moves the process into a new user namespace and a new network namespace. It is root there, with
/// every capability over that network only. This allows running without root.
///
/// # Errors
/// See [`UserNamespaceError`]. The process is unchanged, unless the identity could not be mapped;
/// it should then end.
pub fn enter_user_namespace() -> std::result::Result<(), UserNamespaceError> {
    let tasks = "/proc/self/task";
    let threads = fs::read_dir(tasks)
        .map_err(|e| Error::new("opendir", tasks, e))?
        .count();
    if threads != 1 {
        return Err(UserNamespaceError::Threads(threads));
    }
    // SAFETY: these calls take nothing, cannot fail and touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(
        libc::CLONE_NEWUSER | libc::CLONE_NEWNET,
        "CLONE_NEWUSER | CLONE_NEWNET",
    )
    .map_err(refused)?;
    // Group lists must be fixed before an unprivileged process may map a group.
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        fs::write(path, text).map_err(|e| refused(Error::new("write", path, e)))?;
    }
    Ok(())
}

/// Distinguishes a prohibition from other errors.
fn refused(error: Error) -> UserNamespaceError {
    match error.errno() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS | libc::ENOSYS) => {
            UserNamespaceError::Forbidden(error)
        }
        _ => UserNamespaceError::Call(error),
    }
}

fn unshare(flags: libc::c_int, names: &'static str) -> Result<()> {
    // SAFETY: the call takes a number and changes only the namespaces of the thread.
    let result = unsafe { libc::unshare(flags) };
    Error::check(result, "unshare", names)
}

fn setns(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the fd is open for the call; the kernel checks that it is a network namespace.
    match unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs work on a new thread and waits for it; a panic continues in the caller.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| Error::new("clone", "thread for a network namespace", e))?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

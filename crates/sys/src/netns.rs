//! Network namespaces without a name: an fd holds them, and nothing is left when it goes.
//!
//! What it is: namespaces made, entered by threads and by child processes. What it is not: it
//! mounts nothing and writes no file, so that even a killed process leaves nothing behind: the
//! kernel removes a namespace, with the virtual interfaces in it, when the last fd, socket and
//! process is gone.
//!
//! Source: `network_namespaces(7)`, `user_namespaces(7)`, unshare(2), setns(2).

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

const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, held by an fd. Clones hold the same namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes a namespace with nothing in it but a loopback interface that is down. The calling
    /// thread stays where it is. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system forbids it, or /proc is not mounted.
    pub fn new() -> Result<Self> {
        // A thread of its own goes there and ends; its fd keeps what it made.
        on_thread(|| {
            unshare(libc::CLONE_NEWNET, "CLONE_NEWNET")?;
            Self::open(Path::new(OWN_NAMESPACE))
        })?
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Self> {
        Self::open(Path::new(OWN_NAMESPACE))
    }

    /// The namespace behind a path: `/proc/PID/ns/net`, or a name under `/run/netns`.
    ///
    /// # Errors
    /// The path cannot be opened. That it is a namespace shows when it is entered.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|e| Error::new("open", path.display().to_string(), e))?;
        Ok(Self {
            fd: Arc::new(file.into()),
        })
    }

    /// The inode number that identifies the namespace on this system.
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

    /// A path to the namespace for other programs (`nsenter --net=PATH`), good as long as this
    /// process holds the namespace.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Runs a closure on a thread of its own inside the namespace and waits for it. A panic goes
    /// on in the calling thread. Sockets that the closure opens stay in the namespace, also when
    /// they are handed out. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The thread cannot be made, or the namespace not be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_thread(|| self.enter().map(|()| work()))?
    }

    /// Runs a closure inside the namespace: at once where the calling thread is in it, else as
    /// [`Namespace::run`] does, which needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// As [`Namespace::run`].
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let here = Self::current().and_then(|here| here.inode());
        if here.is_ok() && here.ok() == self.inode().ok() {
            return Ok(work());
        }
        self.run(work)
    }

    /// Moves the calling thread, and only it, into the namespace. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system forbids it, or what was opened is no network namespace.
    pub fn enter(&self) -> Result<()> {
        setns(self.fd.as_fd()).map_err(|e| Error::new("setns", "CLONE_NEWNET", e))
    }

    /// Has the children of `command` start inside the namespace.
    pub fn command<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let fd = Arc::clone(&self.fd);
        // SAFETY: between fork and exec the closure makes one system call on an fd that it owns a
        // share of; it allocates nothing and takes no lock (io::Error from errno holds a number).
        unsafe { command.pre_exec(move || setns(fd.as_fd())) }
    }

    /// A client of rtnetlink that speaks for this namespace from any thread.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the socket not be made.
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
    /// neighbour, router or multicast messages of its own accord. A kernel without IPv6 counts as
    /// success.
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

/// Has the children of `command` start inside `namespace`.
pub fn command_in<'c>(namespace: &Namespace, command: &'c mut Command) -> &'c mut Command {
    namespace.command(command)
}

/// Why a process could not become root of a user namespace of its own.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// Only a process of one thread may (`user_namespaces(7)`): call it first of all.
    #[error("a user namespace must be made before threads start: there are {0}")]
    Threads(usize),
    /// The system forbids it: by `user.max_user_namespaces`, `kernel.unprivileged_userns_clone`,
    /// AppArmor, a container's seccomp filter.
    #[error("the system forbids user namespaces to this user: {0}")]
    Forbidden(Error),
    /// Something else failed.
    #[error(transparent)]
    Call(#[from] Error),
}

/// Moves the process into a user namespace and a network namespace of its own, where it is root
/// and has every capability over that network, and only over it. For running without root.
///
/// # Errors
/// See [`UserNamespaceError`]. The process is unchanged except where the identity could not be
/// mapped; it should then end.
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

/// Tells a prohibition from a fault.
fn refused(error: Error) -> UserNamespaceError {
    match error.errno() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS | libc::ENOSYS) => {
            UserNamespaceError::Forbidden(error)
        }
        _ => UserNamespaceError::Call(error),
    }
}

fn unshare(flags: libc::c_int, names: &'static str) -> Result<()> {
    // SAFETY: the call takes a number and changes only which namespaces the thread is in.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(Error::last("unshare", names)),
    }
}

fn setns(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the fd is open for the call; the kernel checks that it is a network namespace.
    match unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs work on a thread of its own; a panic there goes on here.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| Error::new("clone", "thread for a network namespace", e))?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

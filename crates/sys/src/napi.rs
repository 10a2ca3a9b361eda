//! Kernel threads that receive packets instead of interrupts (threaded NAPI, Linux 5.12), with
//! processors and a priority.
//!
//! [`ReceiveThreads`] changes the setting of an interface and restores it when dropped. If the process is
//! killed, the setting stays. If the driver creates its queues again, their threads get no processors and no
//! priority.
//!
//! Source: Documentation/networking/napi.rst; netdev(7) of generic netlink lists the threads (Linux
//! 6.8).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::netlink::{self, Link, Netlink};
use crate::sched::Placement;

/// The interfaces of the network namespace in which this file system was mounted.
const INTERFACES: &str = "/sys/class/net";
/// The beginning of such a thread's name.
const NAME: &str = "napi/";

/// The reason why an interface cannot receive by threads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveThreadsError {
    /// The driver does not use NAPI in its present configuration.
    #[error("{device}: no queues that the kernel polls (NAPI)")]
    NoQueues {
        /// The interface.
        device: String,
    },
    /// The kernel is older than Linux 5.12.
    #[error("{device}: the kernel has no threads that receive (it has from Linux 5.12 on)")]
    NoThreads {
        /// The interface.
        device: String,
    },
    /// `/sys` was mounted in another network namespace.
    #[error("{device}: /sys shows the interfaces of another network namespace")]
    OtherNamespace {
        /// The interface.
        device: String,
    },
    /// The kernel does not report the threads, or reports their IDs in another PID namespace.
    #[error(
        "{device}: the kernel does not report the threads (it does from Linux 6.8 on, in the initial PID namespace)"
    )]
    NotTold {
        /// The interface.
        device: String,
    },
    /// An error of rtnetlink or of the family `netdev`.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// An error of the file system or of the scheduler (sched(7)).
    #[error(transparent)]
    Call(#[from] Error),
}

type Result<T> = std::result::Result<T, ReceiveThreadsError>;

/// Makes kernel threads receive an interface's packets, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the threads"]
pub struct ReceiveThreads {
    /// Open for writing, so that restoring the setting needs no privilege for files.
    setting: File,
    before: String,
    /// The threads, with their placement before the change.
    threads: Vec<(u32, Placement)>,
}

impl ReceiveThreads {
    /// Makes an interface of the calling thread's network namespace receive by threads on the
    /// processors `cpus`. With `priority`, they get real-time priority (SCHED_FIFO, 1 to 99). Needs
    /// `CAP_NET_ADMIN` and `CAP_SYS_NICE`, also when dropped.
    ///
    /// # Errors
    /// See [`ReceiveThreadsError`]; all changes are undone.
    pub fn start(device: &str, cpus: &[usize], priority: Option<u8>) -> Result<Self> {
        let link = Netlink::open()?.link(device)?;
        let folder = Path::new(INTERFACES).join(link.name.to_string());
        if !shows(&folder, &link) {
            return Err(ReceiveThreadsError::OtherNamespace {
                device: device.to_owned(),
            });
        }
        let path = folder.join("threaded");
        let before = fs::read_to_string(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let device = device.to_owned();
                ReceiveThreadsError::NoThreads { device }
            } else {
                failed("read", &path, source).into()
            }
        })?;
        let opened = File::options().write(true).open(&path);
        let mut started = Self {
            setting: opened.map_err(|e| failed("open", &path, e))?,
            before: before.trim().to_owned(),
            threads: Vec::new(),
        };
        if let Err(source) = started.setting.write_all_at(b"1", 0) {
            // Nothing to restore.
            started.before.clear();
            if source.raw_os_error() == Some(libc::EOPNOTSUPP) {
                return Err(ReceiveThreadsError::NoQueues {
                    device: device.to_owned(),
                });
            }
            return Err(failed("write", &path, source).into());
        }
        let threads = Netlink::receive_threads(link.index)?;
        if threads.is_empty() || !threads.iter().all(|&thread| is_receiving(thread)) {
            return Err(ReceiveThreadsError::NotTold {
                device: device.to_owned(),
            });
        }
        for thread in threads {
            let before = Placement::of(thread)?;
            let wanted = before.moved(cpus, priority);
            started.threads.push((thread, before));
            wanted.give(thread)?;
        }
        Ok(started)
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for ReceiveThreads {
    fn drop(&mut self) {
        // `drop` cannot report a failure; threads and interface may be gone.
        for (thread, before) in self.threads.drain(..) {
            if is_receiving(thread) {
                let _ = before.give(thread);
            }
        }
        if !self.before.is_empty() {
            let _ = self.setting.write_all_at(self.before.as_bytes(), 0);
        }
    }
}

/// Returns whether the folder describes this interface, not one of the same name in another
/// namespace.
fn shows(folder: &Path, link: &Link) -> bool {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let address: Vec<String> = link
        .address
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    read("ifindex").trim() == link.index.to_string() && read("address").trim() == address.join(":")
}

/// Returns whether the ID is that of a receiving thread: it may belong to another PID namespace.
fn is_receiving(thread: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{thread}/comm"));
    name.is_ok_and(|name| name.starts_with(NAME))
}

fn failed(call: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::new(call, path.display().to_string(), source)
}

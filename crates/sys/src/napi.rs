//! Threads of the kernel that receive in the place of interrupts (threaded NAPI, Linux 5.12), with
//! processors and a priority of their own.
//!
//! What it is: the setting of an interface with an owner, who puts it back. What it is not: nobody puts
//! it back for a process that is killed. Queues that a driver makes anew get threads without a place.
//!
//! Source: Documentation/networking/napi.rst; netdev(7) of generic netlink tells the threads (Linux 6.8).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::netlink::{self, Link, Netlink};
use crate::sched::Placement;

/// Where the interfaces of the network namespace are that the file system was mounted in.
const INTERFACES: &str = "/sys/class/net";
/// What such threads are called.
const NAME: &str = "napi/";

/// Why an interface does not receive by threads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveThreadsError {
    /// Its driver does without NAPI, as it is set up now.
    #[error("{device}: there are no queues that the kernel polls (NAPI), and none for a thread")]
    NoQueues {
        /// The interface.
        device: String,
    },
    /// `/sys` was mounted elsewhere.
    #[error("{device}: /sys shows the interfaces of another network namespace")]
    OtherNamespace {
        /// The interface.
        device: String,
    },
    /// The kernel does not tell which threads they are, or tells numbers of another PID namespace.
    #[error(
        "{device}: the kernel does not tell the threads (Linux 6.8, in the initial PID namespace)"
    )]
    NotTold {
        /// The interface.
        device: String,
    },
    /// rtnetlink or the family `netdev`.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// The file system, or sched(7).
    #[error(transparent)]
    Call(#[from] Error),
}

type Result<T> = std::result::Result<T, ReceiveThreadsError>;

/// An interface's packets are received by threads until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the threads"]
pub struct ReceiveThreads {
    /// Open for writing, so that no right to files is needed at the end.
    setting: File,
    before: String,
    /// The threads, and how each ran before.
    threads: Vec<(u32, Placement)>,
}

impl ReceiveThreads {
    /// Has an interface of the calling thread's network namespace receive by threads on those
    /// processors, with the real-time priority (SCHED_FIFO, 1 to 99) where one is given. Needs
    /// `CAP_NET_ADMIN` and `CAP_SYS_NICE`, and both at the end.
    ///
    /// # Errors
    /// See [`ReceiveThreadsError`]; nothing stays changed.
    pub fn start(device: &str, cpus: &[usize], priority: Option<u8>) -> Result<Self> {
        let link = Netlink::open()?.link(device)?;
        let folder = Path::new(INTERFACES).join(link.name.to_string());
        if !shows(&folder, &link) {
            return Err(ReceiveThreadsError::OtherNamespace {
                device: device.to_owned(),
            });
        }
        let path = folder.join("threaded");
        let before = fs::read_to_string(&path).map_err(|e| failed("read", &path, e))?;
        let opened = File::options().write(true).open(&path);
        let mut started = Self {
            setting: opened.map_err(|e| failed("open", &path, e))?,
            before: before.trim().to_owned(),
            threads: Vec::new(),
        };
        if let Err(source) = started.setting.write_all_at(b"1", 0) {
            // Nothing to put back.
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

    /// How many threads there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for ReceiveThreads {
    fn drop(&mut self) {
        // Nobody is left who could be told of a failure; threads and interface may have gone.
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

/// Whether the folder is that of the interface, and not of one that has its name elsewhere.
fn shows(folder: &Path, link: &Link) -> bool {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let address: Vec<String> = link
        .address
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    read("ifindex").trim() == link.index.to_string() && read("address").trim() == address.join(":")
}

/// Whether the number is that of such a thread here: it may count in another PID namespace.
fn is_receiving(thread: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{thread}/comm"));
    name.is_ok_and(|name| name.starts_with(NAME))
}

fn failed(call: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::new(call, path.display().to_string(), source)
}

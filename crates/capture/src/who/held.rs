//! The sockets that exist when a capture is opened: who holds them, as `/proc` shows it.
//!
//! Each socket is reached through a copy of the process's descriptor, so that the record is that of this very
//! socket. If several processes hold a socket, the one that started first is recorded.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringtap_packet::process::{ProcessDescription, ProcessFacts, ProcessTag};
use ringtap_savefile::ProcessBlock;
use ringtap_sys::bpf::Map;
use ringtap_sys::cgroup::{MOUNTS, SIGN};
use ringtap_sys::process::{ProcessHandle, sends_packets};

use super::{STABLE, Who};

/// The longest command line, in bytes.
const COMMAND_MAX: usize = 4096;

/// The result of [`record`].
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Blocks that describe the processes.
    pub(super) found: Vec<Vec<u8>>,
    /// The number of processes whose descriptors could not be examined.
    pub(super) unreadable: usize,
}

/// A process.
struct Process {
    pid: u32,
    /// Hundredths of a second after boot.
    start: u64,
}

/// Writes the holders of all sockets into the sockets.
pub(super) fn record(owners: &Map, who: Who) -> Held {
    let mut held = Held::default();
    for process in processes() {
        let folder = PathBuf::from(format!("/proc/{}", process.pid));
        let Ok(descriptors) = fs::read_dir(folder.join("fd")) else {
            held.unreadable += usize::from(folder.exists());
            continue;
        };
        let is_socket = |path: &Path| {
            let target = fs::read_link(path).unwrap_or_default();
            target
                .as_os_str()
                .as_encoded_bytes()
                .starts_with(b"socket:")
        };
        let numbers = descriptors.filter_map(|entry| {
            let entry = entry.ok()?;
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            is_socket(&entry.path()).then_some(number)
        });
        let numbers: Vec<i32> = numbers.collect();
        if numbers.is_empty() {
            continue;
        }
        match process.record(&folder, &numbers, owners, who) {
            Some(block) => held.found.extend(block),
            None => held.unreadable += 1,
        }
    }
    held
}

/// Returns all processes, in the order of their start.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Process {
            pid,
            start: start_of(&stat)?,
        })
    });
    let mut processes: Vec<Process> = processes.collect();
    processes.sort_by_key(|process| (process.start, process.pid));
    processes
}

/// Returns the path of a process's executable; an empty one if it is not known.
fn executable(folder: &Path) -> String {
    let target = fs::read_link(folder.join("exe")).unwrap_or_default();
    target.to_string_lossy().into_owned()
}

/// Returns field 22 of `/proc/PID/stat`. The second field may contain anything, in parentheses.
fn start_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

impl Process {
    /// Records the process in its sockets. Returns the block that describes it, if it has a socket that sends
    /// packets. `None` if the sockets cannot be reached.
    fn record(
        &self,
        folder: &Path,
        numbers: &[i32],
        owners: &Map,
        who: Who,
    ) -> Option<Option<Vec<u8>>> {
        let handle = ProcessHandle::open(self.pid).ok()?;
        let text = |name| fs::read(folder.join(name)).unwrap_or_default();
        let mut comm = text("comm");
        let end = comm.iter().position(|byte| *byte == b'\n');
        comm.truncate(end.unwrap_or(comm.len()));
        let cgroup = cgroup_of(&String::from_utf8_lossy(&text("cgroup")));
        let facts = ProcessFacts {
            pid: self.pid,
            tid: self.pid,
            uid: uid_of(&String::from_utf8_lossy(&text("status")))
                .filter(|_| who.uid)
                .unwrap_or(u32::MAX),
            start: self.start,
            comm: if who.comm { &comm } else { &[] },
            cgroup: if who.cgroup {
                cgroup_number(&cgroup)
            } else {
                0
            },
            namespace: namespace_of(folder),
        };
        let tag = facts.encode();
        let value = [&STABLE.to_ne_bytes()[..], &tag].concat();
        let mut sends = false;
        for &number in numbers {
            let Ok(socket) = handle.take_fd(number) else {
                continue;
            };
            if !sends_packets(socket.as_fd()) {
                continue;
            }
            sends = true;
            // A process that programs have recorded meanwhile stays.
            let _ = owners.insert(socket.as_raw_fd().unsigned_abs(), &value);
        }
        let mut description = ProcessDescription::default();
        if who.command_line {
            description.command_line = text("cmdline");
            description.command_line.truncate(COMMAND_MAX);
            description.executable = executable(folder);
        }
        if who.cgroup {
            description.cgroup = cgroup;
        }
        let block = sends.then(|| {
            let mut block = Vec::new();
            let tag = ProcessTag::parse(&tag)?;
            ProcessBlock { tag, description }.encode(&mut block);
            Some(block)
        });
        Some(block.flatten())
    }
}

/// Returns the effective user, the second number behind `Uid:`.
fn uid_of(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the path in the hierarchy of version 2.
fn cgroup_of(groups: &str) -> String {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
    path.unwrap_or_default().to_owned()
}

/// Returns the number of a control group: its folder's inode. 0 if it is unknown.
fn cgroup_number(path: &str) -> u64 {
    let folders = MOUNTS.iter().map(|root| format!("{root}{path}"));
    let mut folders = folders.filter(|folder| Path::new(folder).join(SIGN).exists());
    let folder = folders.next().and_then(|folder| fs::metadata(folder).ok());
    folder.map_or(0, |folder| folder.ino())
}

/// Returns the number of the process's network namespace. 0 if it is unknown.
fn namespace_of(folder: &Path) -> u32 {
    let found = fs::metadata(folder.join("ns/net"));
    found.map_or(0, |file| u32::try_from(file.ino()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_found() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987 100 200";
        assert_eq!(start_of(stat), Some(987));
        assert_eq!(start_of("12 (a"), None);
        assert_eq!(uid_of("Name:\tx\nUid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(cgroup_of("3:cpu:/a\n0::/b/c\n"), "/b/c");
        assert_eq!(cgroup_of("3:cpu:/a\n"), "");
    }

    #[test]
    fn this_process_is_among_all() {
        let own = std::process::id();
        let found = processes();
        assert!(found.iter().any(|process| process.pid == own));
        assert!(found.is_sorted_by_key(|process| process.start));
    }
}

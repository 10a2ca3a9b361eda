//! The privileges of a process, as the kernel reports them: for display and for tests.
//!
//! Source: proc_pid_status(5).

use std::fs;
use std::io;

use super::CapabilitySet;

/// The identities and capabilities of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Real, effective, saved and file-system user ID.
    pub users: [u32; 4],
    /// Real, effective, saved and file-system group ID.
    pub groups: [u32; 4],
    /// Supplementary groups.
    pub other_groups: Vec<u32>,
    /// Capabilities that the thread may make effective.
    pub permitted: CapabilitySet,
    /// Capabilities that the kernel checks.
    pub effective: CapabilitySet,
    /// The most that a started program can gain.
    pub bounding: CapabilitySet,
    /// Whether started programs gain no privileges (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// Whether a seccomp filter checks system calls (seccomp(2)).
    pub filters_calls: bool,
}

impl Held {
    /// Reads the privileges of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn by_this_thread() -> io::Result<Self> {
        Self::read("/proc/thread-self/status")
    }

    /// Reads the privileges of all threads of the process.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn by_all_threads() -> io::Result<Vec<Self>> {
        let tasks = fs::read_dir("/proc/self/task")?;
        // A thread may end in the meantime.
        let all = tasks.flatten().map(|task| task.path().join("status"));
        Ok(all.filter_map(|path| Self::read(path).ok()).collect())
    }

    fn read(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let numbers = |name| -> Option<Vec<u32>> {
            let words = field(name)?.split_whitespace();
            words.map(|word| word.parse().ok()).collect()
        };
        let set = |name| {
            let bits = u64::from_str_radix(field(name)?.trim(), 16);
            bits.ok().map(CapabilitySet)
        };
        let number = |name| field(name)?.trim().parse::<u32>().ok();
        Some(Self {
            users: numbers("Uid")?.try_into().ok()?,
            groups: numbers("Gid")?.try_into().ok()?,
            other_groups: numbers("Groups")?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            no_new_privileges: number("NoNewPrivs")? == 1,
            // Kernels without seccomp do not have this line.
            filters_calls: number("Seccomp").is_some_and(|mode| mode == 2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_capabilities_are_those_of_the_call() {
        let held = Held::by_this_thread().expect("/proc is mounted");
        let told = crate::privileges::capabilities().expect("own");
        assert_eq!(
            (held.effective, held.permitted),
            (told.effective, told.permitted)
        );
        // Tests run in threads.
        let all = Held::by_all_threads().expect("/proc is mounted");
        assert!(all.contains(&held), "{all:?}");
    }
}

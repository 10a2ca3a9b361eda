//! Control groups that limit memory.

use std::path::{Path, PathBuf};

/// The folders of the groups, and the files of their limit: version 1 of the interface, then 2.
const ROOTS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];

/// A control group with limited memory, removed with the value. Needs [`crate::Need::MemoryGroup`].
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Creates a group with this limit in bytes; returns `None` if that is not possible. Processes
    /// enter it by writing their number to `cgroup.procs` in its folder.
    #[must_use]
    pub fn new(limit: u64) -> Option<Self> {
        let name = format!("ringtap-test-{}", std::process::id());
        ROOTS.iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            // From here on, the folder is removed with the value.
            let group = Self(folder);
            std::fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        })
    }

    /// Returns the group's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // If a process has not left the group completely, the empty group remains.
        let _ = std::fs::remove_dir(&self.0);
    }
}

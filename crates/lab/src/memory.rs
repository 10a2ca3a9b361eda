//! Control groups that limit memory.

use std::path::{Path, PathBuf};

/// Where the groups are, and where their limit is written: version 1 of the interface, then 2.
const ROOTS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];

/// A control group whose memory is limited; gone with the value. Needs
/// [`crate::Need::MemoryGroup`].
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A group with that limit in bytes; nothing where none can be had. Processes enter it by writing
    /// their number to `cgroup.procs` in its folder.
    #[must_use]
    pub fn new(limit: u64) -> Option<Self> {
        let name = format!("ringtap-test-{}", std::process::id());
        ROOTS.iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            // From here on, the folder goes with the value.
            let group = Self(folder);
            std::fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        })
    }

    /// The group's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group that a process has not quite left stays, empty.
        let _ = std::fs::remove_dir(&self.0);
    }
}

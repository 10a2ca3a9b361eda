//! Control groups (version 2) of a test's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringtap_sys::cgroup::{MOUNTS, SIGN};

/// The number of attempts to remove a group: it still holds processes that have just ended.
const ATTEMPTS: u32 = 100;

/// A control group that exists as long as the value. Its processes must end before.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    path: String,
}

impl ControlGroup {
    /// Creates a group with this name in a group of the test's own.
    ///
    /// # Errors
    /// The hierarchy is not mounted, or the caller may not create groups.
    pub fn new(name: &str) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut mounts = MOUNTS.iter().map(Path::new);
        let mount = mounts.find(|mount| mount.join(SIGN).exists());
        let mount = mount.ok_or(io::ErrorKind::NotFound)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/ringtap-test-{}-{number}/{name}", std::process::id());
        let folder = mount.join(path.trim_start_matches('/'));
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, path })
    }

    /// Returns its path, from the root group on.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// The process is gone, or may not be moved.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => break,
            }
        }
        // Those above it, up to one that others use.
        let mut above = self.folder.ancestors().skip(1);
        while above
            .next()
            .is_some_and(|folder| fs::remove_dir(folder).is_ok())
        {}
    }
}

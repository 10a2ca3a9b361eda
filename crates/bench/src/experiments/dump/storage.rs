//! The file systems that captures are written to, and the captures' contents.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap_capture::{Next, ReadOptions, Source as _, open_file};

use crate::helpers::float;
use crate::session::{Done, Session};

/// A file system.
pub(crate) struct Storage {
    /// Its type, with its device.
    pub(crate) name: String,
    /// A folder on it.
    pub(crate) folder: PathBuf,
    bytes: u64,
    /// Removes the folder.
    _owner: tempfile::TempDir,
}

/// The number of bytes written to measure the rate.
const BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 256 << 20;
const PIECE: usize = 1 << 20;

impl Storage {
    /// Returns a file system on a disk and one in memory, if they exist.
    pub(crate) fn find(session: &mut Session) -> Vec<Self> {
        let bytes = session.amount(BYTES, QUICK_BYTES);
        let mut found: Vec<Self> = Vec::new();
        let others = ["/var/tmp", ".", "/dev/shm"].map(PathBuf::from);
        for folder in std::iter::once(std::env::temp_dir()).chain(others) {
            let (Some(kind), Ok(owner)) = (kind_of(&folder), tempfile::tempdir_in(&folder)) else {
                continue;
            };
            let name = if kind == "tmpfs" {
                "tmpfs, in memory".to_owned()
            } else {
                kind
            };
            // One in memory, and one that is not.
            let is_memory = |name: &str| name.starts_with("tmpfs");
            if found
                .iter()
                .all(|other| is_memory(&other.name) != is_memory(&name))
            {
                found.push(Self {
                    name,
                    folder: owner.path().to_owned(),
                    bytes,
                    _owner: owner,
                });
            }
        }
        found.sort_by_key(|storage| storage.name.starts_with("tmpfs"));
        if found.len() < 2 {
            session.note("only one kind of file system is there to write to");
        }
        found
    }

    /// Returns the first of them.
    pub(crate) fn first(session: &mut Session) -> Done<Self> {
        let first = Self::find(session).into_iter().next();
        Ok(first.ok_or("there is no folder to write to")?)
    }

    /// Returns the bytes a second that it writes, until they are on the disk.
    pub(crate) fn sequential_rate(&self) -> Done<f64> {
        let path = self.folder.join("sequential");
        let measure = || -> io::Result<f64> {
            let piece: Vec<u8> = (0..=u8::MAX).cycle().take(PIECE).collect();
            let mut file = File::create(&path)?;
            let begun = Instant::now();
            for _ in 0..self.bytes / PIECE as u64 {
                file.write_all(&piece)?;
            }
            file.sync_data()?;
            Ok(float(self.bytes) / begun.elapsed().as_secs_f64())
        };
        let failed = |error| format!("{}: {error}", path.display());
        let rate = measure().map_err(failed);
        std::fs::remove_file(&path).map_err(failed)?;
        Ok(rate?)
    }
}

/// Returns the type of the file system of a path (`/proc/self/mountinfo`, proc(5)).
fn kind_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        let kind = system.split(' ').next()?;
        path.starts_with(point).then_some((point.len(), kind))
    });
    // If two are mounted on the same point, the later one hides the earlier.
    let (_, kind) = mounted.max_by_key(|(length, _)| *length)?;
    Some(kind.to_owned())
}

/// Waits until a file stops growing.
pub(crate) fn settle(file: &Path) {
    settle_by(Duration::from_millis(200), file);
}

/// The same for a file that never pauses longer than twice a step.
pub(crate) fn settle_by(step: Duration, file: &Path) {
    const STEPS: usize = 75;
    let size = || file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    let mut sizes = [u64::MAX; 3];
    for _ in 0..STEPS {
        std::thread::sleep(step);
        sizes.rotate_left(1);
        sizes[2] = size();
        if sizes.iter().all(|other| *other == sizes[2]) {
            return;
        }
    }
}

/// Counts the packets in a capture file, which may end anywhere.
pub(crate) fn packets_in(file: &Path) -> Result<u64, ringtap_capture::Error> {
    let mut source = open_file(file, &ReadOptions::default(), None)?;
    let mut packets = 0;
    loop {
        match source.next() {
            Ok(Next::Block(block)) => packets += block.len() as u64,
            Ok(Next::End) | Err(_) => return Ok(packets),
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::kind_of;

    #[test]
    fn the_type_of_a_file_system_is_found() {
        assert_eq!(kind_of(Path::new("/proc/self")).as_deref(), Some("proc"));
        assert_eq!(kind_of(Path::new("/no such place")), None);
    }
}

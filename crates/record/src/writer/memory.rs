//! The default limit of the queue's memory.
//!
//! If a disk is busy, or packets arrive faster than it writes, the queue fills; when it is full, packets are
//! lost. Unused memory is well used for the queue, as the page cache would use it; see [`automatic`].

use std::fs;
use std::path::Path;

/// The minimum and the maximum, in bytes.
const LEAST: u64 = 64 << 20;
const MOST: u64 = 512 << 20;
/// The share of the free memory.
const SHARE: u64 = 8;

/// Returns an eighth of the memory that is available to the process, at least 64 MiB and at most 512 MiB.
pub fn automatic() -> u64 {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = available(&text("/proc/meminfo")).unwrap_or(0);
    let group = group(&text("/proc/self/cgroup")).map_or(u64::MAX, |group| {
        let mut paths = Path::new(group).ancestors();
        let left = paths.try_fold(u64::MAX, |least, path| {
            let number = |name: &str| -> Option<u64> {
                let path = path.strip_prefix("/").unwrap_or(path);
                let file = Path::new("/sys/fs/cgroup").join(path).join(name);
                fs::read_to_string(file).ok()?.trim().parse().ok()
            };
            // Without a limit, there is no number.
            let limit = number("memory.max").unwrap_or(u64::MAX);
            let used = number("memory.current").unwrap_or(0);
            Some(least.min(limit.saturating_sub(used)))
        });
        left.unwrap_or(u64::MAX)
    });
    (system.min(group) / SHARE).clamp(LEAST, MOST)
}

/// Returns the kernel's estimate of memory available without swapping (proc(5)), in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the process's group in the unified hierarchy (cgroups(7)).
fn group(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_tables_are_read() {
        let meminfo = "MemTotal:       24683520 kB\nMemAvailable:   23612416 kB\nBuffers: 1 kB\n";
        assert_eq!(available(meminfo), Some(23_612_416 << 10));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(
            group("1:cpu:/a\n0::/system.slice/x\n"),
            Some("/system.slice/x")
        );
        assert_eq!(group("1:cpu:/a\n"), None);
    }

    #[test]
    fn it_is_within_its_bounds() {
        assert!((LEAST..=MOST).contains(&automatic()));
    }
}

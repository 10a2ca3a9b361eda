//! Advice to the kernel and to the C library about memory, and the amount of free memory.
//!
//! Advice can make memory faster. It maps and unmaps nothing, and changes no contents.
//!
//! Source: madvise(2), mallopt(3), sysinfo(2).

use std::ops::Range;

use crate::{Error, Result};

/// The smallest page size of every architecture that Linux supports, in bytes.
const PAGE: usize = 4096;

/// Advises the kernel to use huge pages (2 MiB on x86-64) for these addresses. This saves page
/// faults, and page-table walks where access is random. Pages that are already mapped stay as they
/// are; partial pages at either end are left out.
///
/// # Errors
/// `EINVAL` if the kernel has no transparent huge pages, `ENOMEM` if some addresses are not mapped.
pub fn prefer_large_pages(addresses: Range<usize>) -> Result<()> {
    let start = addresses.start.next_multiple_of(PAGE);
    let length = addresses.end.saturating_sub(start) / PAGE * PAGE;
    if length == 0 {
        return Ok(());
    }
    let start = std::ptr::without_provenance_mut::<libc::c_void>(start);
    // SAFETY: this advice changes no content and no access right, whatever is mapped at these
    // addresses, or nothing (madvise(2), "MADV_HUGEPAGE"); the kernel checks them.
    let result = unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    Error::check(result, "madvise(MADV_HUGEPAGE)", "")
}

/// Returns each freed allocation of this many bytes or more to the kernel at once, for the whole process. A
/// program that runs for long and replaces large tables needs it: freed tables otherwise leave gaps between
/// small allocations that stay. Returns whether the C library can do so: only the GNU one can.
pub fn return_freed(bytes: u32) -> bool {
    #[cfg(target_env = "gnu")]
    {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: the threshold is a number that later allocations read; no allocation that exists changes
        // (mallopt(3), "M_MMAP_THRESHOLD").
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = bytes;
        false
    }
}

/// Returns the bytes of memory that are not used at all, without the page cache, which could be
/// freed. This is one cheap system call; reading `/proc/meminfo` costs much more.
#[must_use]
pub fn free() -> Option<u64> {
    // SAFETY: the structure holds integers only, for which zero is valid.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable for its own size, and outlives the call.
    let result = unsafe { libc::sysinfo(&raw mut info) };
    (result == 0).then(|| info.freeram.saturating_mul(info.mem_unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_less_than_all_memory() {
        let text = std::fs::read_to_string("/proc/meminfo").expect("a mounted /proc");
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|rest| rest.trim().strip_suffix("kB"));
        let total: u64 = total.expect("MemTotal").trim().parse().expect("a number");
        let free = free().expect("a number");
        assert!(free > 0 && free < total * 1024, "{free} of {total} KiB");
    }

    #[test]
    fn content_stays_and_addresses_without_memory_are_refused() {
        let memory = vec![7_u8; 8 << 20];
        let range = memory.as_ptr_range();
        let advised = prefer_large_pages(range.start.addr()..range.end.addr());
        // A kernel without huge pages rejects the advice.
        if let Err(error) = advised {
            assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        }
        assert!(memory.iter().all(|&byte| byte == 7));
        assert!(prefer_large_pages(PAGE..3 * PAGE).is_err());
        assert!(prefer_large_pages(0..100).is_ok());
        #[expect(clippy::reversed_empty_ranges, reason = "that is the test")]
        let reversed = prefer_large_pages(100 * PAGE..3);
        assert!(reversed.is_ok());
    }
}

//! Advice to the kernel about memory, and how much of it is free.
//!
//! What it is: hints that change how fast memory is, and a number. What it is not: it neither
//! maps nor unmaps, and no hint can change what is in memory.
//!
//! Source: madvise(2), sysinfo(2).

use std::ops::Range;

use crate::{Error, Result};

/// Bytes of a page as the processor maps it at least, on every machine that Linux runs on.
const PAGE: usize = 4096;

/// Says that the memory at these addresses had better lie in large pages (2 MiB on x86-64), which
/// spares page faults, and searches of the page tables where access jumps about. Pages that are
/// there already stay as they are; the parts of a page at either end are left out.
///
/// # Errors
/// A kernel without transparent huge pages (`EINVAL`); addresses where no memory is (`ENOMEM`).
pub fn prefer_large_pages(addresses: Range<usize>) -> Result<()> {
    let start = addresses.start.next_multiple_of(PAGE);
    let length = addresses.end.saturating_sub(start) / PAGE * PAGE;
    if length == 0 {
        return Ok(());
    }
    let start = std::ptr::without_provenance_mut::<libc::c_void>(start);
    // SAFETY: this advice changes no content and no access right, whatever is at these addresses, be
    // it nothing (madvise(2), "MADV_HUGEPAGE"); the kernel checks them.
    let result = unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    if result == 0 {
        Ok(())
    } else {
        Err(Error::last("madvise(MADV_HUGEPAGE)", ""))
    }
}

/// Bytes of memory that hold nothing at all; what the system keeps of files, and could give up, comes on
/// top. One system call, which counts nothing: much less than a look into `/proc/meminfo`.
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
        // Without large pages in the kernel, there is nothing to advise.
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

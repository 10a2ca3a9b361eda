//! Advice to the kernel about memory.
//!
//! What it is: hints that change how fast memory is, and nothing else. What it is not: it neither
//! maps nor unmaps, and no hint can change what is in memory.
//!
//! Source: madvise(2).

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

#[cfg(test)]
mod tests {
    use super::*;

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

//! Packets at the end of readable memory, so that a read beyond the end crashes.

use std::ptr;

const PAGE: usize = 4096;

/// Pages, each followed by an unreadable one.
pub(crate) struct Guarded {
    base: *mut u8,
    pages: usize,
}

impl Guarded {
    /// Maps room for `pages` packets of up to a page each.
    pub(crate) fn new(pages: usize) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), pages * 2 * PAGE, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "no memory");
        let base = base.cast::<u8>();
        for page in 0..pages {
            // SAFETY: the odd pages of the mapping just made; nothing refers to them.
            let done = unsafe {
                let guard = base.add((page * 2 + 1) * PAGE);
                libc::mprotect(guard.cast(), PAGE, libc::PROT_NONE)
            };
            assert_eq!(done, 0, "mprotect");
        }
        Self { base, pages }
    }

    /// Copies each packet to the end of a page.
    pub(crate) fn place<'a>(&'a mut self, packets: &[&[u8]]) -> Vec<&'a [u8]> {
        assert!(packets.len() <= self.pages, "one page for each packet");
        let mut placed = Vec::new();
        for (page, bytes) in packets.iter().enumerate() {
            assert!(bytes.len() <= PAGE, "a packet is smaller than a page");
            // SAFETY: the last bytes of an even page, which is readable and writable; the pages
            // are distinct, and stay borrowed through `self` as long as the slices live.
            unsafe {
                let at = self.base.add((page * 2 + 1) * PAGE - bytes.len());
                ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
                placed.push(std::slice::from_raw_parts(at, bytes.len()));
            }
        }
        placed
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing borrows it any more.
        let done = unsafe { libc::munmap(self.base.cast(), self.pages * 2 * PAGE) };
        assert_eq!(done, 0, "munmap");
    }
}

//! Packets that end where readable memory ends, so that a read beyond is a crash. For tests (feature `testing`).

use std::ptr;

const PAGE: usize = 4096;

/// Pages with an unreadable one after each.
#[derive(Debug)]
pub struct Guarded {
    base: *mut u8,
    pages: usize,
}

impl Guarded {
    /// Maps room for this many packets of up to a page.
    ///
    /// # Panics
    /// Without memory.
    #[must_use]
    pub fn new(pages: usize) -> Self {
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

    /// Copies the bytes to the end of each page.
    ///
    /// # Panics
    /// There are more packets than pages, or one is longer than a page.
    pub fn place<'a>(&'a mut self, packets: &[&[u8]]) -> Vec<&'a [u8]> {
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

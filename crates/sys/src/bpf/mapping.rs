//! An array map's memory in the application, read-only except for given ranges.
//!
//! Programs in the kernel write to the same memory at any time, on any CPU. Therefore no safe
//! function here returns a slice. Single words are accessed as atomics. [`Mapping::bytes`] is
//! `unsafe`: only the module that owns the layout knows which bytes do not change.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::error::{Error, Result};
use super::map::{Map, MapKind};

/// A mapped array map; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    writable: Range<usize>,
}

// SAFETY: the mapping is plain memory that any thread may use; all shared access is atomic, or
// unsafe with its own conditions.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all elements of an array map created with `mmapable`: read-only, except for the byte
    /// range `writable` (whole pages, may be empty). Values follow one another, each padded to 8
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Size`] if the range does not consist of whole pages inside the map. Otherwise the
    /// errors of mmap(2): `EPERM` for a writable range in a frozen map, `ENOMEM`, and `EINVAL` for
    /// other kinds of map.
    pub fn new(map: &Map, writable: Range<usize>) -> Result<Self> {
        let elements = map.max_entries() as usize;
        let len = map.value_size().next_multiple_of(8) * elements;
        Self::part(map, 0, len.next_multiple_of(page_size()), writable)
    }

    /// Maps one value, which begins and ends with a page, as [`Mapping::new`]; `writable` is a
    /// range of it.
    ///
    /// # Errors
    /// The same as [`Mapping::new`]; [`Error::Size`] for values that do not consist of whole pages.
    pub fn of_value(map: &Map, index: u32, writable: Range<usize>) -> Result<Self> {
        let (len, page) = (map.value_size(), page_size());
        if !len.is_multiple_of(page) || index >= map.max_entries() {
            return Err(Error::Size {
                map: map.name().to_owned(),
                what: "pages of a value",
                expected: len.next_multiple_of(page),
                found: len,
            });
        }
        Self::part(map, index as usize * len, len, writable)
    }

    /// Maps `len` bytes of the map from `from` on.
    fn part(map: &Map, from: usize, len: usize, writable: Range<usize>) -> Result<Self> {
        let page = page_size();
        let aligned = writable.start.is_multiple_of(page) && writable.end.is_multiple_of(page);
        if !aligned || writable.start > writable.end || writable.end > len {
            let found = writable.end;
            let map = map.name().to_owned();
            return Err(Error::Size {
                map,
                what: "writable pages",
                expected: len,
                found,
            });
        }
        if !matches!(map.kind(), MapKind::Array { mmapable: true, .. }) {
            return Err(failed(map, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let start = map_pages(map, None, from, len, libc::PROT_READ)?;
        let mapping = Self {
            start,
            len,
            writable,
        };
        if !mapping.writable.is_empty() {
            let Range { start: first, end } = mapping.writable.clone();
            let at = mapping.at(first);
            map_pages(
                map,
                Some(at),
                from + first,
                end - first,
                libc::PROT_READ | libc::PROT_WRITE,
            )?;
        }
        Ok(mapping)
    }

    /// Returns the bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing is mapped, which does not happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the byte range that may be written.
    #[must_use]
    pub fn writable(&self) -> Range<usize> {
        self.writable.clone()
    }

    /// Returns the address of the first byte, for calls that take memory by address.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Returns the 64-bit word at an offset in the writable range.
    ///
    /// # Panics
    /// If the word is not aligned or not in the writable range. For words that are only read, call
    /// [`Mapping::load_u64`].
    #[must_use]
    pub fn word_u64(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert!(
            self.is_writable(offset, 8),
            "offset {offset} is on a read-only page"
        );
        // SAFETY: in bounds and aligned as just checked, mapped for as long as `self` lives; all
        // sides, including programs in the kernel, access the word whole.
        unsafe { AtomicU64::from_ptr(self.at(offset).as_ptr().cast()) }
    }

    /// Loads the 64-bit word at an offset, on any page, with acquire ordering: writes made before
    /// the word was published are visible afterwards.
    ///
    /// # Panics
    /// If the word is not aligned or not inside the mapping.
    #[must_use]
    #[inline]
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.check(offset, 8);
        // SAFETY: as for `word_u64`; a load writes nothing, so a read-only page is enough (64-bit
        // targets load it by one plain instruction).
        let word = unsafe { AtomicU64::from_ptr(self.at(offset).as_ptr().cast()) };
        word.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Returns bytes that do not change.
    ///
    /// # Safety
    /// No program and no other thread writes to any of them while the slice lives.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[must_use]
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "outside the mapping"
        );
        // SAFETY: in bounds as just checked, mapped and initialised (by the kernel, with zeros) for
        // as long as `self` lives; the caller promises that nothing writes to them.
        unsafe { std::slice::from_raw_parts(self.at(range.start).as_ptr(), range.len()) }
    }

    fn is_writable(&self, offset: usize, size: usize) -> bool {
        self.writable.start <= offset && offset + size <= self.writable.end
    }

    fn check(&self, offset: usize, size: usize) {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.len);
        assert!(
            inside && offset.is_multiple_of(size),
            "offset {offset} of {}",
            self.len
        );
    }

    /// Returns the address of an offset inside the mapping.
    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.len);
        // SAFETY: every caller has checked that the offset is inside the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `part`, which nothing can use
        // any more: every borrow of it ended with `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Maps `len` bytes of the map from `offset` on; with `over`, in place of the pages there.
fn map_pages(
    map: &Map,
    over: Option<NonNull<u8>>,
    offset: usize,
    len: usize,
    protection: i32,
) -> Result<NonNull<u8>> {
    let fixed = if over.is_some() { libc::MAP_FIXED } else { 0 };
    let hint = over.map_or(std::ptr::null_mut(), |at| at.as_ptr().cast());
    let offset = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    // SAFETY: without `over`, the kernel picks free addresses; with it, only pages of the mapping
    // are replaced that `Mapping::part` has just made and not yet returned.
    let address = unsafe {
        libc::mmap(
            hint,
            len,
            protection,
            libc::MAP_SHARED | fixed,
            map.as_fd().as_raw_fd(),
            offset,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(failed(map, io::Error::last_os_error()));
    }
    NonNull::new(address.cast()).ok_or_else(|| failed(map, io::ErrorKind::OutOfMemory.into()))
}

fn failed(map: &Map, source: io::Error) -> Error {
    Error::call("mmap(bpf map)", map.name(), source, None)
}

/// Returns the bytes of a page.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: `sysconf` takes any name and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

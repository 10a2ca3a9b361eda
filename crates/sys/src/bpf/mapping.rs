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
use crate::pages::{Pages, READ_WRITE};

/// A mapped array map; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    pages: Pages,
    writable: Range<usize>,
}

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
        let pages = Pages::map(
            Some(map.as_fd()),
            from,
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
        );
        let pages = pages.map_err(|source| failed(map, source))?;
        let mapping = Self { pages, writable };
        if !mapping.writable.is_empty() {
            mapping.make_writable(map, from)?;
        }
        Ok(mapping)
    }

    /// Maps the writable range again, in place of the pages there.
    fn make_writable(&self, map: &Map, from: usize) -> Result<()> {
        let place = self.at(self.writable.start).as_ptr().cast();
        let offset = from + self.writable.start;
        let offset = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let (len, fd) = (self.writable.len(), map.as_fd().as_raw_fd());
        // SAFETY: only pages of this mapping are replaced, which `part` has not yet returned.
        let made = unsafe { libc::mmap(place, len, READ_WRITE, flags, fd, offset) };
        if made == libc::MAP_FAILED {
            return Err(failed(map, io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Returns the bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.len
    }

    /// Returns whether nothing is mapped, which does not happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.len == 0
    }

    /// Returns the byte range that may be written.
    #[must_use]
    pub fn writable(&self) -> Range<usize> {
        self.writable.clone()
    }

    /// Returns the address of the first byte, for calls that take memory by address.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.pages.start.as_ptr()
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
            range.start <= range.end && range.end <= self.pages.len,
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
        let inside = offset
            .checked_add(size)
            .is_some_and(|end| end <= self.pages.len);
        assert!(
            inside && offset.is_multiple_of(size),
            "offset {offset} of {}",
            self.pages.len
        );
    }

    /// Returns the address of an offset inside the mapping.
    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.pages.len);
        // SAFETY: every caller has checked that the offset is inside the mapping.
        unsafe { self.pages.start.add(offset) }
    }
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

//! Arrays that C frees.

use std::ffi::c_int;

/// Returns a copy in memory of `malloc`; `None` if there is no memory.
pub(crate) fn array<T: Copy>(items: &[T]) -> Option<*mut T> {
    let bytes = size_of_val(items).max(1);
    // SAFETY: takes no pointer.
    let memory = unsafe { libc::malloc(bytes) }.cast::<T>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: the memory has room for all items, is aligned for every type, and nothing else uses
    // it.
    unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), memory, items.len()) };
    Some(memory)
}

/// Returns the items of a slice of C; empty for null.
///
/// # Safety
///
/// `items` is null or points to `len` items that outlive the call.
pub(crate) unsafe fn items<'a, T>(items: *const T, len: usize) -> &'a [T] {
    if items.is_null() {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(items, len) }
}

/// Frees an array of [`array()`]; does nothing for null.
pub(crate) fn free(array: *mut c_int) {
    // SAFETY: C's contract: `array` made it, and it is freed once.
    unsafe { libc::free(array.cast()) };
}

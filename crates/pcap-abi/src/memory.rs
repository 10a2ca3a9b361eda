//! Arrays that C frees.

use std::ffi::c_int;

/// A copy in memory of `malloc`; nothing where there is none.
pub(crate) fn array<T: Copy>(items: &[T]) -> Option<*mut T> {
    let bytes = size_of_val(items).max(1);
    // SAFETY: takes no pointer.
    let memory = unsafe { libc::malloc(bytes) }.cast::<T>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: the memory has room for all items, is aligned for every type, and is nobody else's.
    unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), memory, items.len()) };
    Some(memory)
}

/// Frees an array that C hands back; null is none.
pub(crate) fn free(array: *mut c_int) {
    // SAFETY: C's contract: it was made by `array`, and is handed back once.
    unsafe { libc::free(array.cast()) };
}

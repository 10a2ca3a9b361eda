//! Cancellation of threads: pthread_cancel(3) ends a thread by unwinding its stack, through the
//! functions that it is in. Rust's frames with something to drop, and the boundary, can't be unwound
//! so. Therefore a thread is not cancelled within the library, but at points between two waits,
//! where there is nothing of Rust's on the stack but the exported function itself.

use std::ffi::c_int;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// `PTHREAD_CANCEL_DISABLE` (pthread.h).
const DISABLE: c_int = 1;

/// Keeps the thread from being cancelled while the value lives.
pub(crate) struct Held(c_int);

impl Held {
    pub(crate) fn new() -> Self {
        let mut before = DISABLE;
        // SAFETY: the pointer is to a number of this function.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state is the one that was told; nowhere is null taken amiss by glibc and musl,
        // yet a place is given.
        unsafe { pthread_setcancelstate(self.0, &raw mut self.0) };
    }
}

/// Runs `step` until it has a result, and lets the thread be cancelled before each.
///
/// What is called here, and what calls it, has nothing to drop.
#[inline]
pub(crate) fn between<T>(mut step: impl FnMut() -> Option<T>) -> T {
    loop {
        // SAFETY: takes nothing. Where it unwinds, it passes this frame and the exported function's,
        // which have nothing to drop, and which C may unwind.
        unsafe { pthread_testcancel() };
        if let Some(result) = step() {
            return result;
        }
    }
}

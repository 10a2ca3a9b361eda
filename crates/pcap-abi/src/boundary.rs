//! The boundary between C and Rust, which no panic crosses.
//!
//! A cancellation (pthread_cancel(3)), which unwinds the thread's stack, must not cross it either: threads
//! are not cancelled inside the boundary. Functions that wait for packets do so before it, where no value has
//! a destructor ([`export_waiting`]).

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exports functions under their C names. Each body runs inside the boundary: if it panics, the function
/// returns the value after `else`.
///
/// The types of pointer arguments state the contract with C: `Option<&T>` and `Option<&mut T>` are
/// null or valid, [`crate::text::CText`] is null or a string.
macro_rules! export {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
        else $fallback:expr;
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $kind),*) $(-> $result)? {
            $crate::boundary::guard(move || $body, || $fallback)
        }
    )*};
}
pub(crate) use export;

/// Exports functions that may wait, as [`export`]. The body gets the call's progress so far, and returns its
/// result or what to wait for. After the wait it runs again, unless the handle was closed in the meantime.
/// Then the function returns the value after `closed`, and does not touch the handle.
macro_rules! export_waiting {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty |$progress:ident| $body:block
        else $fallback:expr, closed $gone:expr;
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name($(mut $arg: $kind),*) -> $result {
            let mut progress = $crate::wait::Progress::new();
            loop {
                let step = {
                    let $progress = &mut progress;
                    $(let $arg = &mut $arg;)*
                    $crate::boundary::guard(
                        move || $body,
                        || $crate::wait::Step::Done($fallback),
                    )
                };
                match step {
                    $crate::wait::Step::Done(result) => return result,
                    $crate::wait::Step::Wait(wait) => $crate::wait::sleep(wait, &mut progress),
                }
                if $crate::boundary::guard(|| progress.is_gone(), || false) {
                    return $gone;
                }
            }
        }
    )*};
}
pub(crate) use export_waiting;

/// Exports functions whose calls mostly finish before the boundary, because the boundary costs as much as
/// their work. If the first expression returns `None`, the body runs inside the boundary, as in [`export`].
///
/// The first expression calls nothing that panics or allocates, and keeps no value with a
/// destructor.
macro_rules! export_quick {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)?
        { $quick:expr } otherwise $body:block
        else $fallback:expr;
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $kind),*) $(-> $result)? {
            if let Some(result) = $quick {
                return result;
            }
            $crate::boundary::guard(move || $body, || $fallback)
        }
    )*};
}
pub(crate) use export_quick;

/// Runs `body`, and returns the value of `fallback` if it panics.
#[inline]
pub(crate) fn guard<T>(body: impl FnOnce() -> T, fallback: impl FnOnce() -> T) -> T {
    let before = set_cancelling(NOT_CANCELLED);
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| fallback());
    set_cancelling(before);
    result
}

/// `PTHREAD_CANCEL_DISABLE`.
const NOT_CANCELLED: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Allows or forbids cancelling the thread; returns the previous state.
#[inline]
fn set_cancelling(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: the place for the previous state is writable. The call is no cancellation point.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback() {
        assert_eq!(guard(|| 1, || 2), 1);
        let caught = guard(
            || {
                if "a".len() == 1 {
                    panic!("on purpose")
                } else {
                    1
                }
            },
            || 2,
        );
        assert_eq!(caught, 2);
    }
}

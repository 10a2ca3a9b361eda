//! The boundary that no panic crosses.
//!
//! Nor does a cancellation (pthread_cancel(3)), which unwinds the thread's stack: behind the boundary
//! threads are not cancelled. Functions that wait for packets do that in front of it, where no value has
//! a destructor ([`export_waiting`]).

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exports functions under the names that C knows. Each body runs behind the boundary: a panic
/// becomes the value after `else`.
///
/// Arguments that are pointers have types that say what C must keep to: `Option<&T>` and
/// `Option<&mut T>` are null or valid, [`crate::text::CText`] is null or a string.
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

/// Exports functions that may wait, as [`export`]. The body is given what is known of the call so far, and
/// tells its result or what to wait for; then it is run again, unless the handle was closed meanwhile: then
/// the value after `closed` is returned, and the handle not touched.
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

/// Exports functions most of whose calls are done before the boundary, which costs as much as they do:
/// where the first expression gives `None`, the body is run behind the boundary, as by [`export`].
///
/// The first expression calls nothing that panics or allocates, and keeps no value with a destructor.
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

/// Runs `body`, and gives `fallback`'s value where it panics.
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

/// Whether the thread can be cancelled; returns what was before.
#[inline]
fn set_cancelling(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: the place for the state before is writable. The call is no cancellation point.
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

//! The boundary that no panic crosses.

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
        pub(crate) extern "C-unwind" fn $name($($arg: $kind),*) $(-> $result)? {
            let _held = $crate::cancel::Held::new();
            $crate::boundary::guard(move || $body, || $fallback)
        }
    )*};
}
pub(crate) use export;

/// The same for functions that are called per packet and wait for nothing: they don't keep
/// their thread from being cancelled, which would cost as much as they do.
macro_rules! export_fast {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
        else $fallback:expr;
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name($($arg: $kind),*) $(-> $result)? {
            $crate::boundary::guard(move || $body, || $fallback)
        }
    )*};
}
pub(crate) use export_fast;

/// The same for functions that wait, in steps: a body that gives nothing is run again, and in between
/// the thread may be cancelled. Arguments are copied for each step.
macro_rules! export_waiting {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty,
        from $progress:ident = $initial:expr => $body:block
        else $fallback:expr;
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name($($arg: $kind),*) -> $result {
            let mut progress = $initial;
            $crate::cancel::between(|| {
                let $progress = &mut progress;
                $crate::boundary::guard(move || $body, || Some($fallback))
            })
        }
    )*};
}
pub(crate) use export_waiting;

/// Runs `body`, and gives `fallback`'s value where it panics.
#[inline]
pub(crate) fn guard<T>(body: impl FnOnce() -> T, fallback: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| fallback())
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

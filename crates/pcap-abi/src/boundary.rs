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
        pub(crate) extern "C" fn $name($($arg: $kind),*) $(-> $result)? {
            $crate::boundary::guard(move || $body, || $fallback)
        }
    )*};
}
pub(crate) use export;

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

//! How structs of options are declared, in all crates.

/// Declares a struct of options that may get more fields later, with a method for each field: it takes
/// the options, changes the field and returns them.
///
/// ```
/// ringtap_packet::options! {
///     /// Says how long the answer is.
///     #[derive(Debug, Default)]
///     pub struct AnswerOptions {
///         /// Bytes of the answer.
///         pub bytes: u32,
///     }
/// }
/// assert_eq!(AnswerOptions::default().bytes(5).bytes, 5);
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $value:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $value,)*
        }

        impl $name {
            $(
                #[doc = concat!("Returns the options with another [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

//! Objects of JSON, as they are printed.

/// Declares an object that is made from some values: a line for each key, with its type and its value. The keys are
/// printed in this order.
macro_rules! object {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident($($given:ident: $of:ty),* $(,)?) {
        $($(#[$rule:meta])* $shown:vis $key:ident: $kind:ty = $value:expr,)+
    }) => {
        $(#[$attribute])*
        #[derive(serde::Serialize)]
        $visible struct $name {
            $($(#[$rule])* $shown $key: $kind,)+
        }

        impl $name {
            $visible fn new($($given: $of),*) -> Self {
                Self { $($key: $value,)+ }
            }
        }
    };
}

pub(crate) use object;

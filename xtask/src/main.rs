//! What CI and people call.
#![forbid(unsafe_code)]
fn main() {}

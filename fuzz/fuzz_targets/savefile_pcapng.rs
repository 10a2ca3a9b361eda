//! Random bytes as a pcapng file, unchanged and after a valid section header and interface.
#![no_main]

#[path = "savefile/check.rs"]
mod check;
#[path = "savefile/read.rs"]
mod read;

/// A little-endian section and an Ethernet interface.
const PRELUDE: [u8; 48] = [
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0, //
    1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
    check::check(&[&PRELUDE, input].concat());
});

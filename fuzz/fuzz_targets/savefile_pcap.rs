//! Random bytes after one of pcap's magics.
#![no_main]

#[path = "savefile/check.rs"]
mod check;
#[path = "savefile/read.rs"]
mod read;

const MAGICS: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
    // The same content as another variant.
    if let Some((&[choice, ..], rest)) = input.split_first_chunk::<4>() {
        let magic = MAGICS[usize::from(choice) % MAGICS.len()];
        for magic in [magic.to_le_bytes(), magic.to_be_bytes()] {
            check::check(&[&magic, rest].concat());
        }
    }
});

//! Descriptions of packets, and rules that change them, both of any text, on frames of any bytes.
//!
//! The first byte selects the kind of the rest: a description, a TOML file, or a line of rules and a frame.
#![no_main]

use std::path::Path;

use ringtap_craft::{Built, Rule, apply, fix_checksums};

/// The longest description is cut off far below what libFuzzer would make.
const LONGEST: usize = 4096;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    match kind {
        b'd' => described(text(rest)),
        b't' => {
            let built = Built::from_toml(text(rest), Path::new("packets.toml"));
            for frame in built.map(|built| built.0).unwrap_or_default() {
                mended(frame);
            }
        }
        _ => changed(rest),
    }
});

fn text(bytes: &[u8]) -> &str {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn described(text: &str) {
    // Such a text names a file, which is not to be opened here.
    if text.ends_with(".toml") {
        return;
    }
    for frame in text.parse().map(|built: Built| built.0).unwrap_or_default() {
        assert!(frame.len() <= 1 << 17, "{} bytes", frame.len());
        mended(frame);
    }
}

/// Checksums that were computed are not changed by computing them once more.
fn mended(mut frame: Vec<u8>) {
    let is_fixed = fix_checksums(&mut frame);
    let once = frame.clone();
    assert_eq!(fix_checksums(&mut frame), is_fixed);
    assert_eq!(frame, once);
}

fn changed(input: &[u8]) {
    let mut parts = input.splitn(2, |&byte| byte == b'\n');
    let line = text(parts.next().unwrap_or_default());
    let mut frame = parts.next().unwrap_or_default().to_vec();
    let rules: Vec<Rule> = line
        .split(' ')
        .filter_map(|rule| rule.parse().ok())
        .collect();
    let (len, tags) = (frame.len(), 4 * rules.len());
    let is_fixed = fix_checksums(&mut frame);
    let right = frame.clone();
    apply(&rules, &mut frame);
    assert!(len.abs_diff(frame.len()) <= tags);
    // Rules keep right checksums right, where all of the packet is there.
    if is_fixed && tags == 4 && len == frame.len() {
        let kept = frame.clone();
        fix_checksums(&mut frame);
        assert_eq!(frame, kept, "{line} on {right:?}");
    }
}

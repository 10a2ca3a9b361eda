//! Frames of tests: numbered, of an experimental ethertype.

use std::time::Duration;

/// Returns how long a test waits for packets that ought to come.
#[must_use]
pub fn patience() -> Duration {
    crate::patience(Duration::from_secs(20))
}

/// Makes a broadcast frame of an experimental ethertype with a number in it.
#[must_use]
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, u8::try_from(number % 251).unwrap_or_default());
    frame
}

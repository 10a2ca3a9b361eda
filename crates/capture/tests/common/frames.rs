//! Frames to be sent.

use std::time::Duration;

/// How long a test waits for packets that ought to come.
pub(crate) fn patience() -> Duration {
    ringtap_testkit::patience(Duration::from_secs(20))
}

/// A broadcast frame of an experimental ethertype with a number in it.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, u8::try_from(number % 251).unwrap());
    frame
}

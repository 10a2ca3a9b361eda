//! Senders, receivers, frames.

use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Direction, Next, Source, Timestamp, open};
use ringtap_send::{Outgoing, SendOptions, Sender};
use ringtap_testkit::netns::Side;

pub(crate) use ringtap_testkit::frames::{frame, patience};

/// Returns a receiver of all that comes in.
pub(crate) fn receiver(side: &Side) -> Box<dyn Source> {
    // Each time, a block of the ring is given out, however few packets it has.
    let options = CaptureOptions::default()
        .timeout(ringtap_testkit::patience(Duration::from_millis(20)))
        .direction(Direction::In)
        .buffer(64 << 20);
    let device = format!("packet:{}", side.device);
    side.run(|| open(&device, &options, None)).unwrap()
}

/// Returns the data of the packets until none has come for a while, and of at least `wanted`: packets on
/// their way are waited for, however slow the machine is.
pub(crate) fn drain(source: &mut dyn Source, wanted: usize) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut quiet = 0;
    let begin = Instant::now();
    while quiet < 4 || (seen.len() < wanted && begin.elapsed() < patience()) {
        match source.next() {
            Ok(Next::Block(block)) => {
                quiet = 0;
                seen.extend(block.packets().map(|packet| packet.data.to_vec()));
            }
            Ok(_) => quiet += 1,
            Err(error) if error.is_transient() => quiet += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(source.stats().unwrap().dropped.ring, Some(0));
    seen
}

pub(crate) fn sender(side: &Side, options: &SendOptions) -> Sender {
    side.run(|| Sender::open(&side.device, options)).unwrap()
}

/// Returns this many frames, numbered.
pub(crate) fn frames(count: u32) -> Vec<Vec<u8>> {
    let frame = |number| frame(number, 60 + number as usize * 7 % 1400);
    (0..count).map(frame).collect()
}

/// Frames to be sent, this many nanoseconds apart.
pub(crate) fn outgoing(frames: &[Vec<u8>], gap: i64) -> impl Iterator<Item = Outgoing<'_>> {
    (0..).zip(frames).map(move |(index, frame)| Outgoing {
        timestamp: Timestamp::from_nanos(index * gap),
        data: frame,
    })
}

pub(crate) fn bytes(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

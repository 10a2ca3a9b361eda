//! Packets that come, copied.

use std::time::{Duration, Instant};

use ringtap_capture::{Block, CaptureOptions, Error, Next, PacketFlags, Source, Timestamp};
use ringtap_testkit::frames::patience;

/// A packet, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) timestamp: Timestamp,
    pub(crate) len: u32,
    pub(crate) flags: PacketFlags,
    pub(crate) data: Vec<u8>,
}

/// Options that hand packets over soon.
pub(crate) fn prompt() -> CaptureOptions {
    CaptureOptions::default().timeout(Duration::from_millis(20))
}

/// Returns the number in a frame of [`ringtap_testkit::frames`].
pub(crate) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// Returns copies of the packets of a block.
pub(crate) fn copied(block: &Block<'_>) -> Vec<Seen> {
    let copies = block.packets().map(|packet| Seen {
        timestamp: packet.timestamp,
        len: packet.len,
        flags: packet.flags,
        data: packet.data.to_vec(),
    });
    copies.collect()
}

/// Returns the packets until none has come for a while, and at least `wanted`: packets on their way are
/// waited for, however slow the machine is, and unexpected ones are seen.
pub(crate) fn drain(source: &mut dyn Source, wanted: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut quiet = 0;
    let begin = Instant::now();
    while quiet < 4 || (seen.len() < wanted && begin.elapsed() < patience()) {
        match source.next().unwrap() {
            Next::Block(block) => {
                quiet = 0;
                seen.extend(copied(&block));
            }
            Next::TimedOut => quiet += 1,
            other => panic!("{other:?}"),
        }
    }
    seen
}

/// Returns the error that a capture ends with, and how many packets came before.
pub(crate) fn until_error(source: &mut dyn Source) -> (usize, Error) {
    let begin = Instant::now();
    let mut packets = 0;
    loop {
        assert!(begin.elapsed() < patience(), "no error came");
        match source.next() {
            Ok(Next::Block(block)) => packets += block.packets().count(),
            Ok(_) => {}
            Err(error) => return (packets, error),
        }
    }
}

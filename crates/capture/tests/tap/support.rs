//! Frames, readers and generators.

use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Filter, Next, PacketFlags, Source, Timestamp, open};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::Side;

/// How long a test waits for packets that ought to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

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
    CaptureOptions {
        timeout: Duration::from_millis(20),
        ..CaptureOptions::default()
    }
}

pub(crate) fn try_open(
    engine: &str,
    side: &Side,
    options: &CaptureOptions,
    filter: Option<&str>,
) -> ringtap_capture::Result<Box<dyn Source>> {
    let device = format!("{engine}:{}", side.device);
    let filter = filter.map(Filter::new);
    side.run(|| open(&device, options, filter.as_ref()))
}

pub(crate) fn tap(engine: &str, side: &Side, options: &CaptureOptions) -> Box<dyn Source> {
    try_open(engine, side, options, None).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn injector(side: &Side) -> Injector {
    let index = side.namespace.netlink().index(&side.device).unwrap();
    side.run(|| Injector::open(index).unwrap())
}

/// A broadcast frame of an experimental ethertype with a number in it.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, u8::try_from(number % 251).unwrap());
    frame
}

/// The number in a [`frame`].
pub(crate) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

pub(crate) fn numbers(seen: &[Seen]) -> Vec<u32> {
    seen.iter().map(|packet| number(&packet.data)).collect()
}

/// What comes until nothing has come for a while, and at least `wanted` packets: what is on its way
/// is waited for, however late the machine brings it, and what should not come is seen.
pub(crate) fn drain(source: &mut dyn Source, wanted: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut quiet = 0;
    let begin = Instant::now();
    while quiet < 4 || (seen.len() < wanted && begin.elapsed() < PATIENCE) {
        match source.next().unwrap() {
            Next::Block(block) => {
                quiet = 0;
                seen.extend(block.packets().map(|packet| Seen {
                    timestamp: packet.timestamp,
                    len: packet.len,
                    flags: packet.flags,
                    data: packet.data.to_vec(),
                }));
            }
            Next::TimedOut => quiet += 1,
            other => panic!("{other:?}"),
        }
    }
    seen
}

/// Counts packets until so many have come.
pub(crate) fn count(source: &mut dyn Source, wanted: usize) -> usize {
    let begin = Instant::now();
    let mut packets = 0;
    while packets < wanted {
        assert!(begin.elapsed() < PATIENCE, "{packets} of {wanted} came");
        if let Next::Block(block) = source.next().unwrap() {
            packets += block.packets().count();
        }
    }
    packets
}

//! Frames, readers and generators.

use std::time::Instant;

use ringtap_capture::{CaptureOptions, Filter, Next, Source, open};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::Side;

pub(crate) use crate::received::{Seen, drain, number, prompt, until_error};
pub(crate) use ringtap_testkit::frames::{frame, patience};

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

/// Sends a frame, again if the receiving processor's backlog had no room for it.
pub(crate) fn send(injector: &Injector, frame: &[u8]) {
    const ENOBUFS: i32 = 105;
    let begin = Instant::now();
    while let Err(error) = injector.send(frame) {
        assert_eq!(error.errno(), Some(ENOBUFS), "{error}");
        assert!(begin.elapsed() < patience(), "{error}");
        std::thread::yield_now();
    }
}

pub(crate) fn numbers(seen: &[Seen]) -> Vec<u32> {
    seen.iter().map(|packet| number(&packet.data)).collect()
}

/// Counts packets until this many have come.
pub(crate) fn count(source: &mut dyn Source, wanted: usize) -> usize {
    let begin = Instant::now();
    let mut packets = 0;
    while packets < wanted {
        assert!(begin.elapsed() < patience(), "{packets} of {wanted} came");
        if let Next::Block(block) = source.next().unwrap() {
            packets += block.packets().count();
        }
    }
    packets
}

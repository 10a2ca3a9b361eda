//! Frames, senders and readers.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Filter, LinkType, Next, Note, Source, open};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Namespace, Side, VethPair};

pub(crate) use crate::received::{Seen, copied, drain, number, prompt, until_error};
pub(crate) use ringtap_testkit::frames::{frame, patience};

thread_local! {
    /// The prefix of devices that name no engine, in the running test.
    static ENGINE: Cell<&'static str> = const { Cell::new("") };
}

/// Returns the test, with this engine for devices that name none.
pub(crate) fn with_engine(
    engine: &'static str,
    test: impl FnOnce() + Send,
) -> impl FnOnce() + Send {
    move || {
        ENGINE.set(engine);
        test();
    }
}

/// Returns the device with the engine of the running test.
pub(crate) fn chosen(device: &str) -> String {
    if device.contains(':') {
        return device.to_owned();
    }
    format!("{}{device}", ENGINE.get())
}

/// Returns whether the test runs on a tap.
pub(crate) fn on_tap() -> bool {
    ENGINE.get() == "tcx:"
}

/// Returns the source's description without the note on hooks that this kernel lacks.
pub(crate) fn notes(source: &dyn Source) -> Vec<Note> {
    let mut notes = source.describe().notes;
    notes.retain(|note| !matches!(note, Note::PassedOver(_)));
    notes
}

pub(crate) fn open_on(
    side: &Side,
    options: &CaptureOptions,
    filter: Option<&str>,
) -> Box<dyn Source> {
    open_in(&side.namespace, &side.device, options, filter)
}

pub(crate) fn open_in(
    namespace: &Namespace,
    device: &str,
    options: &CaptureOptions,
    filter: Option<&str>,
) -> Box<dyn Source> {
    let filter = filter.map(Filter::new);
    let device = &chosen(device);
    namespace.run(|| open(device, options, filter.as_ref()).unwrap_or_else(|e| panic!("{e}")))
}

pub(crate) fn injector(side: &Side) -> Injector {
    injector_in(&side.namespace, &side.device)
}

pub(crate) fn injector_in(namespace: &Namespace, device: &str) -> Injector {
    let index = namespace.netlink().index(device).unwrap();
    namespace.run(|| Injector::open(index).unwrap())
}

/// Reads until `count` packets have come.
pub(crate) fn collect(source: &mut dyn Source, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let begin = Instant::now();
    while seen.len() < count {
        assert!(
            begin.elapsed() < patience(),
            "{} of {count} packets came",
            seen.len()
        );
        if let Next::Block(block) = source.next().unwrap() {
            seen.extend(copied(&block));
        }
    }
    seen
}

/// Waits until a file has this many bytes.
pub(crate) fn wait_for_length(file: &Path, bytes: u64) {
    let begin = Instant::now();
    let length = || std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    while length() < bytes {
        assert!(
            begin.elapsed() < patience(),
            "{} of {bytes} bytes",
            length()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn data(seen: &[Seen]) -> Vec<&[u8]> {
    seen.iter().map(|packet| packet.data.as_slice()).collect()
}

pub(crate) fn addresses() -> Vec<u8> {
    let mut addresses = vec![0xff; 6];
    addresses.extend([2, 0, 0, 0, 0, 1]);
    addresses
}

/// Returns an IPv4 datagram after VLAN tags: ethertype and control information each. The protocol's number is
/// the IP header's; ports follow it.
pub(crate) fn ip_frame(tags: &[(u16, u16)], protocol: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut frame = addresses();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    frame.extend([
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2,
    ]);
    frame.extend(ports.0.to_be_bytes());
    frame.extend(ports.1.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend([0xab; 18]);
    frame
}

/// Each filter captures exactly the packets that the interpreter accepts in a file.
pub(crate) fn assert_as_of_a_file(frames: &[Vec<u8>], filters: &[&str]) {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for &filter in filters {
        let program = Filter::new(filter)
            .compile(LinkType::ETHERNET, 262_144)
            .unwrap();
        let accepts = |frame: &[u8]| program.run(frame, u32::try_from(frame.len()).unwrap()) > 0;
        let expected: Vec<_> = (0..frames.len()).filter(|&i| accepts(&frames[i])).collect();
        let mut source = open_on(&pair.right, &prompt(), Some(filter));
        frames
            .iter()
            .for_each(|frame| injector.send(frame).unwrap());
        let seen = drain(&mut *source, expected.len());
        let places: Vec<_> = seen
            .iter()
            .map(|seen| frames.iter().position(|f| *f == seen.data))
            .collect();
        assert_eq!(
            places,
            expected.into_iter().map(Some).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
}

/// Sends the frames repeatedly for as long as `work` takes, even if it panics.
pub(crate) fn flooded<T>(injector: &Injector, frames: &[Vec<u8>], work: impl FnOnce() -> T) -> T {
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut frames = frames.iter().cycle();
            while !done.load(Ordering::Relaxed) {
                frames
                    .next()
                    .into_iter()
                    .for_each(|frame| injector.send(frame).unwrap());
            }
        });
        let _done = Done(&done);
        work()
    })
}

//! Captures to a file in the background: `pcap_live_dump`, `pcap_live_dump_ended`.

use std::ffi::{CStr, c_int};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use crate::boundary::{export, guard};
use crate::handle::{Pcap, lock};
use crate::state::live_dump::LiveDump;
use crate::stdio::Stream;
use crate::text::CText;
use crate::types::{PacketHeader, code};
use crate::{dump, read};

/// The handle, for the thread that reads it.
struct Shared(*const Pcap);

// SAFETY: several threads may access the handle, and `pcap_close` ends the thread before it frees
// the handle.
unsafe impl Send for Shared {}

/// The largest size of the file; `None` for no limit.
#[derive(Clone, Copy)]
struct Limits {
    bytes: Option<u64>,
    packets: Option<u64>,
}

/// A file with its size.
struct Output {
    stream: Stream,
    bytes: u64,
    packets: u64,
    limits: Limits,
}

impl Output {
    fn write(&mut self, header: &PacketHeader, data: &[u8]) -> ControlFlow<()> {
        let record = dump::record(header);
        let bytes = self.bytes + (record.len() + data.len()) as u64;
        if self.limits.bytes.is_some_and(|most| bytes > most) || !self.stream.write(&record, data) {
            return ControlFlow::Break(());
        }
        self.bytes = bytes;
        self.packets += 1;
        if self.limits.packets.is_some_and(|most| self.packets >= most) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn begin(handle: &Pcap, path: &CStr, limits: Limits) -> Result<(), String> {
    if handle.live().is_none() {
        return Err("This is for live captures only".to_owned());
    }
    let mut thread = lock(&handle.live_dump.thread);
    if thread.is_some() {
        return Err("Packets are written to a file already".to_owned());
    }
    let stream = dump::create(handle, path)?;
    let output = Output {
        stream,
        bytes: dump::FILE_HEADER as u64,
        packets: 0,
        limits,
    };
    *lock(&handle.live_dump.ended) = false;
    handle.live_dump.stop.store(false, Ordering::Release);
    let shared = Shared(handle);
    let spawned = read::without_signals(|| {
        std::thread::Builder::new()
            .name("ringtap-dump".to_owned())
            .spawn(move || guard(|| run(shared, output), || ()))
    });
    match spawned {
        Ok(spawned) => {
            *thread = Some(spawned);
            Ok(())
        }
        Err(error) => {
            dump::close(stream);
            Err(error.to_string())
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the thread takes both over")]
fn run(shared: Shared, mut output: Output) {
    // SAFETY: the handle lives until `finish` has joined this thread.
    let handle = unsafe { &*shared.0 };
    let dump = &handle.live_dump;
    while !dump.stop.load(Ordering::Acquire) {
        let mut full = false;
        let result = read::read_until(handle, &mut |header, data| {
            let flow = output.write(header, data);
            full = flow.is_break();
            flow
        });
        if full || (result < 0 && result != code::BREAK) {
            break;
        }
    }
    dump::close(output.stream);
    *lock(&dump.ended) = true;
    dump.end.notify_all();
}

impl LiveDump {
    /// Stops the thread, if there is one.
    pub(crate) fn finish(&self, handle: &Pcap) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.stop.store(true, Ordering::Release);
        handle.broken.store(true, Ordering::Release);
        handle.wake();
        // The thread does not panic past its guard.
        let _ = thread.join();
    }
}

fn limit(value: c_int) -> Option<u64> {
    u64::try_from(value).ok().filter(|&value| value > 0)
}

export! {
    /// Writes packets to a file in the background, up to a number of bytes or packets (0 for no
    /// limit), or until the handle is closed. Meanwhile the handle must not be read from.
    fn pcap_live_dump(
        handle: Option<&Pcap>, path: CText<'_>, bytes: c_int, packets: c_int,
    ) -> c_int {
        let (Some(handle), Some(path)) = (handle, path.get()) else { return code::ERROR };
        let limits = Limits { bytes: limit(bytes), packets: limit(packets) };
        handle.answer(begin(handle, path, limits))
    } else code::ERROR;

    /// Returns 1 if the file of `pcap_live_dump` is complete, 0 if not, -1 if there is none.
    fn pcap_live_dump_ended(handle: Option<&Pcap>, wait: c_int) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        if lock(&handle.live_dump.thread).is_none() {
            return handle.fail("No file is being written");
        }
        c_int::from(handle.live_dump.has_ended(wait != 0))
    } else code::ERROR;
}

//! Reading packets: `pcap_dispatch`, `pcap_loop`, `pcap_next`, `pcap_next_ex`, `pcap_breakloop`.

use std::ffi::{c_int, c_uchar};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringtap_capture::{Error, Matcher, Packet, Waker};
use ringtap_filter::Program;

use crate::backlog::Backlog;
use crate::boundary::{export, export_waiting};
use crate::cancel::Held;
use crate::ext::sampling::Sampler;
use crate::ext::statistics::{Counting, Tick};
use crate::handle::{Kind, Opened, Pcap};
use crate::lent::{Lent, Pause};
use crate::messages;
use crate::place::RECORD_HEADER;
use crate::types::{Handler, PacketHeader, code};

/// What packets are read with.
pub(crate) struct Reading {
    pub(crate) lent: Lent,
    pub(crate) waker: Waker,
    /// Packets that were taken from a block, to be handed out first.
    pub(crate) backlog: Backlog,
    /// A filter that is applied here: to all packets of a file; of a live capture to those that
    /// were captured with the filter before.
    pub(crate) matcher: Option<Arc<Matcher>>,
    /// Which way packets must go, where the engine does not tell them apart.
    pub(crate) direction: Option<ringtap_capture::Direction>,
    /// Whether an error came after packets that were counted; it is told by the next call.
    pub(crate) failed: bool,
    /// Bytes of a file's records that were passed, with their headers.
    pub(crate) consumed: u64,
    /// The filter of a live capture.
    pub(crate) program: Option<Program>,
    /// Counters, in statistics mode.
    pub(crate) counting: Option<Counting>,
    sampler: Sampler,
    /// Whether packets came.
    started: bool,
    /// The header that `pcap_next_ex` points to.
    header: Box<PacketHeader>,
}

impl Reading {
    pub(crate) fn new(lent: Lent, waker: Waker) -> Self {
        Self {
            lent,
            waker,
            backlog: Backlog::default(),
            matcher: None,
            direction: None,
            consumed: 0,
            failed: false,
            program: None,
            counting: None,
            sampler: Sampler::default(),
            started: false,
            header: Box::new(PacketHeader::zero()),
        }
    }

    /// The next packet that is there, of those that are wanted.
    #[inline]
    fn packet(&mut self) -> Option<Packet<'_>> {
        let Self {
            lent,
            backlog,
            matcher,
            direction,
            sampler,
            consumed,
            ..
        } = self;
        let mut wanted = |packet: &Packet<'_>| {
            *consumed += RECORD_HEADER + packet.data.len() as u64;
            matcher
                .as_ref()
                .is_none_or(|matcher| matcher.accepts(packet))
                && direction.is_none_or(|direction| goes(packet, direction))
                && sampler.takes(packet)
        };
        if backlog.is_empty() {
            return lent.find(wanted);
        }
        match backlog.find(&mut wanted) {
            Some(packet) => Some(packet),
            None => lent.find(wanted),
        }
    }
}

/// Whether a packet goes that way. One of which it is not known does.
fn goes(packet: &Packet<'_>, direction: ringtap_capture::Direction) -> bool {
    use ringtap_capture::Direction;
    !matches!(
        (direction, packet.flags.0 & 3),
        (Direction::In, 2) | (Direction::Out, 1)
    )
}

/// How a reading call counts and waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// What is there, after a wait for something to be there.
    Dispatch,
    /// Until a count, the end or a break.
    Loop,
}

/// How a reading call has ended.
enum End {
    /// The count was reached, or nothing more is there.
    Enough,
    /// The file has ended.
    File,
    Broken,
    Failed,
    /// The call is to go on, in another step.
    Waiting,
}

/// What packets are given to, one by one.
type Deliver<'d> = &'d mut dyn FnMut(&PacketHeader, &[u8]) -> ControlFlow<()>;

/// Reads packets until the receiver has enough, as `pcap_loop`.
pub(crate) fn read_until(handle: &Pcap, deliver: Deliver<'_>) -> c_int {
    loop {
        if let Some(result) = read(handle, 0, Mode::Loop, &mut 0, deliver) {
            return result;
        }
    }
}

/// Runs what may start a thread, so that the thread takes no signals: the program's handlers run in the
/// program's own threads.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    ringtap_sys::signals::blocked(start)
}

/// One step of a reading call: its result, or nothing where it is to go on with another step, which
/// adds to what was handed out.
fn read(
    handle: &Pcap,
    count: c_int,
    mode: Mode,
    handed_out: &mut c_int,
    deliver: Deliver<'_>,
) -> Option<c_int> {
    let opened = match handle.activated() {
        Ok(opened) => opened,
        Err(code) => return Some(code),
    };
    if matches!(opened.kind, Kind::Dead) {
        return Some(handle.fail("Packets aren't available from a pcap_open_dead pcap_t"));
    }
    let Some(mut guard) = handle.try_reading() else {
        return Some(handle.fail("Packets are being read from this handle already"));
    };
    let Some(reading) = &mut *guard else {
        return Some(handle.fail("There is nothing to read from this handle"));
    };
    let is_file = matches!(opened.kind, Kind::Offline(_));
    let limit = if count <= 0 {
        c_int::MAX
    } else {
        count - *handed_out
    };
    reading.sampler.follow(&handle.sampling);
    let mut given = 0_u64;
    let deliver: Deliver<'_> = &mut |header, data| {
        given += 1;
        deliver(header, data)
    };
    if let Some(place) = opened.place() {
        place.enter(reading);
    }
    let (delivered, end) = match reading.counting {
        None => run(handle, opened, reading, (limit, mode), deliver),
        Some(_) => count_on(handle, reading, (limit, mode), deliver),
    };
    handle.delivered.fetch_add(given, Ordering::Relaxed);
    if let Some(place) = opened.place() {
        place.leave(reading.consumed);
    }
    Some(match end {
        End::Waiting => {
            *handed_out += delivered;
            return None;
        }
        End::Broken if delivered == 0 || mode == Mode::Loop => {
            handle.broken.store(false, Ordering::Release);
            code::BREAK
        }
        End::Failed if delivered == 0 || mode == Mode::Loop || is_file => {
            reading.failed = false;
            code::ERROR
        }
        // A loop has done all that it was asked for.
        End::Enough | End::File if mode == Mode::Loop => 0,
        // The failure is told by the next call.
        _ => delivered,
    })
}

/// Hands out packets until there is a reason to end, and counts them.
fn run(
    handle: &Pcap,
    opened: &Opened,
    reading: &mut Reading,
    (limit, mode): (c_int, Mode),
    deliver: Deliver<'_>,
) -> (c_int, End) {
    let nano = opened.is_nano();
    let is_file = matches!(opened.kind, Kind::Offline(_));
    let endless = mode == Mode::Loop && limit == c_int::MAX;
    let mut delivered = 0;
    let mut has_read = false;
    if reading.failed {
        return (0, End::Failed);
    }
    loop {
        // A filter that was set meanwhile applies from here on.
        handle.grant_wishes(reading);
        while !handle.broken.load(Ordering::Relaxed) {
            let Some(packet) = reading.packet() else {
                break;
            };
            let flow = deliver(&PacketHeader::of(&packet, nano), packet.data);
            delivered += c_int::from(!endless);
            if delivered >= limit || flow.is_break() {
                return (delivered, End::Enough);
            }
            if handle.wishes.any() {
                handle.grant_wishes_in_part(reading);
            }
        }
        if handle.broken.load(Ordering::Acquire) {
            return (delivered, End::Broken);
        }
        // A loop goes on in another step, so that its thread may be cancelled while packets come.
        if mode == Mode::Loop && has_read {
            return (delivered, End::Waiting);
        }
        let has_some = delivered > 0 && mode == Mode::Dispatch && !is_file;
        let wait = !has_some && (mode == Mode::Loop || !handle.nonblocking.load(Ordering::Acquire));
        let _held = Held::new();
        // Until packets came, an advance in a file may start the thread that reads ahead.
        let advanced = if is_file && !reading.started {
            without_signals(|| reading.lent.advance(wait))
        } else {
            reading.lent.advance(wait)
        };
        match advanced {
            Ok(Pause::Packets) => {
                reading.started = true;
                has_read = true;
            }
            Ok(Pause::Other) => {
                if let Some(message) = is_file.then(|| mixed(handle, opened, reading)).flatten() {
                    handle.say(message);
                    return (delivered, End::Failed);
                }
            }
            Ok(Pause::End) => return (delivered, End::File),
            // By a signal handler, which has also ended the wait.
            Ok(Pause::TimedOut) if handle.broken.load(Ordering::Acquire) => {}
            Ok(Pause::TimedOut) if mode == Mode::Loop || keeps_waiting(handle, wait) => {
                return (delivered, End::Waiting);
            }
            Ok(Pause::TimedOut) => return (delivered, End::Enough),
            // Either the loop is broken, or a filter is to be set.
            Ok(Pause::Woken) => {}
            Err(error) if error.is_transient() && !is_file => {}
            Err(error) => {
                handle.say(message(&error, opened));
                reading.failed = true;
                return (delivered, End::Failed);
            }
        }
    }
}

/// As [`run`], in statistics mode.
fn count_on(
    handle: &Pcap,
    reading: &mut Reading,
    (limit, mode): (c_int, Mode),
    deliver: Deliver<'_>,
) -> (c_int, End) {
    let mut delivered = 0;
    loop {
        handle.grant_wishes(reading);
        if handle.broken.load(Ordering::Acquire) {
            return (delivered, End::Broken);
        }
        let Some(counting) = &mut reading.counting else {
            return (delivered, End::Enough);
        };
        let wait = mode == Mode::Loop || !handle.nonblocking.load(Ordering::Acquire);
        match counting.next(&reading.waker, wait) {
            Tick::Record(header) => {
                let flow = deliver(&header, counting.record());
                delivered += 1;
                if mode == Mode::Dispatch || delivered >= limit || flow.is_break() {
                    return (delivered, End::Enough);
                }
            }
            Tick::NotYet => return (delivered, End::Enough),
            Tick::Woken => {}
            Tick::Failed(message) => {
                handle.say(message);
                return (delivered, End::Failed);
            }
        }
    }
}

/// Whether a time-out is none: a capture without one waits until packets come.
fn keeps_waiting(handle: &Pcap, waited: bool) -> bool {
    waited && handle.live().is_some_and(|live| live.waits_forever)
}

/// What is wrong with an interface that a file describes: all must be as the first, as the handle has
/// room for one only.
fn mixed(handle: &Pcap, opened: &Opened, reading: &mut Reading) -> Option<String> {
    let interface = reading.lent.source().interfaces().last()?;
    let link_type = interface.link_type.to_dlt().cast_signed();
    let snaplen = interface.effective_snaplen().cast_signed();
    if link_type != handle.dlt() {
        return Some(format!(
            "an interface has a type {link_type} different from the type of the first interface"
        ));
    }
    (snaplen != opened.snapshot).then(|| {
        format!(
            "an interface has a snapshot length {snaplen} different from the snapshot length of the \
             first interface"
        )
    })
}

fn message(error: &Error, opened: &Opened) -> String {
    match error {
        Error::Read(error) => messages::of_file(error, Some(opened.snapshot)),
        Error::InterfaceGone { .. } => "The interface disappeared".to_owned(),
        other => other.to_string(),
    }
}

/// Calls C's function with each packet.
fn with_callback(
    handle: Option<&Pcap>,
    count: c_int,
    mode: Mode,
    callback: Option<Handler>,
    user: *mut c_uchar,
    handed_out: &mut c_int,
) -> Option<c_int> {
    let (Some(handle), Some(callback)) = (handle, callback) else {
        return Some(code::ERROR);
    };
    // The callback is called from here: nor can the thread be cancelled within it.
    let _held = Held::new();
    read(handle, count, mode, handed_out, &mut |header, data| {
        // SAFETY: C's contract: the function takes such arguments. Header and bytes outlive the call.
        unsafe { callback(user, header, data.as_ptr()) };
        ControlFlow::Continue(())
    })
}

/// Reads one packet, and leaves it where it is.
fn one(handle: &Pcap) -> Option<(c_int, PacketHeader, *const c_uchar)> {
    let mut found = (PacketHeader::zero(), ptr::null());
    let result = read(handle, 1, Mode::Dispatch, &mut 0, &mut |header, data| {
        found = (*header, data.as_ptr());
        ControlFlow::Continue(())
    });
    result.map(|result| (result, found.0, found.1))
}

export_waiting! {
    /// Hands the packets that are there to the callback, after a wait for some. The number of packets.
    fn pcap_dispatch(
        handle: Option<&Pcap>, count: c_int, callback: Option<Handler>, user: *mut c_uchar,
    ) -> c_int, from handed_out = 0 => {
        with_callback(handle, count, Mode::Dispatch, callback, user, handed_out)
    } else code::ERROR;

    /// Hands packets to the callback until that many came, the file ends, or the loop is broken.
    fn pcap_loop(
        handle: Option<&Pcap>, count: c_int, callback: Option<Handler>, user: *mut c_uchar,
    ) -> c_int, from handed_out = 0 => {
        with_callback(handle, count, Mode::Loop, callback, user, handed_out)
    } else code::ERROR;

    /// The next packet's bytes, which stay until the next call, or null.
    fn pcap_next(
        handle: Option<&Pcap>, header: *mut PacketHeader,
    ) -> *const c_uchar, from _none = () => {
        // SAFETY: C's contract: null, or room for a header.
        let (Some(handle), Some(header)) = (handle, unsafe { header.as_mut() }) else {
            return Some(ptr::null());
        };
        let (result, found, bytes) = one(handle)?;
        if result != 1 {
            return Some(ptr::null());
        }
        *header = found;
        Some(bytes)
    } else ptr::null();

    /// The next packet: 1 with one, 0 after a time-out, -1 for an error, -2 at a file's end.
    fn pcap_next_ex(
        handle: Option<&Pcap>, header: *mut *const PacketHeader, data: *mut *const c_uchar,
    ) -> c_int, from _none = () => {
        // SAFETY: C's contract: null, or room for a pointer each.
        let (header, data) = unsafe { (header.as_mut(), data.as_mut()) };
        let (Some(handle), Some(header), Some(data)) = (handle, header, data) else {
            return Some(code::ERROR);
        };
        let (result, found, bytes) = one(handle)?;
        Some(match result {
            1 => {
                if let Some(mut guard) = handle.try_reading()
                    && let Some(reading) = &mut *guard
                {
                    *reading.header = found;
                    *header = &raw const *reading.header;
                }
                *data = bytes;
                1
            }
            0 if matches!(handle.opened.get(), Some(Opened { kind: Kind::Offline(_), .. })) => {
                code::BREAK
            }
            other => other,
        })
    } else code::ERROR;
}

export! {
    /// Ends the loop that reads, or the next one. May be called by signal handlers and other threads.
    fn pcap_breakloop(handle: Option<&Pcap>) {
        if let Some(handle) = handle {
            handle.broken.store(true, Ordering::Release);
            if let Some(waker) = handle.waker.get() {
                waker.wake();
            }
        }
    } else ();
}

//! Reads packets: `pcap_dispatch`, `pcap_loop`, `pcap_next`, `pcap_next_ex`, `pcap_breakloop`.

use std::ffi::{c_int, c_uchar};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::borrowed_block::Pause;
use crate::boundary::{export, export_waiting};
use crate::handle::{Kind, Opened, Pcap, lock};
use crate::messages;
use crate::state::reading::Reading;
use crate::types::{Handler, PacketHeader, PacketInPlace, code};
use crate::wait::{Progress, Step, Wait};

/// The way in which a reading call counts and waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Deliver the available packets, after waiting for some.
    Dispatch,
    /// Deliver one available packet, which stays in use after the call returns.
    One,
    /// Deliver packets of one block, after waiting for one; they stay in use after the call returns.
    Block,
    /// Deliver packets until the count, the end or a break.
    Loop,
}

impl Mode {
    /// Returns whether the program still uses what it was given when the call has returned.
    fn leaves_in_use(self) -> bool {
        matches!(self, Self::One | Self::Block)
    }
}

/// The reason why a reading call ended.
enum End {
    /// The count was reached, or no more packets are available.
    Enough,
    /// The file has ended.
    File,
    Broken,
    Failed,
    /// No packet is available now.
    Waiting(Wait),
}

/// The receiver of packets. A type parameter, not an object, because it is called for each packet.
pub(crate) trait Deliver: FnMut(&PacketHeader, &[u8]) -> ControlFlow<()> {}

impl<F: FnMut(&PacketHeader, &[u8]) -> ControlFlow<()>> Deliver for F {}

/// Reads packets until `deliver` breaks, as `pcap_loop`.
pub(crate) fn read_until(handle: &Pcap, deliver: &mut impl Deliver) -> c_int {
    let mut progress = Progress::new();
    loop {
        match read(handle, 0, Mode::Loop, &mut progress, deliver) {
            Step::Done(result) => return result,
            Step::Wait(wait) => crate::wait::sleep(wait, &mut progress),
        }
    }
}

/// Runs code that may start a thread, so that this thread takes no signals: the program's handlers
/// run in the program's own threads.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    ringtap_sys::signals::blocked(start)
}

fn read(
    handle: &Pcap,
    count: c_int,
    mode: Mode,
    progress: &mut Progress,
    deliver: &mut impl Deliver,
) -> Step<c_int> {
    let opened = match handle.activated() {
        Ok(opened) => opened,
        Err(code) => return Step::Done(code),
    };
    let failed = |message| Step::Done(handle.fail(message));
    if matches!(opened.kind, Kind::Dead) {
        return failed("Packets aren't available from a pcap_open_dead pcap_t");
    }
    let Some(mut guard) = handle.try_reading() else {
        return failed("Packets are being read from this handle already");
    };
    let Some(reading) = &mut *guard else {
        return failed("There is nothing to read from this handle");
    };
    let is_file = matches!(opened.kind, Kind::Offline(_));
    let limit = if count <= 0 { c_int::MAX } else { count };
    reading.sampler.follow(&handle.sampling);
    let follow = handle.file().and_then(|file| file.follow.as_ref());
    if let Some(follow) = follow {
        follow.enter(reading);
    }
    let mut given = 0_u64;
    let deliver = &mut |header: &PacketHeader, data: &[u8]| {
        given += 1;
        deliver(header, data)
    };
    let end = match reading.counting {
        None => run(handle, opened, reading, progress, (limit, mode), deliver),
        Some(_) => count_on(handle, reading, progress, (limit, mode), deliver),
    };
    if let Some(follow) = follow {
        follow.leave(reading);
    }
    if !is_file && (!mode.leaves_in_use() || mode == Mode::Block && given == 0) {
        reading.settle();
    }
    handle.delivered.fetch_add(given, Ordering::Relaxed);
    let delivered = progress.delivered;
    Step::Done(match end {
        End::Waiting(wait) => {
            progress.handle = Some(handle.id());
            return Step::Wait(wait);
        }
        End::Broken if delivered == 0 || mode == Mode::Loop => {
            handle.broken.store(false, Ordering::Release);
            code::BREAK
        }
        End::Failed if delivered == 0 || mode == Mode::Loop || is_file => {
            reading.failed = false;
            code::ERROR
        }
        // A loop has finished its task.
        End::Enough | End::File if mode == Mode::Loop => 0,
        // The next call reports the error.
        _ => delivered,
    })
}

/// Delivers packets until there is a reason to end, and counts them.
fn run(
    handle: &Pcap,
    opened: &Opened,
    reading: &mut Reading,
    progress: &mut Progress,
    (limit, mode): (c_int, Mode),
    deliver: &mut impl Deliver,
) -> End {
    let is_file = matches!(opened.kind, Kind::Offline(_));
    if reading.failed {
        return End::Failed;
    }
    let was_readable = mode != Mode::Loop
        && (is_readable(handle, reading, progress) || holds_descriptor(handle, reading, mode));
    let mut has_looked = false;
    loop {
        // A filter that was set in the meantime applies from here on.
        handle.grant_wishes(reading);
        let end = deliver_available(handle, opened, reading, progress, (limit, mode), deliver);
        if let Some(end) = end {
            return end;
        }
        if handle.broken.load(Ordering::Acquire) {
            return End::Broken;
        }
        let has_some = progress.delivered > 0 && mode != Mode::Loop && !is_file;
        let may_wait =
            !has_some && (mode == Mode::Loop || !handle.nonblocking.load(Ordering::Acquire));
        // If none of the packets passes the filter, the wait ends as with the timeout. It also ends if the
        // descriptor is readable for another reason than packets.
        let is_answered = |has_looked: bool| {
            let live = handle.live();
            mode != Mode::Loop
                && (was_readable || has_looked && live.is_some_and(|live| !live.has_no_timeout))
        };
        match advance(
            handle,
            opened,
            reading,
            may_wait && !is_answered(has_looked),
        ) {
            Advance::Go(has_packets) => has_looked |= has_packets,
            Advance::End(end) => return end,
            Advance::Nothing if !may_wait || is_answered(has_looked) => return End::Enough,
            Advance::Nothing => {
                if let Some(end) = idle(handle, reading, progress, mode) {
                    return end;
                }
            }
        }
    }
}

/// Delivers the packets that were read already. Returns the reason to end if there is one.
#[inline]
fn deliver_available(
    handle: &Pcap,
    opened: &Opened,
    reading: &mut Reading,
    progress: &mut Progress,
    (limit, mode): (c_int, Mode),
    deliver: &mut impl Deliver,
) -> Option<End> {
    let times = opened.times();
    let is_file = matches!(opened.kind, Kind::Offline(_));
    let endless = mode == Mode::Loop && limit == c_int::MAX;
    let mut plain = !is_file && reading.is_plain();
    while !handle.broken.load(Ordering::Relaxed) {
        let next = if plain {
            reading.borrowed.next()
        } else {
            reading.packet()
        };
        let Some(packet) = next else {
            break;
        };
        let flow = deliver(&PacketHeader::of(&packet, times), packet.data);
        progress.delivered += c_int::from(!endless);
        if progress.delivered >= limit || flow.is_break() {
            return Some(End::Enough);
        }
        if handle.wishes.any() {
            if mode == Mode::Block {
                // It may take the block away.
                return Some(End::Enough);
            }
            handle.grant_wishes_in_part(reading);
            plain = false;
        }
    }
    (mode == Mode::Block && progress.delivered > 0).then_some(End::Enough)
}

/// The result of asking the source for more.
enum Advance {
    /// The source delivered something; true if packets.
    Go(bool),
    /// No packet is available now.
    Nothing,
    End(End),
}

fn advance(handle: &Pcap, opened: &Opened, reading: &mut Reading, may_wait: bool) -> Advance {
    let is_file = matches!(opened.kind, Kind::Offline(_));
    // If there is a descriptor, the wait is made elsewhere.
    let wait = may_wait && handle.live().is_none_or(|live| live.selectable() < 0);
    // Before the first packets, an advance in a file may start the thread that reads ahead.
    let advanced = if is_file && !reading.started {
        without_signals(|| reading.borrowed.advance(wait))
    } else {
        reading.borrowed.advance(wait)
    };
    match advanced {
        Ok(Pause::Packets) => {
            reading.started = true;
            return Advance::Go(true);
        }
        Ok(Pause::Other) => {
            if let Some(message) = is_file.then(|| mixed(handle, opened, reading)).flatten() {
                handle.say(message);
                return Advance::End(End::Failed);
            }
        }
        Ok(Pause::End) => return Advance::End(End::File),
        Ok(Pause::TimedOut) => return Advance::Nothing,
        // Either the loop was interrupted, or a filter must be set.
        Ok(Pause::Woken) => {}
        Err(error) if error.is_transient() && !is_file => {}
        Err(error) => {
            handle.say(messages::of_source(&error, Some(opened.snapshot)));
            reading.failed = true;
            return Advance::End(End::Failed);
        }
    }
    Advance::Go(false)
}

/// Returns whether the descriptor is readable before packets are requested, if it may be readable
/// for other reasons than packets. A program that has seen it readable must not wait then.
fn is_readable(handle: &Pcap, reading: &Reading, progress: &Progress) -> bool {
    let Some(live) = handle.live().filter(|live| live.is_readable_for_others) else {
        return false;
    };
    let may_wait = !handle.nonblocking.load(Ordering::Acquire) && progress.handle.is_none();
    may_wait
        && live.selectable() >= 0
        && reading.borrowed.is_spent()
        && reading.backlog.is_empty()
        && crate::wait::is_readable(live.selectable())
}

/// Returns whether the descriptor may be readable only because the program was using a block.
fn holds_descriptor(handle: &Pcap, reading: &Reading, mode: Mode) -> bool {
    let is_held = mode == Mode::Block && reading.borrowed.holds_spent();
    is_held && handle.live().is_some_and(|live| live.selectable() >= 0)
}

/// Returns how to go on without packets: `None` to ask again at once.
fn idle(handle: &Pcap, reading: &mut Reading, progress: &mut Progress, mode: Mode) -> Option<End> {
    let live = handle.live()?;
    if mode != Mode::Loop && live.returns_on_timeout {
        if progress.is_over {
            return Some(End::Enough);
        }
        let timeout = lock(&live.options).timeout;
        progress
            .deadline
            .get_or_insert_with(|| Instant::now() + timeout);
    }
    let waker = reading.waker.as_fd().as_raw_fd();
    Some(End::Waiting(Wait {
        // A source without a descriptor has waited already; but a cancelled thread must end here.
        descriptors: [live.selectable(), waker],
        limit: match live.selectable() {
            0.. => reading
                .borrowed
                .source()
                .polling()
                .and_then(|it| it.interval()),
            _ => Some(Duration::ZERO),
        },
    }))
}

/// Reads as [`run`], in statistics mode.
fn count_on(
    handle: &Pcap,
    reading: &mut Reading,
    progress: &mut Progress,
    (limit, mode): (c_int, Mode),
    deliver: &mut impl Deliver,
) -> End {
    if reading.failed {
        return End::Failed;
    }
    loop {
        handle.grant_wishes(reading);
        if handle.broken.load(Ordering::Acquire) {
            return End::Broken;
        }
        let Some(counting) = &mut reading.counting else {
            return End::Enough;
        };
        let left = counting.time_left();
        if left.is_zero() {
            let is_gone = !counting.is_attached();
            let header = counting.read();
            let flow = deliver(&header, counting.record());
            progress.delivered += 1;
            if is_gone {
                // The counters up to now are delivered all the same.
                handle.say(messages::GONE);
                reading.failed = true;
                return End::Failed;
            }
            if mode != Mode::Loop || progress.delivered >= limit || flow.is_break() {
                return End::Enough;
            }
        } else if mode != Mode::Loop && handle.nonblocking.load(Ordering::Acquire) {
            return End::Enough;
        } else {
            // The reason for this wake-up was checked above.
            reading.waker.take();
            if handle.broken.load(Ordering::Acquire) || handle.wishes.any() {
                continue;
            }
            let descriptors = [-1, reading.waker.as_fd().as_raw_fd()];
            return End::Waiting(Wait {
                descriptors,
                limit: Some(left),
            });
        }
    }
}

/// Returns the reason why an interface of a file is rejected: all must be like the first, because
/// the handle has room for one only.
fn mixed(handle: &Pcap, opened: &Opened, reading: &mut Reading) -> Option<String> {
    let interface = reading.borrowed.source().interfaces().last()?;
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

/// Calls C's function with each packet.
fn with_callback(
    handle: Option<&Pcap>,
    (count, mode): (c_int, Mode),
    callback: Option<Handler>,
    user: *mut c_uchar,
    progress: &mut Progress,
) -> Step<c_int> {
    let (Some(handle), Some(callback)) = (handle, callback) else {
        return Step::Done(code::ERROR);
    };
    let step = read(handle, count, mode, progress, &mut |header, data| {
        // SAFETY: C's contract: the function takes such arguments. Header and bytes outlive the call.
        unsafe { callback(user, header, data.as_ptr()) };
        ControlFlow::Continue(())
    });
    match step {
        // On a live capture libpcap reports a break at once, even if packets were delivered before
        // it. For a file it returns their number first.
        Step::Done(0..)
            if handle.live().is_some() && handle.broken.swap(false, Ordering::AcqRel) =>
        {
            Step::Done(code::BREAK)
        }
        step => step,
    }
}

/// Reads one packet and leaves it in place.
fn one(
    handle: &Pcap,
    progress: &mut Progress,
    found: impl FnOnce(c_int, PacketHeader, *const c_uchar) -> c_int,
) -> Step<c_int> {
    let mut packet = (PacketHeader::zero(), ptr::null());
    let step = read(handle, 1, Mode::One, progress, &mut |header, data| {
        packet = (*header, data.as_ptr());
        ControlFlow::Continue(())
    });
    match step {
        Step::Done(result) => Step::Done(found(result, packet.0, packet.1)),
        Step::Wait(wait) => Step::Wait(wait),
    }
}

/// Keeps the packet that was delivered last in a place to which `pcap_next_ex` can point.
///
/// # Safety
///
/// The bytes are those of that packet.
unsafe fn keep(
    handle: &Pcap,
    header: PacketHeader,
    data: *const c_uchar,
) -> (*const PacketHeader, *const c_uchar) {
    match handle.try_reading().as_deref_mut() {
        Some(Some(reading)) => {
            *reading.header = header;
            let data = if handle.live().is_some() {
                // SAFETY: by the caller's promise.
                unsafe { reading.settle_behind((data, header.caplen as usize)) }
            } else {
                data
            };
            (&raw const *reading.header, data)
        }
        _ => (ptr::null(), data),
    }
}

/// Writes the packets of a block, and where their bytes are, to the program's array.
fn block(
    handle: &Pcap,
    progress: &mut Progress,
    packets: *mut PacketInPlace,
    room: c_int,
) -> Step<c_int> {
    let mut filled = 0;
    let step = read(handle, room, Mode::Block, progress, &mut |header, data| {
        let packet = PacketInPlace {
            header: *header,
            data: data.as_ptr(),
        };
        // SAFETY: C's contract: there is room for as many packets as are asked for.
        unsafe { packets.add(filled).write(packet) };
        filled += 1;
        ControlFlow::Continue(())
    });
    match step {
        Step::Done(0) if handle.live().is_none() => Step::Done(code::BREAK),
        step => step,
    }
}

export_waiting! {
    /// Returns the number of packets that were written to an array with this much room: those of a block of the
    /// kernel, or of a file's reader, without a copy. Their bytes are valid until the next call with the handle. 0 after a
    /// timeout, -1 for an error, -2 at the end of a file and after `pcap_breakloop`.
    fn ringtap_next_block(
        handle: Option<&Pcap>, packets: *mut PacketInPlace, room: c_int,
    ) -> c_int |progress| {
        let Some(handle) = *handle else { return Step::Done(code::ERROR) };
        if packets.is_null() || *room <= 0 {
            return Step::Done(handle.fail("ringtap_next_block: there is no room for a packet"));
        }
        block(handle, progress, *packets, *room)
    } else code::ERROR, closed code::BREAK;

    /// Passes the available packets to the callback, after waiting for some. Returns their number.
    fn pcap_dispatch(
        handle: Option<&Pcap>, count: c_int, callback: Option<Handler>, user: *mut c_uchar,
    ) -> c_int |progress| {
        with_callback(*handle, (*count, Mode::Dispatch), *callback, *user, progress)
    } else code::ERROR, closed code::BREAK;

    /// Passes packets to the callback until that many were read, the file ends, or the loop is
    /// broken.
    fn pcap_loop(
        handle: Option<&Pcap>, count: c_int, callback: Option<Handler>, user: *mut c_uchar,
    ) -> c_int |progress| {
        with_callback(*handle, (*count, Mode::Loop), *callback, *user, progress)
    } else code::ERROR, closed code::BREAK;

    /// Returns the next packet's bytes, valid until the next call, or null.
    fn pcap_next(handle: Option<&Pcap>, header: *mut PacketHeader) -> *const c_uchar |progress| {
        let (Some(handle), false) = (*handle, header.is_null()) else {
            return Step::Done(ptr::null());
        };
        let mut bytes = ptr::null();
        let step = one(handle, progress, |result, found, data| {
            if result == 1 {
                // SAFETY: C's contract: there is room for a header; the packet is the last.
                bytes = unsafe {
                    header.write(found);
                    keep(handle, found, data).1
                };
            }
            result
        });
        match step {
            Step::Done(_) => Step::Done(bytes),
            Step::Wait(wait) => Step::Wait(wait),
        }
    } else ptr::null(), closed ptr::null();

    /// Reads the next packet. Returns 1, 0 after a timeout, -1 for an error, or -2 at the end of a file.
    fn pcap_next_ex(
        handle: Option<&Pcap>, header: *mut *const PacketHeader, data: *mut *const c_uchar,
    ) -> c_int |progress| {
        let (Some(handle), false) = (*handle, header.is_null() || data.is_null()) else {
            return Step::Done(code::ERROR);
        };
        one(handle, progress, |result, found, bytes| match result {
            1 => {
                // SAFETY: C's contract: there is room for both addresses; the packet is the last.
                unsafe {
                    let (found, bytes) = keep(handle, found, bytes);
                    header.write(found);
                    data.write(bytes);
                }
                1
            }
            0 if handle.file().is_some() => code::BREAK,
            other => other,
        })
    } else code::ERROR, closed code::BREAK;
}

export! {
    /// Ends the present reading loop, or the next one. Signal handlers and other threads may call
    /// it.
    fn pcap_breakloop(handle: Option<&Pcap>) {
        if let Some(handle) = handle {
            handle.broken.store(true, Ordering::Release);
            handle.wake();
        }
    } else ();
}

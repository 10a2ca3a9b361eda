//! Waits for packets: nap, poll, and check the interfaces now and then.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_sys::poll::{self, Interest};
use ringtap_sys::xsk::Receiver;

use super::follow::Followed;
use super::open::offset_of;
use super::{Queue, SocketSource};
use crate::engines::pace::Pace;
use crate::options::CaptureOptions;
use crate::{Error, Result};

/// How often an idle capture checks whether its programs are still attached.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a reader that never sleeps checks the interfaces for changes, and after how many blocks it reads
/// the clock for that.
const LOOK_BUSY: Duration = Duration::from_millis(10);
const BLOCKS_BETWEEN: u32 = 64;
/// Naps in which packets gather if they come fast. A nap is so short that a sender of `FASTEST` packets per
/// second does not fill half of the frames.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);
const FASTEST: u32 = 10_000_000;
/// The maximum part of the timeout for a nap.
const NAP_SHARE: u32 = 16;
/// The number of packets that makes a nap worthwhile; with fewer, the sockets wake the reader.
const WORTH: u32 = 32;

/// The naps of a reader. An AF_XDP socket wakes its reader after each poll of its queue by the driver, which
/// brings only a few packets; a reader that naps takes many at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naps {
    nap: Option<Duration>,
    /// Counted in delivered packets.
    pace: Pace,
}

impl Naps {
    /// Returns the state for queues of this number of frames each.
    pub(super) fn new(frames: u32, options: &CaptureOptions) -> Self {
        let until_half = Duration::from_secs(1) * (frames / 2) / FASTEST;
        let nap = until_half.min(NAP_MAX).min(options.timeout / NAP_SHARE);
        let is_wanted = nap >= NAP_MIN && !options.immediate && options.busy_poll.is_none();
        Self {
            nap: is_wanted.then_some(nap),
            pace: Pace::new(),
        }
    }

    /// Returns the first nap of a wait, at the rate since the last one.
    fn next(&mut self, now: Instant, delivered: u64) -> Option<Duration> {
        let (passed, came) = self.pace.step(now, delivered);
        self.after(passed, came)
    }

    /// Returns the nap if `came` packets came in the time `passed`.
    fn after(&self, passed: Duration, came: u64) -> Option<Duration> {
        let nap = self.nap?;
        let is_worth = u128::from(came) * nap.as_nanos() >= passed.as_nanos() * u128::from(WORTH);
        is_worth.then_some(nap)
    }
}

impl SocketSource {
    /// Returns the next queue that has packets.
    pub(super) fn ready(&self) -> Option<Queue> {
        let all = || {
            let members = self.members.iter().enumerate();
            members.flat_map(|(member, found)| {
                let queues = found.receivers.iter().enumerate();
                queues.map(move |(queue, receiver)| (Queue { member, queue }, receiver))
            })
        };
        let has_packets = |(_, receiver): &(Queue, &Receiver)| receiver.available() > 0;
        let is_next = |(queue, _): &(Queue, &Receiver)| *queue >= self.turn;
        let (mut after, mut before) = (all().filter(is_next), all());
        let found = after.find(has_packets).or_else(|| before.find(has_packets));
        found.map(|(queue, _)| queue)
    }

    /// Checks interfaces and clock when it is time, for a reader that always finds packets.
    pub(super) fn look_now_and_then(&mut self) -> Result<()> {
        self.blocks += 1;
        if self.blocks < BLOCKS_BETWEEN {
            return Ok(());
        }
        self.blocks = 0;
        if self.looked.elapsed() < LOOK_BUSY {
            return Ok(());
        }
        self.look()
    }

    /// Waits for packets. `None` if the time is over or the waker was used.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<Option<Queue>> {
        let mut now = Instant::now();
        let deadline = now + limit;
        if self.changed || now - self.looked >= LOOK_BUSY {
            self.look()?;
        }
        let nap = self.naps.next(now, self.delivered);
        if let Some(nap) = nap.filter(|nap| *nap < limit) {
            poll::wait([Interest::read(self.waker.as_fd())], Some(nap))?;
        }
        loop {
            self.offer_frames();
            if let Some(queue) = self.ready() {
                return Ok(Some(queue));
            }
            self.let_go()?;
            now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() || self.waker.is_pending() {
                return Ok(None);
            }
            if let Some(duration) = self.options.busy_poll
                && self.poll_driver(duration.min(left))
            {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            self.sleep(left)?;
        }
    }

    /// Sleeps until one of the descriptors is readable, and handles it if it is not a packet.
    fn sleep(&mut self, left: Duration) -> Result<()> {
        let receivers = self.members.iter().flat_map(|member| &member.receivers);
        let others = [self.waker.as_fd(), self.clock.as_fd(), self.watch.as_fd()];
        let fds = receivers.map(AsFd::as_fd).chain(others);
        self.polled.wait(fds, left.min(LOOK_EVERY))?;
        if self.ready().is_some() || self.waker.is_pending() {
            return Ok(());
        }
        self.look()?;
        self.look_at_programs()
    }

    /// Tells drivers that wait for it that there are frames.
    fn offer_frames(&mut self) {
        for member in &mut self.members {
            for receiver in &mut member.receivers {
                drop(receiver.batch(0));
            }
        }
    }

    /// Lets the driver poll its queues without sleeping, for this time. Returns true if packets came.
    fn poll_driver(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        loop {
            for member in &self.members {
                member.receivers.iter().for_each(Receiver::poll_driver);
            }
            if self.ready().is_some() {
                return true;
            }
            if Instant::now() >= end || self.waker.is_pending() {
                return false;
            }
        }
    }

    /// Checks clock and interfaces, and reports one change.
    fn look(&mut self) -> Result<()> {
        self.looked = Instant::now();
        if self.clock.take_change()? {
            self.offset = offset_of(self.opener.clock, &self.clock);
        }
        self.changed |= self.watch.take();
        if !self.changed {
            return Ok(());
        }
        let links = self
            .netlink
            .links()
            .map_err(Error::interface(&self.device.name))?;
        let followed = self.follow(&links);
        // There may be more to report, and a removed device is reported each time.
        self.changed = !matches!(followed, Ok(Followed::All));
        followed.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn naps(frames: u32) -> Naps {
        Naps::new(frames, &CaptureOptions::default())
    }

    /// Returns the nap if this many packets came in ten milliseconds.
    fn after(packets: u64) -> Option<Duration> {
        naps(8192).after(10 * MILLI, packets)
    }

    #[test]
    fn the_fastest_sender_does_not_fill_half_of_the_frames_during_a_nap() {
        assert_eq!(naps(8192).nap, Some(Duration::from_nanos(409_600)));
        assert_eq!(naps(1 << 18).nap, Some(NAP_MAX));
        assert_eq!(naps(512).nap, None);
    }

    #[test]
    fn who_wants_packets_at_once_has_no_nap() {
        let immediate = CaptureOptions {
            immediate: true,
            ..CaptureOptions::default()
        };
        let polling = CaptureOptions {
            busy_poll: Some(MILLI),
            ..CaptureOptions::default()
        };
        let prompt = CaptureOptions {
            timeout: Duration::from_micros(500),
            ..CaptureOptions::default()
        };
        for options in [immediate, polling, prompt] {
            assert_eq!(Naps::new(8192, &options).nap, None, "{options:?}");
        }
    }

    #[test]
    fn a_nap_is_for_packets_that_come_fast() {
        // 32 packets in 0.4096 milliseconds.
        assert_eq!(after(782), Some(Duration::from_nanos(409_600)));
        assert_eq!(after(781), None);
        assert_eq!(after(0), None);
    }
}

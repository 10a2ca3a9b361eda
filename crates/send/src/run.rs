//! A run: passes packets to the back-end one by one, each at its time.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_sys::poll::{self, Interest};
use ringtap_sys::sched::TimerSlack;

use crate::departure::Watch;
use crate::generate::{Generation, Times};
use crate::pace::{Pacer, Schedule};
use crate::report::{NAMED, Rejected};
use crate::{
    OnRejected, Outgoing, Refused, Rejection, Report, Result, SendError, Sender, Template, Timing,
};

/// The maximum number of frames that are collected before a back-end is called.
const BATCH: usize = 256;
/// How long before a packet's time sleeping ends and spinning starts: limits, in nanoseconds.
const SPIN_LEAST: u64 = 30_000;
const SPIN_MOST: u64 = 500_000;
/// The part by which it falls with each sleep: sleeps are late at most once in hundreds.
const SPIN_FALL: u64 = 256;
/// How often progress is reported, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// How long to wait for stamps at the end.
const STAMPS_AFTER: Duration = Duration::from_millis(20);
/// The length of a piece of a wait, so that progress can be reported.
const LONGEST_SLEEP: u64 = 200_000_000;

/// Sends packets with one timing. Packets are passed piece by piece, so that they may come from a stream.
pub struct SendRun<'s> {
    sender: &'s mut Sender,
    schedule: Schedule,
    pacer: Pacer,
    clock: Clock,
    /// Packets that were accepted or left out.
    done: u64,
    report: Report,
    ended: bool,
    watch: Option<Watch>,
    _slack: Option<TimerSlack>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets that the interface accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time since the first packet.
    pub elapsed: Duration,
}

/// Frames that are handed over together.
struct Batch<'a> {
    frames: [&'a [u8]; BATCH],
    len: usize,
    limit: usize,
    first_due: u64,
    /// When each is due, if stamps are compared with that.
    dues: [u64; BATCH],
}

impl<'s> SendRun<'s> {
    pub(crate) fn new(sender: &'s mut Sender, timing: Timing) -> Result<Self> {
        let schedule = Schedule::new(timing)?;
        let slack = schedule.is_timed().then(TimerSlack::least).transpose()?;
        let is_stamped = sender.options.stamps.is_some() && schedule.is_timed();
        let watch = is_stamped.then(|| Watch::new(sender.stamped));
        Ok(Self {
            pacer: Pacer::new(&schedule, sender.back_end.tolerance()),
            sender,
            schedule,
            clock: Clock {
                begin: None,
                now: 0,
                spin: SPIN_LEAST * 4,
            },
            done: 0,
            report: Report {
                rejections: Vec::with_capacity(NAMED),
                ..Report::default()
            },
            ended: false,
            watch,
            _slack: slack,
        })
    }

    /// Sends packets. When it returns, they have been handed over, or are counted as rejected. It stops if
    /// the run has ended early; the report has the reason.
    ///
    /// It does not allocate. It reads the clock once for a packet with a time, otherwise once per batch.
    pub fn send<'a>(&mut self, packets: impl IntoIterator<Item = Outgoing<'a>>) -> ControlFlow<()> {
        if self.ended {
            return ControlFlow::Break(());
        }
        self.clock.start();
        let mut batch = Batch {
            frames: [&[]; BATCH],
            len: 0,
            limit: self.sender.back_end.batch().min(BATCH),
            first_due: 0,
            dues: [0; BATCH],
        };
        let timed = self.schedule.is_timed();
        for packet in packets {
            let due = match timed {
                true => self.reach(&packet, &mut batch)?,
                false => 0,
            };
            if batch.len == batch.limit {
                self.flush(&mut batch)?;
                if timed {
                    self.clock.read();
                }
            }
            if batch.len == 0 {
                batch.first_due = due;
            }
            batch.frames[batch.len] = packet.data;
            batch.dues[batch.len] = self.pacer.scheduled(due);
            batch.len += 1;
        }
        self.flush(&mut batch)
    }

    /// Generates frames until there are enough, the time is over, or the waker was used.
    pub(crate) fn generate(
        &mut self,
        template: &Template,
        times: &mut Times,
        generation: &Generation,
        each: &mut dyn FnMut(&Progress),
    ) -> ControlFlow<()> {
        let end = generation.duration.map_or(u64::MAX, |duration| {
            u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
        });
        let count = generation.count.unwrap_or(u64::MAX);
        let batch = self.sender.back_end.batch();
        let timed = self.schedule.is_timed();
        self.clock.start();
        let (mut number, mut next_look) = (0, 0);
        // The due time of the packet `number`.
        let mut due = times.due(0);
        while number < count && self.pacer.scheduled(due) < end {
            let left = usize::try_from(count - number).unwrap_or(usize::MAX);
            let mut ready = left.min(batch);
            if timed {
                let time = self.pacer.not_before(due);
                if time > self.clock.read() {
                    self.wait_until(time)?;
                    self.pacer.waited(due, self.clock.now.saturating_sub(time));
                }
                self.pacer.sent(due, self.clock.now);
                ready = self.take_due(times, number, &mut due, (ready, end));
            } else if self.clock.read() >= end {
                break;
            }
            self.hand_over(template, number, ready)?;
            number += ready as u64;
            if self.clock.now >= next_look {
                next_look = self.clock.now + LOOK;
                each(&self.progress());
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes the packets that are due now, starting with the packet `number`, whose due time is `due`: at
    /// least that one, at most `limits.0`, and none whose time has moved to `limits.1`. Leaves the next due
    /// time.
    fn take_due(
        &mut self,
        times: &mut Times,
        number: u64,
        due: &mut u64,
        limits: (usize, u64),
    ) -> usize {
        let now = self.clock.now;
        let mut taken = 0;
        loop {
            self.pacer.take(*due, now);
            taken += 1;
            *due = times.due(number + taken as u64);
            let is_last = taken >= limits.0 || self.pacer.scheduled(*due) >= limits.1;
            if is_last || self.pacer.not_before(*due) > now {
                return taken;
            }
        }
    }

    /// Makes and hands over this many frames.
    fn hand_over(&mut self, template: &Template, first: u64, count: usize) -> ControlFlow<()> {
        let (mut number, mut left) = (first, count);
        let mut full_since = None;
        while left > 0 {
            if self.sender.waker.is_pending() {
                return self.stop();
            }
            match self.sender.back_end.generate(number, left) {
                Ok(sent) => {
                    let sent = sent.min(left);
                    self.report.packets += sent as u64;
                    self.report.bytes += template.bytes(number, sent as u64);
                    self.done += sent as u64;
                    self.sender.count_stamped(sent);
                    number += sent as u64;
                    left -= sent;
                    full_since = None;
                }
                // Others of the sizes may also be rejected, but that costs little.
                Err(Refused::Rejected(reason)) => {
                    let len = usize::try_from(template.bytes(number, 1)).unwrap_or(usize::MAX);
                    return self.fail(SendError::Rejected {
                        device: self.sender.device.clone(),
                        len: len.max(template.longest()),
                        reason,
                    });
                }
                Err(Refused::QueueFull) => self.wait_for_room(true, &mut full_since)?,
                Err(Refused::NoRoom) => self.wait_for_room(false, &mut full_since)?,
                Err(Refused::Failed(error)) => return self.fail_of(error),
            }
        }
        ControlFlow::Continue(())
    }

    /// Restarts the times of packets: the next one is due together with the previous one.
    pub fn restart_times(&mut self) {
        self.schedule.restart();
    }

    /// Returns the progress of the run.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            packets: self.report.packets,
            bytes: self.report.bytes,
            elapsed: self.clock.elapsed(),
        }
    }

    /// Ends the run: waits until accepted packets have left, as far as the back-end knows.
    #[must_use]
    pub fn finish(mut self) -> Report {
        match self.sender.back_end.drain(self.sender.options.patience) {
            Ok(pending) => self.report.pending = pending,
            Err(error) => {
                self.report.error.get_or_insert((self.done, error));
            }
        }
        self.report.elapsed = self.clock.elapsed();
        if self.watch.is_some() {
            // The last ones may still be on their way.
            std::thread::sleep(STAMPS_AFTER);
            let _ = self.take_stamps();
        }
        self.report.departures = self.watch.as_ref().map(Watch::departures);
        self.report.lateness = self.pacer.lateness();
        self.report.backwards = self.schedule.backwards;
        std::mem::take(&mut self.report)
    }

    /// Waits until the packet may be sent. Collected frames leave before.
    fn reach(&mut self, packet: &Outgoing<'_>, batch: &mut Batch<'_>) -> ControlFlow<(), u64> {
        let due = self.schedule.due(packet);
        let time = self.pacer.not_before(due);
        if time > self.clock.now && time > self.clock.read() {
            self.flush(batch)?;
            self.wait_until(time)?;
            self.pacer.waited(due, self.clock.now.saturating_sub(time));
        }
        self.pacer.take(due, self.clock.now);
        ControlFlow::Continue(due)
    }

    /// Sleeps until shortly before the time, then spins.
    fn wait_until(&mut self, time: u64) -> ControlFlow<()> {
        loop {
            if self.sender.waker.is_pending() {
                return self.stop();
            }
            let left = time.saturating_sub(self.clock.read());
            if left <= self.clock.spin {
                break;
            }
            let sleep = (left - self.clock.spin).min(LONGEST_SLEEP);
            let before = self.clock.now;
            let woken = Interest::read(self.sender.waker.as_fd());
            if let Err(error) = poll::wait([woken], Some(Duration::from_nanos(sleep))) {
                return self.fail(error.into());
            }
            self.clock.slept(before + sleep);
        }
        while self.clock.read() < time {
            std::hint::spin_loop();
        }
        ControlFlow::Continue(())
    }

    /// Hands over the collected frames.
    fn flush(&mut self, batch: &mut Batch<'_>) -> ControlFlow<()> {
        let mut begin = 0;
        let mut full_since = None;
        if self.schedule.is_timed() && batch.len > 0 {
            self.pacer.sent(batch.first_due, self.clock.now);
        }
        while begin < batch.len {
            if self.sender.waker.is_pending() {
                return self.stop();
            }
            let frames = &batch.frames[begin..batch.len];
            match self.sender.back_end.send(frames) {
                Ok(sent) => {
                    let taken = &frames[..sent.min(frames.len())];
                    self.report.packets += taken.len() as u64;
                    self.report.bytes += taken.iter().map(|frame| frame.len() as u64).sum::<u64>();
                    self.done += taken.len() as u64;
                    self.sender.count_stamped(taken.len());
                    if let Some(watch) = &mut self.watch {
                        let dues = &batch.dues[begin..begin + taken.len()];
                        dues.iter().for_each(|&due| watch.taken(due));
                    }
                    begin += taken.len();
                    full_since = None;
                }
                Err(Refused::Rejected(reason)) => {
                    self.reject(frames[0].len(), reason)?;
                    begin += 1;
                }
                Err(Refused::QueueFull) => self.wait_for_room(true, &mut full_since)?,
                Err(Refused::NoRoom) => self.wait_for_room(false, &mut full_since)?,
                Err(Refused::Failed(error)) => return self.fail_of(error),
            }
        }
        batch.len = 0;
        self.take_stamps()
    }

    /// Takes the stamps that have come.
    fn take_stamps(&mut self) -> ControlFlow<()> {
        let Some(watch) = &mut self.watch else {
            return ControlFlow::Continue(());
        };
        loop {
            match self.sender.back_end.take_stamp() {
                Ok(Some(stamp)) => watch.stamped(stamp),
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn reject(&mut self, len: usize, reason: Rejection) -> ControlFlow<()> {
        if self.sender.options.on_rejected == OnRejected::Stop {
            return self.fail(SendError::Rejected {
                device: self.sender.device.clone(),
                len,
                reason,
            });
        }
        if self.report.rejections.len() < NAMED {
            let index = self.done;
            self.report.rejections.push(Rejected { index, len, reason });
        }
        self.report.rejected += 1;
        self.done += 1;
        ControlFlow::Continue(())
    }

    /// Waits until a frame may be accepted: the driver's queue is full, or the socket's own memory.
    fn wait_for_room(
        &mut self,
        is_queue_full: bool,
        since: &mut Option<Instant>,
    ) -> ControlFlow<()> {
        self.report.queue_full += u64::from(is_queue_full);
        self.report.no_room += u64::from(!is_queue_full);
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        let patience = self.sender.options.patience;
        if waited >= patience {
            return self.fail(SendError::Stuck {
                device: self.sender.device.clone(),
                millis: patience.as_millis(),
            });
        }
        let Sender {
            back_end, waker, ..
        } = &mut *self.sender;
        match back_end.wait(waker, patience - waited) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => self.fail(error),
        }
    }

    fn stop(&mut self) -> ControlFlow<()> {
        self.sender.waker.take();
        self.report.stopped = true;
        self.ended = true;
        ControlFlow::Break(())
    }

    fn fail_of(&mut self, error: ringtap_sys::Error) -> ControlFlow<()> {
        let error = SendError::of_call(&self.sender.device, error);
        self.fail(error)
    }

    fn fail(&mut self, error: SendError) -> ControlFlow<()> {
        self.report.error = Some((self.done, error));
        self.ended = true;
        ControlFlow::Break(())
    }
}

/// A clock of nanoseconds since the run started.
#[derive(Debug)]
struct Clock {
    begin: Option<Instant>,
    /// When it was last read.
    now: u64,
    /// How long before a time spinning starts: the lateness of sleeps, and a reserve.
    spin: u64,
}

impl Clock {
    fn start(&mut self) {
        self.begin.get_or_insert_with(Instant::now);
    }

    #[inline]
    fn read(&mut self) -> u64 {
        let elapsed = self.elapsed();
        self.now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.now
    }

    fn elapsed(&self) -> Duration {
        self.begin.map_or(Duration::ZERO, |begin| begin.elapsed())
    }

    /// Records a sleep that should have ended at `wanted`: spinning will start earlier by twice its lateness.
    /// This time falls slowly if sleeps are punctual.
    fn slept(&mut self, wanted: u64) {
        let late = self.read().saturating_sub(wanted);
        let wanted_spin = late.saturating_mul(2).clamp(SPIN_LEAST, SPIN_MOST);
        self.spin = wanted_spin.max(self.spin - self.spin / SPIN_FALL);
    }
}

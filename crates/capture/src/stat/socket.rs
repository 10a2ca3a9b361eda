//! Counts without a hook, for users who may only open packet sockets: packets of an AF_PACKET ring, with the
//! filters run on each in this process.
//!
//! One socket is enough for all filters. With one for each, the kernel would copy every packet as often as it
//! is accepted, and would not report bytes of unread packets. A thread reads the ring; the kernel counts
//! packets for which it was full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap_filter::Program;
use ringtap_filter::program::opcode as op;

use super::{Count, StatDescription, StatOptions};
use crate::engines;
use crate::filter::Matcher;
use crate::hook::HookDevice;
use crate::source::{Companion, Waker};
use crate::{Block, CaptureOptions, Error, Next, Result, Source};

/// The maximum time that a packet waits to be counted.
const TIMEOUT: Duration = Duration::from_millis(10);
/// The time for the last packets: the kernel delivers a partial block only when its timer has fired twice,
/// which a busy processor delays.
const LAST: Duration = Duration::from_secs(1);

/// Counters that a thread of this process increments.
pub(super) struct SocketCounters {
    shared: Arc<Shared>,
    companion: Option<Arc<dyn Companion>>,
    waker: Waker,
    thread: Thread,
}

enum Thread {
    /// Not started yet, with its input.
    Waiting(Box<Counting>),
    Running(JoinHandle<()>),
    Gone,
}

/// The state that the thread and its owner share.
#[derive(Debug)]
struct Shared {
    /// The counts by filter; the last is that of all packets.
    slots: Vec<Slot>,
    /// Whether to count the waiting packets before the end.
    settles: AtomicBool,
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl SocketCounters {
    /// Opens the socket. `reason` is why no hook counts. Needs CAP_NET_RAW.
    pub(super) fn open(
        device: &HookDevice,
        programs: Vec<Program>,
        options: &StatOptions,
        reason: Option<&Error>,
    ) -> Result<(Self, StatDescription)> {
        let capture = CaptureOptions {
            promiscuous: false,
            direction: options.direction,
            mode: options.mode,
            timeout: TIMEOUT,
            ..CaptureOptions::default()
        };
        let source = engines::open(&format!("packet:{}", device.name), &capture, None)?;
        let matchers = programs
            .into_iter()
            .map(|program| Matcher::new(program.with_known(op::SKF_AD_IFINDEX, device.index)));
        let matchers: Vec<Matcher> = matchers.collect();
        let slots = (0..=matchers.len()).map(|_| Slot::default());
        let shared = Arc::new(Shared {
            slots: slots.collect(),
            settles: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let description = StatDescription::of_socket(device, &source.describe(), reason);
        let companion = source.companion();
        let counters = Self {
            companion: companion.clone(),
            waker: source.waker(),
            thread: Thread::Waiting(Box::new(Counting {
                sums: vec![Count::default(); matchers.len() + 1],
                source,
                companion,
                matchers,
                shared: Arc::clone(&shared),
            })),
            shared,
        };
        Ok((counters, description))
    }

    /// Starts the thread, unless it was started.
    pub(super) fn begin(&mut self) {
        self.thread = match std::mem::replace(&mut self.thread, Thread::Gone) {
            Thread::Waiting(counting) => {
                let named = std::thread::Builder::new().name("ringtap-stat".to_owned());
                let started = named.spawn(move || counting.run());
                started.map_or_else(
                    |_| {
                        // A reading returns that nothing counts.
                        self.shared.has_ended.store(true, Ordering::Relaxed);
                        Thread::Gone
                    },
                    Thread::Running,
                )
            }
            thread => thread,
        };
    }

    /// Returns the slot of all packets: after the last filter's.
    pub(super) fn total(&self) -> Count {
        self.load(self.shared.slots.len() - 1)
    }

    /// Returns a filter's slot.
    pub(super) fn load(&self, slot: usize) -> Count {
        self.shared
            .slots
            .get(slot)
            .map_or_else(Count::default, |slot| Count {
                packets: slot.packets.load(Ordering::Relaxed),
                bytes: slot.bytes.load(Ordering::Relaxed),
            })
    }

    /// Returns the packets that came and were not counted. `None` if the kernel does not report it.
    pub(super) fn lost(&self) -> Option<u64> {
        let stats = self.companion.as_ref()?.stats().ok()?;
        stats.dropped.ring
    }

    pub(super) fn is_attached(&self) -> bool {
        !self.shared.has_ended.load(Ordering::Relaxed)
    }

    /// Ends the thread, which first counts the packets in the ring.
    pub(super) fn settle(&mut self) {
        self.begin();
        self.shared.settles.store(true, Ordering::Relaxed);
        self.end();
    }

    fn end(&mut self) {
        if let Thread::Running(thread) = std::mem::replace(&mut self.thread, Thread::Gone) {
            self.waker.wake();
            // Its counts are valid even if it panicked.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for SocketCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketCounters")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Drop for SocketCounters {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's side.
struct Counting {
    source: Box<dyn Source>,
    /// Publishes the counters of the ring.
    companion: Option<Arc<dyn Companion>>,
    matchers: Vec<Matcher>,
    /// The sums of a block.
    sums: Vec<Count>,
    shared: Arc<Shared>,
}

impl Counting {
    fn run(mut self) {
        let mut last: Option<Last> = None;
        let mut counted = 0;
        loop {
            match self.source.next() {
                Ok(Next::Block(block)) => {
                    count(&block, &self.matchers, &mut self.sums);
                    counted += self.sums.last().map_or(0, |total| total.packets);
                    self.shared.add(&mut self.sums);
                }
                Ok(Next::Woken) if self.shared.settles.load(Ordering::Relaxed) => {
                    last = Some(Last::of(self.companion.as_deref()));
                }
                Ok(Next::Woken) => break,
                Ok(_) => {}
                Err(error) if error.is_transient() => {}
                Err(_) => break,
            }
            if last.as_ref().is_some_and(|last| last.is_over(counted)) {
                break;
            }
        }
        self.shared.has_ended.store(true, Ordering::Relaxed);
    }
}

/// The packets that were in the ring before the end was requested.
struct Last {
    /// The number of packets in the ring by then. `None` if the kernel does not report it.
    taken: Option<u64>,
    since: Instant,
}

impl Last {
    fn of(companion: Option<&dyn Companion>) -> Self {
        let stats = companion.and_then(|companion| companion.stats().ok());
        let stats = stats.unwrap_or_default();
        let dropped = stats.dropped.ring.unwrap_or_default();
        Self {
            taken: stats.received.map(|all| all.saturating_sub(dropped)),
            since: Instant::now(),
        }
    }

    /// Returns whether all of them are among the `counted` packets, or will not come any more.
    fn is_over(&self, counted: u64) -> bool {
        self.taken.is_some_and(|taken| counted >= taken) || self.since.elapsed() > LAST
    }
}

/// Adds the packets of a block to the sums.
fn count(block: &Block<'_>, matchers: &[Matcher], sums: &mut [Count]) {
    let Some((total, sums)) = sums.split_last_mut() else {
        return;
    };
    for packet in block.packets() {
        let bytes = u64::from(packet.len);
        total.add(bytes);
        for (matcher, sum) in matchers.iter().zip(&mut *sums) {
            if matcher.accepts(&packet) {
                sum.add(bytes);
            }
        }
    }
}

impl Shared {
    /// Takes the sums, and leaves zeros.
    fn add(&self, sums: &mut [Count]) {
        for (slot, sum) in self.slots.iter().zip(sums) {
            let Count { packets, bytes } = std::mem::take(sum);
            if packets > 0 {
                slot.packets.fetch_add(packets, Ordering::Relaxed);
                slot.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }
}

//! Counting without a hook, for who may open packet sockets and nothing else: packets of an AF_PACKET
//! ring, with the filters run on each in this process.
//!
//! One socket does for all filters, whatever they are: with one for each, the kernel would copy every
//! packet as often as it is accepted, and would tell no bytes of packets that nobody reads. A thread
//! reads the ring; what finds no room in it is counted by the kernel, in packets.

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

/// The longest that a packet waits to be counted.
const TIMEOUT: Duration = Duration::from_millis(10);
/// Time-outs in a row after which nothing is on its way any more, and how long to wait for them where
/// packets keep coming.
const QUIET: u32 = 2;
const LAST: Duration = Duration::from_millis(500);

/// Counters that a thread of this process adds to.
pub(super) struct SocketCounters {
    shared: Arc<Shared>,
    companion: Option<Arc<dyn Companion>>,
    waker: Waker,
    thread: Thread,
}

enum Thread {
    /// With what it needs.
    Waiting(Box<Counting>),
    Running(JoinHandle<()>),
    Gone,
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Shared {
    /// By filter; of all packets in the last.
    slots: Vec<Slot>,
    /// Whether what is there is to be counted before the end.
    settles: AtomicBool,
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl SocketCounters {
    /// Opens the socket; `reason` is why no hook counts. Needs CAP_NET_RAW.
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
        let counters = Self {
            companion: source.companion(),
            waker: source.waker(),
            thread: Thread::Waiting(Box::new(Counting {
                sums: vec![Count::default(); matchers.len() + 1],
                source,
                matchers,
                shared: Arc::clone(&shared),
            })),
            shared,
        };
        Ok((counters, description))
    }

    /// Starts the thread, unless it was.
    pub(super) fn begin(&mut self) {
        if let Thread::Waiting(counting) = std::mem::replace(&mut self.thread, Thread::Gone) {
            let named = std::thread::Builder::new().name("ringtap-stat".to_owned());
            match named.spawn(move || counting.run()) {
                Ok(thread) => self.thread = Thread::Running(thread),
                // Who asks is told that nothing counts.
                Err(_) => self.shared.has_ended.store(true, Ordering::Relaxed),
            }
        }
    }

    /// A slot; the one behind the last filter's is the total.
    pub(super) fn load(&self, slot: usize) -> Count {
        self.shared
            .slots
            .get(slot)
            .map_or_else(Count::default, |slot| Count {
                packets: slot.packets.load(Ordering::Relaxed),
                bytes: slot.bytes.load(Ordering::Relaxed),
            })
    }

    /// Packets that came and were not counted; nothing where the kernel does not tell.
    pub(super) fn lost(&self) -> Option<u64> {
        let stats = self.companion.as_ref()?.stats().ok()?;
        stats.dropped.ring
    }

    pub(super) fn is_attached(&self) -> bool {
        !self.shared.has_ended.load(Ordering::Relaxed)
    }

    /// Ends the thread, which counts what is in the ring before.
    pub(super) fn settle(&mut self) {
        self.begin();
        self.shared.settles.store(true, Ordering::Relaxed);
        self.end();
    }

    fn end(&mut self) {
        if let Thread::Running(thread) = std::mem::replace(&mut self.thread, Thread::Gone) {
            self.waker.wake();
            // What it has counted is there though it may have panicked.
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
    matchers: Vec<Matcher>,
    /// Of a block.
    sums: Vec<Count>,
    shared: Arc<Shared>,
}

impl Counting {
    fn run(mut self) {
        let mut settling = None;
        let mut quiet = 0_u32;
        loop {
            match self.source.next() {
                Ok(Next::Block(block)) => {
                    count(&block, &self.matchers, &mut self.sums);
                    self.shared.add(&mut self.sums);
                    quiet = 0;
                }
                Ok(Next::Woken) if self.shared.settles.load(Ordering::Relaxed) => {
                    settling = Some(Instant::now());
                    quiet = 0;
                }
                Ok(Next::Woken) => break,
                Ok(_) => quiet = quiet.saturating_add(1),
                Err(error) if error.is_transient() => quiet = quiet.saturating_add(1),
                Err(_) => break,
            }
            if settling.is_some_and(|since| quiet >= QUIET || since.elapsed() > LAST) {
                break;
            }
        }
        self.shared.has_ended.store(true, Ordering::Relaxed);
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
    /// Takes the sums over, and leaves zeros.
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

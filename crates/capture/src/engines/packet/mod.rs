//! Engine `packet`: the AF_PACKET receive ring (packet(7), TPACKET_V3).
//!
//! This engine is for kernels and callers that the others do not support. It needs only CAP_NET_RAW, and sees
//! both directions. It takes no packet away from the system.
//!
//! A device, options and a filter go in. Blocks of the ring come out.
//!
//! # No stray packets
//!
//! The socket is created with protocol 0, which receives nothing; filter and ring are set before it is bound.
//! A filter is replaced without a gap: the kernel changes it between two packets. Blocks that may contain
//! packets of the old filter pass through the new one here. So old and new packets do not mix, and no packet
//! that matches both is lost.
//!
//! # When packets are handed over
//!
//! A block is delivered when it is full, or after the timeout of at least 1 ms ([`ringtap_sys::packet`]
//! describes the kernel's addition). In immediate mode the ring has another version, as in libpcap: each
//! packet has its own slot and is delivered as it comes, with a wake-up if the reader sleeps. Such a ring
//! holds fewer packets, since a slot has room for the largest. `examples/delay.rs` measures it, beside
//! tcpdump.

mod open;
mod program;
mod state;

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap_savefile::Interface;
use ringtap_sys::packet::{Endpoint, LinkLayer, Ring};
use ringtap_sys::poll::{self, Interest};

use crate::block::Origin;
use crate::describe::FilterPlace;
use crate::engines::interface::{InterfaceLosses, Scope};
use crate::filter::FilterTable;
use crate::options::CaptureOptions;
use crate::source::{Change, Companion, Polling};
use crate::{Block, Description, Dropped, Filter, LinkType, Next, Result, Source, Stats, Waker};
use open::SocketFilter;
pub(crate) use open::{explain, open};
use state::State;

/// The kernel counts in 32 bits between reads; a block cannot hold 2^24 packets.
const BLOCKS_BETWEEN_COUNTS: u32 = 64;

/// A capture by this engine.
#[derive(Debug)]
struct PacketSource {
    ring: Ring,
    waker: Waker,
    /// Why this engine was chosen, if the device names none.
    choice: Option<String>,
    options: CaptureOptions,
    scope: Scope,
    link: (LinkType, LinkLayer),
    retire_timeout: Duration,
    interfaces: [Interface; 1],
    filter: ActiveFilter,
    state: State,
    companion: Arc<Aside>,
    /// The filter as requested.
    wanted: Option<Filter>,
    blocks_until_count: u32,
    /// Whether the last call returned a block.
    has_delivered: bool,
    /// The notes of the opening.
    notes: Vec<crate::describe::Note>,
}

/// The part that needs no access to the ring.
#[derive(Debug)]
struct Aside {
    endpoint: Endpoint,
    losses: Mutex<Option<InterfaceLosses>>,
    is_sampled: bool,
}

impl Companion for Aside {
    fn stats(&self) -> Result<Stats> {
        let statistics = self.endpoint.statistics()?;
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Stats {
            received: Some(statistics.received),
            dropped: Dropped {
                hook: Some(0),
                // The kernel counts a packet once the socket's filter, which samples, has accepted
                // it; and a classic program has no memory in which it could count by itself.
                sampling: (!self.is_sampled).then_some(0),
                ring: Some(statistics.dropped),
                interface: losses.as_mut().and_then(InterfaceLosses::since_opening),
                ..Dropped::default()
            },
            freezes: Some(statistics.freezes),
            ..Stats::default()
        })
    }

    fn send(&self, frame: &[u8]) -> Result<usize> {
        Ok(self.endpoint.send(frame)?)
    }
}

/// The filter of a running capture.
#[derive(Debug, Default)]
struct ActiveFilter {
    /// Runs in user space: always where the kernel cannot run it, else on blocks that may hold
    /// packets of an older filter.
    table: Option<FilterTable>,
    place: FilterPlace,
    /// Blocks that may hold packets of an older filter.
    stale_blocks: u32,
    /// Whether the last block was one of them; nothing before the first.
    last_is_stale: Option<bool>,
}

impl ActiveFilter {
    /// Returns the filter for the next block in user space. `is_kept` means that the last block comes again.
    #[inline]
    fn for_next_block(&mut self, is_kept: bool) -> Option<&FilterTable> {
        let is_stale = match self.last_is_stale {
            Some(is_stale) if is_kept => is_stale,
            _ => {
                let is_stale = self.stale_blocks > 0;
                self.stale_blocks -= u32::from(is_stale);
                is_stale
            }
        };
        self.last_is_stale = Some(is_stale);
        if is_stale {
            return self.table.as_ref();
        }
        match self.place {
            FilterPlace::UserSpace { .. } => self.table.as_ref(),
            FilterPlace::None | FilterPlace::Kernel { .. } | FilterPlace::Both => None,
        }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Ready,
    TimedOut,
    Woken,
}

impl PacketSource {
    /// Waits for a block, at most this long.
    #[cold]
    fn wait(&mut self, limit: Duration) -> Result<Waited> {
        if self.state == State::Gone {
            self.state.settle(&self.ring)?;
        }
        if let Some(duration) = self.options.busy_poll.filter(|_| !limit.is_zero())
            && self.spin(duration)
        {
            return Ok(Waited::Ready);
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let interests = [
                Interest::read(self.ring.as_fd()),
                Interest::read(self.waker.as_fd()),
            ];
            let [ring, wake] = poll::wait(interests, Some(self.state.bound(left)))?;
            if wake.readable && self.waker.take() {
                return Ok(Waited::Woken);
            }
            if self.ring.is_ready() {
                self.state.delivered();
                return Ok(Waited::Ready);
            }
            if ring.failed {
                self.state.failed(&self.ring, self.retire_timeout)?;
            }
            self.state.settle(&self.ring)?;
            let interrupted = !ring.readable && !ring.failed && !wake.readable;
            if Instant::now() >= deadline || (interrupted && self.state == State::Up) {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// Sets another filter in the kernel, or other rules.
    fn attach(&mut self, filter: Option<Filter>, options: CaptureOptions) -> Result<()> {
        let plan = SocketFilter::new(filter.as_ref(), self.link, self.ring.ifindex(), &options)?;
        let plan = plan.attach(&mut self.ring, self.scope, &options)?;
        let stale_blocks = self.ring.blocks_begun();
        self.filter = ActiveFilter {
            table: plan.table,
            place: plan.place,
            stale_blocks,
            last_is_stale: None,
        };
        self.options = options;
        self.wanted = filter;
        Ok(())
    }

    #[inline]
    fn next_within(&mut self, limit: Duration) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        if !self.ring.is_ready() {
            match self.wait(limit)? {
                Waited::Ready => {}
                Waited::TimedOut => return Ok(Next::TimedOut),
                Waited::Woken => return Ok(Next::Woken),
            }
        }
        self.blocks_until_count -= 1;
        if self.blocks_until_count == 0 {
            self.blocks_until_count = BLOCKS_BETWEEN_COUNTS;
            self.ring.statistics()?;
        }
        let filter = self.filter.for_next_block(self.ring.is_kept());
        match self.ring.take() {
            Some(block) => {
                self.has_delivered = true;
                Ok(Next::Block(Block::new(Origin::Ring(block), filter)))
            }
            None => Ok(Next::TimedOut),
        }
    }

    /// Sets the link type of packets: another version of the cooked header. Returns whether it succeeded.
    fn set_cooked(&mut self, link_type: LinkType) -> bool {
        if link_type == self.link.0 {
            return true;
        }
        let layer = match link_type {
            LinkType::LINUX_SLL => LinkLayer::CookedV1,
            LinkType::LINUX_SLL2 => LinkLayer::CookedV2,
            _ => return false,
        };
        let is_set = self.ring.set_cooked(layer);
        if is_set {
            self.link = (link_type, layer);
            self.interfaces[0].link_type = link_type;
        }
        is_set
    }

    /// Looks for a block without sleeping.
    fn spin(&self, duration: Duration) -> bool {
        const LOOKS_PER_CLOCK_READ: u32 = 64;
        let end = Instant::now() + duration;
        while Instant::now() < end && !self.waker.is_pending() {
            for _ in 0..LOOKS_PER_CLOCK_READ {
                if self.ring.is_ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }
}

impl Source for PacketSource {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    #[inline]
    fn next(&mut self) -> Result<Next<'_>> {
        self.next_within(self.options.wait.unwrap_or(self.options.timeout))
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        // After a block the interface need not be checked at once: poll(2) reports it, and the caller comes
        // again.
        let asks = !std::mem::replace(&mut self.has_delivered, false);
        if !asks && !self.ring.is_ready() && !self.waker.is_pending() {
            return Ok(Next::TimedOut);
        }
        self.next_within(Duration::ZERO)
    }

    fn stats(&mut self) -> Result<Stats> {
        self.companion.stats()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        let options = self.options.clone();
        self.attach(filter.cloned(), options)
    }

    fn change(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Direction(direction) => {
                let options = CaptureOptions {
                    direction,
                    ..self.options.clone()
                };
                self.attach(self.wanted.clone(), options)
            }
            Change::LinkType(link_type) if self.set_cooked(link_type) => Ok(()),
            other => Err(other.refused()),
        }
    }

    fn companion(&self) -> Option<Arc<dyn Companion>> {
        Some(Arc::clone(&self.companion) as _)
    }

    fn polling(&mut self) -> Option<&mut dyn Polling> {
        Some(self)
    }

    fn describe(&self) -> Description {
        open::describe(self)
    }
}

impl Polling for PacketSource {
    fn fd(&mut self) -> Result<RawFd> {
        Ok(self.ring.as_fd().as_raw_fd())
    }

    fn interval(&self) -> Option<Duration> {
        (self.state != State::Up).then(|| self.state.bound(Duration::MAX))
    }
}

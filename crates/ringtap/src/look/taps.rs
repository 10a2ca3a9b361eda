//! Taps: packets that a view wants from now on, as a pcapng stream.
//!
//! Data in: blocks of packets, on the thread that meters, and only while there is a tap. Data out: copies of
//! those that its filter accepts, through a bounded queue; where that is full, they are dropped and
//! counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringtap_capture::{
    Block, Filter, Interface, LinkType, Packet, PacketFlags, Timestamp, Visitor,
};
use ringtap_filter::{Program, Tables};
use ringtap_savefile::{PcapngWriter, Section};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Blocks of packets that may wait in a tap's queue.
const QUEUE: usize = 256;
/// Taps at a time.
const TAPS: usize = 8;

/// The packets of a tap at most, and the bytes that it copies of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

/// Why a tap could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TapError {
    /// The filter does not compile.
    #[error("{}", crate::filter::describe(.0))]
    Filter(ringtap_capture::Error),
    /// There are enough of them.
    #[error("{TAPS} downloads are under way; wait until one of them ends")]
    TooMany,
    /// No packets are to come.
    #[error("packets can be downloaded from a live capture only")]
    NotLive,
}

/// A packet that was copied.
#[derive(Debug)]
pub(crate) struct Copied {
    timestamp: Timestamp,
    len: u32,
    interface: u32,
    flags: PacketFlags,
    data: Box<[u8]>,
}

impl Copied {
    /// Returns the packet.
    pub(super) fn packet(&self) -> Packet<'_> {
        Packet {
            timestamp: self.timestamp,
            len: self.len,
            interface: self.interface,
            flags: self.flags,
            data: &self.data,
        }
    }
}

/// All taps.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Tap>>>,
    interfaces: Mutex<Vec<Interface>>,
    is_live: AtomicBool,
}

#[derive(Debug)]
struct Tap {
    programs: Vec<Program>,
    until: Instant,
    to: Sender<Vec<Copied>>,
    lost: AtomicU64,
    limit: Option<Limit>,
    copied: AtomicUsize,
}

impl Taps {
    /// The capture has these interfaces.
    pub(super) fn interfaces(&self, interfaces: &[Interface]) {
        *lock(&self.interfaces) = interfaces.to_vec();
        self.is_live.store(true, Ordering::Relaxed);
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Makes a tap for so long.
    pub(crate) fn open(&self, expression: &str, time: Duration) -> Result<Tapped, TapError> {
        self.make(expression, time, None)
    }

    /// Makes a tap for so long, which ends after some packets.
    pub(super) fn open_limited(
        &self,
        expression: &str,
        time: Duration,
        limit: Limit,
    ) -> Result<Tapped, TapError> {
        self.make(expression, time, Some(limit))
    }

    fn make(
        &self,
        expression: &str,
        time: Duration,
        limit: Option<Limit>,
    ) -> Result<Tapped, TapError> {
        if !self.is_live.load(Ordering::Relaxed) {
            return Err(TapError::NotLive);
        }
        let interfaces = lock(&self.interfaces).clone();
        let filter = Filter::new(expression)
            .with_extensions(true)
            .with_resolver(Arc::new(Tables::new()));
        let program = |link: LinkType| filter.compile(link, ringtap_packet::MAX_SNAPLEN);
        let programs = interfaces
            .iter()
            .map(|interface| program(interface.link_type));
        let programs = programs
            .collect::<Result<_, _>>()
            .map_err(TapError::Filter)?;
        let (to, from) = channel(QUEUE);
        let until = Instant::now() + time;
        let tap = Arc::new(Tap {
            programs,
            until,
            to,
            lost: AtomicU64::new(0),
            limit,
            copied: AtomicUsize::new(0),
        });
        let mut list = lock(&self.list);
        list.retain(|tap| !tap.is_over());
        // Those with a limit are bounded by who opens them.
        let downloads = list.iter().filter(|tap| tap.limit.is_none()).count();
        if limit.is_none() && downloads >= TAPS {
            return Err(TapError::TooMany);
        }
        list.push(Arc::clone(&tap));
        self.count.store(list.len(), Ordering::Relaxed);
        Ok(Tapped {
            tap,
            from,
            interfaces,
            until,
        })
    }

    /// Copies the packets of a block that taps want.
    pub(super) fn block(&self, block: &Block<'_>) {
        let mut list = lock(&self.list);
        list.retain(|tap| !tap.is_over());
        self.count.store(list.len(), Ordering::Relaxed);
        for tap in list.iter() {
            let taken = tap.copied.load(Ordering::Relaxed);
            let mut copying = Copying {
                programs: &tap.programs,
                copied: Vec::new(),
                room: tap.limit.map(|limit| Limit {
                    packets: limit.packets.saturating_sub(taken),
                    ..limit
                }),
            };
            block.drain(&mut copying);
            let copied = copying.copied;
            let count = copied.len() as u64;
            tap.copied.fetch_add(copied.len(), Ordering::Relaxed);
            if count > 0 && tap.to.try_send(copied).is_err() {
                tap.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

impl Tap {
    fn is_over(&self) -> bool {
        let copied = self.copied.load(Ordering::Relaxed);
        let is_full = self.limit.is_some_and(|limit| copied >= limit.packets);
        is_full || self.to.is_closed() || Instant::now() >= self.until
    }
}

struct Copying<'a> {
    programs: &'a [Program],
    copied: Vec<Copied>,
    room: Option<Limit>,
}

impl Visitor for Copying<'_> {
    fn packet(&mut self, packet: &Packet<'_>) {
        if self
            .room
            .is_some_and(|room| self.copied.len() >= room.packets)
        {
            return;
        }
        let bytes = self.room.map_or(usize::MAX, |room| room.bytes);
        let program = self.programs.get(packet.interface as usize);
        if program.is_some_and(|program| program.run(packet.data, packet.len) > 0) {
            self.copied.push(Copied {
                timestamp: packet.timestamp,
                len: packet.len,
                interface: packet.interface,
                flags: packet.flags,
                data: packet.data[..packet.data.len().min(bytes)].into(),
            });
        }
    }
}

/// The view's end of a tap.
#[derive(Debug)]
pub(crate) struct Tapped {
    tap: Arc<Tap>,
    from: Receiver<Vec<Copied>>,
    interfaces: Vec<Interface>,
    until: Instant,
}

/// Packets as pcapng.
pub(crate) struct Encoded {
    writer: PcapngWriter<Vec<u8>>,
}

impl Tapped {
    /// Returns what encodes its packets.
    pub(crate) fn encoder(&self) -> std::io::Result<Encoded> {
        let mut writer = PcapngWriter::new(Vec::new(), &Section::default()).map_err(io)?;
        for interface in &self.interfaces {
            writer.add_interface(interface).map_err(io)?;
        }
        Ok(Encoded { writer })
    }

    /// Returns the link type of an interface's packets.
    pub(super) fn link_type(&self, interface: u32) -> LinkType {
        let interface = self.interfaces.get(interface as usize);
        interface.map_or(LinkType::ETHERNET, |interface| interface.link_type)
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Returns the next packets; `None` when they are the last.
    pub(crate) async fn next(&mut self) -> Option<Vec<Copied>> {
        self.from.recv().await
    }

    /// Returns packets that are there already.
    pub(crate) fn try_next(&mut self) -> Option<Vec<Copied>> {
        self.from.try_recv().ok()
    }

    /// Packets that were dropped because nobody took them in time.
    pub(crate) fn lost(&self) -> u64 {
        self.tap.lost.load(Ordering::Relaxed)
    }
}

impl Encoded {
    /// Encodes packets.
    pub(crate) fn push(&mut self, packets: &[Copied]) -> std::io::Result<()> {
        for copied in packets {
            self.writer.write_packet(&copied.packet()).map_err(io)?;
        }
        Ok(())
    }

    /// Takes the bytes that were encoded.
    pub(crate) fn take(&mut self) -> std::io::Result<Vec<u8>> {
        self.writer.flush().map_err(io)?;
        Ok(std::mem::take(self.writer.sink_mut()))
    }
}

fn io(error: ringtap_savefile::WriteError) -> std::io::Error {
    std::io::Error::other(error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Taps: packets that a view wants, as a pcapng stream: those that come from now on, or those of files that were
//! read.
//!
//! Data in: blocks of packets, on the thread that meters, and only while there is a tap. Data out: copies of
//! those that its filter accepts, through a bounded queue. If it is full, packets of a live capture are dropped
//! and counted; files wait, and are read once more for the taps that were made meanwhile.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringtap_capture::{
    Block, Filter, Interface, LinkType, Packet, PacketFlags, Timestamp, Visitor, Waker,
};
use ringtap_filter::{Program, Tables};
use ringtap_savefile::{PcapngWriter, Section};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::setup::lock;

/// Blocks of packets that may wait in a tap's queue: of a live capture, and of files, which wait themselves.
const QUEUE: usize = 256;
const QUEUE_OF_FILES: usize = 4;
/// How long files are read for a tap at most.
const TIME_OF_FILES: Duration = Duration::from_secs(3600);
/// Taps at a time.
const TAPS: usize = 8;

/// The packets of a tap at most, and the bytes that it copies of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
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
    #[error(
        "packets can be had from a live capture, and from files (not from standard input) once they are read"
    )]
    NoPackets,
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
            process: None,
        }
    }
}

/// All taps.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    count: AtomicUsize,
    list: Mutex<Vec<Tap>>,
    interfaces: Mutex<Vec<Interface>>,
    supply: Mutex<Supply>,
}

/// Where the packets of taps come from.
#[derive(Clone, Debug, Default)]
enum Supply {
    #[default]
    Nothing,
    Live,
    /// Files, whose reader this wakes.
    Files(Waker),
}

#[derive(Debug)]
struct Tap {
    programs: Vec<Program>,
    until: Instant,
    to: Sender<Vec<Copied>>,
    lost: Arc<AtomicU64>,
    limit: Option<Limit>,
    copied: AtomicUsize,
}

impl Taps {
    /// The capture has these interfaces.
    pub(super) fn interfaces(&self, interfaces: &[Interface]) {
        *lock(&self.interfaces) = interfaces.to_vec();
        *lock(&self.supply) = Supply::Live;
    }

    /// Files were read that have these interfaces, one file's after the other's. From now on their reader is woken
    /// for each tap, and is to make a [pass](Self::begin_pass).
    pub(super) fn of_files(&self, mut interfaces: Vec<Interface>, reader: &Waker) {
        // tcpdump reads no file whose interfaces differ in it.
        let most = interfaces.iter().map(Interface::effective_snaplen).max();
        for interface in &mut interfaces {
            interface.snaplen = most.unwrap_or_default();
        }
        *lock(&self.interfaces) = interfaces;
        *lock(&self.supply) = Supply::Files(reader.clone());
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Makes a tap for so long, which may end after some packets.
    pub(crate) fn open(
        &self,
        expression: &str,
        time: Duration,
        limit: Option<Limit>,
    ) -> Result<Tapped, TapError> {
        let supply = lock(&self.supply).clone();
        if matches!(supply, Supply::Nothing) {
            return Err(TapError::NoPackets);
        }
        let interfaces = lock(&self.interfaces).clone();
        let filter = Filter::new(expression)
            .with_extensions(true)
            .with_resolver(Arc::new(Tables::new()));
        let program = |one: &Interface| filter.compile(one.link_type, ringtap_packet::MAX_SNAPLEN);
        let programs: Result<_, _> = interfaces.iter().map(program).collect();
        let programs = programs.map_err(TapError::Filter)?;
        let is_file = matches!(supply, Supply::Files(_)) && limit.is_none();
        let (queue, time) = if is_file {
            (QUEUE_OF_FILES, TIME_OF_FILES)
        } else {
            (QUEUE, time)
        };
        let (to, from) = channel(queue);
        let until = Instant::now() + time;
        let tap = Tap {
            programs,
            until,
            to,
            lost: Arc::default(),
            limit,
            copied: AtomicUsize::new(0),
        };
        let mut list = lock(&self.list);
        list.retain(|tap| !tap.is_over());
        // Those with a limit are bounded by who opens them.
        let downloads = list.iter().filter(|tap| tap.limit.is_none()).count();
        if limit.is_none() && downloads >= TAPS {
            return Err(TapError::TooMany);
        }
        let lost = Arc::clone(&tap.lost);
        list.push(tap);
        self.count.store(list.len(), Ordering::Relaxed);
        drop(list);
        if let Supply::Files(reader) = supply {
            reader.wake();
        }
        Ok(Tapped {
            lost,
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
            let copied = tap.copies(block, 0);
            let count = copied.len() as u64;
            if count > 0 && tap.to.try_send(copied).is_err() {
                tap.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Takes all taps, for which files are to be read from their begin.
    pub(super) fn begin_pass(&self) -> Pass {
        self.count.store(0, Ordering::Relaxed);
        Pass(std::mem::take(&mut *lock(&self.list)))
    }
}

/// Taps that get the packets of files; they end with it.
pub(super) struct Pass(Vec<Tap>);

impl Pass {
    /// Whether nobody wants packets any more.
    pub(super) fn is_over(&mut self) -> bool {
        self.0.retain(|tap| !tap.is_over());
        self.0.is_empty()
    }

    /// Copies the packets of a block that taps want; interfaces are counted from `before`. If a queue is full, it
    /// calls `wait` and tries again, unless that returns true.
    pub(super) fn block(&self, block: &Block<'_>, before: u32, wait: &mut dyn FnMut() -> bool) {
        for tap in &self.0 {
            let mut copied = tap.copies(block, before);
            while !copied.is_empty() && !tap.is_gone() {
                match tap.to.try_send(copied) {
                    Err(TrySendError::Full(again)) if !wait() => copied = again,
                    _ => break,
                }
            }
        }
    }
}

impl Tap {
    /// Returns copies of the packets of a block that it wants, with interfaces counted from `before`.
    fn copies(&self, block: &Block<'_>, before: u32) -> Vec<Copied> {
        let taken = self.copied.load(Ordering::Relaxed);
        let mut copying = Copying {
            programs: &self.programs,
            before,
            copied: Vec::new(),
            room: self.limit.map(|limit| Limit {
                packets: limit.packets.saturating_sub(taken),
                ..limit
            }),
        };
        block.drain(&mut copying);
        self.copied
            .fetch_add(copying.copied.len(), Ordering::Relaxed);
        copying.copied
    }

    fn is_over(&self) -> bool {
        let copied = self.copied.load(Ordering::Relaxed);
        let is_full = self.limit.is_some_and(|limit| copied >= limit.packets);
        is_full || self.is_gone()
    }

    /// Whether its packets are not wanted any more.
    fn is_gone(&self) -> bool {
        self.to.is_closed() || Instant::now() >= self.until
    }
}

struct Copying<'a> {
    programs: &'a [Program],
    before: u32,
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
        let interface = self.before.saturating_add(packet.interface);
        let program = self.programs.get(interface as usize);
        if program.is_some_and(|program| program.run(packet.data, packet.len) > 0) {
            self.copied.push(Copied {
                timestamp: packet.timestamp,
                len: packet.len,
                interface,
                flags: packet.flags,
                data: packet.data[..packet.data.len().min(bytes)].into(),
            });
        }
    }
}

/// The view's end of a tap.
#[derive(Debug)]
pub(crate) struct Tapped {
    lost: Arc<AtomicU64>,
    from: Receiver<Vec<Copied>>,
    interfaces: Vec<Interface>,
    /// When it is over.
    pub(crate) until: Instant,
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

    /// Returns the next packets; `None` when they are the last.
    pub(crate) async fn next(&mut self) -> Option<Vec<Copied>> {
        self.from.recv().await
    }

    /// Returns packets that are there already.
    pub(crate) fn try_next(&mut self) -> Option<Vec<Copied>> {
        self.from.try_recv().ok()
    }

    /// Whether no more packets come.
    pub(crate) fn is_over(&self) -> bool {
        let is_closed = self.from.is_closed() && self.from.is_empty();
        is_closed || Instant::now() >= self.until
    }

    /// Packets that were dropped because nobody took them in time.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
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

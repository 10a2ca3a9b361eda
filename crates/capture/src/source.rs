//! What every engine is to its user: something that hands out blocks of packets.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use ringtap_savefile::{Interface, Item};
use ringtap_sys::bpf::Program;
pub use ringtap_sys::eventfd::Waker;

use crate::{Block, Description, Direction, Error, Filter, LinkType, Result, Stats};

/// A source of packets: a live capture or a file.
pub trait Source: Send {
    /// The interfaces that packets refer to by [`crate::Packet::interface`]. A pcapng file adds to
    /// them while it is read.
    fn interfaces(&self) -> &[Interface];

    /// What comes next. A live source waits for it, up to the time-out.
    ///
    /// A reader that keeps up makes no system call here. After a time-out or a wake-up, and after
    /// an error that [`crate::Error::is_transient`], it may be called again.
    ///
    /// # Errors
    ///
    /// The interface is down or gone; the file is damaged, after every packet before the damage was
    /// handed out.
    fn next(&mut self) -> Result<Next<'_>>;

    /// What is there now: as [`Source::next`], but without a wait. [`Next::TimedOut`] where there is
    /// nothing. A file is read all the same.
    ///
    /// # Errors
    ///
    /// As [`Source::next`].
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// The counters since the source was opened.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    fn stats(&mut self) -> Result<Stats>;

    /// A handle that ends a wait in [`Source::next`] from another thread or a signal handler.
    fn waker(&self) -> Waker;

    /// Replaces the filter while the source runs. Every packet that is handed out after the return
    /// matches the new filter: packets that were captured with the old one and not yet read are
    /// handed out only where they match both. No packet that matches both is lost.
    ///
    /// # Errors
    ///
    /// The filter cannot be compiled for the source's link type; the old one then stays.
    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()>;

    /// Changes something else while the source runs.
    ///
    /// # Errors
    ///
    /// An invalid value, or no memory; [`crate::Error::FixedAtOpening`] if the engine cannot change it.
    fn change(&mut self, change: Change) -> Result<()> {
        Err(change.refused())
    }

    /// What can be asked of the source while a block is borrowed, and by other threads; nothing where
    /// the engine has no such thing.
    fn companion(&self) -> Option<Arc<dyn Companion>> {
        None
    }

    /// Returns what poll(2) needs to wait for packets; `None` if the engine has no descriptor for that.
    fn polling(&mut self) -> Option<&mut dyn Polling> {
        None
    }

    /// How the source captures, and what it cannot see.
    fn describe(&self) -> Description;

    /// The programs that run in the kernel for the source, by other fds of them; their parts
    /// ([`ringtap_sys::bpf::Program::native_parts`]) have the names [`ProgramPart::name`] where
    /// [`crate::CaptureOptions::study`] was set.
    ///
    /// # Errors
    ///
    /// No fd is left.
    fn programs(&self) -> Result<Vec<Program>> {
        Ok(Vec::new())
    }
}

/// A part of the programs that capture in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramPart {
    /// Being called, finding the ring and room in it, the record's head.
    Tap,
    /// The filter.
    Filter,
    /// Reading the clock.
    Timestamp,
    /// Copying the packet's bytes, closing the record and publishing it, which waits for them.
    Copy,
    /// Waking the reader.
    Wake,
}

/// All parts.
pub const PROGRAM_PARTS: [ProgramPart; 5] = [
    ProgramPart::Tap,
    ProgramPart::Filter,
    ProgramPart::Timestamp,
    ProgramPart::Copy,
    ProgramPart::Wake,
];

impl ProgramPart {
    /// Its name in the kernel, where `bpftool prog dump` shows it as a line of source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Filter => "filter",
            Self::Timestamp => "timestamp",
            Self::Copy => "copy",
            Self::Wake => "wake",
        }
    }
}

/// The side of a source that is waited for by poll(2).
pub trait Polling {
    /// Returns a descriptor that poll(2) finds readable when [`Source::try_next`] has packets, as long as
    /// it is called until it has none. The source owns it.
    ///
    /// # Errors
    ///
    /// The descriptor could not be made ready.
    fn fd(&mut self) -> Result<RawFd>;

    /// Makes the descriptor unreadable where no packets are left, as another [`Source::try_next`] would: to
    /// be called when every packet that was handed out has been read, and its block was dropped. `has_more`
    /// where the caller has packets of its own left, for which the descriptor is to be readable; an engine
    /// whose blocks can be kept ([`crate::Block::keep`]) need not look at it.
    fn settle(&mut self, has_more: bool) {
        let _ = has_more;
    }

    /// Returns how often to call [`Source::try_next`] even if the descriptor is not readable: some changes
    /// raise no event, such as an interface that goes away. `None` if all do.
    fn interval(&self) -> Option<Duration>;
}

/// The side of a source that needs no exclusive access to it.
pub trait Companion: Send + Sync {
    /// As [`Source::stats`].
    ///
    /// # Errors
    ///
    /// As there.
    fn stats(&self) -> Result<Stats>;

    /// Sends a frame, from its link-layer header on, by the interface that the source captures on. The
    /// source does not capture it. Returns the bytes sent.
    ///
    /// # Errors
    ///
    /// The system refuses.
    fn send(&self, frame: &[u8]) -> Result<usize>;
}

/// What can be changed while a source runs, beside its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// When packets are handed over.
    Delivery(Delivery),
    /// The memory for packets that wait to be read, in bytes. Packets that wait already stay, and come first.
    Buffer(u64),
    /// Which way packets must go. Packets that wait were captured with the direction before.
    Direction(Direction),
    /// What packets begin with, where there is a choice: the versions of Linux cooked headers. The filter
    /// stays.
    LinkType(LinkType),
}

impl Change {
    /// Returns the error of an engine that cannot make the change.
    pub(crate) const fn refused(self) -> Error {
        let what = match self {
            Self::Delivery(_) => "when packets are handed over",
            Self::Buffer(_) => "the buffer",
            Self::Direction(_) => "the direction",
            Self::LinkType(_) => "the link type",
        };
        Error::FixedAtOpening { what }
    }
}

/// When packets are handed over; as the fields of [`crate::CaptureOptions`] with these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes of records that are worth a delivery.
    pub min_to_copy: u32,
    /// The longest that a packet waits.
    pub timeout: Duration,
    /// Whether packets are handed over at once.
    pub immediate: bool,
}

/// What a source hands out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Next<'a> {
    /// Packets.
    Block(Block<'a>),
    /// What a file holds beside packets.
    Meta(Item<'a>),
    /// No packet came in time; a signal may shorten the wait.
    TimedOut,
    /// The [`Waker`] was used.
    Woken,
    /// The file has ended.
    End,
}

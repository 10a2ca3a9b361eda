//! The interface of every engine: a source of blocks of packets.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use ringtap_savefile::{Interface, Item};
use ringtap_sys::bpf::Program;
pub use ringtap_sys::eventfd::Waker;

use crate::{Block, Description, Direction, Error, Filter, LinkType, Result, Stats};

/// A source of packets: a live capture or a file.
pub trait Source: Send {
    /// Returns the interfaces that [`crate::Packet::interface`] refers to. A pcapng file may add interfaces
    /// while it is read.
    fn interfaces(&self) -> &[Interface];

    /// Returns the next item. A live source waits for it, up to the timeout.
    ///
    /// A reader that keeps up makes no system call here. It may be called again after a timeout, a wake-up,
    /// or an error that [`crate::Error::is_transient`].
    ///
    /// # Errors
    ///
    /// The interface is down or no longer exists; the file is corrupt, after every packet before the damage
    /// was delivered.
    fn next(&mut self) -> Result<Next<'_>>;

    /// Returns what is available now: as [`Source::next`], but without waiting. [`Next::TimedOut`] if there
    /// is nothing. A file is read as usual.
    ///
    /// # Errors
    ///
    /// The same errors as [`Source::next`].
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// Returns the counters since the source was opened.
    ///
    /// # Errors
    ///
    /// The kernel does not return them.
    fn stats(&mut self) -> Result<Stats>;

    /// Returns a handle that ends a wait in [`Source::next`] from another thread or a signal handler.
    fn waker(&self) -> Waker;

    /// Replaces the filter while the source runs. Every packet that is delivered afterwards matches the new
    /// filter. Packets that were captured with the old filter and not yet read are delivered only if they
    /// match both. No packet that matches both is lost.
    ///
    /// # Errors
    ///
    /// The filter cannot be compiled for the source's link type. The old one then stays.
    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()>;

    /// Changes another option while the source runs.
    ///
    /// # Errors
    ///
    /// An invalid value, or no memory; [`crate::Error::FixedAtOpening`] if the engine cannot change it.
    fn change(&mut self, change: Change) -> Result<()> {
        Err(change.refused())
    }

    /// Returns the part of the source that works while a block is borrowed, and in other threads. `None` if
    /// the engine has none.
    fn companion(&self) -> Option<Arc<dyn Companion>> {
        None
    }

    /// Returns what poll(2) needs to wait for packets; `None` if the engine has no descriptor for that.
    fn polling(&mut self) -> Option<&mut dyn Polling> {
        None
    }

    /// Looks for programs that were placed before the capture's own, if [`crate::CaptureOptions::watch_chain`]
    /// is set. [`Source::next`] does the same in a process that has `CAP_NET_ADMIN`. This is for another
    /// process, which has a copy of the source after fork(2).
    ///
    /// # Errors
    ///
    /// [`crate::Error::Overtaken`] if there are more of them than before.
    fn look_at_chain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Attaches to new interfaces of all network namespaces, if [`crate::CaptureOptions::all_namespaces`] is set, and
    /// reports them to the source that was copied. This is for another process, which has a copy of the source after
    /// fork(2), and [`Description::required_capabilities`].
    ///
    /// # Errors
    ///
    /// The namespaces cannot be listed or entered, or the other process has ended.
    fn follow(&mut self) -> Result<()> {
        Ok(())
    }

    /// Closes the programs in other network namespaces, which a copy of the process holds from now on: what is open here
    /// would keep a namespace that ends.
    fn leave_to_follower(&mut self) {}

    /// Returns what becomes readable when [`Source::follow`] has work. Some namespaces change without that, so it is
    /// also called once a second. `None` if there is nothing to follow.
    fn followed(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns how the source captures, and what it cannot see.
    fn describe(&self) -> Description;

    /// Returns duplicate descriptors of the source's programs in the kernel. Their parts
    /// ([`ringtap_sys::bpf::Program::native_parts`]) have the names [`ProgramPart::name`] if
    /// [`crate::CaptureOptions::study`] was set.
    ///
    /// # Errors
    ///
    /// There are no free file descriptors.
    #[doc(hidden)]
    fn programs(&self) -> Result<Vec<Program>> {
        Ok(Vec::new())
    }
}

/// A part of a capturing program in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramPart {
    /// The call, the search for the ring and for room in it, and the record's header.
    Tap,
    /// The filter.
    Filter,
    /// Reading the clock.
    Timestamp,
    /// Copying the packet's bytes, closing the record and publishing it, which waits for the bytes.
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
    /// Returns its name in the kernel, which `bpftool prog dump` shows as a line of source.
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

/// The part of a source that poll(2) waits for.
pub trait Polling {
    /// Returns a descriptor that poll(2) finds readable when [`Source::try_next`] has packets, as long as
    /// it is called until it has none. The source owns it.
    ///
    /// # Errors
    ///
    /// The descriptor could not be made readable.
    fn fd(&mut self) -> Result<RawFd>;

    /// Makes the descriptor unreadable if no packets are left, as another [`Source::try_next`] would. Call it
    /// when every delivered packet was read and its block dropped. `has_more` means that the caller still has
    /// packets of its own, for which the descriptor must be readable. An engine whose blocks can be kept
    /// ([`crate::Block::keep`]) may ignore it.
    fn settle(&mut self, has_more: bool) {
        let _ = has_more;
    }

    /// Returns how often to call [`Source::try_next`] even if the descriptor is not readable: some changes
    /// raise no event, such as an interface that goes away. `None` if all do.
    fn interval(&self) -> Option<Duration>;
}

/// The part of a source that needs no exclusive access.
pub trait Companion: Send + Sync {
    /// The same as [`Source::stats`].
    ///
    /// # Errors
    ///
    /// The same errors.
    fn stats(&self) -> Result<Stats>;

    /// Sends a frame, starting with its link-layer header, on the captured interface. The source does not
    /// capture it. Returns the number of bytes sent.
    ///
    /// # Errors
    ///
    /// The system call failed.
    fn send(&self, frame: &[u8]) -> Result<usize>;
}

/// An option that can be changed while a source runs, beside its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// When packets are delivered.
    Delivery(Delivery),
    /// The memory for packets that wait to be read, in bytes. Packets that already wait stay, and come first.
    Buffer(u64),
    /// The direction of packets. Packets that already wait were captured with the old direction.
    Direction(Direction),
    /// The link type of packets, if there is a choice: the versions of Linux cooked headers. The filter
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

/// When packets are delivered. The fields are those of [`crate::CaptureOptions`] with the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of bytes at which packets are delivered.
    pub min_to_copy: u32,
    /// The maximum time that a packet waits.
    pub timeout: Duration,
    /// Whether packets are delivered immediately.
    pub immediate: bool,
}

/// An item of a source.
#[derive(Debug)]
#[non_exhaustive]
pub enum Next<'a> {
    /// Packets.
    Block(Block<'a>),
    /// A part of a file beside packets.
    Meta(Item<'a>),
    /// No packet came in time. A signal may shorten the wait.
    TimedOut,
    /// The [`Waker`] was used.
    Woken,
    /// The file has ended.
    End,
}

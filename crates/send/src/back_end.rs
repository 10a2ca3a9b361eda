//! What every back-end is to its user: something that takes frames for one interface.

use std::time::Duration;

use ringtap_sys::Error;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::packet::SendStamp;
use ringtap_sys::privileges::Capability;

use crate::{Rejection, Result, Template};

/// Hands frames to one interface.
pub(crate) trait BackEnd: Send {
    /// Which one it is.
    fn kind(&self) -> BackEndKind;

    /// The most frames that one call takes.
    fn batch(&self) -> usize;

    /// Hands over as many of the frames as are taken, from the first on, without waiting; returns
    /// how many, at least 1 unless there are none.
    ///
    /// # Errors
    /// The first frame was not taken, and why.
    fn send(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused>;

    /// Makes ready to [`BackEnd::generate`] frames of a template, from number 0 on.
    ///
    /// # Errors
    /// The kernel does not take what that needs.
    fn prepare(&mut self, template: &Template) -> Result<()>;

    /// Makes and hands over up to so many frames of the template that was prepared, the first of
    /// which has the number `first`: the one behind the last that was taken. Returns how many.
    ///
    /// # Errors
    /// The first frame was not taken, and why.
    fn generate(&mut self, first: u64, count: usize) -> std::result::Result<usize, Refused>;

    /// A stamp of a frame that has left, where stamps were asked for and one has come.
    ///
    /// # Errors
    /// The socket fails.
    fn take_stamp(&mut self) -> Result<Option<SendStamp>> {
        Ok(None)
    }

    /// How late frames may be because of how the back-end works.
    fn tolerance(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits until frames may be taken again, the waker is used, or the time is over.
    ///
    /// # Errors
    /// The kernel fails to wait.
    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()>;

    /// Waits until all that was taken is with the driver, or the time is over; returns how many
    /// frames are not.
    ///
    /// # Errors
    /// The kernel fails to tell.
    fn drain(&mut self, limit: Duration) -> Result<u64> {
        let _ = limit;
        Ok(0)
    }

    /// The capabilities that it still needs once it is open.
    fn required_capabilities(&self) -> &'static [Capability] {
        &[]
    }

    /// What there is to say of it, a line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a frame was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room for it yet.
    NoRoom,
    /// The driver's queue is full; the device has counted the frame as dropped.
    QueueFull,
    /// It will never be taken.
    Rejected(Rejection),
    /// Nothing can be sent.
    Failed(Error),
}

/// Bytes of the shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

impl Refused {
    /// Refuses a frame whose length the interface never takes, in bytes.
    pub(crate) fn check(len: usize, longest: usize) -> std::result::Result<(), Self> {
        match len {
            _ if len > longest => Err(Self::Rejected(Rejection::TooLong)),
            _ if len < SHORTEST => Err(Self::Rejected(Rejection::Invalid)),
            _ => Ok(()),
        }
    }
}

/// The ways to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackEndKind {
    /// AF_PACKET, batches by one system call each, past the queueing discipline.
    Packet,
    /// Frames that the kernel repeats and a program varies (`BPF_PROG_RUN`), handed to the driver
    /// without a socket buffer.
    Live,
    /// AF_XDP: memory shared with the driver, which sends from it without a copy where it can.
    Xsk,
}

/// Every back-end by the name that a device may ask for.
pub(crate) const BACK_ENDS: [(&str, BackEndKind); 3] = [
    ("packet", BackEndKind::Packet),
    ("live", BackEndKind::Live),
    ("xsk", BackEndKind::Xsk),
];

impl BackEndKind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Live => "live",
            Self::Xsk => "xsk",
        }
    }

    /// What has happened to a packet that it counts.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Packet | Self::Xsk => "sent",
            Self::Live => "handed to the driver",
        }
    }
}

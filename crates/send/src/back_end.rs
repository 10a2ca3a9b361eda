//! The interface of every back-end: it takes frames for one network interface.

use std::time::Duration;

use ringtap_sys::Error;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::packet::SendStamp;

use crate::{Rejection, Result, Template};

/// Sends frames on one interface.
pub(crate) trait BackEnd: Send {
    /// Returns which back-end it is.
    fn kind(&self) -> BackEndKind;

    /// Returns the maximum number of frames per call.
    fn batch(&self) -> usize;

    /// Hands over as many of the frames as are accepted, in order, without waiting. Returns their number, at
    /// least 1 unless there are none.
    ///
    /// # Errors
    /// The first frame was rejected, with the reason.
    fn send(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused>;

    /// Prepares to [`BackEnd::generate`] frames of a template, starting with number 0.
    ///
    /// # Errors
    /// The kernel does not support it.
    fn prepare(&mut self, template: &Template) -> Result<()>;

    /// Makes and hands over up to this many frames of the prepared template. `first` is the number of the
    /// first one: the one after the last accepted frame. Returns their number.
    ///
    /// # Errors
    /// The first frame was rejected, with the reason.
    fn generate(&mut self, first: u64, count: usize) -> std::result::Result<usize, Refused>;

    /// Returns a stamp of a frame that has left, if stamps were requested and one has come.
    ///
    /// # Errors
    /// The socket fails.
    fn take_stamp(&mut self) -> Result<Option<SendStamp>> {
        Ok(None)
    }

    /// Returns how late frames may be because of how the back-end works.
    fn tolerance(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits until frames may be accepted again, the waker is used, or the time is over.
    ///
    /// # Errors
    /// The wait failed.
    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()>;

    /// Waits until all accepted frames are with the driver, or the time is over. Returns how many are not.
    ///
    /// # Errors
    /// The kernel does not report it.
    fn drain(&mut self, limit: Duration) -> Result<u64> {
        let _ = limit;
        Ok(0)
    }

    /// Returns notes on it, one line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The reason why a frame was rejected.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room yet.
    NoRoom,
    /// The driver's queue is full; the device has counted the frame as dropped.
    QueueFull,
    /// It will never be accepted.
    Rejected(Rejection),
    /// Nothing can be sent.
    Failed(Error),
}

/// Bytes of the shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

impl Refused {
    /// Rejects a frame whose length, in bytes, the interface never accepts.
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
    /// AF_PACKET: batches with one system call each, bypassing the queueing discipline.
    Packet,
    /// Frames that the kernel repeats and a program varies (`BPF_PROG_RUN`), passed to the driver without a
    /// socket buffer.
    Live,
    /// AF_XDP: memory shared with the driver, which sends from it without a copy where it can.
    Xsk,
}

/// Every back-end.
pub(crate) const BACK_ENDS: [BackEndKind; 3] =
    [BackEndKind::Packet, BackEndKind::Live, BackEndKind::Xsk];

impl BackEndKind {
    /// Its name, also in a device.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Live => "live",
            Self::Xsk => "xsk",
        }
    }

    /// Returns the event that its packet counter counts.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Packet | Self::Xsk => "sent",
            Self::Live => "handed to the driver",
        }
    }
}

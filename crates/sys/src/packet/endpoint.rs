//! A ring's socket, without its packets.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use super::Statistics;
use super::socket::Socket;
use crate::{Error, Result};

/// The socket of a [`super::Ring`]: usable while a block of the ring is borrowed, and by other
/// threads.
#[derive(Clone, Debug)]
pub struct Endpoint {
    socket: Arc<Socket>,
    statistics: Arc<Mutex<Statistics>>,
}

impl Endpoint {
    pub(super) fn new(socket: Arc<Socket>, statistics: Arc<Mutex<Statistics>>) -> Self {
        Self { socket, statistics }
    }

    /// Returns the counters, as [`super::Ring::statistics`]. The number of damaged blocks is that
    /// of the last call there.
    ///
    /// # Errors
    ///
    /// `PACKET_STATISTICS` does not fail on a packet socket.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut sum = self
            .statistics
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let new = self.socket.take_statistics()?;
        sum.received = sum.received.saturating_add(u64::from(new.packets));
        sum.dropped = sum.dropped.saturating_add(u64::from(new.drops));
        sum.freezes = sum.freezes.saturating_add(u64::from(new.freezes));
        Ok(*sum)
    }

    /// Sends a frame, from its link-layer header on, by the interface that the ring is bound to.
    /// The ring itself does not capture it.
    ///
    /// # Errors
    ///
    /// `send` fails if the frame is longer than the MTU (`EMSGSIZE`), the interface is down
    /// (`ENETDOWN`), the queue is full (`ENOBUFS`), or the ring captures from all interfaces
    /// (`ENXIO`).
    pub fn send(&self, frame: &[u8]) -> Result<usize> {
        // SAFETY: the frame is readable for its length, and outlives the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_fd().as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        usize::try_from(sent).map_err(|_| Error::last("send(AF_PACKET)", self.socket.device()))
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

//! Promiscuous mode without a capture.

use super::socket::Socket;
use crate::Result;

/// Keeps an interface promiscuous until it is dropped or the process ends, even by a signal
/// (`PACKET_MR_PROMISC` of packet(7)). It receives nothing.
#[derive(Debug)]
pub struct Promiscuous {
    /// Closing it ends the membership.
    _socket: Socket,
}

impl Promiscuous {
    /// Makes an interface promiscuous. Needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// `EPERM` without the capability, `ENODEV` if there is no such interface.
    pub fn join(device: &str, ifindex: u32) -> Result<Self> {
        let socket = Socket::open(false, device)?;
        socket.join_promiscuous(ifindex)?;
        Ok(Self { _socket: socket })
    }
}

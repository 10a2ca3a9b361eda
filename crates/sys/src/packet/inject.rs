//! Frames sent as they are, one system call each: what live tests feed an interface with.
//!
//! What it is not: part of a build that ships; it exists under the feature `testing`.

use std::os::fd::{AsFd, AsRawFd};

use super::socket::Socket;
use crate::{Error, Result};

/// A packet socket bound to an interface, for sending only.
#[derive(Debug)]
pub struct Injector {
    socket: Socket,
    address: libc::sockaddr_ll,
}

impl Injector {
    /// Needs CAP_NET_RAW. The frames leave by the interface with this index in the calling
    /// thread's network namespace.
    ///
    /// # Errors
    ///
    /// `socket` fails without the privilege.
    pub fn open(ifindex: u32) -> Result<Self> {
        let socket = Socket::open(false, "injector")?;
        Ok(Self {
            socket,
            address: super::socket::link_address(ifindex),
        })
    }

    /// Sends one frame, from its link-layer header on. An 802.1Q tag is sent within the frame.
    ///
    /// # Errors
    ///
    /// `sendto` fails for a frame longer than the MTU (EMSGSIZE), on an interface that is down
    /// (ENETDOWN), and where the queue is full (ENOBUFS).
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: `frame` is readable for its length, the address for its own size; both outlive
        // the call.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_fd().as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.address).cast(),
                super::layout::len_of::<libc::sockaddr_ll>(),
            )
        };
        if sent < 0 {
            return Err(Error::last("sendto(AF_PACKET)", ""));
        }
        Ok(())
    }
}

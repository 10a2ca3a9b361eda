//! Sends frames as they are, one system call each: for live tests and measurements of delay. To
//! send many frames, use [`super::Sender`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::Instruction;
use super::socket::Socket;
use crate::{Error, Result, calls};

/// A packet socket bound to an interface, for sending only.
#[derive(Debug)]
pub struct Injector {
    socket: Socket,
    address: libc::sockaddr_ll,
}

impl Injector {
    /// Opens a socket that sends by the interface with this index, in the calling thread's network
    /// namespace. Needs CAP_NET_RAW.
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

    /// Sends one frame, from its link-layer header on. An 802.1Q tag is sent as part of the frame.
    ///
    /// # Errors
    ///
    /// `sendto` fails if the frame is longer than the MTU (`EMSGSIZE`), the interface is down
    /// (`ENETDOWN`), or the queue is full (`ENOBUFS`).
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

/// Attaches a classic-BPF program to a socket of any kind (`SO_ATTACH_FILTER`, socket(7)).
///
/// # Errors
///
/// `setsockopt` fails if the kernel rejects the program (`EINVAL`), or if it is longer than 4096
/// instructions or than the socket's option memory (`ENOMEM`).
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> Result<()> {
    attach(&socket, program, "")
}

pub(super) fn attach(socket: &impl AsRawFd, program: &[Instruction], device: &str) -> Result<()> {
    let failed = |source| Error::new("setsockopt(SO_ATTACH_FILTER)", device, source);
    let len = libc::c_ushort::try_from(program.len())
        .map_err(|_| failed(std::io::Error::from_raw_os_error(libc::E2BIG)))?;
    // The kernel copies the instructions and does not write to them.
    let filter = program.as_ptr().cast_mut().cast();
    let program = libc::sock_fprog { len, filter };
    calls::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).map_err(failed)
}

//! UDP socket options that the standard library does not offer, and sends that the kernel cuts into datagrams.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::calls::set_option;
use crate::{Error, Result};

/// Sets the size of a socket's receive buffer, in bytes.
///
/// With CAP_NET_ADMIN the size may exceed the system's limit (`net.core.rmem_max`); without, it is
/// reduced to that limit.
///
/// # Errors
///
/// `setsockopt` fails only if the descriptor is not a socket.
pub fn set_receive_buffer(socket: &UdpSocket, bytes: usize) -> Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let set = |option| set_option(socket, libc::SOL_SOCKET, option, &bytes).is_ok();
    if set(libc::SO_RCVBUFFORCE) || set(libc::SO_RCVBUF) {
        return Ok(());
    }
    Err(Error::last("setsockopt(SO_RCVBUF)", ""))
}

/// Returns whether the kernel knows [`send_cut`]. The route may still refuse it.
#[must_use]
pub fn can_cut(socket: &UdpSocket) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &0_i32).is_ok()
}

/// Sends bytes to the socket's peer as datagrams of `length` bytes, by one call; the last one may be shorter.
/// The kernel sends all or none.
///
/// # Errors
///
/// The error of `sendmsg`. Besides those of any datagram, `EINVAL`, `EMSGSIZE` or `EIO` if the route does not
/// carry datagrams of this length in one piece, if there are too many, or if the interface does not cut.
pub fn send_cut(socket: &UdpSocket, bytes: &[u8], length: usize) -> io::Result<()> {
    let length = u16::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
    let mut control = Control::new(length);
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers and integers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `message` points to one vector, which describes `bytes`, and to `control` with its size. All of
    // them outlive the call, which only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns whether an error of sending means that a queue has no room now.
#[must_use]
pub fn has_no_room(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// A control message with the length of datagrams (udp(7), UDP_SEGMENT).
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    length: u16,
}

impl Control {
    fn new(length: u16) -> Self {
        // SAFETY: all-zero bytes are a valid `cmsghdr`: integers.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        // Its own size and that of the data, which follows without a gap.
        header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        header.cmsg_level = libc::SOL_UDP;
        header.cmsg_type = libc::UDP_SEGMENT;
        Self { header, length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_size_is_taken() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        for bytes in [1, 1 << 20, usize::MAX] {
            assert!(set_receive_buffer(&socket, bytes).is_ok(), "{bytes}");
        }
    }

    #[test]
    fn a_send_is_cut_into_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = receiver.local_addr().expect("bound");
        sender.connect(address).expect("an address");
        assert!(can_cut(&sender));
        let bytes: Vec<u8> = (0..=255).cycle().take(2500).collect();
        send_cut(&sender, &bytes, 1000).expect("loopback cuts");
        let mut datagram = [0; 3000];
        for part in bytes.chunks(1000) {
            let length = receiver.recv(&mut datagram).expect("a datagram");
            assert_eq!(&datagram[..length], part);
        }
        // More than a datagram can be long in all.
        let error = send_cut(&sender, &[0; 70_000], 1000).expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    }
}

//! UDP socket options that the standard library does not offer.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

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
    if set(socket, libc::SO_RCVBUFFORCE, bytes) || set(socket, libc::SO_RCVBUF, bytes) {
        return Ok(());
    }
    Err(Error::last("setsockopt(SO_RCVBUF)", ""))
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> bool {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: pointer and length describe `value`, which outlives the call and is only read.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    done == 0
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
}

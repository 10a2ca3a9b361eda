//! Unix-domain sockets (unix(7)): functions that the standard library lacks.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::{Error, Result, calls};

/// The process at the other end of a socket, as recorded when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process ID in the caller's PID namespace; `None` if it has none there.
    pub process: Option<u32>,
    /// The effective user ID.
    pub user: u32,
}

/// Connects to a stream socket by its abstract name, in the network namespace of the thread. The
/// call does not wait, and the stream does not block. Returns `None` if no process listens there,
/// if its queue of connections is full, or if access is denied.
///
/// # Errors
/// There is no memory or descriptor for a socket, or the name has more than 107 bytes.
pub fn connect_abstract(name: &[u8]) -> Result<Option<UnixStream>> {
    let failed = |source| {
        let name = String::from_utf8_lossy(name);
        Error::new("connect(AF_UNIX)", name, source)
    };
    // SAFETY: an address of all zeros is a valid value of this plain C struct.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    // The first byte stays 0, which makes the name abstract.
    if name.len() >= address.sun_path.len() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or_default();
    for (to, &from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    let socket = calls::socket(libc::AF_UNIX, kind, 0, "socket(AF_UNIX)", "")?;
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let length = libc::socklen_t::try_from(length).unwrap_or_default();
    // SAFETY: the address outlives the call, is only read, and has at least `length` bytes: the
    // name was checked to be shorter than its array.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if done == 0 {
        return Ok(Some(UnixStream::from(socket)));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::PermissionDenied => Ok(None),
        _ => Err(failed(error)),
    }
}

/// Returns the process at the other end (`SO_PEERCRED`). The kernel recorded it, so the process
/// cannot forge it.
///
/// # Errors
/// The socket is not connected.
pub fn peer(socket: &UnixStream) -> Result<Peer> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    calls::get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut found)
        .map_err(|source| Error::new("getsockopt(SO_PEERCRED)", "", source))?;
    Ok(Peer {
        process: u32::try_from(found.pid).ok().filter(|&pid| pid > 0),
        user: found.uid,
    })
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn both_ends_know_each_other() {
        let name = format!("ringtap-sys-test:{}", std::process::id());
        assert!(
            connect_abstract(name.as_bytes())
                .expect("sockets")
                .is_none()
        );
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("a free name");
        let near = connect_abstract(name.as_bytes()).expect("sockets");
        let near = near.expect("somebody listens");
        let (far, _) = listener.accept().expect("a connection");
        let own = Some(std::process::id());
        for end in [&near, &far] {
            assert_eq!(peer(end).expect("connected").process, own);
        }
        drop(listener);
        assert!(
            connect_abstract(name.as_bytes())
                .expect("sockets")
                .is_none()
        );
    }

    #[test]
    fn those_who_do_not_accept_are_not_waited_for() {
        let name = format!("ringtap-sys-full:{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let _listener = UnixListener::bind_addr(&address).expect("a free name");
        let mut held = Vec::new();
        while let Some(stream) = connect_abstract(name.as_bytes()).expect("sockets") {
            held.push(stream);
            assert!(held.len() < 100_000, "the queue has an end");
        }
    }

    #[test]
    fn long_names_are_invalid() {
        assert!(connect_abstract(&[b'a'; 108]).is_err());
    }
}

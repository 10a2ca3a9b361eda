//! Steps that calls of many kinds share: new descriptors, and options and addresses of sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::{Error, Result};

/// Owns the descriptor that a call has returned; a negative answer says that the call failed.
///
/// # Safety
/// The call makes a descriptor, and nothing else owns it.
pub(crate) unsafe fn owned(
    answer: impl TryInto<RawFd>,
    call: &'static str,
    context: impl Into<String>,
) -> Result<OwnedFd> {
    match answer.try_into() {
        // SAFETY: the caller promises that the descriptor is new.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last(call, context)),
    }
}

/// Opens a socket that programs started later do not inherit.
pub(crate) fn socket(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
    call: &'static str,
    context: impl Into<String>,
) -> Result<OwnedFd> {
    // SAFETY: no pointers are passed, and the call makes a descriptor.
    unsafe {
        let answer = libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol);
        owned(answer, call, context)
    }
}

/// Sets an option of a socket. `T` is the type that the option takes.
pub(crate) fn set_option<T>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (fd, place) = (socket.as_raw_fd(), (&raw const *value).cast());
    // SAFETY: `value` is readable for its own size and outlives the call. The callers pass the type
    // that the option takes; memory that it points to, for SO_ATTACH_FILTER, lives as long.
    answered(unsafe { libc::setsockopt(fd, level, name, place, socklen(value)) })
}

/// Reads an option of a socket into `value`; the kernel may fill only its first bytes. `T` is an
/// integer or a plain structure of integers, for which any bytes are valid.
pub(crate) fn get_option<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = socklen(value);
    let (fd, place) = (socket.as_raw_fd(), (&raw mut *value).cast());
    // SAFETY: `value` is writable for `len` bytes, and valid whatever the kernel writes; both outlive
    // the call.
    answered(unsafe { libc::getsockopt(fd, level, name, place, &raw mut len) })
}

/// Binds a socket to an address, a `sockaddr` of the socket's family.
pub(crate) fn bind<T>(socket: &impl AsRawFd, address: &T) -> io::Result<()> {
    let (fd, place) = (socket.as_raw_fd(), (&raw const *address).cast());
    // SAFETY: `address` is readable for its own size and outlives the call.
    answered(unsafe { libc::bind(fd, place, socklen(address)) })
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the size of a value that is passed to a socket.
pub(crate) fn socklen<T>(value: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of_val(value)).unwrap_or(libc::socklen_t::MAX)
}

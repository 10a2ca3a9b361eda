//! A helper process that keeps privileges which the program gives up, and a channel to it.
//!
//! The program forks (fork(2)) while it has one thread. The two processes exchange messages with
//! file descriptors (`SCM_RIGHTS`). This module does not know what the messages ask for: the
//! caller's `serve` function decides which requests are allowed.
//!
//! The helper lives until the other end of its channel is closed, which the kernel does however the
//! program ends. It has a process group of its own, so a terminal's signals reach only the program,
//! which then ends the helper.
//!
//! Source: unix(7), cmsg(3), fork(2).

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::{Error, Result, privileges};

/// Space for the control message with one descriptor, aligned as its header.
#[repr(C)]
union Control {
    _header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// One end of a channel; each message arrives whole or not at all.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// The length of a message in the caller's memory, and the descriptor that came with it.
pub type Received = (usize, Option<OwnedFd>);

impl Channel {
    /// Creates a connected pair of channels.
    ///
    /// # Errors
    /// There are no free file descriptors.
    pub fn pair() -> Result<(Self, Self)> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: the call writes two numbers to the array, which outlives it.
        let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
        Error::check(result, "socketpair", "")?;
        // SAFETY: the kernel has just made these descriptors, so nothing else owns them.
        let [one, other] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((Self(one), Self(other)))
    }

    /// Sends a message, with a copy of a descriptor if one is given.
    ///
    /// # Errors
    /// The other end is closed (`EPIPE`).
    pub fn send(&self, message: &[u8], with: Option<BorrowedFd<'_>>) -> Result<()> {
        self.send_with(message, with, libc::MSG_NOSIGNAL)
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    /// The other end is closed (`EPIPE`), or has too many messages to read (`EAGAIN`).
    pub fn try_send(&self, message: &[u8]) -> Result<()> {
        self.send_with(message, None, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    }

    fn send_with(
        &self,
        message: &[u8],
        with: Option<BorrowedFd<'_>>,
        flags: libc::c_int,
    ) -> Result<()> {
        let mut control = Control { bytes: [0; 64] };
        let mut part = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast(),
            iov_len: message.len(),
        };
        let mut header = header(&mut part);
        if let Some(fd) = with {
            let size = u32::try_from(size_of::<RawFd>()).unwrap_or(0);
            header.msg_control = (&raw mut control).cast();
            // SAFETY: the macros compute lengths only.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as _;
            // SAFETY: the header has room for one control message, aligned as required, so the
            // first one lies within it, and the descriptor's number behind its header.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size) as _;
                ptr::write_unaligned(libc::CMSG_DATA(first).cast(), fd.as_raw_fd());
            }
        }
        loop {
            // SAFETY: the header describes memory that outlives the call, which only reads it.
            let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
            if sent >= 0 {
                return Ok(());
            }
            let error = Error::last("sendmsg", "the helper process");
            if error.errno() != Some(libc::EINTR) {
                return Err(error);
            }
        }
    }

    /// Waits for a message; returns `None` when the other end is closed.
    ///
    /// # Errors
    /// The message is longer than `buffer` (`EMSGSIZE`), or the kernel has no memory.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>> {
        self.receive_with(buffer, libc::MSG_CMSG_CLOEXEC)
    }

    /// Returns the length of a message that is there already, 0 if the other end is closed; `None` if there is none.
    /// Descriptors are closed.
    ///
    /// # Errors
    /// The same as [`Channel::receive`].
    pub fn try_receive(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        match self.receive_with(buffer, flags) {
            Ok(received) => Ok(Some(received.map_or(0, |(length, _)| length))),
            Err(error) if error.errno() == Some(libc::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with(&self, buffer: &mut [u8], flags: libc::c_int) -> Result<Option<Received>> {
        let mut control = Control { bytes: [0; 64] };
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut header = header(&mut part);
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = room_for_one() as _;
        let length = loop {
            // SAFETY: the header describes memory that the call may write to and that outlives it.
            let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
            match usize::try_from(received) {
                Ok(length) => break length,
                Err(_) => {
                    let error = Error::last("recvmsg", "the helper process");
                    match error.errno() {
                        Some(libc::EINTR) => {}
                        Some(libc::ECONNRESET) => return Ok(None),
                        _ => return Err(error),
                    }
                }
            }
        };
        let fd = descriptor_of(&header);
        if header.msg_flags & libc::MSG_TRUNC != 0 {
            let source = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(Error::new("recvmsg", "the helper process", source));
        }
        Ok((length > 0).then_some((length, fd)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: msghdr holds integers and pointers, for which zero is valid.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

/// Returns the bytes of a control message with one descriptor, without padding, because a second
/// one would fit there. The kernel closes descriptors that have no room (`scm_detach_fds` of
/// `net/core/scm.c`).
fn room_for_one() -> u32 {
    let size = u32::try_from(size_of::<RawFd>()).unwrap_or(0);
    // SAFETY: the macro computes a length only.
    unsafe { libc::CMSG_LEN(size) }
}

/// Returns the descriptor of a received message; there is room for one.
fn descriptor_of(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the kernel has filled in the header's control messages, within their memory.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        if first.is_null()
            || (*first).cmsg_level != libc::SOL_SOCKET
            || (*first).cmsg_type != libc::SCM_RIGHTS
        {
            return None;
        }
        let fd: RawFd = ptr::read_unaligned(libc::CMSG_DATA(first).cast());
        // The kernel has just made it for this process, so nothing else owns it.
        Some(OwnedFd::from_raw_fd(fd))
    }
}

/// The helper process, as seen from the program. Dropping it closes the channel and waits until the
/// process ends.
#[derive(Debug)]
pub struct Helper {
    // Dropped first, which closes it and so ends the process.
    channel: Channel,
    process: Process,
}

/// A child process, waited for on drop.
#[derive(Debug)]
struct Process(libc::pid_t);

impl Helper {
    /// Starts a process that runs `serve` with the other end of a channel, and then ends. It has a
    /// copy of everything that the caller has: privileges, descriptors, memory. `name` is its name in
    /// ps(1), at most 15 bytes.
    ///
    /// # Errors
    /// The process has several threads, which fork(2) would not copy; or the system cannot create a
    /// process.
    pub fn start(name: &str, serve: impl FnOnce(&Channel)) -> Result<Self> {
        let threads = privileges::threads_left()?;
        if threads != 1 {
            let reason = format!("the process already has {threads} threads");
            return Err(Error::new("fork", name, io::Error::other(reason)));
        }
        let (ours, theirs) = Channel::pair()?;
        // SAFETY: there is one thread, so no other thread holds a lock and the copy is complete.
        let process = unsafe { libc::fork() };
        Error::check(process, "fork", name)?;
        if process > 0 {
            return Ok(Self {
                channel: ours,
                process: Process(process),
            });
        }
        drop(ours);
        set_apart(name);
        let served = catch_unwind(AssertUnwindSafe(|| serve(&theirs)));
        // SAFETY: the call ends the copy at once, without the program's exit handlers.
        unsafe { libc::_exit(if served.is_ok() { 0 } else { 101 }) }
    }

    /// Returns the channel to the helper.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the helper's process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.0.cast_unsigned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: the call takes numbers, and a null pointer because the status is not needed.
        unsafe { libc::waitpid(self.0, ptr::null_mut(), 0) };
    }
}

/// Gives the calling process a group and a name. It works without them too, so errors are ignored.
fn set_apart(name: &str) {
    let mut bytes = [0_u8; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    // SAFETY: the calls take numbers, and a terminated name that outlives the call.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, bytes.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    /// Descriptors that are received but not taken would fill the helper's table.
    #[test]
    fn of_several_descriptors_one_is_taken() {
        let (one, other) = Channel::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        let places = std::fs::read_dir("/proc/self/fd").expect("/proc").count();
        let mut part = libc::iovec {
            iov_base: b"x".as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        let mut control = Control { bytes: [0; 64] };
        let mut header = header(&mut part);
        header.msg_control = (&raw mut control).cast();
        let size = u32::try_from(3 * size_of::<RawFd>()).expect("a size");
        // SAFETY: the control message of three descriptors is within its 64 bytes, which outlive the block.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size) as _;
            let data: *mut RawFd = libc::CMSG_DATA(first).cast();
            for place in 0..3 {
                ptr::write_unaligned(data.add(place), file.as_raw_fd());
            }
        }
        for _ in 0..100 {
            // SAFETY: the header describes memory that outlives the call, which only reads it.
            let sent = unsafe { libc::sendmsg(one.0.as_raw_fd(), &raw const header, 0) };
            assert_eq!(sent, 1);
            let taken = other.receive(&mut [0; 8]).expect("received");
            assert!(taken.is_some_and(|(_, fd)| fd.is_some()));
        }
        // Other tests of this process open and close a few files at the same time.
        let now = std::fs::read_dir("/proc/self/fd").expect("/proc").count();
        assert!(now < places + 64, "{places} became {now}");
    }

    #[test]
    fn descriptors_travel_with_messages() {
        let (one, other) = Channel::pair().expect("a pair");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"seen by both").expect("written");
        one.send(b"take this", Some(file.as_fd())).expect("sent");
        one.send(b"and no more", None).expect("sent");
        let mut buffer = [0; 64];
        let (length, fd) = other.receive(&mut buffer).expect("received").expect("open");
        assert_eq!(&buffer[..length], b"take this");
        let mut copy = File::from(fd.expect("a descriptor"));
        copy.rewind().expect("a file");
        let mut text = String::new();
        copy.read_to_string(&mut text).expect("read");
        assert_eq!(text, "seen by both");
        let (length, fd) = other.receive(&mut buffer).expect("received").expect("open");
        assert!(&buffer[..length] == b"and no more" && fd.is_none());
        one.send(&[7; 65], None).expect("sent");
        let error = other.receive(&mut buffer).expect_err("too long");
        assert_eq!(error.errno(), Some(libc::EMSGSIZE));
        drop(one);
        assert!(other.receive(&mut buffer).expect("closed").is_none());
        let error = other.send(b"to nobody", None).expect_err("closed");
        assert_eq!(error.errno(), Some(libc::EPIPE));
    }

    #[test]
    fn a_process_with_threads_has_no_copy() {
        // Tests run in threads of one process.
        let thread = std::thread::spawn(|| Helper::start("test", |_| ()));
        assert!(thread.join().expect("no panic").is_err());
    }
}

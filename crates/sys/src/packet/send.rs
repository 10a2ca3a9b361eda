//! Sends frames as they are: one, or a batch by one system call (packet(7), sendmmsg(2)).
//!
//! The packet socket belongs to one interface, never waits by itself and receives nothing. Every
//! frame is either passed to the driver or rejected with a reason. This module keeps no time and
//! retries nothing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::layout::option;
use super::socket::{Socket, link_address};
use crate::{Error, Result};

/// The most frames that one system call takes.
pub const BATCH: usize = 256;

/// The options for opening a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderOptions<'a> {
    /// The interface's name, for messages.
    pub device: &'a str,
    /// Its index in the calling thread's network namespace.
    pub ifindex: u32,
    /// Bypass the queueing discipline (`PACKET_QDISC_BYPASS`, Linux 3.14): faster, but frames are
    /// rejected at once if the driver has no room.
    pub qdisc_bypass: bool,
    /// The most memory for frames that wait at the driver, in bytes; the kernel also counts its own
    /// overhead. More than the system's limit (`net.core.wmem_max`) needs `CAP_NET_ADMIN`.
    pub buffer: Option<u32>,
}

/// The reason why a frame was rejected.
#[derive(Debug)]
pub enum Refused {
    /// The socket's memory is full (`EAGAIN`): [`Sender`] polls writable when there is room.
    NoRoom,
    /// The driver's queue is full, or the link has no carrier (`ENOBUFS`). The device counts the
    /// frame as dropped.
    QueueFull,
    /// The frame is longer than the interface allows (`EMSGSIZE`).
    TooLong,
    /// The frame is shorter than a link-layer header, or invalid in another way (`EINVAL`).
    Invalid,
    /// Sending is not possible: the interface is down (`ENETDOWN`) or does not exist any more
    /// (`ENXIO`, `ENODEV`), for example.
    Failed(Error),
}

/// A socket that sends by one interface.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    headers: Headers,
}

/// The descriptions of a batch for the kernel; their pointers are valid only during a call.
#[derive(Debug)]
struct Headers {
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers are written again before each call that reads them, by the calling thread; between
// calls nothing follows them.
unsafe impl Send for Headers {}

impl Sender {
    /// Opens a socket. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// `socket` fails without the privilege (`EPERM`); `bind` fails if the interface does not exist
    /// (`ENODEV`) or is down (`ENETDOWN`).
    pub fn open(options: &SenderOptions<'_>) -> Result<Self> {
        let socket = Socket::open(false, options.device)?;
        socket.begin_sending(options)?;
        Ok(Self {
            socket,
            headers: Headers::new(),
        })
    }

    /// Sends one frame, from its link-layer header on.
    ///
    /// # Errors
    /// The reason why the frame was not sent.
    pub fn send(&self, frame: &[u8]) -> std::result::Result<(), Refused> {
        // SAFETY: `frame` is readable for its length and outlives the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_fd().as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if sent < 0 {
            return Err(self.socket.refusal("send(AF_PACKET)"));
        }
        Ok(())
    }

    /// Sends frames from the first on, at most [`BATCH`], until one is rejected. Returns the number
    /// sent, at least 1 unless `frames` is empty.
    ///
    /// # Errors
    /// The reason why the first frame was not sent.
    pub fn send_batch(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused> {
        let count = self.headers.describe(frames);
        if count == 0 {
            return Ok(0);
        }
        // The kernel is asked directly: sendmmsg() of musl is one system call per frame.
        // SAFETY: the first `count` messages were described just now: each points to its vector, and
        // that to a frame, all of which outlive the call; `count` is at most BATCH, their number.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendmmsg,
                self.socket.as_fd().as_raw_fd(),
                self.headers.messages.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) if sent > 0 => Ok(sent),
            _ => Err(self.socket.refusal("sendmmsg(AF_PACKET)")),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Headers {
    fn new() -> Self {
        // SAFETY: all-zero bytes are a valid `mmsghdr`: null pointers and integers.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let vector = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            vectors: vec![vector; BATCH].into_boxed_slice(),
            messages: vec![message; BATCH].into_boxed_slice(),
        }
    }

    /// Writes a message for each frame, and returns their number.
    fn describe(&mut self, frames: &[&[u8]]) -> libc::c_uint {
        let mut count = 0;
        let places = self.vectors.iter_mut().zip(&mut *self.messages);
        for (frame, (vector, message)) in frames.iter().zip(places) {
            // The kernel only reads this memory.
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        count
    }
}

impl Socket {
    /// Applies a sender's options, and binds the socket to the interface without receiving from it:
    /// protocol 0 matches nothing.
    pub(super) fn begin_sending(&self, options: &SenderOptions<'_>) -> Result<()> {
        if options.qdisc_bypass {
            const CALL: &str = "setsockopt(PACKET_QDISC_BYPASS)";
            self.set_packet(option::QDISC_BYPASS, &1_i32, CALL)?;
        }
        if let Some(bytes) = options.buffer {
            self.set_send_buffer(bytes)?;
        }
        let mut address = link_address(options.ifindex);
        address.sll_protocol = 0;
        self.bind_to(&address)
    }

    fn set_send_buffer(&self, bytes: u32) -> Result<()> {
        const FORCE: &str = "setsockopt(SO_SNDBUFFORCE)";
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        match self.set(libc::SO_SNDBUFFORCE, &bytes, FORCE) {
            Err(error) if error.errno() == Some(libc::EPERM) => {
                self.set(libc::SO_SNDBUF, &bytes, "setsockopt(SO_SNDBUF)")
            }
            result => result,
        }
    }

    /// Returns the reason why the last call did not send.
    pub(super) fn refusal(&self, call: &'static str) -> Refused {
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Refused::NoRoom,
            Some(libc::ENOBUFS) => Refused::QueueFull,
            Some(libc::EMSGSIZE) => Refused::TooLong,
            Some(libc::EINVAL) => Refused::Invalid,
            _ => Refused::Failed(Error::last(call, self.device())),
        }
    }
}

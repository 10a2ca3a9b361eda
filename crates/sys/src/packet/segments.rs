//! Sends many UDP datagrams as one; the kernel or the adapter splits them (`PACKET_VNET_HDR`,
//! packet(7); `linux/virtio_net.h`; Linux 6.2 for UDP).
//!
//! The packet socket takes one head and the payloads of several datagrams that share it. So all of
//! them pass through the kernel to the driver as one. The kernel fills in the differences: lengths,
//! the IPv4 identification, which counts up, and checksums unless the adapter computes them. The
//! queueing discipline cannot be bypassed, because packets are not split there.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::layout::option;
use super::send::{Refused, SenderOptions};
use super::socket::Socket;
use crate::Result;

/// The most datagrams that [`SegmentSender::send`] takes: no more than fit into the queue of a
/// virtual interface.
pub const MOST_SEGMENTS: usize = 64;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is that of the pseudo header only.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_UDP_L4`.
const UDP_SEGMENTS: u8 = 5;
/// Offset of the checksum in a UDP header (RFC 768).
const UDP_CHECKSUM: u16 = 6;

/// `struct virtio_net_hdr`, in the machine's order.
#[repr(C)]
struct Header {
    flags: u8,
    gso_type: u8,
    head_len: u16,
    segment_len: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const _: () = assert!(size_of::<Header>() == 10);

/// Datagrams that differ only in their payloads.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    /// The headers, from the link-layer header on. Lengths are those of one datagram with all
    /// payloads in it; the UDP checksum is the sum of the pseudo header with that length, not
    /// inverted.
    pub head: &'a [u8],
    /// Offset of the UDP header in the head.
    pub udp: u16,
    /// The payloads one after the other, at most 65,507 bytes with the head that IP counts.
    pub payloads: &'a [u8],
    /// Bytes of each payload; the last may have fewer.
    pub each: u16,
}

/// A socket that sends [`Segments`] by one interface.
#[derive(Debug)]
pub struct SegmentSender {
    socket: Socket,
}

impl SegmentSender {
    /// Opens a socket. Needs `CAP_NET_RAW`. It never bypasses the queueing discipline, whatever the
    /// options say.
    ///
    /// # Errors
    /// The same as [`Sender::open`](super::Sender::open).
    pub fn open(options: &SenderOptions<'_>) -> Result<Self> {
        let socket = Socket::open(false, options.device)?;
        socket.set_packet(option::VNET_HDR, &1_i32, "setsockopt(PACKET_VNET_HDR)")?;
        socket.begin_sending(&SenderOptions {
            qdisc_bypass: false,
            ..*options
        })?;
        Ok(Self { socket })
    }

    /// Sends all datagrams, without waiting.
    ///
    /// # Errors
    /// [`Refused::QueueFull`]: the last datagram was dropped on its way to the driver; the others
    /// may have been dropped or sent. With any other error none was sent; [`Refused::Invalid`] if
    /// the kernel cannot split UDP.
    pub fn send(&self, segments: &Segments<'_>) -> std::result::Result<(), Refused> {
        let header = Header {
            flags: NEEDS_CHECKSUM,
            gso_type: UDP_SEGMENTS,
            // A longer head was rejected before.
            head_len: u16::try_from(segments.head.len()).map_err(|_| Refused::Invalid)?,
            segment_len: segments.each,
            checksum_start: segments.udp,
            checksum_offset: UDP_CHECKSUM,
        };
        let part = |start: *const u8, len| libc::iovec {
            // The kernel only reads this memory.
            iov_base: start.cast_mut().cast(),
            iov_len: len,
        };
        let mut parts = [
            part((&raw const header).cast(), size_of::<Header>()),
            part(segments.head.as_ptr(), segments.head.len()),
            part(segments.payloads.as_ptr(), segments.payloads.len()),
        ];
        // SAFETY: all-zero bytes are a valid `msghdr`: null pointers and integers.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        let fd = self.socket.as_fd().as_raw_fd();
        // SAFETY: the message points to `parts`, which point to the header and two slices, each
        // readable for the length that stands with it; all outlive the call.
        let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return Err(self.socket.refusal("sendmsg(AF_PACKET)"));
        }
        Ok(())
    }
}

impl AsFd for SegmentSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

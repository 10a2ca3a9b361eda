//! Send queues: `pcap_sendqueue_alloc`, `_queue`, `_transmit`, `_destroy`.

use std::ffi::{c_char, c_int, c_uchar, c_uint};
use std::ptr;
use std::sync::atomic::Ordering;

use ringtap_capture::Timestamp;
use ringtap_send::{Outgoing, Timing};

use crate::boundary::export;
use crate::handle::{Pcap, lock};
use crate::types::{PacketHeader, code};
use crate::{inject, memory};

/// `struct pcap_send_queue`: packets one after another, each with its header, without gaps.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PcapSendQueue {
    /// The size of the buffer, in bytes.
    maxlen: c_uint,
    /// Bytes in use.
    len: c_uint,
    buffer: *mut c_char,
}

const HEADER: usize = size_of::<PacketHeader>();

fn allocate(bytes: c_uint) -> *mut PcapSendQueue {
    // SAFETY: takes no pointer.
    let buffer = unsafe { libc::malloc((bytes as usize).max(1)) };
    if buffer.is_null() {
        return ptr::null_mut();
    }
    let queue = PcapSendQueue {
        maxlen: bytes,
        len: 0,
        buffer: buffer.cast(),
    };
    Box::into_raw(Box::new(queue))
}

impl PcapSendQueue {
    fn append(&mut self, header: &PacketHeader, data: *const c_uchar) -> c_int {
        let bytes = HEADER + header.caplen as usize;
        let used = self.len as usize;
        let free = (self.maxlen as usize).saturating_sub(used);
        if bytes > free || data.is_null() || self.buffer.is_null() {
            return code::ERROR;
        }
        // SAFETY: the buffer has `maxlen` bytes, of which `bytes` are free after the first `len`;
        // header and packet are as long as the bytes that are copied.
        unsafe {
            let to = self.buffer.cast::<u8>().add(used);
            ptr::copy_nonoverlapping(ptr::from_ref(header).cast(), to, HEADER);
            ptr::copy_nonoverlapping(data, to.add(HEADER), header.caplen as usize);
        }
        self.len += c_uint::try_from(bytes).unwrap_or(0);
        0
    }

    /// Returns the packets. An incomplete packet ends them.
    fn packets(&self) -> impl Iterator<Item = Outgoing<'_>> {
        // SAFETY: C's contract: the first `len` bytes of the buffer were written.
        let mut rest = unsafe { memory::items::<u8>(self.buffer.cast(), self.len as usize) };
        std::iter::from_fn(move || {
            let (header, after) = rest.split_at_checked(HEADER)?;
            // SAFETY: there are as many bytes as a header has, and any bytes are valid in it.
            let header = unsafe { header.as_ptr().cast::<PacketHeader>().read_unaligned() };
            let (data, after) = after.split_at_checked(header.caplen as usize)?;
            rest = after;
            let micros = u32::try_from(header.ts.tv_usec).unwrap_or(0);
            let timestamp = Timestamp::new(header.ts.tv_sec, micros.saturating_mul(1000));
            Some(Outgoing { timestamp, data })
        })
    }
}

/// Sends the packets, and returns how many bytes of the queue were sent.
fn transmit(handle: &Pcap, queue: &PcapSendQueue, synchronised: bool) -> c_uint {
    let Some(live) = handle.live() else {
        handle.say("Packets can be sent by live captures only");
        return 0;
    };
    let mut sender = lock(&live.sender);
    let opened = match &mut *sender {
        Some(opened) => opened,
        none => match inject::open(live) {
            Ok(opened) => none.insert(opened),
            Err(message) => {
                handle.say(message);
                return 0;
            }
        },
    };
    let timing = if synchronised {
        Timing::Recorded { multiplier: 1.0 }
    } else {
        Timing::TopSpeed
    };
    let report = match opened.transmit(queue.packets(), timing) {
        Ok(report) => report,
        Err(error) => {
            handle.say(error);
            return 0;
        }
    };
    let done = report.packets + report.rejected;
    handle.sent.fetch_add(report.packets, Ordering::Relaxed);
    if let Some((_, error)) = &report.error {
        handle.say(error);
    }
    let packets = usize::try_from(done).unwrap_or(usize::MAX);
    let bytes = queue
        .packets()
        .take(packets)
        .map(|packet| HEADER + packet.data.len())
        .sum::<usize>();
    c_uint::try_from(bytes).unwrap_or(c_uint::MAX)
}

export! {
    /// Creates a queue for that many bytes, including headers.
    fn pcap_sendqueue_alloc(bytes: c_uint) -> *mut PcapSendQueue {
        allocate(bytes)
    } else ptr::null_mut();

    /// Adds a packet. Returns 0, or -1 if there is no room.
    fn pcap_sendqueue_queue(
        queue: Option<&mut PcapSendQueue>, header: Option<&PacketHeader>, data: *const c_uchar,
    ) -> c_int {
        match (queue, header) {
            (Some(queue), Some(header)) => queue.append(header, data),
            _ => code::ERROR,
        }
    } else code::ERROR;

    /// Sends the packets, at their times or as fast as possible. Returns the bytes of the queue
    /// that were sent: fewer than its length after an error.
    fn pcap_sendqueue_transmit(
        handle: Option<&Pcap>, queue: Option<&PcapSendQueue>, synchronised: c_int,
    ) -> c_uint {
        match (handle, queue) {
            (Some(handle), Some(queue)) => transmit(handle, queue, synchronised != 0),
            _ => 0,
        }
    } else 0;

    /// Frees a queue.
    fn pcap_sendqueue_destroy(queue: Option<Box<PcapSendQueue>>) {
        if let Some(queue) = queue {
            // SAFETY: the buffer was allocated by `malloc`, and is freed with its queue.
            unsafe { libc::free(queue.buffer.cast()) };
        }
    } else ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_as_they_went_in() {
        let queue = pcap_sendqueue_alloc(200);
        // SAFETY: the queue was just made.
        let queue = unsafe { &mut *queue };
        let mut header = PacketHeader::zero();
        header.ts.tv_usec = 5;
        header.caplen = 60;
        assert_eq!(queue.append(&header, [1; 60].as_ptr()), 0);
        assert_eq!(queue.append(&header, [2; 60].as_ptr()), 0);
        // 48 bytes are left.
        assert_eq!(queue.append(&header, [3; 60].as_ptr()), -1);
        let packets: Vec<_> = queue.packets().collect();
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[1].data, [2; 60]);
        assert_eq!(packets[1].timestamp, Timestamp::new(0, 5000));
        queue.len -= 1;
        assert_eq!(queue.packets().count(), 1);
        // SAFETY: it is not used afterwards.
        pcap_sendqueue_destroy(Some(unsafe { Box::from_raw(queue) }));
    }
}

//! Back-end `packet`: an AF_PACKET socket, batches by one system call each.

use std::os::fd::AsFd;
use std::time::Duration;

use ringtap_sys::packet::{self, SendStamp, SenderOptions};
use ringtap_sys::poll::{self, Interest};

use super::frames::Frames;
use super::segments::Segmented;
use super::{BackEnd, BackEndKind, Refused, Rejection, Result, SendError, SendOptions, Template};
use crate::hook::HookDevice;
use crate::source::Waker;

/// A queue that is full says nothing when it no longer is.
const FULL_PAUSE: Duration = Duration::from_micros(50);

/// The socket.
pub(super) struct PacketBackEnd {
    socket: packet::Sender,
    /// Whether the driver's queue was full at the last call; else it was the socket's memory.
    is_queue_full: bool,
    made: Frames,
    /// For frames that are handed over as one, as long as that goes.
    segmented: Option<Segmented>,
    /// Whether the last refusal was that one's.
    waits_for_segmented: bool,
}

impl PacketBackEnd {
    pub(super) fn open(device: &HookDevice, options: &SendOptions) -> Result<Self> {
        let socket = packet::Sender::open(&SenderOptions {
            device: &device.name,
            ifindex: device.index,
            qdisc_bypass: options.qdisc_bypass,
            buffer: options.buffer,
        });
        let failed = |source| SendError::of_call(&device.name, source);
        let mut socket = socket.map_err(failed)?;
        if let Some(stamps) = options.stamps {
            socket.stamp(stamps).map_err(failed)?;
        }
        Ok(Self {
            socket,
            is_queue_full: false,
            made: Frames::default(),
            segmented: options
                .segmentation
                .then(|| Segmented::open(device))
                .transpose()?,
            waits_for_segmented: false,
        })
    }

    fn refused(&mut self, refused: packet::Refused) -> Refused {
        self.is_queue_full = matches!(refused, packet::Refused::QueueFull);
        match refused {
            packet::Refused::NoRoom => Refused::NoRoom,
            packet::Refused::QueueFull => Refused::QueueFull,
            packet::Refused::TooLong => Refused::Rejected(Rejection::TooLong),
            packet::Refused::Invalid => Refused::Rejected(Rejection::Invalid),
            packet::Refused::Failed(error) => Refused::Failed(error),
        }
    }

    /// Frames as one, where that goes.
    fn generate_together(
        &mut self,
        first: u64,
        count: usize,
    ) -> Option<std::result::Result<usize, Refused>> {
        // The first frame of a run goes by itself: the kernel says whether its length is right.
        let (count, sent) = match &mut self.segmented {
            Some(segmented) if first > 0 => segmented.send(first, count)?,
            _ => return None,
        };
        self.waits_for_segmented = sent.is_err();
        match sent {
            Ok(()) => Some(Ok(count)),
            // Some of them may have passed, so none is sent again; those that have not are counted by
            // the device. It is the driver that limits the rate, not the system calls.
            Err(packet::Refused::QueueFull) => {
                self.segmented = None;
                Some(Ok(count))
            }
            // The kernel does not know how to cut.
            Err(packet::Refused::Invalid) => {
                self.segmented = None;
                None
            }
            Err(refused) => Some(Err(self.refused(refused))),
        }
    }
}

impl BackEnd for PacketBackEnd {
    fn kind(&self) -> BackEndKind {
        BackEndKind::Packet
    }

    fn batch(&self) -> usize {
        packet::BATCH
    }

    fn send(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused> {
        let sent = match frames {
            [frame] => self.socket.send(frame).map(|()| 1),
            frames => self.socket.send_batch(frames),
        };
        sent.map_err(|refused| self.refused(refused))
    }

    fn take_stamp(&mut self) -> Result<Option<SendStamp>> {
        Ok(self.socket.take_stamp()?)
    }

    fn prepare(&mut self, template: &Template) -> Result<()> {
        self.made.prepare(template);
        if let Some(segmented) = &mut self.segmented {
            segmented.prepare(template)?;
        }
        Ok(())
    }

    fn generate(&mut self, first: u64, count: usize) -> std::result::Result<usize, Refused> {
        if let Some(sent) = self.generate_together(first, count) {
            return sent;
        }
        let mut made = std::mem::take(&mut self.made);
        let sent = made.with(first, count, |frames| self.send(frames));
        self.made = made;
        sent
    }

    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()> {
        let woken = Interest::read(waker.as_fd());
        let socket = match &self.segmented {
            Some(segmented) if self.waits_for_segmented => segmented.as_fd(),
            _ => self.socket.as_fd(),
        };
        if self.is_queue_full {
            poll::wait([woken], Some(limit.min(FULL_PAUSE)))?;
        } else {
            poll::wait([woken, Interest::write(socket)], Some(limit))?;
        }
        Ok(())
    }
}

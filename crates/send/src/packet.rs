//! Back-end `packet`: AF_PACKET. Few frames go through a separate socket, many through a ring that is shared
//! with the kernel. Either way a batch is one system call.

use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringtap_capture::hook::HookDevice;
use ringtap_packet::LinkType;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::packet::{self, RingSender, SendStamp, SenderOptions};
use ringtap_sys::poll::{self, Interest};

use crate::frames::{Frames, now};
use crate::segments::Segmented;
use crate::{BackEnd, BackEndKind, Refused, Rejection, Result, SendError, SendOptions, Template};

/// A full queue does not notify when it has room again.
const FULL_PAUSE: Duration = Duration::from_micros(50);

/// The number of frames from which on a ring is worth its memory.
const MANY: usize = 64;
/// Header of Ethernet, and a tag.
const HEADER: usize = 14;
const TAG: usize = 4;
/// The minimum length of frames on the ring: it pads frames shorter than the interface's headers.
const SHORTEST: usize = 32;

/// The sockets.
pub(crate) struct PacketBackEnd {
    socket: packet::Sender,
    /// For many frames.
    ring: Option<Ring>,
    /// Whether the socket does not notify when there is room again: the driver's queue was full at the last
    /// call, or the ring was.
    is_mute: bool,
    made: Frames,
    /// For frames that are handed over as one, as long as that works.
    segmented: Option<Segmented>,
    /// Whether the last rejection came from it.
    waits_for_segmented: bool,
    /// Last, so that it is waited for when the others are closed.
    closing: Closing,
}

/// A thread that closes sockets.
#[derive(Default)]
struct Closing(Option<JoinHandle<()>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // It only closes; a panic there has no effect.
            let _ = thread.join();
        }
    }
}

impl Drop for PacketBackEnd {
    /// Closes the socket, which takes the kernel some milliseconds, in which it waits for all processors.
    /// Several are closed in parallel.
    fn drop(&mut self) {
        let others = (self.ring.take(), self.segmented.take());
        if others.0.is_some() || others.1.is_some() {
            // Without a thread they are closed here, one after the other.
            self.closing.0 = thread::Builder::new().spawn(move || drop(others)).ok();
        }
    }
}

impl PacketBackEnd {
    pub(crate) fn open(device: &HookDevice, options: &SendOptions) -> Result<Self> {
        let wanted = SenderOptions {
            device: &device.name,
            ifindex: device.index,
            qdisc_bypass: options.qdisc_bypass,
            buffer: options.buffer,
        };
        let socket = packet::Sender::open(&wanted);
        let failed = |source| SendError::of_call(&device.name, source);
        let mut socket = socket.map_err(failed)?;
        if let Some(stamps) = options.stamps {
            socket.stamp(stamps).map_err(failed)?;
        }
        let segmented = options.segmentation.then(|| Segmented::open(device));
        // Stamping needs the other socket, and lengths are counted as Ethernet's.
        let has_ring = options.stamps.is_none() && device.link_type == LinkType::ETHERNET;
        Ok(Self {
            socket,
            ring: has_ring.then(|| Ring::open(&wanted)).flatten(),
            is_mute: false,
            made: Frames::default(),
            segmented: segmented.transpose()?,
            waits_for_segmented: false,
            closing: Closing::default(),
        })
    }

    fn refused(&mut self, refused: packet::Refused) -> Refused {
        self.is_mute = matches!(refused, packet::Refused::QueueFull);
        match refused {
            packet::Refused::NoRoom => Refused::NoRoom,
            packet::Refused::QueueFull => Refused::QueueFull,
            packet::Refused::TooLong => Refused::Rejected(Rejection::TooLong),
            packet::Refused::Invalid => Refused::Rejected(Rejection::Invalid),
            packet::Refused::Failed(error) => Refused::Failed(error),
        }
    }

    /// Returns how many of the frames, in order, go through the ring.
    fn fitting(&mut self, frames: &[&[u8]]) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        if !ring.is_worth(frames.len()) {
            return 0;
        }
        frames.iter().take_while(|frame| ring.fits(frame)).count()
    }

    /// Returns whether this many frames up to this length go through the ring.
    fn takes(&mut self, longest: usize, count: usize) -> bool {
        let ring = self.ring.as_mut();
        ring.is_some_and(|ring| longest <= ring.longest && ring.is_worth(count))
    }

    /// Hands over this many frames, each of which `write` writes by its index.
    fn by_ring(
        &mut self,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> std::result::Result<usize, Refused> {
        let Some(Ring { sender, .. }) = &mut self.ring else {
            return Err(Refused::NoRoom);
        };
        for at in 0..count {
            if !sender.push(|place| write(at, place)) {
                break;
            }
        }
        let sent = match sender.submit() {
            // All of it is still with the kernel.
            Ok(0) => Err(packet::Refused::NoRoom),
            sent => sent,
        };
        sent.map_err(|refused| {
            let refused = self.refused(refused);
            self.is_mute = true;
            refused
        })
    }

    /// Hands over frames as one, if possible.
    fn generate_together(
        &mut self,
        first: u64,
        count: usize,
    ) -> Option<std::result::Result<usize, Refused>> {
        // The first frame of a run goes alone: the kernel reports whether its length is valid.
        let (count, sent) = match &mut self.segmented {
            Some(segmented) if first > 0 => segmented.send(first, count)?,
            _ => return None,
        };
        self.waits_for_segmented = sent.is_err();
        match sent {
            Ok(()) => Some(Ok(count)),
            // Some of them may have passed, so none is sent again; the device counts those that have not. The
            // driver limits the rate, not the system calls.
            Err(packet::Refused::QueueFull) => {
                self.segmented = None;
                Some(Ok(count))
            }
            // The kernel does not support segmentation.
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
        let fitting = self.fitting(frames);
        if fitting > 0 {
            return self.by_ring(fitting, |at, place| {
                let frame = frames[at];
                place[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
        }
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
        let sent = match &made.template {
            Some(template) if self.takes(template.longest(), count) => {
                let nanos = now();
                self.by_ring(made.at_once(count), |at, place| {
                    template.write(first + at as u64, nanos, place)
                })
            }
            _ => made.with(first, count, |frames| self.send(frames)),
        };
        self.made = made;
        sent
    }

    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()> {
        let woken = Interest::read(waker.as_fd());
        let socket = match &self.segmented {
            Some(segmented) if self.waits_for_segmented => segmented.socket.as_fd(),
            _ => self.socket.as_fd(),
        };
        if self.is_mute {
            poll::wait([woken], Some(limit.min(FULL_PAUSE)))?;
        } else {
            poll::wait([woken, Interest::write(socket)], Some(limit))?;
        }
        Ok(())
    }
}

/// The socket with the ring, whose memory is allocated when there is much to send.
struct Ring {
    sender: RingSender,
    /// The maximum frame length without a tag, in bytes: here the kernel does not check.
    longest: usize,
    state: State,
}

/// Whether the ring has its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotYet,
    Ready,
    /// No memory is available.
    Never,
}

impl Ring {
    /// Returns `None` if the kernel is too old.
    fn open(options: &SenderOptions<'_>) -> Option<Self> {
        let mtu = Netlink::open().ok()?.link(options.device).ok()?.mtu;
        Some(Self {
            sender: RingSender::open(options).ok()?,
            longest: usize::try_from(mtu).ok()?.saturating_add(HEADER),
            state: State::NotYet,
        })
    }

    /// Returns whether this many frames go through the ring. Once it is used all do, so that frames are not
    /// reordered in an adapter with several queues.
    fn is_worth(&mut self, frames: usize) -> bool {
        if self.state == State::NotYet && frames >= MANY {
            self.state = match self.sender.reserve(self.longest.saturating_add(TAG)) {
                Ok(()) => State::Ready,
                Err(_) => State::Never,
            };
            self.longest = self.longest.min(self.sender.longest());
        }
        self.state == State::Ready
    }

    /// Returns whether the interface, and a slot, accepts a frame of this length, or with a tag.
    fn fits(&self, frame: &[u8]) -> bool {
        let is_tagged = frame.get(12..HEADER) == Some(&[0x81, 0]);
        let most = self.longest + if is_tagged { TAG } else { 0 };
        (SHORTEST..=most.min(self.sender.longest())).contains(&frame.len())
    }
}

//! Back-end `xsk`: an AF_XDP socket on the first queue.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_capture::hook::HookDevice;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::poll::{self, Interest};
use ringtap_sys::xsk::{Binding, QueueOptions, Sender};

use crate::frames::now;
use crate::{BackEnd, BackEndKind, Refused, Result, SendError, Template, route_over};

/// Frames of memory.
const FRAMES: u32 = 2048;
/// The number of frames that one system call sends in copy mode (`TX_BATCH_SIZE`, net/xdp/xsk.c).
const BATCH: usize = 32;
/// An Ethernet header with a tag.
const HEADER: u32 = 18;
/// How often completion is checked.
const LOOK: Duration = Duration::from_micros(50);

/// The socket.
pub(crate) struct XskBackEnd {
    socket: Sender,
    longest: usize,
    template: Option<Template>,
    spared: Option<String>,
}

impl XskBackEnd {
    pub(crate) fn open(device: &HookDevice) -> Result<Self> {
        let failed = SendError::of_interface(&device.name);
        let mut netlink = Netlink::open().map_err(&failed)?;
        let mtu = netlink.link(&device.name).map_err(&failed)?.mtu;
        let longest = mtu.saturating_add(HEADER);
        let frame_size = if longest <= 2048 { 2048 } else { 4096 };
        // Without a copy, the host would receive nothing on that queue.
        let spared = route_over(device.index).map_err(failed)?;
        let socket = Sender::open(&QueueOptions {
            ifindex: device.index,
            queue: 0,
            frames: FRAMES,
            frame_size,
            binding: match spared {
                Some(_) => Binding::Copy,
                None => Binding::Automatic,
            },
        });
        Ok(Self {
            socket: socket.map_err(|source| SendError::of_call(&device.name, source))?,
            longest: usize::try_from(longest.min(frame_size)).unwrap_or(usize::MAX),
            template: None,
            spared,
        })
    }

    /// Makes room if there is little. Returns an error if there is none.
    fn room(&mut self) -> std::result::Result<(), Refused> {
        if self.socket.reclaim() >= BATCH {
            return Ok(());
        }
        self.socket.submit().map_err(Refused::Failed)?;
        match self.socket.reclaim() {
            0 => Err(Refused::NoRoom),
            _ => Ok(()),
        }
    }
}

impl BackEnd for XskBackEnd {
    fn kind(&self) -> BackEndKind {
        BackEndKind::Xsk
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn send(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused> {
        let Some(first) = frames.first() else {
            return Ok(0);
        };
        Refused::check(first.len(), self.longest)?;
        self.room()?;
        let taken = frames.iter().take_while(|frame| {
            let copy = |place: &mut [u8]| {
                place[..frame.len()].copy_from_slice(frame);
                frame.len()
            };
            Refused::check(frame.len(), self.longest).is_ok() && self.socket.push(copy)
        });
        let taken = taken.count();
        self.socket.submit().map_err(Refused::Failed)?;
        Ok(taken)
    }

    fn prepare(&mut self, template: &Template) -> Result<()> {
        self.template = Some(template.clone());
        Ok(())
    }

    fn generate(&mut self, first: u64, count: usize) -> std::result::Result<usize, Refused> {
        let longest = self.template.as_ref().map_or(0, Template::longest);
        Refused::check(longest, self.longest)?;
        self.room()?;
        let Some(template) = &self.template else {
            return Ok(0);
        };
        let nanos = now();
        let socket = &mut self.socket;
        let push = |number: &u64| socket.push(|place| template.write(*number, nanos, place));
        let numbers = (first..).take(count.min(BATCH));
        let taken = numbers.take_while(push).count();
        self.socket.submit().map_err(Refused::Failed)?;
        Ok(taken)
    }

    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()> {
        poll::wait([Interest::read(waker.as_fd())], Some(limit.min(LOOK)))?;
        Ok(())
    }

    fn drain(&mut self, limit: Duration) -> Result<u64> {
        let begin = Instant::now();
        loop {
            self.socket.reclaim();
            let pending = self.socket.pending();
            if pending == 0 || begin.elapsed() >= limit {
                return Ok(pending);
            }
            // The kernel may have detached from the device; pending frames then stay pending.
            if self.socket.submit().is_err() {
                return Ok(pending);
            }
            poll::wait([Interest::write(self.socket.as_fd())], Some(LOOK))?;
        }
    }

    fn notes(&self) -> Vec<String> {
        let how = match (self.socket.is_zero_copy(), &self.spared) {
            (true, _) => {
                "the adapter sends from shared memory; the host receives nothing on its first queue in the meantime"
                    .to_owned()
            }
            (false, None) => "packets are copied by the kernel".to_owned(),
            (false, Some(hazard)) => format!("packets are copied by the kernel: {hazard}"),
        };
        vec![how]
    }
}

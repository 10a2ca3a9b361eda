//! The receive ring: opened in an order that lets no unfiltered packet in, mapped, read block by
//! block.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::endpoint::Endpoint;
use super::frame::{Cursor, RingBlock, Shape, is_ready};
use super::geometry::Geometry;
use super::layout::{RingRequest, TPACKET_V2, TPACKET_V3};
use super::slots::{self, Slots, Taken};
use super::socket::Socket;
use super::{Instruction, LinkLayer, RingOptions, Statistics};
use crate::pages::{Pages, READ_WRITE};
use crate::receive_stamps::ReceiveStamps;
use crate::{Error, Result};

/// Bytes that the kernel keeps free before each packet. Together with the room that it always
/// leaves, they suffice for a VLAN tag before any link-layer header, and for a cooked header with a
/// tag.
const RESERVE: u32 = 4;

/// `BPF_RET | BPF_K`.
const BPF_RET_K: u16 = 0x06;
/// Rejects every packet.
const REJECT_ALL: [Instruction; 1] = [Instruction {
    code: BPF_RET_K,
    jt: 0,
    jf: 0,
    k: 0,
}];

/// A TPACKET_V3 receive ring with its socket.
#[derive(Debug)]
pub struct Ring {
    // The mapping is declared first, so that it is dropped before the socket.
    map: Pages,
    socket: Arc<Socket>,
    shape: Shape,
    geometry: Geometry,
    /// Set if each packet has its own slot.
    slots: Option<Slots>,
    cursor: Cursor,
    /// Sums of the kernel's counters, which each call resets.
    statistics: Arc<Mutex<Statistics>>,
    fanout_group: Option<u16>,
    ignores_outgoing: bool,
    bound: bool,
    ifindex: u32,
    /// Makes the adapter stamp packets, if its stamps are requested.
    receive_stamps: Option<ReceiveStamps>,
}

impl Ring {
    /// Bytes of headroom that the ring needs, for [`super::GeometryRequest`].
    pub const HEADROOM: u32 = RESERVE;
    /// The same for a ring that delivers each packet at once.
    pub const IMMEDIATE_HEADROOM: u32 = RESERVE + slots::RESERVE;

    /// Opens the socket with all its options, allocates the ring, and attaches a filter that
    /// rejects everything, so that no packet gets in before the caller's filter.
    ///
    /// If the kernel has no memory for a ring of this size, the size is halved until it has;
    /// [`Ring::geometry`] returns the result.
    ///
    /// Needs CAP_NET_RAW, also for promiscuous mode. The adapter's clock and busy polling need
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error names the call that failed and the device.
    pub fn open(options: &RingOptions<'_>, geometry: Geometry) -> Result<Self> {
        let socket = Socket::open(options.link.is_cooked(), options.device)?;
        let slots = options.immediate.then(|| Slots::new(geometry));
        let (version, reserve) = match slots {
            Some(_) => (TPACKET_V2, Self::IMMEDIATE_HEADROOM),
            None => (TPACKET_V3, Self::HEADROOM),
        };
        socket.set_version(version)?;
        socket.set_reserve(reserve)?;
        let receive_stamps = (options.timestamp == super::TimestampSource::Adapter)
            .then(|| ReceiveStamps::start(options.device, options.ifindex))
            .transpose()?;
        socket.set_timestamp(options.timestamp)?;
        let ignores_outgoing = options.ignore_outgoing && socket.ignore_outgoing()?;
        if let Some(duration) = options.busy_poll {
            socket.set_busy_poll(duration)?;
        }
        socket.attach_filter(&REJECT_ALL)?;
        let retire = options.retire_timeout_ms;
        let (obtained, map) = shrink_until_it_fits(geometry, |geometry| {
            allocate(&socket, geometry, slots, u32::from(retire))
        })?;
        Ok(Self {
            map,
            socket: Arc::new(socket),
            shape: Shape {
                link: options.link,
                snaplen: options.snaplen,
            },
            geometry: obtained,
            slots,
            cursor: Cursor::default(),
            statistics: Arc::default(),
            fanout_group: None,
            ignores_outgoing,
            bound: false,
            ifindex: options.ifindex,
            receive_stamps,
        })
    }

    /// Starts receiving: binds, joins promiscuous mode and the fanout group. All packets are
    /// rejected until [`Ring::set_filter`]. A capture with several rings attaches the filters after
    /// all have joined, because until then the packets of missing members go to the others.
    ///
    /// # Errors
    ///
    /// The error names the call that failed; `ENETDOWN` if the interface is down.
    pub fn bind(&mut self, options: &RingOptions<'_>) -> Result<()> {
        self.socket.bind(options.ifindex)?;
        self.bound = true;
        if let Some(code) = self.socket.take_error()? {
            let source = std::io::Error::from_raw_os_error(code);
            return Err(Error::new("bind(AF_PACKET)", options.device, source));
        }
        if options.promiscuous && options.ifindex != 0 {
            self.socket.join_promiscuous(options.ifindex)?;
        }
        if let Some(fanout) = &options.fanout {
            self.fanout_group = Some(self.socket.join_fanout(fanout)?);
        }
        Ok(())
    }

    /// Changes the most bytes that are delivered of a packet, from the next visited packet on.
    pub fn set_snaplen(&mut self, bytes: u32) {
        self.shape.snaplen = bytes;
    }

    /// Replaces the filter; the kernel does it between two packets.
    ///
    /// # Errors
    ///
    /// `SO_ATTACH_FILTER` fails if the program is longer than 4096 instructions or larger than
    /// `net.core.optmem_max`.
    pub fn set_filter(&self, filter: &[Instruction]) -> Result<()> {
        self.socket.attach_filter(filter)
    }

    /// Returns whether a block is ready to be read; a load, no system call.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let base = self.block_address(self.cursor.block);
        match self.slots {
            // SAFETY: `block_address` is the start of a block of the mapping.
            None => unsafe { is_ready(base) },
            // SAFETY: the cursor's slot is one of the block's.
            Some(slots) => unsafe {
                slots::is_ready(base.add(slots.offset(self.cursor.slot) as usize))
            },
        }
    }

    /// Returns the next block, if the kernel has delivered one.
    #[inline]
    pub fn take(&mut self) -> Option<RingBlock<'_>> {
        let base = self.block_address(self.cursor.block);
        let (size, blocks) = (self.geometry.block_size(), self.geometry.blocks());
        if let Some(slots) = self.slots {
            let (first, converted) = (self.cursor.slot, self.cursor.converted);
            // SAFETY: the block is one of the mapping's, which has these slots, and the cursor is
            // this ring's. No block is borrowed from the ring, so no reference to its bytes exists.
            let taken = unsafe { Taken::take(base, slots, first, converted) }?;
            self.cursor.converted = taken.count;
            let cursor = &mut self.cursor;
            // SAFETY: as above; the slots belong to this process.
            return Some(unsafe {
                RingBlock::of_slots(base, (size, blocks), self.shape, taken, cursor)
            });
        }
        // SAFETY: as in `is_ready`.
        if !unsafe { is_ready(base) } {
            return None;
        }
        // SAFETY: the block is ready, mapped for as long as the ring is borrowed, of this size and
        // page-aligned; the cursor is this ring's.
        Some(unsafe { RingBlock::new(base, size, blocks, self.shape, &mut self.cursor) })
    }

    /// Returns whether the next block was taken before and left with [`RingBlock::keep_from`].
    #[inline]
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.cursor.passed > 0
    }

    /// Returns an upper bound of the blocks that hold packets by now: those that are ready, and the
    /// one that the kernel fills. The bound is higher with slots, which make blocks of any length.
    #[must_use]
    pub fn blocks_begun(&self) -> u32 {
        let blocks = self.geometry.blocks();
        if let Some(slots) = self.slots {
            return slots.per_block.saturating_mul(blocks);
        }
        let mut count = 0;
        while count < blocks {
            let index = (self.cursor.block + count) % blocks;
            count += 1;
            // SAFETY: as in `is_ready`.
            if !unsafe { is_ready(self.block_address(index)) } {
                break;
            }
        }
        count
    }

    /// Returns the counters since the ring was bound.
    ///
    /// The kernel counts in 32 bits between two calls: call this before 2^32 more packets have
    /// arrived, or the sums are wrong.
    ///
    /// # Errors
    ///
    /// `PACKET_STATISTICS` does not fail on a packet socket.
    pub fn statistics(&mut self) -> Result<Statistics> {
        let mut sum = self.endpoint().statistics()?;
        sum.damaged_blocks = self.cursor.damaged.get();
        let mut kept = self
            .statistics
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.damaged_blocks = sum.damaged_blocks;
        Ok(sum)
    }

    /// Returns the ring's socket, for use without its packets.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(Arc::clone(&self.socket), Arc::clone(&self.statistics))
    }

    /// Changes the header of cooked packets, from the next visited packet on, to
    /// [`LinkLayer::CookedV1`] or [`LinkLayer::CookedV2`]. Returns false and changes nothing if the
    /// ring or `link` has another header.
    pub fn set_cooked(&mut self, link: LinkLayer) -> bool {
        let cooked = [LinkLayer::CookedV1, LinkLayer::CookedV2];
        let can = cooked.contains(&link) && cooked.contains(&self.shape.link);
        if can {
            self.shape.link = link;
        }
        can
    }

    /// Returns the pending error of the socket as an errno, and clears it: `ENETDOWN` if the
    /// interface went down.
    ///
    /// # Errors
    ///
    /// `SO_ERROR` does not fail on a socket.
    pub fn take_error(&self) -> Result<Option<i32>> {
        self.socket.take_error()
    }

    /// Returns whether the interface that the ring captures from is gone: deleted, or moved to
    /// another namespace.
    ///
    /// # Errors
    ///
    /// `getsockname` does not fail on a packet socket.
    pub fn is_interface_gone(&self) -> Result<bool> {
        let bound = self.socket.bound_ifindex()?;
        Ok(self.bound && bound != Some(self.ifindex))
    }

    /// Returns the ring's size.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the fanout group of the socket.
    #[must_use]
    pub const fn fanout_group(&self) -> Option<u16> {
        self.fanout_group
    }

    /// Returns whether dropping the ring must switch the adapter's stamps off, which needs
    /// CAP_NET_ADMIN.
    #[must_use]
    pub fn must_undo(&self) -> bool {
        let stamps = self.receive_stamps.as_ref();
        stamps.is_some_and(ReceiveStamps::must_undo)
    }

    /// Returns whether the kernel itself excludes packets that the host sends.
    #[must_use]
    pub const fn ignores_outgoing(&self) -> bool {
        self.ignores_outgoing
    }

    /// Returns the device's name as given to [`Ring::open`].
    #[must_use]
    pub fn device(&self) -> &str {
        self.socket.device()
    }

    /// Returns the index of the interface, 0 for all.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn block_address(&self, index: u32) -> NonNull<u8> {
        let offset = index as usize * self.geometry.block_size() as usize;
        debug_assert!(offset < self.map.len);
        // SAFETY: the cursor stays below the number of blocks, so the offset is in the mapping.
        unsafe { self.map.start.add(offset) }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Allocates the ring, and half of it again as long as there is no memory for it.
fn shrink_until_it_fits<T>(
    mut geometry: Geometry,
    mut allocate: impl FnMut(Geometry) -> Result<T>,
) -> Result<(Geometry, T)> {
    loop {
        match allocate(geometry) {
            Ok(ring) => return Ok((geometry, ring)),
            Err(error) => {
                let smaller = geometry.halved().filter(|_| is_memory_shortage(&error));
                geometry = smaller.ok_or(error)?;
            }
        }
    }
}

fn is_memory_shortage(error: &Error) -> bool {
    matches!(
        error.errno(),
        Some(libc::ENOMEM | libc::EAGAIN | libc::ENOBUFS)
    )
}

fn allocate(
    socket: &Socket,
    geometry: Geometry,
    slots: Option<Slots>,
    retire_timeout: u32,
) -> Result<Pages> {
    // TPACKET_V3 packs frames of any length; the kernel requires consistent fields.
    let (frame_size, per_block) = slots.map_or((geometry.block_size(), 1), |slots| {
        (slots.size, slots.per_block)
    });
    socket.set_ring(&RingRequest {
        block_size: geometry.block_size(),
        blocks: geometry.blocks(),
        frame_size,
        frames: geometry.blocks().saturating_mul(per_block),
        retire_timeout,
        private_size: 0,
        features: 0,
    })?;
    map_ring(socket, geometry.bytes(), "mmap(PACKET_RX_RING)").inspect_err(|_| {
        // So that the next attempt can set up a smaller ring; it would report an error of this
        // call.
        let _ = socket.set_ring(&RingRequest::default());
    })
}

/// Maps `bytes` bytes, the size of the socket's ring.
pub(super) fn map_ring(socket: &Socket, bytes: u64, call: &'static str) -> Result<Pages> {
    let failed = |source| {
        let context = format!("{} ({bytes} bytes)", socket.device());
        Error::new(call, context, source)
    };
    let len = usize::try_from(bytes)
        .map_err(|_| failed(std::io::Error::from_raw_os_error(libc::ENOMEM)))?;
    Pages::map(Some(socket.as_fd()), 0, len, READ_WRITE, libc::MAP_SHARED).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::GeometryRequest;
    use super::*;

    fn refused(code: i32) -> Error {
        Error::new(
            "setsockopt(PACKET_RX_RING)",
            "",
            std::io::Error::from_raw_os_error(code),
        )
    }

    #[test]
    fn memory_shortage_halves_the_ring() {
        let request = GeometryRequest {
            buffer: 64 << 20,
            snaplen: 65_536,
            headroom: 4,
        };
        let geometry = Geometry::new(&request, 4096).unwrap();
        let mut asked = Vec::new();
        let (obtained, ()) = shrink_until_it_fits(geometry, |geometry| {
            asked.push(geometry.bytes());
            if geometry.bytes() > 20 << 20 {
                Err(refused(libc::ENOMEM))
            } else {
                Ok(())
            }
        })
        .unwrap();
        assert_eq!(asked, [64 << 20, 32 << 20, 16 << 20]);
        assert_eq!(obtained.bytes(), 16 << 20);
        let none = shrink_until_it_fits::<()>(geometry, |_| Err(refused(libc::ENOMEM)));
        assert_eq!(none.unwrap_err().errno(), Some(libc::ENOMEM));
    }

    #[test]
    fn other_refusals_are_final() {
        let request = GeometryRequest {
            buffer: 64 << 20,
            snaplen: 65_536,
            headroom: 4,
        };
        let geometry = Geometry::new(&request, 4096).unwrap();
        let mut calls = 0;
        let result = shrink_until_it_fits::<()>(geometry, |_| {
            calls += 1;
            Err(refused(libc::EINVAL))
        });
        assert_eq!(
            (result.unwrap_err().errno(), calls),
            (Some(libc::EINVAL), 1)
        );
    }
}

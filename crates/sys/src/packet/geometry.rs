//! The size of a ring, computed and checked before any system call.

use super::layout::{BLOCK_HEADER_LEN, FRAME_ALIGNMENT, FRAME_HEADER_LEN, MAC_ROOM};

/// The smallest block: with smaller ones, the work per block outweighs the reader's gain.
const MIN_BLOCK: u32 = 32 * 1024;
/// Larger blocks gain nothing: at moderate rates each costs a wake-up, which costs as much as some
/// hundred packets.
const ENOUGH_BLOCK: u64 = 512 * 1024;
/// Blocks that a ring has if possible. The read timeout delivers whole blocks, full or not, and a reader that
/// is away for several timeouts should still find room. libpcap's rings have as many.
const GOOD_BLOCKS: u64 = 8;
/// The kernel takes the block's size as a signed 32-bit number.
const MAX_BLOCK: u32 = 1 << 30;
/// With fewer blocks, the kernel could not write while one is read.
const MIN_BLOCKS: u32 = 2;
/// The kernel's block table (`kcalloc`) is bounded; 2^19 entries of 8 bytes are 4 MiB.
const MAX_BLOCKS: u32 = 1 << 19;
/// A link-layer header that is longer than the kernel's room for it (802.11 with radiotap, for
/// instance).
const MAX_MAC: u32 = 256;

/// The requested size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeometryRequest {
    /// Bytes of all blocks together.
    pub buffer: u64,
    /// The largest captured length in bytes.
    pub snaplen: u32,
    /// Bytes kept free before each packet (`PACKET_RESERVE`).
    pub headroom: u32,
}

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    block_size: u32,
    blocks: u32,
    /// The most bytes that a packet takes, with its headers and the headroom.
    frame_size: u32,
}

/// The reason why a ring of this size is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A packet of the snaplen does not fit into the largest block that the kernel supports.
    #[error("snaplen {snaplen} needs a block of more than {MAX_BLOCK} bytes")]
    Snaplen {
        /// The requested snaplen, in bytes.
        snaplen: u32,
    },
    /// The buffer holds fewer than two blocks.
    #[error("a buffer of {buffer} bytes is too small: two packets of the snaplen need {least}")]
    BufferTooSmall {
        /// The requested buffer, in bytes.
        buffer: u64,
        /// The smallest valid buffer, in bytes.
        least: u64,
    },
    /// The buffer has more blocks than the kernel can count.
    #[error("a buffer of {buffer} bytes is too large: the maximum is {most}")]
    BufferTooLarge {
        /// The requested buffer, in bytes.
        buffer: u64,
        /// The largest valid buffer, in bytes.
        most: u64,
    },
}

impl Geometry {
    /// Computes the ring for `request` on a machine with pages of `page` bytes (a power of two).
    ///
    /// Block sizes are powers of two, so that the kernel can allocate each block in one piece. A
    /// block holds at least one packet of the snaplen. For small packets, blocks grow up to 512 KiB
    /// as long as the ring has 8 of them, which reduces the reader's work per packet.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] names the invalid number and its bound.
    pub fn new(request: &GeometryRequest, page: u32) -> Result<Self, GeometryError> {
        let too_long = GeometryError::Snaplen {
            snaplen: request.snaplen,
        };
        let frame_size = frame_size(request);
        let needed = u64::from(BLOCK_HEADER_LEN) + u64::from(frame_size);
        let good = (request.buffer / GOOD_BLOCKS).clamp(1, ENOUGH_BLOCK);
        let block_size = needed
            .max(u64::from(MIN_BLOCK.max(page)))
            .next_power_of_two()
            .max(1 << good.ilog2());
        let block_size = u32::try_from(block_size).map_err(|_| too_long)?;
        if block_size > MAX_BLOCK {
            return Err(too_long);
        }
        let wanted = request.buffer / u64::from(block_size);
        if wanted < u64::from(MIN_BLOCKS) {
            let least = u64::from(block_size) * u64::from(MIN_BLOCKS);
            return Err(GeometryError::BufferTooSmall {
                buffer: request.buffer,
                least,
            });
        }
        match u32::try_from(wanted) {
            Ok(blocks) if blocks <= MAX_BLOCKS => Ok(Self {
                block_size,
                blocks,
                frame_size,
            }),
            _ => {
                let most = u64::from(block_size) * u64::from(MAX_BLOCKS);
                Err(GeometryError::BufferTooLarge {
                    buffer: request.buffer,
                    most,
                })
            }
        }
    }

    /// Returns the bytes of one block.
    #[must_use]
    pub const fn block_size(self) -> u32 {
        self.block_size
    }

    /// Returns the number of blocks.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        self.blocks
    }

    /// Returns the most bytes that a packet takes, with its headers and the headroom.
    pub(super) const fn frame_size(self) -> u32 {
        self.frame_size
    }

    /// Returns the bytes of the whole ring.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.block_size as u64 * self.blocks as u64
    }

    /// Returns the ring with half as many blocks, or `None` if it has the fewest already.
    #[must_use]
    pub const fn halved(self) -> Option<Self> {
        let blocks = self.blocks / 2;
        if blocks < MIN_BLOCKS {
            None
        } else {
            Some(Self { blocks, ..self })
        }
    }

    /// Returns an unchecked geometry, for blocks built by a test.
    #[cfg(test)]
    pub(super) const fn unchecked(block_size: u32, blocks: u32) -> Self {
        Self {
            block_size,
            blocks,
            frame_size: block_size,
        }
    }
}

/// Returns the most bytes that a packet takes in a block: headers, headroom, link-layer header,
/// data, padding.
fn frame_size(request: &GeometryRequest) -> u32 {
    let before = FRAME_HEADER_LEN + MAC_ROOM + MAC_ROOM + MAX_MAC;
    before
        .saturating_add(request.headroom)
        .saturating_add(request.snaplen)
        .saturating_add(FRAME_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 4096;

    fn geometry(buffer: u64, snaplen: u32) -> Result<Geometry, GeometryError> {
        Geometry::new(
            &GeometryRequest {
                buffer,
                snaplen,
                headroom: 24,
            },
            PAGE,
        )
    }

    #[test]
    fn blocks_are_powers_of_two_that_hold_a_packet() {
        for snaplen in [0, 1, 68, 96, 1500, 9000, 65_535, 65_536, 262_144, 1 << 20] {
            let geometry = geometry(1 << 28, snaplen).unwrap();
            assert!(geometry.block_size().is_power_of_two());
            assert_eq!(geometry.block_size() % PAGE, 0);
            assert!(geometry.block_size() > snaplen + BLOCK_HEADER_LEN + FRAME_HEADER_LEN + 16);
            assert!(geometry.bytes() <= 1 << 28);
        }
    }

    #[test]
    fn a_page_larger_than_the_least_block_is_the_block() {
        let request = GeometryRequest {
            buffer: 1 << 19,
            snaplen: 96,
            headroom: 4,
        };
        assert_eq!(
            Geometry::new(&request, 65_536).unwrap().block_size(),
            65_536
        );
    }

    #[test]
    fn small_packets_come_in_larger_blocks_where_the_ring_has_room() {
        for (buffer, block) in [
            (256 << 10, 32 << 10),
            (2 << 20, 256 << 10),
            (64 << 20, 512 << 10),
        ] {
            assert_eq!(geometry(buffer, 96).unwrap().block_size(), block);
        }
    }

    #[test]
    fn bounds_are_told() {
        assert_eq!(
            geometry(100_000, 65_536),
            Err(GeometryError::BufferTooSmall {
                buffer: 100_000,
                least: 2 * 131_072
            })
        );
        assert_eq!(
            geometry(1 << 30, u32::MAX),
            Err(GeometryError::Snaplen { snaplen: u32::MAX })
        );
        assert_eq!(
            geometry(u64::MAX, 96),
            Err(GeometryError::BufferTooLarge {
                buffer: u64::MAX,
                most: 524_288 << 19
            })
        );
    }

    #[test]
    fn halving_ends_at_two_blocks() {
        let mut geometry = geometry(8 << 20, 65_536).unwrap();
        assert_eq!(geometry.blocks(), 16);
        let mut steps = 0;
        while let Some(half) = geometry.halved() {
            assert_eq!(half.block_size(), geometry.block_size());
            geometry = half;
            steps += 1;
        }
        assert_eq!((geometry.blocks(), steps), (2, 3));
    }
}

//! The memory of entries: blocks of 64 bytes, as many for each flow as its fields take.
//!
//! Most flows say little: a question of DNS takes one block, a handshake of TLS two, a request of HTTP
//! three. If each had a place for the longest, half of the places' memory would stay empty.

use std::ops::Range;

use super::reserved;
use super::slot::NONE;

/// Bytes of an entry in one block.
const ROOM: usize = 60;
/// Blocks of the largest entry.
const MOST: usize = 188_usize.div_ceil(ROOM);

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block {
    /// The next block of the entry, or of those that are free, or [`NONE`].
    next: u32,
    bytes: [u8; ROOM],
}

const _: () = assert!(size_of::<Block>() == 64);

/// Blocks, in chains. An entry has the number of its first block, or [`NONE`].
#[derive(Debug)]
pub(crate) struct Pool {
    blocks: Vec<Block>,
    /// The first block that is free again.
    free: u32,
}

impl Pool {
    /// Reserves room for the entries of so many flows. The system gives the memory when it is used.
    pub(crate) fn new(flows: usize) -> Self {
        let blocks = flows.saturating_mul(MOST).min(NONE as usize);
        Self {
            blocks: Vec::with_capacity(blocks),
            free: NONE,
        }
    }

    /// Returns the bytes that are reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    /// Returns the address range of its memory.
    pub(crate) fn addresses(&self) -> Range<usize> {
        reserved(&self.blocks)
    }

    /// Returns the pieces of the entry with this first block.
    pub(crate) fn pieces(&self, first: u32) -> impl Iterator<Item = &[u8]> {
        let mut at = first;
        std::iter::from_fn(move || {
            let block = self.blocks.get(at as usize)?;
            at = block.next;
            Some(&block.bytes[..])
        })
    }

    /// Puts an entry's bytes in the place of the entry with this first block. Entries only grow. Returns its
    /// first block.
    pub(crate) fn put(&mut self, first: u32, bytes: &[u8]) -> u32 {
        let mut first = first;
        let (mut at, mut last) = (first, NONE);
        for piece in bytes.chunks(ROOM) {
            if at == NONE {
                at = self.take();
                match self.blocks.get_mut(last as usize) {
                    Some(block) => block.next = at,
                    None => first = at,
                }
            }
            let Some(block) = self.blocks.get_mut(at as usize) else {
                break;
            };
            block.bytes[..piece.len()].copy_from_slice(piece);
            (last, at) = (at, block.next);
        }
        first
    }

    /// Frees the blocks of the entry with this first block.
    pub(crate) fn release(&mut self, first: u32) {
        let mut last = first;
        while let Some(block) = self.blocks.get(last as usize).filter(|b| b.next != NONE) {
            last = block.next;
        }
        if let Some(block) = self.blocks.get_mut(last as usize) {
            block.next = std::mem::replace(&mut self.free, first);
        }
    }

    /// Returns a block that is the last of its entry.
    fn take(&mut self) -> u32 {
        if let Some(block) = self.blocks.get_mut(self.free as usize) {
            return std::mem::replace(&mut self.free, std::mem::replace(&mut block.next, NONE));
        }
        // There is room for the largest entries of all flows.
        self.blocks.push(Block {
            next: NONE,
            bytes: [0; ROOM],
        });
        u32::try_from(self.blocks.len() - 1).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, NONE, Pool, ROOM};

    /// Returns the bytes of the entry with this first block, up to a length.
    fn content(pool: &Pool, first: u32, len: usize) -> Vec<u8> {
        let mut bytes = pool.pieces(first).collect::<Vec<_>>().concat();
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn entries_grow_and_their_blocks_are_used_again() {
        let mut pool = Pool::new(2);
        let (long, short) = ([7; 188], [8; 20]);
        let mut first = NONE;
        for len in [0, 1, ROOM, ROOM + 1, 188] {
            first = pool.put(first, &long[..len]);
            assert_eq!(content(&pool, first, len), &long[..len]);
        }
        let other = pool.put(NONE, &short);
        assert_eq!(content(&pool, other, short.len()), short);
        assert_eq!(pool.blocks.len(), MOST + 1);
        pool.release(first);
        let again: Vec<u32> = (0..MOST).map(|_| pool.put(NONE, &short)).collect();
        assert_eq!(pool.blocks.len(), MOST + 1);
        assert!(
            again
                .iter()
                .all(|&first| content(&pool, first, 20) == short)
        );
        assert_eq!(content(&pool, other, short.len()), short);
    }

    #[test]
    fn an_entry_without_fields_has_no_block() {
        let mut pool = Pool::new(1);
        assert_eq!(pool.put(NONE, &[]), NONE);
        pool.release(NONE);
        assert_eq!(pool.put(NONE, &[1]), 0);
        assert_eq!(pool.blocks.capacity(), MOST);
    }
}

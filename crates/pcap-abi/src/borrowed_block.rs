//! A source together with the block that is borrowed from it, so that packets can be handed out one by one,
//! call by call.
//!
//! A [`Block`] borrows its source, and the iterator over it borrows the block. Here all three are
//! kept in one value. What makes that sound: source and block have places of their own on the heap,
//! that do not move with the value; the source is reached by others only through
//! [`BorrowedBlock::source`], which gives block and iterator back before; and no packet outlives the
//! borrow of the [`BorrowedBlock`] that it came from, but by copy.

use std::ptr::NonNull;

use ringtap_capture::{Block, Next, Packet, Packets, Result, Source};

/// A source, and what is borrowed from it.
pub(crate) struct BorrowedBlock {
    /// The iterator borrows `block`, and is dropped before it.
    packets: Option<Packets<'static>>,
    /// Holds a block while `packets` is there, which borrows `source`.
    block: NonNull<Option<Block<'static>>>,
    /// Made of a box, and nobody else's.
    source: NonNull<dyn Source>,
}

// SAFETY: the source is `Send`, and a block is of the source's memory; all move together, and are
// used by the thread that has the value.
unsafe impl Send for BorrowedBlock {}

/// What comes next, apart from packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// There are packets.
    Packets,
    /// Something that is no packet was passed over.
    Other,
    /// No packet came in time.
    TimedOut,
    /// The waker was used.
    Woken,
    /// The file has ended.
    End,
}

impl BorrowedBlock {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        let block = Box::into_raw(Box::new(None));
        let source = Box::into_raw(source);
        // SAFETY: a box's address is not null.
        let (block, source) = unsafe {
            (
                NonNull::new_unchecked(block),
                NonNull::new_unchecked(source),
            )
        };
        Self {
            packets: None,
            block,
            source,
        }
    }

    /// The next packet of the borrowed block, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Packet<'_>> {
        self.packets.as_mut()?.next()
    }

    /// The next packet that is wanted of the borrowed block, if there is one.
    #[inline]
    pub(crate) fn find(
        &mut self,
        mut wanted: impl FnMut(&Packet<'_>) -> bool,
    ) -> Option<Packet<'_>> {
        self.packets.as_mut()?.find(|packet| wanted(packet))
    }

    /// Gives the block back and asks the source for the next one; with or without a wait.
    pub(crate) fn advance(&mut self, wait: bool) -> Result<Pause> {
        self.release();
        // SAFETY: the source is this value's own, and nothing borrows it, since all was given back.
        // What borrows it for `'static` here is kept in this value, and given back before the source
        // is reached again or dropped.
        let source: &'static mut dyn Source = unsafe { &mut *self.source.as_ptr() };
        let next = if wait {
            source.next()?
        } else {
            source.try_next()?
        };
        Ok(match next {
            Next::Block(block) => {
                self.keep(block);
                Pause::Packets
            }
            Next::TimedOut => Pause::TimedOut,
            Next::Woken => Pause::Woken,
            Next::End => Pause::End,
            _ => Pause::Other,
        })
    }

    fn keep(&mut self, block: Block<'static>) {
        // SAFETY: the place is this value's own, and no iterator borrows it: `advance` gave it back.
        let place = unsafe { self.block.as_mut() };
        let block: *const Block<'static> = place.insert(block);
        // SAFETY: the block stays where it is until `release`, which drops the iterator before.
        self.packets = Some(unsafe { &*block }.packets());
    }

    /// Whether no packet of a borrowed block is left to be looked at.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.packets.as_ref().is_none_or(Packets::is_spent)
    }

    /// Leaves the packets that were not asked for with the source, which hands them out again; false,
    /// and nothing changes, where it cannot.
    pub(crate) fn leave(&mut self) -> bool {
        let Some(packets) = &self.packets else {
            return true;
        };
        let (is_spent, position) = (packets.is_spent(), packets.position());
        if is_spent {
            self.release();
            return true;
        }
        if position.is_none() {
            return false;
        }
        self.packets = None;
        // SAFETY: the place is this value's own, and the iterator that borrowed it is gone.
        if let Some(block) = unsafe { self.block.as_mut() }.take() {
            // A block whose iterator has a position can be kept.
            let _ = block.keep(position);
        }
        true
    }

    /// Gives the block back: packets of it that were not asked for are lost.
    pub(crate) fn release(&mut self) {
        self.packets = None;
        // SAFETY: the place is this value's own, and the iterator that borrowed it is gone.
        unsafe { self.block.as_mut() }.take();
    }

    /// The source, after what is borrowed from it was given back.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        self.release();
        // SAFETY: the source is this value's own, and nothing borrows it any more.
        unsafe { self.source.as_mut() }
    }
}

impl Drop for BorrowedBlock {
    fn drop(&mut self) {
        self.release();
        // SAFETY: both were made of boxes in `new`; nothing borrows them any more.
        unsafe {
            drop(Box::from_raw(self.block.as_ptr()));
            drop(Box::from_raw(self.source.as_ptr()));
        }
    }
}

//! A source together with the block borrowed from it, so that each call can deliver one packet.
//!
//! A [`Block`] borrows its source, and the iterator over it borrows the block. Here all three are
//! kept in one value. This is sound for three reasons:
//!
//! - Source and block have their own places on the heap, which do not move with the value.
//! - The source can be reached only through [`BorrowedBlock::source`], which first drops block and
//!   iterator.
//! - No packet outlives the borrow of the [`BorrowedBlock`] that it came from, except as a copy.

use std::ptr::NonNull;

use ringtap_capture::{Block, Next, Packet, Packets, Result, Source};

/// A source and the block and iterator that borrow it.
pub(crate) struct BorrowedBlock {
    /// The iterator borrows `block`, and is dropped before it.
    packets: Option<Packets<'static>>,
    /// Holds a block while `packets` is set; the block borrows `source`.
    block: NonNull<Option<Block<'static>>>,
    /// Made from a box; nothing else has its address.
    source: NonNull<dyn Source>,
}

// SAFETY: the source is `Send`, and a block belongs to the source's memory; all move together, and
// only the thread that has the value uses them.
unsafe impl Send for BorrowedBlock {}

/// The result of asking the source for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// There are packets.
    Packets,
    /// An item that is not a packet was skipped.
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

    /// Returns the next packet of the borrowed block, if any.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Packet<'_>> {
        self.packets.as_mut()?.next()
    }

    /// Returns the next packet of the borrowed block that `wanted` accepts, if any.
    #[inline]
    pub(crate) fn find(
        &mut self,
        mut wanted: impl FnMut(&Packet<'_>) -> bool,
    ) -> Option<Packet<'_>> {
        self.packets.as_mut()?.find(|packet| wanted(packet))
    }

    /// Returns the block and asks the source for the next one, with or without waiting.
    pub(crate) fn advance(&mut self, wait: bool) -> Result<Pause> {
        self.release();
        // SAFETY: this value owns the source, and nothing borrows it since `release`. The borrows
        // for `'static` that begin here are kept in this value, and end before the source is used
        // again or dropped.
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
        // SAFETY: this value owns the place, and no iterator borrows it: `advance` released it.
        let place = unsafe { self.block.as_mut() };
        let block: *const Block<'static> = place.insert(block);
        // SAFETY: the block does not move until `release`, which drops the iterator first.
        self.packets = Some(unsafe { &*block }.packets());
    }

    /// Returns whether every packet of the borrowed block was read, or no block is borrowed.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.packets.as_ref().is_none_or(Packets::is_spent)
    }

    /// Returns whether a block is borrowed whose packets were all read.
    pub(crate) fn holds_spent(&self) -> bool {
        self.packets.as_ref().is_some_and(Packets::is_spent)
    }

    /// Leaves the unread packets to the source, which delivers them again. Returns false and
    /// changes nothing if the source cannot do that.
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
        // SAFETY: this value owns the place, and the iterator that borrowed it is gone.
        if let Some(block) = unsafe { self.block.as_mut() }.take() {
            // A block whose iterator has a position can be kept.
            let _ = block.keep(position);
        }
        true
    }

    /// Returns the block to the source: its unread packets are lost.
    pub(crate) fn release(&mut self) {
        self.packets = None;
        // SAFETY: this value owns the place, and the iterator that borrowed it is gone.
        unsafe { self.block.as_mut() }.take();
    }

    /// Returns the source, after the block was returned to it.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        self.release();
        // SAFETY: this value owns the source, and nothing borrows it any more.
        unsafe { self.source.as_mut() }
    }

    /// Gives the block back, and settles what poll(2) finds of the source ([`Polling::settle`]).
    ///
    /// [`Polling::settle`]: ringtap_capture::Polling::settle
    pub(crate) fn settle(&mut self, has_more: bool) {
        if let Some(polling) = self.source().polling() {
            polling.settle(has_more);
        }
    }
}

impl Drop for BorrowedBlock {
    fn drop(&mut self) {
        self.release();
        // SAFETY: both were made from boxes in `new`; nothing borrows them any more.
        unsafe {
            drop(Box::from_raw(self.block.as_ptr()));
            drop(Box::from_raw(self.source.as_ptr()));
        }
    }
}

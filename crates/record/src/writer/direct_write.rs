//! The short way into a file in memory: packets are copied directly into the file, without chunks and writer.
//!
//! A file system in memory copies the bytes, which costs the same on any processor. A chunk would be a
//! further copy, into memory that must be found and emptied. While nothing waits in the queue, the capturing
//! thread therefore writes itself. Small pieces are still gathered in a chunk. So is data when the ring is so
//! full that it must be emptied faster than the file takes it; another processor may then write it.
//!
//! A failed or short write is not reported here. The same bytes are immediately passed to the writer, for the
//! same offset; it meets the error and reports it.

use std::fs::File;
use std::io::{IoSlice, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use super::queue::{Current, Item, Shared, Whole};

/// The minimum size of a piece that is worth a system call, in bytes.
const LEAST: usize = 64 << 10;
/// With more than this in the ring, in bytes, the ring is emptied first.
const PRESSED: usize = 4 << 20;

/// A file in memory, and the bytes that were written directly into it.
pub(super) struct DirectWrite {
    /// It has its own position: the writer writes at explicit offsets.
    file: File,
    pressed: bool,
    /// Written bytes that the writer does not know of yet.
    untold: Option<Untold>,
}

struct Untold {
    end: u64,
    packets: u64,
    /// The bytes written since packets were last counted.
    is_open: bool,
}

impl DirectWrite {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            pressed: false,
            untold: None,
        }
    }

    /// Announces the number of bytes that will be taken out of the ring.
    pub(super) fn announce(&mut self, bytes: usize) {
        self.pressed = bytes > PRESSED;
    }

    /// Returns whether this number of bytes goes this way. The rest of a batch follows its beginning.
    fn takes(&self, bytes: usize) -> bool {
        let has_begun = self.untold.as_ref().is_some_and(|untold| untold.is_open);
        has_begun || (!self.pressed && bytes >= LEAST)
    }

    /// Writes the bytes that are held back, then `slices` of `bytes`. Returns whether all of them were
    /// written.
    fn write(&mut self, at: u64, held: &[u8], slices: &[IoSlice<'_>], bytes: usize) -> bool {
        let behind = SeekFrom::Start(at + held.len() as u64);
        self.file.write_all_at(held, at).is_ok()
            && self.file.seek(behind).is_ok()
            && self.file.write_vectored(slices).ok() == Some(bytes)
    }
}

impl Current {
    /// Counts the packets of a batch that went directly into the file. If the batch ended in the chunk, the
    /// packets in the chunk are not included.
    pub(super) fn commit_straight(&mut self, whole: Whole) {
        let straight = self.straight.as_mut();
        let untold = straight.and_then(|straight| straight.untold.as_mut());
        let Some(untold) = untold.filter(|untold| untold.is_open) else {
            return;
        };
        let chunk = self.buffer.as_ref();
        let behind = chunk.map_or(0, |buffer| whole(buffer.bytes()).1);
        let packets = self.packets.saturating_sub(behind);
        untold.packets += packets;
        untold.is_open = false;
        self.packets_before += packets;
        self.packets -= packets;
    }
}

impl Shared {
    /// Writes the growing chunk and `slices` of `bytes` directly into the file, if that is possible and pays.
    /// Returns whether it did.
    pub(super) fn write_straight(
        &self,
        current: &mut Current,
        slices: &[IoSlice<'_>],
        bytes: usize,
    ) -> bool {
        let Some(straight) = current.straight.as_mut() else {
            return false;
        };
        if !straight.takes(bytes) {
            return false;
        }
        let chunk = current.buffer.as_ref();
        let held = chunk.map_or(&current.tail[..], |buffer| buffer.bytes());
        let at = current.start - current.tail.len() as u64;
        if !straight.write(at, held, slices, bytes) {
            // The writer knows of these bytes; the rest waits for that.
            straight.pressed = true;
            current.hurry = true;
            return false;
        }
        let end = at + (held.len() + bytes) as u64;
        let written = end - current.start;
        let packets = straight.untold.as_ref().map_or(0, |untold| untold.packets);
        straight.untold = Some(Untold {
            end,
            packets,
            is_open: true,
        });
        current.start = end;
        current.tail.clear();
        self.gauge.written.fetch_add(written, Ordering::Relaxed);
        if let Some(buffer) = current.buffer.take() {
            self.give_back(buffer);
        }
        true
    }

    /// Tells the writer which bytes went directly into the file.
    pub(super) fn tell(&self, current: &mut Current) {
        let straight = current.straight.as_mut();
        if let Some(Untold { end, packets, .. }) =
            straight.and_then(|straight| straight.untold.take())
        {
            self.push(Item::DirectWrite { end, packets });
        }
    }
}

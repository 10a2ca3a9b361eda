//! The short way into a file in memory: from where packets lie into the file, past chunks and writer.
//!
//! A file system in memory takes bytes by copying them, which costs its processor as much whoever
//! does it. A chunk would be a copy before that, into memory that has to be found and emptied while
//! the file takes as much. So long as nothing waits in the queue, who captures writes itself. Small
//! stretches are gathered in a chunk all the same; so is what comes when so much waits in the ring that it
//! has to be emptied sooner than the file takes it, which another processor may do meanwhile.
//!
//! A write that fails, or is cut short, is no failure yet: the same bytes go the long way, to the same
//! place, at once, where the writer meets what is wrong and tells it.

use std::fs::File;
use std::io::{IoSlice, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use super::queue::{Current, Item, Shared, Whole};

/// Stretches that are worth a call of the kernel, in bytes.
const LEAST: usize = 64 << 10;
/// More than this in the ring, in bytes, and it is emptied first.
const PRESSED: usize = 4 << 20;

/// A file in memory, and what was written straight into it.
pub(super) struct DirectWrite {
    /// With a position of its own making: the writer writes at places that it names.
    file: File,
    pressed: bool,
    /// What the writer was not told of yet.
    untold: Option<Untold>,
}

struct Untold {
    end: u64,
    packets: u64,
    /// Bytes were written since packets were counted last.
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

    /// So many bytes are to be taken out of the ring.
    pub(super) fn announce(&mut self, bytes: usize) {
        self.pressed = bytes > PRESSED;
    }

    /// Whether so many bytes go this way. The rest of a batch follows its beginning.
    fn takes(&self, bytes: usize) -> bool {
        let has_begun = self.untold.as_ref().is_some_and(|untold| untold.is_open);
        has_begun || (!self.pressed && bytes >= LEAST)
    }

    /// Writes what is held back, and `slices` of `bytes` behind it; whether all of it is there.
    fn write(&mut self, at: u64, held: &[u8], slices: &[IoSlice<'_>], bytes: usize) -> bool {
        let behind = SeekFrom::Start(at + held.len() as u64);
        self.file.write_all_at(held, at).is_ok()
            && self.file.seek(behind).is_ok()
            && self.file.write_vectored(slices).ok() == Some(bytes)
    }
}

impl Current {
    /// Counts the packets of a batch that went straight into the file. Of one that ended in the chunk,
    /// those of the chunk are not among them.
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
    /// Writes the chunk that grows and `slices` of `bytes` straight into the file, where there is that
    /// way and it pays; whether that was done.
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
            // What it has told is the writer's; the rest waits for that.
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

    /// Tells the writer what went straight into the file.
    pub(super) fn tell(&self, current: &mut Current) {
        let straight = current.straight.as_mut();
        if let Some(Untold { end, packets, .. }) =
            straight.and_then(|straight| straight.untold.take())
        {
            self.push(Item::DirectWrite { end, packets });
        }
    }
}

//! Reads a capture without the stretches that a search skips.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::SeekPoint;

/// Stretches of a capture that are skipped.
#[derive(Clone, Debug, Default)]
pub struct Skips {
    /// In ascending order, with gaps between them; offsets in the uncompressed capture.
    ranges: Vec<(u64, u64)>,
    /// Places where reading a compressed capture can begin, in ascending order.
    seeks: Vec<SeekPoint>,
    bytes: u64,
    packets: u64,
}

impl Skips {
    /// Adds a stretch after the earlier ones, with its number of packets. Does nothing if it is not
    /// after them.
    pub fn add(&mut self, offset: u64, len: u64, packets: u64) {
        let end = offset.saturating_add(len);
        match self.ranges.last_mut() {
            Some(last) if last.1 == offset => last.1 = end,
            Some(last) if last.1 > offset => return,
            _ => self.ranges.push((offset, end)),
        }
        self.bytes = self.bytes.saturating_add(len);
        self.packets = self.packets.saturating_add(packets);
    }

    /// Adds a place where reading a compressed capture can begin. Does nothing if it is not after
    /// the earlier ones.
    pub fn add_seek(&mut self, point: SeekPoint) {
        let last = self.seeks.last().copied().unwrap_or(SeekPoint::START);
        if point.uncompressed > last.uncompressed && point.compressed > last.compressed {
            self.seeks.push(point);
        }
    }

    /// Returns the skipped stretches, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Returns the skipped bytes of the uncompressed capture.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of skipped packets.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the first range that ends after `offset`.
    fn next(&self, offset: u64) -> Option<(u64, u64)> {
        let at = self.ranges.partition_point(|range| range.1 <= offset);
        self.ranges.get(at).copied()
    }

    /// Returns the last place at or before `offset` where reading can begin.
    fn seek_before(&self, offset: u64) -> SeekPoint {
        let behind = self
            .seeks
            .partition_point(|seek| seek.uncompressed <= offset);
        match behind.checked_sub(1).and_then(|at| self.seeks.get(at)) {
            Some(seek) => *seek,
            None => SeekPoint::START,
        }
    }

    /// Converts an offset without the skipped stretches into an offset in the whole capture.
    pub(crate) fn place(&self, read: u64) -> u64 {
        let mut place = read;
        for (start, end) in &self.ranges {
            if place < *start {
                break;
            }
            place = place.saturating_add(end - start);
        }
        place
    }
}

/// An uncompressed file, read without the skipped stretches.
pub(crate) struct SkippingFile {
    pub(crate) file: File,
    pub(crate) skips: Arc<Skips>,
    pub(crate) at: u64,
}

impl Read for SkippingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = next_piece(&self.skips, &mut self.at, buffer.len());
        let count = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Moves `at` past a skipped range, and returns how many bytes may be read from there.
fn next_piece(skips: &Skips, at: &mut u64, room: usize) -> usize {
    match skips.next(*at) {
        Some((start, _)) if start > *at => {
            usize::try_from(start - *at).unwrap_or(usize::MAX).min(room)
        }
        Some((_, end)) => {
            *at = end;
            // Ranges have gaps between them, so there is something before the next.
            match skips.next(end) {
                Some((start, _)) => usize::try_from(start - end).unwrap_or(usize::MAX).min(room),
                None => room,
            }
        }
        None => room,
    }
}

/// A compressed capture, decompressed and read without the skipped stretches. `open` decompresses
/// the file from the beginning of a member or frame on.
pub(crate) struct SkippingStream<R, F> {
    pub(crate) stream: R,
    pub(crate) open: F,
    pub(crate) skips: Arc<Skips>,
    /// Offset of the stream in the uncompressed capture.
    pub(crate) stream_at: u64,
    pub(crate) at: u64,
}

impl<R: Read, F: FnMut(u64) -> io::Result<R>> SkippingStream<R, F> {
    /// Moves the stream to the place that is read next; returns false if it ends before.
    fn catch_up(&mut self) -> io::Result<bool> {
        if self.stream_at == self.at {
            return Ok(true);
        }
        let seek = self.skips.seek_before(self.at);
        if seek.uncompressed > self.stream_at {
            self.stream = (self.open)(seek.compressed)?;
            self.stream_at = seek.uncompressed;
        }
        let ahead = self.at - self.stream_at;
        let passed = io::copy(&mut (&mut self.stream).take(ahead), &mut io::sink())?;
        self.stream_at += passed;
        Ok(passed == ahead)
    }
}

impl<R: Read, F: FnMut(u64) -> io::Result<R>> Read for SkippingStream<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = next_piece(&self.skips, &mut self.at, buffer.len());
        if !self.catch_up()? {
            return Ok(0);
        }
        let count = self.stream.read(&mut buffer[..wanted])?;
        self.at += count as u64;
        self.stream_at = self.at;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips() -> Arc<Skips> {
        let mut skips = Skips::default();
        for (offset, len) in [(10, 5), (15, 5), (30, 1), (90, 100)] {
            skips.add(offset, len, 1);
        }
        for (compressed, uncompressed) in [(1, 12), (2, 18), (3, 40), (4, 100)] {
            skips.add_seek(SeekPoint {
                compressed,
                uncompressed,
            });
        }
        Arc::new(skips)
    }

    fn expected() -> Vec<u8> {
        let kept = |byte: &u8| !matches!(byte, 10..20 | 30 | 90..190);
        (0..200).filter(kept).collect()
    }

    #[test]
    fn leaves_out_stretches() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &(0..200).collect::<Vec<u8>>()).unwrap();
        let (skips, at) = (skips(), 0);
        let mut read = Vec::new();
        let mut skipping = SkippingFile { file, skips, at };
        skipping.read_to_end(&mut read).unwrap();
        assert_eq!(read, expected());
        let skips = &skipping.skips;
        assert_eq!((skips.bytes(), skips.packets()), (111, 4));
        for (count, byte) in read.iter().enumerate() {
            assert_eq!(skips.place(count as u64), u64::from(*byte));
        }
    }

    #[test]
    fn goes_to_the_nearest_place_to_read_from() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut opened = Vec::new();
        let open = |compressed: u64| {
            opened.push(compressed);
            let from: usize = [0, 12, 18, 40, 100][usize::try_from(compressed).unwrap()];
            Ok(io::Cursor::new(bytes[from..].to_vec()))
        };
        let mut read = Vec::new();
        SkippingStream {
            stream: io::Cursor::new(bytes.clone()),
            open,
            skips: skips(),
            stream_at: 0,
            at: 0,
        }
        .read_to_end(&mut read)
        .unwrap();
        assert_eq!(read, expected());
        assert_eq!(
            opened,
            [2, 4],
            "nothing else is nearer than where it stands"
        );
    }
}

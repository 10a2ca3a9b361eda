//! Combines records into large writes: small packets are collected in a staging buffer, large ones
//! and whole runs are written in place.

use std::io::{self, IoSlice, Write};

use crate::write::{Totals, WriteError, WriteErrorKind};

/// Number of bytes collected before a write.
const STAGING: usize = 256 * 1024;
/// Data of at least this size, in bytes, are written in place. Measured: below it, a copy costs
/// less than another element of a vectored write.
pub(crate) const LARGE: usize = 512;
/// The most pieces written in place by one call: enough for a call to write as much as the staging
/// buffer holds, few enough to be set up quickly. There may be staged bytes between any two, and
/// Linux takes 1024 elements in a vectored write (IOV_MAX).
const PIECES: usize = 256;

/// Defines the methods that the writers of both formats have, with this type of their batches.
macro_rules! writer_methods {
    ($batch:ident) => {
        /// Starts a batch of packets.
        pub fn batch<'w, 'd>(&'w mut self) -> $batch<'w, 'd, W> {
            $batch {
                mark: self.output.mark(),
                writer: self,
                pieces: Pieces::new(),
            }
        }

        /// Copies one packet; a later call writes it together with others.
        ///
        /// # Errors
        #[doc = concat!("The same as [`", stringify!($batch), "::push`].")]
        pub fn write_packet(&mut self, packet: &Packet<'_>) -> Result<(), WriteError> {
            let mut batch = self.batch();
            batch.push(packet)?;
            batch.keep()
        }

        /// Writes pending data, and flushes the output.
        ///
        /// # Errors
        /// The output fails.
        pub fn flush(&mut self) -> Result<(), WriteError> {
            self.output.flush(&self.framing())
        }

        /// Returns the totals written so far.
        #[must_use]
        pub fn totals(&self) -> Totals {
            self.output.written
        }

        /// Returns the output.
        #[must_use]
        pub fn sink(&self) -> &W {
            &self.output.sink
        }

        /// Returns the output; writing to it directly makes the file unreadable.
        pub fn sink_mut(&mut self) -> &mut W {
            &mut self.output.sink
        }

        /// Writes pending data, and returns the output with the totals written.
        ///
        /// # Errors
        /// The output fails.
        pub fn finish(mut self) -> Result<(W, Totals), WriteError> {
            self.flush()?;
            let totals = self.totals();
            Ok((self.output.sink, totals))
        }
    };
}
pub(super) use writer_methods;

/// Defines the methods that the batches of both formats have.
macro_rules! batch_methods {
    () => {
        /// Returns the bytes of the file with all that was added so far.
        #[inline]
        #[must_use]
        pub fn position(&self) -> u64 {
            self.writer.output.position(&self.pieces)
        }

        /// Writes the batch and all pending data.
        ///
        /// # Errors
        /// Writing to the output fails; the error holds the number of intact packets.
        pub fn commit(mut self) -> Result<(), WriteError> {
            let framing = self.writer.framing();
            self.writer.output.write_out(&mut self.pieces, &framing)
        }

        /// Leaves copies of the packets pending; a later call writes them.
        fn keep(mut self) -> Result<(), WriteError> {
            if self.pieces.is_empty() {
                self.mark = self.writer.output.mark();
                return Ok(());
            }
            self.commit()
        }
    };
}
pub(super) use batch_methods;

/// Finds the records of a format, to count the intact ones after a failed write.
pub(crate) trait Framing {
    /// Returns the bytes of the record at the start, and whether it holds a packet.
    fn record(&self, start: &[u8]) -> Option<(u64, bool)>;
}

/// The output and the staging buffer.
pub(crate) struct Output<W> {
    pub(super) sink: W,
    staging: Vec<u8>,
    /// Packets in the staging buffer and the pieces.
    pending: u64,
    /// The totals that were written.
    pub(super) written: Totals,
    /// How often all pending data were written.
    calls: u64,
    failed: bool,
}

/// Pieces of a batch that are written in place, and their positions among staged bytes.
pub(crate) struct Pieces<'d> {
    pieces: [&'d [u8]; PIECES],
    places: [usize; PIECES],
    count: usize,
    /// Bytes of all pieces.
    bytes: u64,
}

impl Pieces<'_> {
    pub(crate) fn new() -> Self {
        Self {
            pieces: [&[]; PIECES],
            places: [0; PIECES],
            count: 0,
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The state of an [`Output`] to which an uncommitted batch is undone.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    staged: usize,
    pending: u64,
    calls: u64,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(sink: W) -> Self {
        Self {
            sink,
            staging: Vec::with_capacity(STAGING),
            pending: 0,
            written: Totals::default(),
            calls: 0,
            failed: false,
        }
    }

    /// Counts a packet whose time is written differently from how it was stored.
    #[cold]
    pub(crate) fn alter_time(&mut self) {
        self.written.altered_times += 1;
    }

    /// Returns the bytes of the file, written and pending.
    #[inline]
    pub(crate) fn position(&self, pieces: &Pieces<'_>) -> u64 {
        self.written.bytes + self.staging.len() as u64 + pieces.bytes
    }

    /// Returns the buffer to which records are appended.
    #[inline]
    pub(crate) fn staging(&mut self) -> &mut Vec<u8> {
        &mut self.staging
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            staged: self.staging.len(),
            pending: self.pending,
            calls: self.calls,
        }
    }

    /// Undoes all that was staged after `mark`, unless it was written in the meantime.
    pub(crate) fn undo(&mut self, mark: Mark) {
        let (staged, pending) = if mark.calls == self.calls {
            (mark.staged, mark.pending)
        } else {
            (0, 0)
        };
        self.staging.truncate(staged);
        self.pending = pending;
    }

    /// Makes room for staging `bytes` more; writes pending data if necessary.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        bytes: usize,
        pieces: &mut Pieces<'_>,
        framing: &impl Framing,
    ) -> Result<(), WriteError> {
        if self.staging.len() + bytes <= STAGING && pieces.count < PIECES && !self.failed {
            return Ok(());
        }
        self.write_out(pieces, framing)
    }

    /// Adds a piece after the staged bytes. [`Output::reserve`] has made room for it.
    #[inline]
    pub(crate) fn refer<'d>(&self, data: &'d [u8], pieces: &mut Pieces<'d>) {
        let index = pieces.count;
        if let (Some(piece), Some(place)) =
            (pieces.pieces.get_mut(index), pieces.places.get_mut(index))
        {
            *piece = data;
            *place = self.staging.len();
            pieces.count += 1;
            pieces.bytes += data.len() as u64;
        }
    }

    /// Counts packets whose records were staged or referred to.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64) {
        self.pending += packets;
    }

    /// Writes all that is staged and referred to.
    #[cold]
    pub(crate) fn write_out(
        &mut self,
        pieces: &mut Pieces<'_>,
        framing: &impl Framing,
    ) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteErrorKind::FailedBefore.into());
        }
        let mut slices = [IoSlice::new(&[]); 2 * PIECES + 1];
        let count = gather(&self.staging, pieces, &mut slices);
        let mut written = 0;
        let result = write_all(&mut self.sink, &mut slices[..count], &mut written);
        let error = match result {
            Ok(()) => None,
            Err(source) => {
                let count = gather(&self.staging, pieces, &mut slices);
                let (bytes, packets) = intact(&slices[..count], written, framing);
                self.failed = true;
                Some(WriteErrorKind::Output {
                    source,
                    written: self.written.bytes + written,
                    intact: self.written.bytes + bytes,
                    packets: self.written.packets + packets,
                })
            }
        };
        pieces.count = 0;
        pieces.bytes = 0;
        self.calls += 1;
        self.staging.clear();
        self.written.bytes += written;
        let packets = std::mem::take(&mut self.pending);
        match error {
            None => {
                self.written.packets += packets;
                Ok(())
            }
            Some(kind) => Err(kind.into()),
        }
    }

    /// Writes all staged data, and flushes the output.
    pub(crate) fn flush(&mut self, framing: &impl Framing) -> Result<(), WriteError> {
        self.write_out(&mut Pieces::new(), framing)?;
        self.sink.flush().map_err(|source| {
            self.failed = true;
            WriteErrorKind::Output {
                source,
                written: self.written.bytes,
                intact: self.written.bytes,
                packets: self.written.packets,
            }
            .into()
        })
    }
}

/// Collects staged bytes and pieces in order; returns the number of slices.
fn gather<'s>(staging: &'s [u8], pieces: &Pieces<'s>, slices: &mut [IoSlice<'s>]) -> usize {
    let mut count = 0;
    let mut from = 0;
    let mut add = |bytes: &'s [u8]| {
        if let (false, Some(slot)) = (bytes.is_empty(), slices.get_mut(count)) {
            *slot = IoSlice::new(bytes);
            count += 1;
        }
    };
    let referred = pieces.places.iter().zip(&pieces.pieces).take(pieces.count);
    for (&place, &piece) in referred {
        add(&staging[from..place]);
        add(piece);
        from = place;
    }
    add(&staging[from..]);
    count
}

/// Writes all slices in as few calls as possible, and counts the bytes that the output took.
fn write_all(
    sink: &mut impl Write,
    mut slices: &mut [IoSlice<'_>],
    written: &mut u64,
) -> io::Result<()> {
    while !slices.is_empty() {
        match sink.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *written += count as u64;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the bytes and packets of the complete records at the start of `bytes`, which begin with
/// a record.
pub(crate) fn whole(bytes: &[u8], framing: &impl Framing) -> (u64, u64) {
    intact(&[IoSlice::new(bytes)], bytes.len() as u64, framing)
}

/// Returns the bytes and packets of the records that lie completely within the first `written`
/// bytes. The slices begin with a record, and the start of each record lies in one slice.
fn intact(slices: &[IoSlice<'_>], written: u64, framing: &impl Framing) -> (u64, u64) {
    let mut packets = 0;
    let mut end = 0;
    let mut slice_start = 0;
    for slice in slices {
        let slice_end = slice_start + slice.len() as u64;
        while end < slice_end {
            let Ok(at) = usize::try_from(end - slice_start) else {
                return (end, packets);
            };
            let Some((length, is_packet)) = framing.record(&slice[at..]) else {
                return (end, packets);
            };
            if end + length > written {
                return (end, packets);
            }
            end += length;
            packets += u64::from(is_packet);
        }
        slice_start = slice_end;
    }
    (end, packets)
}

//! Packets of a block into a file, or several where one ends within the block.

use ringtap_capture::{Block, Packet};
use ringtap_savefile::{Options, PacketRun, PcapBatch, PcapngBatch, WriteError};

use super::error::DumpError;
use super::file::{CaptureFile, State};
use super::select::{Selector, Verdict};
use super::writer::Target;

/// Is shown each packet that was taken.
pub(crate) type See<'s> = &'s mut dyn FnMut(&Packet<'_>) -> Result<(), DumpError>;

/// Where a batch has to end.
pub(super) struct Stops {
    /// A packet that begins here or behind is for the next file, in bytes of the file.
    pub(super) file: u64,
    /// The chunk is long enough, in bytes of the file.
    pub(super) chunk: u64,
    /// Bytes by which it may be longer.
    pub(super) slack: u64,
    /// A packet of this second or later is for the next file.
    pub(super) until: i64,
}

impl Stops {
    fn end(&self) -> u64 {
        self.file.min(self.chunk)
    }

    /// How much of a run of `len` bytes may be added; nothing where all of it may.
    fn room(&self, position: u64, len: u64) -> Option<u64> {
        let end = position.saturating_add(len);
        let in_file = (end > self.file).then(|| self.file - position);
        let most = self.chunk.saturating_add(self.slack);
        let in_chunk = (end > most).then(|| self.chunk - position);
        match (in_file, in_chunk) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// A file's format, as far as filling needs it.
pub(super) trait Form {
    type Batch<'w, 'd>: Batch<'d>;

    /// Begins a batch; nothing where no file of the format is being written.
    fn batch<'w, 'd>(state: &'w mut State) -> Option<Self::Batch<'w, 'd>>;

    /// The packets of a block, with what of their options the format can hold.
    fn packets<'d>(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)>;
}

/// What the batches of both formats have in common.
pub(super) trait Batch<'d> {
    fn position(&self) -> u64;
    fn push(&mut self, packet: &Packet<'d>, options: &Options<'d>) -> Result<(), WriteError>;
    fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError>;
    fn commit(self) -> Result<(), WriteError>;
}

pub(super) enum Pcap {}

pub(super) enum Pcapng {}

impl Form for Pcap {
    type Batch<'w, 'd> = PcapBatch<'w, 'd, Target>;

    fn batch<'w, 'd>(state: &'w mut State) -> Option<Self::Batch<'w, 'd>> {
        match state {
            State::Pcap(writer) => Some(writer.batch()),
            _ => None,
        }
    }

    #[inline]
    fn packets<'d>(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)> {
        block.packets().map(|packet| (packet, Options::none()))
    }
}

impl Form for Pcapng {
    type Batch<'w, 'd> = PcapngBatch<'w, 'd, Target>;

    fn batch<'w, 'd>(state: &'w mut State) -> Option<Self::Batch<'w, 'd>> {
        match state {
            State::Pcapng(writer) => Some(writer.batch()),
            _ => None,
        }
    }

    #[inline]
    fn packets<'d>(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)> {
        block.packets_with_options()
    }
}

impl<'d> Batch<'d> for PcapBatch<'_, 'd, Target> {
    #[inline]
    fn position(&self) -> u64 {
        Self::position(self)
    }

    #[inline]
    fn push(&mut self, packet: &Packet<'d>, _: &Options<'d>) -> Result<(), WriteError> {
        Self::push(self, packet)
    }

    fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError> {
        Self::push_run(self, run)
    }

    fn commit(self) -> Result<(), WriteError> {
        Self::commit(self)
    }
}

impl<'d> Batch<'d> for PcapngBatch<'_, 'd, Target> {
    #[inline]
    fn position(&self) -> u64 {
        Self::position(self)
    }

    #[inline]
    fn push(&mut self, packet: &Packet<'d>, options: &Options<'d>) -> Result<(), WriteError> {
        self.push_with_options(packet, options)
    }

    fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError> {
        Self::push_run(self, run)
    }

    fn commit(self) -> Result<(), WriteError> {
        Self::commit(self)
    }
}

/// Puts the packets of a block that `selector` takes into the file, and shows each to `see`.
pub(super) fn fill<F: Form>(
    file: &mut CaptureFile,
    block: &Block<'_>,
    selector: &mut Selector,
    see: Option<See<'_>>,
) -> Result<(), DumpError> {
    if see.is_none()
        && selector.takes_all()
        && file.passes_runs()
        && let Some(runs) = block.runs()
    {
        return runs_of::<F>(file, runs, selector);
    }
    packets_of::<F>(file, F::packets(block), selector, see)
}

/// Whole runs, as they lie in ring or file; where a file or a chunk ends within one, it is split.
fn runs_of<'d, F: Form>(
    file: &mut CaptureFile,
    mut runs: impl Iterator<Item = PacketRun<'d>>,
    selector: &mut Selector,
) -> Result<(), DumpError> {
    let mut next = runs.next();
    while let Some(first) = next.take() {
        file.begin_if_due(|| first.packets().next().map(|packet| packet.timestamp))?;
        file.announce(first.bytes().len());
        let stops = file.stops();
        let Some(mut batch) = F::batch(&mut file.state) else {
            return Ok(());
        };
        let mut result = Ok(());
        let mut current = Some(first);
        while let Some(run) = current {
            let position = batch.position();
            if position >= stops.end() {
                next = Some(run);
                break;
            }
            let (part, rest) = match stops.room(position, run.bytes().len() as u64) {
                None => (run, None),
                Some(room) => {
                    let (part, rest) = run.split(room);
                    (part, Some(rest).filter(|rest| !rest.is_empty()))
                }
            };
            result = batch.push_run(&part);
            if result.is_err() {
                break;
            }
            selector.passed(part.len() as u64, part.captured_bytes());
            current = rest.or_else(|| runs.next());
        }
        // After an error, what came before stays, unless the output is what failed.
        let committed = batch.commit();
        file.after_batch(result.and(committed))?;
        if next.is_some() && file.is_too_large() {
            let time = next.and_then(|run| run.packets().next());
            let time = time.map(|packet| packet.timestamp).unwrap_or_default();
            file.rotate(time, selector)?;
        }
    }
    Ok(())
}

/// Packet by packet.
fn packets_of<'d, F: Form>(
    file: &mut CaptureFile,
    mut packets: impl Iterator<Item = (Packet<'d>, Options<'d>)>,
    selector: &mut Selector,
    mut see: Option<See<'_>>,
) -> Result<(), DumpError> {
    let first_interface = file.first_interface();
    // The next packet that is taken, and shown.
    let mut take = |selector: &mut Selector| -> Result<_, DumpError> {
        for (mut packet, options) in packets.by_ref() {
            if selector.judge(&mut packet) == Verdict::Take {
                if let Some(see) = &mut see {
                    see(&packet)?;
                }
                packet.interface += first_interface;
                return Ok(Some((packet, options)));
            }
        }
        Ok(None)
    };
    let mut next = take(selector)?;
    while let Some((packet, _)) = &next {
        let time = packet.timestamp;
        if file.is_too_large() || file.is_over(time) {
            let bytes = packet.data.len() as u64;
            selector.take_back(1, bytes);
            file.rotate(time, selector)?;
            if file.has_ended() {
                return Ok(());
            }
            selector.passed(1, bytes);
        }
        file.begin_if_due(|| Some(time))?;
        let stops = file.stops();
        let (end, until) = (stops.end(), stops.until);
        let Some(mut batch) = F::batch(&mut file.state) else {
            return Ok(());
        };
        let mut result = Ok(());
        let mut shown = Ok(());
        while let Some((packet, options)) = next.take() {
            result = batch.push(&packet, &options);
            if result.is_err() {
                break;
            }
            match take(selector) {
                Ok(taken) => next = taken,
                Err(error) => shown = Err(error),
            }
            if let Some((packet, _)) = &next
                && (batch.position() >= end || packet.timestamp.secs() >= until)
            {
                break;
            }
        }
        // After an error, what came before stays, unless the output is what failed.
        let committed = batch.commit();
        file.after_batch(result.and(committed))?;
        shown?;
    }
    Ok(())
}

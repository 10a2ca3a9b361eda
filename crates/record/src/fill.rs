//! Puts packets into a file, or into several if a file ends among them.

use ringtap_savefile::{Options, Packet, PacketRun, PcapBatch, PcapngBatch, WriteError};

use crate::error::RecordError;
use crate::recording::{Recording, State};
use crate::writer::Target;

/// The conditions that end a batch.
pub(crate) struct Stops {
    /// The file offset, in bytes, at which packets begin to belong to the next file.
    pub(crate) file: u64,
    /// The file offset, in bytes, at which the chunk is long enough.
    pub(crate) chunk: u64,
    /// The number of bytes by which the chunk may be longer.
    pub(crate) slack: u64,
    /// The second at which packets begin to belong to the next file.
    pub(crate) until: i64,
}

impl Stops {
    fn end(&self) -> u64 {
        self.file.min(self.chunk)
    }

    /// Returns how much of a run of `len` bytes may be added. `None` if all of it may.
    fn room(&self, position: u64, len: u64) -> Option<u64> {
        let end = position.saturating_add(len);
        let in_file = (end > self.file).then(|| self.file - position);
        let most = self.chunk.saturating_add(self.slack);
        let in_chunk = (end > most).then(|| self.chunk - position);
        in_file.into_iter().chain(in_chunk).min()
    }
}

/// The part of a file's format that filling needs.
pub(crate) trait Form {
    type Batch<'w, 'd>: Batch<'d>;

    /// Starts a batch. `None` if no file of the format is being written.
    fn batch<'w, 'd>(state: &'w mut State) -> Option<Self::Batch<'w, 'd>>;
}

/// The common part of both formats' batches.
pub(crate) trait Batch<'d> {
    fn position(&self) -> u64;
    fn push(&mut self, packet: &Packet<'d>, options: &Options<'d>) -> Result<(), WriteError>;
    fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError>;
    fn commit(self) -> Result<(), WriteError>;
}

pub(crate) enum Pcap {}

pub(crate) enum Pcapng {}

/// Connects a format with its batch, and says how the batch takes a packet with its options.
macro_rules! form {
    ($form:ident, $batch:ident, |$self:ident, $packet:ident, $options:ident| $push:expr) => {
        impl Form for $form {
            type Batch<'w, 'd> = $batch<'w, 'd, Target>;

            fn batch<'w, 'd>(state: &'w mut State) -> Option<Self::Batch<'w, 'd>> {
                match state {
                    State::$form(writer) => Some(writer.batch()),
                    _ => None,
                }
            }
        }

        impl<'d> Batch<'d> for $batch<'_, 'd, Target> {
            #[inline]
            fn position(&self) -> u64 {
                Self::position(self)
            }

            #[inline]
            fn push(
                &mut self,
                $packet: &Packet<'d>,
                $options: &Options<'d>,
            ) -> Result<(), WriteError> {
                let $self = self;
                $push
            }

            fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError> {
                Self::push_run(self, run)
            }

            fn commit(self) -> Result<(), WriteError> {
                Self::commit(self)
            }
        }
    };
}

form!(Pcap, PcapBatch, |batch, packet, _options| batch
    .push(packet));
form!(Pcapng, PcapngBatch, |batch, packet, options| {
    batch.push_with_options(packet, options)
});

/// Adds whole runs. If a file or a chunk ends within a run, the run is split.
pub(crate) fn runs<'d, F: Form>(
    file: &mut Recording,
    mut runs: impl Iterator<Item = PacketRun<'d>>,
    mut written: impl FnMut(&PacketRun<'d>),
) -> Result<(), RecordError> {
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
            written(&part);
            current = rest.or_else(|| runs.next());
        }
        // After an error, the packets before it stay, unless the output failed.
        let committed = batch.commit();
        file.after_batch(result.and(committed))?;
        if next.is_some() && file.is_too_large() {
            let time = next.and_then(|run| run.packets().next());
            let time = time.map(|packet| packet.timestamp).unwrap_or_default();
            file.rotate(time)?;
        }
    }
    Ok(())
}

/// Adds packets one by one. Returns the first packet for which there is no more file.
pub(crate) fn packets<'d, F: Form, E: From<RecordError>>(
    file: &mut Recording,
    mut packets: impl Iterator<Item = Result<(Packet<'d>, Options<'d>), E>>,
) -> Result<Option<Packet<'d>>, E> {
    let mut next = packets.next().transpose()?;
    while let Some((packet, _)) = &next {
        let time = packet.timestamp;
        if file.is_too_large() || file.is_over(time) {
            file.rotate(time)?;
            if file.has_ended() {
                return Ok(Some(*packet));
            }
        }
        file.begin_if_due(|| Some(time))?;
        let first_interface = file.first_interface;
        let stops = file.stops();
        let (end, until) = (stops.end(), stops.until);
        let Some(mut batch) = F::batch(&mut file.state) else {
            return Ok(None);
        };
        let mut result = Ok(());
        let mut ended = Ok(());
        while let Some((mut packet, options)) = next.take() {
            packet.interface += first_interface;
            result = batch.push(&packet, &options);
            if result.is_err() {
                break;
            }
            match packets.next().transpose() {
                Ok(packet) => next = packet,
                Err(error) => ended = Err(error),
            }
            if let Some((packet, _)) = &next
                && (batch.position() >= end || packet.timestamp.secs() >= until)
            {
                break;
            }
        }
        // After an error, the packets before it stay, unless the output failed.
        let committed = batch.commit();
        file.after_batch(result.and(committed))?;
        ended?;
    }
    Ok(None)
}

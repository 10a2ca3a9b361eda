//! The destination of a run's packets: selection, then the file, then the printed lines.

use ringtap_capture::{Block, Interface, Item, Packet, Stats};
use ringtap_record::{Counters, Recording};
use ringtap_savefile::{ByteOrder, Format, Options, PacketRun, ProcessBlock, Totals};

use super::error::DumpError;
use super::printed::Printed;
use super::processes::Waiting;
use super::select::{Selector, Verdict};

/// The outputs of a run, shared by its sources.
pub(crate) struct Sink {
    pub(crate) selector: Selector,
    pub(crate) file: Option<Recording>,
    pub(crate) printed: Option<Printed>,
    /// The interfaces of the current source.
    interfaces: Vec<Interface>,
    /// The processes that are not described in the file yet.
    processes: Waiting,
}

impl Sink {
    pub(crate) fn new(
        selector: Selector,
        file: Option<Recording>,
        printed: Option<Printed>,
    ) -> Self {
        Self {
            selector,
            file,
            printed,
            interfaces: Vec::new(),
            processes: Waiting::default(),
        }
    }

    /// Starts a source. `complete` means that no filter drops any of its packets.
    pub(crate) fn begin_source(&mut self, complete: bool) {
        self.interfaces.clear();
        let complete = complete && self.selector.takes_all();
        if let Some(file) = &mut self.file {
            file.next_source(complete);
        }
    }

    /// Registers the source's interfaces as known now.
    pub(crate) fn interfaces(&mut self, known: &[Interface]) -> Result<(), DumpError> {
        if let Some(new) = known.get(self.interfaces.len()..) {
            self.interfaces.extend_from_slice(new);
        }
        let file = self.file.as_mut();
        Ok(file.map_or(Ok(()), |file| file.describe(known))?)
    }

    /// Passes a block that is not a packet or interface.
    pub(crate) fn meta(&mut self, item: &Item<'_>) -> Result<(), DumpError> {
        if let Item::Other(block) = item
            && let Some(process) = ProcessBlock::parse(block)
        {
            // Blocks in the other byte order belong to their section of a file, and stay where they are.
            let waits = block.byte_order() == ByteOrder::NATIVE;
            if waits && self.file.is_some() {
                self.processes.add(&process.tag, block.bytes());
            }
            if let Some(printed) = &mut self.printed {
                printed.process(process);
            }
            if waits {
                return Ok(());
            }
        }
        if let Item::Section(_) = item {
            self.processes = Waiting::default();
        }
        let file = self.file.as_mut();
        Ok(file.map_or(Ok(()), |file| file.meta(item))?)
    }

    /// Writes and prints the packets of a block that are selected.
    pub(crate) fn block(&mut self, block: &Block<'_>) -> Result<(), DumpError> {
        if let Some(file) = &mut self.file {
            self.processes.write(block, file)?;
        }
        let (selector, interfaces) = (&mut self.selector, &self.interfaces);
        match (&mut self.file, &mut self.printed) {
            (Some(file), None) => write(file, block, selector, None),
            (Some(file), Some(printed)) => {
                let mut see = |packet: &Packet<'_>, options: &Options<'_>| {
                    printed.packet(packet, options, interfaces)
                };
                write(file, block, selector, Some(&mut see))?;
                printed.flush()
            }
            (None, Some(printed)) => {
                for (mut packet, options) in block.packets_with_options() {
                    if selector.judge(&mut packet) == Verdict::Take {
                        printed.packet(&packet, &options, interfaces)?;
                    }
                }
                printed.flush()
            }
            // They are counted.
            (None, None) => {
                for mut packet in block.packets() {
                    selector.judge(&mut packet);
                }
                Ok(())
            }
        }
    }

    /// Checks whether the file has failed since the last write. A failure is returned once.
    pub(crate) fn check(&self) -> Result<(), DumpError> {
        Ok(self.file.as_ref().map_or(Ok(()), Recording::check)?)
    }

    /// Returns whether anything was taken, or the file was begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.selector.taken() > 0 || self.file.as_ref().is_some_and(Recording::has_begun)
    }

    /// Returns whether nothing that may follow would be taken: the count is reached, or the end of a live
    /// capture has passed, or all files are written.
    pub(crate) fn is_done(&self) -> bool {
        self.selector.is_done() || self.file.as_ref().is_some_and(Recording::has_ended)
    }

    /// Does the regular work that is also due when no packet comes.
    pub(crate) fn tick(&mut self, now: i64) -> Result<(), DumpError> {
        let file = self.file.as_mut();
        Ok(file.map_or(Ok(()), |file| file.end_of_window(now))?)
    }

    /// Passes the current counters of a live capture to the file.
    pub(crate) fn count(&mut self, stats: &Stats) {
        let Some(file) = &mut self.file else { return };
        file.count(Counters {
            received: stats.received,
            hook: stats.dropped.hook,
            sampling: stats.dropped.sampling,
            ring: stats.dropped.ring,
            interface: stats.dropped.interface,
            ..Counters::default()
        });
    }

    /// Completes the file, and returns its counters. `None` if there is no file.
    pub(crate) fn finish(&mut self) -> Result<Option<Totals>, DumpError> {
        let finished = self.file.take().map(Recording::finish);
        Ok(finished.transpose()?)
    }
}

/// Gets each packet that was taken.
type See<'s> = &'s mut dyn FnMut(&Packet<'_>, &Options<'_>) -> Result<(), DumpError>;

/// Writes the packets of a block that `selector` takes, and passes each to `see`.
fn write(
    file: &mut Recording,
    block: &Block<'_>,
    selector: &mut Selector,
    see: Option<See<'_>>,
) -> Result<(), DumpError> {
    if see.is_none()
        && selector.takes_all()
        && file.takes_runs()
        && let Some(runs) = block.runs()
    {
        let passed = |run: &PacketRun<'_>| selector.passed(run.len() as u64, run.captured_bytes());
        return Ok(file.write_runs(runs, passed)?);
    }
    // The writer of pcap ignores options, which are only read if packets are printed.
    if file.format() == Format::Pcap && see.is_none() {
        let packets = block.packets().map(|packet| (packet, Options::none()));
        return write_packets(file, packets, selector, see);
    }
    write_packets(file, block.packets_with_options(), selector, see)
}

/// Writes packet by packet.
fn write_packets<'d>(
    file: &mut Recording,
    mut packets: impl Iterator<Item = (Packet<'d>, Options<'d>)>,
    selector: &mut Selector,
    mut see: Option<See<'_>>,
) -> Result<(), DumpError> {
    let taken = std::iter::from_fn(|| {
        let (packet, options) = packets.by_ref().find_map(|(mut packet, options)| {
            let verdict = selector.judge(&mut packet);
            (verdict == Verdict::Take).then_some((packet, options))
        })?;
        let seen = see.as_mut().map_or(Ok(()), |see| see(&packet, &options));
        Some(seen.map(|()| (packet, options)))
    });
    if let Some(left) = file.write_packets(taken)? {
        selector.take_back(1, left.data.len() as u64);
    }
    Ok(())
}

//! The capture file that is written: begun when the first interface is known, block by block.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ringtap_capture::{Block, Interface, Packet, Stats, Timestamp};
use ringtap_savefile::{
    ByteOrder, InterfaceStatistics, Item, Options, PcapBatch, PcapOptions, PcapWriter, PcapngBatch,
    PcapngWriter, Run, Section, Totals, WriteError,
};

use super::error::DumpError;
use super::select::{Selector, Verdict};
use crate::cli::FileFormat;

/// A capture file that grows.
pub(crate) struct CaptureFile {
    path: PathBuf,
    state: State,
    settings: Settings,
    /// What the indices of the present source's interfaces begin at.
    first_interface: u32,
    /// Interfaces of the present source that were described in the file.
    described: u32,
    /// Whether every packet and block of the source goes into the file.
    pub(crate) complete: bool,
}

/// What the options say of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) format: FileFormat,
    /// Nanoseconds in a pcap file; without, a file of a finer resolution than microseconds has
    /// them too.
    pub(crate) nano: bool,
    /// Whether the source is a live capture, whose pcap files have microseconds.
    pub(crate) live: bool,
    /// Cut packets to this many bytes, as the header states.
    pub(crate) snaplen: Option<u32>,
}

enum State {
    /// The file is open, its header not written.
    Waiting(Opened),
    Pcap(PcapWriter<File>),
    Pcapng(PcapngWriter<File>),
    /// The header could not be written.
    Failed,
}

impl CaptureFile {
    /// Creates the file, or takes standard output for `-`.
    pub(crate) fn create(path: &Path, settings: Settings) -> Result<Self, DumpError> {
        let opened = Opened::at(path).map_err(|source| DumpError::Create {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            state: State::Waiting(opened),
            settings,
            first_interface: 0,
            described: 0,
            complete: false,
        })
    }

    /// Another source begins: its interfaces are numbered after all that were.
    pub(crate) fn next_source(&mut self) {
        self.first_interface += self.described;
        self.described = 0;
    }

    /// A section of a pcapng file begins.
    pub(crate) fn section(&mut self, section: &Section) -> Result<(), DumpError> {
        if self.settings.format == FileFormat::Pcap {
            return Ok(());
        }
        match &mut self.state {
            State::Pcapng(writer) => {
                let result = writer.start_section(section);
                result.map_err(|source| self.failed(source))
            }
            _ => self.begin_pcapng(section),
        }
    }

    /// Describes those of the source's interfaces that are new.
    pub(crate) fn describe(&mut self, interfaces: &[Interface]) -> Result<(), DumpError> {
        while let Some(interface) = interfaces.get(self.described as usize) {
            self.add(interface)?;
            self.described += 1;
        }
        Ok(())
    }

    fn add(&mut self, interface: &Interface) -> Result<(), DumpError> {
        if matches!(self.state, State::Waiting(_)) {
            match self.settings.format {
                FileFormat::Pcap => self.begin_pcap(interface)?,
                FileFormat::Pcapng => self.begin_pcapng(&own_section())?,
            }
        }
        match &mut self.state {
            State::Pcap(writer) => writer.add_interface(interface),
            State::Pcapng(writer) => {
                let mut interface = interface.clone();
                if let Some(snaplen) = self.settings.snaplen {
                    interface.snaplen = match interface.snaplen {
                        0 => snaplen,
                        stated => stated.min(snaplen),
                    };
                }
                let result = writer.add_interface(&interface);
                result.map_err(|source| self.failed(source))?;
            }
            State::Waiting(_) | State::Failed => {}
        }
        Ok(())
    }

    fn begin_pcap(&mut self, interface: &Interface) -> Result<(), DumpError> {
        let mut options = PcapOptions::for_interface(interface);
        options.nanos = self.settings.nano || (options.nanos && !self.settings.live);
        options.snaplen = self.settings.snaplen.unwrap_or(interface.snaplen);
        self.begin(|file| PcapWriter::new(file, &options).map(State::Pcap))
    }

    fn begin_pcapng(&mut self, section: &Section) -> Result<(), DumpError> {
        self.begin(|file| PcapngWriter::new(file, section).map(State::Pcapng))
    }

    /// Empties the file that waits, and has its header written.
    fn begin(
        &mut self,
        header: impl FnOnce(File) -> Result<State, WriteError>,
    ) -> Result<(), DumpError> {
        if let State::Waiting(opened) = std::mem::replace(&mut self.state, State::Failed) {
            let file = opened.emptied().map_err(|source| DumpError::Create {
                path: self.path.clone(),
                source,
            })?;
            self.state = header(file).map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    /// Passes on what a file holds beside packets, as far as the format can hold it.
    pub(crate) fn meta(&mut self, item: &Item<'_>) -> Result<(), DumpError> {
        let (first, complete) = (self.first_interface, self.complete);
        let State::Pcapng(writer) = &mut self.state else {
            return Ok(());
        };
        let result = match item {
            Item::Names(names) => writer.write_names(names),
            Item::Statistics(statistics) => {
                let mut counters = statistics.counters();
                counters.interface += first;
                writer.write_statistics(&counters)
            }
            // A block that its maker does not want in a changed file stays out of one.
            Item::Other(block) if complete || !block.is_not_to_be_copied() => {
                writer.write_block(block)
            }
            _ => Ok(()),
        };
        result.map_err(|source| self.failed(source))
    }

    /// Writes the packets of a block that `selector` takes, and shows each to `see`.
    pub(crate) fn block(
        &mut self,
        block: &Block<'_>,
        selector: &mut Selector,
        see: Option<See<'_>>,
    ) -> Result<(), DumpError> {
        let (first, path) = (self.first_interface, &self.path);
        match &mut self.state {
            State::Pcap(writer) => fill(writer.batch(), block, selector, see, first, path),
            State::Pcapng(writer) => fill(writer.batch(), block, selector, see, first, path),
            State::Waiting(_) | State::Failed => Ok(()),
        }
    }

    /// Appends the counters of a live capture, where the format can hold them: those of several
    /// interfaces together have no place in it.
    pub(crate) fn statistics(
        &mut self,
        stats: &Stats,
        span: (Timestamp, Timestamp),
        captured: u64,
    ) -> Result<(), DumpError> {
        let State::Pcapng(writer) = &mut self.state else {
            return Ok(());
        };
        if self.described != 1 {
            return Ok(());
        }
        let mut counters = InterfaceStatistics::new(0, span.1);
        counters.start = Some(span.0);
        counters.end = Some(span.1);
        counters.accepted_by_filter = stats.received;
        counters.dropped_by_os = stats.dropped.ring;
        counters.dropped_by_interface = stats.dropped.interface;
        counters.delivered = Some(captured);
        writer
            .write_statistics(&counters)
            .map_err(|source| self.failed(source))
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<Totals, DumpError> {
        let path = self.path;
        let result = match self.state {
            State::Pcap(writer) => writer.finish().map(|(_, totals)| totals),
            State::Pcapng(writer) => writer.finish().map(|(_, totals)| totals),
            State::Waiting(opened) => return empty(opened, &path, self.settings.format),
            State::Failed => Ok(Totals::default()),
        };
        result.map_err(|source| DumpError::Write { path, source })
    }

    fn failed(&self, source: WriteError) -> DumpError {
        DumpError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// The output before anything is written: a file that was there is as it was.
struct Opened {
    file: File,
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// There was no such file before.
    Made,
    /// There was: an older capture, a pipe, a device.
    Found,
    /// It is standard output.
    Given,
}

impl Opened {
    fn at(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = io::stdout().as_fd().try_clone_to_owned()?.into();
            let origin = Origin::Given;
            return Ok(Self { file, origin });
        }
        let mut options = OpenOptions::new();
        options.write(true);
        match options.clone().create_new(true).open(path) {
            Ok(file) => Ok(Self {
                file,
                origin: Origin::Made,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = options.create(true).truncate(false).open(path)?;
                let origin = Origin::Found;
                Ok(Self { file, origin })
            }
            Err(error) => Err(error),
        }
    }

    /// The file, without what it held.
    fn emptied(self) -> io::Result<File> {
        if self.origin == Origin::Found && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        Ok(self.file)
    }

    /// Takes back that the file was made.
    fn withdraw(self, path: &Path) {
        if self.origin == Origin::Made {
            // It may be that the folder can't be written to any more; then the file stays, empty.
            let _ = fs::remove_file(path);
        }
    }
}

/// A source that told of no interface makes a pcapng file without any; pcap has no such form.
fn empty(opened: Opened, path: &Path, format: FileFormat) -> Result<Totals, DumpError> {
    let owned = || path.to_owned();
    if format == FileFormat::Pcap {
        opened.withdraw(path);
        return Err(DumpError::NoLinkType { path: owned() });
    }
    let file = opened.emptied().map_err(|source| DumpError::Create {
        path: owned(),
        source,
    })?;
    let written = PcapngWriter::new(file, &own_section()).and_then(PcapngWriter::finish);
    let totals = written.map(|(_, totals)| totals);
    totals.map_err(|source| DumpError::Write {
        path: owned(),
        source,
    })
}

fn own_section() -> Section {
    let mut section = Section::new(ByteOrder::NATIVE);
    section.os = Some(std::env::consts::OS.to_owned());
    section.hardware = Some(std::env::consts::ARCH.to_owned());
    section.application = Some(concat!("ringtap ", env!("CARGO_PKG_VERSION")).to_owned());
    section
}

/// What the batches of both formats have in common.
trait Batch<'d> {
    /// The packets of a block, with what of their options the format can hold.
    fn packets(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)>;
    fn push(&mut self, packet: &Packet<'d>, options: &Options<'d>) -> Result<(), WriteError>;
    fn push_run(&mut self, run: &Run<'d>) -> Result<(), WriteError>;
    fn commit(self) -> Result<(), WriteError>;
}

impl<'d> Batch<'d> for PcapBatch<'_, 'd, File> {
    #[inline]
    fn packets(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)> {
        block.packets().map(|packet| (packet, Options::none()))
    }

    #[inline]
    fn push(&mut self, packet: &Packet<'d>, _: &Options<'d>) -> Result<(), WriteError> {
        PcapBatch::push(self, packet)
    }

    fn push_run(&mut self, run: &Run<'d>) -> Result<(), WriteError> {
        Self::push_run(self, run)
    }

    fn commit(self) -> Result<(), WriteError> {
        PcapBatch::commit(self)
    }
}

impl<'d> Batch<'d> for PcapngBatch<'_, 'd, File> {
    #[inline]
    fn packets(block: &'d Block<'_>) -> impl Iterator<Item = (Packet<'d>, Options<'d>)> {
        block.packets_with_options()
    }

    #[inline]
    fn push(&mut self, packet: &Packet<'d>, options: &Options<'d>) -> Result<(), WriteError> {
        self.push_with_options(packet, options)
    }

    fn push_run(&mut self, run: &Run<'d>) -> Result<(), WriteError> {
        Self::push_run(self, run)
    }

    fn commit(self) -> Result<(), WriteError> {
        PcapngBatch::commit(self)
    }
}

/// Is shown each packet that was taken.
pub(crate) type See<'s> = &'s mut dyn FnMut(&Packet<'_>) -> Result<(), DumpError>;

fn fill<'d, B: Batch<'d>>(
    mut batch: B,
    block: &'d Block<'_>,
    selector: &mut Selector,
    mut see: Option<See<'_>>,
    first_interface: u32,
    path: &Path,
) -> Result<(), DumpError> {
    let failed = |source| DumpError::Write {
        path: path.to_owned(),
        source,
    };
    let whole = see.is_none() && first_interface == 0 && selector.takes_all();
    if whole && let Some(runs) = block.runs() {
        for run in runs {
            if let Err(error) = batch.push_run(&run) {
                // What came before stays, unless the output is what failed.
                let _ = batch.commit();
                return Err(failed(error));
            }
            selector.passed(run.len() as u64, run.captured_bytes());
        }
        return batch.commit().map_err(failed);
    }
    for (mut packet, options) in B::packets(block) {
        if selector.judge(&mut packet) == Verdict::Take {
            if let Some(see) = &mut see {
                see(&packet)?;
            }
            packet.interface += first_interface;
            if let Err(error) = batch.push(&packet, &options) {
                // What came before this packet stays, unless the output is what failed.
                let _ = batch.commit();
                return Err(failed(error));
            }
        }
    }
    batch.commit().map_err(failed)
}

//! The capture file that is written: begun when the first interface is known, block by block, and
//! followed by others where the capture is spread over several.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_capture::{Block, Interface, Stats, Timestamp};
use ringtap_savefile::{
    ByteOrder, InterfaceStatistics, Item, PcapOptions, PcapWriter, PcapngWriter, Section, Totals,
    WriteError, WriteErrorKind, whole_blocks, whole_records,
};

use super::after::After;
use super::error::DumpError;
use super::fill::{self, See, Stops};
use super::rotate::{Following, Rotation, RotationPlan};
use super::select::Selector;
use super::writer::{Alarm, Failure, Gauge, Queue, QueueSettings, Target, Whole};
use crate::cli::FileFormat;
use crate::notice::{counted, notice};
use crate::output::{self, Access, Output};
use crate::setup::setup;

/// A capture file that grows.
pub(crate) struct CaptureFile {
    path: PathBuf,
    pub(super) state: State,
    settings: Settings,
    rotation: Option<Rotation>,
    after: After,
    /// The way to the files, where it is not a direct one.
    queue: Option<Arc<Queue>>,
    /// What the files before have taken.
    earlier: Totals,
    /// What the files' interfaces are, over all sources; and how the last section began.
    known: Vec<Interface>,
    section: Section,
    /// A section came, which the file that waits will begin with.
    has_section: bool,
    /// What the indices of the present source's interfaces begin at.
    first_interface: u32,
    /// Interfaces of the present source that were described in the file.
    described: u32,
    /// Whether every packet and block of the source goes into the file.
    pub(crate) complete: bool,
    /// The counters of a live capture, as last told.
    counted: Stats,
    /// What of them the files before have, and when the present one began.
    told: Told,
    /// There are as many files as were asked for.
    ended: bool,
}

/// What the options say of the file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) format: FileFormat,
    /// Nanoseconds in a pcap file; without, a file of a finer resolution than microseconds has
    /// them too.
    pub(crate) nano: Option<bool>,
    /// Whether the source is a live capture, whose pcap files have microseconds.
    pub(crate) live: bool,
    /// Cut packets to this many bytes, as the header states.
    pub(crate) snaplen: Option<u32>,
    /// The files that are read, none of which may be written.
    pub(crate) inputs: Vec<PathBuf>,
    /// How records get to the file.
    pub(crate) writing: Writing,
}

/// How records get to the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writing {
    pub(crate) codec: Option<ringtap_savefile::Codec>,
    /// Threads that compress.
    pub(crate) workers: usize,
    /// Memory for what waits, in bytes.
    pub(crate) memory: u64,
    /// Processors of the threads that compress and write.
    pub(crate) cpus: Vec<usize>,
    /// Records go to the file at once.
    pub(crate) immediate: bool,
    /// Who may read files that are made.
    pub(crate) access: Access,
    pub(crate) rotation: Option<RotationPlan>,
}

pub(super) enum State {
    /// The file is open, its header not written.
    Waiting(Output),
    Pcap(PcapWriter<Target>),
    Pcapng(PcapngWriter<Target>),
    /// A file is complete, and the next has not begun.
    Between,
    /// The header could not be written.
    Failed,
}

#[derive(Clone, Copy, Default)]
struct Told {
    stats: Stats,
    captured: u64,
    began: Timestamp,
}

impl CaptureFile {
    /// Creates the file, or takes standard output for `-`.
    pub(crate) fn create(path: &Path, settings: Settings, after: After) -> Result<Self, DumpError> {
        let mut rotation = settings.writing.rotation.clone().map(Rotation::new);
        let began = now();
        let mut path = path.to_owned();
        let access = settings.writing.access;
        let state = match &mut rotation {
            // The time of the first packet is the first file's.
            Some(rotation) if rotation.by_time() && !settings.live => State::Between,
            Some(rotation) => {
                path = rotation.first(began);
                refuse_inputs(&path, &settings.inputs)?;
                State::Waiting(open(&path, access, true)?)
            }
            None => State::Waiting(open(&path, access, false)?),
        };
        Ok(Self {
            path,
            state,
            settings,
            rotation,
            after,
            queue: None,
            earlier: Totals::default(),
            known: Vec::new(),
            section: own_section(),
            has_section: false,
            first_interface: 0,
            described: 0,
            complete: false,
            counted: Stats::default(),
            told: Told {
                began,
                ..Told::default()
            },
            ended: false,
        })
    }

    /// What the queue does, where there is one.
    pub(crate) fn gauge(&self) -> Option<Arc<Gauge>> {
        self.queue.as_ref().map(|queue| queue.gauge())
    }

    /// Has `alarm` called when the output fails while nobody writes to it.
    pub(crate) fn on_failure(&self, alarm: Alarm) {
        if let Some(queue) = &self.queue {
            queue.on_failure(alarm);
        }
    }

    /// How the output has failed since something was written to it; told once.
    pub(crate) fn check(&self) -> Result<(), DumpError> {
        let failure = self.queue.as_ref().and_then(|queue| queue.take_failure());
        failure.map_or(Ok(()), |failure| Err(told(failure)))
    }

    /// Whether it is standard output by another name, a regular file.
    pub(crate) fn is_standard_output(&self) -> bool {
        match &self.state {
            State::Waiting(output) => output.is_standard_output(),
            _ => false,
        }
    }

    /// Another source begins: its interfaces are numbered after all that were.
    pub(crate) fn next_source(&mut self) {
        self.first_interface += self.described;
        self.described = 0;
    }

    pub(super) fn first_interface(&self) -> u32 {
        self.first_interface
    }

    /// A section of a pcapng file begins.
    pub(crate) fn section(&mut self, section: &Section) -> Result<(), DumpError> {
        if self.settings.format == FileFormat::Pcap {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.section, section.clone());
        if matches!(self.state, State::Waiting(_)) {
            // Not before there is an interface, for which there may be no filter.
            if !std::mem::replace(&mut self.has_section, true) {
                return Ok(());
            }
            self.begin_pcapng(&before)?;
        }
        if let State::Pcapng(writer) = &mut self.state {
            let result = writer.start_section(section);
            return self.checked(result);
        }
        Ok(())
    }

    /// Whether the file was touched.
    pub(crate) fn has_begun(&self) -> bool {
        let untouched = matches!(self.state, State::Waiting(_) | State::Between);
        !untouched || self.earlier.bytes > 0
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
                FileFormat::Pcapng => self.begin_pcapng(&self.section.clone())?,
            }
        }
        let mut interface = interface.clone();
        if let (Some(snaplen), FileFormat::Pcapng) = (self.settings.snaplen, self.settings.format) {
            interface.snaplen = match interface.snaplen {
                0 => snaplen,
                stated => stated.min(snaplen),
            };
        }
        let result = match &mut self.state {
            State::Pcap(writer) => {
                writer.add_interface(&interface);
                Ok(())
            }
            State::Pcapng(writer) => writer.add_interface(&interface).map(drop),
            State::Waiting(_) | State::Between | State::Failed => Ok(()),
        };
        self.known.push(interface);
        self.checked(result)
    }

    fn begin_pcap(&mut self, interface: &Interface) -> Result<(), DumpError> {
        let options = self.pcap_options(interface);
        self.begin(|target| PcapWriter::new(target, &options).map(State::Pcap))
    }

    fn pcap_options(&self, interface: &Interface) -> PcapOptions {
        let mut options = PcapOptions::for_interface(interface);
        let of_input = options.nanos && !self.settings.live;
        options.nanos = self.settings.nano.unwrap_or(of_input);
        options.snaplen = self.settings.snaplen.unwrap_or(interface.snaplen);
        options
    }

    fn begin_pcapng(&mut self, section: &Section) -> Result<(), DumpError> {
        self.begin(|target| PcapngWriter::new(target, section).map(State::Pcapng))
    }

    /// Empties the file that waits, and has its header written.
    fn begin(
        &mut self,
        header: impl FnOnce(Target) -> Result<State, WriteError>,
    ) -> Result<(), DumpError> {
        if let State::Waiting(opened) = std::mem::replace(&mut self.state, State::Failed) {
            let regular = opened.is_file();
            let file = opened
                .emptied()
                .map_err(|source| self.not_created(source))?;
            let target = self.target(file, regular)?;
            let begun = header(target);
            self.state = begun.map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    /// The way to the file: compression needs a queue, and a live capture has one so that no disk
    /// makes it wait; what is to be seen at once goes straight to the file.
    fn target(&mut self, file: std::fs::File, regular: bool) -> Result<Target, DumpError> {
        let (settings, writing) = (&self.settings, &self.settings.writing);
        let waits = settings.live && regular && !writing.immediate;
        if writing.codec.is_none() && !waits {
            return Ok(Target::Direct(file));
        }
        let (whole, header): (Whole, _) = match settings.format {
            FileFormat::Pcap => (|bytes| whole_records(bytes, ByteOrder::NATIVE), 24),
            FileFormat::Pcapng => (|bytes| whole_blocks(bytes, ByteOrder::NATIVE), 0),
        };
        let queue = QueueSettings {
            codec: writing.codec,
            workers: writing.workers,
            memory: writing.memory,
            cpus: writing.cpus.clone(),
            access: writing.access,
            whole,
            size: self.rotation.as_ref().map_or(u64::MAX, Rotation::size),
            header,
        };
        let first = (self.path.clone(), file, regular);
        let started = Queue::start(queue, first, self.after.clone());
        let queue = started.map_err(|source| setup("start the writer", source))?;
        let queue = Arc::new(queue);
        self.queue = Some(Arc::clone(&queue));
        Ok(Target::Queued(queue))
    }

    /// Passes on what a file holds beside packets, as far as the format can hold it.
    pub(crate) fn meta(&mut self, item: &Item<'_>) -> Result<(), DumpError> {
        if matches!(self.state, State::Waiting(_)) && self.settings.format == FileFormat::Pcapng {
            self.begin_pcapng(&self.section.clone())?;
        }
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
        self.checked(result)
    }

    /// Writes the packets of a block that `selector` takes, and shows each to `see`.
    pub(crate) fn block(
        &mut self,
        block: &Block<'_>,
        selector: &mut Selector,
        see: Option<See<'_>>,
    ) -> Result<(), DumpError> {
        match self.settings.format {
            FileFormat::Pcap => fill::fill::<fill::Pcap>(self, block, selector, see),
            FileFormat::Pcapng => fill::fill::<fill::Pcapng>(self, block, selector, see),
        }
    }

    /// Whether runs of packets may be written without a look at each of them: what is captured live
    /// was captured before now.
    pub(super) fn passes_runs(&self) -> bool {
        let timed = self.rotation.as_ref().filter(|rotation| rotation.by_time());
        let early = |rotation: &Rotation| {
            let end = rotation.window_end();
            self.settings.live && end.is_some_and(|end| now().secs() < end)
        };
        self.first_interface == 0 && timed.is_none_or(early)
    }

    /// Where a batch has to end.
    pub(super) fn stops(&self) -> Stops {
        let rotation = self.rotation.as_ref();
        let queue = self.queue.as_ref();
        Stops {
            file: rotation.map_or(u64::MAX, |r| r.size().saturating_add(1)),
            chunk: queue.map_or(u64::MAX, |queue| queue.chunk_end()),
            slack: queue.map_or(0, |queue| queue.slack()),
            until: rotation.and_then(Rotation::window_end).unwrap_or(i64::MAX),
        }
    }

    /// So many bytes of packets lie in one piece, and are to be written next.
    pub(super) fn announce(&self, bytes: usize) {
        if let Some(queue) = &self.queue {
            queue.announce(bytes);
        }
    }

    /// A batch was committed, or it failed.
    pub(super) fn after_batch(&mut self, result: Result<(), WriteError>) -> Result<(), DumpError> {
        let packets = self.totals().packets;
        if let (Ok(()), Some(queue)) = (&result, &self.queue) {
            queue.commit(packets);
        }
        self.checked(result)
    }

    /// What the present file has taken.
    fn totals(&self) -> Totals {
        match &self.state {
            State::Pcap(writer) => writer.totals(),
            State::Pcapng(writer) => writer.totals(),
            State::Waiting(_) | State::Between | State::Failed => Totals::default(),
        }
    }

    /// Whether the file is larger than a file shall be when a packet is added.
    pub(super) fn is_too_large(&self) -> bool {
        let rotation = self.rotation.as_ref();
        rotation.is_some_and(|rotation| self.totals().bytes > rotation.size())
    }

    /// Whether a packet of that time is for another file.
    pub(super) fn is_over(&self, time: Timestamp) -> bool {
        let end = self.rotation.as_ref().and_then(Rotation::window_end);
        end.is_some_and(|end| time.secs() >= end) && !matches!(self.state, State::Between)
    }

    /// Whether there are as many files as were asked for.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Completes the file, and begins the next for a packet of that time.
    pub(super) fn rotate(&mut self, time: Timestamp, selector: &Selector) -> Result<(), DumpError> {
        self.complete_file(selector.taken())?;
        self.begin_next(time)
    }

    /// Completes a file whose time is over, though no packet has come since.
    pub(crate) fn end_of_window(&mut self, now: i64, captured: u64) -> Result<(), DumpError> {
        let Some(rotation) = &self.rotation else {
            return Ok(());
        };
        let over = rotation.window_end().is_some_and(|end| now >= end);
        if over && matches!(self.state, State::Pcap(_) | State::Pcapng(_)) {
            let is_last = rotation.is_last_window();
            self.complete_file(captured)?;
            if let Some(rotation) = &mut self.rotation {
                rotation.expire();
            }
            if is_last {
                self.end();
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            let count = self.rotation.as_ref().and_then(Rotation::count);
            notice(format_args!("all {} files are written", count.unwrap_or(0)));
        }
    }

    /// Begins a file for a packet whose time `time` gives, where the one before was completed for
    /// its age.
    pub(super) fn begin_if_due(
        &mut self,
        time: impl FnOnce() -> Option<Timestamp>,
    ) -> Result<(), DumpError> {
        match (&self.state, self.ended) {
            (State::Between, false) => self.begin_next(time().unwrap_or_default()),
            _ => Ok(()),
        }
    }

    fn begin_next(&mut self, time: Timestamp) -> Result<(), DumpError> {
        let following = self.rotation.as_mut().map(|rotation| rotation.next(time));
        let Some(Following::File(path)) = following else {
            self.end();
            return Ok(());
        };
        self.path = path;
        self.told.began = time;
        self.state = State::Failed;
        refuse_inputs(&self.path, &self.settings.inputs)?;
        let target = match &self.queue {
            Some(queue) => {
                queue.begin(self.path.clone());
                Target::Queued(Arc::clone(queue))
            }
            None => {
                let access = self.settings.writing.access;
                let opened = open(&self.path, access, true)
                    .map_err(|error| error.after(self.earlier.packets))?;
                let file = opened
                    .emptied()
                    .map_err(|source| self.not_created(source))?;
                self.target(file, true)?
            }
        };
        let result = self.write_header(target);
        self.checked(result)
    }

    /// The header of another file of the same capture.
    fn write_header(&mut self, target: Target) -> Result<(), WriteError> {
        match (self.settings.format, self.known.first()) {
            (FileFormat::Pcap, Some(interface)) => {
                let mut writer = PcapWriter::new(target, &self.pcap_options(interface))?;
                for interface in &self.known {
                    writer.add_interface(interface);
                }
                self.state = State::Pcap(writer);
            }
            _ => {
                let mut writer = PcapngWriter::new(target, &self.section)?;
                for interface in &self.known {
                    writer.add_interface(interface)?;
                }
                self.state = State::Pcapng(writer);
            }
        }
        Ok(())
    }

    fn complete_file(&mut self, captured: u64) -> Result<(), DumpError> {
        self.write_statistics(now(), captured)?;
        let result = match std::mem::replace(&mut self.state, State::Failed) {
            State::Pcap(writer) => writer.finish(),
            State::Pcapng(writer) => writer.finish(),
            other => {
                self.state = other;
                return Ok(());
            }
        };
        let (target, totals) = result.map_err(|source| self.failed(source))?;
        match target {
            Target::Queued(queue) => queue.complete(totals.packets),
            Target::Direct(file) => {
                drop(file);
                self.after.run(self.path.clone(), Vec::new());
            }
        }
        self.earlier.packets += totals.packets;
        self.earlier.bytes += totals.bytes;
        self.earlier.altered_times += totals.altered_times;
        self.state = State::Between;
        Ok(())
    }

    /// Tells the counters of a live capture as they are by now.
    pub(crate) fn count(&mut self, stats: Stats) {
        self.counted = stats;
    }

    /// Appends the counters of a live capture, those since the file began, where the format can hold
    /// them: those of several interfaces together have no place in it.
    fn write_statistics(&mut self, now: Timestamp, captured: u64) -> Result<(), DumpError> {
        let before = self.told;
        let (new, old) = (self.counted, before.stats);
        let State::Pcapng(writer) = &mut self.state else {
            return Ok(());
        };
        if self.described != 1 || !self.settings.live {
            return Ok(());
        }
        let since =
            |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old.unwrap_or(0)));
        let (dropped, earlier) = (new.dropped, old.dropped);
        let accepted = since(new.received, old.received);
        let hook = since(dropped.hook, earlier.hook);
        let sampled = since(dropped.sampling, earlier.sampling);
        let others = hook.unwrap_or(0) + sampled.unwrap_or(0);
        let mut counters = InterfaceStatistics::new(0, now);
        counters.start = Some(before.began);
        counters.end = Some(now);
        counters.accepted_by_filter = accepted;
        counters.dropped_by_os =
            since(dropped.ring, earlier.ring).map(|ring| ring + hook.unwrap_or(0));
        counters.dropped_by_interface = since(dropped.interface, earlier.interface);
        counters.delivered = Some(captured.saturating_sub(before.captured));
        // What a filter has left out is counted nowhere.
        counters.received = accepted.filter(|_| self.complete).map(|n| n + others);
        self.told = Told {
            stats: new,
            captured,
            began: now,
        };
        let result = writer.write_statistics(&counters);
        self.checked(result)
    }

    /// Completes the file, with the counters of a live capture.
    pub(crate) fn finish(mut self, stats: Option<(Stats, u64)>) -> Result<Totals, DumpError> {
        if let State::Waiting(opened) = self.state {
            return empty(opened, &self.path, self.settings.format, &self.section);
        }
        self.begin_if_none()?;
        let captured = stats.map_or(0, |(stats, captured)| {
            self.count(stats);
            captured
        });
        let result = self.complete_file(captured);
        warn_of_times(self.earlier.altered_times);
        let Some(queue) = self.queue.take() else {
            return result.map(|()| self.earlier);
        };
        let finished = queue.finish();
        result?;
        finished.map_err(|failure| match failure {
            Some(failure) => told(failure),
            None => self.failed(WriteErrorKind::FailedBefore.into()),
        })
    }

    /// Begins the first file of a time where no packet has.
    fn begin_if_none(&mut self) -> Result<(), DumpError> {
        let begun = self.rotation.as_ref().is_none_or(Rotation::has_begun);
        if begun || self.known.is_empty() {
            return Ok(());
        }
        self.begin_next(now())
    }

    fn checked(&self, result: Result<(), WriteError>) -> Result<(), DumpError> {
        result.map_err(|source| self.failed(source))
    }

    /// The failure of the queue where it is what failed.
    fn failed(&self, source: WriteError) -> DumpError {
        match self.queue.as_ref().and_then(|queue| queue.take_failure()) {
            Some(failure) => told(failure),
            None => DumpError::Write {
                path: self.path.clone(),
                source,
                earlier: self.earlier.packets,
            },
        }
    }

    fn not_created(&self, source: std::io::Error) -> DumpError {
        DumpError::Create {
            path: self.path.clone(),
            source,
            earlier: self.earlier.packets,
        }
    }
}

/// Says how many packets have another time in the output than in the input.
fn warn_of_times(altered: u64) {
    if altered > 0 {
        notice(format_args!(
            "{} with an invalid time (a fraction of a second or more): the output can't hold it, and has \
             the time that it adds up to",
            counted(altered, "packet")
        ));
    }
}

/// The name of a further file may be that of one that is read.
fn refuse_inputs(path: &Path, inputs: &[PathBuf]) -> Result<(), DumpError> {
    match inputs.iter().any(|input| super::is_same_file(input, path)) {
        true => Err(DumpError::SameFile {
            path: path.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Opens a file, which is one of several or not.
fn open(path: &Path, access: Access, several: bool) -> Result<Output, DumpError> {
    let path = path.to_owned();
    match output::open(&path, access) {
        Ok(opened) if several && !opened.is_file() => Err(DumpError::NoRotation { path }),
        Ok(opened) => Ok(opened),
        Err(source) => Err(DumpError::Create {
            path,
            source,
            earlier: 0,
        }),
    }
}

/// A failure of the queue, as an error.
fn told(failure: Failure) -> DumpError {
    let Failure {
        path,
        source,
        earlier,
        ..
    } = failure;
    if failure.creating {
        return DumpError::Create {
            path,
            source,
            earlier,
        };
    }
    let kind = WriteErrorKind::Output {
        source,
        written: failure.written,
        intact: failure.intact,
        packets: failure.packets,
    };
    DumpError::Write {
        path,
        source: kind.into(),
        earlier,
    }
}

/// A source that told of no interface makes a pcapng file without any; pcap has no such form.
fn empty(
    opened: Output,
    path: &Path,
    format: FileFormat,
    section: &Section,
) -> Result<Totals, DumpError> {
    let owned = || path.to_owned();
    if format == FileFormat::Pcap {
        // A file that was made for it goes.
        drop(opened);
        return Err(DumpError::NoLinkType { path: owned() });
    }
    let file = opened.emptied().map_err(|source| DumpError::Create {
        path: owned(),
        source,
        earlier: 0,
    })?;
    let written = PcapngWriter::new(file, section).and_then(PcapngWriter::finish);
    let totals = written.map(|(_, totals)| totals);
    totals.map_err(|source| DumpError::Write {
        path: owned(),
        source,
        earlier: 0,
    })
}

fn own_section() -> Section {
    let mut section = Section::new(ByteOrder::NATIVE);
    section.os = Some(std::env::consts::OS.to_owned());
    section.hardware = Some(std::env::consts::ARCH.to_owned());
    section.application = Some(concat!("ringtap ", env!("CARGO_PKG_VERSION")).to_owned());
    section
}

/// The time by the wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::new(
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        since.subsec_nanos(),
    )
}

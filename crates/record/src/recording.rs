//! The capture file that is written. It starts when the first interface is known, and grows run by run or
//! packet by packet. A recording may spread over several files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap_savefile::{
    ByteOrder, Format, Interface, InterfaceStatistics, Item, Options, Packet, PacketRun,
    PcapOptions, PcapWriter, PcapngWriter, ProcessBlock, RawBlock, Section, Timestamp, Totals,
    WriteError, WriteErrorKind, whole_blocks, whole_records,
};
use ringtap_sys::output::Output;

use crate::error::{RecordError, Result};
use crate::fill::{self, Stops};
use crate::host::{Host, Note};
use crate::options::{Counters, RecordOptions};
use crate::rotate::Rotation;
use crate::writer::{Alarm, Failure, Gauge, Queue, QueueSettings, Target, Whole};

/// The number of processes that are described again in the next file.
const PROCESSES_MAX: usize = 4096;
/// The bytes of such blocks that are kept. An input can bring blocks of any length.
const PROCESSES_BYTES_MAX: usize = 8 << 20;
/// The part of a file that such descriptions may take: one of this many.
const PROCESSES_SHARE: u64 = 4;

/// A capture file that grows, or several in sequence.
pub struct Recording {
    path: PathBuf,
    pub(crate) state: State,
    options: RecordOptions,
    rotation: Option<Rotation>,
    host: Arc<dyn Host>,
    /// The queue to the files, if there is one.
    queue: Option<Arc<Queue>>,
    /// The totals of the earlier files.
    earlier: Totals,
    /// The interfaces of the files, over all sources, and the start of the last section.
    known: Vec<Interface>,
    section: Section,
    /// The blocks that describe processes, for files that follow.
    processes: VecDeque<Vec<u8>>,
    /// The bytes of these blocks.
    processes_bytes: usize,
    /// A section came, with which the waiting file will start.
    has_section: bool,
    /// The first index of the current source's interfaces.
    pub(crate) first_interface: u32,
    /// The number of the current source's interfaces that were written to the file.
    described: u32,
    /// Whether every packet and block of the source goes into the file.
    is_complete: bool,
    /// The last counters of a live capture, and those at the start of the current file.
    counted: Counters,
    told: Counters,
    /// When the current file started.
    began: Timestamp,
    /// The maximum number of files has been reached.
    ended: bool,
}

pub(crate) enum State {
    /// The file is open, its header not written.
    Waiting(Output),
    Pcap(PcapWriter<Target>),
    Pcapng(PcapngWriter<Target>),
    /// A file is complete, and the next has not started.
    Between,
    /// The header could not be written.
    Failed,
}

impl Recording {
    /// Opens the file with this name, or the first of several. `-` is standard output. Nothing is written to
    /// it until an interface is known.
    ///
    /// # Errors
    /// The file cannot be opened, is an input of the program, or is not a regular file although others should
    /// follow it.
    pub fn create(path: &Path, options: RecordOptions, host: Arc<dyn Host>) -> Result<Self> {
        let began = Timestamp::now();
        let mut recording = Self {
            path: path.to_owned(),
            state: State::Between,
            rotation: options.rotation.map(|plan| Rotation::new(path, plan)),
            options,
            host,
            queue: None,
            earlier: Totals::default(),
            known: Vec::new(),
            section: own_section(),
            processes: VecDeque::new(),
            processes_bytes: 0,
            has_section: false,
            first_interface: 0,
            described: 0,
            is_complete: false,
            counted: Counters::default(),
            told: Counters::default(),
            began,
            ended: false,
        };
        match &mut recording.rotation {
            // The time of the first packet is that of the first file.
            Some(rotation) if rotation.plan.seconds.is_some() && !recording.options.live => {
                return Ok(recording);
            }
            Some(rotation) => {
                let planned = rotation.first(began);
                recording.path = recording.host.name(began).unwrap_or(planned);
                recording.refuse_input()?;
            }
            None => {}
        }
        recording.state = State::Waiting(recording.open()?);
        Ok(recording)
    }

    /// Returns the state of the queue to the files. `None` if packets go directly to the file.
    #[must_use]
    pub fn gauge(&self) -> Option<Arc<Gauge>> {
        self.queue.as_ref().map(|queue| queue.gauge())
    }

    /// Sets a function that is called if the output fails while nobody writes to it.
    pub fn on_failure(&self, alarm: Alarm) {
        if let Some(queue) = &self.queue {
            queue.on_failure(alarm);
        }
    }

    /// Checks whether the output has failed since the last write.
    ///
    /// # Errors
    /// The output has failed; the error is returned once.
    pub fn check(&self) -> Result<()> {
        let failure = self.queue.as_ref().and_then(|queue| queue.take_failure());
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Returns whether the file is the regular file that standard output was redirected to, and still empty.
    #[must_use]
    pub fn is_standard_output(&self) -> bool {
        match &self.state {
            State::Waiting(output) => output.is_standard_output(),
            _ => false,
        }
    }

    /// Starts another source: its interfaces are numbered after those of the earlier sources. `is_complete`
    /// means that every packet of the source is written unchanged.
    pub fn next_source(&mut self, is_complete: bool) {
        self.first_interface += self.described;
        self.described = 0;
        self.is_complete = is_complete;
    }

    /// Returns the files' format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.options.format
    }

    /// Starts a section of a pcapng file.
    fn section(&mut self, section: &Section) -> Result<()> {
        if self.options.format == Format::Pcap {
            return Ok(());
        }
        // Not before there is an interface: there may be no filter for it.
        if std::mem::replace(&mut self.has_section, true) {
            self.begin()?;
        }
        self.section = section.clone();
        if let State::Pcapng(writer) = &mut self.state {
            let result = writer.start_section(section);
            return self.checked(result);
        }
        Ok(())
    }

    /// Returns whether anything was written.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let untouched = matches!(self.state, State::Waiting(_) | State::Between);
        !untouched || self.earlier.bytes > 0
    }

    /// Writes those of the source's interfaces that are new. The file starts with the first one.
    ///
    /// # Errors
    /// The output has failed.
    pub fn describe(&mut self, interfaces: &[Interface]) -> Result<()> {
        while let Some(interface) = interfaces.get(self.described as usize) {
            self.add(interface)?;
            self.described += 1;
        }
        Ok(())
    }

    fn add(&mut self, interface: &Interface) -> Result<()> {
        let mut interface = interface.clone();
        if let (Some(snaplen), Format::Pcapng) = (self.options.snaplen, self.options.format) {
            interface.snaplen = match interface.snaplen {
                0 => snaplen,
                stated => stated.min(snaplen),
            };
        }
        self.known.push(interface.clone());
        let result = match &mut self.state {
            State::Waiting(_) => return self.begin(),
            State::Pcap(writer) => {
                writer.add_interface(&interface);
                Ok(())
            }
            State::Pcapng(writer) => {
                if let Some(queue) = &self.queue {
                    queue.set_interfaces(&self.known);
                }
                writer.add_interface(&interface).map(drop)
            }
            State::Between | State::Failed => Ok(()),
        };
        self.checked(result)
    }

    /// Truncates the file, if it has not started, and writes its header.
    fn begin(&mut self) -> Result<()> {
        if matches!(self.state, State::Waiting(_))
            && let State::Waiting(opened) = std::mem::replace(&mut self.state, State::Failed)
        {
            let target = self.target(opened)?;
            return self.write_header(target);
        }
        Ok(())
    }

    /// Sets up the way to the file. Compression needs a queue. A live capture has one so that it never waits
    /// for a disk. Data that must be visible immediately goes directly to the file.
    fn target(&mut self, opened: Output) -> Result<Target> {
        let regular = opened.is_file();
        let file = opened.emptied();
        let file = file.map_err(|source| self.not_created(source))?;
        let options = &self.options;
        let waits = options.live && regular && !options.immediate;
        if options.codec.is_none() && !waits {
            return Ok(Target::Direct(file));
        }
        let (whole, header): (Whole, _) = match options.format {
            Format::Pcap => (|bytes| whole_records(bytes, ByteOrder::NATIVE), 24),
            Format::Pcapng => (|bytes| whole_blocks(bytes, ByteOrder::NATIVE), 0),
        };
        let queue = QueueSettings {
            codec: options.codec,
            workers: options.workers,
            memory: options.memory,
            cpus: options.cpus.clone(),
            whole,
            size: self.rotation.as_ref().map_or(u64::MAX, Rotation::size),
            header,
            flush: options.flush,
            durable: options.durable,
            reserve: options.reserve,
        };
        let first = (self.path.clone(), file, regular);
        let started = Queue::start(queue, first, Arc::clone(&self.host));
        let queue = Arc::new(started.map_err(|source| RecordError::Thread { source })?);
        self.queue = Some(Arc::clone(&queue));
        Ok(Target::Queued(queue))
    }

    /// Writes a block of a source that is not a packet or interface, as far as the format supports it.
    ///
    /// # Errors
    /// The output has failed.
    pub fn meta(&mut self, item: &Item<'_>) -> Result<()> {
        if let Item::Section(section) = item {
            return self.section(section);
        }
        if self.options.format == Format::Pcapng {
            self.begin()?;
        }
        if let Item::Other(block) = item {
            self.remember(block);
        }
        let (first, complete) = (self.first_interface, self.is_complete);
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
            // A block whose writer does not want it in changed files is left out of them.
            Item::Other(block) if complete || !block.is_not_to_be_copied() => {
                writer.write_block(block)
            }
            _ => Ok(()),
        };
        self.checked(result)
    }

    /// Takes out the blocks that describe processes, for another recording.
    pub fn take_processes(&mut self) -> VecDeque<Vec<u8>> {
        self.processes_bytes = 0;
        std::mem::take(&mut self.processes)
    }

    /// Sets the blocks that describe processes, from [`Recording::take_processes`]. Call it before the first
    /// interface is known.
    pub fn know_processes(&mut self, blocks: VecDeque<Vec<u8>>) {
        self.processes_bytes = blocks.iter().map(Vec::len).sum();
        self.processes = blocks;
    }

    /// Returns the blocks that describe processes in the next file: the latest that take at most a quarter of it.
    fn repeated_processes(&self) -> impl Iterator<Item = &Vec<u8>> {
        let size = self.rotation.as_ref().map_or(u64::MAX, Rotation::size);
        let mut room = size / PROCESSES_SHARE;
        let fits = |block: &&Vec<u8>| {
            let left = room.checked_sub(block.len() as u64);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let count = self.processes.iter().rev().take_while(fits).count();
        self.processes.iter().skip(self.processes.len() - count)
    }

    /// Keeps a block that describes a process: the next file needs it too.
    fn remember(&mut self, block: &RawBlock<'_>) {
        if self.rotation.is_none() || ProcessBlock::parse(block).is_none() {
            return;
        }
        self.processes.push_back(block.bytes().to_vec());
        self.processes_bytes += block.bytes().len();
        while self.processes.len() > PROCESSES_MAX || self.processes_bytes > PROCESSES_BYTES_MAX {
            let Some(oldest) = self.processes.pop_front() else {
                break;
            };
            self.processes_bytes -= oldest.len();
        }
    }

    /// Writes whole runs of packets, as they lie in ring or file. If a file or a chunk ends within a run, the
    /// run is split. `written` is called for each part that was added. Only if [`Recording::takes_runs`].
    ///
    /// # Errors
    /// The output has failed, or does not support a packet: its link type is not that of the pcap file, or
    /// its interface is unknown.
    pub fn write_runs<'d>(
        &mut self,
        runs: impl Iterator<Item = PacketRun<'d>>,
        written: impl FnMut(&PacketRun<'d>),
    ) -> Result<()> {
        match self.options.format {
            Format::Pcap => fill::runs::<fill::Pcap>(self, runs, written),
            Format::Pcapng => fill::runs::<fill::Pcapng>(self, runs, written),
        }
    }

    /// Writes packets one by one, with their options in a pcapng file. An error among them ends the call,
    /// after the packets before it were written. Returns the first packet without a file, if the maximum
    /// number of files has been reached.
    ///
    /// # Errors
    /// The output has failed, or does not support a packet; or the error among the packets.
    pub fn write_packets<'d, E: From<RecordError>>(
        &mut self,
        packets: impl Iterator<Item = std::result::Result<(Packet<'d>, Options<'d>), E>>,
    ) -> std::result::Result<Option<Packet<'d>>, E> {
        match self.options.format {
            Format::Pcap => fill::packets::<fill::Pcap, E>(self, packets),
            Format::Pcapng => fill::packets::<fill::Pcapng, E>(self, packets),
        }
    }

    /// Returns whether runs of packets may be written without checking each one: packets of a live capture
    /// are older than now.
    #[must_use]
    pub fn takes_runs(&self) -> bool {
        let timed = self
            .rotation
            .as_ref()
            .filter(|rotation| rotation.plan.seconds.is_some());
        let early = |rotation: &Rotation| {
            let end = rotation.window_end();
            self.options.live && end.is_some_and(|end| Timestamp::now().secs() < end)
        };
        self.first_interface == 0 && timed.is_none_or(early)
    }

    /// Returns the conditions that end a batch.
    pub(crate) fn stops(&self) -> Stops {
        let rotation = self.rotation.as_ref();
        let queue = self.queue.as_ref();
        Stops {
            file: rotation.map_or(u64::MAX, |r| r.size().saturating_add(1)),
            chunk: queue.map_or(u64::MAX, |queue| queue.chunk_end()),
            slack: queue.map_or(0, |queue| queue.slack()),
            until: rotation.and_then(Rotation::window_end).unwrap_or(i64::MAX),
        }
    }

    /// Announces the number of bytes of packets that lie in one piece and are written next.
    pub(crate) fn announce(&self, bytes: usize) {
        if let Some(queue) = &self.queue {
            queue.announce(bytes);
        }
    }

    /// Handles a batch that was committed, or that failed.
    pub(crate) fn after_batch(
        &mut self,
        result: std::result::Result<(), WriteError>,
    ) -> Result<()> {
        let packets = self.totals().packets;
        if let (Ok(()), Some(queue)) = (&result, &self.queue) {
            queue.commit(packets);
        }
        self.checked(result)
    }

    /// Returns the totals of the current file.
    fn totals(&self) -> Totals {
        match &self.state {
            State::Pcap(writer) => writer.totals(),
            State::Pcapng(writer) => writer.totals(),
            State::Waiting(_) | State::Between | State::Failed => Totals::default(),
        }
    }

    /// Returns whether the file exceeds its maximum size when a packet is added.
    pub(crate) fn is_too_large(&self) -> bool {
        let rotation = self.rotation.as_ref();
        rotation.is_some_and(|rotation| self.totals().bytes > rotation.size())
    }

    /// Returns whether a packet of that time belongs to another file.
    pub(crate) fn is_over(&self, time: Timestamp) -> bool {
        let end = self.rotation.as_ref().and_then(Rotation::window_end);
        end.is_some_and(|end| time.secs() >= end) && !matches!(self.state, State::Between)
    }

    /// Returns whether the maximum number of files has been reached.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Completes the file, and starts the next one for a packet of that time.
    pub(crate) fn rotate(&mut self, time: Timestamp) -> Result<()> {
        self.complete_file()?;
        self.begin_next(time)
    }

    /// Completes a file whose time is over at `now`, in seconds since the epoch, even if no packet has come
    /// since.
    ///
    /// # Errors
    /// The output has failed.
    pub fn end_of_window(&mut self, now: i64) -> Result<()> {
        let Some(rotation) = &self.rotation else {
            return Ok(());
        };
        let over = rotation.window_end().is_some_and(|end| now >= end);
        if over && matches!(self.state, State::Pcap(_) | State::Pcapng(_)) {
            let is_last = rotation.is_last_window();
            self.complete_file()?;
            if let Some(rotation) = &mut self.rotation {
                rotation.expired = true;
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
            let count = self
                .rotation
                .as_ref()
                .and_then(|rotation| rotation.plan.count);
            let files = count.unwrap_or_default();
            self.host.note(&Note::AllWritten { files });
        }
    }

    /// Starts a file for a packet of the time that `time` returns, if the previous file was completed because
    /// of its age.
    pub(crate) fn begin_if_due(&mut self, time: impl FnOnce() -> Option<Timestamp>) -> Result<()> {
        match (&self.state, self.ended) {
            (State::Between, false) => self.begin_next(time().unwrap_or_default()),
            _ => Ok(()),
        }
    }

    fn begin_next(&mut self, time: Timestamp) -> Result<()> {
        let rotation = self.rotation.as_mut();
        let Some(path) = rotation.and_then(|rotation| rotation.next(time)) else {
            self.end();
            return Ok(());
        };
        self.path = self.host.name(time).unwrap_or(path);
        self.began = time;
        self.state = State::Failed;
        self.refuse_input()?;
        let target = match &self.queue {
            Some(queue) => {
                queue.begin(self.path.clone());
                Target::Queued(Arc::clone(queue))
            }
            None => {
                let opened = self.open()?;
                self.target(opened)?
            }
        };
        self.write_header(target)
    }

    fn write_header(&mut self, target: Target) -> Result<()> {
        let state = self.header(target);
        self.state = state.map_err(|source| self.failed(source))?;
        self.end_header()
    }

    /// Makes the header a chunk of its own, if the host wants chunks, so that readers can read it alone.
    fn end_header(&mut self) -> Result<()> {
        let Some(queue) = self.queue.as_ref().filter(|_| self.host.wants_chunks()) else {
            return Ok(());
        };
        queue.set_interfaces(&self.known);
        if let State::Pcapng(writer) = &mut self.state {
            let flushed = writer.flush();
            queue.end_chunk();
            return self.checked(flushed);
        }
        Ok(())
    }

    /// Writes the header of a file, with all known interfaces.
    fn header(&self, target: Target) -> std::result::Result<State, WriteError> {
        if let (Format::Pcap, Some(first)) = (self.options.format, self.known.first()) {
            let mut options = PcapOptions::for_interface(first);
            let of_input = options.nanos && !self.options.live;
            options.nanos = self.options.nano.unwrap_or(of_input);
            options.snaplen = self.options.snaplen.unwrap_or(first.snaplen);
            let mut writer = PcapWriter::new(target, &options)?;
            for interface in &self.known {
                writer.add_interface(interface);
            }
            return Ok(State::Pcap(writer));
        }
        let mut writer = PcapngWriter::new(target, &self.section)?;
        for interface in &self.known {
            writer.add_interface(interface)?;
        }
        for bytes in self.repeated_processes() {
            if let Some(block) = RawBlock::built(bytes) {
                writer.write_block(&block)?;
            }
        }
        Ok(State::Pcapng(writer))
    }

    fn complete_file(&mut self) -> Result<()> {
        self.write_statistics(Timestamp::now())?;
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
                self.host.complete(self.path.clone(), Vec::new());
            }
        }
        self.earlier.packets += totals.packets;
        self.earlier.bytes += totals.bytes;
        self.earlier.altered_times += totals.altered_times;
        self.state = State::Between;
        Ok(())
    }

    /// Sets the counters of a live capture that had run before the first file: they do not belong to it.
    pub fn count_from(&mut self, counters: Counters) {
        self.counted = counters;
        self.told = counters;
    }

    /// Sets the current counters of a live capture.
    pub fn count(&mut self, counters: Counters) {
        self.counted = counters;
    }

    /// Appends the counters of a live capture since the file started, if the format supports it. It does not
    /// support the sum over several interfaces.
    fn write_statistics(&mut self, now: Timestamp) -> Result<()> {
        let delivered = self.totals().packets;
        let State::Pcapng(writer) = &mut self.state else {
            return Ok(());
        };
        if self.described != 1 || !self.options.live {
            return Ok(());
        }
        let new = self.counted;
        let old = std::mem::replace(&mut self.told, new);
        let since =
            |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old.unwrap_or(0)));
        let accepted = since(new.received, old.received);
        let hook = since(new.hook, old.hook).unwrap_or(0);
        let others = hook + since(new.sampling, old.sampling).unwrap_or(0);
        let mut counters = InterfaceStatistics::new(0, now);
        counters.start = Some(self.began);
        counters.end = Some(now);
        counters.accepted_by_filter = accepted;
        counters.dropped_by_os = since(new.ring, old.ring).map(|ring| ring + hook);
        counters.dropped_by_interface = since(new.interface, old.interface);
        counters.delivered = Some(delivered);
        // Packets that a filter left out are not counted anywhere.
        counters.received = accepted.filter(|_| self.is_complete).map(|n| n + others);
        let packets = new.cut.packets.saturating_sub(old.cut.packets);
        if packets > 0 {
            let bytes = new.cut.bytes.saturating_sub(old.cut.bytes);
            let text = format!("left out by a cut-off: {packets} packets, {bytes} bytes");
            counters.other.push_comment(&text);
        }
        let result = writer.write_statistics(&counters);
        self.checked(result)
    }

    /// Completes the file, and returns the totals of all files. If there was no interface, a pcapng file
    /// without any is written.
    ///
    /// # Errors
    /// The output has failed; a pcap file has no link type.
    pub fn finish(mut self) -> Result<Totals> {
        if matches!(self.state, State::Waiting(_)) && self.options.format == Format::Pcap {
            return Err(RecordError::NoLinkType { path: self.path });
        }
        self.begin()?;
        self.begin_if_none()?;
        let result = self.complete_file();
        let packets = self.earlier.altered_times;
        if packets > 0 {
            self.host.note(&Note::AlteredTimes { packets });
        }
        let Some(queue) = self.queue.take() else {
            return result.map(|()| self.earlier);
        };
        let finished = queue.finish();
        result?;
        finished.map_err(|failure| match failure {
            Some(failure) => failure.into(),
            None => self.failed(WriteErrorKind::FailedBefore.into()),
        })
    }

    /// Starts the first file of a time, if no packet has.
    fn begin_if_none(&mut self) -> Result<()> {
        let begun = self
            .rotation
            .as_ref()
            .is_none_or(|rotation| rotation.began.is_some());
        if begun || self.known.is_empty() {
            return Ok(());
        }
        self.begin_next(Timestamp::now())
    }

    /// Opens the current file, whether it is one of several or not.
    fn open(&self) -> Result<Output> {
        let opened = self.host.open(&self.path);
        let opened = opened.map_err(|source| self.not_created(source))?;
        match self.rotation.is_some() && !opened.is_file() {
            true => Err(RecordError::NoRotation {
                path: self.path.clone(),
            }),
            false => Ok(opened),
        }
    }

    /// Rejects an input of the program: the name of a later file may be that of one.
    fn refuse_input(&self) -> Result<()> {
        match self.host.reads(&self.path) {
            true => Err(RecordError::SameFile {
                path: self.path.clone(),
            }),
            false => Ok(()),
        }
    }

    fn checked(&self, result: std::result::Result<(), WriteError>) -> Result<()> {
        result.map_err(|source| self.failed(source))
    }

    /// Returns the failure of the queue, if the queue failed.
    fn failed(&self, source: WriteError) -> RecordError {
        match self.queue.as_ref().and_then(|queue| queue.take_failure()) {
            Some(failure) => failure.into(),
            None => RecordError::Write {
                path: self.path.clone(),
                source,
                earlier: self.earlier.packets,
            },
        }
    }

    fn not_created(&self, source: std::io::Error) -> RecordError {
        RecordError::Create {
            path: self.path.clone(),
            source,
            earlier: self.earlier.packets,
        }
    }
}

impl From<Failure> for RecordError {
    fn from(failure: Failure) -> Self {
        let (path, source, earlier) = (failure.path, failure.source, failure.earlier);
        if failure.creating {
            return Self::Create {
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
        Self::Write {
            path,
            source: kind.into(),
            earlier,
        }
    }
}

fn own_section() -> Section {
    let mut section = Section::new(ByteOrder::NATIVE);
    section.os = Some(std::env::consts::OS.to_owned());
    section.hardware = Some(std::env::consts::ARCH.to_owned());
    section.application = Some(concat!("ringtap ", env!("CARGO_PKG_VERSION")).to_owned());
    section
}

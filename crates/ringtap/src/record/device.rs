//! A device that is recorded: its packets go to the recording, which starts anew when the disk fails.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringtap_capture::{Block, Error, Interface, Item, Source, Stats};
use ringtap_record::archive::{Archive, Cut, Stream};
use ringtap_record::{Counters, Gauge, Host, RecordError, RecordOptions, Recording};
use ringtap_savefile::{PacketRun, ProcessBlock};

use super::cutoff::Cutoffs;
use super::error::RecorderError;
use super::trigger::Watch;
use crate::dump::WaitingProcesses;
use crate::live::{Receiver, settled};
use crate::look::AlertMeter;
use crate::notice::{Fields, counted, interrupted, notice, warning};
use crate::setup::lock;

/// How often counters and the clock are read.
const TICK: Duration = Duration::from_millis(100);
/// How long after a failure the recording starts again.
const RETRY: Duration = Duration::from_secs(1);
/// How often packets that were cut are noted in the catalogue.
const NOTE: Duration = Duration::from_secs(1);

/// The numbers of a device, for the status.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Packets that were given to the recording.
    pub(super) packets: AtomicU64,
    /// Bytes of them.
    pub(super) bytes: AtomicU64,
    /// Packets that the writer lost.
    pub(super) lost: AtomicU64,
    /// Packets that cut-offs left out, those that they shortened, and flows that their table lost.
    pub(super) cuts: Mutex<Cuts>,
    /// Whether the recording waits for the disk.
    pub(super) is_failed: AtomicBool,
    /// How often the counters were read: it grows as long as the thread lives.
    pub(super) ticks: AtomicU64,
    /// The counters of the capture.
    pub(super) stats: Mutex<Stats>,
    /// The queue to the disk.
    pub(super) gauge: Mutex<Option<Arc<Gauge>>>,
    /// The last failure, while it lasts.
    pub(super) failure: Mutex<Option<String>>,
}

/// The sums of a device's cut-offs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    /// Packets that are not in the files.
    pub(super) cut: Cut,
    /// Packets of which only the headers are, and the bytes after these.
    pub(super) shortened: Cut,
    /// Flows that were evicted from the table.
    pub(super) evicted: u64,
}

/// A device that is recorded.
pub(super) struct Device {
    name: String,
    archive: Arc<Archive>,
    stream: Arc<Stream>,
    options: RecordOptions,
    is_complete: bool,
    timeout: Duration,
    interfaces: Vec<Interface>,
    recording: Option<Recording>,
    /// The packets that were given to this recording.
    given: u64,
    retry: Instant,
    ticked: Instant,
    numbers: Arc<Numbers>,
    wake: Arc<dyn Fn() + Send + Sync>,
    watch: Option<Watch>,
    alerts: Option<AlertMeter>,
    cutoffs: Option<Cutoffs>,
    /// The processes that are not described in the files yet, and, after a failure, those that were.
    waiting: WaitingProcesses,
    described: VecDeque<Vec<u8>>,
    /// The packets that were cut.
    cut: Cut,
    noted: Instant,
    /// The last counters of the capture.
    counted: Counters,
}

impl Device {
    /// Prepares a device. `is_complete` means that no filter drops any of its packets; `wake` wakes its reader.
    pub(super) fn new(
        name: &str,
        (archive, stream): (Arc<Archive>, Stream),
        (options, timeout): (RecordOptions, Duration),
        is_complete: bool,
        wake: Arc<dyn Fn() + Send + Sync>,
        (watch, cutoffs): (Option<Watch>, Option<Cutoffs>),
    ) -> Self {
        Self {
            name: name.to_owned(),
            archive,
            stream: Arc::new(stream),
            options,
            is_complete,
            timeout,
            interfaces: Vec::new(),
            recording: None,
            given: 0,
            retry: Instant::now(),
            ticked: Instant::now(),
            numbers: Arc::default(),
            wake,
            watch,
            alerts: None,
            cutoffs,
            waiting: WaitingProcesses::default(),
            described: VecDeque::new(),
            cut: Cut::default(),
            noted: Instant::now(),
            counted: Counters::default(),
        }
    }

    /// Returns its numbers.
    pub(super) fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.numbers)
    }

    /// Has a meter look at its packets for alerts.
    pub(super) fn raise(&mut self, alerts: Option<AlertMeter>) {
        self.alerts = alerts;
    }

    /// Starts the first recording.
    ///
    /// # Errors
    /// The file cannot be created: at the start, that is reported and not retried.
    pub(super) fn begin(&mut self, interfaces: &[Interface]) -> Result<(), RecordError> {
        self.interfaces = interfaces.to_vec();
        self.start()
    }

    fn start(&mut self) -> Result<(), RecordError> {
        // The host names the files.
        let unused = PathBuf::from(&self.name);
        let host: Arc<dyn Host> = Arc::clone(&self.stream) as _;
        let mut recording = Recording::create(&unused, self.options.clone(), host)?;
        recording.count_from(self.counted);
        recording.know_processes(std::mem::take(&mut self.described));
        recording.next_source(self.is_complete);
        recording.describe(&self.interfaces)?;
        let wake = Arc::clone(&self.wake);
        recording.on_failure(Box::new(move || wake()));
        *lock(&self.numbers.gauge) = recording.gauge();
        self.recording = Some(recording);
        self.given = 0;
        Ok(())
    }

    /// Starts again after a failure, if it is time.
    fn start_again(&mut self) {
        if Instant::now() < self.retry {
            return;
        }
        self.retry = Instant::now() + RETRY;
        match self.start() {
            Ok(()) => {
                self.numbers.is_failed.store(false, Ordering::Relaxed);
                if lock(&self.numbers.failure).take().is_some() {
                    let number = self.numbers.lost.load(Ordering::Relaxed);
                    let lost = counted(number, "packet");
                    warning(
                        &Fields::default()
                            .with("interface", &self.name)
                            .with("lost", &number),
                        format_args!("{}: recording again; {lost} lost so far", self.name),
                    );
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Handles the failure of the output: what it did not take is lost, and it is tried again.
    fn failed(&mut self, error: &RecordError) {
        let mut recording = self.recording.take();
        if let Some(recording) = &mut recording {
            self.described = recording.take_processes();
            let intact = error.intact_packets().unwrap_or(0);
            self.lose(self.given.saturating_sub(intact));
        }
        // It waits for its threads.
        drop(recording);
        *lock(&self.numbers.gauge) = None;
        let device = self.stream.device();
        let ended = self.archive.give_up_device(device);
        self.retry = Instant::now() + RETRY;
        self.numbers.is_failed.store(true, Ordering::Relaxed);
        let text = error.to_string();
        let mut known = lock(&self.numbers.failure);
        // Names of files differ in each try.
        let is_news = known.is_none();
        *known = Some(text.clone());
        drop(known);
        if is_news {
            warning(
                &Fields::default().with("interface", &self.name),
                format_args!(
                    "{}: {text}; packets are lost until the disk takes them again",
                    self.name
                ),
            );
            if let Err(error) = ended {
                notice(format_args!(
                    "{}: its last file has no end: {error}",
                    self.name
                ));
            }
        }
    }

    fn lose(&self, packets: u64) {
        self.numbers.lost.fetch_add(packets, Ordering::Relaxed);
    }

    fn write(&mut self, block: &Block<'_>) -> Result<(), RecordError> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        self.waiting.write(block, recording)?;
        let (given, numbers) = (&mut self.given, &*self.numbers);
        let mut count = |packets: u64, bytes: u64| {
            *given += packets;
            numbers.packets.fetch_add(packets, Ordering::Relaxed);
            numbers.bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        if let Some(cutoffs) = &mut self.cutoffs {
            let cut = &mut self.cut;
            let kept = block
                .packets_with_options()
                .filter_map(|(mut packet, options)| {
                    if !cutoffs.keeps(&mut packet) {
                        cut.add(Cut {
                            packets: 1,
                            bytes: u64::from(packet.len),
                        });
                        return None;
                    }
                    count(1, packet.data.len() as u64);
                    Some(Ok::<_, RecordError>((packet, options)))
                });
            return recording.write_packets(kept).map(drop);
        }
        if recording.takes_runs()
            && let Some(runs) = block.runs()
        {
            let written = |run: &PacketRun<'_>| count(run.len() as u64, run.captured_bytes());
            return recording.write_runs(runs, written);
        }
        let packets = block.packets_with_options().map(|(packet, options)| {
            count(1, packet.data.len() as u64);
            Ok::<_, RecordError>((packet, options))
        });
        recording.write_packets(packets).map(drop)
    }

    /// Notes in the catalogue which packets were cut, once a second and at the end.
    fn note_cuts(&mut self, is_last: bool) {
        let Some(cutoffs) = &mut self.cutoffs else {
            return;
        };
        *lock(&self.numbers.cuts) = Cuts {
            cut: self.cut,
            shortened: cutoffs.shortened(),
            evicted: cutoffs.evicted(),
        };
        if !is_last && self.noted.elapsed() < NOTE {
            return;
        }
        self.noted = Instant::now();
        let tally = cutoffs.take();
        let Some(times) = tally.times else { return };
        if !self.archive.cut(self.stream.device(), times, tally.cut) {
            cutoffs.give_back(tally);
        }
    }

    fn tick(&mut self, stats: Stats) -> Result<(), RecordError> {
        *lock(&self.numbers.stats) = stats;
        self.note_cuts(false);
        self.counted = Counters {
            received: stats.received,
            hook: stats.dropped.hook,
            sampling: stats.dropped.sampling,
            ring: stats.dropped.ring,
            interface: stats.dropped.interface,
            cut: self.cut,
        };
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        recording.count(self.counted);
        recording.end_of_window(settled(self.timeout))
    }

    /// Completes the last file.
    pub(super) fn finish(&mut self, stats: Stats) {
        if let Some(alerts) = self.alerts.take() {
            alerts.end();
        }
        *lock(&self.numbers.stats) = stats;
        if let Err(error) = self.tick(stats) {
            self.failed(&error);
        }
        self.note_cuts(true);
        let Some(recording) = self.recording.take() else {
            return;
        };
        if let Err(error) = recording.finish() {
            let intact = error.intact_packets().unwrap_or(0);
            self.lose(self.given.saturating_sub(intact));
            let fields = Fields::default().with("interface", &self.name);
            warning(&fields, format_args!("{}: {error}", self.name));
            let _ = self.archive.give_up_device(self.stream.device());
        }
    }
}

impl Receiver for Device {
    type Error = RecorderError;

    fn look(&mut self, source: &mut dyn Source) -> Result<bool, RecorderError> {
        if let Some(Err(error)) = self.recording.as_ref().map(Recording::check) {
            self.failed(&error);
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            if let Some(alerts) = &mut self.alerts {
                alerts.tick();
            }
            self.numbers.ticks.fetch_add(1, Ordering::Relaxed);
            if self.recording.is_none() {
                self.archive
                    .check_folder()
                    .map_err(RecorderError::folder(self.archive.folder()))?;
                self.start_again();
            }
            let stats = source.stats()?;
            if let Some(watch) = &mut self.watch {
                watch.tick(&stats, self.numbers.lost.load(Ordering::Relaxed));
            }
            if let Err(error) = self.tick(stats) {
                self.failed(&error);
            }
        }
        Ok(false)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<bool, RecorderError> {
        if let Some(watch) = &mut self.watch {
            watch.block(block);
        }
        if let Some(alerts) = &mut self.alerts {
            alerts.block(block);
        }
        let before = self.given + self.cut.packets;
        let packets = block.len() as u64;
        if self.recording.is_none() {
            self.lose(packets);
        } else if let Err(error) = self.write(block) {
            // Those of the block that were not given to the recording are lost too.
            let taken = (self.given + self.cut.packets).saturating_sub(before);
            self.lose(packets.saturating_sub(taken));
            self.failed(&error);
        }
        Ok(false)
    }

    fn interfaces(&mut self, interfaces: &[Interface]) -> Result<(), RecorderError> {
        self.interfaces = interfaces.to_vec();
        if let Some(watch) = &mut self.watch {
            watch.interfaces(interfaces);
        }
        if let Some(alerts) = &mut self.alerts {
            alerts.interfaces(interfaces);
        }
        if let Some(cutoffs) = &mut self.cutoffs {
            cutoffs.interfaces(interfaces);
        }
        if let Some(recording) = &mut self.recording
            && let Err(error) = recording.describe(interfaces)
        {
            self.failed(&error);
        }
        Ok(())
    }

    fn meta(&mut self, item: &Item<'_>) -> Result<(), RecorderError> {
        if let Item::Other(block) = item
            && let Some(process) = ProcessBlock::parse(block)
        {
            self.waiting.add(&process.tag, block.bytes());
        }
        Ok(())
    }

    fn interrupted(&mut self, error: &Error) {
        interrupted(error);
    }
}

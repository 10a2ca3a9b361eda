//! Where packets come from: a device, files, or other exporters.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_capture::{
    Block, CaptureOptions, FileSource, Filter, Interface, Item, Next, Precision, ReadOptions,
    Readers, Source, Stats, Waker,
};
use ringtap_flow::export::Enterprise;
use ringtap_flow::{Counters, InspectOptions, MeterOptions};
use ringtap_flow_io::Collector;
use ringtap_look::{Feed, Tick};
use ringtap_sys::poll::{self, Interest};

use super::error::LookError;
use super::pump::Pump;
use super::taps::Taps;
use crate::cli::LookArgs;
use crate::flow::plan::{PROCESSES, tunnels};
use crate::flow::probe::{nanos, now_ns};
use crate::input::{self, Interruption};
use crate::live::{self, LiveRun, Receiver};
use crate::notice::notice;
use crate::rights::{self, Rights};
use crate::setup::{setup, waker};
use crate::signals::Requests;
use crate::values::CpuList;

/// A whole Ethernet frame, with tags or in a tunnel: names are in payloads.
const SNAPLEN: u32 = 1600;
/// How long packets wait at most.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Bytes that are worth a delivery.
const MIN_TO_COPY: u32 = 64 << 10;
/// Memory for packets that wait.
const BUFFER: u64 = 64 << 20;
/// How often signals and the clock are looked at while no records come.
const TICK: Duration = Duration::from_millis(200);
/// How long a reader of files waits for a tap whose queue is full.
const FULL: Duration = Duration::from_millis(5);

/// Returns the options of a view's meter.
fn meter_options(args: &LookArgs) -> MeterOptions {
    MeterOptions::default()
        .flows(args.flows)
        .inactive(args.inactive)
        .both_ways(true)
        .measure_tcp(true)
        .interim(true)
        .inspect(Some(InspectOptions::default()))
        .tunnels(tunnels(&args.tunnels))
        .processes(args.who.map_or(0, |_| PROCESSES))
        .seed(RandomState::new().hash_one(0))
}

/// Returns the options of a live capture.
pub(super) fn capture_options(args: &LookArgs) -> CaptureOptions {
    let capture = &args.capture;
    CaptureOptions::default()
        .snaplen(capture.snaplen.unwrap_or(SNAPLEN))
        .buffer(capture.buffer.map_or(BUFFER, |size| size.0))
        .timeout(TIMEOUT)
        .min_to_copy(MIN_TO_COPY)
        .promiscuous(!capture.no_promiscuous)
        .direction(capture.direction)
        .mode(capture.mode)
        .force(capture.force)
        .precision(Precision::Poll)
        .who(args.who.map(|who| who.recorded))
        .cpus(CpuList::of(capture.cpu.as_ref()))
}

/// A device that was opened.
pub(super) struct Device {
    pub(super) readers: Readers,
    pub(super) options: CaptureOptions,
    index: u32,
}

impl Device {
    /// Opens a device, with the rights that takes.
    pub(super) fn open(
        args: &LookArgs,
        device: &str,
        filter: Option<&Filter>,
        is_explained: bool,
        rights: &Rights,
    ) -> Result<Self, LookError> {
        let options = rights.name_containers(capture_options(args));
        let numbered = crate::devices::by_number(device);
        let device = numbered.as_deref().unwrap_or(device);
        let readers = live::open(device, &options, filter, (1, is_explained))?;
        let placed = options.place_thread();
        placed.map_err(|source| setup("place the capture thread", source))?;
        Ok(Self {
            readers,
            options,
            index: crate::devices::index_of(device),
        })
    }

    /// Lets taps be made.
    pub(super) fn supply(&self, taps: &Taps) {
        taps.interfaces(self.readers.first().interfaces());
    }

    /// Meters its packets until the end is asked for.
    pub(super) fn run(
        mut self,
        args: &LookArgs,
        feed: Feed,
        taps: &Arc<Taps>,
        requests: Requests,
    ) -> Result<Outcome, LookError> {
        let mut pump = Pump::new(&meter_options(args), feed, Arc::clone(taps), false)?;
        pump.interfaces.device = Some(self.index);
        pump.interfaces.learn(self.readers.first().interfaces());
        let live = LiveRun::new(&self.readers, requests, &self.options);
        let mut watch = Watch {
            pump: &mut pump,
            taps,
        };
        let result = match self.readers.sources.first_mut() {
            Some(source) => live.read(&mut **source, &mut watch),
            None => Ok(()),
        };
        let stats = self.readers.stats().unwrap_or_default();
        pump.finish(now_ns(), &stats);
        result.map(|()| Outcome {
            counters: pump.counters(),
            stats,
        })
    }
}

/// The counters of a run.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) counters: Counters,
    pub(super) stats: Stats,
}

/// The reader of a capture.
struct Watch<'a> {
    pump: &'a mut Pump,
    taps: &'a Taps,
}

impl Receiver for Watch<'_> {
    type Error = LookError;

    fn look(&mut self, source: &mut dyn Source) -> Result<bool, LookError> {
        if self.pump.take_tick() {
            let stats = source.stats()?;
            self.pump.tick(now_ns(), &stats);
        }
        Ok(false)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<bool, LookError> {
        self.pump.block(block);
        Ok(false)
    }

    fn meta(&mut self, item: &Item<'_>) -> Result<(), LookError> {
        self.pump.meta(item);
        Ok(())
    }

    fn nothing(&mut self) -> Result<(), LookError> {
        self.pump.advance(now_ns());
        Ok(())
    }

    fn interfaces(&mut self, interfaces: &[Interface]) -> Result<(), LookError> {
        self.pump.interfaces.learn(interfaces);
        self.taps.interfaces(interfaces);
        Ok(())
    }
}

/// Files that were opened.
pub(super) struct Files {
    sources: Vec<FileSource>,
    paths: Vec<PathBuf>,
    filter: Option<Filter>,
    /// Wakes its reader.
    pub(super) interrupt: Waker,
    requests: Requests,
}

impl Files {
    /// Opens the files of the command line; rights were given up before.
    pub(super) fn open(
        args: &LookArgs,
        filter: Option<&Filter>,
        requests: &Requests,
    ) -> Result<Self, LookError> {
        let interrupt = waker()?;
        let mut paths = args.source.read.clone();
        if args.source.is_list {
            input::sort_by_time(&mut paths);
        }
        let mut files = Self {
            sources: Vec::new(),
            paths,
            filter: filter.cloned(),
            interrupt,
            requests: requests.clone(),
        };
        files.sources = files.open_all()?;
        Ok(files)
    }

    fn open_all(&self) -> Result<Vec<FileSource>, LookError> {
        let mut options = ReadOptions::default();
        options.map = Some(rights::MAP_WITH_LEASE);
        let open = |path: &PathBuf| {
            let interruption = Interruption::new(&self.interrupt, &self.requests);
            input::open_with(path, &options, self.filter.as_ref(), interruption)
        };
        Ok(self.paths.iter().map(open).collect::<Result<_, _>>()?)
    }

    /// Meters the packets. Then it reads the files again for those who want packets, until the end is asked for.
    pub(super) fn run(
        mut self,
        args: &LookArgs,
        feed: Feed,
        taps: &Taps,
    ) -> Result<Outcome, LookError> {
        let options = meter_options(args);
        let mut pump = Pump::new(&options, feed, Arc::default(), !args.replay)?;
        let mut pace = args.replay.then(Pace::default);
        let mut result = Ok(());
        let mut interfaces = Vec::new();
        for source in &mut self.sources {
            result = read(
                source,
                &mut pump,
                &mut pace,
                &self.requests,
                &self.interrupt,
            );
            if result.is_err() || self.requests.stop() {
                break;
            }
            interfaces.extend_from_slice(source.interfaces());
            pump.interfaces.next_source();
        }
        let stats = Stats::default();
        pump.finish(pump.now_ns(), &stats);
        result?;
        self.sources.clear();
        if !self.paths.iter().any(|path| input::may_be_silent(path)) {
            taps.of_files(interfaces, &self.interrupt);
        }
        while !self.requests.stop() {
            if taps.is_empty() {
                pause(&self.interrupt, None)?;
            } else if let Err(failed) = self.pass(taps) {
                notice(format_args!("packets for a view: {failed}"));
            }
        }
        Ok(Outcome {
            counters: pump.counters(),
            stats,
        })
    }

    /// Reads the files for the taps that were made.
    fn pass(&self, taps: &Taps) -> Result<(), LookError> {
        let mut pass = taps.begin_pass();
        if pass.is_over() {
            return Ok(());
        }
        let mut before = 0;
        for mut source in self.open_all()? {
            while !self.requests.stop() && !pass.is_over() {
                match source.next()? {
                    Next::Block(block) => pass.block(&block, before, &mut || {
                        let waited = pause(&self.interrupt, Some(FULL));
                        waited.is_err() || self.requests.stop()
                    }),
                    Next::End => break,
                    _ => {}
                }
            }
            before += u32::try_from(source.interfaces().len()).unwrap_or(0);
        }
        Ok(())
    }
}

/// When the packets of a file are due that is replayed.
#[derive(Default)]
struct Pace {
    /// The time of the first packet, and when it was taken.
    first: Option<(u64, Instant)>,
}

impl Pace {
    /// Returns how long the packets of a time are still to be waited for.
    fn wait(&mut self, time_ns: u64) -> Duration {
        let (first_ns, begun) = *self.first.get_or_insert_with(|| (time_ns, Instant::now()));
        let due = Duration::from_nanos(time_ns.saturating_sub(first_ns));
        due.saturating_sub(begun.elapsed())
    }

    /// Returns the time of packets that it is now.
    fn now_ns(&self) -> u64 {
        let Some((first_ns, begun)) = self.first else {
            return 0;
        };
        let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        first_ns.saturating_add(passed)
    }
}

fn read(
    source: &mut FileSource,
    pump: &mut Pump,
    pace: &mut Option<Pace>,
    requests: &Requests,
    interrupt: &Waker,
) -> Result<(), LookError> {
    pump.interfaces.learn(source.interfaces());
    while !requests.stop() {
        if pace.is_none() && pump.drain(source) {
            continue;
        }
        let has_grown = match source.next() {
            Ok(Next::Block(block)) => {
                match pace {
                    Some(pace) => replay(&block, pump, pace, requests, interrupt)?,
                    None => pump.block(&block),
                }
                false
            }
            Ok(Next::Meta(Item::Interface(_))) => true,
            Ok(Next::Meta(item)) => {
                pump.meta(&item);
                false
            }
            Ok(Next::End) => break,
            Ok(_) => false,
            // The stream was cut here, on request.
            Err(_) if requests.stop() => break,
            Err(error) => return Err(error.into()),
        };
        if has_grown {
            pump.interfaces.learn(source.interfaces());
        }
    }
    Ok(())
}

/// Meters the packets of a block, each when its time comes.
fn replay(
    block: &Block<'_>,
    pump: &mut Pump,
    pace: &mut Pace,
    requests: &Requests,
    interrupt: &Waker,
) -> Result<(), LookError> {
    for packet in block.packets() {
        let time_ns = nanos(packet.timestamp);
        loop {
            let wait = pace.wait(time_ns);
            if wait.is_zero() || requests.stop() {
                break;
            }
            pause(interrupt, Some(wait.min(TICK)))?;
            pump.advance(pace.now_ns().min(time_ns));
            if pump.take_tick() {
                pump.tick(pace.now_ns(), &Stats::default());
            }
        }
        if requests.stop() {
            break;
        }
        pump.packet(&packet);
        if pump.take_tick() {
            pump.tick(time_ns, &Stats::default());
        }
    }
    Ok(())
}

/// Waits for a signal, and that long at most.
fn pause(interrupt: &Waker, time: Option<Duration>) -> Result<(), LookError> {
    let waited = poll::wait([Interest::read(interrupt.as_fd())], time);
    waited.map_err(|source| setup("wait", source))?;
    interrupt.take();
    Ok(())
}

/// Takes the records of other exporters until the end is asked for.
pub(super) fn collect(
    mut collector: Collector,
    mut feed: Feed,
    requests: &Requests,
) -> Result<Outcome, LookError> {
    let mut counters = Counters::default();
    let mut second = 0;
    while !requests.stop() {
        collector.receive(&mut |record, _| {
            counters.packets += record.packets();
            counters.ip_packets += record.packets();
            counters.ip_bytes += record.bytes();
            counters.flows += 1;
            feed.collected(record);
        })?;
        let now = now_ns();
        if now / 1_000_000_000 != second {
            second = now / 1_000_000_000;
            feed.tick(Tick {
                now_ns: now,
                counters,
                ..Tick::default()
            });
        }
    }
    Ok(Outcome {
        counters,
        stats: Stats::default(),
    })
}

/// Binds the socket for records of other exporters.
pub(super) fn bind(
    address: &ringtap_flow_io::ListenAddress,
    allow: &[ringtap_flow_io::Network],
    enterprise: Option<Enterprise>,
) -> Result<Collector, LookError> {
    let collector = Collector::bind(address, allow, TICK)?;
    Ok(collector.with_enterprise(enterprise.unwrap_or_default()))
}

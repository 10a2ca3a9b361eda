//! A meter and its outputs. It takes blocks of packets, or single packets from a mapped file.

use std::time::{Duration, Instant};

use ringtap_capture::{Block, FileSource, Interface, Item, Packet, Timestamp, Visitor};
use ringtap_flow::{FlowSink, LinkType, Meter, Packet as MeteredPacket, PacketEnd};
use ringtap_savefile::ProcessBlock;
use ringtap_sys::memory;

use super::error::FlowError;
use super::feeder::Feeder;
use super::folders::Folders;
use super::outlets::Outlets;
use super::plan;
use super::summary::Summary;
use super::threads::Threads;
use crate::cli::FlowArgs;
use crate::notice::invalid_times;

/// The facts that packets of one interface share.
#[derive(Clone, Copy)]
pub(crate) struct InputInterface {
    link: LinkType,
    input: u32,
}

/// The interfaces of the sources.
#[derive(Default)]
pub(crate) struct InputInterfaces {
    /// Those of the present source.
    pub(crate) known: Vec<InputInterface>,
    /// The host's index of the captured interface; 0 if each packet contains it. `None` for files.
    pub(crate) device: Option<u32>,
    /// The number of interfaces of earlier sources.
    before: u32,
}

impl InputInterfaces {
    /// Starts another source.
    pub(crate) fn next_source(&mut self) {
        self.before += u32::try_from(self.known.len()).unwrap_or(0);
        self.known.clear();
    }

    /// Registers those of the source that are new.
    pub(crate) fn learn(&mut self, interfaces: &[Interface]) {
        let (before, device) = (self.before, self.device);
        let new = interfaces.iter().enumerate().skip(self.known.len());
        self.known
            .extend(new.map(|(number, interface)| InputInterface {
                link: interface.link_type,
                input: device.unwrap_or(before + u32::try_from(number + 1).unwrap_or(0)),
            }));
    }
}

/// One or several meters, the interfaces of the source, and the outputs.
pub(crate) struct Probe {
    work: Work,
    pub(crate) interfaces: InputInterfaces,
    /// The number of packets whose time has a fraction of a second or more.
    invalid_times: u64,
    reports: Option<(Duration, Instant)>,
    json: bool,
    /// Whether it has started.
    pub(crate) has_started: bool,
}

/// The kind of metering.
enum Work {
    /// On the thread that reads packets.
    Alone(Box<Alone>),
    /// On separate threads.
    Threads(Box<Threads>),
}

struct Alone {
    meter: Meter,
    outlets: Outlets,
    /// Whether packets have processes.
    knows_processes: bool,
}

impl Probe {
    /// Returns a probe on separate threads that this number of readers feeds.
    pub(crate) fn new(
        args: &FlowArgs,
        readers: usize,
        folders: Folders,
    ) -> Result<Self, FlowError> {
        let threads = args.meter.threads;
        let report = &args.report;
        let options = plan::meter_options(args);
        let outlets = Outlets::open(args, folders)?;
        let work = if threads > 1 || readers > 1 {
            let threads = Threads::new(&options, threads, readers, outlets)?;
            Work::Threads(Box::new(threads))
        } else {
            let meter = Meter::new(&options)?;
            prepare(&meter);
            Work::Alone(Box::new(Alone {
                meter,
                outlets,
                knows_processes: options.processes > 0,
            }))
        };
        Ok(Self {
            work,
            interfaces: InputInterfaces::default(),
            invalid_times: 0,
            reports: report.interval.map(|interval| (interval, Instant::now())),
            json: report.json_stats,
            has_started: false,
        })
    }

    /// Starts with the privileges that the caller has kept, unless it has started. The outputs lose their
    /// former content.
    pub(crate) fn start(&mut self) -> Result<(), FlowError> {
        if self.has_started {
            return Ok(());
        }
        self.has_started = true;
        match &mut self.work {
            Work::Alone(alone) => Ok(alone.outlets.outputs.begin()?),
            Work::Threads(threads) => threads.start(),
        }
    }

    /// Meters a block of packets.
    pub(crate) fn block(&mut self, block: &Block<'_>) -> Result<(), FlowError> {
        let (places, invalid) = (&self.interfaces.known, &mut self.invalid_times);
        match &mut self.work {
            Work::Alone(alone) => {
                let alone = &mut **alone;
                let (meter, outlets) = (&mut alone.meter, &mut alone.outlets);
                if alone.knows_processes {
                    block.packets().for_each(|packet| {
                        *invalid += u64::from(!packet.timestamp.is_valid());
                        meter_with_process(meter, places, &packet, outlets);
                    });
                } else {
                    block.drain(&mut Checked(invalid, ToMeter(places, meter, outlets)));
                }
                alone.advance_outputs()?;
            }
            Work::Threads(threads) => {
                if let Some(feeder) = threads.feeder() {
                    block.drain(&mut Checked(invalid, ToFeeder(places, feeder)));
                }
                threads.settle_if_due();
                if threads.has_failed() {
                    return threads.finish();
                }
            }
        }
        self.report_if_due()
    }

    /// Takes an item that is neither packets nor an interface: the description of a process.
    pub(crate) fn meta(&mut self, item: &Item<'_>) {
        if let Work::Alone(alone) = &mut self.work
            && alone.knows_processes
        {
            describe(&mut alone.meter, item);
        }
    }

    /// Meters the packets of a file that yields them one by one. Returns false if the file does not, or if
    /// [`ringtap_capture::Source::next`] is needed to find the reason.
    pub(crate) fn drain(&mut self, source: &mut FileSource) -> Result<bool, FlowError> {
        let alone = match &mut self.work {
            Work::Alone(alone) if !alone.knows_processes => &mut **alone,
            _ => return Ok(false),
        };
        let places = &self.interfaces.known;
        let to_meter = ToMeter(places, &mut alone.meter, &mut alone.outlets);
        if source.drain(&mut Checked(&mut self.invalid_times, to_meter)) == 0 {
            return Ok(false);
        }
        alone.advance_outputs()?;
        self.report_if_due().map(|()| true)
    }

    /// Advances the time when no packets come.
    pub(crate) fn advance(&mut self) -> Result<(), FlowError> {
        match &mut self.work {
            Work::Alone(alone) => {
                alone.meter.advance(now_ns(), &mut alone.outlets);
                alone.advance_outputs()?;
            }
            Work::Threads(threads) => threads.advance(now_ns()),
        }
        self.report_if_due()
    }

    /// Returns the feeders of several readers, each for a separate thread. They must be dropped before
    /// [`Probe::finish`].
    pub(crate) fn take_feeds(&mut self) -> Vec<Feed> {
        let places = &self.interfaces.known;
        let feed = |feeder| Feed {
            places: places.clone(),
            feeder,
        };
        match &mut self.work {
            Work::Alone(_) => Vec::new(),
            Work::Threads(threads) => threads.take_feeders().into_iter().map(feed).collect(),
        }
    }

    /// Does the regular work while other threads feed. Returns whether the outputs have failed.
    pub(crate) fn tend(&mut self) -> Result<bool, FlowError> {
        let mut has_failed = false;
        if let Work::Threads(threads) = &mut self.work {
            threads.try_advance_outputs(now_ns());
            has_failed = threads.has_failed();
        }
        self.report_if_due().map(|()| has_failed)
    }

    fn report_if_due(&mut self) -> Result<(), FlowError> {
        let Some((interval, last)) = self.reports else {
            return Ok(());
        };
        if last.elapsed() < interval {
            return Ok(());
        }
        self.reports = Some((interval, Instant::now()));
        match &mut self.work {
            Work::Alone(alone) => {
                alone.meter.settle(&mut alone.outlets);
                alone.outlets.print_tables()
            }
            Work::Threads(threads) => {
                threads.print_tables();
                Ok(())
            }
        }
    }

    /// Ends all flows, and prints the last tables.
    pub(crate) fn finish(&mut self) -> Result<(), FlowError> {
        self.start()?;
        match &mut self.work {
            Work::Alone(alone) => {
                alone.meter.flush(&mut alone.outlets);
                let went_on = alone.advance_outputs();
                let finished = alone.outlets.outputs.finish();
                let printed = alone.outlets.print_tables();
                went_on.and(finished.map_err(FlowError::from)).and(printed)
            }
            Work::Threads(threads) => threads.finish(),
        }
    }

    /// Reports the counters.
    pub(crate) fn summarise(&self, mut summary: Summary) {
        invalid_times(self.invalid_times);
        let (counters, memory, outputs) = match &self.work {
            Work::Alone(alone) => {
                let counters = alone.meter.counters();
                summary.readers = vec![counters.packets];
                let outputs = alone.outlets.outputs.report();
                (counters, alone.meter.memory(), outputs)
            }
            Work::Threads(threads) => {
                summary.readers = threads.readers();
                (threads.counters(), threads.memory(), threads.report())
            }
        };
        let text = summary.text(&counters, memory, &outputs, self.json);
        crate::notice::summary(&summary.json(&counters, memory, &outputs), text);
    }
}

/// A reader's side of a probe that several readers feed.
pub(crate) struct Feed {
    places: Vec<InputInterface>,
    feeder: Feeder,
}

impl Feed {
    /// Meters a block of packets.
    pub(crate) fn block(&mut self, block: &Block<'_>) {
        block.drain(&mut ToFeeder(&self.places, &mut self.feeder));
        self.feeder.settle_if_due();
    }

    /// Advances the time when no packets come. No older packet will come.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.feeder.advance(now_ns);
    }
}

impl Drop for Feed {
    /// Gives the meters the packets that have waited.
    fn drop(&mut self) {
        self.feeder.settle();
    }
}

impl Alone {
    /// Lets outputs send waiting records, by the clock of the packets.
    fn advance_outputs(&mut self) -> Result<(), FlowError> {
        let counters = self.meter.counters();
        let outputs = &mut self.outlets.outputs;
        outputs.set_statistics(counters.flows, counters.not_ip + counters.malformed);
        Ok(outputs.advance(self.meter.now_ns())?)
    }
}

/// Requests large pages for the memory of a meter.
pub(crate) fn prepare(meter: &Meter) {
    for addresses in meter.addresses() {
        // If the kernel has none, small pages work too.
        let _ = memory::prefer_large_pages(addresses);
    }
}

/// Counts packets with an invalid time before they are passed on.
struct Checked<'a, V>(&'a mut u64, V);

impl<V: Visitor> Visitor for Checked<'_, V> {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>) {
        *self.0 += u64::from(!packet.timestamp.is_valid());
        self.1.packet(packet);
    }
}

struct ToMeter<'a>(&'a [InputInterface], &'a mut Meter, &'a mut Outlets);

impl Visitor for ToMeter<'_> {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>) {
        let Self(places, meter, outlets) = self;
        meter.push(&metered(places, packet), *outlets);
    }
}

struct ToFeeder<'a>(&'a [InputInterface], &'a mut Feeder);

impl Visitor for ToFeeder<'_> {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>) {
        let Self(places, feeder) = self;
        feeder.push(&metered(places, packet));
    }
}

/// Meters a packet with its process, if that was recorded.
pub(crate) fn meter_with_process(
    meter: &mut Meter,
    places: &[InputInterface],
    packet: &Packet<'_>,
    sink: &mut impl FlowSink,
) {
    let metered = metered(places, packet);
    let process = packet.process.as_ref();
    match process.and_then(|process| Some((process, PacketEnd::of(packet.flags, process)?))) {
        Some((process, end)) => meter.push_of(&metered, process, end, sink),
        None => meter.push(&metered, sink),
    }
}

/// Passes the description of a process to a meter.
pub(crate) fn describe(meter: &mut Meter, item: &Item<'_>) {
    if let Item::Other(block) = item
        && let Some(process) = ProcessBlock::parse(block)
    {
        meter.describe(&process.tag, process.description);
    }
}

/// Returns a packet in the form of meters.
#[inline(always)]
pub(crate) fn metered<'p>(places: &[InputInterface], packet: &Packet<'p>) -> MeteredPacket<'p> {
    const UNKNOWN: InputInterface = InputInterface {
        link: LinkType(u16::MAX),
        input: 0,
    };
    let place = places.get(packet.interface as usize).unwrap_or(&UNKNOWN);
    MeteredPacket {
        data: packet.data,
        len: packet.len,
        time_ns: nanos(packet.timestamp),
        link: place.link,
        input: place.input,
    }
}

/// Returns the present time, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    nanos(Timestamp::now())
}

/// Returns nanoseconds since 1970. Times outside the range become its nearest end.
#[inline(always)]
pub(crate) fn nanos(time: Timestamp) -> u64 {
    const PER_SECOND: u64 = 1_000_000_000;
    const LAST: u64 = u64::MAX / PER_SECOND;
    let nanos = u64::from(time.subsec_nanos());
    match u64::try_from(time.secs()) {
        Ok(secs) if secs < LAST => secs * PER_SECOND + nanos,
        Ok(_) => u64::MAX,
        Err(_) => nanos,
    }
}

//! Passes a live capture to the outputs.

use std::iter::repeat_with;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringtap_capture::{
    Block, CaptureOptions, Description, Direction, Error, Filter, Interface, Item, LinkType,
    Readers, Source, Stats, Timestamp, devices,
};
use ringtap_record::{Gauge, Recording};
use ringtap_sys::napi::ReceiveThreads;
use ringtap_sys::privileges::Capability;

use super::error::{DumpError, UsageError};
use super::placement::receive_by_threads;
use super::plan::Plan;
use super::progress::Line;
use super::sink::Sink;
use super::summary::Summary;
use super::{After, explain, open_outputs, print_count, report};
use crate::cli::DumpArgs;
use crate::live::{self, LiveRun, Receiver};
use crate::losses::by_place;
use crate::notice::{announce, interrupted, notice, raw};
use crate::over_ip;
use crate::rights::{Entrusted, Needs, Rights};
use crate::setup::setup;
use crate::signals::Requests;
use crate::toolbar::Toolbar;

/// The source of the capture.
pub(crate) struct Request<'a> {
    pub(crate) device: Option<&'a str>,
    pub(crate) options: &'a CaptureOptions,
    pub(crate) threads: u16,
}

/// A buffer smaller than this, in bytes, hardly holds a packet of maximum length: KiB were meant.
const SMALL_BUFFER: u64 = 128 << 10;
/// How often counters and the clock are read, if the capture has several files.
const TICK: Duration = Duration::from_millis(100);

/// Captures to the outputs until the run is ended, and reports the counters.
pub(crate) fn run(
    args: &DumpArgs,
    plan: &Plan,
    request: &Request<'_>,
    filter: Option<&Filter>,
    rights: &mut Rights,
) -> Result<(), DumpError> {
    let listener = listen(args)?;
    let mut readers = open_readers(request, filter, args.report.explain_capture)?;
    let description = readers.first().describe();
    let interfaces = readers.first().interfaces().to_vec();
    // While the process may still request a priority; its threads inherit both.
    let placed = request.options.place_thread();
    placed.map_err(|source| setup("place the capture threads", source))?;
    // Dropped before the sources: the program that they were opened with exists until then.
    let mut receiving = receive_by_threads(&args.capture, &description.device)?;
    rights.entrust(&mut Kept {
        readers: &mut readers,
        receiving: &mut receiving,
        has_to_look: request.options.watch_chain,
    })?;
    let needs = Needs {
        serves: listener.is_some(),
        ..Needs::of_devices()
    };
    rights.relinquish(&[], needs)?;
    if args.report.explain_capture {
        explain(args, readers.first());
        raw(rights.explain());
    }
    let (mut sink, after) = open_outputs(args, plan, true, listener, rights)?;
    name_interfaces(&mut sink, &interfaces)?;
    sink.begin_source(filter.is_none());
    sink.interfaces(&interfaces)?;
    let requests = watch(args, &readers)?;
    // Programs that read the output may send a signal from now on.
    report_start(args, &description, request.options.direction);
    let gauge = sink.file.as_ref().and_then(Recording::gauge);
    let ticked = plan.output.writing.rotation.is_some().then(Instant::now);
    let run = DumpRun {
        sink: Mutex::new(sink),
        live: LiveRun::new(&readers, requests, request.options),
        args,
        engine: description.engine,
        begun: Instant::now(),
        delivered: Arc::default(),
        interruptions: AtomicU64::new(0),
        ticked: ticked.map(Mutex::new),
        gauge,
    };
    if let Some(file) = &run.sink().file {
        let requests = run.live.requests.clone();
        file.on_failure(Box::new(move || requests.wake()));
    }
    let shown = run.gauge.clone().filter(|_| !plan.output.print);
    let line = shown.and_then(|gauge| Line::show(Arc::clone(&run.delivered), gauge));
    let result = run.read(&mut readers.sources);
    drop((line, receiving));
    let stats = run.until_the_end(readers.stats().unwrap_or_default());
    let summary = run.summary(stats);
    let sink = run.sink.into_inner();
    let sink = sink.unwrap_or_else(PoisonError::into_inner);
    end(args, sink, stats, summary, result, &after)
}

/// Listens for clients of the capture, if requested. A low port needs privileges.
fn listen(args: &DumpArgs) -> Result<Option<over_ip::Listener>, DumpError> {
    let Some(path) = &args.write else {
        return Ok(None);
    };
    over_ip::listen(path).map_err(|source| DumpError::Listen {
        path: path.clone(),
        source,
    })
}

/// Starts to watch for signals, and for the end of standard input if requested.
fn watch(args: &DumpArgs, readers: &Readers) -> Result<Requests, DumpError> {
    let requests = Requests::default();
    requests.watch(readers.wakers())?;
    if args.capture.session.until_eof {
        requests.watch_input()?;
    }
    Ok(requests)
}

/// Reports what captures, and how.
fn report_start(args: &DumpArgs, description: &Description, direction: Direction) {
    if !args.report.explain_capture {
        announce("capturing", description, direction);
    }
    warn_of_small_buffer(args);
}

fn warn_of_small_buffer(args: &DumpArgs) {
    if let Some(buffer) = args.capture.buffer.filter(|buffer| buffer.0 < SMALL_BUFFER) {
        let bytes = buffer.0;
        notice(format_args!(
            "-B {bytes} is {bytes} bytes; what other programs take for KiB is written -B {bytes}K"
        ));
    }
}

/// Completes the file, reports the counters, and waits for the commands of `-z`.
fn end(
    args: &DumpArgs,
    mut sink: Sink,
    stats: Stats,
    mut summary: Summary,
    result: Result<(), DumpError>,
    after: &After,
) -> Result<(), DumpError> {
    sink.count(&stats);
    let finished = sink.finish();
    summary.correct(&result, &finished);
    if let Some(toolbar) = &args.capture.session.toolbar {
        toolbar.end(summary.captured, &by_place(&summary.stats.dropped));
    }
    print_count(args, summary.captured)?;
    report(&summary, args.report.json_stats);
    let done = after.wait();
    result.and(finished.map(drop)).and(done)
}

/// The parts of a capture that need privileges until it ends.
struct Kept<'a> {
    readers: &'a mut Readers,
    receiving: &'a mut Option<ReceiveThreads>,
    has_to_look: bool,
}

impl Entrusted for Kept<'_> {
    fn capabilities(&self) -> Vec<Capability> {
        let mut keep = self.readers.required_capabilities();
        if self.receiving.is_some() {
            keep.extend([Capability::NET_ADMIN, Capability::SYS_NICE]);
        }
        keep
    }

    fn has_to_look(&self) -> bool {
        self.has_to_look || self.readers.has_to_look()
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.readers.watched()
    }

    fn look(&mut self) {
        self.readers.look();
        if let Err(error) = self.readers.look_at_chain() {
            interrupted(&error);
        }
    }

    fn entrusted(&mut self) {
        self.readers.entrusted();
    }

    fn put_back(&mut self) {
        // The program that the sources were opened with must exist until then.
        *self.receiving = None;
        self.readers.close();
    }
}

fn open_readers(
    request: &Request<'_>,
    filter: Option<&Filter>,
    is_explained: bool,
) -> Result<Readers, DumpError> {
    let chosen;
    let device = match request.device {
        Some(device) => {
            chosen = crate::devices::by_number(device).unwrap_or_else(|| device.to_owned());
            &chosen
        }
        None => {
            let name = devices::default_device().map_err(|e| setup("list the devices", e))?;
            chosen = name
                .ok_or(DumpError::Usage(UsageError::NoDevice))?
                .to_string();
            &chosen
        }
    };
    let (threads, options) = (usize::from(request.threads), request.options);
    let mut options = options.clone();
    if threads > 1 {
        // For each thread.
        options.buffer = options.buffer.saturating_mul(threads as u64);
        options.wait = options.wait.max(Some(options.timeout));
    }
    Ok(live::open(
        device,
        &options,
        filter,
        (threads, is_explained),
    )?)
}

/// Gives the printer the names of the interfaces, if packets contain only their numbers.
fn name_interfaces(sink: &mut Sink, interfaces: &[Interface]) -> Result<(), DumpError> {
    let cooked = |interface: &Interface| interface.link_type == LinkType::LINUX_SLL2;
    let Some(printed) = &mut sink.printed else {
        return Ok(());
    };
    if interfaces.iter().any(cooked) {
        let known = devices::list().map_err(|source| setup("list the devices", source))?;
        for device in known {
            printed.name_interface(device.index, &device.name.to_string());
        }
    }
    Ok(())
}

/// The state that the threads of a capture share.
struct DumpRun<'a> {
    sink: Mutex<Sink>,
    live: LiveRun<'a>,
    args: &'a DumpArgs,
    engine: &'static str,
    /// When the capture began.
    begun: Instant,
    /// The number of packets that the sources have yielded.
    delivered: Arc<AtomicU64>,
    /// The number of interruptions that were reported.
    interruptions: AtomicU64,
    /// When counters were last read, if files end by size or time.
    ticked: Option<Mutex<Instant>>,
    /// The state of the queue to the file, if there is one.
    gauge: Option<Arc<Gauge>>,
}

/// A thread of a capture.
struct DumpReader<'a> {
    run: &'a DumpRun<'a>,
    /// The number of interruptions that it has met.
    interruptions: u64,
}

impl Receiver for DumpReader<'_> {
    type Error = DumpError;

    fn look(&mut self, source: &mut dyn Source) -> Result<bool, DumpError> {
        let run = self.run;
        if run.gauge.as_ref().is_some_and(|gauge| gauge.has_failed()) {
            // Another thread may have reported it.
            return run.sink().check().map(|()| true);
        }
        if run.live.requests.take_report() {
            let summary = run.summary(run.live.stats(Some(source))?);
            report(&summary, run.args.report.json_stats);
        }
        if let Some(toolbar) = run.toolbar().filter(|toolbar| toolbar.is_due()) {
            let summary = run.summary(run.live.stats(Some(source))?);
            toolbar.show(summary.captured, &by_place(&summary.stats.dropped));
        }
        if run.is_time_to_tick() {
            return run.tick(run.live.stats(Some(source))?);
        }
        Ok(false)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<bool, DumpError> {
        let packets = block.len() as u64;
        self.run.delivered.fetch_add(packets, Ordering::Relaxed);
        let mut sink = self.run.sink();
        sink.block(block)?;
        Ok(sink.is_done())
    }

    fn interfaces(&mut self, interfaces: &[Interface]) -> Result<(), DumpError> {
        self.run.sink().interfaces(interfaces)
    }

    fn meta(&mut self, item: &Item<'_>) -> Result<(), DumpError> {
        self.run.sink().meta(item)
    }

    fn end(&mut self) -> bool {
        let mut sink = self.run.sink();
        let is_done = sink.is_done();
        if !is_done {
            sink.selector.end_at(Timestamp::now());
        }
        is_done
    }

    /// Reports an interruption once for all sources, since each of them meets it.
    fn interrupted(&mut self, error: &Error) {
        self.interruptions += 1;
        let told = &self.run.interruptions;
        if told.fetch_max(self.interruptions, Ordering::Relaxed) < self.interruptions {
            interrupted(error);
        }
    }
}

impl DumpRun<'_> {
    fn toolbar(&self) -> Option<&Toolbar> {
        self.args.capture.session.toolbar.as_ref()
    }

    /// Reads all sources until the end.
    fn read(&self, sources: &mut [Box<dyn Source>]) -> Result<(), DumpError> {
        let reader = || DumpReader {
            run: self,
            interruptions: 0,
        };
        match sources {
            [source] => self.live.read(&mut **source, &mut reader()),
            _ => self.live.read_all(sources, repeat_with(reader), || Ok(())),
        }
    }

    /// Returns whether the calling thread should pass the time to the files.
    fn is_time_to_tick(&self) -> bool {
        let Some(ticked) = &self.ticked else {
            return false;
        };
        let mut ticked = ticked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = ticked.elapsed() >= TICK;
        if is_time {
            *ticked = Instant::now();
        }
        is_time
    }

    /// Passes the counters and the time to the file. Returns whether the last file has ended.
    fn tick(&self, total: Stats) -> Result<bool, DumpError> {
        let mut sink = self.sink();
        sink.count(&total);
        sink.tick(live::settled(self.live.options.timeout))?;
        Ok(sink.is_done())
    }

    /// Returns the counters at the moment when the end was requested. Packets that came later, and were left
    /// out for that reason, do not count as received.
    fn until_the_end(&self, mut stats: Stats) -> Stats {
        if let (Some(late), Some(ring)) = (self.sink().selector.late(), stats.dropped.ring) {
            let delivered = self.delivered.load(Ordering::Relaxed);
            stats.received = Some(delivered.saturating_sub(late) + ring);
        }
        stats
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summary(&self, stats: Stats) -> Summary {
        let elapsed = self.begun.elapsed();
        self.sink().selector.summary(self.engine, elapsed, stats)
    }
}

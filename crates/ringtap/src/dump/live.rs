//! A live capture to the outputs.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    CaptureOptions, Error, Filter, Interface, Item, LinkType, Next, Source, Stats, Timestamp,
    devices, open_readers,
};
use ringtap_record::{Gauge, Recording};
use ringtap_sys::privileges::Capability;

use super::error::{DumpError, UsageError};
use super::placement::receive_by_threads;
use super::plan::Plan;
use super::progress::Line;
use super::sink::Sink;
use super::summary::Summary;
use super::{After, explain, open_outputs, print_count, report};
use crate::cli::DumpArgs;
use crate::ending::Ending;
use crate::notice::{announce, explain_refusal, interrupted, notice, raw};
use crate::rights::{Needs, Rights};
use crate::setup::setup;
use crate::signals::Requests;

/// What is to be captured.
pub(crate) struct Request<'a> {
    pub(crate) device: Option<&'a str>,
    pub(crate) options: &'a CaptureOptions,
    pub(crate) threads: u16,
}

/// A buffer below this, in bytes, holds hardly a packet of the greatest length: KiB were meant.
const SMALL_BUFFER: u64 = 128 << 10;
/// Beyond the time-out, how long a packet may take from its capture to here.
const GRACE: Duration = Duration::from_millis(100);
/// How often counters are read and the clock is looked at, where files follow one another.
const TICK: Duration = Duration::from_millis(100);

/// Captures to the outputs until it is told to end, and tells what was done.
pub(crate) fn run(
    args: &DumpArgs,
    plan: &Plan,
    request: &Request<'_>,
    filter: Option<&Filter>,
    rights: &mut Rights,
) -> Result<(), DumpError> {
    let opened = open_sources(request, filter);
    let mut sources = opened.inspect_err(|error| {
        if let (true, DumpError::Capture(error)) = (args.report.explain_capture, error) {
            explain_refusal(error);
        }
    })?;
    let description = sources[0].describe();
    let engine = description.engine;
    let interfaces = sources[0].interfaces().to_vec();
    // While the process may still ask for a priority; its threads inherit both.
    let placed = request.options.place_thread();
    placed.map_err(|source| setup("place the capture threads", source))?;
    // Dropped before the sources: what they were opened with stands until then.
    let receiving = receive_by_threads(&args.capture, &description.device)?;
    relinquish(rights, &*sources[0], receiving.is_some())?;
    if args.report.explain_capture {
        explain(args, &*sources[0]);
        raw(rights.explain());
    }
    let (mut sink, after) = open_outputs(args, plan, true, rights)?;
    name_interfaces(&mut sink, &interfaces)?;
    sink.begin_source(filter.is_none());
    sink.interfaces(&interfaces)?;
    let wakers = sources.iter().map(|source| source.waker()).collect();
    let requests = Requests::default();
    let watched = requests.watch(wakers);
    watched.map_err(|source| setup("watch for signals", source))?;
    // Whoever reads it may send a signal now.
    if !args.report.explain_capture {
        announce("capturing", &description, request.options.direction);
    }
    warn_of_small_buffer(args);
    let gauge = sink.file.as_ref().and_then(Recording::gauge);
    let begun = Instant::now();
    let (count, ticks) = (sources.len(), plan.output.writing.rotation.is_some());
    let run = DumpRun {
        sink: Mutex::new(sink),
        requests,
        options: request.options,
        args,
        begun,
        delivered: Arc::default(),
        interruptions: AtomicU64::new(0),
        counted: Mutex::new(vec![Stats::default(); count]),
        reports: AtomicUsize::new(0),
        answers: Mutex::new(Answers::new(count)),
        ticks,
        gauge,
    };
    if let Some(file) = &run.sink().file {
        let requests = run.requests.clone();
        file.on_failure(Box::new(move || requests.wake()));
    }
    let shown = run.gauge.clone().filter(|_| !plan.output.print);
    let line = shown.and_then(|gauge| Line::show(Arc::clone(&run.delivered), gauge));
    let result = run.pump_all(&mut sources);
    drop((line, receiving));
    let all = sources
        .iter_mut()
        .map(|source| source.stats().unwrap_or_default());
    let stats = run.until_the_end(Stats::of_all(all));
    let summary = run.summary(engine, stats);
    let sink = run.sink.into_inner();
    let sink = sink.unwrap_or_else(PoisonError::into_inner);
    end(args, sink, stats, summary, result, &after)
}

fn warn_of_small_buffer(args: &DumpArgs) {
    if let Some(buffer) = args.capture.buffer.filter(|buffer| buffer.0 < SMALL_BUFFER) {
        let bytes = buffer.0;
        notice(format_args!(
            "-B {bytes} is {bytes} bytes; what other programs take for KiB is written -B {bytes}K"
        ));
    }
}

/// Completes the file, reports what was done, and waits for the commands of `-z`.
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
    print_count(args, summary.captured)?;
    report(&summary, args.report.json_stats);
    let done = after.wait();
    result.and(finished.map(drop)).and(done)
}

/// Gives up what the capture needs no more. What has threads of the kernel receive packets needs to find
/// them at the end, and the right to put them back.
fn relinquish(rights: &Rights, source: &dyn Source, receiving: bool) -> Result<(), DumpError> {
    let mut keep = source.describe().required_capabilities.to_vec();
    let mut needs = Needs::of_devices();
    if receiving {
        keep.extend([Capability::NET_ADMIN, Capability::SYS_NICE]);
        needs.read.push("/proc".into());
    }
    Ok(rights.relinquish(&keep, needs)?)
}

fn open_sources(
    request: &Request<'_>,
    filter: Option<&Filter>,
) -> Result<Vec<Box<dyn Source>>, DumpError> {
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
    let options = CaptureOptions {
        // Of each thread.
        buffer: options.buffer.saturating_mul(threads as u64),
        wait: options.wait.max(Some(options.timeout)),
        ..options.clone()
    };
    Ok(open_readers(device, &options, filter, threads)?.sources)
}

/// Tells the printer what the interfaces are called, where packets only hold their numbers.
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

/// What the threads of a capture share.
struct DumpRun<'a> {
    sink: Mutex<Sink>,
    requests: Requests,
    options: &'a CaptureOptions,
    args: &'a DumpArgs,
    /// When the capture began.
    begun: Instant,
    /// Packets that the sources have handed out.
    delivered: Arc<AtomicU64>,
    /// Interruptions of the capture that were told of.
    interruptions: AtomicU64,
    /// The counters of each source, as last told.
    counted: Mutex<Vec<Stats>>,
    /// Reports that were asked for so far, each of which every thread has a part in.
    reports: AtomicUsize,
    answers: Mutex<Answers>,
    /// Whether files end by size or time.
    ticks: bool,
    /// What the way to the file does, where it leads through a queue.
    gauge: Option<Arc<Gauge>>,
}

/// What the sources have counted for a report.
struct Answers {
    report: usize,
    sources: Vec<Option<Stats>>,
}

impl Answers {
    fn new(sources: usize) -> Self {
        Self {
            report: 0,
            sources: vec![None; sources],
        }
    }

    /// Takes a source's counters; gives all together where these were the last that the report lacked.
    fn of(&mut self, report: usize, number: usize, stats: Stats) -> Option<Stats> {
        if report < self.report {
            // Another thread has seen that it was asked again; this one is about to.
            return None;
        }
        if report > self.report {
            self.report = report;
            self.sources.fill(None);
        }
        *self.sources.get_mut(number)? = Some(stats);
        let all: Option<Vec<Stats>> = self.sources.iter().copied().collect();
        all.map(Stats::of_all)
    }
}

impl DumpRun<'_> {
    fn pump_all(&self, sources: &mut [Box<dyn Source>]) -> Result<(), DumpError> {
        if let [source] = sources {
            return self.pump(&mut **source, 0);
        }
        thread::scope(|scope| {
            let mut spawned = Vec::new();
            for (number, source) in sources.iter_mut().enumerate() {
                spawned.push(scope.spawn(move || {
                    self.pin(number)?;
                    self.pump(&mut **source, number)
                }));
            }
            let mut result = Ok(());
            for thread in spawned {
                let ended = thread.join();
                result = result.and(ended.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            result
        })
    }

    /// Gives each of several threads a processor of its own, as far as there are enough.
    fn pin(&self, number: usize) -> Result<(), DumpError> {
        let cpus = &self.options.cpus;
        let Some(index) = number.checked_rem(cpus.len()) else {
            return Ok(());
        };
        let pinned = ringtap_sys::sched::set_affinity(&cpus[index..=index]);
        pinned.map_err(|source| setup("bind a capture thread to its processor", source).into())
    }

    /// Reads one source until the end; when it is the first to end, the others follow.
    fn pump(&self, source: &mut dyn Source, number: usize) -> Result<(), DumpError> {
        let result = self.pump_blocks(source, number);
        self.requests.ask_stop();
        result
    }

    fn pump_blocks(&self, source: &mut dyn Source, number: usize) -> Result<(), DumpError> {
        let mut ending: Option<Ending> = None;
        let (mut delivered, mut answered) = (0, 0);
        let mut interruptions = 0;
        let mut ticked = Instant::now();
        loop {
            if self.gauge.as_ref().is_some_and(|gauge| gauge.has_failed()) {
                // Another thread may have told.
                return self.sink().check();
            }
            if self.requests.stop() && ending.is_none() {
                let mut sink = self.sink();
                if sink.is_done() {
                    return Ok(());
                }
                sink.end_at(Timestamp::now());
                ending = Some(Ending::asked(&source.stats()?, self.options.timeout));
            }
            if ending.is_some_and(|ending| ending.is_over(delivered)) {
                return Ok(());
            }
            self.answer_report(source, number, &mut answered)?;
            if self.ticks && ticked.elapsed() >= TICK {
                ticked = Instant::now();
                if self.tick(number, source.stats()?)? {
                    return Ok(());
                }
            }
            let mut has_grown = false;
            match source.next() {
                Ok(Next::Block(block)) => {
                    let packets = block.len() as u64;
                    delivered += packets;
                    self.delivered.fetch_add(packets, Ordering::Relaxed);
                    let mut sink = self.sink();
                    sink.block(&block)?;
                    if sink.is_done() {
                        return Ok(());
                    }
                }
                Ok(Next::End) => return Ok(()),
                Ok(Next::TimedOut) if ending.is_some_and(|end| end.is_over_at_a_time_out()) => {
                    return Ok(());
                }
                Ok(Next::Meta(Item::Interface(_))) => has_grown = true,
                Ok(_) => {}
                Err(error) if error.is_transient() => {
                    interruptions += 1;
                    self.interrupted(interruptions, &error);
                }
                Err(error) => return Err(error.into()),
            }
            if has_grown {
                self.sink().interfaces(source.interfaces())?;
            }
        }
    }

    /// Where a report was asked for after the one that the thread has `answered`, adds its source's
    /// counters; the last of the threads prints.
    fn answer_report(
        &self,
        source: &mut dyn Source,
        number: usize,
        answered: &mut usize,
    ) -> Result<(), DumpError> {
        if self.requests.take_report() {
            self.reports.fetch_add(1, Ordering::Relaxed);
        }
        let asked = self.reports.load(Ordering::Relaxed);
        if asked == *answered {
            return Ok(());
        }
        *answered = asked;
        let stats = source.stats()?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let total = answers.of(asked, number, stats);
        drop(answers);
        if let Some(total) = total {
            let engine = source.describe().engine;
            report(&self.summary(engine, total), self.args.report.json_stats);
        }
        Ok(())
    }

    /// Tells the file what a source has counted and what the time is; gives whether that was the end
    /// of the last file.
    fn tick(&self, number: usize, stats: Stats) -> Result<bool, DumpError> {
        let total = {
            let mut all = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(one) = all.get_mut(number) {
                *one = stats;
            }
            Stats::of_all(all.iter().copied())
        };
        let mut sink = self.sink();
        sink.count(&total);
        // What was captured before the end of a window may be on its way.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since
            .unwrap_or_default()
            .saturating_sub(self.options.timeout + GRACE);
        sink.tick(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))?;
        Ok(sink.is_done())
    }

    /// Tells of a source's interruption, its so manieth; once for all sources, since each meets it.
    fn interrupted(&self, number: u64, error: &Error) {
        if self.interruptions.fetch_max(number, Ordering::Relaxed) < number {
            interrupted(error);
        }
    }

    /// The counters as they were when the run was asked to end: what came while it ended, and was
    /// left out for that, was not received.
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

    fn summary(&self, engine: &'static str, stats: Stats) -> Summary {
        let sink = self.sink();
        Summary {
            engine,
            elapsed: self.begun.elapsed(),
            captured: sink.selector.taken(),
            bytes: sink.selector.taken_bytes(),
            sampled_out: sink.selector.sampled_out(),
            stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_late_does_not_spoil_the_next_report() {
        let counted = |packets| Stats {
            received: Some(packets),
            ..Stats::default()
        };
        let received = |total: Option<Stats>| total.map(|total| total.received);
        let mut answers = Answers::new(2);
        assert_eq!(received(answers.of(1, 0, counted(3))), None);
        // It was asked again before the other thread had answered.
        assert_eq!(received(answers.of(2, 0, counted(4))), None);
        assert_eq!(received(answers.of(1, 1, counted(10))), None);
        assert_eq!(received(answers.of(2, 1, counted(20))), Some(Some(24)));
    }
}

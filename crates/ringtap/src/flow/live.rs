//! Flows of a live capture.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    Block, CaptureOptions, Filter, Next, Source, Stats, Timestamp, Waker, devices,
};

use super::error::FlowError;
use super::plan;
use super::probe::Probe;
use super::readers;
use super::summary::Summary;
use crate::cli::FlowArgs;
use crate::ending::Ending;
use crate::notice::{announce, explain_refusal, interrupted, raw};
use crate::rights::{Needs, Rights};
use crate::setup::setup;
use crate::signals::Requests;

/// Meters the packets of a device until it is told to end.
pub(crate) fn run(
    args: &FlowArgs,
    device: &str,
    filter: Option<&Filter>,
    rights: &Rights,
) -> Result<(), FlowError> {
    let options = plan::capture_options(args);
    let numbered = crate::devices::by_number(device);
    let device = numbered.as_deref().unwrap_or(device);
    // First, so that files are not emptied for a device that cannot be captured on.
    let opened = readers::open(args, device, &options, filter);
    let mut readers = opened.inspect_err(|error| {
        if args.report.explain_capture {
            explain_refusal(error);
        }
    })?;
    let description = readers.first().describe();
    let engine = description.engine;
    let placed = options.place_thread();
    placed.map_err(|source| setup("place the capture thread", source))?;
    let needs = Needs {
        network: !args.records.export.is_empty(),
        ..Needs::of_devices()
    };
    rights.relinquish(&readers.required_capabilities(), needs)?;
    if args.report.explain_capture {
        raw(&description);
        raw(rights.explain());
    }
    let mut probe = Probe::new(args, readers.sources.len())?;
    let name = device.split_once(':').map_or(device, |(_, name)| name);
    let known = devices::by_name(name).or_else(|_| devices::by_name(device));
    // On "any", packets tell their interfaces themselves.
    probe.on_device(Some(known.map_or(0, |known| known.index)));
    probe.interfaces(readers.first().interfaces());
    let requests = Requests::default();
    let awake = Waker::new().map_err(|source| setup("make an eventfd", source))?;
    let mut wakers = readers.wakers();
    wakers.push(awake.clone());
    let watched = requests.watch(wakers);
    watched.map_err(|source| setup("watch for signals", source))?;
    // Whoever reads it may send a signal now.
    if !args.report.explain_capture {
        announce("metering", &description, options.direction);
    }
    probe.start()?;
    let begun = Instant::now();
    let summary = |stats| Summary {
        engine,
        elapsed: begun.elapsed(),
        readers: Vec::new(),
        stats,
    };
    let run = FlowRun {
        requests,
        awake,
        options,
    };
    let result = match &mut readers.sources[..] {
        [source] if readers.tap.is_none() => run.alone(&mut **source, &mut probe, &summary),
        _ => run.shared(&mut readers, &mut probe, &summary),
    };
    let finished = probe.finish();
    let stats = readers.stats().unwrap_or_default();
    probe.summarise(summary(stats));
    result.and(finished)
}

/// A live run.
pub(super) struct FlowRun {
    pub(super) requests: Requests,
    /// Ends a wait of the thread that looks after the others.
    pub(super) awake: Waker,
    pub(super) options: CaptureOptions,
}

/// What a source has for the one who pumps it.
pub(super) enum Came<'a, 'b> {
    Block(&'a Block<'b>),
    /// No packet for the time of a wait.
    Nothing,
    /// Somebody asks for the counters, which are these.
    Asked(Stats),
}

impl FlowRun {
    /// Meters the packets of one source on this thread.
    fn alone(
        &self,
        source: &mut dyn Source,
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        self.pump(source, true, &mut |came| match came {
            Came::Block(block) => probe.block(block),
            Came::Nothing => probe.advance(now()),
            Came::Asked(stats) => {
                probe.summarise(summary(stats));
                Ok(())
            }
        })
    }

    /// Takes packets until the end, and then what had been captured before it. One of several readers
    /// is the first, which speaks for all.
    pub(super) fn pump(
        &self,
        source: &mut dyn Source,
        is_first: bool,
        take: &mut dyn FnMut(Came<'_, '_>) -> Result<(), FlowError>,
    ) -> Result<(), FlowError> {
        let mut delivered = 0;
        let mut ending: Option<Ending> = None;
        loop {
            if self.requests.stop() && ending.is_none() {
                ending = Some(Ending::asked(&source.stats()?, self.options.timeout));
            }
            if ending.is_some_and(|ending| ending.is_over(delivered)) {
                return Ok(());
            }
            if is_first && self.requests.take_report() {
                take(Came::Asked(source.stats()?))?;
            }
            match source.next() {
                Ok(Next::Block(block)) => {
                    delivered += block.len() as u64;
                    take(Came::Block(&block))?;
                }
                Ok(Next::End) => return Ok(()),
                Ok(Next::TimedOut) if ending.is_some_and(|end| end.is_over_at_a_time_out()) => {
                    return Ok(());
                }
                Ok(_) => take(Came::Nothing)?,
                Err(error) if error.is_transient() && is_first => interrupted(&error),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

pub(super) fn now() -> Timestamp {
    at(SystemTime::now())
}

/// A time as packets have it.
pub(super) fn at(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        since.subsec_nanos(),
    )
}

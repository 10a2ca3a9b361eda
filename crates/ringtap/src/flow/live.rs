//! Meters the flows of a live capture.

use std::time::Instant;

use ringtap_capture::{Block, Filter, Item, Source, Stats, Waker};

use super::error::FlowError;
use super::folders::Folders;
use super::plan;
use super::probe::Probe;
use super::readers::wait;
use super::summary::Summary;
use crate::cli::FlowArgs;
use crate::live::{self, LiveRun, Receiver};
use crate::notice::{announce, raw};
use crate::rights::{Needs, Rights};
use crate::setup::{setup, waker};
use crate::signals::Requests;

/// Meters the packets of a device until the run is ended.
pub(crate) fn run(
    args: &FlowArgs,
    device: &str,
    filter: Option<&Filter>,
    rights: &Rights,
) -> Result<(), FlowError> {
    let options = rights.name_containers(plan::capture_options(args));
    let numbered = crate::devices::by_number(device);
    let device = numbered.as_deref().unwrap_or(device);
    // First, so that files are not emptied if the device cannot be captured.
    let threads = usize::from(args.meter.threads);
    let waits = (threads > 1).then(|| wait(&options));
    let options = options.wait(waits);
    let is_explained = args.report.explain_capture;
    let mut readers = live::open(device, &options, filter, (threads, is_explained))?;
    let description = readers.first().describe();
    let engine = description.engine;
    let placed = options.place_thread();
    placed.map_err(|source| setup("place the capture thread", source))?;
    let needs = Needs {
        network: !args.records.export.is_empty(),
        ..Needs::of_devices()
    };
    rights.entrust(&mut readers)?;
    let folders = Folders::open(args)?;
    rights.relinquish(&[], needs)?;
    if args.report.explain_capture {
        raw(&description);
        raw(rights.explain());
    }
    let mut probe = Probe::new(args, readers.sources.len(), folders)?;
    probe.interfaces.device = Some(crate::devices::index_of(device));
    probe.interfaces.learn(readers.first().interfaces());
    let requests = Requests::default();
    let awake = waker()?;
    let mut wakers = readers.wakers();
    wakers.push(awake.clone());
    requests.watch(wakers)?;
    // Programs that read the output may send a signal from now on.
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
    let live = LiveRun::new(&readers, requests, &options);
    let run = FlowRun { live, awake };
    let result = match &mut readers.sources[..] {
        [source] if readers.tap.is_none() => {
            let (requests, probe) = (&run.live.requests, &mut probe);
            let mut alone = Alone {
                requests,
                probe,
                summary: &summary,
            };
            run.live.read(&mut **source, &mut alone)
        }
        _ => run.shared(&mut readers, &mut probe, &summary),
    };
    let finished = probe.finish();
    let stats = readers.stats().unwrap_or_default();
    probe.summarise(summary(stats));
    result.and(finished)
}

/// A live run.
pub(super) struct FlowRun<'a> {
    pub(super) live: LiveRun<'a>,
    /// Ends a wait of the thread that watches the others.
    pub(super) awake: Waker,
}

/// The only reader of a capture; its thread also meters.
struct Alone<'a> {
    requests: &'a Requests,
    probe: &'a mut Probe,
    summary: &'a dyn Fn(Stats) -> Summary,
}

impl Receiver for Alone<'_> {
    type Error = FlowError;

    fn look(&mut self, source: &mut dyn Source) -> Result<bool, FlowError> {
        if self.requests.take_report() {
            self.probe.summarise((self.summary)(source.stats()?));
        }
        Ok(false)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<bool, FlowError> {
        self.probe.block(block).map(|()| false)
    }

    fn meta(&mut self, item: &Item<'_>) -> Result<(), FlowError> {
        self.probe.meta(item);
        Ok(())
    }

    fn nothing(&mut self) -> Result<(), FlowError> {
        self.probe.advance()
    }
}

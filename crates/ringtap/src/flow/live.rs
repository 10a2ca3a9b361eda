//! Flows of a live capture.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::{Description, Filter, Next, Source, Stats, Timestamp, devices, open};

use super::error::{FlowError, setup};
use super::probe::Probe;
use super::summary::Summary;
use super::{plan, relinquish};
use crate::cli::FlowArgs;
use crate::ending::Ending;
use crate::notice::{notice, raw};
use crate::signals::Requests;

/// Meters the packets of a device until it is told to end.
pub(crate) fn run(args: &FlowArgs, device: &str, filter: Option<&Filter>) -> Result<(), FlowError> {
    let options = plan::capture_options(args);
    let numbered = crate::devices::by_number(device);
    let device = numbered.as_deref().unwrap_or(device);
    // First, so that files are not emptied for a device that cannot be captured on.
    let mut source = open(device, &options, filter)?;
    let mut probe = Probe::new(args)?;
    let description = source.describe();
    let engine = description.engine;
    if args.report.explain_capture {
        raw(&description);
    } else {
        announce(&description);
    }
    let name = device.split_once(':').map_or(device, |(_, name)| name);
    let known = devices::by_name(name).or_else(|_| devices::by_name(device));
    // On "any", packets tell their interfaces themselves.
    probe.on_device(Some(known.map_or(0, |known| known.index)));
    probe.interfaces(source.interfaces());
    let placed = options.place_thread();
    placed.map_err(|source| setup("place the capture thread", source))?;
    relinquish(args)?;
    probe.start()?;
    let requests = Requests::default();
    let watched = requests.watch(vec![source.waker()]);
    watched.map_err(|source| setup("watch for signals", source))?;
    let begun = Instant::now();
    let summary = |stats| Summary {
        engine,
        elapsed: begun.elapsed(),
        stats,
    };
    let run = Run {
        requests,
        timeout: options.timeout,
    };
    let result = run.pump(&mut *source, &mut probe, &summary);
    let finished = probe.finish();
    let stats = source.stats().unwrap_or_default();
    probe.summarise(&summary(stats));
    result.and(finished)
}

/// Says in one line what captures and where, and what is not as it was asked for.
fn announce(description: &Description) {
    let link_type = description.link_types.first();
    let link_type = link_type.map(ToString::to_string).unwrap_or_default();
    let choice = description.choice.as_ref();
    let choice = choice.map_or(String::new(), |reason| format!(": {reason}"));
    notice(format_args!(
        "metering on {} (engine {}{choice}), link type {link_type}, snaplen {} bytes",
        description.device,
        description.engine,
        description.snaplen.unwrap_or(0)
    ));
    for note in &description.notes {
        notice(note);
    }
}

struct Run {
    requests: Requests,
    timeout: Duration,
}

impl Run {
    /// Meters until the end, and then what had been captured before it.
    fn pump(
        &self,
        source: &mut dyn Source,
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        let mut delivered = 0;
        let mut ending: Option<Ending> = None;
        loop {
            if self.requests.stop() && ending.is_none() {
                ending = Some(Ending::asked(&source.stats()?, self.timeout));
            }
            if ending.is_some_and(|ending| ending.is_over(delivered)) {
                return Ok(());
            }
            if self.requests.take_report() {
                probe.summarise(&summary(source.stats()?));
            }
            match source.next() {
                Ok(Next::Block(block)) => {
                    delivered += block.len() as u64;
                    probe.block(&block)?;
                }
                Ok(Next::End) => return Ok(()),
                Ok(Next::TimedOut) if ending.is_some_and(|end| end.is_over_at_a_time_out()) => {
                    return Ok(());
                }
                Ok(_) => probe.advance(now())?,
                Err(error) if error.is_transient() => notice(format_args!("{error}; waiting")),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::new(
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        since.subsec_nanos(),
    )
}

//! A live capture that several threads read: each its own rings of a tap, or its own packet socket.
//!
//! Each reader has a thread that takes packets where they lie, and gives what it read of their headers
//! to the meters. The thread that began looks after the tap, if it is one, and after reports and outputs.

use std::os::fd::AsFd as _;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use ringtap_capture::{
    CaptureOptions, Companion, Error, Filter, Readers, Source, Stats, open_readers,
};
use ringtap_sys::poll::{self, Interest};

use super::error::FlowError;
use super::live::{Came, FlowRun, at, now};
use super::probe::{Feed, Probe};
use super::summary::Summary;
use crate::cli::FlowArgs;
use crate::notice::interrupted;
use crate::setup::setup;

/// How long a reader without packets says nothing, where others wait to know what time it is.
const SHORT_WAIT: Duration = Duration::from_millis(10);
/// How long a program may take from a packet's stamp until the packet is in the ring, as a rule: who
/// finds a ring empty knows of all packets from before.
const LATENESS: Duration = Duration::from_millis(2);
/// Opens a device for as many readers as there are threads and it has rings.
pub(super) fn open(
    args: &FlowArgs,
    device: &str,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Readers, Error> {
    let threads = usize::from(args.meter.threads);
    let options = CaptureOptions {
        wait: (threads > 1).then(|| wait(options)),
        ..options.clone()
    };
    open_readers(device, &options, filter, threads)
}

/// How long readers wait for packets.
fn wait(options: &CaptureOptions) -> Duration {
    if options.unordered {
        options.timeout
    } else {
        SHORT_WAIT
    }
}

impl FlowRun {
    /// Meters the packets of several readers, each on a thread of its own.
    pub(super) fn shared(
        &self,
        sources: &mut Readers,
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        let Readers { tap, sources } = sources;
        // A packet socket has packets that the reader is not told of until a block is full, or old.
        let lateness = match tap {
            Some(_) => LATENESS,
            None => LATENESS + wait(&self.options),
        };
        let companions = sources.iter().filter_map(|source| source.companion());
        let companions: Vec<Arc<dyn Companion>> = companions.collect();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut result = Ok(());
            let feeds = probe.take_feeds();
            for (number, (source, feed)) in sources.iter_mut().zip(feeds).enumerate() {
                let thread = thread::Builder::new().name(format!("reader {number}"));
                let work = move || self.read(&mut **source, feed, number, lateness);
                match thread.spawn_scoped(scope, work) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => result = Err(setup("start a thread", error).into()),
                }
            }
            while result.is_ok() && !self.requests.stop() {
                result = self.tend(tap.as_deref_mut(), &companions, probe, summary);
            }
            self.requests.ask_stop();
            for thread in threads {
                let ended = thread.join();
                let ended = ended.unwrap_or_else(|panic| resume_unwind(panic));
                result = result.and(ended);
            }
            result
        })
    }

    /// Reads one source until the end; when it is the first to end, the others follow.
    fn read(
        &self,
        source: &mut dyn Source,
        mut feed: Feed,
        number: usize,
        lateness: Duration,
    ) -> Result<(), FlowError> {
        let result = self.place(number).and_then(|()| {
            self.pump(source, false, &mut |came| {
                match came {
                    Came::Block(block) => feed.block(block),
                    Came::Nothing => feed.advance(at(SystemTime::now() - lateness)),
                    Came::Asked(_) => {}
                }
                Ok(())
            })
        });
        self.requests.ask_stop();
        result
    }

    /// Gives each of several threads a processor of its own, as far as there are enough.
    fn place(&self, number: usize) -> Result<(), FlowError> {
        let cpus = &self.options.cpus;
        let Some(index) = number.checked_rem(cpus.len()) else {
            return Ok(());
        };
        let placed = ringtap_sys::sched::set_affinity(&cpus[index..=index]);
        placed.map_err(|source| setup("bind a reader to its processor", source).into())
    }

    /// What is done beside reading, for as long as a wait.
    fn tend(
        &self,
        tap: Option<&mut (dyn Source + 'static)>,
        companions: &[Arc<dyn Companion>],
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        let asked = self.requests.take_report();
        match tap {
            Some(tap) => {
                if asked {
                    probe.summarise(summary(tap.stats()?));
                }
                match tap.next() {
                    Ok(_) => {}
                    Err(error) if error.is_transient() => interrupted(&error),
                    Err(error) => return Err(error.into()),
                }
            }
            None => {
                if asked {
                    let all: ringtap_capture::Result<Vec<_>> =
                        companions.iter().map(|one| one.stats()).collect();
                    probe.summarise(summary(Stats::of_all(all?)));
                }
                let interests = [Interest::read(self.awake.as_fd())];
                let waited = poll::wait(interests, Some(self.options.timeout));
                waited.map_err(|source| setup("wait", source))?;
                self.awake.take();
            }
        }
        if probe.tend(now())? {
            // What has failed tells it at the end.
            self.requests.ask_stop();
        }
        Ok(())
    }
}

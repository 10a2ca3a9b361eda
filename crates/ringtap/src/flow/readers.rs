//! A live capture with several reading threads. Each has its own rings of a tap, or its own packet socket.
//!
//! Each reader's thread takes packets where they lie, and gives the meters its observations. The first thread
//! looks after the tap, if there is one, and after reports and outputs.

use std::os::fd::AsFd as _;
use std::time::Duration;

use ringtap_capture::{Block, CaptureOptions, Error, Readers, Source, Stats};
use ringtap_sys::poll::{self, Interest};

use super::error::FlowError;
use super::live::FlowRun;
use super::probe::{Feed, Probe, now_ns};
use super::summary::Summary;
use crate::live::Receiver;
use crate::notice::interrupted;
use crate::setup::setup;

/// How long a reader without packets is silent, when others wait for its time.
const SHORT_WAIT: Duration = Duration::from_millis(10);
/// The usual maximum time from a packet's stamp until the packet is in the ring. A reader that finds its ring
/// empty has seen all packets from before.
const LATENESS: Duration = Duration::from_millis(2);

/// Returns how long each of several readers waits for packets.
pub(super) fn wait(options: &CaptureOptions) -> Duration {
    if options.unordered {
        options.timeout
    } else {
        SHORT_WAIT
    }
}

/// One of several readers.
struct FlowReader {
    feed: Feed,
    lateness_ns: u64,
}

impl Receiver for FlowReader {
    type Error = FlowError;

    fn block(&mut self, block: &Block<'_>) -> Result<bool, FlowError> {
        self.feed.block(block);
        Ok(false)
    }

    fn nothing(&mut self) -> Result<(), FlowError> {
        self.feed.advance(now_ns().saturating_sub(self.lateness_ns));
        Ok(())
    }

    /// Ignores the events of a tap: the thread that watches the others reports them.
    fn interrupted(&mut self, _: &Error) {}
}

impl FlowRun<'_> {
    /// Meters the packets of several readers, each on a separate thread.
    pub(super) fn shared(
        &self,
        readers: &mut Readers,
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        let Readers { tap, sources } = readers;
        // A packet socket may have packets that the reader cannot see until a block is full, or old.
        let lateness = match tap {
            Some(_) => LATENESS,
            None => LATENESS + wait(self.live.options),
        };
        let feeds = probe.take_feeds().into_iter();
        let lateness_ns = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        let receivers = feeds.map(|feed| FlowReader { feed, lateness_ns });
        self.live.read_all(sources, receivers, || {
            while !self.live.requests.stop() {
                self.tend(tap.as_deref_mut(), probe, summary)?;
            }
            Ok(())
        })
    }

    /// Does the work beside reading, for the length of one wait.
    fn tend(
        &self,
        mut tap: Option<&mut (dyn Source + 'static)>,
        probe: &mut Probe,
        summary: &dyn Fn(Stats) -> Summary,
    ) -> Result<(), FlowError> {
        if self.live.requests.take_report() {
            let stats = self.live.stats(tap.as_mut().map(|tap| &mut **tap as _))?;
            probe.summarise(summary(stats));
        }
        match tap.map(Source::next) {
            Some(Ok(_)) => {}
            Some(Err(error)) if error.is_transient() => interrupted(&error),
            Some(Err(error)) => return Err(error.into()),
            None => {
                let interests = [Interest::read(self.awake.as_fd())];
                let waited = poll::wait(interests, Some(self.live.options.timeout));
                waited.map_err(|source| setup("wait", source))?;
                self.awake.take();
            }
        }
        if probe.tend()? {
            // A failed output is reported at the end.
            self.live.requests.ask_stop();
        }
        Ok(())
    }
}

//! The loop with which dump, flow and gen read live captures: on one thread, or on one thread for each
//! reader.

use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    Block, CaptureOptions, Companion, Error, Filter, Interface, Item, Next, Readers, Source, Stats,
    open_readers,
};
use ringtap_sys::privileges::Capability;

use crate::ending::Ending;
use crate::notice::{explain_refusal, interrupted};
use crate::rights::Entrusted;
use crate::setup::{SetupError, setup};
use crate::signals::Requests;

/// Beyond the timeout, how long a packet may take from its capture to here.
const GRACE: Duration = Duration::from_millis(100);

/// Returns the second from before which all packets have come: later ones may be on their way.
pub(crate) fn settled(timeout: Duration) -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default().saturating_sub(timeout + GRACE);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Handles the packets of one reader.
pub(crate) trait Receiver {
    type Error: From<Error>;

    /// Does the work that is due before the next wait. Returns whether the run is over.
    fn look(&mut self, _: &mut dyn Source) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// Takes packets. Returns whether they were the last ones needed.
    fn block(&mut self, block: &Block<'_>) -> Result<bool, Self::Error>;

    /// Handles a wait without packets.
    fn nothing(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Registers the source's interfaces, when there are new ones.
    fn interfaces(&mut self, _: &[Interface]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Takes an item of the source that is neither packets nor an interface.
    fn meta(&mut self, _: &Item<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Handles the requested end. Returns whether to stop at once, without the packets that were captured
    /// before.
    fn end(&mut self) -> bool {
        false
    }

    /// Handles an event that interrupts the capture, which continues.
    fn interrupted(&mut self, error: &Error) {
        interrupted(error);
    }
}

impl Entrusted for Readers {
    fn capabilities(&self) -> Vec<Capability> {
        self.required_capabilities()
    }

    fn has_to_look(&self) -> bool {
        self.followed().is_some()
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.followed()
    }

    fn look(&mut self) {
        if let Err(error) = self.follow() {
            interrupted(&error);
        }
    }

    fn entrusted(&mut self) {
        self.leave_to_follower();
    }

    fn put_back(&mut self) {
        self.close();
    }
}

/// Opens a device for this number of readers. If `is_explained`, prints the verifier's log when a program is
/// rejected.
pub(crate) fn open(
    device: &str,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    (count, is_explained): (usize, bool),
) -> Result<Readers, Error> {
    let opened = open_readers(device, options, filter, count);
    opened.inspect_err(|error| {
        if is_explained {
            explain_refusal(error);
        }
    })
}

/// A running live capture.
pub(crate) struct LiveRun<'a> {
    pub(crate) requests: Requests,
    pub(crate) options: &'a CaptureOptions,
    /// Gives each thread the counters of all sources, if there are several.
    companions: Vec<Arc<dyn Companion>>,
}

impl<'a> LiveRun<'a> {
    pub(crate) fn new(readers: &Readers, requests: Requests, options: &'a CaptureOptions) -> Self {
        let several = Some(&readers.sources).filter(|sources| sources.len() > 1);
        let companions = several.into_iter().flatten();
        Self {
            requests,
            options,
            companions: companions.filter_map(|source| source.companion()).collect(),
        }
    }

    /// Returns the counters of all sources, including the one of this thread.
    pub(crate) fn stats(&self, source: Option<&mut dyn Source>) -> Result<Stats, Error> {
        match source {
            Some(source) if self.companions.is_empty() => source.stats(),
            _ => {
                let all = self.companions.iter().map(|one| one.stats());
                Ok(Stats::of_all(all.collect::<Result<Vec<_>, _>>()?))
            }
        }
    }

    /// Reads a source until the end, and then the packets that were captured before the end.
    pub(crate) fn read<R: Receiver>(
        &self,
        source: &mut dyn Source,
        receiver: &mut R,
    ) -> Result<(), R::Error> {
        let mut ending: Option<Ending> = None;
        let mut delivered = 0;
        loop {
            if receiver.look(source)? {
                return Ok(());
            }
            if self.requests.stop() && ending.is_none() {
                if receiver.end() {
                    return Ok(());
                }
                ending = Some(Ending::asked(&source.stats()?, self.options.timeout));
            }
            if ending.is_some_and(|ending| ending.is_over(delivered)) {
                return Ok(());
            }
            let mut has_grown = false;
            match source.next() {
                Ok(Next::Block(block)) => {
                    delivered += block.len() as u64;
                    if let Some(ending) = &mut ending {
                        ending.go_on();
                    }
                    if receiver.block(&block)? {
                        return Ok(());
                    }
                }
                Ok(Next::End) => return Ok(()),
                Ok(Next::TimedOut) if ending.is_some_and(|end| end.is_over_at_a_time_out()) => {
                    return Ok(());
                }
                Ok(Next::Meta(Item::Interface(_))) => has_grown = true,
                Ok(Next::Meta(item)) => receiver.meta(&item)?,
                Ok(_) => receiver.nothing()?,
                Err(error) if error.is_transient() => receiver.interrupted(&error),
                Err(error) => return Err(error.into()),
            }
            if has_grown {
                receiver.interfaces(source.interfaces())?;
            }
        }
    }

    /// Reads each source on its own thread. When the first ends, the others end too. The calling thread runs
    /// `meanwhile`.
    pub(crate) fn read_all<R: Receiver + Send>(
        &self,
        sources: &mut [Box<dyn Source>],
        receivers: impl IntoIterator<Item = R>,
        meanwhile: impl FnOnce() -> Result<(), R::Error>,
    ) -> Result<(), R::Error>
    where
        R::Error: From<SetupError> + Send,
    {
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut result = Ok(());
            for (number, (source, mut receiver)) in sources.iter_mut().zip(receivers).enumerate() {
                let thread = thread::Builder::new().name(format!("reader {number}"));
                let work = move || {
                    let placed = self.place(number).map_err(R::Error::from);
                    let read = placed.and_then(|()| self.read(&mut **source, &mut receiver));
                    self.requests.ask_stop();
                    read
                };
                match thread.spawn_scoped(scope, work) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => result = Err(setup("start a thread", error).into()),
                }
            }
            result = result.and_then(|()| meanwhile());
            if result.is_err() {
                self.requests.ask_stop();
            }
            for thread in threads {
                let ended = thread.join();
                let ended = ended.unwrap_or_else(|panic| resume_unwind(panic));
                result = result.and(ended);
            }
            result
        })
    }

    /// Gives each of several threads its own processor, if there are enough.
    fn place(&self, number: usize) -> Result<(), SetupError> {
        let cpus = &self.options.cpus;
        let Some(index) = number.checked_rem(cpus.len()) else {
            return Ok(());
        };
        let placed = ringtap_sys::sched::set_affinity(&cpus[index..=index]);
        placed.map_err(|source| setup("bind a reader to its processor", source))
    }
}

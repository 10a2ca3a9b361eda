//! The loop by which dump, flow and gen read live captures: on one thread, or each reader on its own.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use ringtap_capture::{
    Block, CaptureOptions, Companion, Error, Filter, Interface, Item, Next, Readers, Source, Stats,
    open_readers,
};

use crate::ending::Ending;
use crate::notice::{explain_refusal, interrupted};
use crate::setup::{SetupError, setup};
use crate::signals::Requests;

/// What takes the packets of one reader.
pub(crate) trait Receiver {
    type Error: From<Error>;

    /// Does what is due before the next wait; returns whether the run is over.
    fn look(&mut self, _: &mut dyn Source) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// Takes packets; returns whether they were the last that are wanted.
    fn block(&mut self, block: &Block<'_>) -> Result<bool, Self::Error>;

    /// A wait has ended without packets.
    fn nothing(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The source has further interfaces; these are all.
    fn interfaces(&mut self, _: &[Interface]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end is asked for; returns whether it has come: nothing more is wanted of what was captured before.
    fn end(&mut self) -> bool {
        false
    }

    /// Something interrupts the capture, which goes on.
    fn interrupted(&mut self, error: &Error) {
        interrupted(error);
    }
}

/// Opens a device for so many readers; prints the verifier's log of a refusal where that `is_explained`.
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

/// A live capture that runs.
pub(crate) struct LiveRun<'a> {
    pub(crate) requests: Requests,
    pub(crate) options: &'a CaptureOptions,
    /// Tell any thread the counters of all sources, where there are several.
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

    /// Returns the counters of all sources, among them the one that the thread has.
    pub(crate) fn stats(&self, source: Option<&mut dyn Source>) -> Result<Stats, Error> {
        match source {
            Some(source) if self.companions.is_empty() => source.stats(),
            _ => {
                let all = self.companions.iter().map(|one| one.stats());
                Ok(Stats::of_all(all.collect::<Result<Vec<_>, _>>()?))
            }
        }
    }

    /// Reads a source until the end, and then what had been captured before it.
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
                    if receiver.block(&block)? {
                        return Ok(());
                    }
                }
                Ok(Next::End) => return Ok(()),
                Ok(Next::TimedOut) if ending.is_some_and(|end| end.is_over_at_a_time_out()) => {
                    return Ok(());
                }
                Ok(Next::Meta(Item::Interface(_))) => has_grown = true,
                Ok(_) => receiver.nothing()?,
                Err(error) if error.is_transient() => receiver.interrupted(&error),
                Err(error) => return Err(error.into()),
            }
            if has_grown {
                receiver.interfaces(source.interfaces())?;
            }
        }
    }

    /// Reads each source on a thread of its own; when the first ends, the others follow. This thread does
    /// `meanwhile` what else there is to be done.
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

    /// Gives each of several threads a processor of its own, as far as there are enough.
    fn place(&self, number: usize) -> Result<(), SetupError> {
        let cpus = &self.options.cpus;
        let Some(index) = number.checked_rem(cpus.len()) else {
            return Ok(());
        };
        let placed = ringtap_sys::sched::set_affinity(&cpus[index..=index]);
        placed.map_err(|source| setup("bind a reader to its processor", source))
    }
}

//! A tap with several reading threads, each of which reads some of the rings.
//!
//! Readers take their rings' records in place. The source of the rings still holds the programs, waits for
//! all rings together, and wakes the readers. So programs have one doorbell to ring, and fast packets wake
//! nobody: the source naps for a while, as a single reader does, and each reader takes the packets that have
//! gathered in its rings. Readers do not request the doorbell, and do not know of the interface.
//!
//! No wake-up is lost. A reader that has read its rings to their heads waits for an eventfd, which stays
//! readable until it is read. The source checks the rings after each of its own waits, none of which exceeds
//! the timeout, and wakes each reader that has records.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_savefile::{Interface, InterfaceTable};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::poll::{self, Interest};

use super::reader::Reader;
use super::wait::Waited;
use super::{TapSource, description};
use crate::filter::FilterTable;
use crate::hook::HookError;
use crate::{Description, Dropped, Error, Filter, Next, Result, Source, Stats};

/// The time that readers have for their packets before the rings are checked again.
const REST: Duration = Duration::from_micros(500);

/// A reader, as the source sees it.
pub(super) struct Share {
    bell: Waker,
}

impl TapSource {
    /// Gives the rings to several readers.
    pub(super) fn give_away(
        &mut self,
        readers: usize,
        wait: Duration,
    ) -> Result<Vec<Box<dyn Source>>> {
        // Readers would have to learn of later interfaces.
        if self.any.is_some() || !self.shares.is_empty() {
            return Ok(Vec::new());
        }
        let description = description::describe(self);
        let (filter, always) = self.plan.in_user_space();
        let filter = filter.filter(|_| always).cloned();
        let wakers: ringtap_sys::Result<Vec<_>> = (0..readers)
            .map(|_| Ok((Waker::new()?, Waker::new()?)))
            .collect();
        let wakers = wakers?;
        let given = self.reader.give_away(readers);
        let sets = given.map_err(|source| HookError::of_bpf(&self.device, source))?;
        let mut sources: Vec<Box<dyn Source>> = Vec::with_capacity(sets.len());
        for (set, (waker, bell)) in sets.into_iter().zip(wakers) {
            self.shares.push(Share { bell: bell.clone() });
            sources.push(Box::new(SharedReader {
                reader: Reader::new(set, !self.options.unordered, self.reader.max_caplen),
                interfaces: self.interfaces.clone(),
                table: self.table.clone(),
                filter: filter.clone(),
                waker,
                bell,
                wait,
                description: Arc::new(description.clone()),
                knows_stamps: self.bound.stamps.is_some(),
            }));
        }
        Ok(sources)
    }

    /// Waits for packets and wakes their readers.
    pub(super) fn tend(&mut self) -> Result<Next<'_>> {
        if self.wait()? == Waited::Woken {
            return Ok(Next::Woken);
        }
        if self.wake_readers() {
            // Without this pause, unread packets would make it check the rings without end.
            poll::wait([Interest::read(self.waker.as_fd())], Some(REST))?;
        }
        Ok(Next::TimedOut)
    }

    /// Wakes the readers that have packets. Returns whether there are any.
    pub(super) fn wake_readers(&self) -> bool {
        let (set, count) = (self.reader.current(), self.shares.len());
        let mut woken = false;
        for (number, share) in self.shares.iter().enumerate() {
            if set.waits_for(number, count) {
                share.bell.wake();
                woken = true;
            }
        }
        woken
    }

    /// Rejects a change that readers would have to learn.
    pub(super) fn refuse_while_shared(&self, what: &'static str) -> Result<()> {
        match self.shares.is_empty() {
            true => Ok(()),
            false => Err(Error::FixedAtOpening { what }),
        }
    }
}

/// Some of a tap's rings.
struct SharedReader {
    reader: Reader,
    interfaces: Vec<Interface>,
    table: InterfaceTable,
    /// If the kernel cannot run it.
    filter: Option<FilterTable>,
    /// Ends a wait for the user of the source.
    waker: Waker,
    /// It rings when there are records in the rings.
    bell: Waker,
    wait: Duration,
    description: Arc<Description>,
    /// Whether packets with the host's stamps are counted.
    knows_stamps: bool,
}

impl SharedReader {
    /// Waits for the bell. Returns whether there is something to read.
    #[cold]
    fn sleep(&mut self, limit: Duration) -> Result<Waited> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let interests = [
                Interest::read(self.bell.as_fd()),
                Interest::read(self.waker.as_fd()),
            ];
            let [bell, wake] = poll::wait(interests, Some(left))?;
            if bell.readable {
                self.bell.take();
            }
            if wake.readable && self.waker.take() {
                return Ok(Waited::Woken);
            }
            if self.reader.available() > 0 {
                return Ok(Waited::Ready);
            }
            if Instant::now() >= deadline {
                return Ok(Waited::TimedOut);
            }
        }
    }

    fn next_within(&mut self, limit: Duration) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        if !self.reader.is_delivering() {
            if self.reader.available() == 0 {
                match self.sleep(limit)? {
                    Waited::Ready => {}
                    Waited::TimedOut => return Ok(Next::TimedOut),
                    Waited::Woken => return Ok(Next::Woken),
                }
            }
            self.reader.begin_delivery();
        }
        let filter = self.filter.as_ref();
        Ok(match self.reader.next_block(&self.table, filter, true) {
            Some(block) => Next::Block(block),
            None => Next::TimedOut,
        })
    }
}

impl Source for SharedReader {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn next(&mut self) -> Result<Next<'_>> {
        self.next_within(self.wait)
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        self.next_within(Duration::ZERO)
    }

    /// Returns the counters of its rings. The source reports losses of the interface and of other processors.
    fn stats(&mut self) -> Result<Stats> {
        let counters = self.reader.counters();
        Ok(Stats {
            received: Some(counters.stored + counters.full),
            dropped: Dropped {
                hook: Some(counters.unreadable + counters.contended),
                sampling: Some(counters.sampled),
                ring: Some(counters.full),
                ..Dropped::default()
            },
            stamped_by_host: self.knows_stamps.then_some(counters.by_host),
            clamped: Some(counters.clamped),
            ..Stats::default()
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, _: Option<&Filter>) -> Result<()> {
        let what = "the filter of a shared capture";
        Err(Error::FixedAtOpening { what })
    }

    fn describe(&self) -> Description {
        Description::clone(&self.description)
    }
}

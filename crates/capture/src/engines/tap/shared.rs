//! A tap that several threads read, each some of the rings.
//!
//! What it is: readers that take their rings' records in place, and the source that the rings came
//! from, which goes on to hold the programs, waits for all rings together, and wakes the readers. So
//! programs have one doorbell to ring, and packets that come fast wake nobody: the source naps for a
//! while, as a single reader does, and each reader takes what has gathered in its rings. What it is
//! not: readers do not ask for the doorbell, nor do they know of the interface.
//!
//! No wake-up is lost: a reader that has read its rings to their heads waits for an eventfd, which stays
//! readable until it has been read; the source looks at the rings after each of its own waits, none of
//! which is longer than the time-out, and wakes whoever has records to read.

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

/// How long readers have for what they were woken for before it is looked again.
const REST: Duration = Duration::from_micros(500);

/// A reader, as it is seen from the source.
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
        // Interfaces that come later would have to be told to readers.
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

    /// Waits for packets and wakes those who are to read them.
    pub(super) fn tend(&mut self) -> Result<Next<'_>> {
        if self.wait()? == Waited::Woken {
            return Ok(Next::Woken);
        }
        if self.wake_readers() {
            // What they have not read in this time would else have it looked at the rings on and on.
            poll::wait([Interest::read(self.waker.as_fd())], Some(REST))?;
        }
        Ok(Next::TimedOut)
    }

    /// Wakes those who have packets to read; whether there are any.
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

    /// What readers would have to be told of.
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
    /// Where the kernel cannot run it.
    filter: Option<FilterTable>,
    /// Ends a wait for who uses the source.
    waker: Waker,
    /// Rung when there is something in the rings.
    bell: Waker,
    wait: Duration,
    description: Arc<Description>,
    /// Whether it is counted which packets have the host's stamps.
    knows_stamps: bool,
}

impl SharedReader {
    /// Waits for the bell; whether there is something to read then.
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

    /// Those of its rings; what the interface and other processors lost, the source knows that they are of.
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

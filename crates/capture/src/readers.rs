//! A capture that several threads read.

use std::os::fd::BorrowedFd;
use std::slice;

use ringtap_sys::privileges::Capability;

use crate::{Result, Source, Stats, Waker};

/// A capture that several threads read; [`crate::open_readers`] opens it.
pub struct Readers {
    /// One source for each thread, at least one.
    pub sources: Vec<Box<dyn Source>>,
    /// The tap whose rings the sources read, if there is one. It yields no packets itself. One thread must
    /// call its [`Source::next`] in a loop: that wakes the readers, and reports events of the interface.
    pub tap: Option<Box<dyn Source>>,
}

impl Readers {
    pub(crate) fn of_one(source: impl Source + 'static) -> Self {
        Self {
            sources: vec![Box::new(source)],
            tap: None,
        }
    }

    /// Returns the source that describes the capture.
    #[must_use]
    pub fn first(&self) -> &dyn Source {
        match &self.tap {
            Some(tap) => &**tap,
            None => &*self.sources[0],
        }
    }

    /// Returns a handle that ends the waits of all.
    #[must_use]
    pub fn wakers(&self) -> Vec<Waker> {
        self.all().map(|source| source.waker()).collect()
    }

    /// Returns the capabilities that the process must keep for all sources, as
    /// [`crate::Description::required_capabilities`].
    #[must_use]
    pub fn required_capabilities(&self) -> Vec<Capability> {
        let all = self.all().map(|source| source.describe());
        let all = all.flat_map(|description| description.required_capabilities);
        all.copied().collect()
    }

    /// Drops the sources, which removes what they have in the kernel. This is for the copy of a process after
    /// fork(2) that still has the [`Readers::required_capabilities`].
    pub fn close(&mut self) {
        self.sources.clear();
        self.tap = None;
    }

    /// Calls [`Source::look_at_chain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn look_at_chain(&mut self) -> Result<()> {
        let mut attending = self.attending().iter_mut();
        attending.try_for_each(|source| source.look_at_chain())
    }

    /// Calls [`Source::follow`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn follow(&mut self) -> Result<()> {
        let mut attending = self.attending().iter_mut();
        attending.try_for_each(|source| source.follow())
    }

    /// Calls [`Source::leave_to_follower`].
    pub fn leave_to_follower(&mut self) {
        let all = self.tap.iter_mut().chain(&mut self.sources);
        all.for_each(|source| source.leave_to_follower());
    }

    /// Returns [`Source::followed`] of the source that has something to follow.
    #[must_use]
    pub fn followed(&self) -> Option<BorrowedFd<'_>> {
        self.all().find_map(|source| source.followed())
    }

    /// Returns the sum of all counters.
    ///
    /// # Errors
    ///
    /// The same errors as [`Source::stats`].
    pub fn stats(&mut self) -> Result<Stats> {
        let all = self.attending().iter_mut().map(|one| one.stats());
        let all: Vec<_> = all.collect::<Result<_>>()?;
        Ok(Stats::of_all(all))
    }

    /// Returns the sources that watch the interfaces: the tap, or else all.
    fn attending(&mut self) -> &mut [Box<dyn Source>] {
        match &mut self.tap {
            Some(tap) => slice::from_mut(tap),
            None => &mut self.sources,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Box<dyn Source>> {
        self.tap.iter().chain(&self.sources)
    }
}

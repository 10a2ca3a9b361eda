//! The interfaces of a section, as its packet blocks need them.

use crate::Interface;
use crate::resolution::Clock;

/// The facts about its interfaces that the packet blocks of a section need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTable {
    entries: Vec<Entry>,
    first: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    clock: Clock,
    max_caplen: u32,
}

impl InterfaceTable {
    /// Returns a table of a section whose first interface has the index `first`, counted over all sections,
    /// and `interfaces`.
    #[must_use]
    pub fn new(first: u32, interfaces: &[Interface]) -> Self {
        let mut table = Self {
            entries: Vec::with_capacity(interfaces.len()),
            first,
        };
        for interface in interfaces {
            table.push(interface, interface.effective_snaplen());
        }
        table
    }

    pub(crate) fn push(&mut self, interface: &Interface, max_caplen: u32) {
        self.entries.push(Entry {
            clock: interface.clock(),
            max_caplen,
        });
    }

    /// Forgets the interfaces: a new section begins, whose first interface is the next.
    pub(crate) fn start_section(&mut self, first: u32) {
        self.entries.clear();
        self.first = first;
    }

    /// Returns the index, counted over all sections, of the section's first interface.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Interfaces of the section so far.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn clock(&self, interface: u32) -> Option<Clock> {
        self.entry(interface).map(|entry| entry.clock)
    }

    #[inline]
    pub(crate) fn max_caplen(&self, interface: u32) -> Option<u32> {
        self.entry(interface).map(|entry| entry.max_caplen)
    }

    /// Returns whether blocks that are written for this table mean the same under `other`.
    pub(crate) fn is_prefix_of(&self, other: &Self) -> bool {
        self.first == other.first && other.entries.starts_with(&self.entries)
    }

    #[inline]
    fn entry(&self, interface: u32) -> Option<&Entry> {
        self.entries.get(interface as usize)
    }
}

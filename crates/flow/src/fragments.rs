//! Finds the flow that a fragment belongs to. Only the first fragment of a datagram has the ports.
//!
//! The table has a fixed size: sets of a few entries. It remembers first fragments, and later fragments get
//! their ports. Fragments that come before the first one wait as counters. If the first one does not come in
//! time, or the entry is needed, they are counted in a flow without ports. Nothing is reassembled, so
//! overlaps do no harm.

use crate::cache::{NO_TRAFFIC, count};
use crate::counters::Counters;
use crate::key::{Key, Seed};
use crate::parse::{Observation, Part};
use crate::record::Traffic;

const WAYS: usize = 4;

#[derive(Debug)]
pub(crate) struct Fragments {
    entries: Vec<Entry>,
    /// The hash of each entry's datagram, or 0 if the entry is empty. It is compared first, since the entries
    /// themselves are spread over many cache lines.
    tags: Vec<u32>,
    timeout_ns: u64,
    seed: Seed,
    /// The entry at which [`Fragments::stale`] continues.
    hand: usize,
    /// Entries in use.
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The fields that all fragments of a datagram have in common.
    datagram: (Key, u32),
    seen_ns: u64,
    state: State,
    ports: u32,
    protocol: u8,
    /// Fragments that wait: one of them, and the sum of all.
    waiting: Observation,
    traffic: Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// The first fragment came.
    Known,
    /// Fragments wait for the first one.
    Waiting,
}

/// Fragments that wait no longer and must be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    pub(crate) observation: Observation,
    pub(crate) traffic: Traffic,
}

/// How to treat a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Count it; its key is complete.
    Counted,
    /// It waits.
    Waits,
}

impl Fragments {
    /// Returns a table for this number of datagrams, or slightly more.
    pub(crate) fn new(datagrams: usize, timeout_ns: u64, seed: Seed) -> Self {
        let sets = datagrams.div_ceil(WAYS).max(1);
        let entry = Entry {
            datagram: (Key::default(), 0),
            seen_ns: 0,
            state: State::Empty,
            ports: 0,
            protocol: 0,
            waiting: Observation::default(),
            traffic: NO_TRAFFIC,
        };
        Self {
            entries: vec![entry; sets * WAYS],
            tags: vec![0; sets * WAYS],
            timeout_ns,
            seed,
            hand: 0,
            used: 0,
        }
    }

    /// Returns whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the number of entries, used or not.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Completes the key of a fragment, or stores the fragment. Returns the fragments that wait no longer.
    pub(crate) fn place(
        &mut self,
        fragment: &mut Observation,
        counters: &mut Counters,
    ) -> (Fate, Option<Released>) {
        let (id, is_first) = match fragment.part {
            Part::Whole => return (Fate::Counted, None),
            Part::First(id) => (id, true),
            Part::Later(id) => (id, false),
        };
        let datagram = (fragment.key.datagram(), id);
        let (at, given_up) = self.find(datagram, fragment.time_ns, counters);
        let entry = &mut self.entries[at];
        entry.seen_ns = fragment.time_ns;
        if is_first {
            entry.ports = fragment.key.ports();
            entry.protocol = fragment.key.protocol();
            let complete = (entry.state == State::Waiting).then(|| entry.complete());
            entry.state = State::Known;
            return (Fate::Counted, complete.or(given_up));
        }
        if entry.state == State::Known {
            fragment.key = fragment.key.of_datagram(entry.ports, entry.protocol);
            return (Fate::Counted, None);
        }
        if entry.state == State::Empty {
            entry.state = State::Waiting;
            entry.waiting = *fragment;
            entry.traffic = NO_TRAFFIC;
        }
        count(&mut entry.traffic, fragment);
        (Fate::Waits, given_up)
    }

    /// Returns the entry of a datagram, or an entry that is emptied for it, with the fragments that waited
    /// there.
    fn find(
        &mut self,
        datagram: (Key, u32),
        now_ns: u64,
        counters: &mut Counters,
    ) -> (usize, Option<Released>) {
        let hash = datagram.0.hash(self.seed);
        let hash = hash ^ datagram.1.wrapping_mul(0x9e37_79b9);
        let set = hash as usize % (self.entries.len() / WAYS) * WAYS;
        let tag = hash.max(1);
        let ways = set..set + WAYS;
        let timeout = self.timeout_ns;
        let is_fresh = |entry: &Entry| now_ns.abs_diff(entry.seen_ns) <= timeout;
        let known = ways.clone().find(|&at| {
            let entry = &self.entries[at];
            self.tags[at] == tag && entry.datagram == datagram && is_fresh(entry)
        });
        if let Some(at) = known {
            return (at, None);
        }
        // An empty entry, or the one that has waited longest.
        let empty = ways.clone().find(|&at| self.tags[at] == 0);
        let oldest = || ways.min_by_key(|&at| self.entries[at].seen_ns);
        let at = empty.or_else(oldest).unwrap_or(set);
        let was_empty = std::mem::replace(&mut self.tags[at], tag) == 0;
        if was_empty {
            self.used += 1;
        } else if is_fresh(&self.entries[at]) {
            counters.fragments_evicted += 1;
        }
        let given_up = self.entries[at].give_up(counters);
        self.entries[at].datagram = datagram;
        (at, given_up)
    }

    /// Checks up to `looks` entries in turn. Returns the fragments that have waited too long.
    pub(crate) fn stale(
        &mut self,
        now_ns: u64,
        looks: &mut usize,
        counters: &mut Counters,
    ) -> Option<Released> {
        let timeout = self.timeout_ns;
        self.next(looks, counters, |entry| {
            now_ns.abs_diff(entry.seen_ns) > timeout
        })
    }

    /// Returns the fragments that still wait, whatever the time.
    pub(crate) fn any(&mut self, counters: &mut Counters) -> Option<Released> {
        let mut looks = self.entries.len();
        self.next(&mut looks, counters, |_| true)
    }

    fn next(
        &mut self,
        looks: &mut usize,
        counters: &mut Counters,
        is_due: impl Fn(&Entry) -> bool,
    ) -> Option<Released> {
        while *looks > 0 && self.used > 0 {
            *looks -= 1;
            let at = self.hand;
            self.hand = (at + 1) % self.entries.len();
            if self.tags[at] == 0 {
                continue;
            }
            let entry = &mut self.entries[at];
            if is_due(entry) {
                self.used -= 1;
                self.tags[at] = 0;
                let given_up = entry.give_up(counters);
                if given_up.is_some() {
                    return given_up;
                }
            }
        }
        None
    }
}

impl Entry {
    /// Returns the waiting fragments, for the flow that is now known.
    fn complete(&self) -> Released {
        let mut observation = self.waiting;
        observation.key = observation.key.of_datagram(self.ports, self.protocol);
        Released {
            observation,
            traffic: self.traffic,
        }
    }

    /// Empties the entry. Its waiting fragments are counted without ports.
    fn give_up(&mut self, counters: &mut Counters) -> Option<Released> {
        let state = std::mem::replace(&mut self.state, State::Empty);
        if state != State::Waiting {
            return None;
        }
        counters.fragments_alone += self.traffic.packets;
        Some(Released {
            observation: self.waiting,
            traffic: self.traffic,
        })
    }
}

//! Which flow a fragment belongs to: only a datagram's first fragment tells the ports.
//!
//! The table is of a fixed size: sets of a few entries. A first fragment is remembered, those that
//! follow are given its ports. Those that come before it are put by, as counters, until it comes;
//! when it does not come within the time, or their entry is needed, they are counted in a flow
//! without ports. Nothing is put together, so that overlaps do no harm.

use crate::cache::{NO_TRAFFIC, count};
use crate::counters::Counters;
use crate::key::{Key, Seed};
use crate::parse::{Observation, Part};
use crate::record::Traffic;

const WAYS: usize = 4;

#[derive(Debug)]
pub(crate) struct Fragments {
    entries: Vec<Entry>,
    /// Of each entry the hash of its datagram, or 0 where it is empty: what is looked at first, since
    /// entries are in as many cache lines as they are.
    tags: Vec<u32>,
    timeout_ns: u64,
    seed: Seed,
    /// Where [`Fragments::stale`] goes on.
    hand: usize,
    /// Entries in use.
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// What all fragments of a datagram have in common.
    datagram: (Key, u32),
    seen_ns: u64,
    state: State,
    ports: u32,
    protocol: u8,
    /// Fragments that wait: one of them, and the sum.
    waiting: Observation,
    traffic: Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// The first fragment came.
    Known,
    /// Others wait for it.
    Waiting,
}

/// Fragments that wait no longer; they are to be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    pub(crate) observation: Observation,
    pub(crate) traffic: Traffic,
}

/// What is to be done with a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is counted, its key is complete.
    Counted,
    /// It was put by.
    Waits,
}

impl Fragments {
    /// A table for so many datagrams, or a few more.
    pub(crate) fn new(datagrams: usize, timeout_ns: u64, seed: Seed) -> Self {
        let sets = datagrams.div_ceil(WAYS).max(1);
        const EMPTY: Traffic = NO_TRAFFIC;
        let entry = Entry {
            datagram: (Key::default(), 0),
            seen_ns: 0,
            state: State::Empty,
            ports: 0,
            protocol: 0,
            waiting: Observation::default(),
            traffic: EMPTY,
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

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Entries, in use or not.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Completes the key of a fragment, or puts it by; and gives what waits no longer.
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

    /// The entry of a datagram, or one that is made empty for it; and what had waited there.
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
        // An empty one, or the one that has waited longest.
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

    /// Looks at entries one after the other, `looks` of them at most: what has waited too long.
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

    /// What still waits, whatever the time.
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
            self.hand = if at + 1 < self.entries.len() {
                at + 1
            } else {
                0
            };
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
    /// What waits, for the flow that is now known.
    fn complete(&self) -> Released {
        let mut observation = self.waiting;
        observation.key = observation.key.of_datagram(self.ports, self.protocol);
        Released {
            observation,
            traffic: self.traffic,
        }
    }

    /// Empties the entry; what waits in it goes without ports.
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

//! The knowledge of user space about processes, for filters that ask for containers and control groups: what
//! descriptions of processes say about their control groups.
//!
//! A packet's tag has the number of its process's control group. It is known once any process of the group was
//! described; the questions of a filter are answered then, once for each group.

use std::collections::{HashMap, VecDeque};

use ringtap_filter::process::{Asked, PacketOwner};
use ringtap_packet::Packet;
use ringtap_packet::process::ProcessDescription;
use ringtap_savefile::{Item, ProcessBlock};

/// The largest number of control groups that are known. Beyond it, those that were learnt first are forgotten.
const GROUPS_MAX: usize = 65_536;
/// The largest number of bytes of their descriptions.
const BYTES_MAX: usize = 16 << 20;

/// The latest control groups, by their numbers, each with a value that takes some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Latest<V> {
    known: HashMap<u64, V>,
    /// The numbers in the order in which they were learnt.
    order: VecDeque<u64>,
    bytes: usize,
}

impl<V> Default for Latest<V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<V> Latest<V> {
    pub(crate) fn get(&self, group: u64) -> Option<&V> {
        self.known.get(&group)
    }

    /// Adds a group's value. `bytes` returns what a value takes.
    pub(crate) fn insert(&mut self, group: u64, value: V, bytes: fn(&V) -> usize) {
        self.bytes += bytes(&value);
        match self.known.insert(group, value) {
            Some(replaced) => self.bytes -= bytes(&replaced),
            None => self.order.push_back(group),
        }
        while self.order.len() > GROUPS_MAX || self.bytes > BYTES_MAX {
            let Some(first) = self.order.pop_front() else {
                break;
            };
            let forgotten = self.known.remove(&first);
            self.bytes -= forgotten.as_ref().map_or(0, bytes);
        }
    }
}

/// The control groups, each described by one of its processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Latest<ProcessDescription>);

/// A control group that was described.
#[derive(Debug)]
pub(crate) struct Described {
    group: u64,
    /// Only what all processes of the group have in common.
    description: ProcessDescription,
}

impl Described {
    /// Returns the control group of the process that an item describes. `None` for other items, and if it was not
    /// recorded.
    pub(crate) fn of(item: &Item<'_>) -> Option<Self> {
        let Item::Other(block) = item else {
            return None;
        };
        let ProcessBlock { tag, description } = ProcessBlock::parse(block)?;
        let group = tag.cgroup();
        let description = ProcessDescription {
            cgroup: description.cgroup,
            container: description.container,
            ..ProcessDescription::default()
        };
        (group != 0 && !description.cgroup.is_empty()).then_some(Self { group, description })
    }
}

impl Groups {
    /// Adds a control group.
    pub(crate) fn learn(&mut self, described: Described) {
        let Described { group, description } = described;
        self.0.insert(group, description, ProcessDescription::bytes);
    }
}

/// The answers to a filter's questions about control groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    asked: Asked,
    by_group: Latest<u64>,
}

impl Answers {
    /// Returns the answers for all groups that are known.
    pub(crate) fn new(asked: Asked, groups: &Groups) -> Self {
        let mut answers = Self {
            asked,
            by_group: Latest::default(),
        };
        for group in &groups.0.order {
            if let Some(description) = groups.0.get(*group) {
                answers.answer(*group, description);
            }
        }
        answers
    }

    /// Answers for another group.
    pub(crate) fn learn(&mut self, described: &Described) {
        self.answer(described.group, &described.description);
    }

    fn answer(&mut self, group: u64, description: &ProcessDescription) {
        if !self.asked.questions.is_empty() {
            let answers = self.asked.answers(description);
            self.by_group.insert(group, answers, |_| 0);
        }
    }

    /// Returns what is known about a packet's process.
    #[inline]
    pub(super) fn owner(&self, packet: &Packet<'_>) -> PacketOwner {
        let Some(process) = &packet.process else {
            return PacketOwner::UNKNOWN;
        };
        let Some(tag) = &process.tag else {
            // Another program has recorded the number alone.
            return PacketOwner {
                pid: process.pid,
                ..PacketOwner::UNKNOWN
            };
        };
        let answers = self.by_group.get(tag.cgroup());
        PacketOwner::of(tag, answers.copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(group: u64, path: &str) -> Described {
        Described {
            group,
            description: ProcessDescription {
                cgroup: path.to_owned(),
                ..ProcessDescription::default()
            },
        }
    }

    #[test]
    fn answers_are_for_groups_before_and_after() {
        let mut groups = Groups::default();
        groups.learn(described(1, "/a"));
        let asked = Asked::of("cgroup /a or cgroup /b", true).expect("valid");
        let mut answers = Answers::new(asked, &groups);
        answers.learn(&described(2, "/b"));
        // A group's number may come again.
        answers.learn(&described(2, "/a/b"));
        assert_eq!(answers.by_group.known, HashMap::from([(1, 1), (2, 1)]));
    }

    #[test]
    fn few_enough_groups_are_known() {
        let mut groups = Groups::default();
        let long = "/a".repeat(2048);
        for group in 1..10_000 {
            groups.learn(described(group, &long));
        }
        assert!(groups.0.bytes <= BYTES_MAX);
        assert_eq!(groups.0.bytes, groups.0.known.len() * long.len());
        let asked = Asked::of("cgroup /a", true).expect("valid");
        let mut answers = Answers::new(asked, &groups);
        for group in 0..100_000 {
            answers.learn(&described(group, "/a"));
        }
        assert_eq!(answers.by_group.known.len(), GROUPS_MAX);
        assert_eq!(answers.by_group.order.len(), GROUPS_MAX);
    }
}

//! The processes of a capture, with what is known of them beside their packets.

use std::collections::{HashMap, VecDeque};

use super::ProcessTag;
use super::container::{Container, ContainerNames, container_of};

/// The largest number of processes in a table. Beyond it, those that were added first are removed.
const PROCESSES_MAX: usize = 16_384;
/// The largest number of bytes that the descriptions of a table take. Beyond it, those that were added first are
/// removed. A file can claim 190 KiB for each process.
const BYTES_MAX: usize = 32 << 20;

/// The description of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessDescription {
    /// The command line: its arguments, each ended by a zero byte. Empty if it is unknown or was not recorded.
    pub command_line: Vec<u8>,
    /// The path of the process's control group (version 2), from `/` on. Empty if it is unknown.
    pub cgroup: String,
    /// The path of the executable. Empty if it is unknown.
    pub executable: String,
    /// The names of its container, if the control group names one.
    pub container: ContainerNames,
}

impl ProcessDescription {
    /// Returns the container of the process, as far as the path of its control group names one.
    #[must_use]
    pub fn container(&self) -> Option<Container<'_>> {
        let names = Some(&self.container).filter(|names| !names.is_empty());
        container_of(&self.cgroup).map(|container| Container { names, ..container })
    }

    /// Returns the command line as text, its arguments separated by blanks. Bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn command(&self) -> String {
        let arguments = self.command_line.split(|byte| *byte == 0);
        let words: Vec<_> = arguments.map(String::from_utf8_lossy).collect();
        words.join(" ").trim_end().to_owned()
    }

    /// Returns the number of bytes of the texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.command_line.len() + self.cgroup.len() + self.executable.len() + self.container.bytes()
    }
}

/// The processes of a capture, limited in number and in bytes.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    known: HashMap<(u32, u64), ProcessDescription>,
    /// The processes in the order in which they were added.
    order: VecDeque<(u32, u64)>,
    /// The bytes of all descriptions.
    bytes: usize,
}

impl ProcessTable {
    /// Adds a process, or replaces its description.
    pub fn insert(&mut self, tag: &ProcessTag<'_>, description: ProcessDescription) {
        let key = (tag.pid(), tag.start());
        self.bytes += description.bytes();
        match self.known.insert(key, description) {
            Some(replaced) => self.bytes -= replaced.bytes(),
            None => self.order.push_back(key),
        }
        while self.order.len() > PROCESSES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            let removed = self.known.remove(&oldest).unwrap_or_default();
            self.bytes -= removed.bytes();
        }
    }

    /// Returns the description of a packet's process.
    #[must_use]
    pub fn get(&self, tag: &ProcessTag<'_>) -> Option<&ProcessDescription> {
        self.known.get(&(tag.pid(), tag.start()))
    }

    /// Returns whether there are no processes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessFacts;

    fn tag_of(pid: u32) -> [u8; super::super::PROCESS_TAG_BYTES] {
        ProcessFacts {
            pid,
            ..ProcessFacts::default()
        }
        .encode()
    }

    #[test]
    fn the_table_is_bounded_and_replaces() {
        let mut table = ProcessTable::default();
        let describe = |text: &str| ProcessDescription {
            command_line: text.as_bytes().to_vec(),
            ..ProcessDescription::default()
        };
        for pid in 0..20_000_u32 {
            let bytes = tag_of(pid);
            let tag = ProcessTag::parse(&bytes).expect("a tag");
            table.insert(&tag, describe("old"));
            table.insert(&tag, describe("a\0b\0"));
        }
        assert_eq!(table.known.len(), PROCESSES_MAX);
        assert_eq!(table.order.len(), PROCESSES_MAX);
        let (first, last) = (tag_of(0), tag_of(19_999));
        let get = |bytes| table.get(&ProcessTag::parse(bytes).expect("a tag"));
        assert_eq!(get(&first), None);
        assert_eq!(
            get(&last).map(ProcessDescription::command).as_deref(),
            Some("a b")
        );
    }
    #[test]
    fn long_descriptions_take_the_place_of_older_ones() {
        let mut table = ProcessTable::default();
        let long = || ProcessDescription {
            cgroup: "/a".repeat(32 << 10),
            ..ProcessDescription::default()
        };
        for pid in 0..2000_u32 {
            let bytes = tag_of(pid);
            let tag = ProcessTag::parse(&bytes).expect("a tag");
            table.insert(&tag, long());
            table.insert(&tag, long());
        }
        let held: usize = table.known.values().map(ProcessDescription::bytes).sum();
        assert_eq!(held, BYTES_MAX);
        assert_eq!(table.bytes, held);
        assert_eq!(table.order.len(), table.known.len());
        let newest = tag_of(1999);
        assert!(
            table
                .get(&ProcessTag::parse(&newest).expect("a tag"))
                .is_some()
        );
    }
}

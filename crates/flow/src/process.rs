//! The processes at the ends of flows, and the table that gives each a number.
//!
//! Data in: the process that was recorded with a packet, and descriptions of processes. Data out: a number of 32
//! bits for the cache, and the [`Process`] for a record.
//!
//! The table is bounded. A process that no flow of the cache has any more stays until its place is needed; the one
//! that was seen longest ago goes first. If flows have all of them, a new process is not known, which is counted.
//! A packet of a known process allocates nothing.

use std::collections::HashMap;
use std::sync::Arc;

use ringtap_packet::PacketFlags;
use ringtap_packet::process::{
    Container, PacketProcess, ProcessDescription, ProcessTable, ProcessTag,
};

/// The longest text that is kept, in bytes: the longest one of messages.
const TEXT_MAX: usize = 254;
/// No place.
const NONE: u32 = u32::MAX;

/// A process at an end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number, in the initial namespace of processes.
    pub pid: u32,
    /// When it started, in hundredths of a second since boot; 0 if it is unknown. With the number it is unique
    /// until the next boot.
    pub start: u64,
    /// The effective user, if it was recorded.
    pub uid: Option<u32>,
    /// Its name, printable; empty if it was not recorded.
    pub name: String,
    /// The path of its control group, printable; empty if it is unknown.
    pub cgroup: String,
    /// The name of its container, or its id if the name is unknown, printable; empty if the control group names none.
    pub container: String,
}

impl Process {
    /// Returns what tells it from all others until the next boot: its number and its start.
    #[must_use]
    pub fn key(&self) -> [u64; 2] {
        [self.pid.into(), self.start]
    }

    /// Returns text that others have chosen as a field: at most 254 bytes, with [`char::REPLACEMENT_CHARACTER`] in
    /// the place of control characters and of bytes that are no UTF-8.
    #[must_use]
    pub fn text(bytes: &[u8]) -> String {
        let mut text = String::new();
        let known = bytes.get(..TEXT_MAX).unwrap_or(bytes);
        for character in String::from_utf8_lossy(known).chars() {
            let shown = if ringtap_inspect::is_printable(character) {
                character
            } else {
                char::REPLACEMENT_CHARACTER
            };
            if text.len() + shown.len_utf8() > TEXT_MAX {
                break;
            }
            text.push(shown);
        }
        text
    }
}

/// An end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEnd {
    /// The process has sent the packet.
    Source,
    /// The process receives the packet.
    Destination,
}

impl PacketEnd {
    /// Returns the end of the packet at which its process is. `None` if the packet has no direction.
    #[must_use]
    pub fn of(flags: PacketFlags, process: &PacketProcess<'_>) -> Option<Self> {
        const DIRECTION: u32 = 3;
        let is_sender = process.tag.is_some_and(|tag| tag.is_sender());
        match PacketFlags(flags.0 & DIRECTION) {
            PacketFlags::OUTBOUND => Some(Self::Source),
            PacketFlags::INBOUND if is_sender => Some(Self::Source),
            PacketFlags::INBOUND => Some(Self::Destination),
            _ => None,
        }
    }
}

/// The process of a packet in 32 bits: its number in the table, its end of the packet, and whether it only listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// No process.
    pub(crate) const NONE: Self = Self(NONE);
    const DESTINATION: u32 = 1 << 31;
    const LISTENS: u32 = 1 << 30;

    fn new(number: u32, end: PacketEnd, listens: bool) -> Self {
        let end = match end {
            PacketEnd::Source => 0,
            PacketEnd::Destination => Self::DESTINATION,
        };
        Self(number | end | if listens { Self::LISTENS } else { 0 })
    }

    pub(crate) fn is_at_destination(self) -> bool {
        self.0 & Self::DESTINATION != 0
    }

    /// Returns the same for a flow, whose ends have places of their own.
    pub(crate) fn without_end(self) -> Self {
        Self(self.0 & !Self::DESTINATION)
    }

    pub(crate) fn listens(self) -> bool {
        self.0 & Self::LISTENS != 0
    }

    fn number(self) -> u32 {
        self.0 & !(Self::DESTINATION | Self::LISTENS)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::NONE
    }
}

/// The largest number of processes that a table can have.
pub(crate) const PROCESSES_MAX: u32 = 1 << 20;

/// Number, user, start, name and control group of a process, as they lie in its tag.
type Key = [u8; 40];

/// Processes by their number.
#[derive(Debug)]
pub(crate) struct Processes {
    numbers: HashMap<Key, u32>,
    places: Vec<Place>,
    most: u32,
    /// The ends of the list of processes that no flow has, from the one that was seen longest ago.
    oldest: u32,
    newest: u32,
    descriptions: ProcessTable,
    /// The process that was looked for last.
    last: Option<(Key, u32)>,
}

#[derive(Debug)]
struct Place {
    key: Key,
    process: Arc<Process>,
    /// The number of ends of flows that have it.
    flows: u32,
    /// The neighbours in the list, if no flow has it.
    next: u32,
    previous: u32,
}

impl Processes {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            numbers: HashMap::new(),
            places: Vec::new(),
            most: most.min(PROCESSES_MAX),
            oldest: NONE,
            newest: NONE,
            descriptions: ProcessTable::default(),
            last: None,
        }
    }

    /// Returns the bytes of the table, without the texts.
    pub(crate) fn bytes(&self) -> usize {
        let each = size_of::<Place>() + size_of::<Process>() + size_of::<(Key, u32)>();
        self.most as usize * each
    }

    /// Adds the description of a process, or replaces it.
    pub(crate) fn describe(&mut self, tag: &ProcessTag<'_>, description: ProcessDescription) {
        let known = self.numbers.get(&key_of(tag));
        if let Some(place) = known.and_then(|&number| self.places.get_mut(number as usize)) {
            place.process = Arc::new(process_of(tag, Some(&description)));
        }
        self.descriptions.insert(tag, description);
    }

    /// Returns the owner of a packet, if its process is known.
    pub(crate) fn find(&mut self, process: &PacketProcess<'_>, end: PacketEnd) -> Option<Owner> {
        let key = process.tag.as_ref().map_or_else(|| bare(process), key_of);
        let number = match self.last {
            Some((last, number)) if last == key => number,
            _ => {
                let number = *self.numbers.get(&key)?;
                self.last = Some((key, number));
                self.touch(number);
                number
            }
        };
        let listens = process.tag.is_some_and(|tag| tag.listens());
        Some(Owner::new(number, end, listens))
    }

    /// Returns whether another process would take the place of one that no flow has.
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= self.most as usize
    }

    /// Adds the process of a packet. Returns the owner of the packet, or `None` if flows have all places. No packet
    /// may wait whose owner is in no flow.
    pub(crate) fn add(&mut self, process: &PacketProcess<'_>, end: PacketEnd) -> Option<Owner> {
        let key = process.tag.as_ref().map_or_else(|| bare(process), key_of);
        let known = match &process.tag {
            Some(tag) => process_of(tag, self.descriptions.get(tag)),
            None => Process {
                pid: process.pid,
                ..Process::default()
            },
        };
        let place = Place {
            key,
            process: Arc::new(known),
            flows: 0,
            next: NONE,
            previous: NONE,
        };
        let number = if self.is_full() {
            let number = self.oldest;
            if number == NONE {
                return None;
            }
            self.unlink(number);
            let before = std::mem::replace(&mut self.places[number as usize], place);
            self.numbers.remove(&before.key);
            self.last = None;
            number
        } else {
            let number = u32::try_from(self.places.len()).unwrap_or(NONE);
            self.places.push(place);
            number
        };
        self.numbers.insert(key, number);
        self.link(number);
        self.find(process, end)
    }

    /// An end of a flow has this process.
    pub(crate) fn hold(&mut self, owner: Owner) {
        let number = owner.number();
        let Some(place) = self.places.get_mut(number as usize) else {
            return;
        };
        place.flows += 1;
        if place.flows == 1 {
            self.unlink(number);
        }
    }

    /// An end of a flow has it no longer.
    pub(crate) fn release(&mut self, owner: Owner) {
        let number = owner.number();
        let Some(place) = self.places.get_mut(number as usize) else {
            return;
        };
        place.flows -= 1;
        if place.flows == 0 {
            self.link(number);
        }
    }

    /// Returns the process of an end of a flow.
    pub(crate) fn get(&self, owner: Owner) -> Option<Arc<Process>> {
        let place = self.places.get(owner.number() as usize)?;
        Some(Arc::clone(&place.process))
    }

    /// Makes a process without flows the one that was seen last.
    fn touch(&mut self, number: u32) {
        let is_free = |place: &Place| place.flows == 0;
        if self.places.get(number as usize).is_some_and(is_free) && self.newest != number {
            self.unlink(number);
            self.link(number);
        }
    }

    /// Puts a process at the end of the list.
    fn link(&mut self, number: u32) {
        let before = std::mem::replace(&mut self.newest, number);
        let place = &mut self.places[number as usize];
        (place.previous, place.next) = (before, NONE);
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = number,
            None => self.oldest = number,
        }
    }

    /// Takes a process out of the list.
    fn unlink(&mut self, number: u32) {
        let Place { next, previous, .. } = self.places[number as usize];
        match self.places.get_mut(previous as usize) {
            Some(place) => place.next = next,
            None => self.oldest = next,
        }
        match self.places.get_mut(next as usize) {
            Some(place) => place.previous = previous,
            None => self.newest = previous,
        }
    }
}

fn key_of(tag: &ProcessTag<'_>) -> Key {
    use ringtap_packet::process::layout::PID;
    let mut key = [0; 40];
    key.copy_from_slice(&tag.as_bytes()[PID..PID + 40]);
    key
}

/// Returns the key of a process of which only the number is known. No tag has it: processes start after the boot.
fn bare(process: &PacketProcess<'_>) -> Key {
    let mut key = [0; 40];
    key[..4].copy_from_slice(&process.pid.to_ne_bytes());
    key
}

/// Returns the name of a container if it was recorded, otherwise the whole id.
fn name_of<'a>(container: &Container<'a>) -> &'a [u8] {
    let name = container.names.map(|names| names.name.as_bytes());
    name.filter(|name| !name.is_empty())
        .unwrap_or(container.id.as_bytes())
}

fn process_of(tag: &ProcessTag<'_>, description: Option<&ProcessDescription>) -> Process {
    let cgroup = description.map_or("", |description| description.cgroup.as_str());
    let container = description.and_then(ProcessDescription::container);
    Process {
        pid: tag.pid(),
        start: tag.start(),
        uid: Some(tag.uid()).filter(|&uid| uid != u32::MAX),
        name: Process::text(tag.comm()),
        cgroup: Process::text(cgroup.as_bytes()),
        container: container.map_or_else(String::new, |found| Process::text(name_of(&found))),
    }
}

#[cfg(test)]
mod tests {
    use ringtap_packet::process::ProcessFacts;

    use super::*;

    fn tag(pid: u32, comm: &[u8]) -> [u8; 56] {
        let facts = ProcessFacts {
            pid,
            uid: 7,
            start: 5,
            comm,
            ..ProcessFacts::default()
        };
        facts.encode()
    }

    fn packet(bytes: &[u8]) -> PacketProcess<'_> {
        let tag = ProcessTag::parse(bytes).expect("a tag");
        PacketProcess {
            pid: tag.pid(),
            tid: tag.tid(),
            tag: Some(tag),
        }
    }

    /// Returns the owner of a packet, which is added to the table first.
    fn owner(processes: &mut Processes, bytes: &[u8]) -> Option<Owner> {
        let packet = packet(bytes);
        let found = processes.find(&packet, PacketEnd::Source);
        found.or_else(|| processes.add(&packet, PacketEnd::Source))
    }

    fn pid(processes: &Processes, owner: Owner) -> u32 {
        processes.get(owner).expect("a process").pid
    }

    #[test]
    fn processes_in_use_stay_and_the_oldest_of_the_others_goes() {
        let mut processes = Processes::new(3);
        let tags: Vec<_> = (1..=6).map(|pid| tag(pid, b"a")).collect();
        let owners: Vec<_> = tags[..3]
            .iter()
            .map(|tag| owner(&mut processes, tag).expect("room"))
            .collect();
        processes.hold(owners[0]);
        assert_eq!(
            owner(&mut processes, &tags[1]),
            Some(owners[1]),
            "seen again"
        );
        // The third was seen longest ago.
        let fourth = owner(&mut processes, &tags[3]).expect("room");
        assert_eq!((fourth, pid(&processes, fourth)), (owners[2], 4));
        processes.hold(owners[1]);
        processes.hold(fourth);
        assert_eq!(
            owner(&mut processes, &tags[4]),
            None,
            "flows have all places"
        );
        assert_eq!(pid(&processes, owners[0]), 1);
        processes.hold(owners[0]);
        processes.release(owners[0]);
        assert_eq!(owner(&mut processes, &tags[4]), None, "one flow is left");
        processes.release(owners[0]);
        let fifth = owner(&mut processes, &tags[4]).expect("room");
        assert_eq!((fifth, pid(&processes, fifth)), (owners[0], 5));
        assert_eq!(processes.numbers.len(), 3);
    }

    #[test]
    fn another_name_is_another_process() {
        let mut processes = Processes::new(8);
        let before = owner(&mut processes, &tag(1, b"sh")).expect("room");
        let after = owner(&mut processes, &tag(1, b"curl")).expect("room");
        let names = [before, after].map(|owner| processes.get(owner).expect("one").name.clone());
        assert_eq!(names, ["sh", "curl"]);
    }

    #[test]
    fn descriptions_name_the_container_and_text_is_printable() {
        let mut processes = Processes::new(8);
        let bytes = tag(1, b"a\x1b[31m\xff");
        let tag = ProcessTag::parse(&bytes).expect("a tag");
        let describe = |cgroup: &str| ProcessDescription {
            cgroup: cgroup.to_owned(),
            ..ProcessDescription::default()
        };
        let id = "3f4e5d6c7b8a".repeat(5) + "0123";
        processes.describe(&tag, describe(&format!("/docker/{id}")));
        let first = owner(&mut processes, &bytes).expect("room");
        let known = processes.get(first).expect("a process");
        assert_eq!((known.uid, known.container.as_str()), (Some(7), &*id));
        assert_eq!(known.name, "a\u{fffd}[31m\u{fffd}");
        let mut named = describe(&format!("/docker/{id}"));
        named.container.name = "web".to_owned();
        processes.describe(&tag, named);
        let first = owner(&mut processes, &bytes).expect("room");
        let known = processes.get(first).expect("a process");
        assert_eq!(known.container, "web");
        processes.describe(&tag, describe(&"/long".repeat(100)));
        let known = processes.get(first).expect("a process");
        assert_eq!(
            (known.cgroup.len(), known.container.as_str()),
            (TEXT_MAX, "")
        );
    }

    #[test]
    fn the_end_of_a_process_follows_from_the_direction() {
        let mut bytes = tag(1, b"a");
        let end = |bytes: &[u8], flags| PacketEnd::of(flags, &packet(bytes));
        assert_eq!(end(&bytes, PacketFlags::OUTBOUND), Some(PacketEnd::Source));
        assert_eq!(
            end(&bytes, PacketFlags(0x12 << 4 | 1)),
            Some(PacketEnd::Destination)
        );
        assert_eq!(end(&bytes, PacketFlags(0)), None);
        bytes[3] |= ringtap_packet::process::layout::SENDER;
        assert_eq!(end(&bytes, PacketFlags::INBOUND), Some(PacketEnd::Source));
    }
}

//! Descriptions of processes that wait for the first packet of their process: a file describes no others.

use std::collections::{HashMap, VecDeque};

use ringtap_capture::{Block, Item, Packet};
use ringtap_packet::process::ProcessTag;
use ringtap_record::{RecordError, Recording};
use ringtap_savefile::RawBlock;

/// The number of processes that wait at most. Beyond it, those that came first are forgotten.
const WAITING_MAX: usize = 16_384;

/// A process: its number, and its start.
pub(crate) type Key = (u32, u64);

/// The descriptions that wait, as blocks in this machine's byte order.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    blocks: HashMap<Key, Vec<u8>>,
    /// The processes in the order in which they came.
    order: VecDeque<Key>,
}

impl Waiting {
    /// Adds the description of a process, which replaces an earlier one.
    pub(crate) fn add(&mut self, tag: &ProcessTag<'_>, block: &[u8]) {
        let key = key(tag);
        if self.blocks.insert(key, block.to_vec()).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > WAITING_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.blocks.remove(&first);
        }
    }

    /// Writes the descriptions of the processes whose packets are in the block.
    pub(crate) fn write(
        &mut self,
        block: &Block<'_>,
        file: &mut Recording,
    ) -> Result<(), RecordError> {
        self.pass(block.packets(), |described| {
            file.meta(&Item::Other(described))
        })
    }

    /// Passes the descriptions of the processes of these packets to `take`, each once.
    pub(crate) fn pass<'d, E>(
        &mut self,
        packets: impl Iterator<Item = Packet<'d>>,
        mut take: impl FnMut(RawBlock<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        let mut last = None;
        for packet in packets {
            let Some(tag) = packet.process.and_then(|process| process.tag) else {
                continue;
            };
            let key = key(&tag);
            if last == Some(key) {
                continue;
            }
            last = Some(key);
            let Some(bytes) = self.blocks.remove(&key) else {
                continue;
            };
            self.order.retain(|waiting| *waiting != key);
            if let Some(described) = RawBlock::built(&bytes) {
                take(described)?;
            }
        }
        Ok(())
    }
}

/// Returns the number and the start of a process.
pub(crate) fn key(tag: &ProcessTag<'_>) -> Key {
    (tag.pid(), tag.start())
}

#[cfg(test)]
mod tests {
    use ringtap_packet::process::ProcessFacts;

    use super::*;

    #[test]
    fn few_enough_wait() {
        let mut waiting = Waiting::default();
        for pid in 0..20_000 {
            let bytes = ProcessFacts {
                pid,
                ..ProcessFacts::default()
            }
            .encode();
            let tag = ProcessTag::parse(&bytes).expect("a tag");
            waiting.add(&tag, b"first");
            waiting.add(&tag, b"second");
        }
        assert_eq!(waiting.blocks.len(), WAITING_MAX);
        assert_eq!(waiting.order.len(), WAITING_MAX);
        assert_eq!(waiting.blocks[&(19_999, 0)], b"second");
    }
}

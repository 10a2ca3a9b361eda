//! Descriptions of processes, from the files to the answer. Each file has those that its packets need, so that most
//! come again with the next file; the answer has each once.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use ringtap_capture::Packet;
use ringtap_packet::process::ProcessTag;
use ringtap_savefile::RawBlock;

use crate::dump::{ProcessKey, WaitingProcesses, process_key};

/// The number of processes whose description is known to be in the answer. Beyond it one may come twice.
const SEEN: usize = 65_536;

/// The descriptions that wait for a packet of their process.
#[derive(Default)]
pub(super) struct Processes {
    waiting: WaitingProcesses,
    seen: HashMap<ProcessKey, u64>,
    hash: RandomState,
}

impl Processes {
    /// Adds the description of a process, unless it is known.
    pub(super) fn add(&mut self, tag: &ProcessTag<'_>, block: &[u8]) {
        if self.seen.len() >= SEEN {
            self.seen.clear();
        }
        let hash = self.hash.hash_one(block);
        if self.seen.insert(process_key(tag), hash) != Some(hash) {
            self.waiting.add(tag, block);
        }
    }

    /// Passes the descriptions of the processes of these packets to `take`.
    pub(super) fn pass<'d, E>(
        &mut self,
        packets: impl Iterator<Item = Packet<'d>>,
        take: impl FnMut(RawBlock<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.waiting.pass(packets, take)
    }
}

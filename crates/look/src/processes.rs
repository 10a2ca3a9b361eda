//! The processes with most traffic, and their names.
//!
//! A process is known by its number and its start. Names are kept of at least the [`NAMES`] processes that had
//! traffic last.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ringtap_flow::{FlowRecord, Process};

use crate::delta::Delta;
use crate::heavy::Sum;
use crate::top::Tops;

/// Processes whose names are kept; at most twice as many are in memory.
const NAMES: usize = 8192;
/// Keys of the table of processes, of each slice of time.
const KEYS: usize = 2048;

/// Number and start of a process.
pub(crate) type ProcessKey = [u64; 2];

/// The sums and the names.
#[derive(Debug)]
pub(crate) struct ProcessBook {
    pub(crate) tops: Tops<ProcessKey>,
    names: HashMap<ProcessKey, Arc<Process>, RandomState>,
    /// The names from before the present ones became too many.
    before: HashMap<ProcessKey, Arc<Process>, RandomState>,
}

impl ProcessBook {
    pub(crate) fn new() -> Self {
        Self {
            tops: Tops::new(KEYS),
            names: HashMap::default(),
            before: HashMap::default(),
        }
    }

    /// Counts the new traffic of a flow for the processes at its ends, once if they are the same.
    pub(crate) fn count(&mut self, record: &FlowRecord, delta: &Delta, is_new: bool) {
        for (process, sent) in record.processes(delta.forward.1, delta.reverse.1) {
            let key = process.key();
            let sum = Sum {
                bytes: delta.bytes(),
                packets: delta.packets(),
                sent,
                flows: u64::from(is_new),
            };
            self.tops.add(key, &sum);
            self.name(key, process);
        }
    }

    fn name(&mut self, key: ProcessKey, process: &Arc<Process>) {
        if let Some(known) = self.names.get_mut(&key) {
            if !Arc::ptr_eq(known, process) {
                *known = Arc::clone(process);
            }
            return;
        }
        if self.names.len() >= NAMES {
            self.before = std::mem::take(&mut self.names);
        }
        self.names.insert(key, Arc::clone(process));
    }

    /// Returns the name of the process with this text as its key; `None` if it is not known.
    pub(crate) fn name_of(&self, text: &str) -> Option<&str> {
        let (pid, start) = text.split_once('@').unwrap_or((text, "0"));
        let key = [pid.parse().ok()?, start.parse().ok()?];
        let process = self.names.get(&key).or_else(|| self.before.get(&key))?;
        Some(process.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Returns the key as text: the number, and the start if it is known.
pub(crate) fn text([pid, start]: &ProcessKey) -> String {
    match start {
        0 => pid.to_string(),
        _ => format!("{pid}@{start}"),
    }
}

/// The same of a process.
pub(crate) fn text_of(process: &Process) -> String {
    text(&process.key())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str) -> Option<Arc<Process>> {
        Some(Arc::new(Process {
            pid,
            start: 7,
            name: name.to_owned(),
            ..Process::default()
        }))
    }

    fn record(source: Option<Arc<Process>>, destination: Option<Arc<Process>>) -> FlowRecord {
        FlowRecord {
            source_process: source,
            destination_process: destination,
            ..FlowRecord::default()
        }
    }

    const DELTA: Delta = Delta {
        forward: (2, 100),
        reverse: (1, 10),
        retransmissions: 0,
        is_first: true,
    };

    #[test]
    fn both_ends_count_and_the_same_process_counts_once() {
        let mut book = ProcessBook::new();
        book.count(&record(process(1, "a"), process(2, "b")), &DELTA, true);
        book.count(&record(process(1, "a"), process(1, "a")), &DELTA, true);
        book.count(&record(None, process(2, "c")), &DELTA, false);
        let (rows, _) = book.tops.top(crate::Window::All, 9, |sum| sum.bytes);
        let mut rows: Vec<_> = rows
            .iter()
            .map(|row| (text(&row.key), row.sum.bytes, row.sum.sent, row.sum.flows))
            .collect();
        rows.sort();
        let expected = [("1@7", 220, 210, 2), ("2@7", 220, 20, 1)];
        assert_eq!(
            rows,
            expected.map(|(key, bytes, sent, flows)| (key.to_owned(), bytes, sent, flows))
        );
        assert_eq!(book.name_of("2@7"), Some("c"), "its newest name");
        assert_eq!((book.name_of("2"), book.name_of("x")), (None, None));
    }

    #[test]
    fn names_are_few() {
        let mut book = ProcessBook::new();
        for pid in 0..5 * u32::try_from(NAMES).expect("few") {
            book.count(
                &record(process(pid, "a"), process(1, "stays")),
                &DELTA,
                true,
            );
        }
        assert!(book.names.len() + book.before.len() <= 2 * NAMES);
        assert_eq!(book.name_of("1@7"), Some("stays"));
    }
}

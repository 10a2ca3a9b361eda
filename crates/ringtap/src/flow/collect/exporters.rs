//! What is remembered of each exporter: its sampling, when it was started, and which message comes next.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Exporters that are remembered at most; when there are more, all are forgotten, as after a start.
const MOST: usize = 10_000;

/// An exporter's stream of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    pub(super) exporter: SocketAddr,
    pub(super) version: u16,
    pub(super) domain: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The sequence number of the next message, where that can be told.
    next: Option<u32>,
    sampling: Option<u32>,
    /// When its uptime was 0, in milliseconds since 1970.
    boot_ms: Option<u64>,
}

/// All exporters.
#[derive(Debug, Default)]
pub(super) struct Exporters {
    known: HashMap<Stream, Known>,
}

impl Exporters {
    fn entry(&mut self, stream: Stream) -> &mut Known {
        if self.known.len() >= MOST && !self.known.contains_key(&stream) {
            self.known.clear();
        }
        self.known.entry(stream).or_default()
    }

    /// A message with sequence number `number` came, and counted so many, if that is known. Returns
    /// how many were missed before it.
    pub(super) fn message(&mut self, stream: Stream, number: u32, counts: Option<u32>) -> u64 {
        let known = self.entry(stream);
        let missed = known.next.map_or(0, |next| number.wrapping_sub(next));
        known.next = counts.map(|counts| number.wrapping_add(counts));
        // Backwards, or as far forwards: another order, or another beginning.
        if missed < 1 << 31 { missed.into() } else { 0 }
    }

    pub(super) fn set_sampling(&mut self, stream: Stream, one_in: u32) {
        self.entry(stream).sampling = Some(one_in.max(1));
    }

    /// One packet in so many, as far as the exporter has told.
    pub(super) fn sampling(&self, stream: Stream) -> u32 {
        let known = self.known.get(&stream);
        known.and_then(|known| known.sampling).unwrap_or(1)
    }

    pub(super) fn set_boot(&mut self, stream: Stream, boot_ms: u64) {
        self.entry(stream).boot_ms = Some(boot_ms);
    }

    /// When its uptime was 0, in milliseconds since 1970, if it has told.
    pub(super) fn boot_ms(&self, stream: Stream) -> Option<u64> {
        self.known.get(&stream)?.boot_ms
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(domain: u32) -> Stream {
        Stream {
            exporter: ([192, 0, 2, 1], 2055).into(),
            version: 9,
            domain,
        }
    }

    #[test]
    fn gaps_are_counted() {
        let mut exporters = Exporters::default();
        assert_eq!(exporters.message(stream(1), 500, Some(1)), 0, "the first");
        assert_eq!(exporters.message(stream(1), 501, Some(30)), 0);
        assert_eq!(exporters.message(stream(1), 541, Some(1)), 10);
        assert_eq!(
            exporters.message(stream(2), 7, Some(1)),
            0,
            "another stream"
        );
        assert_eq!(exporters.message(stream(1), 0, Some(1)), 0, "started again");
        assert_eq!(exporters.message(stream(1), 1, None), 0);
        assert_eq!(exporters.message(stream(1), 9, Some(1)), 0, "not known");
        assert_eq!(exporters.message(stream(1), u32::MAX, Some(2)), 0);
        assert_eq!(exporters.message(stream(1), 3, Some(1)), 2, "numbers wrap");
    }

    #[test]
    fn memory_is_bounded() {
        let mut exporters = Exporters::default();
        for domain in 0..100_000 {
            exporters.set_sampling(stream(domain), 10);
            assert!(exporters.count() <= MOST);
        }
        assert_eq!(exporters.sampling(stream(99_999)), 10);
        assert_eq!(exporters.sampling(stream(0)), 1);
    }
}

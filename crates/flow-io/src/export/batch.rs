//! Messages that wait to be sent together, by one system call.
//!
//! The system cuts a long send into datagrams of one length, of which only the last one may be shorter
//! (UDP_SEGMENT). A batch has such messages.

use ringtap_flow::export::Message;

/// The most bytes of a batch: those of the longest datagram, as a single message may have.
const BYTES: usize = 65_507;
/// The most messages that all systems take at once.
const MESSAGES: usize = 64;

/// Numbers of messages, of their bytes and of their flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
}

impl Sums {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self {
            messages: 1,
            bytes: message.bytes.len() as u64,
            flows: message.flows.into(),
        }
    }

    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.flows += more.flows;
    }
}

/// The messages.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The bytes of all, one after the other.
    pub(super) bytes: Vec<u8>,
    /// The flows of each.
    flows: Vec<u32>,
    /// The length of all but the last, which may be shorter.
    pub(super) length: usize,
    pub(super) sums: Sums,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns whether a message can follow the others.
    pub(super) fn fits(&self, message: &Message<'_>) -> bool {
        let count = self.flows.len();
        let is_last_whole = self.bytes.len() == count * self.length;
        let has_room = count < MESSAGES && self.bytes.len() + message.bytes.len() <= BYTES;
        count == 0 || is_last_whole && has_room && message.bytes.len() <= self.length
    }

    /// Adds a message that fits.
    pub(super) fn push(&mut self, message: &Message<'_>) {
        if self.is_empty() {
            self.length = message.bytes.len();
        }
        self.bytes.extend_from_slice(message.bytes);
        self.flows.push(message.flows);
        self.sums.add(Sums::of(message));
    }

    /// Returns the messages one by one.
    pub(super) fn messages(&self) -> impl Iterator<Item = (&[u8], Sums)> {
        let parts = self.bytes.chunks(self.length.max(1));
        parts.zip(&self.flows).map(|(bytes, flows)| {
            let sums = Sums {
                messages: 1,
                bytes: bytes.len() as u64,
                flows: u64::from(*flows),
            };
            (bytes, sums)
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.flows.clear();
        self.sums = Sums::default();
    }
}

#[cfg(test)]
mod tests {
    use ringtap_flow::export::MessageKind;

    use super::*;

    fn message(bytes: &[u8], flows: u32) -> Message<'_> {
        Message {
            bytes,
            kind: MessageKind::Flows,
            flows,
        }
    }

    #[test]
    fn messages_of_one_length_go_together_and_a_shorter_one_is_the_last() {
        let long = [1; 1400];
        let mut batch = Batch::default();
        let mut count = 0;
        while batch.fits(&message(&long, 20)) {
            batch.push(&message(&long, 20));
            count += 1;
        }
        assert_eq!(count, 65_507 / 1400);
        batch.clear();
        batch.push(&message(&long, 20));
        assert!(!batch.fits(&message(&[1; 1401], 1)));
        batch.push(&message(&long[..7], 3));
        assert!(!batch.fits(&message(&long[..7], 3)));
        let parts: Vec<(usize, u64)> = batch
            .messages()
            .map(|(bytes, sums)| (bytes.len(), sums.flows))
            .collect();
        assert_eq!(parts, [(1400, 20), (7, 3)]);
        let sums = Sums {
            messages: 2,
            bytes: 1407,
            flows: 23,
        };
        assert_eq!(batch.sums, sums);
    }
}

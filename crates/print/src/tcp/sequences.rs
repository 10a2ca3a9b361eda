//! The first sequence numbers of recent connections, so that later ones can be printed relative to
//! them.

use std::collections::HashMap;

use crate::context::Network;
use crate::line::Address;

/// The number of connections in each of two generations. When the younger one is full it becomes
/// the older one, whose connections are forgotten unless they were active since. So memory is
/// limited whatever the traffic, and an active connection is never forgotten.
const GENERATION: usize = 32 * 1024;

type Endpoint = (Address, u16);

/// The two ends, in an order that both directions share.
type Connection = (Endpoint, Endpoint);

/// The number printed as 0 in each direction; the first is from the lesser endpoint.
type Origins = [u32; 2];

/// A bounded table of connections.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    young: HashMap<Connection, Origins>,
    old: HashMap<Connection, Origins>,
}

/// Sequence and acknowledgement number to print, and the subtracted offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// The offset of the peer's numbers, for SACK blocks.
    pub(crate) ack_origin: u32,
}

impl Sequences {
    /// Returns numbers relative to the start of the connection. Those of a segment that begins one
    /// (`syn`, or the first one seen) are unchanged.
    pub(crate) fn relative(
        &mut self,
        net: &Network,
        ports: (u16, u16),
        (seq, ack): (u32, u32),
        syn: bool,
    ) -> Shown {
        let source = (net.source, ports.0);
        let destination = (net.destination, ports.1);
        let side = usize::from(source > destination);
        let key = if side == 0 {
            (source, destination)
        } else {
            (destination, source)
        };
        let known = if syn { None } else { self.lookup(&key) };
        let Some(origins) = known else {
            // The acknowledged SYN counts as one: the peer's data begin at `ack`, printed as 1.
            let mut origins = [seq; 2];
            origins[1 - side] = ack.wrapping_sub(1);
            self.insert(key, origins);
            return Shown {
                seq,
                ack,
                ack_origin: 0,
            };
        };
        let (own, peer) = (origins[side], origins[1 - side]);
        Shown {
            seq: seq.wrapping_sub(own),
            ack: ack.wrapping_sub(peer),
            ack_origin: peer,
        }
    }

    fn lookup(&mut self, key: &Connection) -> Option<Origins> {
        if let Some(&origins) = self.young.get(key) {
            return Some(origins);
        }
        let origins = self.old.remove(key)?;
        self.insert(*key, origins);
        Some(origins)
    }

    fn insert(&mut self, key: Connection, origins: Origins) {
        if self.young.len() >= GENERATION {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key, origins);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(source: u32, destination: u32) -> Network {
        let destination = Address::V4(destination.to_be_bytes());
        Network {
            hop_limit: 64,
            source: Address::V4(source.to_be_bytes()),
            destination,
            shown_destination: destination,
            fragmented: false,
            endpoints: true,
        }
    }

    #[test]
    fn numbers_are_relative_in_both_directions() {
        let mut table = Sequences::default();
        let first = table.relative(&net(1, 2), (10, 20), (1000, 5001), true);
        assert_eq!((first.seq, first.ack), (1000, 5001));
        let reply = table.relative(&net(2, 1), (20, 10), (5001, 1001), false);
        assert_eq!((reply.seq, reply.ack), (1, 1));
        let next = table.relative(&net(1, 2), (10, 20), (999, 5101), false);
        assert_eq!((next.seq, next.ack), (u32::MAX, 101));
    }

    #[test]
    fn the_table_stays_bounded_and_keeps_what_speaks() {
        let mut table = Sequences::default();
        table.relative(&net(7, 8), (1, 2), (100, 201), false);
        for peer in 0..200_000 {
            table.relative(&net(peer + 1000, 9), (1, 2), (1, 1), false);
            if peer % 1000 == 0 {
                let busy = table.relative(&net(7, 8), (1, 2), (101, 202), false);
                assert_eq!((busy.seq, busy.ack), (1, 2));
            }
            assert!(table.young.len() + table.old.len() <= 2 * GENERATION);
        }
        let forgotten = table.relative(&net(1000, 9), (1, 2), (50, 60), false);
        assert_eq!((forgotten.seq, forgotten.ack), (50, 60));
    }
}

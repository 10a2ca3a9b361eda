//! Cuts the pcapng stream of our own writer where blocks end, and keeps the blocks that describe it.

/// The types of blocks that describe those after them: section header, interface.
const DESCRIBING: [u32; 2] = [0x0a0d_0d0a, 1];
/// The type of a packet's block (Enhanced Packet Block).
const PACKET: u32 = 6;

/// The stream so far.
#[derive(Default)]
pub(super) struct Blocks {
    /// Bytes after the last complete block.
    rest: Vec<u8>,
    /// All describing blocks, which each client gets first.
    head: Vec<u8>,
}

/// Complete blocks.
pub(super) struct Cut {
    pub(super) bytes: Vec<u8>,
    /// The number of packets.
    pub(super) packets: u64,
    /// The size of the description before these blocks, in bytes.
    pub(super) before: usize,
}

impl Blocks {
    /// Takes the next bytes of the stream. Returns the blocks that are complete now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Cut {
        self.rest.extend_from_slice(bytes);
        let before = self.head.len();
        let (mut end, mut packets) = (0, 0);
        while let Some((kind, block)) = first(&self.rest[end..]) {
            if DESCRIBING.contains(&kind) {
                self.head.extend_from_slice(block);
            }
            packets += u64::from(kind == PACKET);
            end += block.len();
        }
        let rest = self.rest.split_off(end);
        Cut {
            bytes: std::mem::replace(&mut self.rest, rest),
            packets,
            before,
        }
    }

    /// Returns the description of the stream so far.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }
}

/// Returns the type of the first block, and the block. `None` if it is not complete.
fn first(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let size = usize::try_from(word(4)?).ok()?;
    // The writer is ours, so a size that no block has does not occur; the loop ends in any case.
    let block = bytes.get(..size.max(12))?;
    Some((word(0)?, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, size: u32) -> Vec<u8> {
        let mut block = [kind.to_le_bytes(), size.to_le_bytes()].concat();
        block.resize(size as usize, 0);
        block
    }

    #[test]
    fn blocks_are_whole_wherever_the_stream_is_read() {
        let parts = [
            (0x0a0d_0d0a, 28),
            (1, 20),
            (6, 64),
            (1, 24),
            (5, 12),
            (6, 100),
        ];
        let stream: Vec<u8> = parts
            .iter()
            .flat_map(|&(kind, size)| block(kind, size))
            .collect();
        for step in [1, 7, 50, 1000] {
            let mut blocks = Blocks::default();
            let cuts: Vec<Cut> = stream.chunks(step).map(|part| blocks.take(part)).collect();
            let bytes: Vec<u8> = cuts.iter().flat_map(|cut| cut.bytes.clone()).collect();
            assert_eq!(bytes, stream, "{step}");
            assert_eq!(cuts.iter().map(|cut| cut.packets).sum::<u64>(), 2);
            assert_eq!(blocks.head().len(), 28 + 20 + 24);
        }
    }
}

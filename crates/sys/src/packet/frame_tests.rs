//! Blocks built by hand, valid and hostile.

use super::super::geometry::Geometry;
use super::*;

const BLOCK: usize = 4096;
const MAC: u16 = 100;

/// A block as the kernel would write it.
struct Fake {
    memory: Box<[u64; BLOCK / 8]>,
    cursor: Cursor,
    used: usize,
    last: usize,
    packets: u32,
}

impl Fake {
    fn new() -> Self {
        let mut fake = Self {
            memory: Box::new([0; BLOCK / 8]),
            cursor: Cursor::default(),
            used: 48,
            last: 0,
            packets: 0,
        };
        fake.put(8, &STATUS_USER.to_ne_bytes());
        fake.put(16, &48_u32.to_ne_bytes());
        fake
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            let at = offset + i;
            let mut word = self.memory[at / 8].to_ne_bytes();
            word[at % 8] = byte;
            self.memory[at / 8] = u64::from_ne_bytes(word);
        }
    }

    fn put32(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_ne_bytes());
    }

    /// Adds a frame; `tag` is the tag that the kernel removed.
    fn push(&mut self, data: &[u8], tag: Option<(u16, u16)>) -> usize {
        let start = self.used;
        let caplen = u32::try_from(data.len()).unwrap();
        let size = (usize::from(MAC) + data.len()).next_multiple_of(8);
        self.put32(start, u32::try_from(size).unwrap());
        self.put32(start + 4, 1_700_000_000);
        self.put32(start + 8, 123_456_789);
        self.put32(start + 12, caplen);
        self.put32(start + 16, caplen);
        let mut status = STATUS_USER;
        if let Some((tpid, tci)) = tag {
            status |= STATUS_VLAN_VALID;
            self.put32(start + 32, u32::from(tci));
            if tpid != 0 {
                status |= STATUS_VLAN_TPID_VALID;
                self.put(start + 36, &tpid.to_ne_bytes());
            }
        }
        self.put32(start + 20, status);
        self.put(start + 24, &MAC.to_ne_bytes());
        self.put(start + 48, &17_u16.to_ne_bytes());
        self.put(start + 50, &[0x08, 0x00]);
        self.put32(start + 52, 7);
        self.put(start + 56, &1_u16.to_ne_bytes());
        self.put(start + 58, &[4, 6, 2, 0, 0, 0, 0, 1, 0xaa, 0xbb]);
        self.put(start + usize::from(MAC), data);
        self.last = start;
        self.used += size;
        self.packets += 1;
        self.put32(12, self.packets);
        start
    }

    fn block(&mut self, link: LinkLayer, snaplen: u32) -> RingBlock<'_> {
        let base = NonNull::from(self.memory.as_mut()).cast();
        let geometry = Geometry::unchecked(u32::try_from(BLOCK).unwrap(), 2);
        let shape = Shape { link, snaplen };
        // SAFETY: the memory is BLOCK bytes of u64, borrowed for as long as the block.
        unsafe {
            RingBlock::new(
                base,
                geometry.block_size(),
                geometry.blocks(),
                shape,
                &mut self.cursor,
            )
        }
    }

    /// Returns all frames' lengths and bytes.
    fn read(&mut self, link: LinkLayer, snaplen: u32) -> Vec<(u32, Vec<u8>)> {
        let block = self.block(link, snaplen);
        let first: Vec<_> = block.frames().map(|f| (f.len, f.data.to_vec())).collect();
        let second: Vec<_> = block.frames().map(|f| (f.len, f.data.to_vec())).collect();
        assert_eq!(first, second, "a second visit sees what the first saw");
        first
    }

    fn damaged(&self) -> u64 {
        self.cursor.damaged.get()
    }
}

fn ethernet(payload: u8, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (1..=12).collect();
    frame.extend([0x08, 0x00]);
    frame.resize(14 + len, payload);
    frame
}

#[test]
fn frames_come_in_order_with_all_fields() {
    let mut fake = Fake::new();
    let packets: Vec<Vec<u8>> = (0..10).map(|i| ethernet(i, 20 + usize::from(i))).collect();
    for packet in &packets {
        fake.push(packet, None);
    }
    let block = fake.block(LinkLayer::Ethernet, 65_535);
    assert_eq!(block.len(), 10);
    assert!(!block.is_empty());
    for (frame, packet) in block.frames().zip(&packets) {
        assert_eq!(frame.data, packet);
        assert_eq!(frame.len as usize, packet.len());
        assert_eq!((frame.secs, frame.nanos), (1_700_000_000, 123_456_789));
        assert_eq!((frame.packet_type, frame.ifindex), (4, 7));
        assert!(!frame.is_after_loss() && !frame.is_checksum_partial());
    }
    assert_eq!(block.frames().count(), 10);
    drop(block);
    assert_eq!(fake.cursor.block, 1);
    assert_eq!(
        u32::try_from(fake.memory[1] & 0xffff_ffff).unwrap(),
        STATUS_KERNEL
    );
}

#[test]
fn a_tag_returns_to_byte_twelve() {
    let mut fake = Fake::new();
    fake.push(&ethernet(1, 30), Some((0x88a8, 0x6005)));
    fake.push(&ethernet(2, 30), Some((0, 5)));
    fake.push(&ethernet(3, 30), None);
    let frames = fake.read(LinkLayer::Ethernet, 65_535);
    assert_eq!(frames[0].0, 48);
    assert_eq!(frames[0].1[..12], ethernet(1, 30)[..12]);
    assert_eq!(frames[0].1[12..18], [0x88, 0xa8, 0x60, 0x05, 0x08, 0x00]);
    assert_eq!(frames[1].1[12..18], [0x81, 0x00, 0x00, 0x05, 0x08, 0x00]);
    assert_eq!(frames[2].1, ethernet(3, 30));
}

#[test]
fn the_snaplen_bounds_what_was_put_back_too() {
    let mut fake = Fake::new();
    fake.push(&ethernet(1, 30), Some((0x8100, 5)));
    fake.push(&ethernet(1, 30)[..8], Some((0x8100, 5)));
    fake.push(&[], None);
    let frames = fake.read(LinkLayer::Ethernet, 20);
    assert_eq!((frames[0].0, frames[0].1.len()), (48, 20));
    assert_eq!((frames[1].0, frames[1].1.len()), (12, 8));
    assert_eq!(frames[2], (0, vec![]));
    let mut fake = Fake::new();
    fake.push(&ethernet(1, 30), None);
    assert_eq!(fake.read(LinkLayer::Native, 0), [(44, vec![])]);
}

#[test]
fn a_cooked_header_is_built() {
    let mut fake = Fake::new();
    fake.push(b"payload", None);
    fake.push(b"payload", Some((0x8100, 5)));
    let frames = fake.read(LinkLayer::CookedV2, 65_535);
    let header = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(frames[0], (27, [&header[..], b"payload"].concat()));
    let mut tagged = header;
    tagged[..2].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(
        frames[1],
        (31, [&tagged[..], &[0, 5, 8, 0], b"payload"].concat())
    );
}

#[test]
fn a_netlink_header_is_built() {
    let mut fake = Fake::new();
    fake.push(b"payload", None);
    let frames = fake.read(LinkLayer::Netlink, 65_535);
    let header = [0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0];
    assert_eq!(frames, [(23, [&header[..], b"payload"].concat())]);
}

#[test]
fn a_forgotten_block_is_found_as_it_was_left() {
    let mut fake = Fake::new();
    fake.push(b"one", None);
    fake.push(b"two", None);
    let block = fake.block(LinkLayer::CookedV2, 65_535);
    let first = block.frames().next().unwrap().data.to_vec();
    std::mem::forget(block);
    let frames = fake.read(LinkLayer::CookedV2, 65_535);
    assert_eq!(frames[0].1, first);
    assert_eq!(frames[1].1[20..], *b"two");
}

#[test]
fn a_kept_block_goes_on_where_it_was_left() {
    let mut fake = Fake::new();
    for data in [b"one", b"two", b"six"] {
        fake.push(data, None);
    }
    let take = |fake: &mut Fake, expected: &[&[u8]]| {
        let block = fake.block(LinkLayer::CookedV2, 65_535);
        assert_eq!(block.len() as usize, expected.len());
        let mut frames = block.frames();
        assert!(!frames.is_spent());
        assert_eq!(frames.clone().count(), expected.len());
        assert_eq!(frames.next().unwrap().data[20..], *expected[0]);
        let position = frames.position();
        block.keep_from(position);
    };
    take(&mut fake, &[b"one", b"two", b"six"]);
    take(&mut fake, &[b"two", b"six"]);
    let frames = fake.read(LinkLayer::CookedV2, 65_535);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].1[20..], *b"six");
}

#[test]
fn impossible_headers_end_the_block_and_are_counted() {
    let good = ethernet(1, 30);
    // Offsets in the second frame's header, and the bytes written there.
    let attacks: &[(usize, &[u8])] = &[
        (12, &u32::MAX.to_ne_bytes()),
        (12, &4096_u32.to_ne_bytes()),
        (24, &0_u16.to_ne_bytes()),
        (24, &67_u16.to_ne_bytes()),
        (24, &u16::MAX.to_ne_bytes()),
        (0, &0_u32.to_ne_bytes()),
        (0, &90_u32.to_ne_bytes()),
    ];
    for (offset, bytes) in attacks {
        let mut fake = Fake::new();
        fake.push(&good, None);
        let second = fake.push(&good, None);
        fake.push(&good, None);
        fake.put(second + offset, bytes);
        assert_eq!(
            fake.read(LinkLayer::Ethernet, 65_535).len(),
            1,
            "{offset} {bytes:?}"
        );
        assert_eq!(fake.damaged(), 1);
    }
}

#[test]
fn an_impossible_next_frame_ends_the_block() {
    let cases = [
        (u32::MAX, 0),
        (u32::MAX - 7, 0),
        (4096, 0),
        (4097, 0),
        (4056, 0),
        (147, 1),
        (4040, 1),
    ];
    for (next, expected) in cases {
        let mut fake = Fake::new();
        let first = fake.push(&ethernet(1, 30), None);
        fake.push(&ethernet(2, 30), None);
        fake.put32(first, next);
        assert_eq!(
            fake.read(LinkLayer::Ethernet, 65_535).len(),
            expected,
            "{next}"
        );
        assert_eq!(fake.damaged(), 1);
    }
}

#[test]
fn impossible_block_headers_yield_nothing() {
    for first in [0, 40, 47, 49, 4040, 4096, u32::MAX] {
        let mut fake = Fake::new();
        fake.push(&ethernet(1, 30), None);
        fake.put32(16, first);
        assert_eq!(fake.read(LinkLayer::Ethernet, 65_535).len(), 0, "{first}");
        assert_eq!(fake.damaged(), 1);
    }
    let mut fake = Fake::new();
    fake.push(&ethernet(1, 30), None);
    fake.put32(12, u32::MAX);
    assert_eq!(fake.read(LinkLayer::Ethernet, 65_535).len(), 1);
    assert_eq!(fake.damaged(), 1);
    assert!(Fake::new().block(LinkLayer::Native, 100).is_empty());
}

#[test]
fn a_frame_without_headroom_stays_as_it_is() {
    let mut fake = Fake::new();
    let start = fake.push(&ethernet(1, 30), Some((0x8100, 5)));
    fake.put(start + 24, &70_u16.to_ne_bytes());
    let frames = fake.read(LinkLayer::Ethernet, 65_535);
    assert_eq!(frames[0].0, 44);
    assert_eq!(frames[0].1.len(), 44);
}

/// Random bytes over the headers: for any values, iteration ends and stays within the block.
#[test]
fn random_headers_never_leave_the_block() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000 {
        let mut fake = Fake::new();
        for i in 0..6 {
            fake.push(
                &ethernet(i, usize::from(i) * 7),
                (i % 2 == 0).then_some((0x8100, 5)),
            );
        }
        for _ in 0..=round % 5 {
            let word = usize::try_from(random() % 90).unwrap();
            let value = if random() % 2 == 0 {
                random()
            } else {
                random() % 5000
            };
            if word != 1 {
                fake.memory[word] = value;
            }
        }
        let link = [LinkLayer::Ethernet, LinkLayer::CookedV2, LinkLayer::Netlink][round % 3];
        let memory = fake.memory.as_ptr() as usize;
        let block = fake.block(link, 65_535);
        let mut bytes = 0;
        for frame in block.frames() {
            let start = frame.data.as_ptr() as usize;
            assert!(start >= memory + 48 && start + frame.data.len() <= memory + BLOCK);
            bytes += frame.data.len();
        }
        assert!(bytes <= BLOCK);
    }
}

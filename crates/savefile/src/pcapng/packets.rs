//! Packet blocks of pcapng: one walk validates them, then the iteration cannot fail.

use crate::encoding::{PcapngEncoding, Visitor, Walk};
use crate::fetch::Ahead;
use crate::pcapng::{InterfaceTable, Options, TRAILER, block_type};
use crate::read_error::{CaplenBound, ReadErrorKind, Structure};
use crate::{ByteOrder, Packet, PacketFlags, Timestamp};

/// Bytes before the data of an enhanced (and of an obsolete) packet block.
pub(crate) const EPB_FIXED: usize = 28;
/// Bytes before the data of a simple packet block.
const SPB_FIXED: usize = 12;

/// Why a walk ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The block's type and length are incomplete.
    Header,
    /// The block is incomplete; it needs `need` bytes.
    Block { need: usize, block_type: u32 },
    /// A block of another type; its length is not checked.
    Other,
    /// The block is damaged.
    Damaged(ReadErrorKind),
}

/// Walks over the complete, valid packet blocks at the start of `bytes`; notes the start of each in
/// `starts`, if given. Blocks of more than `max_block` bytes are damaged.
pub(crate) fn walk(
    bytes: &[u8],
    byte_order: ByteOrder,
    interfaces: &InterfaceTable,
    max_block: usize,
    starts: Option<&mut Vec<usize>>,
) -> Walk<Stop> {
    match starts {
        None => walk_noting(bytes, byte_order, interfaces, max_block, |_| ()),
        Some(starts) => {
            starts.clear();
            walk_noting(bytes, byte_order, interfaces, max_block, |start| {
                starts.push(start);
            })
        }
    }
}

/// Walks over blocks like [`walk`], and passes on each packet, without its flags, after its block
/// was checked. Returns `None` if the most significant byte comes first.
#[inline(always)]
pub(crate) fn walk_giving(
    bytes: &[u8],
    encoding: PcapngEncoding<'_>,
    max_block: usize,
    visitor: &mut impl Visitor,
) -> Option<Walk<Stop>> {
    const ORDER: ByteOrder = ByteOrder::Little;
    if encoding.byte_order != ORDER {
        return None;
    }
    let interfaces = encoding.interfaces;
    // A constant, so that the loop has no branch for it.
    let encoding = PcapngEncoding {
        byte_order: ORDER,
        interfaces,
    };
    let mut ahead = Ahead::of(bytes);
    let visit = |start, block| {
        ahead.keep_before(start);
        if let Some(packet) = BlockPackets::new(block, encoding).next_without_flags() {
            visitor.packet(&packet);
        }
    };
    Some(walk_in(bytes, ORDER, interfaces, max_block, visit))
}

#[inline(always)]
fn walk_noting(
    bytes: &[u8],
    byte_order: ByteOrder,
    interfaces: &InterfaceTable,
    max_block: usize,
    mut note: impl FnMut(usize),
) -> Walk<Stop> {
    let note = |start, _: &[u8]| note(start);
    // Two copies of the loop, each without a branch for the byte order.
    match byte_order {
        ByteOrder::Little => walk_in(bytes, ByteOrder::Little, interfaces, max_block, note),
        ByteOrder::Big => walk_in(bytes, ByteOrder::Big, interfaces, max_block, note),
    }
}

/// Walks over blocks and calls `visit` with the offset and the bytes of each.
#[inline(always)]
fn walk_in<'a>(
    bytes: &'a [u8],
    order: ByteOrder,
    interfaces: &InterfaceTable,
    max_block: usize,
    mut visit: impl FnMut(usize, &'a [u8]),
) -> Walk<Stop> {
    let mut rest = bytes;
    let mut packets = 0;
    let mut max_caplen = 0;
    let stop = loop {
        match check(rest, order, interfaces, max_block) {
            Ok(valid) => {
                let (block, next) = rest.split_at(valid.length);
                visit(bytes.len() - rest.len(), block);
                rest = next;
                packets += 1;
                max_caplen = valid.caplen.max(max_caplen);
            }
            Err(stop) => break stop,
        }
    };
    Walk {
        used: bytes.len() - rest.len(),
        packets,
        max_caplen,
        stop,
    }
}

/// A valid packet block.
struct Valid {
    length: usize,
    caplen: u32,
}

#[inline(always)]
fn check(
    bytes: &[u8],
    order: ByteOrder,
    interfaces: &InterfaceTable,
    max_block: usize,
) -> Result<Valid, Stop> {
    let (Some(block_type), Some(total)) = (order.u32_at(bytes, 0), order.u32_at(bytes, 4)) else {
        return Err(Stop::Header);
    };
    if block_type != block_type::ENHANCED_PACKET {
        return check_rare(bytes, order, block_type, interfaces, max_block);
    }
    let length = total as usize;
    let Some(block) = bytes.get(..length) else {
        return Err(incomplete(block_type, total, max_block));
    };
    let min = EPB_FIXED + TRAILER;
    if length < min || !length.is_multiple_of(4) || length > max_block {
        return Err(bad_length(block_type, total, min, max_block));
    }
    let interface = order.u32_at(block, 8).unwrap_or(u32::MAX);
    let caplen = order.u32_at(block, 20).unwrap_or(u32::MAX);
    let trailer = order.u32_at(block, length - TRAILER).unwrap_or(0);
    let max_caplen = interfaces.max_caplen(interface);
    let fits = caplen as usize <= length - min && max_caplen.is_some_and(|max| caplen <= max);
    if trailer != total || !fits {
        return Err(damaged(
            block, order, block_type, interfaces, interface, caplen,
        ));
    }
    Ok(Valid { length, caplen })
}

/// Checks rare packet blocks, as [`check`].
#[cold]
fn check_rare(
    bytes: &[u8],
    order: ByteOrder,
    block_type: u32,
    interfaces: &InterfaceTable,
    max_block: usize,
) -> Result<Valid, Stop> {
    let fixed = match block_type {
        block_type::PACKET => EPB_FIXED,
        block_type::SIMPLE_PACKET => SPB_FIXED,
        _ => return Err(Stop::Other),
    };
    let total = order.u32_at(bytes, 4).unwrap_or(0);
    let length = total as usize;
    let min = fixed + TRAILER;
    let Some(block) = bytes.get(..length) else {
        return Err(incomplete(block_type, total, max_block));
    };
    if length < min || !length.is_multiple_of(4) || length > max_block {
        return Err(bad_length(block_type, total, min, max_block));
    }
    let (interface, caplen) = if block_type == block_type::PACKET {
        let interface = order.u16_at(block, 8).map_or(u32::MAX, u32::from);
        (interface, order.u32_at(block, 20).unwrap_or(u32::MAX))
    } else {
        let len = order.u32_at(block, 8).unwrap_or(u32::MAX);
        (0, len.min(interfaces.max_caplen(0).unwrap_or(u32::MAX)))
    };
    let trailer = order.u32_at(block, length - TRAILER).unwrap_or(0);
    let max_caplen = interfaces.max_caplen(interface);
    let fits = caplen as usize <= length - min && max_caplen.is_some_and(|max| caplen <= max);
    if trailer != total || !fits {
        return Err(damaged(
            block, order, block_type, interfaces, interface, caplen,
        ));
    }
    Ok(Valid { length, caplen })
}

/// Returns the stop for an incomplete block, or an error if its length shows that it is damaged.
#[cold]
fn incomplete(block_type: u32, total: u32, max_block: usize) -> Stop {
    match crate::pcapng::check_length(block_type, total, max_block) {
        Ok(need) => Stop::Block { need, block_type },
        Err(kind) => Stop::Damaged(kind),
    }
}

#[cold]
fn bad_length(block_type: u32, total: u32, min: usize, max_block: usize) -> Stop {
    let kind = crate::pcapng::check_length(block_type, total, max_block)
        .err()
        .unwrap_or(ReadErrorKind::BlockTooShort {
            structure: Structure::Block(block_type),
            length: total,
            min: u32::try_from(min).unwrap_or(u32::MAX),
        });
    Stop::Damaged(kind)
}

/// Returns the error of a complete packet block with a valid length.
#[cold]
fn damaged(
    block: &[u8],
    order: ByteOrder,
    block_type: u32,
    interfaces: &InterfaceTable,
    interface: u32,
    caplen: u32,
) -> Stop {
    let structure = Structure::Block(block_type);
    let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
    let trailer = order.u32_at(block, block.len() - TRAILER).unwrap_or(0);
    if trailer != length {
        return Stop::Damaged(ReadErrorKind::TrailerMismatch {
            structure,
            length,
            trailer,
        });
    }
    let Some(max) = interfaces.max_caplen(interface) else {
        return Stop::Damaged(ReadErrorKind::UnknownInterface {
            structure,
            interface,
            known: interfaces.len(),
        });
    };
    if caplen > max {
        return Stop::Damaged(ReadErrorKind::CapturedLength {
            structure,
            caplen,
            max,
            bound: CaplenBound::Snaplen,
        });
    }
    let fixed = if block_type == block_type::SIMPLE_PACKET {
        SPB_FIXED
    } else {
        EPB_FIXED
    };
    Stop::Damaged(ReadErrorKind::CapturedBeyondBlock {
        structure,
        caplen,
        room: u32::try_from(block.len() - fixed - TRAILER).unwrap_or(u32::MAX),
    })
}

/// Iterator over validated packet blocks.
#[derive(Clone, Debug)]
pub(crate) struct BlockPackets<'a> {
    rest: &'a [u8],
    encoding: PcapngEncoding<'a>,
}

impl<'a> BlockPackets<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], encoding: PcapngEncoding<'a>) -> Self {
        Self {
            rest: bytes,
            encoding,
        }
    }

    /// Returns the next packet, with the bytes of its options.
    #[inline(always)]
    fn next_raw(&mut self) -> Option<(Packet<'a>, &'a [u8])> {
        let order = self.encoding.byte_order;
        let [t0, t1, t2, t3, l0, l1, l2, l3] = *self.rest.first_chunk()?;
        let total = order.u32([l0, l1, l2, l3]) as usize;
        let (block, rest) = self.rest.split_at_checked(total)?;
        self.rest = rest;
        let body = block.get(..total.checked_sub(TRAILER)?)?;
        if order.u32([t0, t1, t2, t3]) == block_type::ENHANCED_PACKET {
            let interface = order.u32_at(body, 8)?;
            self.packet(body, interface)
        } else {
            self.rare(body, order.u32([t0, t1, t2, t3]))
        }
    }

    /// Returns the packet of an enhanced or obsolete packet block; they differ only in the
    /// interface.
    #[inline(always)]
    fn packet(&self, body: &'a [u8], interface: u32) -> Option<(Packet<'a>, &'a [u8])> {
        let order = self.encoding.byte_order;
        let (fixed, rest) = body.split_first_chunk::<EPB_FIXED>()?;
        let [_, _, _, high, low, caplen, len] = *fixed.as_chunks().0 else {
            return None;
        };
        let ticks = u64::from(order.u32(high)) << 32 | u64::from(order.u32(low));
        let caplen = order.u32(caplen) as usize;
        let data = rest.get(..caplen)?;
        let options = rest.get(caplen.next_multiple_of(4)..).unwrap_or(&[]);
        let clock = self.encoding.interfaces.clock(interface)?;
        let packet = Packet {
            timestamp: clock.timestamp(ticks),
            len: order.u32(len),
            interface: self.encoding.interfaces.first().saturating_add(interface),
            flags: PacketFlags::default(),
            data,
            process: None,
        };
        Some((packet, options))
    }

    #[cold]
    fn rare(&self, body: &'a [u8], block_type: u32) -> Option<(Packet<'a>, &'a [u8])> {
        let order = self.encoding.byte_order;
        if block_type == block_type::PACKET {
            let interface = order.u16_at(body, 8)?;
            return self.packet(body, u32::from(interface));
        }
        let interfaces = self.encoding.interfaces;
        let len = order.u32_at(body, 8)?;
        let caplen = len.min(interfaces.max_caplen(0)?);
        let packet = Packet {
            // The block has no time; like libpcap, this uses the epoch, without the interface's
            // offset.
            timestamp: Timestamp::default(),
            len,
            interface: interfaces.first(),
            flags: PacketFlags::default(),
            data: body.get(SPB_FIXED..)?.get(..caplen as usize)?,
            process: None,
        };
        Some((packet, &[]))
    }

    /// Returns the next packet without its flags, which are among its options.
    #[inline(always)]
    pub(crate) fn next_without_flags(&mut self) -> Option<Packet<'a>> {
        self.next_raw().map(|(packet, _)| packet)
    }

    #[inline]
    pub(crate) fn next_with_options(&mut self) -> Option<(Packet<'a>, Options<'a>)> {
        let (mut packet, options) = self.next_raw()?;
        let options = Options::new(self.encoding.byte_order, options);
        options.read_into(&mut packet);
        Some((packet, options))
    }
}

impl<'a> Iterator for BlockPackets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        let (mut packet, options) = self.next_raw()?;
        if !options.is_empty() {
            Options::new(self.encoding.byte_order, options).read_into(&mut packet);
        }
        Some(packet)
    }
}

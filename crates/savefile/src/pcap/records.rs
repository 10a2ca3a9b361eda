//! pcap packet records: one walk validates them, then the iteration cannot fail.

use crate::encoding::Visitor;
use crate::encoding::{LengthOrder, PcapEncoding, Walk};
use crate::fetch::Ahead;
use crate::{ByteOrder, Packet, PacketFlags, Timestamp};

/// Bytes of a packet record's header.
pub(crate) const RECORD_HEADER: usize = 16;
/// Bytes of a record's header in the modified format.
const EXTENDED_HEADER: usize = 24;

/// The reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The record header is incomplete; it needs `need` bytes.
    Header { need: usize },
    /// The record's data are incomplete; the record needs `need` bytes.
    Data { need: usize, header: usize },
    /// The record states more captured bytes than valid.
    Caplen { caplen: u32 },
}

impl PcapEncoding {
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        if self.extended {
            EXTENDED_HEADER
        } else {
            RECORD_HEADER
        }
    }

    /// Returns the bytes of the record at the start of `bytes`, with its header.
    pub(crate) fn record_len(&self, bytes: &[u8]) -> Option<usize> {
        let order = self.byte_order;
        let (caplen, _) = self.lengths(order.u32_at(bytes, 8)?, order.u32_at(bytes, 12)?);
        Some(self.header_len() + caplen as usize)
    }

    /// Returns captured and original length of a record.
    #[inline]
    fn lengths(&self, first: u32, second: u32) -> (u32, u32) {
        match self.lengths {
            LengthOrder::CapturedFirst => (first, second),
            LengthOrder::OriginalFirst => (second, first),
            LengthOrder::SmallerIsCaptured => (first.min(second), first.max(second)),
        }
    }
}

/// Walks over the complete, valid records at the start of `bytes`; notes the start of each in
/// `starts`, if given.
pub(crate) fn walk(
    bytes: &[u8],
    encoding: &PcapEncoding,
    max_caplen: u32,
    starts: Option<&mut Vec<usize>>,
) -> Walk<Stop> {
    match starts {
        None => walk_noting(bytes, encoding, max_caplen, |_| ()),
        Some(starts) => {
            starts.clear();
            walk_noting(bytes, encoding, max_caplen, |start| starts.push(start))
        }
    }
}

/// Walks over records like [`walk`], and passes each packet on after its record was checked.
/// Returns `None` if the encoding is not that of most files.
#[inline(always)]
pub(crate) fn walk_giving(
    bytes: &[u8],
    encoding: &PcapEncoding,
    max_caplen: u32,
    visitor: &mut impl Visitor,
) -> Option<Walk<Stop>> {
    let UsualRecords { snaplen, .. } = UsualRecords::new(bytes, *encoding)?;
    let mut ahead = Ahead::of(bytes);
    let caplen = |header: &_| u32::from_le_bytes(captured_field(header));
    let visit = |start, record| {
        ahead.keep_before(start);
        let mut records = UsualRecords {
            rest: record,
            snaplen,
        };
        if let Some(packet) = records.next() {
            visitor.packet(&packet);
        }
    };
    Some(walk_by(bytes, RECORD_HEADER, max_caplen, caplen, visit))
}

#[inline(always)]
fn walk_noting(
    bytes: &[u8],
    encoding: &PcapEncoding,
    max_caplen: u32,
    mut note: impl FnMut(usize),
) -> Walk<Stop> {
    let mut touched = 0u8;
    let note = |start: usize, record: &[u8]| {
        // The walk knows the place of a header only after it has read the one before, and waits for
        // each. The record after the next begins here if the next is as long as this one. Touching
        // that place halves the waiting for large records, which the processor does not prefetch by
        // itself (measured: 5 % of the time to rewrite a file of them). For small ones it costs
        // nothing; a test of the length would add a branch that cannot be predicted.
        touched ^= bytes.get(start + 2 * record.len()).copied().unwrap_or(0);
        note(start);
    };
    let walk = walk_any(bytes, encoding, max_caplen, note);
    std::hint::black_box(touched);
    walk
}

#[inline(always)]
fn walk_any<'a>(
    bytes: &'a [u8],
    encoding: &PcapEncoding,
    max_caplen: u32,
    note: impl FnMut(usize, &'a [u8]),
) -> Walk<Stop> {
    let plain = !encoding.extended && encoding.lengths == LengthOrder::CapturedFirst;
    match (plain, encoding.byte_order) {
        (true, ByteOrder::Little) => {
            let caplen = |header: &_| u32::from_le_bytes(captured_field(header));
            walk_by(bytes, RECORD_HEADER, max_caplen, caplen, note)
        }
        (true, ByteOrder::Big) => {
            let caplen = |header: &_| u32::from_be_bytes(captured_field(header));
            walk_by(bytes, RECORD_HEADER, max_caplen, caplen, note)
        }
        (false, order) => {
            let caplen = |header: &[u8; RECORD_HEADER]| {
                let [.., f0, f1, f2, f3, s0, s1, s2, s3] = *header;
                encoding
                    .lengths(order.u32([f0, f1, f2, f3]), order.u32([s0, s1, s2, s3]))
                    .0
            };
            walk_by(bytes, encoding.header_len(), max_caplen, caplen, note)
        }
    }
}

#[inline]
fn captured_field(header: &[u8; RECORD_HEADER]) -> [u8; 4] {
    let [_, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = *header;
    [c0, c1, c2, c3]
}

/// Walks over records and calls `visit` with the offset and the bytes of each.
#[inline(always)]
fn walk_by<'a>(
    bytes: &'a [u8],
    header_len: usize,
    max_caplen: u32,
    caplen_of: impl Fn(&[u8; RECORD_HEADER]) -> u32,
    mut visit: impl FnMut(usize, &'a [u8]),
) -> Walk<Stop> {
    let mut rest = bytes;
    let mut packets = 0;
    let mut largest = 0;
    let stop = loop {
        let (Some(header), true) = (rest.first_chunk(), rest.len() >= header_len) else {
            break Stop::Header { need: header_len };
        };
        let caplen = caplen_of(header);
        if caplen > max_caplen {
            break Stop::Caplen { caplen };
        }
        let need = header_len + caplen as usize;
        let Some((record, next)) = rest.split_at_checked(need) else {
            break Stop::Data {
                need,
                header: header_len,
            };
        };
        visit(bytes.len() - rest.len(), record);
        rest = next;
        packets += 1;
        largest = largest.max(caplen);
    };
    Walk {
        used: bytes.len() - rest.len(),
        packets,
        max_caplen: largest,
        stop,
    }
}

/// Iterator over validated packet records.
#[derive(Clone, Debug)]
pub(crate) struct PcapRecords<'a> {
    rest: &'a [u8],
    encoding: PcapEncoding,
}

impl<'a> PcapRecords<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], encoding: PcapEncoding) -> Self {
        Self {
            rest: bytes,
            encoding,
        }
    }
}

impl<'a> Iterator for PcapRecords<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        next(&mut self.rest, self.encoding)
    }
}

/// Iterator over validated packet records with the encoding of most files: least significant byte
/// first, microseconds.
#[derive(Clone, Debug)]
pub(crate) struct UsualRecords<'a> {
    rest: &'a [u8],
    snaplen: u32,
}

impl<'a> UsualRecords<'a> {
    /// Returns `None` if the encoding is another.
    pub(crate) fn new(bytes: &'a [u8], encoding: PcapEncoding) -> Option<Self> {
        let records = Self {
            rest: bytes,
            snaplen: encoding.snaplen,
        };
        (encoding == records.encoding()).then_some(records)
    }

    #[inline(always)]
    fn encoding(&self) -> PcapEncoding {
        PcapEncoding {
            byte_order: ByteOrder::Little,
            nanos: false,
            extended: false,
            lengths: LengthOrder::CapturedFirst,
            snaplen: self.snaplen,
        }
    }
}

impl<'a> Iterator for UsualRecords<'a> {
    type Item = Packet<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet<'a>> {
        let encoding = self.encoding();
        next(&mut self.rest, encoding)
    }
}

/// Takes the packet at the start of `rest`, which becomes the bytes after it.
#[inline(always)]
fn next<'a>(rest: &mut &'a [u8], encoding: PcapEncoding) -> Option<Packet<'a>> {
    let order = encoding.byte_order;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *rest.first_chunk()?;
    let secs = order.u32([a, b, c, d]);
    let fraction = order.u32([e, f, g, h]);
    let (caplen, len) = encoding.lengths(order.u32([i, j, k, l]), order.u32([m, n, o, p]));
    let data = rest.get(encoding.header_len()..)?;
    let (data, behind) = data.split_at_checked(caplen as usize)?;
    *rest = behind;
    Some(Packet {
        timestamp: timestamp(secs, fraction, encoding.nanos),
        len,
        interface: 0,
        flags: PacketFlags::default(),
        data: &data[..data.len().min(encoding.snaplen as usize)],
        process: None,
    })
}

/// Returns a record's time.
#[inline(always)]
fn timestamp(secs: u32, fraction: u32, nanos: bool) -> Timestamp {
    if nanos {
        Timestamp::new(i64::from(secs), fraction)
    } else {
        Timestamp::from_micros(i64::from(secs), fraction)
    }
}

//! The header of a pcap file, with the variants that libpcap 1.10 accepts.

use crate::encoding::{LengthOrder, PcapEncoding};
use crate::interface::effective_snaplen;
use crate::read_error::ReadErrorKind;
use crate::{ByteOrder, Format, Interface, Limits, LinkType, Resolution};

/// Bytes of the file header.
pub(crate) const FILE_HEADER: usize = 24;

pub(crate) const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
pub(crate) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// The "modified" format of old patched versions of libpcap: record headers have 8 more bytes.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// Bytes of an artificial Ethernet header. In cooked captures, writers of the modified format put
/// it before data of the snaplen's length. libpcap always allows for it.
const MODIFIED_EXTRA: u32 = 14;

/// The bits of the last header field that hold the link type in libpcap 1.10.
const LINK_TYPE_BITS: u32 = 0x03ff_ffff;
/// Set if the upper four bits hold the length of the frame check sequence.
const FCS_PRESENT: u32 = 0x0400_0000;
/// The unit of the frame check sequence's length, in bits.
const FCS_UNIT_BITS: u8 = 16;

/// The contents of a pcap file's header.
#[derive(Debug)]
pub(crate) struct FileHeader {
    /// Major and minor version.
    pub(crate) version: (u16, u16),
    pub(crate) encoding: PcapEncoding,
    /// Most captured bytes of a record.
    pub(crate) max_caplen: u32,
    pub(crate) interface: Interface,
}

/// Returns whether a file that begins with these bytes is a pcap file of any kind.
pub(crate) fn is_pcap(magic: [u8; 4]) -> bool {
    parse_magic(magic).is_some()
}

fn parse_magic(bytes: [u8; 4]) -> Option<(ByteOrder, u32)> {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let mut magics = orders.map(|order| (order, order.u32(bytes))).into_iter();
    magics.find(|(_, magic)| matches!(*magic, MAGIC_MICROS | MAGIC_NANOS | MAGIC_MODIFIED))
}

impl FileHeader {
    /// Parses the header.
    pub(crate) fn parse(bytes: &[u8; FILE_HEADER], limits: &Limits) -> Result<Self, ReadErrorKind> {
        let [m0, m1, m2, m3, major0, major1, minor0, minor1, rest @ ..] = *bytes;
        let found = [m0, m1, m2, m3];
        let Some((order, magic)) = parse_magic(found) else {
            return Err(ReadErrorKind::UnknownFormat { magic: found });
        };
        let [.., s0, s1, s2, s3, l0, l1, l2, l3] = rest;
        let version = (order.u16([major0, major1]), order.u16([minor0, minor1]));
        let lengths = length_order(version.0, version.1)?;
        let stated_snaplen = order.u32([s0, s1, s2, s3]);
        let field = order.u32([l0, l1, l2, l3]);
        let link_type = link_type(field)?;
        let max_caplen = limits.max_caplen(link_type);
        let extended = magic == MAGIC_MODIFIED;
        let mut snaplen = match stated_snaplen {
            0 => max_caplen,
            stated => effective_snaplen(stated, link_type),
        };
        if extended && link_type == LinkType::ETHERNET {
            snaplen = snaplen.saturating_add(MODIFIED_EXTRA);
        }
        let nanos = magic == MAGIC_NANOS;
        let mut interface = Interface::new(link_type, stated_snaplen);
        interface.fcs_len = fcs_len(field);
        interface.link_type_bits = field & !LINK_TYPE_BITS;
        if extended && stated_snaplen != 0 {
            interface.snaplen = snaplen;
        }
        if !nanos {
            interface.resolution = Resolution::MICROS;
        }
        Ok(Self {
            version,
            encoding: PcapEncoding {
                byte_order: order,
                nanos,
                extended,
                lengths,
                snaplen,
            },
            max_caplen,
            interface,
        })
    }
}

fn length_order(major: u16, minor: u16) -> Result<LengthOrder, ReadErrorKind> {
    match (major, minor) {
        (2, 0..=2) | (543, 0) => Ok(LengthOrder::OriginalFirst),
        (2, 3) => Ok(LengthOrder::SmallerIsCaptured),
        (2, 4) => Ok(LengthOrder::CapturedFirst),
        _ => Err(ReadErrorKind::Version {
            format: Format::Pcap,
            major,
            minor,
            supported: "2.0 to 2.4 and 543.0",
        }),
    }
}

fn link_type(field: u32) -> Result<LinkType, ReadErrorKind> {
    let value = field & LINK_TYPE_BITS;
    u16::try_from(value)
        .map(|value| LinkType(value).canonical())
        .map_err(|_| ReadErrorKind::LinkTypeRange { value })
}

fn fcs_len(field: u32) -> Option<u8> {
    let [units, ..] = (field >> 28).to_le_bytes();
    (field & FCS_PRESENT != 0).then_some(units * FCS_UNIT_BITS)
}

/// Returns the upper bits of the last header field for a frame check sequence of `fcs_len` bits, in
/// units of 16.
pub(crate) fn fcs_bits(fcs_len: u8) -> u32 {
    FCS_PRESENT | (u32::from(fcs_len / FCS_UNIT_BITS) << 28)
}

/// Returns the last header field.
pub(crate) fn link_type_field(link_type: LinkType, upper_bits: u32) -> u32 {
    u32::from(link_type.0) | (upper_bits & !LINK_TYPE_BITS)
}

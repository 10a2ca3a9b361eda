//! The link layer: from the first byte of a packet over tags and labels to its network layer.

use crate::LinkType;
use crate::bytes::{be16, be32, byte, chunk, le16, le32};
use crate::ether_type::{self, ppp};

/// The most headers that are skipped: tags, labels and encapsulations together.
const STEPS: u32 = 32;

/// The number of VLAN tags whose offsets are kept; more are skipped.
const TAGS: usize = 4;

/// The offsets of the headers before the network layer, in bytes from the start of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The outermost Ethernet frame; its first 12 bytes are the destination and source addresses.
    pub ethernet: Option<usize>,
    /// The topmost MPLS label.
    pub mpls: Option<usize>,
    /// The interface number of 4 bytes, if the header has one ([`LinkType::LINUX_SLL2`]).
    pub interface: Option<usize>,
    /// The Ethernet type of the network layer, if a header has one. Without it the packet is IP,
    /// with the version in its first byte.
    pub ether_type: Option<u16>,
    tags: [usize; TAGS],
    tag_count: usize,
    steps: u32,
}

/// Returns the offset of the IP header, if there is one and some of it was captured.
#[inline]
pub fn find_ip(link_type: LinkType, data: &[u8], link: &mut Link) -> Option<usize> {
    let at = find_network(link_type, data, link)?;
    link.is_ip().then_some(at)
}

/// Returns the offset of the network layer of any protocol, and fills in `link`.
#[inline]
pub fn find_network(link_type: LinkType, data: &[u8], link: &mut Link) -> Option<usize> {
    match link_type {
        LinkType::ETHERNET => {
            // The fast path for most packets.
            match be16(data, 12)? {
                kind @ (ether_type::IPV4 | ether_type::IPV6 | ether_type::ARP) => {
                    link.ethernet = Some(0);
                    link.ether_type = Some(kind);
                    Some(14)
                }
                _ => ethernet(data, 0, link),
            }
        }
        LinkType::RAW | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => Some(0),
        LinkType::LINUX_SLL2 => {
            link.interface = be32(data, 4).map(|_| 4);
            cooked(data, be16(data, 0)?, 20, link)
        }
        LinkType::LINUX_SLL => cooked(data, be16(data, 14)?, 16, link),
        _ => others(link_type, data, link),
    }
}

/// Handles rare link layers.
#[inline(never)]
fn others(link_type: LinkType, data: &[u8], link: &mut Link) -> Option<usize> {
    match link_type {
        LinkType::NULL | LinkType::LOOP => null(data),
        LinkType::PPP | LinkType::PPP_HDLC | LinkType::PPP_PPPD => point_to_point(data, 0, link),
        LinkType::PPP_WITH_DIR => point_to_point(data, 1, link),
        LinkType::PPP_ETHER => point_to_point(data, 6, link),
        LinkType::PPP_BSDOS => Some(24),
        LinkType::C_HDLC => ethertype(data, be16(data, 2)?, 4, link),
        LinkType::MPLS => mpls(data, 0, link),
        LinkType::ATM_RFC1483 | LinkType::ATM_CLIP => llc(data, 0, link),
        LinkType::FRELAY => frame_relay(data, link),
        LinkType::IEEE802_5 => token_ring(data, link),
        LinkType::FDDI => llc(data, 13, link),
        LinkType::IEEE802_11 => wlan(data, 0, false, link),
        LinkType::IEEE802_11_RADIOTAP => radiotap(data, link),
        LinkType::IEEE802_11_PRISM | LinkType::IEEE802_11_AVS => prism(data, link),
        LinkType::PPI => ppi(data, link),
        LinkType::PKTAP => pktap(data, link),
        LinkType::ARCNET => arcnet(data, 2),
        LinkType::ARCNET_LINUX => arcnet(data, 4),
        LinkType::SLIP => Some(16),
        LinkType::NFLOG => nflog(data),
        LinkType::PFLOG => Some(usize::from(byte(data, 0)?).next_multiple_of(4)),
        _ => None,
    }
}

impl Link {
    /// Counts a step; returns `None` after too many.
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= STEPS).then_some(())
    }

    fn tag(&mut self, at: usize) {
        if let Some(place) = self.tags.get_mut(self.tag_count) {
            *place = at;
        }
        self.tag_count += 1;
    }

    /// Returns the offsets of the VLAN tags, the outermost first and 4 at most. A tag has priority
    /// and identifier, then the type of the payload, 2 bytes each.
    #[must_use]
    pub fn tags(&self) -> &[usize] {
        &self.tags[..self.tag_count.min(TAGS)]
    }

    /// Returns the number of VLAN tags.
    #[must_use]
    pub fn tag_count(&self) -> usize {
        self.tag_count
    }

    /// Returns true if the network layer is IP of either version, as far as the headers before it
    /// show.
    #[inline]
    #[must_use]
    pub fn is_ip(&self) -> bool {
        matches!(
            self.ether_type,
            None | Some(ether_type::IPV4 | ether_type::IPV6)
        )
    }

    /// Moves all offsets if the parsed bytes are not the packet's first ones.
    fn shift(&mut self, by: usize) {
        let places = [&mut self.ethernet, &mut self.mpls, &mut self.interface];
        let places = places.into_iter().flatten();
        for place in places.chain(&mut self.tags) {
            *place += by;
        }
    }
}

/// Parses an Ethernet frame at `at`.
#[inline(never)]
pub(super) fn ethernet(data: &[u8], at: usize, link: &mut Link) -> Option<usize> {
    link.step()?;
    let kind = be16(data, at + 12)?;
    link.ethernet.get_or_insert(at);
    ethertype(data, kind, at + 14, link)
}

/// Parses the data at `at` according to an Ethernet type.
pub(super) fn ethertype(
    data: &[u8],
    mut kind: u16,
    mut at: usize,
    link: &mut Link,
) -> Option<usize> {
    loop {
        link.step()?;
        match kind {
            tag if ether_type::is_tag(tag) => {
                kind = be16(data, at + 2)?;
                link.tag(at);
                at += 4;
            }
            ether_type::MPLS | ether_type::MPLS_MULTICAST => return mpls(data, at, link),
            ether_type::PPPOE_SESSION => return point_to_point(data, at + 6, link),
            ether_type::PPP => return point_to_point(data, at, link),
            // 802.1ah: 4 bytes of service instance, then the customer's frame.
            ether_type::BACKBONE => return ethernet(data, at + 4, link),
            ether_type::BRIDGED => return ethernet(data, at, link),
            // MACsec (IEEE 802.1AE) without encryption.
            ether_type::MACSEC => {
                let next = at + macsec(byte(data, at)?)?;
                kind = be16(data, next)?;
                at = next + 2;
            }
            // Network service header (RFC 8300): its length in words, and the next protocol.
            ether_type::NETWORK_SERVICE => return service(data, at, link),
            // A timestamp of Arista's, of 8 or 6 bytes after its kind and version.
            ether_type::ARISTA_TIMESTAMP => {
                let stamp = if be16(data, at + 2)? & 0x20 == 0 {
                    8
                } else {
                    6
                };
                kind = be16(data, at + 4 + stamp)?;
                at += 4 + stamp + 2;
            }
            length if length < ether_type::MIN => return llc(data, at, link),
            _ => {
                link.ether_type = Some(kind);
                return Some(at);
            }
        }
    }
}

/// Returns the length of a security tag that begins with `control`; `None` if the payload is
/// encrypted.
fn macsec(control: u8) -> Option<usize> {
    const ENCRYPTED: u8 = 0x0c;
    const CHANNEL: u8 = 0x20;
    match (control & ENCRYPTED, control & CHANNEL) {
        (0, 0) => Some(6),
        (0, _) => Some(14),
        _ => None,
    }
}

fn service(data: &[u8], at: usize, link: &mut Link) -> Option<usize> {
    let [_, length, _, next] = chunk(data, at)?;
    let at = at + 4 * usize::from(length & 0x3f).max(2);
    match next {
        1 | 2 => Some(at),
        3 => ethernet(data, at, link),
        5 => mpls(data, at, link),
        _ => None,
    }
}

/// Parses labels until the last one. Labels do not name the payload's protocol; its first bits
/// identify it.
fn mpls(data: &[u8], mut at: usize, link: &mut Link) -> Option<usize> {
    const BOTTOM: u32 = 1 << 8;
    loop {
        link.step()?;
        let entry = be32(data, at)?;
        link.mpls.get_or_insert(at);
        at += 4;
        if entry & BOTTOM != 0 {
            break;
        }
    }
    match byte(data, at)? >> 4 {
        4 | 6 => Some(at),
        // The control word of a pseudowire (RFC 4448), then Ethernet.
        0 => ethernet(data, at + 4, link),
        _ => None,
    }
}

/// Parses PPP (RFC 1661, RFC 1662): address and control, and the protocol's first byte, may be
/// missing.
fn point_to_point(data: &[u8], mut at: usize, link: &mut Link) -> Option<usize> {
    link.step()?;
    match chunk(data, at)? {
        [0xff, 0x03] => at += 2,
        // Cisco HDLC, which shares a link type with PPP.
        [0x0f | 0x8f, 0x00] => return ethertype(data, be16(data, at + 2)?, at + 4, link),
        _ => {}
    }
    let first = byte(data, at)?;
    let protocol = if first & 1 == 1 {
        at += 1;
        u16::from(first)
    } else {
        at += 2;
        be16(data, at - 2)?
    };
    match protocol {
        ppp::IPV4 | ppp::IPV6 => Some(at),
        ppp::MPLS | ppp::MPLS_MULTICAST => mpls(data, at, link),
        _ => None,
    }
}

/// Parses LLC (IEEE 802.2) and its payload: SNAP, IP itself, or the network layer protocol
/// identifiers of RFC 2427.
fn llc(data: &[u8], at: usize, link: &mut Link) -> Option<usize> {
    link.step()?;
    match chunk(data, at)? {
        [0xaa, 0xaa, 0x03] => snap(data, at + 3, link),
        [0x06, 0x06, 0x03] => Some(at + 3),
        [0xfe, 0xfe, 0x03] => nlpid(data, at + 3, link),
        _ => None,
    }
}

/// Parses the 5 bytes of SNAP and its payload.
fn snap(data: &[u8], at: usize, link: &mut Link) -> Option<usize> {
    const BRIDGED: [u8; 3] = [0x00, 0x80, 0xc2];
    let organisation: [u8; 3] = chunk(data, at)?;
    let kind = be16(data, at + 3)?;
    match organisation {
        [0, 0, 0] | [0, 0, 0xf8] if kind >= ether_type::MIN => ethertype(data, kind, at + 5, link),
        // Ethernet after 2 bytes of padding (RFC 2684).
        BRIDGED if kind == 1 || kind == 7 => ethernet(data, at + 7, link),
        _ => None,
    }
}

fn nlpid(data: &[u8], at: usize, link: &mut Link) -> Option<usize> {
    match byte(data, at)? {
        0xcc | 0x8e => Some(at + 1),
        0x80 => snap(data, at + 1, link),
        // Padding to an even offset.
        0x00 if byte(data, at + 1)? == 0x80 => snap(data, at + 2, link),
        0xcf => point_to_point(data, at + 1, link),
        _ => None,
    }
}

#[inline(never)]
fn cooked(data: &[u8], protocol: u16, at: usize, link: &mut Link) -> Option<usize> {
    const P_802_2: u16 = 4;
    const P_PPP: u16 = 7;
    match protocol {
        P_802_2 => llc(data, at, link),
        P_PPP => point_to_point(data, at, link),
        ..ether_type::MIN => None,
        _ => ethertype(data, protocol, at, link),
    }
}

/// Parses the protocol family of a BSD system, in either byte order, because files do not record
/// which.
fn null(data: &[u8]) -> Option<usize> {
    const IPV4: u32 = ether_type::IPV4 as u32;
    const IPV6: u32 = ether_type::IPV6 as u32;
    let is_ip = |family: u32| matches!(family, 2 | 10 | 23 | 24 | 28 | 30 | IPV4 | IPV6);
    (is_ip(be32(data, 0)?) || is_ip(le32(data, 0)?)).then_some(4)
}

/// Parses Frame Relay (RFC 2427): 2 to 4 bytes of address, the last of which is odd.
fn frame_relay(data: &[u8], link: &mut Link) -> Option<usize> {
    const UNNUMBERED: u8 = 3;
    let mut at = 0;
    while byte(data, at)? & 1 == 0 {
        at += 1;
        if at == 4 {
            return None;
        }
    }
    if byte(data, at + 1)? != UNNUMBERED {
        // Cisco's own format: an Ethernet type after the address.
        return ethertype(data, be16(data, at + 1)?, at + 3, link);
    }
    nlpid(data, at + 2, link)
}

fn token_ring(data: &[u8], link: &mut Link) -> Option<usize> {
    const ROUTED: u8 = 0x80;
    let routing = if byte(data, 8)? & ROUTED == 0 {
        0
    } else {
        usize::from(byte(data, 14)? & 0x1f)
    };
    llc(data, 14 + routing, link)
}

/// Parses 802.11: data frames that are not encrypted. `padded` means that the header is padded to
/// words.
fn wlan(data: &[u8], at: usize, padded: bool, link: &mut Link) -> Option<usize> {
    const HIGH_THROUGHPUT: u8 = 0x80;
    const PROTECTED: u8 = 0x40;
    const BOTH_WAYS: u8 = 3;
    let [control, flags] = chunk(data, at)?;
    let (kind, subtype) = (control & 0x0f, control >> 4);
    let (quality, without_data) = (subtype & 8 != 0, subtype & 4 != 0);
    if kind != 0x08 || without_data || flags & PROTECTED != 0 {
        return None;
    }
    let mut header = 24;
    if flags & BOTH_WAYS == BOTH_WAYS {
        header += 6;
    }
    let mut aggregated = false;
    if quality {
        aggregated = byte(data, at + header)? & 0x80 != 0;
        header += 2;
        if flags & HIGH_THROUGHPUT != 0 {
            header += 4;
        }
    }
    if padded {
        header = header.next_multiple_of(4);
    }
    // The first frame of an aggregate has a header of Ethernet's form.
    let inside = if aggregated { 14 } else { 0 };
    llc(data, at + header + inside, link)
}

/// Parses radiotap: its flags field records whether the 802.11 header is padded.
fn radiotap(data: &[u8], link: &mut Link) -> Option<usize> {
    const MORE: u32 = 1 << 31;
    const PADDED: u8 = 0x20;
    let length = usize::from(le16(data, 2)?);
    let present = le32(data, 4)?;
    let (mut word, mut fields) = (present, 8);
    while word & MORE != 0 {
        word = le32(data, fields)?;
        fields += 4;
        link.step()?;
    }
    if present & 1 != 0 {
        fields = fields.next_multiple_of(8) + 8;
    }
    let padded = present & 2 != 0 && byte(data, fields)? & PADDED != 0;
    wlan(data, length, padded, link)
}

fn prism(data: &[u8], link: &mut Link) -> Option<usize> {
    const AVS: u32 = 0x8021_1000;
    let first = be32(data, 0)?;
    let length = if first & 0xffff_f000 == AVS {
        be32(data, 4)? as usize
    } else {
        144
    };
    if length > data.len() {
        return None;
    }
    wlan(data, length, false, link)
}

fn ppi(data: &[u8], link: &mut Link) -> Option<usize> {
    wrapped(data, le16(data, 2)?.into(), le32(data, 4)?, link)
}

fn pktap(data: &[u8], link: &mut Link) -> Option<usize> {
    wrapped(data, le32(data, 0)? as usize, le32(data, 8)?, link)
}

/// Parses a header of `length` bytes, and after it a packet of the link type that it names.
fn wrapped(data: &[u8], length: usize, dlt: u32, link: &mut Link) -> Option<usize> {
    link.step()?;
    let link_type = LinkType::from_dlt(dlt)?;
    let found = find_network(link_type, data.get(length..)?, link)?;
    link.shift(length);
    Some(length + found)
}

/// Parses ARCNET after its addresses: RFC 1201 with 3 bytes between type and packet, RFC 1051 without.
fn arcnet(data: &[u8], at: usize) -> Option<usize> {
    match byte(data, at)? {
        // A frame of more than 256 bytes has 4 bytes more, marked by 0xff (RFC 1201).
        212 if byte(data, at + 1)? == 0xff => Some(at + 8),
        212 => Some(at + 4),
        240 => Some(at + 1),
        _ => None,
    }
}

/// Parses netlink attributes; number 9 is the packet. They are in the byte order of the capturing
/// host, which is the one that gives the smaller length.
fn nflog(data: &[u8]) -> Option<usize> {
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    for _ in 0..STEPS {
        let little = (le16(data, at)?, le16(data, at + 2)?);
        let big = (be16(data, at)?, be16(data, at + 2)?);
        let (length, kind) = little.min(big);
        if kind & 0x7fff == PAYLOAD {
            return Some(at + 4);
        }
        at += usize::from(length.max(4)).next_multiple_of(4);
    }
    None
}

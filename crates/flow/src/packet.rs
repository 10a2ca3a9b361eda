//! What goes in: bytes of a packet and what is known beside them.

/// A packet to be metered.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Captured bytes, beginning with the header of the link layer.
    pub data: &'a [u8],
    /// Bytes on the wire; where captured bytes are more, theirs is the number that holds.
    pub len: u32,
    /// Time of capture: nanoseconds since 1970.
    pub time_ns: u64,
    /// What `data` begins with.
    pub link: LinkLayer,
    /// The interface, for [`crate::FlowKey::input`]; 0: the one that the link layer's header names,
    /// where it does ([`LinkLayer::Cooked2`]).
    pub input: u32,
}

/// Link layers in which packets of IP are found.
///
/// Those that are not here carry no IP that is metered: their packets are counted as not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkLayer {
    /// Ethernet, with tags and LLC.
    Ethernet,
    /// BSD's loopback: 4 bytes of a protocol family, in either byte order.
    Null,
    /// IPv4 or IPv6 without a header before.
    Raw,
    /// PPP, with or without its address and control bytes.
    Ppp,
    /// PPP with a byte of direction before.
    PppDirection,
    /// PPP over Ethernet: the session header and PPP.
    PppEther,
    /// PPP of BSD/OS: 24 bytes of its own before IP.
    PppBsdos,
    /// Cisco HDLC; address and control, then an Ethernet type.
    CiscoHdlc,
    /// Linux cooked capture, version 1.
    Cooked,
    /// Linux cooked capture, version 2.
    Cooked2,
    /// MPLS labels.
    Mpls,
    /// LLC and SNAP, as on ATM (RFC 2684).
    Llc,
    /// Frame Relay with 2 bytes of address.
    FrameRelay,
    /// Token ring.
    TokenRing,
    /// FDDI.
    Fddi,
    /// 802.11.
    Wlan,
    /// 802.11 behind a header whose length stands in it: radiotap.
    WlanRadiotap,
    /// 802.11 behind a Prism or AVS header.
    WlanPrism,
    /// PPI: a header whose length stands in it, and the link type that follows.
    Ppi,
    /// Apple's PKTAP: a header whose length stands in it, and the link type that follows.
    Pktap,
    /// ARCNET, as BSD captures it.
    Arcnet,
    /// ARCNET, as Linux captures it: with 2 bytes of offset behind the addresses.
    ArcnetLinux,
    /// SLIP with 16 bytes of direction and compressed header before IP.
    Slip,
    /// Linux netfilter log: attributes, one of which is the packet of IP.
    Nflog,
    /// OpenBSD packet filter log.
    Pflog,
    /// None that is known.
    Other,
}

impl LinkLayer {
    /// The link layer of a capture file's `LINKTYPE_` value (or of libpcap's `DLT_` value on Linux).
    #[must_use]
    pub fn of_link_type(value: u16) -> Self {
        match value {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            6 => Self::TokenRing,
            7 => Self::Arcnet,
            8 => Self::Slip,
            9 | 50 | 166 => Self::Ppp,
            10 => Self::Fddi,
            11 | 19 | 100 | 106 => Self::Llc,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            16 | 103 => Self::PppBsdos,
            51 => Self::PppEther,
            104 => Self::CiscoHdlc,
            105 => Self::Wlan,
            107 => Self::FrameRelay,
            113 => Self::Cooked,
            117 => Self::Pflog,
            119 | 163 => Self::WlanPrism,
            129 => Self::ArcnetLinux,
            127 => Self::WlanRadiotap,
            192 => Self::Ppi,
            204 => Self::PppDirection,
            219 => Self::Mpls,
            239 => Self::Nflog,
            258 => Self::Pktap,
            276 => Self::Cooked2,
            _ => Self::Other,
        }
    }
}

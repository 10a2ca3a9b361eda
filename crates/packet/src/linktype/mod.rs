//! Link-layer header types: the LINKTYPE_ values of capture files and the DLT_ values of the API.
//!
//! Files contain LINKTYPE_ values, which mean the same everywhere. libpcap's API uses DLT_ values,
//! which for a few old types differ between systems. The table has the names of
//! <https://www.tcpdump.org/linktypes.html> and of draft-ietf-opsawg-pcaplinktype; the mapping is
//! that of libpcap on Linux.

mod table;

use std::ffi::CStr;
use std::fmt;

/// The default snaplen in bytes: libpcap's MAXIMUM_SNAPLEN.
pub const MAX_SNAPLEN: u32 = 262_144;

const MIB: u32 = 1024 * 1024;

/// The link-layer header type of an interface: a LINKTYPE_ value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

/// One row of the table.
struct Entry {
    value: u16,
    name: &'static CStr,
    description: &'static CStr,
    is_in_libpcap: bool,
}

impl Entry {
    fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }
}

/// LINKTYPE_ and DLT_ values that differ on Linux.
const DIFFERENT_DLT: [(LinkType, u32); 5] = [
    (LinkType::ATM_RFC1483, 11),
    (LinkType::RAW, 12),
    (LinkType::SLIP_BSDOS, 15),
    (LinkType::PPP_BSDOS, 16),
    (LinkType::ATM_CLIP, 19),
];

impl LinkType {
    /// BSD loopback: a protocol family in the writer's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// Token ring.
    pub const IEEE802_5: Self = Self(6);
    /// ARCNET with the header of BSD.
    pub const ARCNET: Self = Self(7);
    /// SLIP with libpcap's pseudo-header.
    pub const SLIP: Self = Self(8);
    /// PPP.
    pub const PPP: Self = Self(9);
    /// FDDI.
    pub const FDDI: Self = Self(10);
    /// IPv4 or IPv6 without a link-layer header, as OpenBSD numbers it.
    pub const RAW_OPENBSD: Self = Self(14);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: Self = Self(50);
    /// PPP over Ethernet, beginning with the PPPoE header.
    pub const PPP_ETHER: Self = Self(51);
    /// LLC/SNAP-encapsulated ATM; DLT_ATM_RFC1483 is 11.
    pub const ATM_RFC1483: Self = Self(100);
    /// IPv4 or IPv6 without a link-layer header; DLT_RAW is 12 on Linux.
    pub const RAW: Self = Self(101);
    /// BSD/OS SLIP; DLT_SLIP_BSDOS is 15.
    pub const SLIP_BSDOS: Self = Self(102);
    /// BSD/OS PPP; DLT_PPP_BSDOS is 16.
    pub const PPP_BSDOS: Self = Self(103);
    /// Cisco HDLC.
    pub const C_HDLC: Self = Self(104);
    /// 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// Linux classical IP over ATM; DLT_ATM_CLIP is 19.
    pub const ATM_CLIP: Self = Self(106);
    /// Frame Relay.
    pub const FRELAY: Self = Self(107);
    /// OpenBSD loopback: a protocol family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// Apple LocalTalk.
    pub const LTALK: Self = Self(114);
    /// OpenBSD pflog.
    pub const PFLOG: Self = Self(117);
    /// 802.11 with a Prism header.
    pub const IEEE802_11_PRISM: Self = Self(119);
    /// 802.11 with a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// ARCNET with the header of Linux.
    pub const ARCNET_LINUX: Self = Self(129);
    /// 802.11 with an AVS header.
    pub const IEEE802_11_AVS: Self = Self(163);
    /// BACnet MS/TP.
    pub const BACNET_MS_TP: Self = Self(165);
    /// PPP as pppd gives it, with a byte of direction.
    pub const PPP_PPPD: Self = Self(166);
    /// A per-packet information header, then the link type that it names.
    pub const PPI: Self = Self(192);
    /// PPP with a byte of direction.
    pub const PPP_WITH_DIR: Self = Self(204);
    /// MPLS.
    pub const MPLS: Self = Self(219);
    /// USB with the padded Linux header.
    pub const USB_LINUX_MMAPPED: Self = Self(220);
    /// SocketCAN.
    pub const CAN_SOCKETCAN: Self = Self(227);
    /// IPv4 without a link-layer header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link-layer header.
    pub const IPV6: Self = Self(229);
    /// 802.15.4 without frame check sequence.
    pub const IEEE802_15_4_NOFCS: Self = Self(230);
    /// D-Bus messages.
    pub const DBUS: Self = Self(231);
    /// Linux netfilter log.
    pub const NFLOG: Self = Self(239);
    /// pfsync.
    pub const PFSYNC: Self = Self(246);
    /// USB with the USBPcap header.
    pub const USBPCAP: Self = Self(249);
    /// Linux netlink.
    pub const NETLINK: Self = Self(253);
    /// Apple's PKTAP header, then the link type that it names.
    pub const PKTAP: Self = Self(258);
    /// Linux vsock.
    pub const VSOCK: Self = Self(271);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
    /// Elektrobit high-speed capture and replay.
    pub const EBHSCR: Self = Self(279);
    /// Ethernet with the tag of a Broadcom switch.
    pub const DSA_TAG_BRCM: Self = Self(281);
    /// Ethernet with the tag of a Marvell switch.
    pub const DSA_TAG_DSA: Self = Self(284);

    /// Returns the type's name in libpcap: the DLT_ name without its prefix.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(Entry::name)
    }

    /// Returns a short description of the header.
    #[must_use]
    pub fn description(self) -> Option<&'static str> {
        self.entry()
            .and_then(|entry| entry.description.to_str().ok())
    }

    /// Returns name and description as functions of libpcap 1.11 return them; `None` for types that
    /// it does not know.
    #[must_use]
    pub fn of_libpcap(self) -> Option<(&'static CStr, &'static CStr)> {
        let entry = self.entry().filter(|entry| entry.is_in_libpcap)?;
        Some((entry.name, entry.description))
    }

    /// Returns the type of that name, in any case and with or without a `DLT_` or `LINKTYPE_`
    /// prefix.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let bare = ["DLT_", "LINKTYPE_"]
            .iter()
            .find_map(|prefix| strip_prefix_ignoring_case(name, prefix))
            .unwrap_or(name);
        table::ENTRIES
            .iter()
            .map(|entry| (entry.name(), entry.value))
            .chain(table::LINKTYPE_NAMES.iter().copied())
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(bare))
            .map(|(_, value)| Self(value))
    }

    /// Returns the types that have a name, in the order of their values.
    pub fn known() -> impl Iterator<Item = Self> {
        table::ENTRIES.iter().map(|entry| Self(entry.value))
    }

    /// Returns the DLT_ value that libpcap's API uses for it on Linux.
    #[must_use]
    pub fn to_dlt(self) -> u32 {
        DIFFERENT_DLT
            .iter()
            .find(|(link_type, _)| *link_type == self)
            .map_or(u32::from(self.0), |(_, dlt)| *dlt)
    }

    /// Returns the type for a DLT_ value of Linux; `None` if it exceeds what a file can hold.
    #[must_use]
    pub fn from_dlt(dlt: u32) -> Option<Self> {
        DIFFERENT_DLT
            .iter()
            .find(|(_, different)| *different == dlt)
            .map(|(link_type, _)| *link_type)
            .or_else(|| u16::try_from(dlt).ok().map(Self))
    }

    /// Returns the type that a file's field means. libpcap reads DLT_ values as the LINKTYPE_ value
    /// where they differ: a file written with 12 means raw IP.
    #[must_use]
    pub fn canonical(self) -> Self {
        DIFFERENT_DLT
            .iter()
            .find(|(_, dlt)| *dlt == u32::from(self.0))
            .map_or(self, |(link_type, _)| *link_type)
    }

    /// Returns the greatest length of a packet of this type in bytes (libpcap 1.10): 262144, except
    /// for types whose messages are larger.
    #[must_use]
    pub fn max_snaplen(self) -> u32 {
        match self {
            Self::DBUS => 128 * MIB,
            Self::EBHSCR => 8 * MIB,
            Self::USBPCAP => MIB,
            _ => MAX_SNAPLEN,
        }
    }

    fn entry(self) -> Option<&'static Entry> {
        let value = self.canonical().0;
        let index = table::ENTRIES.binary_search_by_key(&value, |entry| entry.value);
        index.ok().map(|index| &table::ENTRIES[index])
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

/// Prints the name, or `LINKTYPE_n` if it has none.
impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "LINKTYPE_{}", self.0),
        }
    }
}

impl fmt::Debug for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkType({} {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_its_names_are_unique() {
        assert!(table::ENTRIES.is_sorted_by(|a, b| a.value < b.value));
        for link_type in LinkType::known() {
            let name = link_type.name().expect("from the table");
            assert_eq!(LinkType::from_name(name), Some(link_type), "{name}");
        }
    }

    #[test]
    fn names_are_found_with_and_without_prefix() {
        for name in [
            "EN10MB",
            "en10mb",
            "DLT_EN10MB",
            "LINKTYPE_ETHERNET",
            "ethernet",
        ] {
            assert_eq!(
                LinkType::from_name(name),
                Some(LinkType::ETHERNET),
                "{name}"
            );
        }
        assert_eq!(LinkType::from_name("no such type"), None);
        assert_eq!(LinkType::from_name("DLT_"), None);
        assert_eq!(LinkType::from_name("ä"), None);
    }

    #[test]
    fn dlt_values_of_linux() {
        assert_eq!(LinkType::RAW.to_dlt(), 12);
        assert_eq!(LinkType::from_dlt(12), Some(LinkType::RAW));
        assert_eq!(LinkType::from_dlt(101), Some(LinkType::RAW));
        assert_eq!(LinkType::from_dlt(1), Some(LinkType::ETHERNET));
        assert_eq!(LinkType::from_dlt(70_000), None);
        for link_type in LinkType::known() {
            assert_eq!(LinkType::from_dlt(link_type.to_dlt()), Some(link_type));
        }
        assert_eq!(LinkType(12).canonical(), LinkType::RAW);
        assert_eq!(LinkType(12).name(), Some("RAW"));
    }

    #[test]
    fn displays_a_name_or_the_number() {
        assert_eq!(LinkType::ETHERNET.to_string(), "EN10MB");
        assert_eq!(LinkType(500).to_string(), "LINKTYPE_500");
    }
}

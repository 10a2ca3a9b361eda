//! Numbers of header fields, with their names.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use crate::link::ethertype as et;
use crate::program::opcode as op;

/// How the numbers of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Decimal,
    Hex,
    EtherType,
    IpProtocol,
    Ipv4,
    Port,
    TcpFlags,
    IcmpType,
    Icmp6Type,
    ArpOperation,
    PppProtocol,
    PacketType,
    /// Four bytes of text.
    Text,
    /// Four bytes, the least significant first.
    LittleEndian,
    /// Only the bits above this many low bits.
    Shifted(u32),
}

impl Style {
    /// Returns a number as text, with its name if it has one.
    pub(super) fn text(self, number: u32) -> String {
        let named = |table: &[(u32, &str)], plain: String| match name(table, number) {
            Some(name) => format!("{name} ({plain})"),
            None => plain,
        };
        let decimal = number.to_string();
        match self {
            Self::Decimal => decimal,
            Self::Hex => format!("{number:#x}"),
            Self::EtherType => named(ETHER_TYPES, format!("{number:#06x}")),
            Self::PppProtocol => named(PPP_PROTOCOLS, format!("{number:#06x}")),
            Self::IpProtocol => named(IP_PROTOCOLS, decimal),
            Self::IcmpType => named(ICMP_TYPES, decimal),
            Self::Icmp6Type => named(ICMP6_TYPES, decimal),
            Self::ArpOperation => named(ARP_OPERATIONS, decimal),
            Self::PacketType => named(PACKET_TYPES, decimal),
            Self::Port => match name(PORTS, number) {
                Some(name) => format!("{decimal} ({name})"),
                None => decimal,
            },
            Self::Ipv4 => Ipv4Addr::from_bits(number).to_string(),
            Self::TcpFlags => tcp_flags(number),
            Self::Text => format!(
                "{:?}",
                String::from_utf8_lossy(&number.to_be_bytes()).trim_end_matches('\0')
            ),
            Self::LittleEndian => number.swap_bytes().to_string(),
            Self::Shifted(bits) if number.trailing_zeros() >= bits => (number >> bits).to_string(),
            Self::Shifted(_) => format!("{number:#x}"),
        }
    }

    /// Returns a range of numbers as text; single numbers have no names there. `largest` is the
    /// greatest number that the field can hold.
    pub(super) fn range(self, range: &RangeInclusive<u32>, largest: u32) -> String {
        let (start, end) = (*range.start(), *range.end());
        let plain = |number: u32| match self {
            Self::Port => number.to_string(),
            style => style.text(number),
        };
        match (start, end) {
            (start, end) if start == end => self.text(start),
            (0, end) => format!("at most {}", plain(end)),
            (start, end) if end >= largest => format!("at least {}", plain(start)),
            (start, end) => format!("{} to {}", plain(start), plain(end)),
        }
    }
}

fn name<'a>(table: &[(u32, &'a str)], number: u32) -> Option<&'a str> {
    let found = table.iter().find(|(known, _)| *known == number);
    found.map(|&(_, name)| name)
}

fn tcp_flags(number: u32) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    if number == 0 || number > 0xff {
        return format!("{number:#x}");
    }
    let set = (0..8).filter(|bit| number & 1 << bit != 0);
    let names: Vec<_> = set.map(|bit| NAMES[bit as usize]).collect();
    format!("{} ({number:#04x})", names.join("+"))
}

/// Returns the name of an ancillary load by its `SKF_AD_` number.
pub(super) fn ancillary(number: u32) -> &'static str {
    match number {
        op::SKF_AD_PROTOCOL => "protocol that the kernel notes",
        op::SKF_AD_PKTTYPE => "packet type (direction)",
        op::SKF_AD_IFINDEX => "interface index",
        op::SKF_AD_MARK => "mark",
        op::SKF_AD_QUEUE => "queue",
        op::SKF_AD_HATYPE => "hardware type",
        op::SKF_AD_RXHASH => "receive hash",
        op::SKF_AD_CPU => "processor",
        op::SKF_AD_VLAN_TAG => "VLAN tag beside the packet",
        op::SKF_AD_VLAN_TAG_PRESENT => "presence of a VLAN tag beside the packet",
        op::SKF_AD_VLAN_TPID => "type of the VLAN tag beside the packet",
        op::SKF_AD_PAY_OFFSET => "offset of the payload",
        op::SKF_AD_RANDOM => "random number",
        op::PROCESS_PID => "number of the process",
        op::PROCESS_UID => "user of the process",
        _ if !op::is_process(number) => "metadata",
        _ if number >= op::PROCESS_ANSWERS => "answer about the control group",
        _ => match number - op::PROCESS_NAME {
            0 => "name of the process up to byte 4",
            4 => "name of the process from byte 5 on",
            8 => "name of the process from byte 9 on",
            _ => "name of the process from byte 13 on",
        },
    }
}

/// IANA, IEEE 802 numbers.
const ETHER_TYPES: &[(u32, &str)] = &[
    (et::IP, "IPv4"),
    (et::ARP, "ARP"),
    (et::DECNET, "DECnet"),
    (et::BRIDGED, "Ethernet in an IP tunnel"),
    (et::RARP, "RARP"),
    (et::ATALK, "AppleTalk"),
    (et::AARP, "AppleTalk ARP"),
    (et::VLAN, "VLAN"),
    (et::IPX, "IPX"),
    (et::IP6, "IPv6"),
    (et::MPLS, "MPLS"),
    (et::MPLS_MULTICAST, "MPLS multicast"),
    (et::PPPOE_DISCOVERY, "PPPoE discovery"),
    (et::PPPOE_SESSION, "PPPoE session"),
    (0x888e, "802.1X"),
    (et::QINQ, "service VLAN"),
    (0x88cc, "LLDP"),
    (et::QINQ_OLD, "old service VLAN"),
];

/// IANA, protocol numbers.
const IP_PROTOCOLS: &[(u32, &str)] = &[
    (0, "hop-by-hop options"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPv4 in IP"),
    (6, "TCP"),
    (9, "IGRP"),
    (17, "UDP"),
    (41, "IPv6 in IP"),
    (43, "routing header"),
    (44, "fragment header"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (59, "no next header"),
    (60, "destination options"),
    (89, "OSPF"),
    (103, "PIM"),
    (112, "VRRP or CARP"),
    (132, "SCTP"),
    (135, "mobility header"),
];

/// IANA, service names: the common ones in filters.
const PORTS: &[(u32, &str)] = &[
    (22, "ssh"),
    (25, "smtp"),
    (53, "dns"),
    (67, "dhcp server"),
    (68, "dhcp client"),
    (80, "http"),
    (123, "ntp"),
    (143, "imap"),
    (161, "snmp"),
    (179, "bgp"),
    (443, "https"),
    (514, "syslog"),
    (547, "dhcpv6 server"),
    (853, "dns over tls"),
    (993, "imaps"),
    (2152, "gtp-u"),
    (3306, "mysql"),
    (4789, "vxlan"),
    (5353, "mdns"),
    (5432, "postgresql"),
    (6081, "geneve"),
];

/// IANA, ICMP type numbers.
const ICMP_TYPES: &[(u32, &str)] = &[
    (0, "echo reply"),
    (3, "unreachable"),
    (5, "redirect"),
    (8, "echo"),
    (9, "router advertisement"),
    (10, "router solicitation"),
    (11, "time exceeded"),
    (12, "parameter problem"),
];

/// IANA, ICMPv6 type numbers.
const ICMP6_TYPES: &[(u32, &str)] = &[
    (1, "unreachable"),
    (2, "packet too big"),
    (3, "time exceeded"),
    (4, "parameter problem"),
    (128, "echo"),
    (129, "echo reply"),
    (133, "router solicitation"),
    (134, "router advertisement"),
    (135, "neighbour solicitation"),
    (136, "neighbour advertisement"),
    (137, "redirect"),
];

/// RFC 826, RFC 903.
const ARP_OPERATIONS: &[(u32, &str)] = &[
    (1, "request"),
    (2, "reply"),
    (3, "reverse request"),
    (4, "reverse reply"),
];

/// IANA, PPP numbers.
const PPP_PROTOCOLS: &[(u32, &str)] = &[
    (0x0021, "IPv4"),
    (0x0023, "OSI"),
    (0x0029, "AppleTalk"),
    (0x002b, "IPX"),
    (0x0057, "IPv6"),
    (0xc021, "LCP"),
];

/// `PACKET_` in linux/if_packet.h.
const PACKET_TYPES: &[(u32, &str)] = &[
    (0, "to this host"),
    (1, "broadcast"),
    (2, "multicast"),
    (3, "to another host"),
    (4, "sent by this host"),
];

//! The protocols whose lines are compared: how a line of tcpdump is recognised, and how much of it
//! must be equal. The first row that recognises a line counts it; the bounds are in
//! `docs/reference/output.md`.

/// A protocol in the table of equal lines.
pub(crate) struct Protocol {
    /// The name as in the table of `docs/reference/output.md`.
    pub(crate) name: &'static str,
    /// The line belongs to this protocol if one of these is found.
    pub(crate) marks: &'static [Mark],
    /// The part of the line that is compared.
    pub(crate) comparison: Comparison,
}

impl Protocol {
    /// Returns whether lines of this protocol are compared.
    pub(crate) fn is_compared(&self) -> bool {
        self.comparison != Comparison::Nothing
    }
}

/// A text that identifies a line of tcpdump.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// The line begins with it.
    Line(&'static str),
    /// The text after the addresses of an IP packet begins with it.
    Payload(&'static str),
    /// The line contains it.
    Holds(&'static str),
    /// One of the two ports has this number at the end of an address.
    Port(&'static str),
}

/// How much of a line is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The whole line.
    Whole,
    /// The line up to `length N`: the application's part, which tcpdump prints by port, is not
    /// compared.
    BeforeApplication,
    /// A protocol inside a compared one that has no decoder here.
    Nothing,
}

use Comparison::{BeforeApplication, Nothing, Whole};
use Mark::{Holds, Line, Payload, Port};

const fn row(name: &'static str, marks: &'static [Mark], comparison: Comparison) -> Protocol {
    Protocol {
        name,
        marks,
        comparison,
    }
}

/// Routing, and the links between routers.
const ROUTING: &[Protocol] = &[
    row("OSPF", &[Holds(": OSPFv")], Whole),
    row("BGP", &[Holds(": BGP")], Whole),
    row(
        "IS-IS",
        &[Line("IS-IS"), Holds("! IS-IS"), Holds(", IS-IS")],
        Whole,
    ),
    row(
        "ES-IS and CLNP",
        &[Line("ES-IS"), Holds("! ES-IS"), Line("CLNP")],
        Whole,
    ),
    row(
        "RIP and RIPng",
        &[Payload("RIPv"), Payload(" ripng")],
        Whole,
    ),
    row("EIGRP", &[Payload("EIGRP")], Whole),
    row("VRRP", &[Payload("VRRP")], Whole),
    row("HSRP", &[Payload("HSRPv")], Whole),
    row("PIM", &[Payload("PIMv")], Whole),
    row(
        "IGMP",
        &[Payload("igmp"), Payload("mtrace"), Payload("mresp")],
        Whole,
    ),
    row("LDP", &[Holds("LDP, Label-Space-ID")], Whole),
    row("RSVP", &[Payload("RSVPv"), Payload("ERROR: RSVP")], Whole),
    row("LMP", &[Payload("LMPv")], Whole),
    row("BFD", &[Payload("BFD")], Whole),
    row("LSP ping", &[Holds(": LSP-PINGv")], Whole),
    row(
        "Frame Relay",
        &[Line("Q.9"), Line("FRF."), Holds("! Q.9")],
        Whole,
    ),
    row("Cisco HDLC", &[Line("SLARP"), Line("unknown CHDLC")], Whole),
    row("MPLS", &[Line("MPLS ("), Payload("MPLS (")], Whole),
    row(
        "PPP",
        &[
            Line("unknown PPP protocol"),
            Line("PPPoE "),
            Holds("CP, Conf-"),
            Holds("LCP, "),
            Holds(": PAP, "),
            Holds(": CHAP, "),
        ],
        Whole,
    ),
];

/// Protocols of hosts and switches on a link, and applications.
const ACCESS_AND_APPLICATIONS: &[Protocol] = &[
    row(
        "802.11",
        &[
            Holds("us tsft "),
            Holds(" Mb/s 24"),
            Line("Beacon "),
            Line("ReAssoc Response "),
        ],
        Whole,
    ),
    row("spanning trees", &[Line("STP ")], Whole),
    row("LLDP", &[Line("LLDP")], Whole),
    row(
        "CDP, VTP, DTP, UDLD",
        &[Line("CDPv"), Line("VTPv"), Line("DTPv"), Line("UDLDv")],
        Whole,
    ),
    row(
        "LACP, markers, OAM",
        &[Line("LACP"), Line("MARKER"), Line("OAM, length")],
        Whole,
    ),
    row("EAPOL", &[Line("EAP packet"), Line("EAPOL ")], Whole),
    row("HTTP", &[Holds(": HTTP")], Whole),
    row(
        "RTSP, SMTP, FTP, WHOIS",
        &[
            Holds(": RTSP"),
            Holds(": SMTP"),
            Holds(": FTP"),
            Holds(": WHOIS"),
        ],
        Whole,
    ),
    row(
        "RESP, OpenFlow",
        &[Holds(": RESP"), Holds(": OpenFlow")],
        Whole,
    ),
    row("SIP", &[Payload("SIP")], Whole),
    row("PTP", &[Line("PTPv"), Payload("PTPv")], Whole),
    row("sFlow", &[Payload("sFlow")], Whole),
    row("OTV", &[Payload("OTV")], Whole),
    row("AoE, CFM", &[Line("AoE"), Line("CFM")], Whole),
    row(
        "mobility headers",
        &[Payload("mobility: "), Payload("(header length ")],
        Whole,
    ),
    row("SCTP, DCCP", &[Payload("sctp"), Payload("DCCP ")], Whole),
    row("DHCP", &[Payload("BOOTP/DHCP")], Whole),
    row("DHCPv6", &[Payload("dhcp6")], Whole),
    row("NTP", &[Payload("NTPv")], Whole),
    row("RADIUS", &[Payload("RADIUS")], Whole),
    row(
        "ISAKMP",
        &[
            Payload("isakmp"),
            Payload("NONESP-encap"),
            Payload("UDP-encap"),
            Payload(" [|isakmp"),
        ],
        Whole,
    ),
    row("SNMP", &[Port("161"), Port("162")], Whole),
    row("syslog", &[Payload("SYSLOG")], Whole),
    row("TFTP", &[Payload("TFTP")], Whole),
    row("Kerberos", &[Port("88")], Whole),
];

/// All other lines: the network and transport layers.
const NETWORK: &[Protocol] = &[
    row("ARP", &[Line("ARP"), Line(" [|arp]")], Whole),
    row(
        "TCP",
        &[Payload("Flags ["), Payload("tcp "), Payload("[|tcp]")],
        BeforeApplication,
    ),
    row(
        "node information, RPL, router renumbering",
        &[
            Payload("ICMP6, who-are-you"),
            Payload("ICMP6, RPL"),
            Payload("ICMP6, router renumbering"),
        ],
        Nothing,
    ),
    row("ICMPv6", &[Payload("ICMP6")], Whole),
    row("ICMP", &[Payload("ICMP")], Whole),
    row("DNS", &[Port("53"), Port("5353")], BeforeApplication),
    row("UDP", &[Payload("UDP")], BeforeApplication),
];

/// Returns every row, in the order of testing.
pub(crate) fn all() -> impl Iterator<Item = &'static Protocol> {
    [ROUTING, ACCESS_AND_APPLICATIONS, NETWORK]
        .into_iter()
        .flatten()
}

/// Returns the row of a line of tcpdump; `None` if no row recognises it.
pub(crate) fn of(line: &str) -> Option<&'static Protocol> {
    let packet = ip_packet(line);
    all().find(|protocol| {
        protocol.marks.iter().any(|mark| match *mark {
            Line(text) => line.starts_with(text),
            Holds(text) => line.contains(text),
            Payload(text) => packet.is_some_and(|packet| packet.payload.starts_with(text)),
            Port(number) => packet.is_some_and(|packet| packet.has_port(number)),
        })
    })
}

/// The parts of an IP packet's line.
#[derive(Clone, Copy)]
struct IpPacket<'l> {
    source: &'l str,
    destination: &'l str,
    payload: &'l str,
}

impl IpPacket<'_> {
    fn has_port(&self, number: &str) -> bool {
        [self.source, self.destination]
            .iter()
            .any(|end| end.rsplit_once('.').is_some_and(|(_, port)| port == number))
    }
}

fn ip_packet(line: &str) -> Option<IpPacket<'_>> {
    let rest = line
        .strip_prefix("IP6 ")
        .or_else(|| line.strip_prefix("IP "))?;
    let rest = match rest.split_once("bytes missing!") {
        Some((before, rest)) if before.starts_with("truncated-ip") => rest.trim_start(),
        _ => rest,
    };
    let (source, rest) = rest.split_once(" > ")?;
    let (destination, payload) = rest.split_once(": ")?;
    Some(IpPacket {
        source,
        destination,
        payload,
    })
}

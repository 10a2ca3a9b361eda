//! The reserved words of the language, in one table; those of certain link types are in `frame`.

use super::frame::{self, FrameAddress, FrameWord};

/// A protocol name that can begin a primitive or be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Proto {
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Igmp,
    Igrp,
    Pim,
    Vrrp,
    Carp,
    Ah,
    Esp,
    Atalk,
    Aarp,
    Decnet,
    Lat,
    Sca,
    Moprc,
    Mopdl,
    Iso,
    Clnp,
    Esis,
    Isis,
    IsisL1,
    IsisL2,
    IsisIih,
    IsisLsp,
    IsisSnp,
    IsisCsnp,
    IsisPsnp,
    Stp,
    Ipx,
    Netbeui,
    Radio,
}

impl Proto {
    /// Returns the word as it is written in an expression.
    pub(crate) fn name(self) -> &'static str {
        WORDS
            .iter()
            .find(|(_, word)| matches!(word, Keyword::Proto(p) if *p == self))
            .map_or("link", |(name, _)| name)
    }
}

/// A reserved word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Proto(Proto),
    Src,
    Dst,
    Host,
    Net,
    Mask,
    Port,
    Portrange,
    ProtoType,
    Protochain,
    Gateway,
    Less,
    Greater,
    Byte,
    Broadcast,
    Multicast,
    And,
    Or,
    Not,
    Len,
    Inbound,
    Outbound,
    Ifindex,
    /// Begins a primitive of certain link types.
    Frame(FrameWord),
    /// Names an address of 802.11 frames.
    Address(FrameAddress),
    Vlan,
    Mpls,
    Pppoed,
    Pppoes,
    Geneve,
    Vxlan,
    Llc,
    /// A name for a number: an offset or a field's value.
    Number(u32),
}

/// Returns the keyword of a reserved word.
pub(super) fn lookup(word: &str) -> Option<Keyword> {
    // Addresses and most numbers need no table lookup.
    if word
        .as_bytes()
        .first()
        .is_none_or(|b| !b.is_ascii_lowercase())
    {
        return None;
    }
    let same = |name: &str| {
        let (name, word) = (name.as_bytes(), word.as_bytes());
        name.len() == word.len() && name.first() == word.first() && name == word
    };
    if let Some((_, keyword)) = WORDS.iter().find(|(name, _)| same(name)) {
        return Some(*keyword);
    }
    if let Some((_, frame)) = frame::WORDS.iter().find(|(name, _)| *name == word) {
        return Some(Keyword::Frame(*frame));
    }
    if let Some((_, address)) = frame::ADDRESSES.iter().find(|(name, _)| *name == word) {
        return Some(Keyword::Address(*address));
    }
    NUMBERS
        .iter()
        .find(|(name, _)| *name == word)
        .map(|&(_, n)| Keyword::Number(n))
}

const WORDS: &[(&str, Keyword)] = &[
    ("ether", Keyword::Proto(Proto::Link)),
    ("link", Keyword::Proto(Proto::Link)),
    ("ppp", Keyword::Proto(Proto::Link)),
    ("slip", Keyword::Proto(Proto::Link)),
    ("fddi", Keyword::Proto(Proto::Link)),
    ("tr", Keyword::Proto(Proto::Link)),
    ("wlan", Keyword::Proto(Proto::Link)),
    ("ip", Keyword::Proto(Proto::Ip)),
    ("ip6", Keyword::Proto(Proto::Ip6)),
    ("arp", Keyword::Proto(Proto::Arp)),
    ("rarp", Keyword::Proto(Proto::Rarp)),
    ("tcp", Keyword::Proto(Proto::Tcp)),
    ("udp", Keyword::Proto(Proto::Udp)),
    ("sctp", Keyword::Proto(Proto::Sctp)),
    ("icmp", Keyword::Proto(Proto::Icmp)),
    ("icmp6", Keyword::Proto(Proto::Icmp6)),
    ("igmp", Keyword::Proto(Proto::Igmp)),
    ("igrp", Keyword::Proto(Proto::Igrp)),
    ("pim", Keyword::Proto(Proto::Pim)),
    ("vrrp", Keyword::Proto(Proto::Vrrp)),
    ("carp", Keyword::Proto(Proto::Carp)),
    ("ah", Keyword::Proto(Proto::Ah)),
    ("esp", Keyword::Proto(Proto::Esp)),
    ("atalk", Keyword::Proto(Proto::Atalk)),
    ("aarp", Keyword::Proto(Proto::Aarp)),
    ("decnet", Keyword::Proto(Proto::Decnet)),
    ("lat", Keyword::Proto(Proto::Lat)),
    ("sca", Keyword::Proto(Proto::Sca)),
    ("moprc", Keyword::Proto(Proto::Moprc)),
    ("mopdl", Keyword::Proto(Proto::Mopdl)),
    ("iso", Keyword::Proto(Proto::Iso)),
    ("clnp", Keyword::Proto(Proto::Clnp)),
    ("esis", Keyword::Proto(Proto::Esis)),
    ("es-is", Keyword::Proto(Proto::Esis)),
    ("isis", Keyword::Proto(Proto::Isis)),
    ("is-is", Keyword::Proto(Proto::Isis)),
    ("l1", Keyword::Proto(Proto::IsisL1)),
    ("l2", Keyword::Proto(Proto::IsisL2)),
    ("iih", Keyword::Proto(Proto::IsisIih)),
    ("lsp", Keyword::Proto(Proto::IsisLsp)),
    ("snp", Keyword::Proto(Proto::IsisSnp)),
    ("csnp", Keyword::Proto(Proto::IsisCsnp)),
    ("psnp", Keyword::Proto(Proto::IsisPsnp)),
    ("stp", Keyword::Proto(Proto::Stp)),
    ("ipx", Keyword::Proto(Proto::Ipx)),
    ("netbeui", Keyword::Proto(Proto::Netbeui)),
    ("radio", Keyword::Proto(Proto::Radio)),
    ("src", Keyword::Src),
    ("dst", Keyword::Dst),
    ("host", Keyword::Host),
    ("net", Keyword::Net),
    ("mask", Keyword::Mask),
    ("port", Keyword::Port),
    ("portrange", Keyword::Portrange),
    ("proto", Keyword::ProtoType),
    ("protochain", Keyword::Protochain),
    ("gateway", Keyword::Gateway),
    ("less", Keyword::Less),
    ("greater", Keyword::Greater),
    ("byte", Keyword::Byte),
    ("broadcast", Keyword::Broadcast),
    ("multicast", Keyword::Multicast),
    ("and", Keyword::And),
    ("or", Keyword::Or),
    ("not", Keyword::Not),
    ("len", Keyword::Len),
    ("length", Keyword::Len),
    ("inbound", Keyword::Inbound),
    ("outbound", Keyword::Outbound),
    ("ifindex", Keyword::Ifindex),
    ("vlan", Keyword::Vlan),
    ("mpls", Keyword::Mpls),
    ("pppoed", Keyword::Pppoed),
    ("pppoes", Keyword::Pppoes),
    ("geneve", Keyword::Geneve),
    ("vxlan", Keyword::Vxlan),
    ("llc", Keyword::Llc),
];

/// Offsets and values of header fields (RFC 792, RFC 793, RFC 3168, RFC 4443 and IANA's
/// registries of ICMP types).
const NUMBERS: &[(&str, u32)] = &[
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every word that begins or qualifies a primitive occurs in an example of the
    /// pages, which run as tests (`tests/documentation`). Every named number must occur in a row of
    /// names there.
    #[test]
    fn the_pages_have_an_example_of_every_word() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let pages = [
            "reference/filter-language.md",
            "reference/filter-link-types.md",
        ]
        .map(|page| std::fs::read_to_string(folder.join(page)).expect("a page"));
        let text = pages.concat();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut in_examples = std::collections::HashSet::new();
        let mut heading = None;
        for line in text.lines() {
            let Some(row) = line.strip_prefix('|') else {
                heading = None;
                continue;
            };
            let first = row.split(" |").next().unwrap_or_default().trim();
            let heading = *heading.get_or_insert(first);
            if heading.starts_with("example") || heading == "names" {
                in_examples.extend(first.split(|c: char| !is_part(c)));
            }
        }
        let words = WORDS.iter().map(|(word, _)| *word);
        let numbers = NUMBERS.iter().map(|(word, _)| *word);
        let frame_words = frame::WORDS.iter().map(|(word, _)| *word);
        let addresses = frame::ADDRESSES.iter().map(|(word, _)| *word);
        let values = [
            frame::TYPES,
            frame::DIRECTIONS,
            frame::REASONS,
            frame::ACTIONS,
        ]
        .into_iter()
        .chain(frame::SUBTYPES.iter().map(|(_, names)| *names));
        let values = values.flatten().map(|(word, _)| *word);
        let all = words.chain(numbers).chain(frame_words).chain(addresses);
        let all = all.chain(values).chain(["llc", "dm"]);
        let missing: Vec<&str> = all.filter(|word| !in_examples.contains(word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

//! Protocols: by name, and after `proto`.

use super::osi::{self, nlpid};
use super::{Lowered, Lowering, bad, lookup_failed, unknown};
use crate::error::ErrorKind;
use crate::ir::{Chain, Condition, IpVersion, Offset, Relation, Size};
use crate::language::Proto;
use crate::language::ast::Qualifiers;
use crate::link::{EtherProto, compare, equals, ethertype as et};
use crate::resolve::NameKind;

/// Protocol numbers over IP.
pub(super) mod ipproto {
    use ringtap_packet::protocol;

    pub(in crate::lower) const ICMP: u32 = protocol::ICMP as u32;
    pub(in crate::lower) const IGMP: u32 = protocol::IGMP as u32;
    pub(in crate::lower) const TCP: u32 = protocol::TCP as u32;
    pub(in crate::lower) const IGRP: u32 = protocol::IGRP as u32;
    pub(in crate::lower) const UDP: u32 = protocol::UDP as u32;
    /// The fragment header of IPv6 (RFC 8200, section 4.5).
    pub(in crate::lower) const FRAGMENT: u32 = protocol::FRAGMENT as u32;
    pub(in crate::lower) const ESP: u32 = protocol::ESP as u32;
    pub(in crate::lower) const AH: u32 = protocol::AUTHENTICATION as u32;
    pub(in crate::lower) const ICMP6: u32 = protocol::ICMPV6 as u32;
    pub(in crate::lower) const PIM: u32 = protocol::PIM as u32;
    pub(in crate::lower) const VRRP: u32 = protocol::VRRP as u32;
    pub(in crate::lower) const CARP: u32 = protocol::VRRP as u32;
    pub(in crate::lower) const SCTP: u32 = protocol::SCTP as u32;
}

impl Lowering<'_> {
    /// Tests whether the link layer's payload is of this protocol.
    pub(super) fn network(&mut self, proto: EtherProto) -> Lowered<Condition> {
        if self.labels > 0 {
            return self.behind_labels(proto);
        }
        if !self.link.tells_protocols() {
            return Err(ErrorKind::ProtocolsUnknown(self.link.name()));
        }
        Ok(self.link.protocol(self.values, self.place, proto))
    }

    /// Tests for IPv4 with this protocol in its header.
    pub(super) fn over_ip4(&mut self, number: u32) -> Lowered<Condition> {
        let network = self.network(et::IP)?;
        let at = self.place.network + 9;
        Ok(network.and(equals(self.values, Size::Byte, at, number)))
    }

    /// Tests for IPv6 with this protocol directly after the header, or after one fragment header.
    pub(super) fn over_ip6(&mut self, number: u32) -> Lowered<Condition> {
        if let Some(found) = self.deep_protocol(number) {
            return Ok(self.network(et::IP6)?.and(found));
        }
        let at = self.place.network;
        let network = self.network(et::IP6)?;
        let direct = equals(self.values, Size::Byte, at + 6, number);
        let fragment = equals(self.values, Size::Byte, at + 6, ipproto::FRAGMENT);
        let behind = equals(self.values, Size::Byte, at + 40, number);
        Ok(network.and(direct.or(fragment.and(behind))))
    }

    fn over_ip(&mut self, number: u32) -> Lowered<Condition> {
        if let Some(found) = self.deep_protocol(number) {
            return Ok(found);
        }
        let v4 = self.over_ip4(number)?;
        Ok(v4.or(self.over_ip6(number)?))
    }

    /// Lowers a protocol's name as a primitive.
    pub(super) fn protocol_alone(&mut self, proto: Proto) -> Lowered<Condition> {
        match proto {
            Proto::Tcp => self.over_ip(ipproto::TCP),
            Proto::Udp => self.over_ip(ipproto::UDP),
            Proto::Sctp => self.over_ip(ipproto::SCTP),
            Proto::Pim => self.over_ip(ipproto::PIM),
            Proto::Ah => self.over_ip(ipproto::AH),
            Proto::Esp => self.over_ip(ipproto::ESP),
            Proto::Icmp => self.over_ip4(ipproto::ICMP),
            Proto::Igmp => self.over_ip4(ipproto::IGMP),
            Proto::Igrp => self.over_ip4(ipproto::IGRP),
            Proto::Vrrp => self.over_ip4(ipproto::VRRP),
            Proto::Carp => self.over_ip4(ipproto::CARP),
            Proto::Icmp6 => self.over_ip6(ipproto::ICMP6),
            Proto::Clnp => self.over_osi(nlpid::CLNP),
            Proto::Esis => self.over_osi(nlpid::ESIS),
            Proto::Isis => self.over_osi(nlpid::ISIS),
            Proto::Link | Proto::Radio => Err(bad(proto.name(), "nothing")),
            _ => match ether_number(proto.name()) {
                Some(number) => self.network(number),
                None => self.isis_types(osi::isis_types(proto)),
            },
        }
    }

    /// Lowers `proto NUMBER` under its qualifiers.
    pub(super) fn numbered_protocol(&mut self, q: Qualifiers, number: u32) -> Lowered<Condition> {
        match q.proto {
            None => self.over_ip(number),
            Some(Proto::Ip) => self.over_ip4(number),
            Some(Proto::Ip6) => self.over_ip6(number),
            Some(Proto::Link) => self.network(number),
            Some(Proto::Iso) => self.over_osi(number),
            Some(Proto::Isis) => self.isis_type(number),
            Some(proto) => Err(ErrorKind::NoInnerProtocol(proto.name())),
        }
    }

    fn ip_protocol(&self, name: &str) -> Lowered<u32> {
        let found = self.resolver.protocol(name);
        let number = found.map_err(lookup_failed(NameKind::IpProtocol, name))?;
        number
            .map(u32::from)
            .ok_or_else(|| unknown(NameKind::IpProtocol, name))
    }

    pub(super) fn named_chain(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        let number = self.ip_protocol(name)?;
        self.chain(q, number)
    }

    /// Tests for the protocol anywhere in the chain of headers after an IP header.
    pub(super) fn chain(&mut self, q: Qualifiers, number: u32) -> Lowered<Condition> {
        match q.proto {
            None => {
                let v4 = self.chain_over(IpVersion::V4, number)?;
                Ok(v4.or(self.chain_over(IpVersion::V6, number)?))
            }
            Some(Proto::Ip) => self.chain_over(IpVersion::V4, number),
            Some(Proto::Ip6) => self.chain_over(IpVersion::V6, number),
            Some(proto) => Err(bad(proto.name(), "protochain")),
        }
    }

    fn chain_over(&mut self, version: IpVersion, wanted: u32) -> Lowered<Condition> {
        let Offset {
            base: None,
            constant: at,
        } = self.place.network
        else {
            return Err(ErrorKind::ChainBehindVariable);
        };
        let network = self.network(match version {
            IpVersion::V4 => et::IP,
            IpVersion::V6 => et::IP6,
        })?;
        let left = self.values.chain(Chain {
            version,
            at,
            wanted,
        });
        Ok(network.and(compare(self.values, left, Relation::Equal, wanted)))
    }

    /// Lowers `proto \name` under its qualifiers.
    pub(super) fn named_protocol(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        let number = match q.proto {
            None | Some(Proto::Ip | Proto::Ip6) => self.ip_protocol(name)?,
            Some(Proto::Link) => {
                ether_number(name).ok_or_else(|| unknown(NameKind::EtherProtocol, name))?
            }
            Some(Proto::Iso) => match name {
                "esis" => nlpid::ESIS,
                "isis" => nlpid::ISIS,
                "clnp" => nlpid::CLNP,
                _ => return Err(unknown(NameKind::IsoProtocol, name)),
            },
            Some(Proto::Isis) => return Err(unknown(NameKind::IsisType, name)),
            Some(proto) => return Err(ErrorKind::NoInnerProtocol(proto.name())),
        };
        self.numbered_protocol(q, number)
    }
}

/// The names after `ether proto`; `lldp` and `slow` came with libpcap 1.11.
const ETHER_NAMES: &[(&str, EtherProto)] = &[
    ("aarp", et::AARP),
    ("arp", et::ARP),
    ("atalk", et::ATALK),
    ("decnet", 0x6003),
    ("ip", et::IP),
    ("ip6", et::IP6),
    ("ipv6", et::IP6),
    ("ipx", et::SAP_IPX),
    ("iso", et::SAP_ISO),
    ("lat", 0x6004),
    ("lldp", 0x88cc),
    ("loopback", 0x9000),
    ("mopdl", 0x6001),
    ("moprc", 0x6002),
    ("netbeui", et::SAP_NETBEUI),
    ("rarp", et::RARP),
    ("sca", 0x6007),
    ("slow", 0x8809),
    ("stp", et::SAP_STP),
];

/// Returns the number of a protocol directly on the link layer.
fn ether_number(name: &str) -> Option<EtherProto> {
    let found = ETHER_NAMES.iter().find(|(known, _)| *known == name);
    found.map(|&(_, number)| number)
}

/// Returns the same, for protocols whose header can be indexed.
pub(super) fn indexable(proto: Proto) -> Option<EtherProto> {
    match proto {
        Proto::Ip
        | Proto::Ip6
        | Proto::Arp
        | Proto::Rarp
        | Proto::Atalk
        | Proto::Decnet
        | Proto::Lat
        | Proto::Sca
        | Proto::Moprc
        | Proto::Mopdl => ether_number(proto.name()),
        _ => None,
    }
}

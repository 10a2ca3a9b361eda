//! Hosts and networks: IPv4 (in IP, ARP and RARP), IPv6, hardware addresses.

use std::net::{IpAddr, Ipv6Addr};

use super::{Compared, End, Lowered, Lowering, bad, kind_name, lookup_failed, unknown};
use crate::error::ErrorKind;
use crate::ir::{Condition, Offset, Size, Values};
use crate::language::Proto;
use crate::language::ast::{Direction, Dotted, Id, Kind, Qualifiers};
use crate::link::{equals, ethertype, masked};
use crate::resolve::NameKind;

/// Makes a prefix after only a direction a network, as in the manual page of libpcap 1.11.
fn as_network(qualifiers: Qualifiers, id: &Id) -> Qualifiers {
    let is_network = matches!(id, Id::DottedPrefix(..) | Id::Ipv6Prefix(..))
        && qualifiers.proto != Some(Proto::Decnet);
    match qualifiers.kind {
        Kind::Default if is_network => Qualifiers {
            kind: Kind::Net,
            ..qualifiers
        },
        _ => qualifiers,
    }
}

impl Lowering<'_> {
    pub(super) fn address(&mut self, qualifiers: Qualifiers, id: &Id) -> Lowered<Condition> {
        let qualifiers = as_network(qualifiers, id);
        let net = qualifiers.kind == Kind::Net;
        let whole = |dotted: Dotted| dotted.ipv4.ok_or(ErrorKind::BadIpv4);
        match *id {
            Id::Number(number) if qualifiers.proto == Some(Proto::Decnet) => {
                self.decnet_host(qualifiers.direction, number)
            }
            Id::Dotted(dotted) if qualifiers.proto == Some(Proto::Decnet) => {
                let address = dotted.decnet.ok_or(ErrorKind::BadDecnet)?;
                self.decnet_host(qualifiers.direction, address.into())
            }
            Id::Name(ref name) if net => self.named_network(qualifiers, name),
            Id::Name(ref name) => self.named_host(qualifiers, name),
            Id::Number(number) if net => {
                let (address, mask) = left_aligned(number);
                self.ipv4(qualifiers, address, mask)
            }
            Id::Number(number) => self.ipv4(qualifiers, number, u32::MAX),
            // A dotted address with less than four parts is a network even after `host`.
            Id::Dotted(dotted) => {
                let dotted = whole(dotted)?;
                self.ipv4(qualifiers, dotted.address(), dotted.mask())
            }
            Id::DottedPrefix(dotted, bits) => {
                if bits > 32 {
                    return Err(ErrorKind::PrefixTooLong(32));
                }
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                self.ipv4_network(qualifiers, whole(dotted)?.address(), mask)
            }
            Id::DottedMask(dotted, mask) => {
                // Missing parts of a mask become zeros, like those of an address.
                let mask = whole(mask)?.address();
                self.ipv4_network(qualifiers, whole(dotted)?.address(), mask)
            }
            Id::Ipv6(address) => self.ipv6(qualifiers, address, 128),
            Id::Ipv6Prefix(address, bits) => self.ipv6(qualifiers, address, bits),
            Id::Mac(address) => {
                Self::is_hardware(qualifiers)?;
                self.hardware_test(qualifiers.direction, address)
            }
            Id::Station(address) => {
                Self::is_hardware(qualifiers)?;
                self.station_test(qualifiers.direction, address)
            }
        }
    }

    fn ipv4_network(&mut self, q: Qualifiers, address: u32, mask: u32) -> Lowered<Condition> {
        if address & !mask != 0 {
            return Err(ErrorKind::HostBitsSet);
        }
        if q.kind != Kind::Net {
            return Err(ErrorKind::MaskWithoutNet);
        }
        self.ipv4(q, address, mask)
    }

    /// Tests an IPv4 address under a mask, in the protocols that the qualifier names.
    fn ipv4(&mut self, q: Qualifiers, address: u32, mask: u32) -> Lowered<Condition> {
        if q.proto == Some(Proto::Decnet) {
            return self.decnet_host(q.direction, address);
        }
        self.note(Compared::Ip4 { address, mask });
        self.ipv4_fields(q, |values, at| match mask {
            u32::MAX => equals(values, Size::Word, at, address),
            _ => masked(values, Size::Word, at, mask, address),
        })
    }

    /// Tests the fields with IPv4 addresses, in the protocols that the qualifier names.
    pub(super) fn ipv4_fields(
        &mut self,
        q: Qualifiers,
        test: impl Fn(&mut Values, Offset) -> Condition,
    ) -> Lowered<Condition> {
        let protos: &[(u32, u32, u32)] = match (q.proto, q.kind) {
            // Behind MPLS labels there is only IP.
            (None, _) if self.labels > 0 => &[IP_ENDS],
            (None, _) => &[IP_ENDS, ARP_ENDS, RARP_ENDS],
            (Some(Proto::Ip), _) => &[IP_ENDS],
            (Some(Proto::Arp), _) => &[ARP_ENDS],
            (Some(Proto::Rarp), _) => &[RARP_ENDS],
            (Some(proto), Kind::Net) => return Err(bad(proto.name(), "a network")),
            (Some(proto), _) => return Err(bad(proto.name(), "an IPv4 host")),
        };
        let mut any = Vec::new();
        for &(ether, src, dst) in protos {
            any.push(self.in_direction(q.direction, |this, end| {
                let at = this.place.network + if end == End::Src { src } else { dst };
                Ok(this.network(ether)?.and(test(this.values, at)))
            })?);
        }
        Ok(Condition::Any(any))
    }

    /// Tests an IPv6 address under a prefix of this many bits.
    fn ipv6(&mut self, q: Qualifiers, address: Ipv6Addr, bits: u32) -> Lowered<Condition> {
        if bits > 128 {
            return Err(ErrorKind::PrefixTooLong(128));
        }
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        if address.to_bits() & !mask != 0 {
            return Err(ErrorKind::HostBitsSet);
        }
        let to = "an IPv6 address";
        match q.kind {
            Kind::Default | Kind::Host if bits != 128 => return Err(ErrorKind::MaskWithoutNet),
            Kind::Default | Kind::Host | Kind::Net => {}
            kind => return Err(bad(kind_name(kind), to)),
        }
        match q.proto {
            None | Some(Proto::Ip6) => {}
            Some(proto) => return Err(bad(proto.name(), to)),
        }
        let compared = Compared::Ip6 {
            address: address.to_bits(),
            mask,
        };
        self.note(compared);
        self.in_direction(q.direction, |this, end| {
            let offset = this.place.network + if end == End::Src { 8 } else { 24 };
            let mut test = this.network(ethertype::IP6)?;
            let parts = words(address.to_bits()).into_iter().zip(words(mask));
            for ((word, part), at) in parts.zip((0..).step_by(4)) {
                let offset = offset + at;
                test = test.and(match part {
                    u32::MAX => equals(this.values, Size::Word, offset, word),
                    part => masked(this.values, Size::Word, offset, part, word),
                });
            }
            Ok(test)
        })
    }

    /// Checks for a hardware address, which needs the `ether` qualifier and a link layer that has
    /// them.
    fn is_hardware(q: Qualifiers) -> Lowered<()> {
        let to = "a hardware address";
        match (q.kind, q.proto) {
            (Kind::Default | Kind::Host, Some(Proto::Link)) => Ok(()),
            (Kind::Default | Kind::Host, Some(proto)) => Err(bad(proto.name(), to)),
            // The name of both kinds is "host".
            (kind, _) => Err(bad(kind_name(kind), to)),
        }
    }

    /// Tests for a gateway: the frame has the host's hardware address, the packet not its IPv4
    /// address.
    pub(super) fn gateway(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        if !matches!(q.proto, None | Some(Proto::Ip | Proto::Arp | Proto::Rarp)) {
            return Err(bad(q.proto.map_or("", Proto::name), "gateway"));
        }
        let [frame, packet] = [Some(Proto::Link), q.proto].map(|proto| Qualifiers {
            proto,
            direction: Direction::Default,
            kind: Kind::Host,
        });
        let by_way = self.named_host(frame, name)?;
        let addresses = self.host_addresses(name)?;
        let mut ends = Vec::new();
        for address in addresses {
            if let IpAddr::V4(v4) = address {
                ends.push(self.ipv4(packet, v4.to_bits(), u32::MAX)?);
            }
        }
        if ends.is_empty() {
            return Err(ErrorKind::NoAddressOfFamily(name.to_owned()));
        }
        Ok(by_way.and(Condition::Any(ends).negated()))
    }

    fn named_network(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        let found = self.resolver.network(name);
        let network = found.map_err(lookup_failed(NameKind::Network, name))?;
        // The default route of networks(5), number 0, is not a network.
        let network = network.filter(|number| !number.is_unspecified());
        let number = network.ok_or_else(|| unknown(NameKind::Network, name))?;
        // The database has no masks. The address must be the network's number itself, with trailing
        // zeros added until the first part is not zero.
        let (address, mask) = left_aligned(number.to_bits());
        self.ipv4(q, address, mask)
    }

    /// Returns the addresses of a host, at least one.
    fn host_addresses(&self, name: &str) -> Lowered<Vec<IpAddr>> {
        // An address after a backslash.
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let found = self.resolver.host(name);
        let addresses = found.map_err(lookup_failed(NameKind::Host, name))?;
        match addresses.is_empty() {
            true => Err(unknown(NameKind::Host, name)),
            false => Ok(addresses),
        }
    }

    fn named_host(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        if q.proto == Some(Proto::Link) {
            let found = self.resolver.ether(name);
            let address = found.map_err(lookup_failed(NameKind::Ether, name))?;
            let address = address.ok_or_else(|| unknown(NameKind::Ether, name))?;
            return self.hardware_test(q.direction, address);
        }
        if q.proto == Some(Proto::Decnet) {
            return Err(ErrorKind::DecnetName);
        }
        let ip4 = match q.proto {
            None if !self.link.has_type_field() => Qualifiers {
                proto: Some(Proto::Ip),
                ..q
            },
            _ => q,
        };
        let mut tests = Vec::new();
        for address in self.host_addresses(name)? {
            match (address, q.proto) {
                (IpAddr::V4(_), Some(Proto::Ip6))
                | (IpAddr::V6(_), Some(Proto::Ip | Proto::Arp | Proto::Rarp)) => {}
                (IpAddr::V4(v4), _) => tests.push(self.ipv4(ip4, v4.to_bits(), u32::MAX)?),
                (IpAddr::V6(v6), _) => tests.push(self.ipv6(q, v6, 128)?),
            }
        }
        let family = || ErrorKind::NoAddressOfFamily(name.to_owned());
        tests.into_iter().reduce(Condition::or).ok_or_else(family)
    }
}

/// EtherType, and the offsets of the two addresses in the header (RFC 791, RFC 826).
const IP_ENDS: (u32, u32, u32) = (ethertype::IP, 12, 16);
const ARP_ENDS: (u32, u32, u32) = (ethertype::ARP, 14, 24);
const RARP_ENDS: (u32, u32, u32) = (ethertype::RARP, 14, 24);

/// Returns a number as a network: shifted until its first part is not zero, with a mask for the
/// remaining parts.
pub(super) fn left_aligned(number: u32) -> (u32, u32) {
    let (mut address, mut mask) = (number, u32::MAX);
    while address != 0 && address >> 24 == 0 {
        address <<= 8;
        mask <<= 8;
    }
    (address, mask)
}

fn words(bits: u128) -> [u32; 4] {
    let bytes = bits.to_be_bytes();
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = chunk
            .iter()
            .fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    words
}

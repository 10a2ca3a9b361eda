//! Ports and ranges of ports.

use super::extension::member;
use super::protocol::ipproto;
use super::{Compared, End, Lowered, Lowering, bad, lookup_failed, unknown};
use crate::error::ErrorKind;
use crate::ir::{Condition, Offset, Relation, Size, ValueId};
use crate::language::Proto;
use crate::language::ast::{Id, Numbers, Qualifiers};
use crate::link::{compare, equals, ethertype, field};
use crate::resolve::{NameKind, Transport};

/// The numbers that a port field is compared with.
#[derive(Clone, Copy)]
pub(super) enum Ports<'a> {
    One(u32),
    /// Both included.
    Range(u32, u32),
    In(&'a [Numbers]),
}

impl Ports<'_> {
    fn ranges(self) -> Vec<Numbers> {
        match self {
            Self::One(port) => vec![Numbers::new(port, port)],
            Self::Range(first, last) => vec![Numbers::new(first, last)],
            Self::In(ranges) => ranges.to_vec(),
        }
    }
}

/// The transports whose ports are tested: one, or `None` for all three.
type Only = Option<u32>;

impl Lowering<'_> {
    /// Returns the transport that the protocol qualifier names.
    fn transport(q: Qualifiers, what: &'static str) -> Lowered<Only> {
        match q.proto {
            None => Ok(None),
            Some(Proto::Tcp) => Ok(Some(ipproto::TCP)),
            Some(Proto::Udp) => Ok(Some(ipproto::UDP)),
            Some(Proto::Sctp) => Ok(Some(ipproto::SCTP)),
            Some(proto) => Err(bad(proto.name(), what)),
        }
    }

    pub(super) fn numbered_port(&mut self, q: Qualifiers, port: u32) -> Lowered<Condition> {
        let only = Self::transport(q, "a port")?;
        check(port)?;
        self.ports(q, only, Ports::One(port))
    }

    pub(super) fn single_portrange(&mut self, q: Qualifiers, port: u32) -> Lowered<Condition> {
        let only = Self::transport(q, "a range of ports")?;
        check(port)?;
        self.ports(q, only, Ports::Range(port, port))
    }

    pub(super) fn named_port(&mut self, q: Qualifiers, name: &str) -> Lowered<Condition> {
        let only = Self::transport(q, "a port")?;
        let (port, belongs) = self.service(name, NameKind::Port)?;
        let only = combine(only, belongs, name)?;
        check(port)?;
        self.ports(q, only, Ports::One(port))
    }

    pub(super) fn named_portrange(&mut self, q: Qualifiers, text: &str) -> Lowered<Condition> {
        let only = Self::transport(q, "a range of ports")?;
        if let Some((first, last)) = numbers(text) {
            return self.range(q, only, first, last);
        }
        let whole = || unknown(NameKind::Portrange, text);
        let (first, last) = text.split_once('-').ok_or_else(whole)?;
        let whole = |_| whole();
        let (first, belongs) = self.service(first, NameKind::Portrange).map_err(whole)?;
        let (last, last_belongs) = self.service(last, NameKind::Portrange).map_err(whole)?;
        // Ends of different transports make the range valid for every transport.
        let belongs = if belongs == last_belongs {
            belongs
        } else {
            None
        };
        let only = combine(only, belongs, text)?;
        self.range(q, only, first, last)
    }

    fn range(&mut self, q: Qualifiers, only: Only, first: u32, last: u32) -> Lowered<Condition> {
        check(first)?;
        check(last)?;
        self.ports(q, only, Ports::Range(first.min(last), first.max(last)))
    }

    /// Returns the port of a number or service, and the transport if only one has the service.
    fn service(&mut self, name: &str, kind: NameKind) -> Lowered<(u32, Only)> {
        if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            return match name.parse() {
                Ok(port) => Ok((port, None)),
                Err(_) => Err(unknown(kind, name)),
            };
        }
        let find = |transport| {
            self.resolver
                .port(name, transport)
                .map_err(lookup_failed(kind, name))
        };
        match (find(Transport::Tcp)?, find(Transport::Udp)?) {
            (Some(port), None) => Ok((port.into(), Some(ipproto::TCP))),
            (None, Some(port)) => Ok((port.into(), Some(ipproto::UDP))),
            (Some(port), Some(_)) => Ok((port.into(), None)),
            (None, None) => Err(unknown(kind, name)),
        }
    }

    /// Returns the transport and the numbers of an element of a set of ports.
    pub(super) fn port_of(&mut self, q: Qualifiers, id: &Id) -> Lowered<(Only, Numbers)> {
        let only = Self::transport(q, "a port")?;
        let (port, only) = match id {
            Id::Number(number) => (*number, only),
            Id::Name(name) => {
                let (port, belongs) = self.service(name, NameKind::Port)?;
                (port, combine(only, belongs, name)?)
            }
            _ => return Err(bad("port", "an address")),
        };
        check(port)?;
        Ok((only, Numbers::new(port, port)))
    }

    /// Returns the transport of a range in a set of ports.
    pub(super) fn port_range(&mut self, q: Qualifiers, range: Numbers) -> Lowered<Only> {
        check(range.last)?;
        Self::transport(q, "a port")
    }

    pub(super) fn ports(
        &mut self,
        q: Qualifiers,
        only: Only,
        ports: Ports<'_>,
    ) -> Lowered<Condition> {
        if self.transport.is_some() {
            return self.ports_in_deep(q, only, ports);
        }
        if self.compared.is_some() {
            for range in ports.ranges() {
                self.note(Compared::Ports(range));
            }
        }
        let v6 = self.ports_over_ip6(q, only, ports)?;
        Ok(v6.or(self.ports_over_ip4(q, only, ports)?))
    }

    /// Tests ports where the walk found the transport header.
    fn ports_in_deep(&mut self, q: Qualifiers, only: Only, ports: Ports<'_>) -> Lowered<Condition> {
        self.ports_behind(q, only, ports, Self::deep_header)
    }

    /// Tests ports after the headers that `header` finds: it returns the condition that there is one of
    /// a transport, and its offset.
    fn ports_behind(
        &mut self,
        q: Qualifiers,
        only: Only,
        ports: Ports<'_>,
        header: impl Fn(&mut Self, u32) -> Option<(Condition, Offset)>,
    ) -> Lowered<Condition> {
        let mut any = Vec::new();
        for &transport in transports(only) {
            let Some((carried, at)) = header(self, transport) else {
                continue;
            };
            any.push(carried.and(self.in_direction(q.direction, |this, end| {
                // Source and destination port begin all three transports.
                let at = if end == End::Src { at } else { at + 2 };
                let load = this.values.load(Size::Half, at);
                Ok(this.compare(load, ports))
            })?));
        }
        Ok(Condition::Any(any))
    }

    /// Tests ports after the fixed IPv6 header. Extension headers hide the ports.
    fn ports_over_ip6(
        &mut self,
        q: Qualifiers,
        only: Only,
        ports: Ports<'_>,
    ) -> Lowered<Condition> {
        let network = self.network(ethertype::IP6)?;
        let at = self.place.network;
        let found = self.ports_behind(q, only, ports, |this, transport| {
            let carried = equals(this.values, Size::Byte, at + 6, transport);
            Some((carried, at + 40))
        })?;
        Ok(network.and(found))
    }

    /// Tests ports after the IPv4 header, in the first fragment only.
    fn ports_over_ip4(
        &mut self,
        q: Qualifiers,
        only: Only,
        ports: Ports<'_>,
    ) -> Lowered<Condition> {
        let network = self.network(ethertype::IP)?;
        let at = self.place.network;
        let found = self.ports_behind(q, only, ports, |this, transport| {
            let carried = equals(this.values, Size::Byte, at + 9, transport);
            let carried = carried.and(this.first_fragment());
            Some((carried, this.values.behind_header(at)))
        })?;
        Ok(network.and(found))
    }

    /// Tests whether the IPv4 fragment offset is zero.
    pub(super) fn first_fragment(&mut self) -> Condition {
        const OFFSET_BITS: u32 = 0x1fff;
        let at = self.place.network + 6;
        field(self.values, Size::Half, at, Relation::AnyBit, OFFSET_BITS).negated()
    }

    fn compare(&mut self, load: ValueId, ports: Ports<'_>) -> Condition {
        let mut test = |relation, number| compare(self.values, load, relation, number);
        match ports {
            Ports::In(ranges) => member(self.values, load, ranges),
            Ports::One(port) => test(Relation::Equal, port),
            Ports::Range(first, last) => {
                let least = test(Relation::GreaterEqual, first);
                least.and(test(Relation::Greater, last).negated())
            }
        }
    }
}

/// Returns the two numbers that a range begins with; libpcap ignores text after them.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (first, rest) = text.split_once('-')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
        true if !digits.is_empty() => Some(digits.parse().unwrap_or(u32::MAX)),
        _ => None,
    };
    Some((number(first)?, number(&rest[..digits])?))
}

/// Returns the transports in the order in which they are tested.
fn transports(only: Only) -> &'static [u32] {
    match only {
        Some(ipproto::TCP) => &[ipproto::TCP],
        Some(ipproto::UDP) => &[ipproto::UDP],
        Some(_) => &[ipproto::SCTP],
        None => &[ipproto::SCTP, ipproto::TCP, ipproto::UDP],
    }
}

/// Combines the transports of the qualifier and the service, which must not contradict.
fn combine(qualifier: Only, service: Only, name: &str) -> Lowered<Only> {
    match (qualifier, service) {
        (Some(a), Some(b)) if a != b => Err(ErrorKind::ServiceOfOtherProtocol(name.to_owned())),
        (a, b) => Ok(a.or(b)),
    }
}

fn check(port: u32) -> Lowered<()> {
    const MAX: u32 = u16::MAX as u32;
    match port {
        0..=MAX => Ok(()),
        value => Err(ErrorKind::OutOfRange {
            field: "port",
            value,
            max: MAX,
        }),
    }
}

//! Sets: a value is compared with ranges one by one; the optimiser turns them into a search.

use std::net::IpAddr;

use super::super::address::left_aligned;
use super::super::encapsulation::in_range;
use super::super::port::Ports;
use super::super::{Compared, Lowered, Lowering, after, bad, kind_name, lookup_failed};
use crate::error::ErrorKind;
use crate::ir::{Condition, Relation, Size, ValueId, Values};
use crate::language::Proto;
use crate::language::ast::{Arith, Element, Id, Kind, Numbers, Qualifiers};
use crate::link::compare;
use crate::resolve::NameKind;

/// Tests whether a value is in one of the ranges.
pub(in super::super) fn member(
    values: &mut Values,
    value: ValueId,
    ranges: &[Numbers],
) -> Condition {
    let ranges = merged(ranges);
    let each = ranges.iter().map(|range| between(values, value, *range));
    Condition::Any(each.collect())
}

/// The most protocols that the ranges of one expression may have: a few letters can name 256.
const MOST_LISTED: u32 = 0x1_0000;

/// Returns the ranges in ascending order, with overlaps and neighbours joined.
fn merged(ranges: &[Numbers]) -> Vec<Numbers> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<Numbers> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

fn between(values: &mut Values, value: ValueId, range: Numbers) -> Condition {
    let Numbers { first, last } = range;
    if first == last {
        return compare(values, value, Relation::Equal, first);
    }
    let not_above = compare(values, value, Relation::Greater, last).negated();
    match first {
        0 => not_above,
        _ => compare(values, value, Relation::GreaterEqual, first).and(not_above),
    }
}

impl Lowering<'_> {
    /// Lowers `arithmetic in { … }`.
    pub(in super::super) fn relation_in(
        &mut self,
        left: &Arith,
        ranges: &[Numbers],
    ) -> Lowered<Condition> {
        let left = self.arith(left)?;
        let found = member(self.values, left.value, ranges);
        Ok(after(left.requires, found))
    }

    /// Lowers `vlan in { … }`. Later primitives read after the tag, as after `vlan`.
    pub(in super::super) fn vlan_in(&mut self, ranges: &[Numbers]) -> Lowered<Condition> {
        const MAX: u32 = 4095;
        for range in ranges {
            in_range("VLAN", Some(range.last), MAX)?;
        }
        let tag = self.place.payload;
        let tagged = self.vlan(None)?;
        let field = self.values.load(Size::Half, tag);
        let id = self.values.masked(field, MAX);
        Ok(tagged.and(member(self.values, id, ranges)))
    }

    /// Lowers qualifiers with a set: ports and IPv4 addresses together, other elements one by one.
    pub(in super::super) fn qualified_in(
        &mut self,
        q: Qualifiers,
        elements: &[Element],
    ) -> Lowered<Condition> {
        match q.kind {
            Kind::Port | Kind::Portrange => self.ports_in(q, elements),
            Kind::Default | Kind::Host | Kind::Net => self.addresses_in(q, elements),
            Kind::Proto => self.protocols_in(q, elements),
            Kind::Protochain | Kind::Gateway => Err(bad(kind_name(q.kind), "a set")),
        }
    }

    fn ports_in(&mut self, q: Qualifiers, elements: &[Element]) -> Lowered<Condition> {
        // A service may exist for one transport only.
        let mut groups: Vec<(Option<u32>, Vec<Numbers>)> = Vec::new();
        for element in elements {
            let (only, range) = match element {
                Element::Numbers(range) => (self.port_range(q, *range)?, *range),
                Element::Id(id, span) => {
                    let found = self.port_of(q, id);
                    if found.is_err() {
                        self.inner = Some(span.clone());
                    }
                    found?
                }
            };
            match groups.iter_mut().find(|(known, _)| *known == only) {
                Some((_, ranges)) => ranges.push(range),
                None => groups.push((only, vec![range])),
            }
        }
        let mut any = Vec::new();
        for (only, ranges) in groups {
            any.push(self.ports(q, only, Ports::In(&merged(&ranges)))?);
        }
        Ok(Condition::Any(any))
    }

    fn protocols_in(&mut self, q: Qualifiers, elements: &[Element]) -> Lowered<Condition> {
        /// A protocol is a byte over IP, at most two bytes elsewhere.
        const MOST: u32 = 0x100;
        let mut any = Vec::new();
        let mut ranges = Vec::new();
        for element in elements {
            match element {
                Element::Id(id, span) => any.push(self.element(q, id, span)?),
                Element::Numbers(range @ Numbers { first, last }) => {
                    if last - first >= MOST {
                        return Err(ErrorKind::OutOfRange {
                            field: "length of a range of protocols",
                            value: last - first,
                            max: MOST,
                        });
                    }
                    ranges.push(*range);
                }
            }
        }
        for Numbers { first, last } in merged(&ranges) {
            self.listed = self.listed.saturating_add(last - first + 1);
            if self.listed > MOST_LISTED {
                return Err(ErrorKind::TooLarge);
            }
            for number in first..=last {
                any.push(self.numbered_protocol(q, number)?);
            }
        }
        Ok(Condition::Any(any))
    }

    fn element(
        &mut self,
        q: Qualifiers,
        id: &Id,
        span: &std::ops::Range<usize>,
    ) -> Lowered<Condition> {
        let condition = self.qualified(q, id);
        if condition.is_err() && self.inner.is_none() {
            self.inner = Some(span.clone());
        }
        condition
    }

    /// Lowers IPv4 addresses and networks as ranges of numbers.
    fn addresses_in(&mut self, q: Qualifiers, elements: &[Element]) -> Lowered<Condition> {
        let mut ranges = Vec::new();
        let mut others = Vec::new();
        for element in elements {
            let Element::Id(id, span) = element else {
                return Err(bad(kind_name(q.kind), "a range of numbers"));
            };
            match self.ipv4_ranges(q, id) {
                // If the element is invalid, the call below reports the error.
                Some(found) if self.qualified(q, id).is_ok() => ranges.extend(found),
                _ => others.push(self.element(q, id, span)?),
            }
        }
        if !ranges.is_empty() {
            let ranges = merged(&ranges);
            others.insert(0, self.ipv4_in(q, &ranges)?);
        }
        Ok(Condition::Any(others))
    }

    /// Returns the ranges of IPv4 addresses that a value means, if it means nothing else.
    fn ipv4_ranges(&mut self, q: Qualifiers, id: &Id) -> Option<Vec<Numbers>> {
        if !matches!(q.proto, None | Some(Proto::Ip | Proto::Arp | Proto::Rarp)) {
            return None;
        }
        let (address, mask) = match *id {
            Id::Dotted(dotted) => {
                let address = dotted.ipv4?;
                (address.address(), address.mask())
            }
            Id::DottedPrefix(dotted, bits @ 0..=32) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                (dotted.ipv4?.address(), mask)
            }
            Id::DottedMask(dotted, mask) => {
                let mask = mask.ipv4?.address();
                // Only the mask of a prefix makes a range.
                if mask.leading_ones() != mask.count_ones() {
                    return None;
                }
                (dotted.ipv4?.address(), mask)
            }
            Id::Number(number) if q.kind == Kind::Net => left_aligned(number),
            Id::Number(number) => (number, u32::MAX),
            Id::Name(ref name) if q.kind != Kind::Net => return self.hosts_ipv4(name),
            _ => return None,
        };
        Some(vec![Numbers::new(address, address | !mask)])
    }

    /// Returns the addresses of a host that has only IPv4 addresses.
    fn hosts_ipv4(&mut self, name: &str) -> Option<Vec<Numbers>> {
        let found = self.resolver.host(name);
        let addresses = found.map_err(lookup_failed(NameKind::Host, name)).ok()?;
        let ipv4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(Numbers::new(address.to_bits(), address.to_bits())),
            IpAddr::V6(_) => None,
        };
        let ranges: Option<Vec<Numbers>> = addresses.iter().map(ipv4).collect();
        ranges.filter(|ranges| !ranges.is_empty())
    }

    /// Tests IPv4 addresses like a single one, with the ranges in place of the number.
    fn ipv4_in(&mut self, q: Qualifiers, ranges: &[Numbers]) -> Lowered<Condition> {
        for range in ranges {
            self.note(Compared::Ip4Range(*range));
        }
        self.ipv4_fields(q, |values, at| {
            let field = values.load(Size::Word, at);
            member(values, field, ranges)
        })
    }
}

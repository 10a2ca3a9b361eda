//! Where the language reads addresses and ports, and the values that it compares them with: the two
//! halves of an index. Both come from the lowering that makes filters, so they always agree with
//! it.

use super::{Lowered, Lowering};
use crate::CompileOptions;
use crate::ir::{Condition, Values};
use crate::language::ast::{
    Direction, Dotted, Id, Ipv4, Kind, Numbers, Primitive, Qualifiers, Tunnel,
};
use crate::link::LinkLayer;
use crate::resolve::Resolver;

/// The primitives that move all later offsets.
pub(crate) const SHIFTS: [Tunnel; 5] = [
    Tunnel::Vlan(None),
    Tunnel::Mpls(None),
    Tunnel::Pppoes(None),
    Tunnel::Geneve(None),
    Tunnel::Vxlan(None),
];

/// An address or port that a primitive was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Ip4 { address: u32, mask: u32 },
    Ip4Range(Numbers),
    Ip6 { address: u128, mask: u128 },
    Ports(Numbers),
}

/// A placeholder for an address or port in the conditions of [`LookedAt`]: a number that no
/// condition contains otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Ip4,
    /// A word of an IPv6 address, 0 to 3.
    Ip6(usize),
    Port,
}

const IP4: u32 = 0x9e37_79b9;
const IP6: [u32; 4] = [0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1, 0x85eb_ca77];
const PORT: u32 = 0xe6d5;

impl Mark {
    /// Returns the mark that a number stands for.
    pub(crate) fn of(number: u32) -> Option<Self> {
        match number {
            IP4 => Some(Self::Ip4),
            PORT => Some(Self::Port),
            _ => Some(Self::Ip6(IP6.iter().position(|word| *word == number)?)),
        }
    }
}

/// Conditions that compare every address and port, after certain shifts, with a [`Mark`].
pub(crate) struct LookedAt {
    /// The condition for packets that have all the shifts. It sets cells, so it is evaluated first.
    pub(crate) before: Condition,
    /// `None` if the language has no such test.
    pub(crate) tests: Option<[Condition; 3]>,
}

/// Returns where addresses and ports are read after `shifts`; `None` if these cannot occur on that link
/// layer.
pub(crate) fn looked_at(
    options: &CompileOptions,
    link: &dyn LinkLayer,
    shifts: &[Tunnel],
    resolver: &dyn Resolver,
    values: &mut Values,
) -> Option<LookedAt> {
    let mut lowering = Lowering::new(options, link, resolver, values);
    let place = lowering.place;
    let mut passed = Vec::new();
    for shift in shifts {
        passed.push(lowering.find_tunnel(*shift).ok()?);
    }
    let tests = lowering.marked().ok();
    let before = [link.requirement(values), link.prologue(values, place)];
    let before = before.into_iter().flatten().chain(passed);
    Some(LookedAt {
        before: Condition::All(before.collect()),
        tests,
    })
}

/// Returns the addresses and ports that a primitive compares with, on any link layer; `None` if it
/// does not compile on this one.
pub(crate) fn compared(
    primitive: &Primitive,
    options: &CompileOptions,
    link: &dyn LinkLayer,
    resolver: &dyn Resolver,
) -> Option<Vec<Compared>> {
    let mut values = Values::new(true);
    let mut lowering = Lowering::new(options, link, resolver, &mut values);
    lowering.compared = Some(Vec::new());
    lowering.primitive(primitive).ok()?;
    lowering.compared
}

impl Lowering<'_> {
    /// Returns the conditions of `host` and `port` for the marks.
    fn marked(&mut self) -> Lowered<[Condition; 3]> {
        let [host, port] = [Kind::Host, Kind::Port].map(|kind| Qualifiers {
            proto: None,
            direction: Direction::Default,
            kind,
        });
        let parts = 4;
        let ipv4 = Some(Ipv4 { value: IP4, parts });
        let ipv4 = Dotted { ipv4, decnet: None };
        let ipv6 = IP6
            .iter()
            .fold(0, |bits, word| bits << 32 | u128::from(*word));
        Ok([
            self.qualified(host, &Id::Dotted(ipv4))?,
            self.qualified(host, &Id::Ipv6(ipv6.into()))?,
            self.qualified(port, &Id::Number(PORT))?,
        ])
    }
}

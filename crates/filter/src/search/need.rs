//! The keys that a packet must have to match an expression.

use super::Key;
use crate::language::ast::{Element, Expr, Id, Junction, Kind, Numbers, Primitive, Qualifiers};
use crate::language::{self, Proto};
use crate::lower::{self, Compared};
use crate::resolve::Resolver;
use crate::{CompileError, CompileOptions, LinkType, link};

/// A condition on the keys of a packet, without which an expression rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any packet may be accepted.
    Nothing,
    /// All of these.
    All(Vec<Self>),
    /// At least one of these.
    Any(Vec<Self>),
    /// An IPv4 address that equals this one under the mask.
    Ip4 {
        /// The address, in host byte order.
        address: u32,
        /// The bits that count.
        mask: u32,
    },
    /// An IPv4 address from the first to the last, both included.
    Ip4Range {
        /// The first, in host byte order.
        first: u32,
        /// The last.
        last: u32,
    },
    /// An IPv6 address that equals this one under the mask.
    Ip6 {
        /// The address, in host byte order.
        address: u128,
        /// The bits that count.
        mask: u128,
    },
    /// A port from the first to the last, both included.
    Port {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
}

impl Need {
    fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut list = Vec::new();
        for part in parts {
            match part {
                Self::Nothing => {}
                // In a chain the first list is the long one.
                Self::All(parts) if list.is_empty() => list = parts,
                Self::All(parts) => list.extend(parts),
                part => list.push(part),
            }
        }
        match list.len() {
            0 => Self::Nothing,
            1 => list.remove(0),
            _ => Self::All(list),
        }
    }

    fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut list = Vec::new();
        for part in parts {
            match part {
                Self::Nothing => return Self::Nothing,
                Self::Any(parts) if list.is_empty() => list = parts,
                Self::Any(parts) => list.extend(parts),
                part => list.push(part),
            }
        }
        match list.len() {
            1 => list.remove(0),
            _ => Self::Any(list),
        }
    }
}

/// Returns the condition that a packet must meet, on any link layer, to be accepted by an
/// expression. `extensions` enables the extensions of the language.
///
/// Names of hosts and networks need nothing, because they may resolve differently when the filter
/// is compiled. Names of ports are assumed not to change.
///
/// # Errors
/// Returns an error with its place if the expression is invalid on every link type.
pub fn need(
    expression: &str,
    extensions: bool,
    resolver: &dyn Resolver,
) -> Result<Need, CompileError> {
    let Some(tree) = language::parse(expression, extensions)? else {
        return Ok(Need::Nothing);
    };
    // The compared values do not depend on the link type; Ethernet has all primitives that matter.
    let mut options = CompileOptions::new(LinkType::ETHERNET);
    options.extensions = extensions;
    let deriving = Deriving {
        options: &options,
        resolver,
    };
    Ok(deriving.expr(&tree, KeyPlaces::Known).if_true)
}

/// Whether primitives read at offsets that a [`KeyReader`](super::KeyReader) reads, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPlaces {
    /// Yes: every header that moved the offsets is in the packet.
    Known,
    /// Unknown: a header that may be missing moved the offsets.
    Anywhere,
}

/// The facts known about an expression.
struct Known {
    /// The need if the expression is true.
    if_true: Need,
    /// The need if the expression is false.
    if_false: Need,
    /// Where later primitives read if it is true.
    after_true: KeyPlaces,
    /// Where later primitives read if it is false.
    after_false: KeyPlaces,
    /// Whether anything in it moves later offsets, even across parentheses and alternatives.
    moves: bool,
    /// The greatest depth of the needs.
    depth: usize,
}

/// The greatest depth of needs, which bounds recursion over them; deeper parts are dropped.
const MOST_DEPTH: usize = 200;

impl Known {
    fn nothing(place: KeyPlaces) -> Self {
        Self {
            if_true: Need::Nothing,
            if_false: Need::Nothing,
            after_true: place,
            after_false: place,
            moves: false,
            depth: 0,
        }
    }

    /// Forgets the need: any packet may match.
    fn forget(&mut self) {
        self.if_true = Need::Nothing;
        self.if_false = Need::Nothing;
        self.depth = 0;
    }
}

struct Deriving<'a> {
    options: &'a CompileOptions,
    resolver: &'a dyn Resolver,
}

impl Deriving<'_> {
    fn expr(&self, expr: &Expr, place: KeyPlaces) -> Known {
        match expr {
            Expr::Primitive(primitive, _) => self.primitive(primitive, place),
            Expr::Not(inner) => {
                let inner = self.expr(inner, place);
                Known {
                    if_true: inner.if_false,
                    if_false: inner.if_true,
                    after_true: inner.after_false,
                    after_false: inner.after_true,
                    moves: inner.moves,
                    depth: inner.depth,
                }
            }
            Expr::Chain(first, rest) => {
                let mut known = self.expr(first, place);
                let mut last = None;
                for (junction, next) in rest {
                    if last.replace(junction) != Some(junction) {
                        known.depth += 1;
                    }
                    if known.depth > MOST_DEPTH {
                        known.forget();
                    }
                    known = match junction {
                        Junction::And => self.and(known, next, place),
                        Junction::Or => self.or(known, next, place),
                    };
                }
                known
            }
            // Both read at offsets of their own and leave the place unchanged.
            Expr::Deep(..) | Expr::Inner(..) => Known::nothing(place),
        }
    }

    /// Combines both parts. The second part is evaluated only if the first is true.
    fn and(&self, first: Known, second: &Expr, place: KeyPlaces) -> Known {
        let second = self.expr(second, first.after_true);
        let moves = first.moves || second.moves;
        let depth = first.depth.max(second.depth + 1);
        Known {
            if_true: Need::all([first.if_true, second.if_true]),
            if_false: Need::any([first.if_false, second.if_false]),
            after_true: second.after_true,
            after_false: moved(place, moves),
            moves,
            depth,
        }
    }

    fn or(&self, first: Known, second: &Expr, place: KeyPlaces) -> Known {
        // The first part may be true or false here.
        let second = self.expr(second, moved(place, first.moves));
        let moves = first.moves || second.moves;
        let depth = first.depth.max(second.depth + 1);
        Known {
            if_true: Need::any([first.if_true, second.if_true]),
            if_false: Need::all([first.if_false, second.if_false]),
            after_true: moved(place, moves),
            after_false: moved(place, moves),
            moves,
            depth,
        }
    }

    fn primitive(&self, primitive: &Primitive, place: KeyPlaces) -> Known {
        let nothing = Known::nothing(place);
        match primitive {
            Primitive::Tunnel(_) | Primitive::VlanIn(_) => Known {
                after_false: KeyPlaces::Anywhere,
                moves: true,
                ..nothing
            },
            _ if place == KeyPlaces::Anywhere || !finds_keys(primitive) => nothing,
            _ => Known {
                if_true: self.compared(primitive),
                ..nothing
            },
        }
    }

    /// Returns the need for any one of the values that a primitive compares with.
    fn compared(&self, primitive: &Primitive) -> Need {
        let compared = link::link_layer(self.options)
            .and_then(|link| lower::compared(primitive, self.options, &*link, self.resolver));
        match compared {
            Some(compared) if !compared.is_empty() => Need::any(compared.iter().map(needed)),
            _ => Need::Nothing,
        }
    }
}

fn moved(place: KeyPlaces, moves: bool) -> KeyPlaces {
    if moves { KeyPlaces::Anywhere } else { place }
}

/// Returns whether a primitive accepts only packets that contain one of the addresses or ports that it
/// compares with.
fn finds_keys(primitive: &Primitive) -> bool {
    match primitive {
        Primitive::Id(qualifiers, id) => finds_key(*qualifiers, id),
        Primitive::In(qualifiers, elements) => elements.iter().all(|element| match element {
            Element::Id(id, _) => finds_key(*qualifiers, id),
            Element::Numbers(_) => is_port(*qualifiers),
        }),
        _ => false,
    }
}

fn finds_key(qualifiers: Qualifiers, id: &Id) -> bool {
    match id {
        Id::Number(_) | Id::Name(_) if is_port(qualifiers) => true,
        Id::Number(_)
        | Id::Dotted(_)
        | Id::DottedPrefix(..)
        | Id::DottedMask(..)
        | Id::Ipv6(_)
        | Id::Ipv6Prefix(..) => is_address(qualifiers),
        Id::Name(_) | Id::Mac(_) | Id::Station(_) => false,
    }
}

fn is_port(qualifiers: Qualifiers) -> bool {
    matches!(qualifiers.kind, Kind::Port | Kind::Portrange)
        && matches!(
            qualifiers.proto,
            None | Some(Proto::Tcp | Proto::Udp | Proto::Sctp)
        )
}

fn is_address(qualifiers: Qualifiers) -> bool {
    matches!(qualifiers.kind, Kind::Default | Kind::Host | Kind::Net)
        && matches!(
            qualifiers.proto,
            None | Some(Proto::Ip | Proto::Arp | Proto::Rarp | Proto::Ip6)
        )
}

/// Returns the need of a comparison. If all addresses or ports match, a program need not even test for one,
/// so nothing is needed.
fn needed(compared: &Compared) -> Need {
    match *compared {
        Compared::Ip4 { mask: 0, .. } | Compared::Ip6 { mask: 0, .. } => Need::Nothing,
        Compared::Ip4Range(Numbers {
            first: 0,
            last: u32::MAX,
        })
        | Compared::Ports(Numbers {
            first: 0,
            last: 0xffff..,
        }) => Need::Nothing,
        Compared::Ip4 { address, mask } => Need::Ip4 { address, mask },
        Compared::Ip4Range(range) => Need::Ip4Range {
            first: range.first,
            last: range.last,
        },
        Compared::Ip6 { address, mask } => Need::Ip6 { address, mask },
        Compared::Ports(range) => match (range.first.try_into(), range.last.try_into()) {
            (Ok(first), Ok(last)) => Need::Port { first, last },
            _ => Need::Nothing,
        },
    }
}

impl Need {
    /// Returns whether a packet with these keys meets the need.
    #[must_use]
    pub fn is_met_by(&self, keys: &[Key]) -> bool {
        let any = |met: &dyn Fn(&Key) -> bool| keys.iter().any(met);
        match *self {
            Self::Nothing => true,
            Self::All(ref parts) => parts.iter().all(|part| part.is_met_by(keys)),
            Self::Any(ref parts) => parts.iter().any(|part| part.is_met_by(keys)),
            Self::Ip4 { address, mask } => {
                any(&|key| matches!(key, Key::Ip4(found) if found & mask == address))
            }
            Self::Ip4Range { first, last } => {
                any(&|key| matches!(key, Key::Ip4(found) if (first..=last).contains(found)))
            }
            Self::Ip6 { address, mask } => {
                any(&|key| matches!(key, Key::Ip6(found) if found & mask == address))
            }
            Self::Port { first, last } => {
                any(&|key| matches!(key, Key::Port(found) if (first..=last).contains(found)))
            }
        }
    }
}

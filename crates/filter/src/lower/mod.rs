//! Conversion of the tree to conditions: the meaning of each primitive on a link layer.
//!
//! Primitives are lowered from left to right, because `vlan` moves the offsets of everything after
//! it in the text, even across parentheses and alternatives. That is the language's historical
//! meaning.

mod address;
mod arith;
mod decnet;
mod encapsulation;
mod extension;
mod frame;
mod hardware;
mod llc;
mod looked_at;
mod osi;
mod port;
mod protocol;
mod special;
mod tunnel;

use std::ops::Range;

use crate::CompileOptions;
use crate::error::{CompileError, ErrorKind};
use crate::ir::{Condition, Offset, Relation, Values};
use crate::language::Proto;
use crate::language::ast::{Direction, Expr, Id, Junction, Kind, Primitive, Qualifiers, Tunnel};
use crate::link::{HeaderOffsets, LinkLayer, ethertype};
use crate::process::Asked;
use crate::resolve::{NameKind, ResolveError, Resolver};

pub(crate) use looked_at::{Compared, LookedAt, Mark, SHIFTS, compared, looked_at};

type Lowered<T> = Result<T, ErrorKind>;

/// An expression as a condition.
pub(crate) struct Whole {
    pub(crate) condition: Condition,
    /// Whether the code computed before the expression has branches. libpcap then does not notice
    /// that an expression rejects every packet.
    pub(crate) branches_before: bool,
}

impl Whole {
    /// Returns the condition of the empty expression.
    pub(crate) fn accepting() -> Self {
        Self {
            condition: Condition::Constant(true),
            branches_before: false,
        }
    }
}

/// Lowers a whole expression.
pub(crate) fn lower(
    expr: &Expr,
    options: &CompileOptions,
    link: &dyn LinkLayer,
    resolver: &dyn Resolver,
    values: &mut Values,
) -> Result<Whole, CompileError> {
    let mut lowering = Lowering::new(options, link, resolver, values);
    lowering.asked = Asked::of_tree(expr);
    let place = lowering.place;
    let condition = lowering.expr(expr)?;
    let offsets = [place.header, place.type_field, place.payload, place.network];
    let is_used = |offset: &Offset| offset.base.is_some_and(|base| values.is_used(base));
    let prologue = match offsets.iter().any(is_used) {
        true => link.prologue(values, place),
        false => None,
    };
    let branches_before = prologue.as_ref().is_some_and(Condition::branches);
    let before = [link.requirement(values), prologue];
    let before = before.into_iter().flatten().reduce(Condition::and);
    Ok(Whole {
        condition: after(before, condition),
        branches_before,
    })
}

/// Returns whether libpcap does not optimise an expression with these primitives. It then neither folds
/// numbers nor notices that it rejects every packet.
pub(crate) fn defeats_optimizer(expr: &Expr) -> bool {
    match expr {
        Expr::Not(inner) => defeats_optimizer(inner),
        Expr::Chain(first, rest) => {
            defeats_optimizer(first) || rest.iter().any(|(_, next)| defeats_optimizer(next))
        }
        Expr::Deep(inner, _) | Expr::Inner(_, inner, _) => defeats_optimizer(inner),
        Expr::Primitive(primitive, _) => match primitive {
            Primitive::Tunnel(Tunnel::Geneve(_) | Tunnel::Vxlan(_)) => true,
            Primitive::Id(qualifiers, _) => qualifiers.kind == Kind::Protochain,
            _ => false,
        },
    }
}

struct Lowering<'a> {
    options: &'a CompileOptions,
    /// The current link layer: inside tunnels it is the inner one.
    link: &'a dyn LinkLayer,
    /// The link layer that packets begin with.
    outer: &'a dyn LinkLayer,
    resolver: &'a dyn Resolver,
    values: &'a mut Values,
    /// The current offsets of headers.
    place: HeaderOffsets,
    /// The number of MPLS labels passed so far.
    labels: u32,
    /// The cells of the packet inside the last tunnel.
    inner_packet: Option<tunnel::Inner>,
    /// The cells of the transport header in `deep ( … )`.
    transport: Option<extension::Transport>,
    /// The last walk of a `deep ( … )` that every packet has made that comes here, and its start.
    walked: Option<(HeaderOffsets, extension::Transport)>,
    /// Whether the current part of the expression is under an odd number of negations.
    negated: bool,
    /// The questions of the expression about processes.
    asked: Asked,
    /// The number of protocols that ranges have named so far.
    listed: u32,
    /// The part of the current primitive that an error refers to, if not all of it.
    inner: Option<Range<usize>>,
    /// The addresses and ports that were compared, if the caller asked for them.
    compared: Option<Vec<Compared>>,
}

impl<'a> Lowering<'a> {
    fn new(
        options: &'a CompileOptions,
        link: &'a dyn LinkLayer,
        resolver: &'a dyn Resolver,
        values: &'a mut Values,
    ) -> Self {
        let place = link.place(values);
        Self {
            options,
            link,
            outer: link,
            resolver,
            values,
            place,
            labels: 0,
            inner_packet: None,
            transport: None,
            walked: None,
            negated: false,
            asked: Asked::default(),
            listed: 0,
            inner: None,
            compared: None,
        }
    }

    fn note(&mut self, compared: Compared) {
        if let Some(list) = &mut self.compared {
            list.push(compared);
        }
    }
}

impl Lowering<'_> {
    fn expr(&mut self, expr: &Expr) -> Result<Condition, CompileError> {
        match expr {
            Expr::Not(inner) => {
                self.negated = !self.negated;
                let condition = self.expr(inner).map(Condition::negated);
                self.negated = !self.negated;
                condition
            }
            Expr::Chain(first, rest) => self.chain_of(first, rest),
            Expr::Deep(inner, span) => self.deep(inner, span),
            Expr::Inner(tunnel, inner, span) => self.inner(*tunnel, inner, span),
            Expr::Primitive(primitive, span) => self.primitive(primitive).map_err(|kind| {
                let span = self.inner.take().unwrap_or_else(|| span.clone());
                CompileError::new(span, kind)
            }),
        }
    }

    /// Expressions joined from left to right.
    fn chain_of(
        &mut self,
        first: &Expr,
        rest: &[(Junction, Expr)],
    ) -> Result<Condition, CompileError> {
        let first = self.expr(first)?;
        // The first part is always evaluated.
        let walked = self.walked;
        let mut last = None;
        let mut joined = Vec::with_capacity(rest.len());
        for (junction, next) in rest {
            if last.replace(*junction) != Some(*junction) {
                // After a change between `and` and `or`, the last part may not have been evaluated.
                self.walked = walked;
            }
            joined.push((*junction, self.expr(next)?));
        }
        self.walked = walked;
        Ok(Condition::Chain(Box::new(first), joined))
    }

    fn primitive(&mut self, primitive: &Primitive) -> Lowered<Condition> {
        self.stays_in_place(primitive)?;
        match primitive {
            Primitive::Protocol(proto) => self.protocol_alone(*proto),
            Primitive::Id(qualifiers, id) => self.qualified(*qualifiers, id),
            Primitive::Broadcast(proto) => self.broadcast(*proto),
            Primitive::Multicast(proto) => self.multicast(*proto),
            Primitive::Less(bytes) => Ok(self.length(Relation::Greater, *bytes).negated()),
            Primitive::Greater(bytes) => Ok(self.length(Relation::GreaterEqual, *bytes)),
            Primitive::Byte(offset, test, number) => Ok(self.byte(*offset, *test, *number)),
            Primitive::Relation(left, relation, right) => self.relation(left, *relation, right),
            Primitive::In(qualifiers, elements) => self.qualified_in(*qualifiers, elements),
            Primitive::VlanIn(ranges) => self.vlan_in(ranges),
            Primitive::RelationIn(left, ranges) => self.relation_in(left, ranges),
            Primitive::Inbound => self.has_direction(false),
            Primitive::Outbound => self.has_direction(true),
            Primitive::Ifindex(index) => self.interface_index(*index),
            Primitive::Tunnel(tunnel) => self.find_tunnel(*tunnel),
            Primitive::Frame(primitive) => self.frame_primitive(primitive),
            Primitive::Pppoed => self.network(ethertype::PPPOE_DISCOVERY),
            Primitive::Llc(kind) => self.llc(kind.as_deref()),
            Primitive::Process(test) => self.process(test),
        }
    }

    /// Lowers qualifiers with a value.
    fn qualified(&mut self, qualifiers: Qualifiers, id: &Id) -> Lowered<Condition> {
        if !matches!(id, Id::Mac(_) | Id::Station(_) | Id::Name(_))
            || qualifiers.proto != Some(Proto::Link)
        {
            Self::only_hardware(qualifiers.direction)?;
        }
        match (qualifiers.kind, id) {
            (Kind::Protochain, Id::Name(name)) => self.named_chain(qualifiers, name),
            (Kind::Protochain, &Id::Number(number)) => self.chain(qualifiers, number),
            (_, Id::Ipv6(_) | Id::Ipv6Prefix(..) | Id::Mac(_) | Id::Station(_))
            | (Kind::Default | Kind::Host | Kind::Net, _) => self.address(qualifiers, id),
            (Kind::Gateway, Id::Name(name)) => self.gateway(qualifiers, name),
            (Kind::Gateway, Id::Number(_) | Id::Dotted(_)) => {
                Err(bad("gateway", "an address; it takes the name of a host"))
            }
            (Kind::Proto, Id::Name(name)) => self.named_protocol(qualifiers, name),
            (Kind::Proto, &Id::Number(number)) => self.numbered_protocol(qualifiers, number),
            (Kind::Port, Id::Name(name)) => self.named_port(qualifiers, name),
            (Kind::Port, &Id::Number(number)) => self.numbered_port(qualifiers, number),
            (Kind::Portrange, Id::Name(name)) => self.named_portrange(qualifiers, name),
            (Kind::Portrange, &Id::Number(number)) => self.single_portrange(qualifiers, number),
            (kind, Id::Dotted(_)) => Err(bad(kind_name(kind), "an IPv4 address")),
            (_, Id::DottedPrefix(..) | Id::DottedMask(..)) => Err(ErrorKind::MaskWithoutNet),
        }
    }

    /// Combines both directions of a test as the direction qualifier says.
    fn in_direction(
        &mut self,
        direction: Direction,
        mut test: impl FnMut(&mut Self, End) -> Lowered<Condition>,
    ) -> Lowered<Condition> {
        match direction {
            Direction::Src => test(self, End::Src),
            Direction::Dst => test(self, End::Dst),
            Direction::Default | Direction::SrcOrDst => {
                let src = test(self, End::Src)?;
                Ok(src.or(test(self, End::Dst)?))
            }
            Direction::SrcAndDst => {
                let src = test(self, End::Src)?;
                Ok(src.and(test(self, End::Dst)?))
            }
            Direction::Frame(_) => Err(ErrorKind::NotHardware),
        }
    }
}

/// The source or the destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Src,
    Dst,
}

/// Returns a type qualifier as it is written.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Default | Kind::Host => "host",
        Kind::Net => "net",
        Kind::Port => "port",
        Kind::Portrange => "portrange",
        Kind::Proto => "proto",
        Kind::Protochain => "protochain",
        Kind::Gateway => "gateway",
    }
}

/// Returns the error for a qualifier that does not apply.
fn bad(qualifier: &'static str, to: &'static str) -> ErrorKind {
    ErrorKind::BadQualifier { qualifier, to }
}

/// Returns the condition, after the one that must hold before it, if there is one.
fn after(before: Option<Condition>, condition: Condition) -> Condition {
    match before {
        Some(before) => before.and(condition),
        None => condition,
    }
}

/// Returns the error for a failed lookup.
fn lookup_failed(kind: NameKind, name: &str) -> impl FnOnce(ResolveError) -> ErrorKind {
    let name = name.to_owned();
    move |error| ErrorKind::Lookup {
        kind,
        name,
        reason: error.0,
    }
}

/// Returns the error for a name that does not exist.
fn unknown(kind: NameKind, name: &str) -> ErrorKind {
    ErrorKind::UnknownName {
        kind,
        name: name.to_owned(),
    }
}

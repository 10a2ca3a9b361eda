//! The tree of an expression. Each part has its place in the text.

use std::net::Ipv6Addr;
use std::ops::Range;

use super::Proto;
use super::frame::{FrameAddress, FramePrimitive};
use crate::process::Question;

/// A byte range in the expression.
pub(crate) type Span = Range<usize>;

/// A condition on a packet.
#[derive(Debug)]
pub(crate) enum Expr {
    /// `a and b or c …`: both operators have the same precedence, from left to right.
    Chain(Box<Expr>, Vec<(Junction, Expr)>),
    Not(Box<Expr>),
    Primitive(Primitive, Span),
    /// `deep ( … )`: transport protocols are searched after the extension headers of IPv6.
    Deep(Box<Expr>, Span),
    /// `TUNNEL inner ( … )`: a condition on the inner packet. The span is the tunnel's.
    Inner(Tunnel, Box<Expr>, Span),
}

/// An encapsulation that can contain a packet, with the number that identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    Pppoes(Option<u32>),
    Geneve(Option<u32>),
    Vxlan(Option<u32>),
    Gtpu(Option<u32>),
    Gre(Option<u32>),
}

/// An element of a set.
#[derive(Debug)]
pub(crate) enum Element {
    Id(Id, Span),
    Numbers(Numbers),
}

/// Numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbers {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Numbers {
    /// Returns the range between two numbers, in either order.
    pub(crate) fn new(a: u32, b: u32) -> Self {
        Self {
            first: a.min(b),
            last: a.max(b),
        }
    }
}

/// How two conditions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Junction {
    And,
    Or,
}

/// One test of the language.
#[derive(Debug)]
pub(crate) enum Primitive {
    /// A protocol's name alone.
    Protocol(Proto),
    /// Qualifiers with a value.
    Id(Qualifiers, Id),
    Broadcast(Option<Proto>),
    Multicast(Option<Proto>),
    /// Length at most this many bytes.
    Less(u32),
    /// Length at least this many bytes.
    Greater(u32),
    /// A byte at an offset from the start of the packet.
    Byte(u32, ByteTest, u32),
    Relation(Arith, Relation, Arith),
    /// Qualifiers with a set of values; one of them must match.
    In(Qualifiers, Vec<Element>),
    VlanIn(Vec<Numbers>),
    RelationIn(Arith, Vec<Numbers>),
    Inbound,
    Outbound,
    Ifindex(u32),
    /// An encapsulation; later primitives test what it contains.
    Tunnel(Tunnel),
    Pppoed,
    /// LLC frames, or only those of this type.
    Llc(Option<String>),
    /// A primitive of certain link types.
    Frame(FramePrimitive),
    /// A test of the packet's process.
    Process(ProcessTest),
}

/// A test of the packet's process.
#[derive(Debug)]
pub(crate) enum ProcessTest {
    Pid(Vec<Numbers>),
    Uid(Vec<Numbers>),
    Name(String),
    Asked(Question),
}

/// The part of a packet that an [`Id`] is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    pub(crate) proto: Option<Proto>,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
}

/// The direction qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Not specified: source or destination.
    Default,
    Src,
    Dst,
    SrcOrDst,
    SrcAndDst,
    /// One of the addresses of 802.11 frames.
    Frame(FrameAddress),
}

/// The type qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not specified: a host.
    Default,
    Host,
    Net,
    Port,
    Portrange,
    Proto,
    Protochain,
    Gateway,
}

/// The value after the qualifiers.
#[derive(Debug)]
pub(crate) enum Id {
    Name(String),
    Number(u32),
    /// One to four dotted decimal numbers.
    Dotted(Dotted),
    DottedPrefix(Dotted, u32),
    DottedMask(Dotted, Dotted),
    Ipv6(Ipv6Addr),
    Ipv6Prefix(Ipv6Addr, u32),
    Mac([u8; 6]),
    /// An ARCNET station.
    Station(u8),
}

/// Two to four numbers with dots between: an IPv4 address, perhaps with parts missing, or a DECnet
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dotted {
    /// The IPv4 address, unless a part is too large for one.
    pub(crate) ipv4: Option<Ipv4>,
    /// The DECnet address, unless the area is no decimal number.
    pub(crate) decnet: Option<u16>,
}

/// An IPv4 address that may have fewer than four parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    /// The parts, right-aligned as they were written: `10.1` is 0.0.10.1.
    pub(crate) value: u32,
    /// The number of parts, 2 to 4.
    pub(crate) parts: u32,
}

impl Ipv4 {
    /// Returns the address with zeros for the missing parts at the end.
    pub(crate) fn address(self) -> u32 {
        self.value.checked_shl(32 - 8 * self.parts).unwrap_or(0)
    }

    /// Returns the mask that covers the parts that were written.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - 8 * self.parts).unwrap_or(0)
    }
}

/// Comparison of two numbers, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// Comparison of a byte in a `byte` primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteTest {
    Equal,
    Less,
    Greater,
    /// Any of these bits is set.
    And,
    /// The byte or one of these bits is set (rarely useful).
    Or,
}

/// A 32-bit number computed from the packet.
#[derive(Debug)]
pub(crate) enum Arith {
    Number(u32),
    Length,
    Load {
        proto: Proto,
        index: Box<Arith>,
        size: u32,
        span: Span,
    },
    Negate(Box<Arith>),
    Binary {
        operator: Operator,
        left: Box<Arith>,
        right: Box<Arith>,
        span: Span,
    },
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulus,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

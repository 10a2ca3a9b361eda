//! The value of a register, as an expression over the packet.

use std::rc::Rc;

use super::behind::Start;
use super::number::Style;

/// Larger expressions are not shown: nobody would read them, and arithmetic on a register with
/// itself doubles them at each instruction.
const MOST_NODES: u32 = 48;

/// A 32-bit number as the program computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) kind: Kind,
    nodes: u32,
}

/// How the number is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Constant(u32),
    /// The packet's length on the wire.
    Length,
    /// Bytes of the packet at a constant offset from `index`.
    Load {
        bytes: u32,
        index: Option<Rc<Symbol>>,
        offset: u32,
    },
    /// Four times the low nibble of the byte at this offset.
    HeaderLength(u32),
    /// The packet's metadata, by `SKF_AD_` number.
    Ancillary(u32),
    Negated(Rc<Symbol>),
    /// The operation field of an instruction, and both operands.
    Arithmetic(u16, Rc<Symbol>, Rc<Symbol>),
    /// A field loaded from different offsets on different paths.
    Field {
        name: &'static str,
        style: Style,
        bytes: u32,
    },
    /// The start of something, computed differently on different paths.
    Start(Start),
    /// The content of a word of scratch memory, if it depends on the path.
    Word(usize),
    /// Different on different paths, or too large.
    Unknown,
}

impl Symbol {
    pub(super) fn new(kind: Kind) -> Rc<Self> {
        let nodes = match &kind {
            Kind::Load {
                index: Some(index), ..
            } => 1 + index.nodes,
            Kind::Negated(inner) => 1 + inner.nodes,
            Kind::Arithmetic(_, left, right) => 1 + left.nodes + right.nodes,
            _ => 1,
        };
        let (kind, nodes) = if nodes > MOST_NODES {
            (Kind::Unknown, 1)
        } else {
            (kind, nodes)
        };
        Rc::new(Self { kind, nodes })
    }

    pub(super) fn constant(number: u32) -> Rc<Self> {
        Self::new(Kind::Constant(number))
    }

    pub(super) fn unknown() -> Rc<Self> {
        Self::new(Kind::Unknown)
    }

    /// Returns the bytes at an offset from the packet's start.
    pub(super) fn field(bytes: u32, offset: u32) -> Rc<Self> {
        Self::new(Kind::Load {
            bytes,
            index: None,
            offset,
        })
    }

    /// Returns the number, if the value is constant.
    pub(super) fn number(&self) -> Option<u32> {
        match self.kind {
            Kind::Constant(number) => Some(number),
            _ => None,
        }
    }

    /// Returns whether the value is computed from a word of scratch memory.
    pub(super) fn uses_word(&self, number: usize) -> bool {
        match &self.kind {
            Kind::Word(word) => *word == number,
            Kind::Load {
                index: Some(inner), ..
            }
            | Kind::Negated(inner) => inner.uses_word(number),
            Kind::Arithmetic(_, left, right) => left.uses_word(number) || right.uses_word(number),
            _ => false,
        }
    }

    /// Returns the value and its mask; without a mask, all bits.
    pub(super) fn masked(self: &Rc<Self>) -> (Rc<Self>, u32) {
        use crate::program::opcode::AND;
        if let Kind::Arithmetic(AND, left, right) = &self.kind
            && let Some(mask) = right.number()
        {
            return (Rc::clone(left), mask);
        }
        (Rc::clone(self), u32::MAX)
    }
}

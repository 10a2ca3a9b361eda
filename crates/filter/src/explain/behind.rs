//! Offsets that are counted from the end of a header of variable length: the receive header before
//! an 802.11 frame, the header of that frame, or the header before a packet logged by pf.

use std::rc::Rc;

use super::symbol::{Kind, Symbol};
use crate::LinkType;
use crate::program::opcode as op;

/// The data that begins at such an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The 802.11 frame, after the receive header.
    Frame,
    /// The payload of an 802.11 frame, with its LLC header.
    Payload,
    /// The packet after the pf header.
    Logged,
}

impl Start {
    /// Returns the place of bytes counted from here, as text.
    pub(super) fn place(self) -> &'static str {
        match self {
            Self::Frame => "of the 802.11 frame",
            Self::Payload => "after the 802.11 header",
            Self::Logged => "after the pf header",
        }
    }

    /// Returns the number of its first byte, as text.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Frame => "the place where the 802.11 frame begins",
            Self::Payload => "the place where the 802.11 header ends",
            Self::Logged => "the place where the pf header ends",
        }
    }
}

/// The shortest 802.11 header before a payload, in bytes.
const MAC_BYTES: u32 = 24;

/// Returns the start that a number is the offset of, if any.
pub(super) fn start(link: LinkType, value: &Symbol) -> Option<Start> {
    match place(link, value)? {
        (Start::Frame, MAC_BYTES) => Some(Start::Payload),
        (start, 0) => Some(start),
        _ => None,
    }
}

/// Returns a number as a distance from such a start.
pub(super) fn place(link: LinkType, value: &Symbol) -> Option<(Start, u32)> {
    let mut sum = Sum::default();
    sum.add(value);
    sum.place(link)
}

/// Splits a number that is a distance from such a start plus the length of an IPv4 header there. Returns the
/// offset of the header, its first byte as it was loaded, and the distance after it.
pub(super) fn behind_ipv4(link: LinkType, value: &Symbol) -> Option<(Rc<Symbol>, u32, u32)> {
    let mut sum = Sum::default();
    sum.add(value);
    let (at, index, offset) = sum.terms.iter().enumerate().find_map(|(at, term)| {
        let (index, offset) = header_length(term)?;
        Some((at, Rc::clone(index), offset))
    })?;
    sum.terms.swap_remove(at);
    let (start, constant) = place(link, &index)?;
    let (other, distance) = sum.place(link)?;
    let header = constant.wrapping_add(offset);
    (other == start).then(|| (index, offset, distance.wrapping_sub(header)))
}

/// Matches `(first byte & 0xf) << 2`; returns the offset of that byte.
fn header_length(term: &Symbol) -> Option<(&Rc<Symbol>, u32)> {
    let low = operand(term, op::LSH, 2)?;
    match &operand(low, op::AND, 0xf)?.kind {
        Kind::Load {
            bytes: 1,
            index: Some(index),
            offset,
        } => Some((index, *offset)),
        _ => None,
    }
}

/// Returns the left operand of an operation with a constant.
fn operand(value: &Symbol, operation: u16, number: u32) -> Option<&Symbol> {
    match &value.kind {
        Kind::Arithmetic(found, left, right)
            if *found == operation && right.number() == Some(number) =>
        {
            Some(left)
        }
        _ => None,
    }
}

/// A number as a sum.
#[derive(Default)]
struct Sum<'a> {
    terms: Vec<&'a Symbol>,
    constant: u32,
}

impl<'a> Sum<'a> {
    fn add(&mut self, value: &'a Symbol) {
        match &value.kind {
            Kind::Constant(number) => self.constant = self.constant.wrapping_add(*number),
            Kind::Arithmetic(op::ADD, left, right) => {
                self.add(left);
                self.add(right);
            }
            _ => self.terms.push(value),
        }
    }

    fn place(&self, link: LinkType) -> Option<(Start, u32)> {
        let constant = self.constant;
        // The Prism header has a fixed length; an AVS header in its place contains its own length.
        const PRISM_BYTES: u32 = 144;
        match self.terms[..] {
            [] if link == LinkType::IEEE802_11 => Some((Start::Frame, constant)),
            [] if link == LinkType::IEEE802_11_PRISM => {
                Some((Start::Frame, constant.checked_sub(PRISM_BYTES)?))
            }
            [only] => match whole(link, only) {
                Some(start) => Some((start, constant)),
                None if link == LinkType::IEEE802_11 && is_qos_bytes(link, only) => {
                    Some((Start::Payload, constant.checked_sub(MAC_BYTES)?))
                }
                None => None,
            },
            [first, second] => {
                let is_sum = |a, b| whole(link, a) == Some(Start::Frame) && is_qos_bytes(link, b);
                let fits = is_sum(first, second) || is_sum(second, first);
                let distance = constant.checked_sub(MAC_BYTES)?;
                fits.then_some((Start::Payload, distance))
            }
            _ => None,
        }
    }
}

/// Returns the start if one term alone is such an offset.
fn whole(link: LinkType, term: &Symbol) -> Option<Start> {
    if let Kind::Start(start) = term.kind {
        return Some(start);
    }
    if is_header_length(link, term) {
        return Some(Start::Frame);
    }
    // The length is rounded up to words.
    let mut sum = Sum::default();
    sum.add(operand(term, op::AND, !3)?);
    sum.constant = sum.constant.checked_sub(3)?;
    match (link, &sum.terms[..]) {
        (LinkType::PFLOG, [length]) if sum.constant == 0 && is_load(length, 1, 0) => {
            Some(Start::Logged)
        }
        (LinkType::IEEE802_11_RADIOTAP, _) => match sum.place(link)? {
            (Start::Frame, MAC_BYTES) | (Start::Payload, 0) => Some(Start::Payload),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a value is the length field of the header before the frame.
pub(super) fn is_header_length(link: LinkType, value: &Symbol) -> bool {
    match link {
        LinkType::IEEE802_11_AVS | LinkType::IEEE802_11_PRISM => is_load(value, 4, 4),
        LinkType::IEEE802_11_RADIOTAP | LinkType::PPI => match &value.kind {
            Kind::Arithmetic(op::OR, low, high) => {
                is_load(low, 1, 2) && operand(high, op::LSH, 8).is_some_and(|h| is_load(h, 1, 3))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns the name of the header before the frame.
pub(super) fn header(link: LinkType) -> &'static str {
    match link {
        LinkType::IEEE802_11_RADIOTAP => "radiotap",
        LinkType::PPI => "PPI",
        _ => "AVS",
    }
}

fn is_load(value: &Symbol, count: u32, at: u32) -> bool {
    value.kind
        == Kind::Load {
            bytes: count,
            index: None,
            offset: at,
        }
}

/// Returns whether a value is 2 in QoS frames and 0 in others: the bit of the subtype, shifted.
fn is_qos_bytes(link: LinkType, value: &Symbol) -> bool {
    let control = operand(value, op::AND, 2).and_then(|bits| operand(bits, op::RSH, 6));
    match control.map(|control| &control.kind) {
        Some(Kind::Load {
            bytes: 1,
            index: None,
            offset: 0,
        }) => link == LinkType::IEEE802_11,
        Some(Kind::Load {
            bytes: 1,
            index: Some(index),
            offset,
        }) => place(link, index).is_some_and(|(start, constant)| {
            start == Start::Frame && constant.wrapping_add(*offset) == 0
        }),
        _ => false,
    }
}

//! Comparisons, arithmetic and packet accessors.

use super::protocol::{indexable, ipproto};
use super::{Lowered, Lowering, after};
use crate::error::ErrorKind;
use crate::ir::{Condition, Relation as Compare, Size, Test, ValueId};
use crate::language::Proto;
use crate::language::ast::{Arith, Operator, Relation};
use crate::link::{equals, ethertype};

/// A value, and the condition under which its loads make sense.
pub(super) struct Operand {
    pub(super) value: ValueId,
    pub(super) requires: Option<Condition>,
}

impl Lowering<'_> {
    pub(super) fn relation(
        &mut self,
        left: &Arith,
        relation: Relation,
        right: &Arith,
    ) -> Lowered<Condition> {
        let left = self.arith(left)?;
        let right = self.arith(right)?;
        let (compare, opposite) = comparison(relation);
        let test = Condition::Test(Test {
            left: left.value,
            relation: compare,
            right: right.value,
        });
        let test = if opposite { test.negated() } else { test };
        Ok(after(both(left.requires, right.requires), test))
    }

    pub(super) fn arith(&mut self, arith: &Arith) -> Lowered<Operand> {
        let plain = |value| {
            Ok(Operand {
                value,
                requires: None,
            })
        };
        match arith {
            Arith::Number(number) => plain(self.values.constant(*number)),
            Arith::Length => plain(self.values.length()),
            Arith::Negate(inner) => {
                let Operand { value, requires } = self.arith(inner)?;
                Ok(Operand {
                    value: self.values.negate(value),
                    requires,
                })
            }
            Arith::Load {
                proto,
                index,
                size,
                span,
            } => {
                let index = self.arith(index)?;
                let load = self.access(*proto, index, *size);
                if load.is_err() {
                    self.inner = Some(span.clone());
                }
                load
            }
            Arith::Binary {
                operator,
                left,
                right,
                span,
            } => {
                let first = first_number(right);
                let of_numbers = is_of_numbers(left);
                let (left, right) = (self.arith(left)?, self.arith(right)?);
                // When optimising, a computed constant is checked as well, except for a shift of
                // numbers only: its result is 0. libpcap finds `len * 0` later.
                let shift = matches!(operator, Operator::ShiftLeft | Operator::ShiftRight);
                let computed = shift && of_numbers;
                let optimize = self.options.optimize && !computed;
                let folded = self.values.number_of(right.value).filter(|_| optimize);
                for number in [first, folded] {
                    if let Err(kind) = check_constant(*operator, number) {
                        self.inner = Some(span.clone());
                        return Err(kind);
                    }
                }
                // Only the condition of the left side is tested. libpcap does the same, and the
                // matches of `1 + ip[8] = 65` depend on it.
                let value = self.values.binary(*operator, left.value, right.value);
                Ok(Operand {
                    value,
                    requires: left.requires,
                })
            }
        }
    }

    /// Accesses `proto[index:size]`.
    fn access(&mut self, proto: Proto, index: Operand, size: u32) -> Lowered<Operand> {
        let size = match size {
            1 => Size::Byte,
            2 => Size::Half,
            4 => Size::Word,
            other => return Err(ErrorKind::BadAccessSize(other)),
        };
        let at = self.place.network;
        if let Some((value, requires)) = self.deep_access(proto, index.value, size)? {
            return Ok(Operand {
                value,
                requires: both(index.requires, Some(requires)),
            });
        }
        let (value, requires) = match proto {
            Proto::Link => {
                let header = self.place.header;
                (self.values.load_at(size, index.value, header), None)
            }
            Proto::Radio => {
                if !self.link.has_radio() {
                    return Err(self.not_here("radio[...]"));
                }
                (self.values.load_at(size, index.value, 0), None)
            }
            Proto::Icmp6 => {
                let network = self.network(ethertype::IP6)?;
                let next = equals(self.values, Size::Byte, at + 6, ipproto::ICMP6);
                let load = self.values.load_at(size, index.value, at + 40);
                (load, Some(network.and(next)))
            }
            Proto::Tcp
            | Proto::Udp
            | Proto::Sctp
            | Proto::Icmp
            | Proto::Igmp
            | Proto::Igrp
            | Proto::Pim
            | Proto::Vrrp
            | Proto::Carp => return self.access_transport(proto, index, size),
            _ => match indexable(proto) {
                Some(ether) => {
                    let network = self.network(ether)?;
                    (self.values.load_at(size, index.value, at), Some(network))
                }
                None => return Err(ErrorKind::NotIndexable(proto.name())),
            },
        };
        Ok(Operand {
            value,
            requires: both(index.requires, requires),
        })
    }

    /// Accesses bytes after the IPv4 header, in the first fragment. (The language has no such access over
    /// IPv6, although the protocol's own test also matches there.)
    fn access_transport(&mut self, proto: Proto, index: Operand, size: Size) -> Lowered<Operand> {
        const SURELY_NO_WRAP: u32 = 1 << 30;
        let optimize = self.options.optimize;
        let at = self.place.network;
        let network = self.network(ethertype::IP)?;
        let carried = self.protocol_alone(proto)?;
        let first = self.first_fragment();
        let behind = self.values.behind_header(at);
        // The order in which index, header and offset are added decides where a huge constant wraps
        // around. libpcap's optimiser adds the constants first. If their sum is negative, a load
        // from it would reject packets that have the byte, so they are added at run time.
        let is_constant = |number: u32| {
            number < SURELY_NO_WRAP || optimize && (behind + number).constant < SURELY_NO_WRAP
        };
        let number = self.values.number_of(index.value);
        let load = match number.filter(|&number| is_constant(number)) {
            Some(number) => self.values.load(size, behind + number),
            None => self.values.load_at(size, index.value, behind),
        };
        // The condition of the index is tested after the network layer and before the transport.
        let network = both(Some(network), index.requires);
        Ok(Operand {
            value: load,
            requires: Some(after(network, carried).and(first)),
        })
    }
}

fn both(a: Option<Condition>, b: Option<Condition>) -> Option<Condition> {
    [a, b].into_iter().flatten().reduce(Condition::and)
}

/// Returns the relation that a test has, and whether it is negated.
pub(super) fn comparison(relation: Relation) -> (Compare, bool) {
    match relation {
        Relation::Equal => (Compare::Equal, false),
        Relation::NotEqual => (Compare::Equal, true),
        Relation::Greater => (Compare::Greater, false),
        Relation::LessEqual => (Compare::Greater, true),
        Relation::GreaterEqual => (Compare::GreaterEqual, false),
        Relation::Less => (Compare::GreaterEqual, true),
    }
}

/// Returns the number that the computation of a right side begins with. libpcap always checks this
/// one: `len % ip[0]` is rejected because the access begins with the offset 0.
fn first_number(arith: &Arith) -> Option<u32> {
    match arith {
        Arith::Number(number) => Some(*number),
        Arith::Length => None,
        Arith::Negate(inner) => first_number(inner),
        Arith::Load { index, .. } => first_number(index),
        Arith::Binary { left, .. } => first_number(left),
    }
}

/// Returns whether an expression uses nothing of the packet.
fn is_of_numbers(arith: &Arith) -> bool {
    match arith {
        Arith::Number(_) => true,
        Arith::Length | Arith::Load { .. } => false,
        Arith::Negate(inner) => is_of_numbers(inner),
        Arith::Binary { left, right, .. } => is_of_numbers(left) && is_of_numbers(right),
    }
}

/// Rejects constants that are invalid on the right side.
fn check_constant(operator: Operator, right: Option<u32>) -> Lowered<()> {
    match (operator, right) {
        (Operator::Divide | Operator::Modulus, Some(0)) => Err(ErrorKind::DivisionByZero),
        (Operator::ShiftLeft | Operator::ShiftRight, Some(32..)) => Err(ErrorKind::ShiftTooFar),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, LinkType, Tables, compile};

    #[test]
    fn a_byte_before_the_transport_is_found_wherever_it_is() {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[9] = 17;
        packet[19] = 9;
        // X holds only the IP header's length, so these have no constant offset from it.
        for expression in ["udp[-1] = 9", "udp[-20] = 0x45"] {
            for optimize in [true, false] {
                let mut options = CompileOptions::new(LinkType::RAW);
                options.optimize = optimize;
                let program = compile(expression, &options, &Tables::new()).expect(expression);
                assert_ne!(program.run(&packet, 28), 0, "{expression}");
            }
        }
    }
}

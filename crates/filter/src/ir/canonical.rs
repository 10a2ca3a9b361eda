//! Brings tests with the same meaning into one form: numbers are on the right, and arithmetic with
//! a number before a comparison is moved into the number or the comparison.

use super::{Relation, Test, Value, Values};
use crate::language::ast::Operator;

/// The most rewrites of one test: each simplifies its left side, and expressions are limited
/// anyway.
const MOST: usize = 8;

/// Returns the form of a test, and whether it is the opposite of the test. Its loads are the same.
pub(super) fn form(test: Test, values: &mut Values) -> (Test, bool) {
    let (mut test, mut opposite) = (test, false);
    for _ in 0..MOST {
        let Some((simpler, turned)) = step(test, values) else {
            break;
        };
        test = simpler;
        opposite ^= turned;
    }
    (test, opposite)
}

fn step(test: Test, values: &mut Values) -> Option<(Test, bool)> {
    let Test {
        left,
        relation,
        right,
    } = test;
    let (a, b) = (values.number_of(left), values.number_of(right));
    let Some(number) = b else {
        a?;
        // A number is on the left: the two are swapped.
        let (relation, opposite) = match relation {
            Relation::Equal | Relation::AnyBit => (relation, false),
            Relation::Greater => (Relation::GreaterEqual, true),
            Relation::GreaterEqual => (Relation::Greater, true),
        };
        let turned = Test {
            left: right,
            relation,
            right: left,
        };
        return Some((turned, opposite));
    };
    let Value::Binary(operator, inner, operand) = values.get(left) else {
        return None;
    };
    if relation != Relation::Equal {
        return None;
    }
    let difference = matches!(operator, Operator::Subtract | Operator::Xor);
    let Some(operand) = values.number_of(operand) else {
        let test = Test {
            left: inner,
            relation,
            right: operand,
        };
        return (difference && number == 0).then_some((test, false));
    };
    let number = match operator {
        Operator::Add => number.wrapping_sub(operand),
        Operator::Subtract => number.wrapping_add(operand),
        Operator::Xor => number ^ operand,
        Operator::And if number == 0 => {
            let any = Test {
                left: inner,
                relation: Relation::AnyBit,
                right: values.constant(operand),
            };
            return Some((any, true));
        }
        _ => return None,
    };
    let right = values.constant(number);
    Some((
        Test {
            left: inner,
            relation,
            right,
        },
        false,
    ))
}

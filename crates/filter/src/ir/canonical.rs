//! One form for tests that mean the same: a number stands on the right, and what is computed with
//! a number before a comparison is moved into the number or the comparison.

use super::{Relation, Test, Value, Values};
use crate::language::ast::Operator;

/// Rewrites of one test: each makes its left side simpler, and expressions are bounded anyway.
const MOST: usize = 8;

/// The form of a test, and whether it is the opposite of the test. The loads are the same ones.
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
        // A number on the left: the two change places.
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

//! Arithmetic and comparisons.

use super::super::ast::{Arith, Expr, Operator, Primitive, Relation};
use super::super::keyword::Keyword;
use super::super::lexer::{Symbol, TokenKind};
use super::super::limits;
use super::{Parsed, Parser};
use crate::error::{CompileError, ErrorKind, Hint};

/// The tokens that arithmetic can begin with.
pub(super) const OPERAND: &[&str] = &["a number", "len", "proto[offset:size]", "-", "("];

/// The precedence of unary minus.
const UNARY: u8 = 6;

/// Returns an operator and its precedence. `%` and `^` have none: in libpcap's grammar, everything
/// after them is their right side, and they take their left side out of any earlier operator.
fn operator(kind: &TokenKind) -> Option<(Operator, Option<u8>)> {
    let TokenKind::Symbol(symbol) = kind else {
        return None;
    };
    Some(match symbol {
        Symbol::Bar => (Operator::Or, Some(1)),
        Symbol::Ampersand => (Operator::And, Some(2)),
        Symbol::ShiftLeft => (Operator::ShiftLeft, Some(3)),
        Symbol::ShiftRight => (Operator::ShiftRight, Some(3)),
        Symbol::Plus => (Operator::Add, Some(4)),
        Symbol::Minus => (Operator::Subtract, Some(4)),
        Symbol::Star => (Operator::Multiply, Some(5)),
        Symbol::Slash => (Operator::Divide, Some(5)),
        Symbol::Percent => (Operator::Modulus, None),
        Symbol::Caret => (Operator::Xor, None),
        _ => return None,
    })
}

pub(super) fn relation(kind: &TokenKind) -> Option<Relation> {
    let TokenKind::Symbol(symbol) = kind else {
        return None;
    };
    Some(match symbol {
        Symbol::Equal => Relation::Equal,
        Symbol::NotEqual => Relation::NotEqual,
        Symbol::Less => Relation::Less,
        Symbol::LessEqual => Relation::LessEqual,
        Symbol::Greater => Relation::Greater,
        Symbol::GreaterEqual => Relation::GreaterEqual,
        _ => return None,
    })
}

impl Parser<'_> {
    /// Returns whether the token `n` further on is an operator of arithmetic or of comparison.
    pub(super) fn arithmetic_follows(&self, n: usize) -> bool {
        self.peek_nth(n)
            .is_some_and(|kind| operator(kind).is_some() || relation(kind).is_some())
    }

    /// Parses `arithmetic relation arithmetic`.
    pub(super) fn relation(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let left = self.binary(0)?;
        if self.at_set() {
            return self.arith_set(left, start);
        }
        let Some(relation) = self.peek().and_then(relation) else {
            let mut error = self.unexpected(&["=", "!=", "<", "<=", ">", ">=", "an operator"]);
            error.hint.get_or_insert(Hint::Comparison);
            return Err(error);
        };
        self.at += 1;
        let right = self.binary(0)?;
        let primitive = Primitive::Relation(left, relation, right);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Parses operands joined by operators with at least the precedence `least`.
    fn binary(&mut self, least: u8) -> Parsed<Arith> {
        let start = self.start();
        let mut left = self.operand()?;
        let mut operations = 0;
        while let Some((operator, strength)) = self.peek().and_then(operator) {
            if strength.is_some_and(|strength| strength < least) {
                break;
            }
            self.at += 1;
            operations += 1;
            if operations > limits::ARITHMETIC {
                return Err(CompileError::new(
                    self.span_from(start),
                    ErrorKind::TooLarge,
                ));
            }
            let right_least = strength.map_or(0, |strength| strength + 1);
            let right = self.nested(|parser| parser.binary(right_least))?;
            let span = self.span_from(start);
            left = Arith::Binary {
                operator,
                left: Box::new(left),
                right: Box::new(right),
                span,
            };
        }
        Ok(left)
    }

    fn operand(&mut self) -> Parsed<Arith> {
        let start = self.start();
        match self.peek() {
            Some(&TokenKind::Number(number)) => {
                self.at += 1;
                Ok(Arith::Number(number))
            }
            Some(TokenKind::Keyword(Keyword::Len)) => {
                self.at += 1;
                Ok(Arith::Length)
            }
            Some(TokenKind::Symbol(Symbol::Minus)) => {
                self.at += 1;
                let inner = self.nested(|parser| parser.binary(UNARY))?;
                Ok(Arith::Negate(Box::new(inner)))
            }
            Some(TokenKind::Symbol(Symbol::LeftParen)) => {
                self.at += 1;
                let inner = self.nested(|parser| parser.binary(0))?;
                self.close(start, Symbol::RightParen, &["an operator", ")"])?;
                Ok(inner)
            }
            Some(&TokenKind::Keyword(Keyword::Proto(proto))) => {
                self.at += 1;
                let open = self.start();
                if !self.take_symbol(Symbol::LeftBracket) {
                    return Err(self.unexpected(&["["]));
                }
                let index = Box::new(self.nested(|parser| parser.binary(0))?);
                let mut size = 1;
                if self.take_symbol(Symbol::Colon) {
                    size = self.plain_number()?;
                }
                self.close(open, Symbol::RightBracket, &["an operator", ":", "]"])?;
                Ok(Arith::Load {
                    proto,
                    index,
                    size,
                    span: self.span_from(start),
                })
            }
            Some(TokenKind::Symbol(Symbol::Equal | Symbol::Greater | Symbol::Less)) => {
                Err(self.unexpected(OPERAND).hinting(Hint::Comparison))
            }
            _ => Err(self.unexpected(OPERAND)),
        }
    }
}

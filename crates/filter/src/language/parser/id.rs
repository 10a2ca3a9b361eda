//! Parses values: names, addresses, numbers, and groups of them that share qualifiers.

use super::super::ast::{Expr, Id, Primitive, Qualifiers};
use super::super::keyword::Keyword;
use super::super::lexer::{Symbol, TokenKind};
use super::{Parsed, Parser, VALUE, negate};

/// Returns whether a token can only begin a value (a number or parenthesis may begin something else).
pub(super) fn begins(kind: &TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Name(_)
            | TokenKind::Station(_)
            | TokenKind::Dotted(_)
            | TokenKind::Ipv6(_)
            | TokenKind::Mac(_)
    )
}

impl Parser<'_> {
    /// Parses one value or a parenthesised group, under `qualifiers`.
    pub(super) fn id(&mut self, qualifiers: Qualifiers) -> Parsed<Expr> {
        let negated = self.negations();
        let expr = match self.at_symbol(Symbol::LeftParen) {
            true => self.group(qualifiers)?,
            false => self.value(qualifiers)?,
        };
        Ok(negate(expr, negated))
    }

    /// Parses `( value and value or … )`. The first must be a plain value, a negation, or numbers
    /// in parentheses; the others may be groups.
    fn group(&mut self, qualifiers: Qualifiers) -> Parsed<Expr> {
        if let Ok(number) = self.attempt(|parser| parser.nested_number(qualifiers)) {
            return Ok(number);
        }
        let open = self.start();
        self.at += 1;
        let expr = self.nested(|parser| {
            let first = match parser.at_symbol(Symbol::LeftParen) {
                true => parser.nested_number(qualifiers)?,
                false => parser.id(qualifiers)?,
            };
            let mut rest = Vec::new();
            while let Some(junction) = parser.junction() {
                rest.push((junction, parser.id(qualifiers)?));
            }
            Ok(if rest.is_empty() {
                first
            } else {
                Expr::Chain(Box::new(first), rest)
            })
        })?;
        self.close(open, Symbol::RightParen, &["and", "or", ")"])?;
        Ok(expr)
    }

    /// Parses a number in any number of parentheses.
    fn nested_number(&mut self, qualifiers: Qualifiers) -> Parsed<Expr> {
        let start = self.start();
        let id = Id::Number(self.parenthesised_number()?);
        let primitive = Primitive::Id(qualifiers, id);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Parses `5`, `(5)`, `((5))`.
    pub(super) fn parenthesised_number(&mut self) -> Parsed<u32> {
        if let Some(number) = self.take_number() {
            return Ok(number);
        }
        let open = self.start();
        if !self.take_symbol(Symbol::LeftParen) {
            return Err(self.unexpected(&["a number"]));
        }
        let number = self.nested(Self::parenthesised_number)?;
        self.close(open, Symbol::RightParen, &[")"])?;
        Ok(number)
    }

    fn value(&mut self, qualifiers: Qualifiers) -> Parsed<Expr> {
        let start = self.start();
        let primitive = Primitive::Id(qualifiers, self.bare_value()?);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Parses a value without qualifiers.
    pub(super) fn bare_value(&mut self) -> Parsed<Id> {
        let id = match self.peek() {
            Some(TokenKind::Name(name)) => Id::Name(name.clone()),
            // It is a keyword only since libpcap 1.11; after qualifiers it is still a name.
            Some(TokenKind::Keyword(Keyword::Vxlan)) => Id::Name("vxlan".to_owned()),
            Some(&TokenKind::Number(number)) => Id::Number(number),
            Some(&TokenKind::Dotted(address)) => Id::Dotted(address),
            Some(&TokenKind::Ipv6(address)) => Id::Ipv6(address),
            Some(&TokenKind::Mac(address)) => Id::Mac(address),
            Some(&TokenKind::Station(address)) => Id::Station(address),
            _ => return Err(self.unexpected(VALUE)),
        };
        self.at += 1;
        self.suffix(id)
    }

    /// Parses `/24` and `mask 255.255.255.0` after an address.
    fn suffix(&mut self, id: Id) -> Parsed<Id> {
        Ok(match id {
            Id::Dotted(address) if self.take_symbol(Symbol::Slash) => {
                Id::DottedPrefix(address, self.plain_number()?)
            }
            Id::Ipv6(address) if self.take_symbol(Symbol::Slash) => {
                Id::Ipv6Prefix(address, self.plain_number()?)
            }
            Id::Dotted(address) if self.take_keyword(Keyword::Mask) => match self.peek() {
                Some(&TokenKind::Dotted(mask)) => {
                    self.at += 1;
                    Id::DottedMask(address, mask)
                }
                _ => return Err(self.unexpected(&["a dotted netmask"])),
            },
            id => id,
        })
    }

    /// Parses a number without parentheses.
    pub(super) fn plain_number(&mut self) -> Parsed<u32> {
        let number = self.take_number();
        number.ok_or_else(|| self.unexpected(&["a number"]))
    }

    /// Takes the number that is next, if there is one.
    pub(super) fn take_number(&mut self) -> Option<u32> {
        let Some(&TokenKind::Number(number)) = self.peek() else {
            return None;
        };
        self.at += 1;
        Some(number)
    }
}

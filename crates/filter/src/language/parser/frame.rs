//! Primitives that belong to certain link types.

use super::super::ast::{Primitive, Relation};
use super::super::frame::{self, Comparison, FramePrimitive, FrameWord, Masked, PfTest};
use super::super::keyword::Keyword;
use super::super::lexer::{Symbol, TokenKind};
use super::arith;
use super::{Parsed, Parser};
use crate::error::{CompileError, ErrorKind};
use crate::resolve::NameKind;

/// The tokens that can follow a field.
const FIELD: &[&str] = &["a number", "=", "!=", "<", "<=", ">", ">=", "("];

impl Parser<'_> {
    /// Parses the rest of a primitive that begins with `word`, which was taken.
    pub(super) fn frame_primitive(&mut self, word: FrameWord) -> Parsed<Primitive> {
        let primitive = match word {
            FrameWord::Type => FramePrimitive::Type(self.frame_type()?),
            FrameWord::Subtype => FramePrimitive::Type(self.frame_subtype()?),
            FrameWord::Direction => {
                let kind = NameKind::FrameDirection;
                FramePrimitive::Direction(self.named_number(frame::DIRECTIONS, kind)?)
            }
            FrameWord::Atm(field) => FramePrimitive::Atm(field, self.comparisons()?),
            FrameWord::Traffic(traffic) => FramePrimitive::Traffic(traffic),
            FrameWord::SignalUnit(unit) => FramePrimitive::SignalUnit(unit),
            FrameWord::Signal(field) => FramePrimitive::Signal(field, self.comparisons()?),
            FrameWord::PfInterface => FramePrimitive::Pf(PfTest::Interface(self.name()?)),
            FrameWord::PfRuleSet => FramePrimitive::Pf(PfTest::RuleSet(self.name()?)),
            FrameWord::PfRule => FramePrimitive::Pf(PfTest::Rule(self.plain_number()?)),
            FrameWord::PfSubRule => FramePrimitive::Pf(PfTest::SubRule(self.plain_number()?)),
            FrameWord::PfReason => {
                let reason = self.named_number(frame::REASONS, NameKind::PfReason)?;
                FramePrimitive::Pf(PfTest::Reason(reason))
            }
            FrameWord::PfAction => {
                let (name, at) = (self.name()?, self.at - 1);
                let action = frame::named(frame::ACTIONS, &name);
                let action = action.ok_or_else(|| self.unknown(NameKind::PfAction, name, at))?;
                FramePrimitive::Pf(PfTest::Action(action))
            }
        };
        Ok(Primitive::Frame(primitive))
    }

    /// Returns the word if a primitive of 802.11 frames follows; it may follow any protocol.
    pub(super) fn wlan_word(&self) -> Option<FrameWord> {
        match self.peek() {
            Some(&TokenKind::Keyword(Keyword::Frame(
                word @ (FrameWord::Type | FrameWord::Subtype | FrameWord::Direction),
            ))) => Some(word),
            _ => None,
        }
    }

    /// Parses `type NAME`, and `subtype NAME` after it.
    fn frame_type(&mut self) -> Parsed<Masked> {
        let at = self.at;
        let number = self.named_number(frame::TYPES, NameKind::FrameType)?;
        self.check_bits("802.11 type", number, frame::TYPE_MASK, at)?;
        if !self.take_keyword(Keyword::Frame(FrameWord::Subtype)) {
            let mask = frame::TYPE_MASK;
            return Ok(Masked { mask, number });
        }
        let at = self.at;
        let names = frame::SUBTYPES.iter().find(|(kind, _)| *kind == number);
        let names = names.map_or(&[][..], |(_, names)| names);
        let subtype = self.named_number(names, NameKind::FrameSubtype)?;
        self.check_bits("802.11 subtype", subtype, frame::SUBTYPE_MASK, at)?;
        Ok(Masked {
            mask: frame::TYPE_MASK | frame::SUBTYPE_MASK,
            number: number | subtype,
        })
    }

    /// Parses `subtype NAME` alone, which also determines the type.
    fn frame_subtype(&mut self) -> Parsed<Masked> {
        let (name, at) = (self.name()?, self.at - 1);
        let found = frame::SUBTYPES
            .iter()
            .find_map(|(kind, names)| frame::named(names, &name).map(|subtype| kind | subtype));
        let number = found.ok_or_else(|| self.unknown(NameKind::FrameSubtype, name, at))?;
        Ok(Masked {
            mask: frame::TYPE_MASK | frame::SUBTYPE_MASK,
            number,
        })
    }

    /// Parses a number, or a name of a table.
    fn named_number(&mut self, names: &[(&str, u32)], kind: NameKind) -> Parsed<u32> {
        if let Some(number) = self.take_number() {
            return Ok(number);
        }
        let (name, at) = (self.name()?, self.at - 1);
        frame::named(names, &name).ok_or_else(|| self.unknown(kind, name, at))
    }

    /// Takes the name that is next.
    pub(super) fn name(&mut self) -> Parsed<String> {
        let Some(TokenKind::Name(name)) = self.peek() else {
            return Err(self.unexpected(&["a name"]));
        };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    /// Returns the error for the unknown name at token `at`.
    fn unknown(&self, kind: NameKind, name: String, at: usize) -> CompileError {
        let span = self.tokens.get(at).map_or(0..0, |token| token.span.clone());
        CompileError::new(span, ErrorKind::UnknownName { kind, name })
    }

    /// Rejects a number with bits outside its field.
    fn check_bits(&self, field: &'static str, value: u32, mask: u32, at: usize) -> Parsed<()> {
        if value & !mask == 0 {
            return Ok(());
        }
        let span = self.tokens.get(at).map_or(0..0, |token| token.span.clone());
        let kind = ErrorKind::BitsOutside { field, value, mask };
        Err(CompileError::new(span, kind))
    }

    /// Parses `5`, `> 5`, `(5 or 7)`.
    fn comparisons(&mut self) -> Parsed<Vec<Comparison>> {
        let equal = |number| Comparison {
            relation: Relation::Equal,
            number,
        };
        if let Some(relation) = self.peek().and_then(arith::relation) {
            self.at += 1;
            let number = self.plain_number()?;
            return Ok(vec![Comparison { relation, number }]);
        }
        let open = self.start();
        if !self.take_symbol(Symbol::LeftParen) {
            return match self.peek() {
                Some(TokenKind::Number(_)) => Ok(vec![equal(self.plain_number()?)]),
                _ => Err(self.unexpected(FIELD)),
            };
        }
        let mut list = vec![equal(self.plain_number()?)];
        while self.take_keyword(Keyword::Or) || self.take_symbol(Symbol::OrOr) {
            list.push(equal(self.plain_number()?));
        }
        self.close(open, Symbol::RightParen, &["or", ")"])?;
        Ok(list)
    }
}

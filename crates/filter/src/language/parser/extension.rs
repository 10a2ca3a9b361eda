//! Parses the extensions of the language, each of which begins with an error in libpcap: sets (`in
//! { … }`), packets in tunnels (`vxlan inner ( … )`), and `deep ( … )`.

use super::super::ast::{Arith, Element, Expr, Numbers, Primitive, Qualifiers, Tunnel};
use super::super::keyword::Keyword;
use super::super::lexer::{self, Symbol, TokenKind};
use super::{Parsed, Parser, process};
use crate::error::{CompileError, ErrorKind};

/// Words that begin a tunnel only in the extensions.
const TUNNELS: [&str; 2] = ["gtpu", "gre"];

/// Returns whether a word has a meaning only in the extensions.
pub(super) fn is_word(word: &str) -> bool {
    process::is_word(word) || TUNNELS.contains(&word) || matches!(word, "inner" | "deep" | "in")
}

impl Parser<'_> {
    pub(super) fn name_at(&self, n: usize) -> Option<&str> {
        match self.peek_nth(n) {
            Some(TokenKind::Name(name)) if self.extensions => Some(name),
            _ => None,
        }
    }

    fn symbol_is_at(&self, n: usize, symbol: Symbol) -> bool {
        self.peek_nth(n) == Some(&TokenKind::Symbol(symbol))
    }

    /// Returns whether `inner (` follows `n` tokens on.
    fn inner_is_at(&self, n: usize) -> bool {
        self.name_at(n) == Some("inner") && self.symbol_is_at(n + 1, Symbol::LeftParen)
    }

    /// Returns whether `in {` follows.
    pub(super) fn at_set(&self) -> bool {
        self.name_at(0) == Some("in") && self.symbol_is_at(1, Symbol::LeftBrace)
    }

    /// Returns whether a condition of the extensions begins here: with a word that is a name in libpcap,
    /// followed by a token that cannot follow a name there.
    pub(super) fn at_extension(&self) -> bool {
        let numbered = matches!(self.peek_nth(1), Some(TokenKind::Number(_)));
        let inner_follows = self.inner_is_at(1 + usize::from(numbered));
        if self.at_keyword(Keyword::Vxlan) {
            return inner_follows;
        }
        if self.at_process() {
            return true;
        }
        match self.name_at(0) {
            Some("deep") => self.symbol_is_at(1, Symbol::LeftParen),
            Some(word) => inner_follows && TUNNELS.contains(&word),
            None => false,
        }
    }

    /// Parses the condition for which [`at_extension`](Self::at_extension) is true.
    pub(super) fn extension(&mut self) -> Parsed<Expr> {
        if self.at_process() {
            return self.process();
        }
        let start = self.start();
        let word = self.name_at(0).unwrap_or("vxlan").to_owned();
        self.at += 1;
        if word == "deep" {
            let inner = self.parenthesised()?;
            return Ok(Expr::Deep(Box::new(inner), self.span_from(start)));
        }
        let number = self.take_number();
        let tunnel = match word.as_str() {
            "vxlan" => Tunnel::Vxlan(number),
            "gtpu" => Tunnel::Gtpu(number),
            _ => Tunnel::Gre(number),
        };
        self.inner(tunnel, start)
    }

    /// Turns a primitive into a tunnel if `inner ( … )` follows it.
    pub(super) fn or_inner(&mut self, primitive: Primitive, start: usize) -> Parsed<Expr> {
        match primitive {
            Primitive::Tunnel(tunnel) if self.inner_is_at(0) => self.inner(tunnel, start),
            _ => Ok(Expr::Primitive(primitive, self.span_from(start))),
        }
    }

    /// Parses `inner ( … )` after the tunnel that began at byte `start`.
    fn inner(&mut self, tunnel: Tunnel, start: usize) -> Parsed<Expr> {
        let span = self.span_from(start);
        self.at += 1;
        let inner = self.parenthesised()?;
        Ok(Expr::Inner(tunnel, Box::new(inner), span))
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        let open = self.start();
        self.at += 1;
        let (expr, _) = self.nested(|parser| parser.expression(None))?;
        self.close(open, Symbol::RightParen, &["and", "or", ")"])?;
        Ok(expr)
    }

    /// Parses `in { … }` under qualifiers.
    pub(super) fn id_set(&mut self, qualifiers: Qualifiers) -> Parsed<Expr> {
        let start = self.start();
        let elements = self.set(Self::element)?;
        let primitive = Primitive::In(qualifiers, elements);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Parses `vlan in { … }`, after the keyword.
    pub(super) fn vlan_set(&mut self) -> Parsed<Primitive> {
        Ok(Primitive::VlanIn(self.set(Self::range)?))
    }

    /// Parses `arithmetic in { … }`, after the arithmetic that began at byte `start`.
    pub(super) fn arith_set(&mut self, left: Arith, start: usize) -> Parsed<Expr> {
        let ranges = self.set(Self::range)?;
        let primitive = Primitive::RelationIn(left, ranges);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Parses `in { element, element … }`.
    pub(super) fn set<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.at += 1;
        let open = self.start();
        self.at += 1;
        let mut elements = vec![element(self)?];
        while self.take_symbol(Symbol::Comma) {
            elements.push(element(self)?);
        }
        if self.take_symbol(Symbol::RightBrace) {
            return Ok(elements);
        }
        if self.peek().is_some() {
            return Err(self.unexpected(&[",", "}"]));
        }
        Err(CompileError::new(open..open + 1, ErrorKind::Unclosed('{')).expecting(&[",", "}"]))
    }

    /// Parses a value or a range of numbers.
    fn element(&mut self) -> Parsed<Element> {
        if let Some(range) = self.dashed_range()? {
            return Ok(Element::Numbers(range));
        }
        let start = self.start();
        let id = self.bare_value()?;
        Ok(Element::Id(id, self.span_from(start)))
    }

    /// Parses a number or a range of numbers.
    pub(super) fn range(&mut self) -> Parsed<Numbers> {
        let range = match self.dashed_range()? {
            Some(range) => Some(range),
            None => self
                .take_number()
                .map(|number| Numbers::new(number, number)),
        };
        range.ok_or_else(|| self.unexpected(&["a number", "a range such as 80-90"]))
    }

    /// Parses `80-90`, which is one word, or `80 - 90`, which are three.
    fn dashed_range(&mut self) -> Parsed<Option<Numbers>> {
        match self.peek() {
            Some(TokenKind::Name(name)) => {
                let ends = name.split_once('-').and_then(|(first, last)| {
                    Some((lexer::plain_number(first)?, lexer::plain_number(last)?))
                });
                let Some((first, last)) = ends else {
                    return Ok(None);
                };
                self.at += 1;
                Ok(Some(Numbers::new(first, last)))
            }
            Some(&TokenKind::Number(first)) if self.symbol_is_at(1, Symbol::Minus) => {
                self.at += 2;
                let last = self.plain_number()?;
                Ok(Some(Numbers::new(first, last)))
            }
            _ => Ok(None),
        }
    }
}

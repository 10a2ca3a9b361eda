//! The parser: tokens to tree, by recursive descent.
//!
//! Three things need care, because libpcap's grammar decides. A value alone inherits the qualifiers
//! of the primitive before it (`host a or b`). After `and` and `or`, such a value and a comparison
//! (`port 80 or 5 + len > 9`) begin alike. And a parenthesis can enclose conditions, values, or
//! arithmetic. If the first tokens do not decide, the parser tries one form and backtracks; values
//! and arithmetic contain no conditions, so each attempt is linear.

mod arith;
mod extension;
mod frame;
mod id;
mod primitive;
mod process;

pub(super) use process::NAMED;

use super::ast::{Expr, Junction, Qualifiers, Span};
use super::keyword::{self, Keyword, Proto};
use super::lexer::{self, Symbol, Token, TokenKind};
use super::limits;
use crate::error::{CompileError, ErrorKind, Hint};

type Parsed<T> = Result<T, CompileError>;

/// The tokens that a condition can begin with.
const CONDITION: &[&str] = &[
    "a protocol",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "not",
    "(",
    "a number",
    "len",
    "vlan",
];

/// Parses an expression, with or without the extensions of the language. Returns `None` for an
/// empty one, which accepts every packet.
pub(crate) fn parse(text: &str, extensions: bool) -> Parsed<Option<Expr>> {
    if text.len() > limits::EXPRESSION {
        let kind = ErrorKind::TooLong(limits::EXPRESSION);
        return Err(CompileError::new(text.len()..text.len(), kind));
    }
    let tokens = lexer::tokens(text, extensions)?;
    if tokens.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser {
        text,
        tokens: &tokens,
        at: 0,
        depth: 0,
        extensions,
    };
    let (expr, _) = parser.expression(None)?;
    match parser.peek_token() {
        None => Ok(Some(expr)),
        Some(_) => Err(parser.unexpected(&["and", "or"])),
    }
}

/// The state: the tokens and the current position. It is copied for backtracking.
struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    extensions: bool,
}

impl Parser<'_> {
    fn peek_token(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.peek_token().map(|token| &token.kind)
    }

    fn peek_nth(&self, n: usize) -> Option<&TokenKind> {
        self.tokens.get(self.at + n).map(|token| &token.kind)
    }

    fn peek_before(&self, n: usize) -> Option<&TokenKind> {
        let at = self.at.checked_sub(n)?;
        self.tokens.get(at).map(|token| &token.kind)
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == Some(&TokenKind::Keyword(keyword))
    }

    fn at_symbol(&self, symbol: Symbol) -> bool {
        self.peek() == Some(&TokenKind::Symbol(symbol))
    }

    fn take_symbol(&mut self, symbol: Symbol) -> bool {
        let there = self.at_symbol(symbol);
        self.at += usize::from(there);
        there
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let there = self.at_keyword(keyword);
        self.at += usize::from(there);
        there
    }

    /// Returns where the current token begins.
    fn start(&self) -> usize {
        self.peek_token()
            .map_or(self.text.len(), |token| token.span.start)
    }

    /// Returns the span from `start` to the end of the last token taken.
    fn span_from(&self, start: usize) -> Span {
        let end = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        start..end.map_or(start, |token| token.span.end.max(start))
    }

    /// Returns the error for the current token, or for the end.
    fn unexpected(&self, expected: &[&'static str]) -> CompileError {
        let Some(token) = self.peek_token() else {
            let end = self.text.len();
            return CompileError::new(end..end, ErrorKind::UnexpectedEnd).expecting(expected);
        };
        let word = &self.text[token.span.clone()];
        let kind = ErrorKind::Unexpected(word.to_owned());
        let mut error = CompileError::new(token.span.clone(), kind).expecting(expected);
        error.hint = self.hint(token, word, expected);
        error
    }

    fn hint(&self, token: &Token, word: &str, expected: &[&'static str]) -> Option<Hint> {
        if matches!(token.kind, TokenKind::Name(_))
            && let Some(hint) = lexer::word_hint(word)
        {
            return Some(hint);
        }
        if self.belongs_to_extensions(word) || self.is_behind_process_word() {
            return Some(Hint::Extensions);
        }
        let wants_value = expected.first() == Some(&VALUE[0]);
        let wants_junction = expected.first() == Some(&"and");
        let wants_number = expected.first() == Some(&arith::OPERAND[0]);
        match &token.kind {
            TokenKind::Keyword(Keyword::Proto(_)) if wants_value => Some(Hint::EscapeKeyword),
            TokenKind::Symbol(Symbol::Equal) if wants_value => Some(Hint::NoSign),
            TokenKind::Symbol(Symbol::Bang) if wants_number => Some(Hint::Comparison),
            TokenKind::Name(_) if wants_number => names_a_number(word).then_some(Hint::NamedNumber),
            TokenKind::Symbol(Symbol::Slash) => Some(Hint::DottedPrefix),
            TokenKind::Symbol(_) if wants_junction => self.symbol_hint(),
            _ if wants_junction => Some(self.junction_hint(&token.kind, word)),
            TokenKind::Name(_)
            | TokenKind::Number(_)
            | TokenKind::Dotted(_)
            | TokenKind::Ipv6(_)
            | TokenKind::Mac(_)
            | TokenKind::Station(_)
                if !wants_value =>
            {
                Some(Hint::MissingQualifier)
            }
            _ => None,
        }
    }

    /// Returns whether a word is valid only in the extensions, which are off.
    fn belongs_to_extensions(&self, word: &str) -> bool {
        !self.extensions && extension::is_word(word)
    }

    /// Returns a hint for words after a complete condition.
    fn junction_hint(&self, kind: &TokenKind, word: &str) -> Hint {
        match (self.peek_before(1), kind) {
            (Some(TokenKind::Keyword(Keyword::Proto(Proto::Link))), TokenKind::Mac(_)) => {
                Hint::EtherHost
            }
            (Some(TokenKind::Keyword(Keyword::Proto(Proto::Icmp | Proto::Icmp6))), _) => {
                Hint::IcmpType
            }
            _ if word == "netmask" => Hint::Mask,
            _ => Hint::MissingJunction,
        }
    }

    /// Returns a hint for symbols after a complete condition: an operator of arithmetic, as in `ip
    /// & 1`.
    fn symbol_hint(&self) -> Option<Hint> {
        if self.peek_before(2) == Some(&TokenKind::Keyword(Keyword::Portrange)) {
            return Some(Hint::Portrange);
        }
        let closing = [Symbol::RightParen, Symbol::RightBracket];
        (!closing.iter().any(|&s| self.at_symbol(s))).then_some(Hint::Comparison)
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= limits::NESTING {
            let start = self.start();
            return Err(CompileError::new(
                start..start,
                ErrorKind::TooDeep(limits::NESTING),
            ));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Runs `inner`; if it fails, backtracks to the start.
    fn attempt<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let (at, depth) = (self.at, self.depth);
        let result = inner(self);
        if result.is_err() {
            (self.at, self.depth) = (at, depth);
        }
        result
    }

    fn junction(&mut self) -> Option<Junction> {
        let junction = match self.peek()? {
            TokenKind::Keyword(Keyword::And) | TokenKind::Symbol(Symbol::AndAnd) => Junction::And,
            TokenKind::Keyword(Keyword::Or) | TokenKind::Symbol(Symbol::OrOr) => Junction::Or,
            _ => return None,
        };
        self.at += 1;
        Some(junction)
    }

    /// Takes any number of negations; returns whether the condition is negated.
    fn negations(&mut self) -> bool {
        let mut negated = false;
        while self.take_keyword(Keyword::Not) || self.take_symbol(Symbol::Bang) {
            negated = !negated;
        }
        negated
    }

    /// Parses conditions joined by `and` and `or`. Returns also the qualifiers that a value after
    /// them inherits. `before` are the qualifiers that a value in place of the conditions would
    /// inherit; they are passed on across a parenthesis.
    fn expression(&mut self, before: Option<Qualifiers>) -> Parsed<(Expr, Option<Qualifiers>)> {
        let (first, mut inherited) = self.term(before)?;
        let mut rest = Vec::new();
        while let Some(junction) = self.junction() {
            let (next, qualifiers) = self.term_or_id(inherited)?;
            inherited = qualifiers;
            rest.push((junction, next));
        }
        let expr = if rest.is_empty() {
            first
        } else {
            Expr::Chain(Box::new(first), rest)
        };
        Ok((expr, inherited))
    }

    /// Parses a condition that does not inherit qualifiers.
    fn term(&mut self, before: Option<Qualifiers>) -> Parsed<(Expr, Option<Qualifiers>)> {
        let negated = self.negations();
        let (expr, qualifiers) = match self.at_symbol(Symbol::LeftParen) {
            true => self.parenthesis(before)?,
            false => self.primitive()?,
        };
        Ok((negate(expr, negated), qualifiers))
    }

    /// Parses a parenthesis in place of a condition: around arithmetic if a comparison follows,
    /// otherwise around conditions.
    fn parenthesis(&mut self, before: Option<Qualifiers>) -> Parsed<(Expr, Option<Qualifiers>)> {
        if let Ok(relation) = self.attempt(Self::relation) {
            return Ok((relation, None));
        }
        let open = self.start();
        self.at += 1;
        let (expr, _) = self.nested(|parser| parser.expression(before))?;
        self.close(open, Symbol::RightParen, &["and", "or", ")"])?;
        Ok((expr, before))
    }

    /// Parses what follows `and` or `or`: a value that inherits qualifiers, or a condition.
    fn term_or_id(&mut self, inherited: Option<Qualifiers>) -> Parsed<(Expr, Option<Qualifiers>)> {
        let begin = self.at;
        let negated = self.negations();
        let value = match self.peek() {
            _ if self.at_extension() => false,
            Some(TokenKind::Symbol(Symbol::LeftParen)) => self.id_is_next(),
            Some(TokenKind::Number(_)) => !self.arithmetic_follows(1),
            Some(kind) => id::begins(kind),
            None => false,
        };
        if !value {
            self.at = begin;
            return self.term(inherited);
        }
        let Some(qualifiers) = inherited else {
            let token = self.peek_token().map_or(0..0, |token| token.span.clone());
            let word = &self.text[token.clone()];
            let hint = match lexer::word_hint(word) {
                Some(hint) => hint,
                None if self.belongs_to_extensions(word) => Hint::Extensions,
                None => Hint::Inheritance,
            };
            return Err(CompileError::new(token, ErrorKind::NothingToInherit).hinting(hint));
        };
        let expr = self.id(qualifiers)?;
        Ok((negate(expr, negated), inherited))
    }

    /// Returns whether the parenthesis here encloses values, with no arithmetic after it.
    fn id_is_next(&mut self) -> bool {
        let at = self.at;
        let any = Qualifiers {
            proto: None,
            direction: super::ast::Direction::Default,
            kind: super::ast::Kind::Default,
        };
        let fits = self.attempt(|parser| parser.id(any)).is_ok() && !self.arithmetic_follows(0);
        self.at = at;
        fits
    }

    /// Takes the closing parenthesis or bracket of the one opened at byte `open`.
    fn close(&mut self, open: usize, symbol: Symbol, expected: &[&'static str]) -> Parsed<()> {
        if self.take_symbol(symbol) {
            return Ok(());
        }
        if self.peek().is_some() {
            return Err(self.unexpected(expected));
        }
        let opened = if symbol == Symbol::RightParen {
            '('
        } else {
            '['
        };
        Err(CompileError::new(open..open + 1, ErrorKind::Unclosed(opened)).expecting(expected))
    }
}

/// Returns whether a word is the end of a named number's name: `syn` of `tcp-syn`.
fn names_a_number(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["tcp-", "icmp-", "icmp6-"].iter().any(|prefix| {
        let name = format!("{prefix}{word}");
        matches!(keyword::lookup(&name), Some(Keyword::Number(_)))
    })
}

/// The tokens that can follow qualifiers.
const VALUE: &[&str] = &["a name", "an address", "a number", "(", "not"];

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated {
        Expr::Not(Box::new(expr))
    } else {
        expr
    }
}

//! Parses the extensions that ask for a packet's process: `process NAME`, `pid N`, `uid N`, `container NAME`,
//! `cgroup PATH`. The lexer makes one name of the text behind three of them.

use super::super::ast::{Expr, Primitive, ProcessTest};
use super::super::lexer::TokenKind;
use super::{Parsed, Parser};
use crate::error::{CompileError, ErrorKind};
use crate::process::Question;

/// The words that a number or a set of numbers follows.
const NUMBERED: [&str; 2] = ["pid", "uid"];
/// The words that a name or a path follows.
pub(in super::super) const NAMED: [&str; 3] = ["process", "container", "cgroup"];

/// Returns whether a word begins such a test.
pub(super) fn is_word(word: &str) -> bool {
    NUMBERED.contains(&word) || NAMED.contains(&word)
}

impl Parser<'_> {
    /// Returns whether a test of the process begins here: with a word that is a name in libpcap, followed by a
    /// token that cannot follow a name there.
    pub(super) fn at_process(&self) -> bool {
        let value_follows = matches!(
            self.peek_nth(1),
            Some(TokenKind::Name(_) | TokenKind::Number(_))
        );
        self.name_at(0).is_some_and(is_word) && value_follows
    }

    /// Parses the test for which [`at_process`](Self::at_process) is true.
    pub(super) fn process(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let word = self.name_at(0).unwrap_or_default().to_owned();
        self.at += 1;
        let test = if NUMBERED.contains(&word.as_str()) {
            let ranges = match self.at_set() {
                true => self.set(Self::range)?,
                false => vec![self.range()?],
            };
            match word.as_str() {
                "pid" => ProcessTest::Pid(ranges),
                _ => ProcessTest::Uid(ranges),
            }
        } else {
            let span = self.peek_token().map_or(0..0, |token| token.span.clone());
            let text = self.name()?;
            match word.as_str() {
                "process" => ProcessTest::Name(text),
                "container" => ProcessTest::Asked(Question::Container(text)),
                _ if !text.starts_with('/') => {
                    return Err(CompileError::new(span, ErrorKind::NotAPath));
                }
                _ => ProcessTest::Asked(Question::Cgroup(text)),
            }
        };
        let primitive = Primitive::Process(test);
        Ok(Expr::Primitive(primitive, self.span_from(start)))
    }

    /// Returns whether the token before this one is a word of these tests, which are off.
    pub(super) fn is_behind_process_word(&self) -> bool {
        let word = self.peek_before(1);
        !self.extensions && matches!(word, Some(TokenKind::Name(word)) if is_word(word))
    }
}

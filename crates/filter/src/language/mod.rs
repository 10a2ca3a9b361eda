//! The expression as text and as a tree: lexer, parser, abstract syntax.
//!
//! This module does not depend on link types, names or instructions.

pub(crate) mod ast;
pub(crate) mod frame;
mod keyword;
mod lexer;
mod parser;

pub(crate) use keyword::Proto;
pub(crate) use parser::parse;

/// Returns whether a word begins a primitive that moves the offsets of later primitives.
pub(crate) fn moves_what_follows(word: &str) -> bool {
    use keyword::Keyword;
    matches!(
        keyword::lookup(word),
        Some(Keyword::Vlan | Keyword::Mpls | Keyword::Pppoes | Keyword::Geneve | Keyword::Vxlan)
    )
}

/// Limits that keep the compilation of hostile expressions short.
pub mod limits {
    /// The longest expression, in bytes.
    pub const EXPRESSION: usize = 1 << 20;
    /// The maximum nesting of parentheses, negations and arithmetic.
    pub const NESTING: usize = 200;
    /// The most operations in one arithmetic expression.
    pub const ARITHMETIC: u32 = 200;
}

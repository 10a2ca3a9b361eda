//! Advice for usual mistakes that only show behind the grammar, or that are told best by the words
//! around the place. What the parser itself sees at a token, it says itself.

use crate::error::{CompileError, ErrorKind, Hint};
use crate::language::moves_what_follows;
use crate::resolve::NameKind;

/// The error with advice, if there is some and it has none yet.
pub(crate) fn advised(mut error: CompileError, text: &str) -> CompileError {
    if error.hint.is_none() {
        error.hint = advice(&error, text);
    }
    error
}

fn advice(error: &CompileError, text: &str) -> Option<Hint> {
    let before = || words_before(text, error.span.start);
    match &error.kind {
        ErrorKind::MaskWithoutNet => Some(Hint::Network),
        ErrorKind::HostBitsSet => Some(Hint::ZeroBits),
        ErrorKind::NetmaskUnknown => Some(Hint::Netmask),
        ErrorKind::IllegalCharacter(',') => Some(Hint::Several),
        ErrorKind::IllegalCharacter('"' | '\'' | '`') => Some(Hint::Quotes),
        ErrorKind::UnknownName {
            kind: NameKind::Port,
            name,
        } if is_range(name) => Some(Hint::Portrange),
        ErrorKind::BadQualifier {
            qualifier: "host",
            to: "a hardware address",
        } => Some(Hint::EtherHost),
        ErrorKind::BadQualifier {
            qualifier: "ether" | "link",
            to: "an IPv4 host" | "an IPv6 address" | "a network",
        } => Some(Hint::IpHost),
        ErrorKind::BadQualifier {
            qualifier: "tcp" | "udp" | "sctp" | "icmp" | "icmp6",
            to: "an IPv4 host" | "an IPv6 address" | "a network",
        } => Some(Hint::JoinHost),
        ErrorKind::NotOnLinkType { .. } if is_icmp(text.get(error.span.clone())) => {
            Some(Hint::IcmpType)
        }
        ErrorKind::Unexpected(_) if is_icmp(before().next()) => Some(Hint::IcmpType),
        ErrorKind::RejectsAll if words(text).skip(1).any(moves_what_follows) => {
            Some(Hint::MoveFirst)
        }
        _ => None,
    }
}

/// `80-90` or `http-https`, but not a name that merely has a hyphen in it.
fn is_range(name: &str) -> bool {
    let is_port = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty();
    name.split_once('-')
        .is_some_and(|(first, last)| is_port(first) && is_port(last))
}

fn is_icmp(text: Option<&str>) -> bool {
    text.and_then(|text| words(text).next()) == Some("icmp")
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')))
        .filter(|word| !word.is_empty())
}

/// The words in front of a place, the nearest first.
fn words_before(text: &str, at: usize) -> impl Iterator<Item = &str> {
    words(text.get(..at).unwrap_or_default()).rev()
}

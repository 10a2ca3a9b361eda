//! Advice for common mistakes that the parser cannot see at one token: they show after parsing, or
//! in the words around the place.

use crate::error::{CompileError, ErrorKind, Hint};
use crate::language::moves_what_follows;
use crate::resolve::NameKind;

/// Adds advice to an error that has none, if there is some.
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

/// Returns whether a name is a range such as `80-90` or `http-https`, not merely a name with a hyphen.
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

/// Returns the words before a place, the nearest first.
fn words_before(text: &str, at: usize) -> impl Iterator<Item = &str> {
    words(text.get(..at).unwrap_or_default()).rev()
}

//! The lexer: splits text into tokens, each with its place.
//!
//! The longest token at each place wins: `len-1` and `80-90` are one name each, and `1:2:3:4:5:6`
//! is one hardware address. Among tokens of equal length, a keyword comes before an address, an
//! address before a number, and a number before a name.

use std::net::Ipv6Addr;

use super::ast::{Dotted, Ipv4, Span};
use super::keyword::{self, Keyword};
use super::parser::NAMED;
use crate::error::{CompileError, ErrorKind, Hint};

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Keyword(Keyword),
    Number(u32),
    Dotted(Dotted),
    Ipv6(Ipv6Addr),
    Mac([u8; 6]),
    /// The address of an ARCNET station.
    Station(u8),
    Name(String),
    Symbol(Symbol),
}

/// Operators and punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    Colon,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    Bar,
    Caret,
    ShiftLeft,
    ShiftRight,
    Bang,
    AndAnd,
    OrOr,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    LeftBrace,
    RightBrace,
    Comma,
}

const SYMBOLS: &[(&str, Symbol)] = &[
    ("&&", Symbol::AndAnd),
    ("||", Symbol::OrOr),
    ("==", Symbol::Equal),
    ("!=", Symbol::NotEqual),
    ("<=", Symbol::LessEqual),
    (">=", Symbol::GreaterEqual),
    ("<<", Symbol::ShiftLeft),
    (">>", Symbol::ShiftRight),
    ("(", Symbol::LeftParen),
    (")", Symbol::RightParen),
    ("[", Symbol::LeftBracket),
    ("]", Symbol::RightBracket),
    (":", Symbol::Colon),
    ("+", Symbol::Plus),
    ("-", Symbol::Minus),
    ("*", Symbol::Star),
    ("/", Symbol::Slash),
    ("%", Symbol::Percent),
    ("&", Symbol::Ampersand),
    ("|", Symbol::Bar),
    ("^", Symbol::Caret),
    ("!", Symbol::Bang),
    ("=", Symbol::Equal),
    ("<", Symbol::Less),
    (">", Symbol::Greater),
];

/// The symbols that only the extensions have.
const EXTENSION_SYMBOLS: &[(&str, Symbol)] = &[
    ("{", Symbol::LeftBrace),
    ("}", Symbol::RightBrace),
    (",", Symbol::Comma),
];

/// Splits the whole expression; the symbols of the extensions are tokens only on request.
pub(super) fn tokens(text: &str, extensions: bool) -> Result<Vec<Token>, CompileError> {
    let bytes = text.as_bytes();
    const BYTES_OF_A_TOKEN: usize = 4;
    let mut tokens: Vec<Token> = Vec::with_capacity(text.len() / BYTES_OF_A_TOKEN + 1);
    let mut at = 0;
    // In a set, a name ends with the element.
    let mut in_set = false;
    while let Some(&byte) = bytes.get(at) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
            continue;
        }
        let (kind, len) = match in_set && byte == b'\\' {
            true => escaped(
                &text[at..],
                at,
                &[' ', '!', '(', ')', '\n', '\t', '\r', ',', '}'],
            )?,
            false => next(text, at, extensions)?,
        };
        match kind {
            TokenKind::Symbol(Symbol::LeftBrace) => in_set = true,
            TokenKind::Symbol(Symbol::RightBrace) => in_set = false,
            _ => {}
        }
        let names_process = extensions && !in_set && is_process_word(&text[at..at + len]);
        tokens.push(Token {
            kind,
            span: at..at + len,
        });
        at += len;
        if names_process && let Some(token) = process_name(text, at)? {
            at = token.span.end;
            tokens.push(token);
        }
    }
    Ok(tokens)
}

fn is_process_word(word: &str) -> bool {
    NAMED.contains(&word)
}

/// Returns the name of a process, a container or a control group that follows the word that ends at `at`: text in
/// quotes, or up to a blank or a parenthesis. `None` if something follows that can follow a name in libpcap.
fn process_name(text: &str, at: usize) -> Result<Option<Token>, CompileError> {
    let rest = text[at..].trim_start_matches([' ', '\t', '\n', '\r']);
    let start = text.len() - rest.len();
    if let Some(quoted) = rest.strip_prefix('"') {
        let unclosed = CompileError::new(start..start + 1, ErrorKind::Unclosed('"'));
        let len = quoted.find('"').ok_or(unclosed)?;
        return Ok(Some(Token {
            kind: TokenKind::Name(quoted[..len].to_owned()),
            span: start..start + len + 2,
        }));
    }
    let end = rest.find([' ', '\t', '\n', '\r', '(', ')']);
    let word = &rest[..end.unwrap_or(rest.len())];
    let goes_on = matches!(word, "" | "and" | "or") || word.starts_with(['&', '|']);
    Ok((start > at && !goes_on).then(|| Token {
        kind: TokenKind::Name(word.to_owned()),
        span: start..start + word.len(),
    }))
}

/// Returns the token at `at` and its length.
fn next(text: &str, at: usize, extensions: bool) -> Result<(TokenKind, usize), CompileError> {
    let rest = &text[at..];
    if rest.starts_with('\\') {
        return escaped(rest, at, &[' ', '!', '(', ')', '\n', '\t', '\r']);
    }
    if let Some(token) = station(rest) {
        return Ok(token);
    }
    let word = word_length(rest);
    let mac = mac_length(rest);
    let ipv6 = ipv6_length(rest);
    if let Some((len, address)) =
        ipv6.filter(|&(len, _)| len > word && mac.is_none_or(|m| m.0 < len))
    {
        return Ok((TokenKind::Ipv6(address), len));
    }
    if let Some((len, address)) = mac.filter(|&(len, _)| len >= word) {
        return Ok((TokenKind::Mac(address), len));
    }
    if let Some(len) = colons_length(rest).filter(|&len| len > word) {
        return Err(CompileError::new(
            at..at + len,
            ErrorKind::BadHardwareAddress,
        ));
    }
    if word > 0 {
        return self::word(&rest[..word], at).map(|kind| (kind, word));
    }
    let more = if extensions { EXTENSION_SYMBOLS } else { &[] };
    for &(symbol, kind) in SYMBOLS.iter().chain(more) {
        if rest.starts_with(symbol) {
            return Ok((TokenKind::Symbol(kind), symbol.len()));
        }
    }
    let c = rest.chars().next().unwrap_or('\0');
    let error = CompileError::new(at..at + c.len_utf8(), ErrorKind::IllegalCharacter(c));
    Err(match c {
        '{' => error.hinting(Hint::Extensions),
        _ => error,
    })
}

/// Matches `$` with one or two hexadecimal digits.
fn station(rest: &str) -> Option<(TokenKind, usize)> {
    let digits = rest.strip_prefix('$')?;
    let len = digits.bytes().take(2).take_while(u8::is_ascii_hexdigit);
    let digits = &digits[..len.count()];
    let address = u8::from_str_radix(digits, 16).ok()?;
    Some((TokenKind::Station(address), 1 + digits.len()))
}

/// Matches `\name`: the name without its meaning as a keyword, up to one of `ends`.
fn escaped(rest: &str, at: usize, ends: &[char]) -> Result<(TokenKind, usize), CompileError> {
    let end = rest[1..].find(ends).map_or(rest.len(), |n| n + 1);
    if end == 1 {
        return Err(CompileError::new(at..at + 1, ErrorKind::EmptyEscape));
    }
    Ok((TokenKind::Name(rest[1..end].to_owned()), end))
}

/// Returns the length of a name: letters, digits, and inside it also `-`, `_` and `.`; a dot may
/// end it.
fn word_length(rest: &str) -> usize {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = rest.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_alphanumeric) {
        return 0;
    }
    let mut len = bytes.iter().take_while(|&&b| inside(b)).count();
    while len > 1 && matches!(bytes[len - 1], b'-' | b'_') {
        len -= 1;
    }
    len
}

/// Returns the keyword, number, address or name for a word.
fn word(word: &str, at: usize) -> Result<TokenKind, CompileError> {
    if let Some(keyword) = keyword::lookup(word) {
        return Ok(match keyword {
            Keyword::Number(n) => TokenKind::Number(n),
            keyword => TokenKind::Keyword(keyword),
        });
    }
    if word.len() == 12
        && word.bytes().all(|b| b.is_ascii_hexdigit())
        && let Some(mac) = hex_pairs(word)
    {
        return Ok(TokenKind::Mac(mac));
    }
    let span = at..at + word.len();
    if is_number(word) {
        return number(word)
            .map(TokenKind::Number)
            .map_err(|kind| CompileError::new(span, kind));
    }
    let parts: Vec<&str> = word.split('.').collect();
    if (2..=4).contains(&parts.len()) && parts.iter().all(|part| is_number(part)) {
        return Ok(TokenKind::Dotted(Dotted {
            ipv4: ipv4(&parts),
            decnet: decnet(&parts),
        }));
    }
    Ok(TokenKind::Name(word.to_owned()))
}

/// Returns whether a word consists of decimal, octal or hexadecimal digits as in C.
fn is_number(word: &str) -> bool {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()),
    }
}

fn number(word: &str) -> Result<u32, ErrorKind> {
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&word[2..], 16),
        [b'0', _, ..] => (&word[1..], 8),
        _ => (word, 10),
    };
    let digits = digits.trim_start_matches('0');
    if radix == 8 && digits.contains(['8', '9']) {
        return Err(ErrorKind::BadOctal);
    }
    if digits.is_empty() {
        return Ok(0);
    }
    u32::from_str_radix(digits, radix).map_err(|_| ErrorKind::NumberTooLarge)
}

/// Returns the number if the whole text is one.
pub(super) fn plain_number(word: &str) -> Option<u32> {
    is_number(word).then(|| number(word).ok()).flatten()
}

/// Parses dotted decimal; leading zeros are allowed and do not mean octal.
fn ipv4(parts: &[&str]) -> Option<Ipv4> {
    let mut value = 0_u32;
    for part in parts {
        let octet: u8 = part.parse().ok()?;
        value = value << 8 | u32::from(octet);
    }
    Some(Ipv4 {
        value,
        parts: u32::try_from(parts.len()).ok()?,
    })
}

/// Parses a DECnet address: area and node are cut to 6 and 10 bits, as in libpcap.
fn decnet(parts: &[&str]) -> Option<u16> {
    const NODE: u32 = 0x3ff;
    let [area, node, ..] = parts else { return None };
    let number = |digits: &str| {
        let digits = digits.bytes().map_while(|b| char::from(b).to_digit(10));
        digits.fold(0_u32, |n, digit| n.wrapping_mul(10).wrapping_add(digit))
    };
    let decimal = area.bytes().all(|b| b.is_ascii_digit());
    let address = number(area) << 10 | number(node) & NODE;
    decimal.then_some((address & 0xffff) as u16)
}

fn hex_pairs(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0_u8; 6];
    for (at, byte) in mac.iter_mut().enumerate() {
        *byte = u8::from_str_radix(word.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(mac)
}

/// Matches a hardware address with separators: six numbers of one or two hexadecimal digits with
/// equal separators, or three numbers of four digits with dots.
fn mac_length(rest: &str) -> Option<(usize, [u8; 6])> {
    const DIGITS: usize = 4;
    let digits = rest.bytes().take(DIGITS + 1);
    let hex = digits.take_while(u8::is_ascii_hexdigit).count();
    let separator = *rest.as_bytes().get(hex)?;
    // Otherwise a row of colons would be scanned again from each of them.
    if !(1..=DIGITS).contains(&hex) {
        return None;
    }
    if !matches!(separator, b':' | b'.' | b'-') {
        return None;
    }
    let run = rest
        .bytes()
        .take_while(|&b| b.is_ascii_hexdigit() || b == separator)
        .count();
    let text = &rest[..run];
    let mut split = text.split(char::from(separator));
    let mut groups: [&str; 6] = [""; 6];
    let mut count = 0;
    for group in groups.iter_mut().zip(split.by_ref()) {
        *group.0 = group.1;
        count += 1;
    }
    if split.next().is_some() {
        return None;
    }
    if separator == b'.' && count == 3 && groups[..3].iter().all(|group| group.len() == 4) {
        return Some((run, hex_pairs(&groups.concat())?));
    }
    // A name cannot contain colons, so a seventh group becomes the next token. It can contain `.`
    // and `-`, and the longer name wins.
    if count != 6 || !groups.iter().all(|group| matches!(group.len(), 1 | 2)) {
        return None;
    }
    let mut mac = [0_u8; 6];
    for (byte, group) in mac.iter_mut().zip(&groups) {
        *byte = u8::from_str_radix(group, 16).ok()?;
    }
    Some((run, mac))
}

/// Returns the longest IPv6 address that begins here.
fn ipv6_length(rest: &str) -> Option<(usize, Ipv6Addr)> {
    const LONGEST: usize = 45;
    // Eight groups, or two colons in a row for missing groups.
    const COLONS: usize = 7;
    if rest.starts_with(":::") {
        return None;
    }
    let run = rest
        .bytes()
        .take(LONGEST + 1)
        .take_while(|&b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
        .count();
    let run_bytes = &rest.as_bytes()[..run];
    let colons = run_bytes.iter().filter(|&&b| b == b':').count();
    if colons < 2 {
        return None;
    }
    let with_ipv4 = run_bytes.contains(&b'.');
    if colons < COLONS - usize::from(with_ipv4) && !run_bytes.windows(2).any(|two| two == b"::") {
        return None;
    }
    let address = (2..=run)
        .rev()
        .find_map(|len| Some((len, rest[..len].parse().ok()?)));
    // `1::2::3` is an error, not an address followed by something.
    address.filter(|&(len, _)| !rest[len..].starts_with(':'))
}

/// Returns the length of numbers with colons that form no address.
fn colons_length(rest: &str) -> Option<usize> {
    if rest.starts_with(':') {
        return None;
    }
    let run = rest
        .bytes()
        .take_while(|&b| b.is_ascii_hexdigit() || b == b':')
        .count();
    let colons = rest[..run].bytes().filter(|&b| b == b':').count();
    (colons >= 2).then_some(run)
}

/// Returns a hint for a word that is not allowed at its place.
pub(super) fn word_hint(word: &str) -> Option<Hint> {
    let display = [
        "tcp.", "udp.", "ip.", "ipv6.", "eth.", "frame.", "http.", "dns.", "arp.",
    ];
    if display.iter().any(|prefix| word.starts_with(prefix)) {
        return Some(Hint::DisplayFilter);
    }
    let lower = word.to_ascii_lowercase();
    if lower != word && keyword::lookup(&lower).is_some() {
        return Some(Hint::LowerCase);
    }
    None
}

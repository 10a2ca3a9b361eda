//! Generates random expressions from a string of choices. Most of them are valid; some have wrong
//! qualifiers or ranges, so that rejection is tested too. The link type determines the primitives,
//! so that most of them have a meaning there.

mod words;

use words::*;

/// A sequence of choices. When it ends, the first alternative is always chosen, which ends every
/// recursion.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Makes choices from bytes, one byte each.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                usize::from(first).checked_rem(count).unwrap_or(0)
            }
            None => 0,
        }
    }

    fn pick<'b>(&mut self, list: &[&'b str]) -> &'b str {
        list[self.below(list.len())]
    }
}

/// A link type, and its primitives besides the general ones.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// DLT value.
    pub dlt: u32,
    own: &'static [&'static [&'static str]],
}

impl Link {
    /// Ethernet.
    pub const ETHERNET: Self = LINKS[0];
}

/// Returns one of the link types.
pub fn link_type(choices: &mut Choices<'_>) -> Link {
    LINKS[choices.below(LINKS.len())]
}

/// Returns an expression for Ethernet.
pub fn expression(choices: &mut Choices<'_>) -> String {
    expression_for(Link::ETHERNET, choices)
}

/// Returns an expression for a link type.
pub fn expression_for(link: Link, choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    conditions(choices, link, 4, &mut text);
    text
}

fn conditions(c: &mut Choices<'_>, link: Link, depth: u32, out: &mut String) {
    condition(c, link, depth, out);
    for _ in 0..c.below(3) {
        out.push_str(c.pick(&[" and ", " or ", " && ", " || "]));
        // A value alone inherits the qualifiers before it.
        if c.below(4) == 3 {
            value(c, out);
        } else {
            condition(c, link, depth, out);
        }
    }
}

fn condition(c: &mut Choices<'_>, link: Link, depth: u32, out: &mut String) {
    let kinds = if depth == 0 { 5 } else { 8 };
    match c.below(kinds) {
        0 => out.push_str(c.pick(PROTOCOLS)),
        1 => qualified(c, out),
        2 => template(c, SPECIAL, out),
        3 => {
            arithmetic(c, depth.min(2), out);
            out.push_str(c.pick(&[" = ", " != ", " > ", " >= ", " < ", " <= ", "=="]));
            arithmetic(c, depth.min(1), out);
        }
        4 => {
            let list = c.below(link.own.len());
            template(c, link.own.get(list).copied().unwrap_or(SPECIAL), out);
        }
        5 => {
            out.push_str(c.pick(&["not ", "!"]));
            condition(c, link, depth - 1, out);
        }
        _ => {
            out.push('(');
            conditions(c, link, depth - 1, out);
            out.push(')');
        }
    }
}

/// Fills one of the templates: `#` is a number, `@` a hardware address, `~` a comparison and `^`
/// one of order or equality.
fn template(c: &mut Choices<'_>, templates: &[&str], out: &mut String) {
    for character in c.pick(templates).chars() {
        match character {
            '#' => out.push_str(c.pick(NUMBERS)),
            '@' => out.push_str(c.pick(MACS)),
            '~' => out.push_str(c.pick(&["=", ">", "<", ">=", "<=", "!="])),
            // libpcap compiles != of these as =.
            '^' => out.push_str(c.pick(&["=", ">", "<", ">=", "<="])),
            other => out.push(other),
        }
    }
}

fn qualified(c: &mut Choices<'_>, out: &mut String) {
    let protocol = c.pick(&[
        "", "", "", "ip ", "ip6 ", "tcp ", "udp ", "ether ", "arp ", "rarp ", "sctp ", "icmp ",
        "wlan ", "decnet ", "fddi ", "iso ",
    ]);
    let direction = c.pick(&[
        "",
        "",
        "src ",
        "dst ",
        "src or dst ",
        "src and dst ",
        "dst or src ",
    ]);
    out.push_str(protocol);
    out.push_str(direction);
    let kind = c.pick(&[
        "host ",
        "net ",
        "port ",
        "portrange ",
        "proto ",
        "",
        "protochain ",
    ]);
    out.push_str(kind);
    match kind {
        _ if c.below(12) == 11 => value(c, out),
        "port " => out.push_str(c.pick(PORTS)),
        "portrange " => out.push_str(c.pick(RANGES)),
        "net " => out.push_str(c.pick(NETS)),
        "proto " | "protochain " => out.push_str(c.pick(NUMBERS)),
        _ if protocol == "decnet " => out.push_str(c.pick(&["10.123", "1.1"])),
        _ if matches!(protocol, "ether " | "wlan " | "fddi ") => out.push_str(c.pick(MACS)),
        _ if c.below(4) == 3 => {
            out.push('(');
            value(c, out);
            out.push_str(" or ");
            value(c, out);
            out.push(')');
        }
        _ => out.push_str(c.pick(HOSTS)),
    }
}

fn value(c: &mut Choices<'_>, out: &mut String) {
    let list = [HOSTS, NETS, PORTS, RANGES, MACS, NUMBERS];
    let list = list[c.below(list.len())];
    out.push_str(c.pick(list));
}

fn arithmetic(c: &mut Choices<'_>, depth: u32, out: &mut String) {
    let kinds = if depth == 0 { 3 } else { 7 };
    match c.below(kinds) {
        0 => out.push_str(c.pick(CONSTANTS)),
        1 => out.push_str("len"),
        2 | 3 => {
            out.push_str(c.pick(INDEXED));
            out.push('[');
            match c.below(4) {
                3 if depth > 0 => arithmetic(c, depth - 1, out),
                _ => out.push_str(c.pick(OFFSETS)),
            }
            out.push_str(c.pick(&["", "", ":1", ":2", ":4"]));
            out.push(']');
        }
        4 => {
            out.push_str("- ");
            arithmetic(c, depth - 1, out);
        }
        5 => {
            out.push('(');
            arithmetic(c, depth - 1, out);
            out.push(')');
        }
        _ => {
            arithmetic(c, depth - 1, out);
            out.push_str(c.pick(OPERATORS));
            arithmetic(c, depth - 1, out);
        }
    }
}

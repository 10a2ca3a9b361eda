//! Steps and cost as sentences.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::rc::Rc;

use super::behind;
use super::field::{self, Field, Where};
use super::number::{self, Style};
use super::step::{Choice, Part, Ranges, Step, What};
use super::symbol::{Kind, Symbol};
use super::trace::{Facts, Goal, Node};
use super::{Cost, Explanation};
use crate::LinkType;
use crate::ir::Relation;
use crate::program::opcode as op;

/// The maximum length of a line, in columns.
const WIDTH: usize = 96;

pub(super) fn write(explanation: &Explanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let steps = &explanation.steps;
    let numbers: HashMap<usize, usize> = steps.iter().map(|step| step.at).zip(1..).collect();
    let writer = Writer {
        link: explanation.link_type,
        numbers: &numbers,
    };
    if steps.is_empty() {
        let goal = writer.goal(explanation.start, "every packet");
        writeln!(f, "{}", capital(&goal))?;
    }
    for (step, number) in steps.iter().zip(1..) {
        wrapped(f, &format!("{number:>3}  "), &writer.step(step))?;
    }
    writeln!(f)?;
    for (name, text) in cost(&explanation.cost) {
        wrapped(f, &format!("{name:<14}"), &text)?;
    }
    Ok(())
}

/// Writes text in lines; all but the first are indented by the width of `head`.
fn wrapped(f: &mut fmt::Formatter<'_>, head: &str, text: &str) -> fmt::Result {
    let indent = head.chars().count();
    let mut column = indent;
    f.write_str(head)?;
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > WIDTH {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        } else if index > 0 {
            f.write_str(" ")?;
            column += 1;
        }
        f.write_str(word)?;
        column += width;
    }
    writeln!(f)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars).collect()
}

struct Writer<'a> {
    link: LinkType,
    /// The number of each step, by its first comparison.
    numbers: &'a HashMap<usize, usize>,
}

/// A value in words, and the style of its numbers.
struct Said {
    text: String,
    style: Style,
    largest: u32,
}

impl Writer<'_> {
    fn step(&self, step: &Step) -> String {
        match &step.what {
            What::Choice(choice) => self.choice(choice, &step.facts),
            What::Fields { parts, yes, no } => {
                let condition = self.fields(parts, &step.facts);
                format!("if {condition}, {}", self.either(*yes, *no))
            }
            What::Test(node) => {
                let condition = self.test(node);
                if node.yes == node.no {
                    // The outcome decides which value is computed on the way.
                    return format!("see whether {condition}, {}", self.goal(node.yes, "it"));
                }
                format!("if {condition}, {}", self.either(node.yes, node.no))
            }
        }
    }

    fn either(&self, yes: Goal, no: Goal) -> String {
        format!("{}; else {}", self.goal(yes, "it"), self.goal(no, "it"))
    }

    fn goal(&self, goal: Goal, packet: &str) -> String {
        match goal {
            Goal::Node(at) => match self.numbers.get(&at) {
                Some(number) => format!("go to {number}"),
                // No goal names a merged comparison.
                None => "continue".to_owned(),
            },
            Goal::Return(0) => format!("reject {packet}"),
            Goal::Return(_) => format!("accept {packet}"),
            Goal::ReturnComputed => format!("accept as much of {packet} as was computed"),
        }
    }

    fn choice(&self, choice: &Choice, facts: &Facts) -> String {
        let said = self.value(&choice.value, facts);
        let otherwise = self.goal(choice.otherwise, "it");
        if choice.cases.is_empty() {
            return format!("whatever {} is, {otherwise}", said.text);
        }
        let mut text = String::new();
        let mut subject = said.text.as_str();
        for (ranges, goal) in &choice.cases {
            let numbers = self.numbers_in(ranges, &said, &choice.value);
            text += &format!("if {subject} is {numbers}, {}; ", self.goal(*goal, "it"));
            subject = "it";
        }
        text + "else " + &otherwise
    }

    fn numbers_in(&self, ranges: &Ranges, said: &Said, value: &Rc<Symbol>) -> String {
        let (_, mask) = value.masked();
        let network = said.style == Style::Ipv4 && mask != u32::MAX;
        let all: Vec<String> = ranges
            .iter()
            .map(|range| {
                let text = said.style.range(range, said.largest);
                if network && range.start() == range.end() {
                    format!("in {text}{}", prefix(mask))
                } else {
                    text
                }
            })
            .collect();
        listed(&all)
    }

    /// Describes neighbouring fields that equal numbers.
    fn fields(&self, parts: &[Part], facts: &Facts) -> String {
        let start = parts.first().map_or(0, |part| part.offset);
        let total: u32 = parts.iter().map(|part| part.bytes).sum();
        let place = place(start, total);
        let first = parts.first();
        let name = first.and_then(|part| field::at(self.link, facts, part.offset, part.bytes));
        let name = name.filter(|field| field.part.is_none_or(|(start, _)| start == 0));
        let subject = match name {
            Some(field) => format!("the {} ({place})", field.name),
            None => format!("the number in {place}"),
        };
        if let Some(address) = ipv6(parts).filter(|_| name.is_some()) {
            return format!("{subject} is {address}");
        }
        let masked = parts.iter().any(|part| part.mask != u32::MAX);
        let bytes = parts.iter().flat_map(|part| {
            let bytes = part.number.to_be_bytes();
            bytes.into_iter().skip(4 - part.bytes as usize)
        });
        let bytes: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
        let number = bytes.join(":");
        if masked {
            let masks: Vec<String> = parts.iter().map(|p| format!("{:x}", p.mask)).collect();
            let masks = masks.join(", ");
            return format!("{subject}, under the masks {masks}, is {number}");
        }
        format!("{subject} is {number}")
    }

    fn test(&self, node: &Node) -> String {
        let left = self.value(&node.left, &node.facts);
        let right = match node.right.number() {
            Some(number) if node.relation == Relation::AnyBit => {
                return self.any_bit(node, number);
            }
            Some(number) => left.style.text(number),
            None => self.value(&node.right, &node.facts).text,
        };
        match node.relation {
            Relation::Equal => format!("{} equals {right}", left.text),
            Relation::Greater => format!("{} is greater than {right}", left.text),
            Relation::GreaterEqual => format!("{} is at least {right}", left.text),
            Relation::AnyBit => format!("{} and {right} have a bit in common", left.text),
        }
    }

    /// Describes the test whether any bit of a mask is set.
    fn any_bit(&self, node: &Node, mask: u32) -> String {
        if let Kind::Load { bytes, .. } = node.left.kind
            && let Some((field, place)) = self.field(&node.left, &node.facts)
        {
            if let Some(bits) = field::bits(field.name, mask)
                && field.part.is_none()
            {
                let place = in_place(mask, bytes, &place);
                return format!("the {} ({place}) is not 0", bits.name);
            }
            if field.name == "destination address" && mask == 1 && field.part == Some((0, 1)) {
                return format!("the group bit of the destination address ({place}) is set");
            }
            if field.style == Style::TcpFlags {
                let flags = Style::TcpFlags.text(mask);
                return format!("any of {flags} is set in the TCP flags ({place})");
            }
        }
        let left = self.value(&node.left, &node.facts);
        let any = if mask.count_ones() == 1 {
            "bit"
        } else {
            "any of the bits"
        };
        format!("{any} {mask:#x} of {} is set", left.text)
    }

    /// Describes a number.
    fn value(&self, value: &Rc<Symbol>, facts: &Facts) -> Said {
        let (inner, mask) = value.masked();
        let named = (mask != u32::MAX).then(|| self.masked(&inner, mask, facts));
        named.flatten().unwrap_or_else(|| self.plain(value, facts))
    }

    /// Describes a number as an operand of arithmetic: bits of a field have no names there.
    fn plain(&self, value: &Rc<Symbol>, facts: &Facts) -> Said {
        let plain = |text: String| Said {
            text,
            style: Style::Decimal,
            largest: u32::MAX,
        };
        if behind::is_header_length(self.link, value) {
            let name = behind::header(self.link);
            return plain(format!("the length of the {name} header"));
        }
        match &value.kind {
            Kind::Start(start) => plain(start.name().to_owned()),
            Kind::Constant(number) => plain(number.to_string()),
            Kind::Length => plain("the packet's length".to_owned()),
            Kind::Ancillary(number) if op::question(*number).is_some() => {
                let question = op::question(*number).unwrap_or_default() + 1;
                plain(format!("answer {question} about the control group"))
            }
            Kind::Ancillary(number) => Said {
                style: match *number {
                    op::SKF_AD_PKTTYPE => Style::PacketType,
                    op::PROCESS_NAME..op::PROCESS_ANSWERS => Style::Text,
                    _ => Style::Decimal,
                },
                ..plain(format!("the {}", number::ancillary(*number)))
            },
            Kind::HeaderLength(offset) => {
                plain(format!("the length of the IPv4 header at {offset}"))
            }
            Kind::Negated(inner) => plain(format!("-({})", self.plain(inner, facts).text)),
            Kind::Unknown => plain("the number computed before".to_owned()),
            Kind::Word(number) => plain(format!("M[{number}]")),
            Kind::Field { name, style, bytes } => Said {
                text: format!("the {name}"),
                style: *style,
                largest: largest(*bytes),
            },
            Kind::Arithmetic(operation, left, right) => {
                let operand = |side| {
                    let said = self.plain(side, facts);
                    match side.kind {
                        Kind::Arithmetic(..) => format!("({})", said.text),
                        _ => said.text,
                    }
                };
                let right = match right.number() {
                    Some(number) if is_bitwise(*operation) => format!("{number:#x}"),
                    _ => operand(right),
                };
                plain(format!("{} {} {right}", operand(left), sign(*operation)))
            }
            Kind::Load { bytes, .. } => self.load(value, *bytes, facts),
        }
    }

    fn load(&self, value: &Rc<Symbol>, bytes: u32, facts: &Facts) -> Said {
        let largest = largest(bytes);
        match self.field(value, facts) {
            Some((field, place)) => Said {
                text: match field.part {
                    None => format!("the {} ({place})", field.name),
                    Some((start, count)) => {
                        let part = match start {
                            0 => format!("first {}", counted(count)),
                            _ => format!("{} from {start} on", counted(count)),
                        };
                        format!("the {part} of the {} ({place})", field.name)
                    }
                },
                style: field.style,
                largest,
            },
            None => Said {
                text: self.somewhere(value, facts),
                style: Style::Hex,
                largest,
            },
        }
    }

    /// Describes a field under a mask, if that has a name or is a network.
    fn masked(&self, inner: &Rc<Symbol>, mask: u32, facts: &Facts) -> Option<Said> {
        let Kind::Load { bytes, .. } = inner.kind else {
            return None;
        };
        let (field, place) = self.field(inner, facts)?;
        if let Some(bits) = field::bits(field.name, mask).filter(|_| field.part.is_none()) {
            return Some(Said {
                text: format!("the {} ({})", bits.name, in_place(mask, bytes, &place)),
                style: bits.style,
                largest: u32::MAX,
            });
        }
        let style = field.style;
        let text = match style {
            Style::Ipv4 => format!("the {} ({place})", field.name),
            Style::TcpFlags => format!("the TCP flags ({place}) & {}", style.text(mask)),
            _ => return None,
        };
        Some(Said {
            text,
            style,
            largest: u32::MAX,
        })
    }

    /// Returns the field that a load reads, and its place as text.
    fn field(&self, value: &Symbol, facts: &Facts) -> Option<(Field, String)> {
        let Kind::Load { bytes, .. } = value.kind else {
            return None;
        };
        let (field, at) = field::of(self.link, facts, value)?;
        Some((
            field,
            match at {
                Where::Packet(offset) => place(offset, bytes),
                Where::BehindIpv4(offset) => behind_header(offset, bytes),
                Where::From(start, offset) => format!("{} {}", place(offset, bytes), start.place()),
            },
        ))
    }

    /// Describes bytes that have no name.
    fn somewhere(&self, value: &Symbol, facts: &Facts) -> String {
        let Kind::Load {
            bytes,
            index,
            offset,
        } = &value.kind
        else {
            return String::new();
        };
        let Some(index) = index else {
            return place(*offset, *bytes);
        };
        if let Kind::HeaderLength(header) = index.kind
            && *offset >= header
        {
            return behind_header(offset - header, *bytes);
        }
        if let Some((start, distance)) = behind::place(self.link, index)
            && let Some(offset) = distance.checked_add(*offset)
        {
            return format!("{} {}", place(offset, *bytes), start.place());
        }
        let (terms, constant) = self.sum(index, facts);
        let offset = offset.wrapping_add(constant);
        let place = match offset {
            0 => terms,
            offset if offset > i32::MAX as u32 => format!("{terms} - {}", offset.wrapping_neg()),
            offset => format!("{terms} + {offset}"),
        };
        format!("the {} at {place}", counted(*bytes))
    }

    /// Returns a sum as its terms and the constant in it.
    fn sum(&self, value: &Rc<Symbol>, facts: &Facts) -> (String, u32) {
        let Kind::Arithmetic(op::ADD, left, right) = &value.kind else {
            let text = self.plain(value, facts).text;
            return match value.kind {
                Kind::Arithmetic(..) => (format!("({text})"), 0),
                _ => (text, 0),
            };
        };
        let (inner, number) = match (left.number(), right.number()) {
            (_, Some(number)) => (left, number),
            (Some(number), _) => (right, number),
            (None, None) => {
                let (left, first) = self.sum(left, facts);
                let (right, second) = self.sum(right, facts);
                return (format!("{left} + {right}"), first.wrapping_add(second));
            }
        };
        let (terms, constant) = self.sum(inner, facts);
        (terms, constant.wrapping_add(number))
    }
}

fn place(offset: u32, bytes: u32) -> String {
    match bytes {
        1 => format!("byte {offset}"),
        _ => format!("bytes {offset}–{}", offset.saturating_add(bytes - 1)),
    }
}

fn behind_header(offset: u32, bytes: u32) -> String {
    format!("{} after the IPv4 header", place(offset, bytes))
}

/// Returns the largest number of this many bytes.
fn largest(bytes: u32) -> u32 {
    u32::MAX.checked_shr(32 - 8 * bytes).unwrap_or(u32::MAX)
}

fn counted(bytes: u32) -> String {
    match bytes {
        1 => "byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

/// Describes the bits of a place under a mask.
fn in_place(mask: u32, bytes: u32, place: &str) -> String {
    let width = 8 * bytes;
    let low = mask.trailing_zeros();
    let count = mask.count_ones();
    if count == width {
        return place.to_owned();
    }
    match (low, count) {
        (0, 1) => format!("the lowest bit of {place}"),
        (0, count) if mask.trailing_ones() == count => format!("the low {count} bits of {place}"),
        (low, count) if low + count == width => format!("the high {count} bits of {place}"),
        _ => format!("{mask:#x} of {place}"),
    }
}

/// Returns a netmask as text after an address.
fn prefix(mask: u32) -> String {
    let ones = mask.leading_ones();
    if mask.count_ones() == ones {
        format!("/{ones}")
    } else {
        format!(" mask {}", Style::Ipv4.text(mask))
    }
}

/// Returns the IPv6 address or network that words from its first one on make.
fn ipv6(parts: &[Part]) -> Option<String> {
    if parts.len() > 4 || parts.iter().any(|part| part.bytes != 4) {
        return None;
    }
    let bits = |word: fn(&Part) -> u32| {
        let words = (0..4).map(|at| parts.get(at).map_or(0, word));
        words.fold(0, |bits, word| bits << 32 | u128::from(word))
    };
    let (address, mask) = (bits(|part| part.number), bits(|part| part.mask));
    let text = Ipv6Addr::from_bits(address);
    let ones = mask.leading_ones();
    match ones {
        128 => Some(text.to_string()),
        ones if mask.count_ones() == ones => Some(format!("in {text}/{ones}")),
        _ => None,
    }
}

fn is_bitwise(operation: u16) -> bool {
    matches!(operation, op::AND | op::OR | op::XOR)
}

fn sign(operation: u16) -> &'static str {
    match operation {
        op::ADD => "+",
        op::SUB => "-",
        op::MUL => "*",
        op::DIV => "/",
        op::OR => "|",
        op::AND => "&",
        op::LSH => "<<",
        op::RSH => ">>",
        op::MOD => "%",
        _ => "^",
    }
}

/// Joins texts as `a, b or c`.
fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Returns the lines of the cost: name and value.
fn cost(cost: &Cost) -> Vec<(&'static str, String)> {
    let shortest = cost.shortest;
    let way = match cost.longest {
        Some(longest) if longest == shortest => format!("{shortest} executed on every path"),
        Some(longest) => {
            format!("{shortest} executed on the shortest path, {longest} on the longest")
        }
        None => format!("{shortest} executed on the shortest path; a loop decides on the longest"),
    };
    let mut lines = vec![("instructions", format!("{}; {way}", cost.instructions))];
    let bytes = cost.bytes.iter();
    let bytes = bytes.map(|range| match (range.start(), range.end()) {
        (start, end) if start == end => start.to_string(),
        (start, end) => format!("{start}–{end}"),
    });
    let mut bytes: Vec<String> = bytes.collect();
    if cost.computed_offsets {
        bytes.push("some at computed offsets".to_owned());
    }
    let bytes = match bytes.is_empty() {
        true => "none".to_owned(),
        false => bytes.join(", "),
    };
    lines.push(("packet bytes", bytes));
    if !cost.ancillary.is_empty() {
        lines.push(("metadata", cost.ancillary.join(", ")));
    }
    let kernel = if cost.has_loop {
        "accepts no program with a loop".to_owned()
    } else if cost.asks_for_process {
        "has no program for sockets that asks for the process; a tap with --who does".to_owned()
    } else if cost.fits_kernel() {
        format!(
            "accepts the program: at most {} instructions, no loop",
            op::KERNEL_MAX_INSNS
        )
    } else {
        format!("accepts at most {} instructions", op::KERNEL_MAX_INSNS)
    };
    lines.push(("kernel", kernel));
    lines
}

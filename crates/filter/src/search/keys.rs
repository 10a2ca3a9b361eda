//! The keys of a packet.

use crate::ir::{Condition, Relation, Size, Test, Value, ValueId, Values, apply};
use crate::language::ast::{Junction, Tunnel};
use crate::lower::{self, LookedAt, Mark, SHIFTS};
use crate::resolve::Tables;
use crate::{CompileOptions, LinkType, link};

use super::common;

/// The most headers, one inside another, that are followed although they move all later offsets.
const DEPTH: usize = 8;
/// The most combinations of headers that are followed.
const PLACES: usize = 256;

/// A property that a packet can be found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// An IPv4 address, in host byte order.
    Ip4(u32),
    /// An IPv6 address, in host byte order.
    Ip6(u128),
    /// A port of TCP, UDP or SCTP.
    Port(u16),
}

/// Whether the keys of a packet are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Followed {
    /// All of them were reported.
    Wholly,
    /// The headers could not be followed: the packet may have any key.
    No,
}

/// Reads the keys of packets of one link type.
pub struct KeyReader {
    options: CompileOptions,
    first: Node,
    /// How many more nodes may be made.
    left: usize,
    cells: Vec<u32>,
}

/// The keys after certain headers.
struct Node {
    shifts: Vec<Tunnel>,
    values: Values,
    before: Step,
    /// `None` if the language has no tests, so that nothing is known about such a packet.
    tests: Option<[Step; 3]>,
    /// One node per header that can follow; `None` until a packet first gets here.
    children: Option<Vec<Node>>,
}

/// A condition in which the marks have been found.
enum Step {
    Constant(bool),
    Test(Test),
    Set(usize, ValueId),
    Not(Box<Step>),
    All(Vec<Step>),
    Any(Vec<Step>),
    Key(Mark, ValueId),
}

/// The reason why a condition has no outcome.
enum Lost {
    /// A load beyond the packet: a program that takes this path rejects the packet. If a program
    /// accepts the packet, it takes another path.
    Beyond,
    /// The value that a program would find is unknown.
    Unknown,
}

impl KeyReader {
    /// Returns a reader for packets that [`compile`](crate::compile) would filter with the same
    /// options, or `None` for link types that it does not support.
    #[must_use]
    pub fn new(options: &CompileOptions) -> Option<Self> {
        Some(Self {
            options: options.clone(),
            first: Node::new(options, Vec::new())?,
            left: PLACES,
            cells: Vec::new(),
        })
    }

    /// Calls `tell` with each key of a packet of `len` bytes on the wire, of which `data` was
    /// captured. The same key may be reported several times, and some keys may be ones that no
    /// filter finds.
    pub fn read(&mut self, data: &[u8], len: u32, mut tell: impl FnMut(Key)) -> Followed {
        if self.options.link_type == LinkType::ETHERNET && common::read(data, &mut tell) {
            return Followed::Wholly;
        }
        self.evaluate(data, len, tell)
    }

    /// Evaluates the conditions of the language, which are right for any packet.
    fn evaluate(&mut self, data: &[u8], len: u32, mut tell: impl FnMut(Key)) -> Followed {
        let packet = Packet { data, len };
        let mut at = Visit {
            options: &self.options,
            left: &mut self.left,
            cells: &mut self.cells,
        };
        match at.node(&mut self.first, packet, &mut tell) {
            Ok(()) | Err(Lost::Beyond) => Followed::Wholly,
            Err(Lost::Unknown) => Followed::No,
        }
    }
}

impl Node {
    /// Returns `None` if these headers cannot follow each other.
    fn new(options: &CompileOptions, shifts: Vec<Tunnel>) -> Option<Self> {
        let link = link::link_layer(options)?;
        let mut values = Values::new(true);
        let looked = lower::looked_at(options, &*link, &shifts, &Tables::new(), &mut values);
        let LookedAt { before, tests } = looked?;
        let before = Step::new(before, &values);
        let tests = tests.map(|tests| tests.map(|test| Step::new(test, &values)));
        Some(Self {
            shifts,
            values,
            before,
            tests,
            children: None,
        })
    }

    fn children(&self, options: &CompileOptions) -> Vec<Self> {
        let behind = |shift| {
            let shifts = self.shifts.iter().copied().chain([shift]).collect();
            Self::new(options, shifts)
        };
        SHIFTS.into_iter().filter_map(behind).collect()
    }
}

impl Step {
    fn new(condition: Condition, values: &Values) -> Self {
        let each = |list: Vec<Condition>| list.into_iter().map(|part| Self::new(part, values));
        match condition {
            Condition::Constant(constant) => Self::Constant(constant),
            Condition::Test(test) => match (test.relation, values.number_of(test.right)) {
                (Relation::Equal, Some(number)) => match Mark::of(number) {
                    Some(mark) => Self::Key(mark, test.left),
                    None => Self::Test(test),
                },
                _ => Self::Test(test),
            },
            Condition::Set(cell, value) => Self::Set(cell.0 as usize, value),
            Condition::Not(inner) => Self::Not(Box::new(Self::new(*inner, values))),
            Condition::All(list) => Self::All(each(list).collect()),
            Condition::Any(list) => Self::Any(each(list).collect()),
            // These conditions come from the crate, not from a user's expression, and are short.
            Condition::Chain(first, rest) => {
                let first = Self::new(*first, values);
                rest.into_iter().fold(first, |before, (junction, next)| {
                    let both = vec![before, Self::new(next, values)];
                    match junction {
                        Junction::And => Self::All(both),
                        Junction::Or => Self::Any(both),
                    }
                })
            }
        }
    }
}

/// The path of one packet through the nodes.
struct Visit<'a> {
    options: &'a CompileOptions,
    left: &'a mut usize,
    cells: &'a mut Vec<u32>,
}

impl Visit<'_> {
    fn node(
        &mut self,
        node: &mut Node,
        packet: Packet<'_>,
        tell: &mut impl FnMut(Key),
    ) -> Result<(), Lost> {
        self.cells.clear();
        self.cells.resize(node.values.cells() as usize, 0);
        let mut evaluation = Evaluation {
            values: &node.values,
            cells: self.cells,
            packet,
            ip6: [0; 4],
            tell,
        };
        if !evaluation.holds(&node.before)? {
            return Ok(());
        }
        let tests = node.tests.as_ref().ok_or(Lost::Unknown)?;
        for test in tests {
            evaluation.holds(test)?;
        }
        if node.shifts.len() == DEPTH {
            return Err(Lost::Unknown);
        }
        if node.children.is_none() {
            let children = node.children(self.options);
            let left = self.left.checked_sub(children.len());
            *self.left = left.ok_or(Lost::Unknown)?;
            node.children = Some(children);
        }
        for child in node.children.iter_mut().flatten() {
            self.node(child, packet, tell)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Packet<'a> {
    data: &'a [u8],
    len: u32,
}

/// Evaluates conditions on a packet. A comparison with a mark reports the packet's value, and then
/// counts as false so that alternatives are evaluated as well.
struct Evaluation<'a, F> {
    values: &'a Values,
    cells: &'a mut Vec<u32>,
    packet: Packet<'a>,
    /// The words of an IPv6 address that is not complete yet.
    ip6: [u32; 4],
    tell: &'a mut F,
}

impl<F: FnMut(Key)> Evaluation<'_, F> {
    /// Returns whether a condition holds. It does not if the packet ends before its bytes.
    fn holds(&mut self, step: &Step) -> Result<bool, Lost> {
        match self.step(step) {
            Err(Lost::Beyond) => Ok(false),
            result => result,
        }
    }

    fn step(&mut self, step: &Step) -> Result<bool, Lost> {
        Ok(match step {
            Step::Constant(constant) => *constant,
            Step::Test(test) => {
                let (left, right) = (self.value(test.left)?, self.value(test.right)?);
                test.relation.holds(left, right)
            }
            Step::Set(cell, value) => {
                let value = self.value(*value)?;
                *self.cells.get_mut(*cell).ok_or(Lost::Unknown)? = value;
                true
            }
            Step::Not(inner) => !self.step(inner)?,
            Step::All(list) => {
                for part in list {
                    if !self.step(part)? {
                        return Ok(false);
                    }
                }
                true
            }
            Step::Any(list) => {
                for part in list {
                    if self.holds(part)? {
                        return Ok(true);
                    }
                }
                false
            }
            Step::Key(mark, value) => {
                let value = match (self.value(*value), mark) {
                    // A test of a network may read the first words only.
                    (Err(Lost::Beyond), Mark::Ip6(_)) => return Err(Lost::Unknown),
                    (value, _) => value?,
                };
                self.key(*mark, value)
            }
        })
    }

    fn key(&mut self, mark: Mark, value: u32) -> bool {
        match mark {
            Mark::Ip4 => (self.tell)(Key::Ip4(value)),
            Mark::Port => match value.try_into() {
                Ok(port) => (self.tell)(Key::Port(port)),
                Err(_) => return true,
            },
            Mark::Ip6(word) => {
                self.ip6[word] = value;
                if word < 3 {
                    return true;
                }
                let join = |bits, word: &u32| bits << 32 | u128::from(*word);
                (self.tell)(Key::Ip6(self.ip6.iter().fold(0, join)));
            }
        }
        false
    }

    fn value(&self, id: ValueId) -> Result<u32, Lost> {
        Ok(match self.values.get(id) {
            Value::Constant(number) | Value::Folded(number) => number,
            Value::Length => self.packet.len,
            Value::Load {
                size,
                index,
                offset,
            } => {
                let index = index.map_or(Ok(0), |index| self.value(index))?;
                self.load(size, u64::from(index) + u64::from(offset))?
            }
            Value::HeaderLength { offset } => 4 * (self.load(Size::Byte, u64::from(offset))? & 0xf),
            Value::Cell(cell) => *self.cells.get(cell.0 as usize).ok_or(Lost::Unknown)?,
            Value::Negate(inner) => self.value(inner)?.wrapping_neg(),
            Value::Binary(operator, left, right) => {
                let outcome = apply(operator, self.value(left)?, self.value(right)?);
                outcome.ok_or(Lost::Unknown)?
            }
            Value::Ancillary { .. } | Value::Chain(_) => return Err(Lost::Unknown),
        })
    }

    fn load(&self, size: Size, at: u64) -> Result<u32, Lost> {
        if at > u64::from(u32::MAX) {
            // A program would wrap the sum around.
            return Err(Lost::Unknown);
        }
        let at = usize::try_from(at).map_err(|_| Lost::Unknown)?;
        let rest = self.packet.data.get(at..);
        let bytes = rest.and_then(|rest| rest.get(..size.bytes()));
        let join = |number, byte: &u8| number << 8 | u32::from(*byte);
        Ok(bytes.ok_or(Lost::Beyond)?.iter().fold(0, join))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers that are read at once, each with other bytes at places that a test changes.
    const FRAMES: [&[u8]; 4] = [
        &[0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6],
        &[
            0x81, 0, 0, 5, 0x08, 0, 0x46, 0, 0, 40, 0, 0, 0x20, 0, 64, 17,
        ],
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 132, 64],
        &[
            0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17,
        ],
    ];

    fn sorted(keys: Vec<Key>) -> Vec<Key> {
        let mut keys = keys;
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the keys of both ways, and whether there was a short one.
    fn both(reader: &mut KeyReader, data: &[u8]) -> Option<[Vec<Key>; 2]> {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        if !common::read(data, &mut |key| short.push(key)) {
            assert_eq!(short, [], "told before it was certain");
            return None;
        }
        let len = u32::try_from(data.len()).expect("is short");
        let followed = reader.evaluate(data, len, |key| long.push(key));
        assert_eq!(followed, Followed::Wholly, "{data:02x?}");
        Some([sorted(short), sorted(long)])
    }

    #[test]
    fn both_ways_find_the_same_keys() {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.from_file = true;
        let mut reader = KeyReader::new(&options).expect("Ethernet is supported");
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            usize::try_from(random >> 33).expect("has 31 bits") % below
        };
        let (mut short, mut all) = (0, 0);
        for round in 0..40_000 {
            let headers = FRAMES[round % FRAMES.len()];
            let mut frame = [&[2; 12], headers].concat();
            let byte = |_| u8::try_from(next(256)).expect("is a byte");
            frame.extend((0..90 - frame.len()).map(byte));
            // Up to three bytes become others, often those that tell protocols, tags or tunnels.
            for _ in 0..next(4) {
                let at = 12 + next(60);
                let values = [
                    0x08_u8, 0x81, 0x88, 0x47, 0x64, 0x45, 0x4f, 6, 17, 0x1f, 0x17, 0xc1,
                ];
                frame[at] = values[next(values.len())];
            }
            let whole = frame.len();
            frame.truncate(whole - next(2) * next(whole - 11));
            all += 1;
            if let Some([one, other]) = both(&mut reader, &frame) {
                short += 1;
                assert_eq!(one, other, "{frame:02x?}");
            }
        }
        assert!(short > all / 2, "{short} of {all} were read at once");
        assert!(short < all * 9 / 10, "{short} of {all} were read at once");
    }

    #[test]
    fn tunnels_are_left_to_the_conditions() {
        for port in [4789_u16, 6081] {
            let mut frame = [&[2; 12], FRAMES[0]].concat();
            frame.resize(80, 0);
            frame[23] = 17;
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            assert!(!common::read(&frame, &mut |_| {}), "port {port}");
        }
    }
}

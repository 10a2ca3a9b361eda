//! Tests whether a number is in a set, without a jump for each number. A few numbers are compared
//! one after another, more of them as the lanes of vectors.
//!
//! Filters most often test whether one of two neighbouring fields, source and destination, is in a
//! set. Then both are loaded at once, and each field's lanes are compared with their own lanes of
//! constants.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    BlockArg, ConstantData, Endianness, InstBuilder, MemFlags, Type, Value,
};

use super::{Emitter, Load, PacketOffset};
use crate::facts::Bounds;
use crate::op::{Op, Width};
use crate::plan::{How, Join};

/// With fewer constants, single comparisons are shorter than vectors.
const VECTOR_SET: usize = 4;
/// Number of 32-bit constants in a vector.
const LANES: usize = 4;
/// From this many constants on, two fields are compared together.
const PAIRED_SET: usize = 2;
/// With more constants, a set of words is compared with one field after the other, because a vector
/// of constants then serves both.
const PAIRED_WORDS: usize = 16;

/// Two neighbouring fields, each with its set.
pub(super) struct Pair {
    width: Width,
    /// The load of the earlier question, which has been made.
    first: PacketOffset,
    /// The load of the later question.
    second: Load,
    /// The numbers as they lie in the packet, for each field.
    sets: [Vec<u32>; 2],
}

impl Pair {
    fn low_is_first(&self) -> bool {
        self.first.offset < self.second.place.offset
    }

    /// Returns the types of both fields as one number, of a vector of these, and of the same vector
    /// as lanes.
    fn types(&self) -> (Type, Type, Type) {
        match self.width {
            Width::Word => (I64, I64X2, I32X4),
            Width::Half | Width::Byte => (I32, I32X4, I16X8),
        }
    }

    fn lane_bits(&self) -> i64 {
        8 * self.width.bytes().cast_signed()
    }

    /// Returns the constants in the order of their lanes, vector by vector.
    fn vectors(&self) -> Vec<Vec<u8>> {
        let [low, high] = if self.low_is_first() {
            [&self.sets[0], &self.sets[1]]
        } else {
            [&self.sets[1], &self.sets[0]]
        };
        let bytes = match self.width {
            Width::Word => 4,
            Width::Half | Width::Byte => 2,
        };
        let pairs = 16 / (2 * bytes);
        let count = low.len().max(high.len()).next_multiple_of(pairs);
        // The shorter set is filled up with its last constant.
        let at = |set: &[u32], i: usize| {
            set.get(i)
                .or(set.last())
                .map_or([0; 4], |k| k.to_le_bytes())
        };
        let lanes: Vec<u8> = (0..count)
            .flat_map(|i| [at(low, i), at(high, i)])
            .flat_map(|constant| constant.into_iter().take(bytes))
            .collect();
        lanes.chunks(16).map(<[u8]>::to_vec).collect()
    }

    /// Returns a number that is not in the later question's set.
    fn stranger(&self) -> u32 {
        let set = &self.sets[1];
        (0..=u32::MAX).find(|n| !set.contains(n)).unwrap_or(0)
    }
}

impl Emitter<'_, '_, '_> {
    pub(super) fn one_of(&mut self, set: &[u32]) -> Value {
        let (value, set) = match self.accumulator() {
            (_, Some(raw)) => (
                raw.value,
                set.iter()
                    .filter_map(|&k| raw.constant(k))
                    .collect::<Vec<u32>>(),
            ),
            (a, None) => (a, set.to_vec()),
        };
        if set.len() < VECTOR_SET {
            return self.one_of_few(value, &set);
        }
        let lanes = self.builder.ins().splat(I32X4, value);
        let vectors = set.chunks(LANES).map(|group| {
            // A short group is filled up with its last constant.
            (0..LANES)
                .filter_map(|lane| group.get(lane).or(group.last()))
                .flat_map(|k| k.to_le_bytes())
                .collect()
        });
        self.any_lane(lanes, I32X4, vectors)
    }

    fn one_of_few(&mut self, value: Value, set: &[u32]) -> Value {
        let mut found = self.builder.ins().iconst(I8, 0);
        for &k in set {
            let k = self.number(k);
            let equal = self.builder.ins().icmp(IntCC::Equal, value, k);
            found = self.builder.ins().bor(found, equal);
        }
        found
    }

    /// Returns whether any lane equals the same lane of one of the vectors.
    fn any_lane(
        &mut self,
        lanes: Value,
        lane_type: Type,
        vectors: impl Iterator<Item = Vec<u8>>,
    ) -> Value {
        let mut found = None;
        for bytes in vectors {
            let constants = &mut self.builder.func.dfg.constants;
            let constant = constants.insert(ConstantData::from(bytes));
            let group = self.builder.ins().vconst(lane_type, constant);
            let equal = self.builder.ins().icmp(IntCC::Equal, lanes, group);
            found = Some(match found {
                None => equal,
                Some(found) => self.builder.ins().bor(found, equal),
            });
        }
        match found {
            Some(found) => self.builder.ins().vany_true(found),
            None => self.builder.ins().iconst(I8, 0),
        }
    }

    /// Returns the two fields of a join, if its questions are whether either is in its set, the
    /// fields are neighbours, and the first is in `A`.
    pub(super) fn pair(&mut self, join: &Join, proven: Bounds) -> Option<Pair> {
        if join.how != How::Either || join.inverted || join.between.len() != 1 {
            return None;
        }
        let (first, second) = (join.first.constants()?, join.second.constants()?);
        let raw = self.accumulator().1?;
        let place = raw.place?;
        let at = join.between.start;
        let (index, offset, width) = match self.ops[at] {
            Op::Packet { offset, width } => (None, offset, width),
            Op::PacketAtX { offset, width } => (Some(self.index()), offset, width),
            _ => return None,
        };
        let apart = u64::from(place.offset.abs_diff(offset));
        let is_beside = (width, index, apart) == (raw.width, place.index, width.bytes());
        if width == Width::Byte || !is_beside {
            return None;
        }
        let sets = [first, second].map(|set| {
            let mut set: Vec<u32> = set.iter().filter_map(|&k| raw.constant(k)).collect();
            set.sort_unstable();
            set.dedup();
            set
        });
        let most = sets.iter().map(Vec::len).max()?;
        let too_many = width == Width::Word && most > PAIRED_WORDS;
        if most < PAIRED_SET || too_many || sets.iter().any(Vec::is_empty) {
            return None;
        }
        Some(Pair {
            width,
            first: place,
            second: self.load_of(at, proven),
            sets,
        })
    }

    /// Returns whether either field is in its set. If the second field is inside the packet, it is
    /// in `A` afterwards; if not, the answer for it is no.
    pub(super) fn one_of_pair(&mut self, pair: &Pair) -> Value {
        let (_, _, lane_type) = pair.types();
        let lanes = match pair.second.least {
            None => self.both_fields(pair),
            Some(least) => self.fields_inside(pair, least),
        };
        self.any_lane(lanes, lane_type, pair.vectors().into_iter())
    }

    /// Returns both fields if the second is inside the packet; otherwise the first, beside a number
    /// that is not in the second's set.
    fn fields_inside(&mut self, pair: &Pair, least: Value) -> Value {
        let (_, _, lane_type) = pair.types();
        let [inside, cut, lanes] = [(); 3].map(|()| self.builder.create_block());
        self.builder.set_cold_block(cut);
        let fields = self.builder.append_block_param(lanes, lane_type);
        let is_inside = self.captures(least);
        self.builder.ins().brif(is_inside, inside, &[], cut, &[]);
        for (block, whole) in [(inside, true), (cut, false)] {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            let found = if whole {
                self.both_fields(pair)
            } else {
                self.first_field(pair)
            };
            self.builder.ins().jump(lanes, &[BlockArg::from(found)]);
        }
        self.builder.switch_to_block(lanes);
        self.builder.seal_block(lanes);
        fields
    }

    fn both_fields(&mut self, pair: &Pair) -> Value {
        let Load { base, place, .. } = pair.second;
        self.load_a(base, place.offset, pair.width, Some(place));
        let (both, ..) = pair.types();
        let (address, offset) = self.address(base, place.offset.min(pair.first.offset));
        // Like other loads, it must stay after the comparison that proves it in bounds.
        let flags = MemFlags::new().with_notrap();
        let fields = self.builder.ins().load(both, flags, address, offset);
        self.repeated(pair, fields)
    }

    fn first_field(&mut self, pair: &Pair) -> Value {
        let zero = self.number(0);
        self.builder.def_var(self.a, zero);
        let first = self.load(pair.second.base, pair.first.offset, pair.width);
        let stranger = i64::from(pair.stranger());
        let (both, ..) = pair.types();
        let first = if both == I64 {
            self.builder.ins().uextend(I64, first)
        } else {
            first
        };
        let (first, stranger) = if pair.low_is_first() {
            (first, stranger << pair.lane_bits())
        } else {
            let first = self.builder.ins().ishl_imm(first, pair.lane_bits());
            (first, stranger)
        };
        let fields = self.builder.ins().bor_imm(first, stranger);
        self.repeated(pair, fields)
    }

    /// Returns a vector that repeats the two fields in each pair of lanes.
    fn repeated(&mut self, pair: &Pair, fields: Value) -> Value {
        let (_, vector, lane_type) = pair.types();
        let vector = self.builder.ins().splat(vector, fields);
        let flags = MemFlags::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(lane_type, flags, vector)
    }
}

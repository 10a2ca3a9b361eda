//! Chooses the step for an instruction and those after it: the function that covers most of them.

use super::decode::{Alu, List, Load, Op, Plain, Test};
use super::handlers;
use super::operand as o;
use super::step::{Step, Work};

/// Returns the step of the instruction at an index.
pub(super) fn step(plain: &[Plain], at: usize) -> Step {
    let code = Code { plain, at };
    code.fused().unwrap_or_else(|| code.single())
}

/// Returns the step that compares A with each constant of a list, and does the loads before it.
pub(super) fn among(plain: &[Plain], at: usize, list: List) -> Option<Step> {
    let code = Code { plain, at };
    let ends = code.ends(list.begin, list.end);
    let ways = ends.list_ways();
    let (among, constants) = match list.end - list.begin {
        1 => (Among::Pair, [plain[list.begin].k, plain[list.end].k]),
        _ => (Among::List, [0, list.groups]),
    };
    let [second, third] = constants;
    let (work, operands) = match (code.op(0), code.op(1)) {
        (Op::Ld(load), _) => (load_among(load, among, ways)?, [code.k(0), second, third]),
        (Op::Ldx(_), Op::Ld(load)) => {
            let work = header_load_among(load, ways)?;
            (work, [code.k(0), code.k(1), list.groups])
        }
        (Op::Ldx(_), _) => return None,
        _ => (among_only(among, ways), [0, second, third]),
    };
    Some(ends.put_into(code.does(work, operands)))
}

/// Lists of constants, as [`Ways`].
#[derive(Clone, Copy, Debug)]
enum Among {
    Pair,
    List,
}

/// How a test continues: the types of the same names in [`operand`](super::operand).
#[derive(Clone, Copy, Debug)]
enum Ways {
    NextOrOther,
    OtherOrNext,
    BothOther,
    NextOrReject,
    RejectOrNext,
    AcceptOrReject,
    RejectOrAccept,
}

/// The same for lists. They have many instructions, so neither outcome is the next instruction.
#[derive(Clone, Copy, Debug)]
enum ListWays {
    BothOther,
    OtherOrReject,
    RejectOrOther,
    AcceptOrReject,
    RejectOrAccept,
}

/// The targets of a test when it holds and when it does not: steps to skip, and the bytes accepted
/// if the target is a return.
#[derive(Clone, Copy)]
struct Ends {
    skip: [u16; 2],
    returned: [Option<u32>; 2],
    /// Whether the target is the next instruction.
    is_next: [bool; 2],
}

impl Ends {
    fn ways(&self) -> Ways {
        match (self.returned, self.is_next) {
            ([Some(_), Some(0)], _) => Ways::AcceptOrReject,
            ([Some(0), Some(_)], _) => Ways::RejectOrAccept,
            ([_, Some(0)], [true, _]) => Ways::NextOrReject,
            ([Some(0), _], [_, true]) => Ways::RejectOrNext,
            (_, [true, _]) => Ways::NextOrOther,
            (_, [_, true]) => Ways::OtherOrNext,
            _ => Ways::BothOther,
        }
    }

    fn list_ways(&self) -> ListWays {
        match self.returned {
            [Some(_), Some(0)] => ListWays::AcceptOrReject,
            [Some(0), Some(_)] => ListWays::RejectOrAccept,
            [_, Some(0)] => ListWays::OtherOrReject,
            [Some(0), _] => ListWays::RejectOrOther,
            _ => ListWays::BothOther,
        }
    }

    fn put_into(self, step: Step) -> Step {
        match self.returned {
            [Some(bytes), Some(0)] | [Some(0), Some(bytes)] => step.accepting(bytes),
            _ => {
                let [yes, no] = self.skip;
                Step { yes, no, ..step }
            }
        }
    }
}

/// A program, seen from one of its instructions.
#[derive(Clone, Copy)]
struct Code<'a> {
    plain: &'a [Plain],
    at: usize,
}

impl Code<'_> {
    /// Returns the operation of the instruction `n` further on.
    fn op(&self, n: usize) -> Op {
        self.plain.get(self.at + n).map_or(Op::RetK, |this| this.op)
    }

    fn k(&self, n: usize) -> u32 {
        self.plain.get(self.at + n).map_or(0, |this| this.k)
    }

    fn does(&self, work: Work, [k, second, third]: [u32; 3]) -> Step {
        Step {
            work,
            k,
            second,
            third,
            yes: 0,
            no: 0,
        }
    }

    /// Returns the targets of the test at index `no`, or of one at `yes` that begins a list.
    fn ends(&self, yes: usize, no: usize) -> Ends {
        let distances = [self.plain[yes].jt, self.plain[no].jf];
        let [yes_to, no_to] = [
            yes + 1 + usize::from(distances[0]),
            no + 1 + usize::from(distances[1]),
        ];
        let returned = |to: usize| {
            let there = self.plain.get(to)?;
            (there.op == Op::RetK).then_some(there.k)
        };
        let skip = |to: usize| u16::try_from(to - self.at - 1).unwrap_or(u16::MAX);
        Ends {
            skip: [skip(yes_to), skip(no_to)],
            returned: [returned(yes_to), returned(no_to)],
            is_next: distances.map(|distance| distance == 0),
        }
    }

    /// Returns the step that ends with the test `n` further on.
    fn test(
        &self,
        n: usize,
        operands: [u32; 3],
        work: impl FnOnce(Ways) -> Option<Work>,
    ) -> Option<Step> {
        let ends = self.ends(self.at + n, self.at + n);
        Some(ends.put_into(self.does(work(ends.ways())?, operands)))
    }

    /// Returns the step that is a test.
    fn jump(&self, operands: [u32; 3], work: impl FnOnce(Ways) -> Work) -> Step {
        let ends = self.ends(self.at, self.at);
        ends.put_into(self.does(work(ends.ways()), operands))
    }

    /// Returns a step for several instructions.
    fn fused(&self) -> Option<Step> {
        let [k, second, third] = [self.k(0), self.k(1), self.k(2)];
        let (work, operands) = match (self.op(0), self.op(1)) {
            (Op::Ld(load), Op::JumpK(test)) => {
                return self.test(1, [k, second, 0], |ways| load_test(load, test, ways));
            }
            (Op::Ld(load), Op::AluK(alu)) => {
                if (alu, self.op(2)) == (Alu::And, Op::JumpK(Test::Equal)) {
                    return self.test(2, [k, second, third], |ways| load_and_equal(load, ways));
                }
                (load_alu(load, alu)?, [k, second, 0])
            }
            (Op::Ld(load), Op::St) => (load_store(load)?, [k, second, 0]),
            (Op::Ld(load), Op::Tax) => match [self.op(2), self.op(3)] {
                [Op::Ld(Load::Memory), Op::AluX(alu)] => (load_swap_alu(load, alu)?, [k, third, 0]),
                _ => return None,
            },
            (Op::Ldx(Load::HeaderLength), Op::Ld(load)) => {
                if let Op::JumpK(test) = self.op(2) {
                    let operands = [k, second, third];
                    return self.test(2, operands, |ways| header_load_test(load, test, ways));
                }
                (header_load(load)?, [k, second, 0])
            }
            (Op::Ldx(Load::Memory), Op::AluX(alu)) => (recall_alu(alu), [k, 0, 0]),
            (Op::St, Op::Ld(load)) => match self.op(2) {
                Op::AluK(alu) => (store_load_alu(load, alu)?, [k, second, third]),
                _ => (store_load(load)?, [k, second, 0]),
            },
            (Op::Tax, Op::Ld(Load::Memory)) => match [self.op(2), self.op(3)] {
                [Op::AluX(alu), Op::St] => (swap_alu_store(alu), [second, self.k(3), 0]),
                [Op::AluX(alu), _] => (swap_alu(alu), [second, 0, 0]),
                [Op::JumpX(test), _] => {
                    return self.test(2, [second, 0, 0], |ways| Some(swap_test(test, ways)));
                }
                _ => return None,
            },
            (Op::Tax, Op::Ld(load)) => (tax_load(load)?, [second, 0, 0]),
            (Op::AluK(Alu::And), Op::AluK(alu)) => (and_alu(alu), [k, second, 0]),
            (Op::AluK(alu), Op::St) => (alu_k_store(alu), [k, second, 0]),
            (Op::AluX(alu), Op::St) => (alu_x_store(alu), [second, 0, 0]),
            (Op::AluK(alu), Op::Tax) => (alu_k_tax(alu), [k, 0, 0]),
            (Op::AluX(alu), Op::Tax) => (alu_x_tax(alu), [0; 3]),
            _ => return None,
        };
        Some(self.does(work, operands))
    }

    /// Returns the step for one instruction.
    fn single(&self) -> Step {
        let this = self.plain[self.at];
        let to = |distance: u32| u16::try_from(distance).unwrap_or(u16::MAX);
        let work: Work = match this.op {
            Op::JumpK(test) => return self.jump([this.k, 0, 0], |ways| test_k(test, ways)),
            Op::JumpX(test) => return self.jump([0; 3], |ways| test_x(test, ways)),
            Op::Ja | Op::JaBack => {
                let work = if this.op == Op::Ja {
                    handlers::jump
                } else {
                    handlers::jump_back
                };
                return Step {
                    yes: to(this.k),
                    ..self.does(work, [0; 3])
                };
            }
            Op::Ld(kind) => load(kind),
            Op::Ldx(kind) => load_x(kind),
            Op::LdAncillary => handlers::load_ancillary,
            Op::St => handlers::store,
            Op::Stx => handlers::store_x,
            Op::AluK(alu) => alu_k(alu),
            Op::AluX(alu) => alu_x(alu),
            Op::Neg => handlers::negate,
            Op::RetK => handlers::return_k,
            Op::RetA => handlers::return_a,
            Op::Tax => handlers::tax,
            Op::Txa => handlers::txa,
        };
        self.does(work, [this.k, 0, 0])
    }
}

/// The instance of a function for the types that kinds stand for.
macro_rules! instance {
    ($function:ident [$($type:ident)*]) => {
        (handlers::$function::<$($type),*> as Work).into()
    };
    ($function:ident $types:tt $kind:ident: Load, $($more:tt)*) => {
        instance!(@ $function $types [$kind L Load] [
            Word Half Byte WordAtX HalfAtX ByteAtX Length HeaderLength Memory Number
        ] [] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Packet, $($more:tt)*) => {
        instance!(@ $function $types [$kind L Load] [
            Word Half Byte WordAtX HalfAtX ByteAtX Length
        ] [_ => return None] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: AtX, $($more:tt)*) => {
        instance!(@ $function $types [$kind L Load] [
            WordAtX HalfAtX ByteAtX
        ] [_ => return None] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Listed, $($more:tt)*) => {
        instance!(@ $function $types [$kind L Load] [
            Word Half Byte HalfAtX
        ] [_ => return None] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: HalfAtX, $($more:tt)*) => {
        instance!(@ $function $types [$kind L Load] [HalfAtX] [_ => return None] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Among, $($more:tt)*) => {
        instance!(@ $function $types [$kind M Among] [Pair List] [] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Alu, $($more:tt)*) => {
        instance!(@ $function $types [$kind A Alu] [
            Add Subtract Multiply Divide Remainder Or And Xor ShiftLeft ShiftRight
        ] [] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Test, $($more:tt)*) => {
        instance!(@ $function $types [$kind T Test] [
            Equal Greater GreaterEqual AnySet
        ] [] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: Ways, $($more:tt)*) => {
        instance!(@ $function $types [$kind W Ways] [
            NextOrOther OtherOrNext BothOther NextOrReject RejectOrNext AcceptOrReject
            RejectOrAccept
        ] [] $($more)*)
    };
    ($function:ident $types:tt $kind:ident: ListWays, $($more:tt)*) => {
        instance!(@ $function $types [$kind W ListWays] [
            BothOther OtherOrReject RejectOrOther AcceptOrReject RejectOrAccept
        ] [] $($more)*)
    };
    (@ $function:ident $types:tt $kind:tt [$($name:ident)*] $others:tt $($more:tt)*) => {
        instance!(@@ $function $types $kind [$($name)*] $others [$($more)*])
    };
    (@@ $function:ident $types:tt [$kind:ident $type:ident $trait:ident] [$($name:ident)*]
     [$($others:tt)*] $more:tt) => {
        match $kind {
            $($trait::$name => {
                type $type = o::$name;
                instance!(@@@ $function $types $type $more)
            })*
            $($others)*
        }
    };
    (@@@ $function:ident [$($types:ident)*] $type:ident [$($more:tt)*]) => {
        instance!($function [$($types)* $type] $($more)*)
    };
}

/// Defines functions that choose by kinds.
macro_rules! choosers {
    ($($name:ident($($kind:ident: $type:ident in $set:ident),*) -> $result:ty = $function:ident;)*) => {$(
        fn $name($($kind: $type),*) -> $result {
            instance!($function [] $($kind: $set,)*)
        }
    )*};
}

choosers! {
    load(load: Load in Load) -> Work = load;
    load_x(load: Load in Load) -> Work = load_x;
    load_test(load: Load in Packet, test: Test in Test, ways: Ways in Ways) -> Option<Work> = load_test;
    load_and_equal(load: Load in Packet, ways: Ways in Ways) -> Option<Work> = load_and_equal;
    load_alu(load: Load in Packet, alu: Alu in Alu) -> Option<Work> = load_alu;
    load_among(load: Load in Listed, among: Among in Among, ways: ListWays in ListWays) -> Option<Work>
        = load_among;
    header_load_among(load: Load in HalfAtX, ways: ListWays in ListWays) -> Option<Work> = header_load_list;
    header_load(load: Load in AtX) -> Option<Work> = header_load;
    header_load_test(load: Load in AtX, test: Test in Test, ways: Ways in Ways) -> Option<Work>
        = header_load_test;
    test_k(test: Test in Test, ways: Ways in Ways) -> Work = test;
    test_x(test: Test in Test, ways: Ways in Ways) -> Work = test_x;
    among_only(among: Among in Among, ways: ListWays in ListWays) -> Work = among;
    swap_test(test: Test in Test, ways: Ways in Ways) -> Work = swap_test;
    alu_k(alu: Alu in Alu) -> Work = alu_k;
    alu_x(alu: Alu in Alu) -> Work = alu_x;
    and_alu(alu: Alu in Alu) -> Work = and_alu;
    alu_k_tax(alu: Alu in Alu) -> Work = alu_k_tax;
    alu_x_tax(alu: Alu in Alu) -> Work = alu_x_tax;
    alu_k_store(alu: Alu in Alu) -> Work = alu_k_store;
    alu_x_store(alu: Alu in Alu) -> Work = alu_x_store;
    swap_alu(alu: Alu in Alu) -> Work = swap_alu;
    recall_alu(alu: Alu in Alu) -> Work = recall_alu;
    swap_alu_store(alu: Alu in Alu) -> Work = swap_alu_store;
    load_swap_alu(load: Load in Packet, alu: Alu in Alu) -> Option<Work> = load_swap_alu;
    store_load(load: Load in Packet) -> Option<Work> = store_load;
    store_load_alu(load: Load in Packet, alu: Alu in Alu) -> Option<Work> = store_load_alu;
    load_store(load: Load in Packet) -> Option<Work> = load_store;
    tax_load(load: Load in Packet) -> Option<Work> = tax_load;
}

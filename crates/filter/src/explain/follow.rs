//! Follows an explanation on a packet and compares the outcome with the program's.

use super::Explanation;
use super::step::{Step, What};
use super::symbol::{Kind, Symbol};
use super::trace::Goal;
use crate::language::ast::Operator;
use crate::program::opcode as op;

/// Follows the explanation on a packet. Returns `None` if a byte that it reads is missing or it
/// does not name a number.
fn follow(explanation: &Explanation, data: &[u8]) -> Option<u32> {
    let mut goal = explanation.start;
    loop {
        let at = match goal {
            Goal::Node(at) => at,
            Goal::Return(kept) => return Some(kept),
            Goal::ReturnComputed => return None,
        };
        let step = explanation.steps.iter().find(|step| step.at == at);
        goal = decide(step.expect("a goal is a step"), data)?;
    }
}

fn decide(step: &Step, data: &[u8]) -> Option<Goal> {
    Some(match &step.what {
        What::Choice(choice) => {
            let value = evaluate(&choice.value, data)?;
            let case = choice
                .cases
                .iter()
                .find(|(ranges, _)| ranges.iter().any(|range| range.contains(&value)));
            case.map_or(choice.otherwise, |(_, goal)| *goal)
        }
        What::Fields { parts, yes, no } => {
            let mut equal = true;
            for part in parts {
                equal &= bytes(data, part.offset, part.bytes)? & part.mask == part.number;
            }
            if equal { *yes } else { *no }
        }
        What::Test(node) => {
            let (left, right) = (evaluate(&node.left, data)?, evaluate(&node.right, data)?);
            let holds = node.relation.holds(left, right);
            if holds { node.yes } else { node.no }
        }
    })
}

fn bytes(data: &[u8], offset: u32, count: u32) -> Option<u32> {
    let start = offset as usize;
    let bytes = data.get(start..start.checked_add(count as usize)?)?;
    Some(bytes.iter().fold(0, |n, &byte| n << 8 | u32::from(byte)))
}

fn evaluate(value: &Symbol, data: &[u8]) -> Option<u32> {
    match &value.kind {
        Kind::Constant(number) => Some(*number),
        Kind::Length => u32::try_from(data.len()).ok(),
        Kind::Load {
            bytes: count,
            index,
            offset,
        } => {
            let index = match index {
                Some(index) => evaluate(index, data)?,
                None => 0,
            };
            bytes(data, index.checked_add(*offset)?, *count)
        }
        Kind::HeaderLength(offset) => Some((bytes(data, *offset, 1)? & 15) * 4),
        Kind::Negated(inner) => Some(evaluate(inner, data)?.wrapping_neg()),
        Kind::Arithmetic(operation, left, right) => {
            let operator = match *operation {
                op::ADD => Operator::Add,
                op::SUB => Operator::Subtract,
                op::MUL => Operator::Multiply,
                op::DIV => Operator::Divide,
                op::MOD => Operator::Modulus,
                op::AND => Operator::And,
                op::OR => Operator::Or,
                op::XOR => Operator::Xor,
                op::LSH => Operator::ShiftLeft,
                _ => Operator::ShiftRight,
            };
            crate::ir::apply(operator, evaluate(left, data)?, evaluate(right, data)?)
        }
        // These depend on the path that was taken.
        Kind::Field { .. } | Kind::Word(_) | Kind::Start(_) => None,
        Kind::Ancillary(_) | Kind::Unknown => None,
    }
}

mod tests {
    use super::*;
    use crate::{CompileOptions, Insn, LinkType, Program, Tables, compile};

    /// Returns bytes that are often meaningful: protocols and ports that expressions test for.
    fn packet(seed: u64) -> Vec<u8> {
        const BYTES: usize = 2_000;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: u8| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0] % limit
        };
        let mut data: Vec<u8> = (0..BYTES).map(|_| below(64)).collect();
        let types = [0x0800_u16, 0x86dd, 0x0806, 0x8100, 0x8035, 0x0060];
        let kind = types[usize::from(below(6))];
        data[12..14].copy_from_slice(&kind.to_be_bytes());
        data[14] = if kind == 0x86dd { 0x60 } else { 0x45 };
        data[20] = [6, 17, 0, 44][usize::from(below(4))];
        data[21] = 0;
        data[23] = [6, 17, 1, 132][usize::from(below(4))];
        for place in [34, 36, 54, 56] {
            data[place..place + 2].copy_from_slice(&[0, [80, 53, 22, 1][usize::from(below(4))]]);
        }
        for place in [26, 30, 28, 38] {
            data[place..place + 4].copy_from_slice(&[10, 0, 0, below(2)]);
        }
        data
    }

    /// Checks that following the words gives the program's verdict, for every expression of the
    /// list.
    #[test]
    fn words_say_what_the_program_does() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = folder.join("../../testdata/filter/agreement/basics.txt");
        let text = std::fs::read_to_string(path).expect("the list of expressions");
        let packets: Vec<Vec<u8>> = (1..60).map(packet).collect();
        let (mut followed, mut taken) = (0, 0);
        for link_type in [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL] {
            for optimize in [true, false] {
                let mut options = CompileOptions::new(link_type);
                options.optimize = optimize;
                for expression in text.lines() {
                    let Ok(program) = compile(expression, &options, &Tables::new()) else {
                        continue;
                    };
                    let explanation = Explanation::new(&program, link_type);
                    for data in &packets {
                        let len = u32::try_from(data.len()).expect("short");
                        let verdict = program.run(data, len);
                        let Some(said) = follow(&explanation, data) else {
                            continue;
                        };
                        assert_eq!(said, verdict, "{expression}\n{explanation}{program:?}");
                        followed += 1;
                        taken += usize::from(said > 0);
                    }
                }
            }
        }
        assert!(followed > 50_000 && taken > 5_000, "{followed}, {taken}");
    }

    /// Checks programs with a number in a register that no reader wants to see.
    #[test]
    fn large_arithmetic_is_cut_short() {
        let mut insns = vec![Insn::new(op::LD | op::B | op::ABS, 0)];
        for _ in 0..100 {
            insns.push(Insn::new(op::MISC | op::TAX, 0));
            insns.push(Insn::new(op::ALU | op::ADD | op::X, 0));
        }
        insns.push(Insn::jump(op::JMP | op::JEQ, 1, 0, 1));
        insns.extend([Insn::new(op::RET, 1), Insn::new(op::RET, 0)]);
        let program = Program::new(insns).expect("a valid program");
        let text = Explanation::new(&program, LinkType::ETHERNET).to_string();
        assert!(text.contains("the number computed before"), "{text}");
        assert!(text.len() < 2_000, "{text}");
    }
}

//! Prints eBPF code like the kernel's verifier and bpftool.

use std::fmt::Write;

use super::helper::Helper;
use super::insn::Word;

/// Returns all of `code`, a line for each instruction: its index, a colon, the statement. An
/// instruction of two words takes one line and two indexes, as in the verifier's log.
#[must_use]
pub fn listing(code: &[u64]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < code.len() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{at:4}: {}", statement(&code[at..]));
        at += if is_wide(code[at]) { 2 } else { 1 };
    }
    text
}

/// Returns the fragment of a C array of `struct bpf_insn`: operation, destination and source
/// register, offset, constant.
#[must_use]
pub fn c_array(code: &[u64]) -> String {
    let line = |word: &u64| {
        let Word {
            code,
            dst,
            src,
            offset,
            imm,
        } = Word::decode(*word);
        format!("{{ {code:#04x}, {dst}, {src}, {offset}, {imm:#010x} }},\n")
    };
    code.iter().map(line).collect()
}

/// Returns decimal numbers in the same order, the first line being the count of words.
#[must_use]
pub fn decimal(code: &[u64]) -> String {
    let line = |word: &u64| {
        let Word {
            code,
            dst,
            src,
            offset,
            imm,
        } = Word::decode(*word);
        format!("{code} {dst} {src} {offset} {imm}\n")
    };
    format!("{}\n", code.len()) + &code.iter().map(line).collect::<String>()
}

/// Returns the first instruction of `code`; empty for no code.
#[must_use]
pub fn statement(code: &[u64]) -> String {
    let Some(&first) = code.first() else {
        return String::new();
    };
    let word = Word::decode(first);
    match word.code & 7 {
        0 => wide_load(
            word,
            code.get(1).map_or(0, |&second| Word::decode(second).imm),
        ),
        1 if word.code & 0xe0 == 0x60 => {
            format!("r{} = {}", word.dst, memory(word, word.src))
        }
        2 if word.code & 0xe0 == 0x60 => format!("{} = {}", memory(word, word.dst), word.imm),
        3 if word.code & 0xe0 == 0x60 => format!("{} = r{}", memory(word, word.dst), word.src),
        3 if word.code & 0xe0 == 0xc0 => atomic(word),
        4 | 7 => arithmetic(word),
        5 | 6 => jump(word),
        _ => unknown(word),
    }
}

fn is_wide(word: u64) -> bool {
    Word::decode(word).code == 0x18
}

fn unknown(word: Word) -> String {
    format!("unknown opcode {:#04x}", word.code)
}

fn wide_load(word: Word, high: i32) -> String {
    if word.code != 0x18 {
        return unknown(word);
    }
    let (low, high) = (word.imm.cast_unsigned(), high.cast_unsigned());
    match word.src {
        0 => format!(
            "r{} = {:#x} ll",
            word.dst,
            u64::from(high) << 32 | u64::from(low)
        ),
        1 => format!("r{} = map[fd:{}]", word.dst, word.imm),
        2 => format!("r{} = map[fd:{}][0]+{high}", word.dst, word.imm),
        other => format!("r{} = pseudo {other}", word.dst),
    }
}

fn bits(word: Word) -> u32 {
    match word.code & 0x18 {
        0x00 => 32,
        0x08 => 16,
        0x10 => 8,
        _ => 64,
    }
}

fn memory(word: Word, base: u8) -> String {
    format!("*(u{} *)(r{base} {:+})", bits(word), word.offset)
}

fn atomic(word: Word) -> String {
    let (bits, dst, src, offset) = (bits(word), word.dst, word.src, word.offset);
    let place = format!("(u{bits} *)(r{dst} {offset:+})");
    let name = match word.imm & 0xf0 {
        0x00 => "add",
        0x40 => "or",
        0x50 => "and",
        0xa0 => "xor",
        0xe0 => return format!("r{src} = atomic{bits}_xchg({place}, r{src})"),
        0xf0 => return format!("r0 = atomic{bits}_cmpxchg({place}, r0, r{src})"),
        _ => return unknown(word),
    };
    if word.imm & 1 != 0 {
        return format!("r{src} = atomic{bits}_fetch_{name}({place}, r{src})");
    }
    let sign = match name {
        "add" => "+",
        "or" => "|",
        "and" => "&",
        _ => "^",
    };
    format!("lock *{place} {sign}= r{src}")
}

fn arithmetic(word: Word) -> String {
    let letter = if word.code & 7 == 7 { 'r' } else { 'w' };
    let dst = word.dst;
    let sign = match word.code & 0xf0 {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x80 => return format!("{letter}{dst} = -{letter}{dst}"),
        0x90 => "%=",
        0xa0 => "^=",
        0xb0 => "=",
        0xc0 => "s>>=",
        0xd0 => {
            let order = if word.code & 8 != 0 { "be" } else { "le" };
            return format!("r{dst} = {order}{} r{dst}", word.imm);
        }
        _ => return unknown(word),
    };
    if word.code & 8 != 0 {
        format!("{letter}{dst} {sign} {letter}{}", word.src)
    } else {
        format!("{letter}{dst} {sign} {}", word.imm)
    }
}

fn jump(word: Word) -> String {
    let letter = if word.code & 7 == 5 { 'r' } else { 'w' };
    let sign = match (word.code & 7, word.code & 0xf0) {
        (5, 0x00) => return format!("goto pc{:+}", word.offset),
        (_, 0x00) => return format!("gotol pc{:+}", word.imm),
        (5, 0x80) => return call(word),
        (5, 0x90) => return "exit".to_owned(),
        (_, 0x10) => "==",
        (_, 0x20) => ">",
        (_, 0x30) => ">=",
        (_, 0x40) => "&",
        (_, 0x50) => "!=",
        (_, 0x60) => "s>",
        (_, 0x70) => "s>=",
        (_, 0xa0) => "<",
        (_, 0xb0) => "<=",
        (_, 0xc0) => "s<",
        (_, 0xd0) => "s<=",
        _ => return unknown(word),
    };
    let operand = if word.code & 8 != 0 {
        format!("{letter}{}", word.src)
    } else {
        format!("{:#x}", word.imm)
    };
    format!(
        "if {letter}{} {sign} {operand} goto pc{:+}",
        word.dst, word.offset
    )
}

fn call(word: Word) -> String {
    match (word.src, Helper::from_number(word.imm)) {
        (0, Some(helper)) => format!("call {}#{}", helper.name(), word.imm),
        (0, None) => format!("call unknown#{}", word.imm),
        (2, _) => format!("call kernel-function#{}", word.imm),
        _ => format!("call pc{:+}", word.imm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::{AluOp, Assembler, AtomicOp, Cond, Insn, Reg, Size, Width};

    #[test]
    fn prints_every_form() {
        let mut asm = Assembler::new();
        let out = asm.label();
        asm.mov64(Reg::R6, Reg::R1);
        asm.mov32(Reg::R0, -1);
        asm.alu32(AluOp::Neg, Reg::R8, 0);
        asm.from_network(Reg::R8, Size::W);
        asm.load(Size::B, Reg::R8, Reg::R7, 23);
        asm.store(Size::W, Reg::R10, -12, Reg::R9);
        asm.store_imm(Size::Dw, Reg::R10, -8, 0);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, 0, Reg::R2);
        asm.atomic(Size::W, AtomicOp::FetchAdd, Reg::R1, 0, Reg::R2);
        asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R1, 8, Reg::R2);
        asm.push(Insn::LoadMap {
            dst: Reg::R1,
            fd: 7,
        });
        asm.push(Insn::LoadImm64 {
            dst: Reg::R2,
            value: 1 << 32,
        });
        asm.call(Helper::XdpLoadBytes);
        asm.jump_if(Cond::Slt, Width::W64, Reg::R0, 0, out);
        asm.jump_if(Cond::Set, Width::W32, Reg::R8, Reg::R9, out);
        asm.jump(out);
        asm.place(out);
        asm.exit();
        let expected = "   0: r6 = r1\n   1: w0 = -1\n   2: w8 = -w8\n   3: r8 = be32 r8\n   \
                        4: r8 = *(u8 *)(r7 +23)\n   5: *(u32 *)(r10 -12) = r9\n   \
                        6: *(u64 *)(r10 -8) = 0\n   7: lock *(u64 *)(r1 +0) += r2\n   \
                        8: r2 = atomic32_fetch_add((u32 *)(r1 +0), r2)\n   \
                        9: r2 = atomic64_xchg((u64 *)(r1 +8), r2)\n  \
                        10: r1 = map[fd:7]\n  12: r2 = 0x100000000 ll\n  \
                        14: call bpf_xdp_load_bytes#189\n  15: if r0 s< 0x0 goto pc+2\n  \
                        16: if w8 & w9 goto pc+1\n  17: goto pc+0\n  18: exit\n";
        assert_eq!(listing(&asm.finish().expect("placed")), expected);
    }

    #[test]
    fn takes_any_word() {
        for code in 0..=u8::MAX {
            let word = u64::from_ne_bytes([code, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff]);
            assert!(!statement(&[word]).is_empty());
        }
        assert_eq!(statement(&[]), "");
    }
}

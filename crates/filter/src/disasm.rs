//! Prints programs in the three forms of `tcpdump -d`, `-dd` and `-ddd`.

use std::fmt::Write as _;

use crate::program::opcode as op;
use crate::program::{Insn, Program};

/// Returns the form of `tcpdump -d`: one numbered instruction a line, with jump targets as line
/// numbers.
#[must_use]
pub fn listing(program: &Program) -> String {
    let mut text = String::new();
    for (at, insn) in program.insns().iter().enumerate() {
        let _ = writeln!(text, "{}", line(insn, at));
    }
    text
}

/// Returns the form of `tcpdump -dd`: the fragment of a C array.
#[must_use]
pub fn c_array(program: &Program) -> String {
    let mut text = String::new();
    for Insn { code, jt, jf, k } in program.insns() {
        let _ = writeln!(text, "{{ 0x{code:x}, {jt}, {jf}, 0x{k:08x} }},");
    }
    text
}

/// Returns the form of `tcpdump -ddd`: decimal numbers, the first line being their count.
#[must_use]
pub fn decimal(program: &Program) -> String {
    let mut text = format!("{}\n", program.insns().len());
    for Insn { code, jt, jf, k } in program.insns() {
        let _ = writeln!(text, "{code} {jt} {jf} {k}");
    }
    text
}

/// Returns one instruction as `tcpdump -d` prints it, without a line end.
#[must_use]
pub fn line(insn: &Insn, at: usize) -> String {
    let (name, operand) = mnemonic(insn, at);
    let text = format!("({at:03}) {name:<8} {operand}");
    let conditional = insn.code & 7 == op::JMP && insn.code & 0xf0 != op::JA;
    if !conditional {
        return text;
    }
    let (jt, jf) = (at + 1 + usize::from(insn.jt), at + 1 + usize::from(insn.jf));
    format!("({at:03}) {name:<8} {operand:<16} jt {jt}\tjf {jf}")
}

fn mnemonic(insn: &Insn, at: usize) -> (&'static str, String) {
    let Insn { code, k, .. } = *insn;
    let hex = |k: u32| format!("#{k:#x}");
    let value = || {
        if code & op::X == 0 {
            hex(k)
        } else {
            "x".to_owned()
        }
    };
    match code & 7 {
        op::LD => load(insn),
        op::LDX => match code & 0xe0 {
            op::IMM => ("ldx", hex(k)),
            op::LEN => ("ldx", "#pktlen".to_owned()),
            op::MEM => ("ldx", format!("M[{k}]")),
            _ => ("ldxb", format!("4*([{}]&0xf)", k.cast_signed())),
        },
        op::ST => ("st", format!("M[{k}]")),
        op::STX => ("stx", format!("M[{k}]")),
        op::ALU => (arithmetic(code), arithmetic_operand(code, k)),
        op::JMP => match code & 0xf0 {
            // Only programs for user space jump backwards; their distances are signed.
            op::JA => {
                let distance = k.cast_signed() as isize;
                ("ja", format!("{}", (at + 1).wrapping_add_signed(distance)))
            }
            op::JEQ => ("jeq", value()),
            op::JGT => ("jgt", value()),
            op::JGE => ("jge", value()),
            _ => ("jset", value()),
        },
        op::RET if code & 0x18 == op::A => ("ret", String::new()),
        op::RET => ("ret", format!("#{}", k.cast_signed())),
        _ if code & 0xf8 == op::TAX => ("tax", String::new()),
        _ => ("txa", String::new()),
    }
}

fn arithmetic(code: u16) -> &'static str {
    match code & 0xf0 {
        op::ADD => "add",
        op::SUB => "sub",
        op::MUL => "mul",
        op::DIV => "div",
        op::OR => "or",
        op::AND => "and",
        op::LSH => "lsh",
        op::RSH => "rsh",
        op::MOD => "mod",
        op::XOR => "xor",
        _ => "neg",
    }
}

/// Returns an operand: masks in hexadecimal, all other constants in decimal.
fn arithmetic_operand(code: u16, k: u32) -> String {
    match code & 0xf0 {
        op::NEG => String::new(),
        _ if code & op::X != 0 => "x".to_owned(),
        op::OR | op::AND | op::XOR => format!("#0x{k:x}"),
        _ => format!("#{}", k.cast_signed()),
    }
}

fn load(insn: &Insn) -> (&'static str, String) {
    let Insn { code, k, .. } = *insn;
    let name = match code & 0x18 {
        op::W => "ld",
        op::H => "ldh",
        _ => "ldb",
    };
    let operand = match code & 0xe0 {
        op::IMM => format!("#0x{k:x}"),
        op::LEN => "#pktlen".to_owned(),
        op::MEM => format!("M[{k}]"),
        op::IND => format!("[x + {}]", k.cast_signed()),
        _ => match k.checked_sub(op::SKF_AD_OFF) {
            Some(offset) => match (op::question(offset), ancillary(offset)) {
                (Some(question), _) => format!("[group{}]", question + 1),
                (None, Some(name)) => format!("[{name}]"),
                (None, None) => format!("[{}]", k.cast_signed()),
            },
            None => format!("[{}]", k.cast_signed()),
        },
    };
    (name, operand)
}

/// Returns tcpdump's name of an ancillary load.
fn ancillary(offset: u32) -> Option<&'static str> {
    Some(match offset {
        op::SKF_AD_PROTOCOL => "proto",
        op::SKF_AD_PKTTYPE => "type",
        op::SKF_AD_IFINDEX => "ifidx",
        op::SKF_AD_NLATTR => "nla",
        op::SKF_AD_NLATTR_NEST => "nlan",
        op::SKF_AD_MARK => "mark",
        op::SKF_AD_QUEUE => "queue",
        op::SKF_AD_HATYPE => "hatype",
        op::SKF_AD_RXHASH => "rxhash",
        op::SKF_AD_CPU => "cpu",
        op::SKF_AD_ALU_XOR_X => "xor_x",
        op::SKF_AD_VLAN_TAG => "vlan_tci",
        op::SKF_AD_VLAN_TAG_PRESENT => "vlanp",
        op::SKF_AD_PAY_OFFSET => "poff",
        op::SKF_AD_RANDOM => "random",
        op::SKF_AD_VLAN_TPID => "vlan_tpid",
        op::PROCESS_PID => "pid",
        op::PROCESS_UID => "uid",
        _ if op::is_process(offset) && offset < op::PROCESS_ANSWERS => {
            ["comm0", "comm1", "comm2", "comm3"][((offset - op::PROCESS_NAME) / 4) as usize & 3]
        }
        _ => return None,
    })
}

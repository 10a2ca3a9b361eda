//! Native code against the plain interpreter: the input is a program and packets for it. The sanitizer
//! does not see what generated code reads; so packets end where readable memory ends.
#![no_main]

use std::cell::RefCell;

use ringtap_filter::program::{opcode as op, plain};
use ringtap_filter::{Ancillary, Insn, Program};
use ringtap_jit::{Native, PacketRef};
use ringtap_testkit::guarded::Guarded;

/// Every instruction that is not a jump, more often those that filters consist of.
const CODES: [u16; 48] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x20, 0x28, 0x30, 0x48, 0xb1, 0x54, 0x00, 0x60, 0x80, 0x01,
    0x61, 0x81, 0x02, 0x03, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x5c, 0x64,
    0x6c, 0x74, 0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0x07, 0x87, 0x06, 0x16, 0x05, 0x20, 0x28, 0x30,
];
const JUMPS: [u16; 12] = [
    0x15, 0x15, 0x15, 0x15, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d,
];
/// Scratch words that programs use; all are stored first.
const WORDS: u32 = 4;
const MAX_BODY: usize = 120;

/// Returns a constant: mostly small, rarely any number or one near the ends.
fn number(kind: u8, bytes: [u8; 2]) -> u32 {
    let small = u32::from(bytes[0]);
    match kind % 8 {
        0 => u32::MAX - small,
        1 => (1 << 31) - small,
        2 => op::SKF_AD_OFF + small % 16 * 4,
        3 => small * 0x0101_0101,
        4 => u32::from(u16::from_be_bytes(bytes)),
        _ => small % 80,
    }
}

/// Returns an instruction from six bytes, with `left` more to come before the two returns at the end.
fn insn(bytes: [u8; 6], left: usize) -> Insn {
    let [choice, kind, k0, k1, jt, jf] = bytes;
    let mut k = number(kind, [k0, k1]);
    let near = |distance: u8| distance.min(u8::try_from(left).unwrap_or(u8::MAX));
    if choice & 3 == 0 {
        let code = JUMPS[usize::from(choice >> 2) % JUMPS.len()];
        return Insn::jump(code, k, near(jt), near(jf));
    }
    let code = CODES[usize::from(choice >> 2) % CODES.len()];
    match code {
        0x05 => k = u32::from(near(jt)),
        0x02 | 0x03 | 0x60 | 0x61 => k %= WORDS,
        0x34 | 0x94 => k = k.max(1),
        0x64 | 0x74 => k %= 32,
        0x20 | 0x28 | 0x30 if k > op::SKF_AD_OFF => k = op::SKF_AD_OFF + k % 64 / 4 * 4,
        _ => {}
    }
    Insn::new(code, k)
}

fn program(bytes: &[u8]) -> Program {
    let (body, _) = bytes.as_chunks::<6>();
    let body = &body[..body.len().min(MAX_BODY)];
    let mut insns: Vec<Insn> = (0..WORDS).map(|word| Insn::new(op::ST, word)).collect();
    insns.extend(
        body.iter()
            .rev()
            .enumerate()
            .map(|(left, bytes)| insn(*bytes, left))
            .rev(),
    );
    insns.extend([Insn::new(op::RET | op::A, 0), Insn::new(op::RET | op::K, 0)]);
    Program::new(insns).expect("bent to be valid")
}

/// Returns a program of two fields, mostly side by side, each compared with a list: the form of filters on
/// source or destination.
fn two_lists(bytes: &[u8]) -> Option<Program> {
    let (&[form, offset, gap, first, second], mut rest) = bytes.split_first_chunk::<5>()?;
    let (width, distance) = [(op::W, 4), (op::H, 2), (op::B, 1)][usize::from(form) % 3];
    let mode = if form & 16 == 0 { op::ABS } else { op::IND };
    let mut places = [offset, offset.saturating_add(distance + gap / 64)].map(u32::from);
    if form & 32 != 0 {
        places.reverse();
    }
    let mut constant = || {
        let (&[kind, k0, k1], after) = rest.split_first_chunk::<3>()?;
        rest = after;
        Some(number(kind, [k0, k1]))
    };
    let sets = [first, second].map(|count| {
        let count = usize::from(count % 24 + 1);
        (0..count).map_while(|_| constant()).collect::<Vec<u32>>()
    });
    let tests = sets.iter().map(Vec::len).sum::<usize>();
    let mut insns = vec![Insn::new(op::LDX | op::MSH | op::B, 14)];
    let mut left = tests;
    for (loads_left, set, place) in [(1, &sets[0], places[0]), (0, &sets[1], places[1])] {
        insns.push(Insn::new(op::LD | mode | width, place));
        for &k in set {
            left -= 1;
            let found = u8::try_from(left + loads_left + 1).ok()?;
            insns.push(Insn::jump(op::JMP | op::JEQ, k, found, 0));
        }
    }
    let end = if form & 64 == 0 { op::K } else { op::A };
    insns.push(Insn::new(op::RET | end, 0));
    insns.push(Insn::new(op::RET | op::K, u32::from(form) + 1));
    Program::new(insns).ok()
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[length, seen], rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let (data, code) = rest.split_at(rest.len().min(usize::from(length)));
    let program = match code.split_first() {
        Some((0xff, lists)) => two_lists(lists),
        _ => None,
    };
    let program = program.unwrap_or_else(|| self::program(code));
    let native = Native::compile(&program).expect("a valid program of few instructions");
    let cuts = [
        data.len(),
        usize::from(seen).min(data.len()),
        data.len() / 2,
        0,
    ];
    let packets = cuts.map(|cut| &data[..cut]);
    MEMORY.with_borrow_mut(|memory| {
        agree(&program, &native, &memory.place(&packets), seen.into());
    });
});

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new(4));
}

fn agree(program: &Program, native: &Native, packets: &[&[u8]], len: u32) {
    let ancillary = Ancillary {
        ifindex: 3,
        vlan_tci: Some(0x0101),
        ..Ancillary::default()
    };
    let batch: Vec<_> = packets
        .iter()
        .map(|data| PacketRef::new(data, len))
        .collect();
    let mut verdicts = vec![1; batch.len()];
    native.run_batch(&batch, &mut verdicts);
    for (data, verdict) in packets.iter().zip(verdicts) {
        let expected = plain::run(program, data, len, None);
        assert_eq!(verdict, expected, "in a batch");
        assert_eq!(native.run(data, len), expected, "alone");
        let expected = plain::run(program, data, len, Some(&ancillary));
        assert_eq!(
            native.run_with(data, len, &ancillary),
            expected,
            "with metadata"
        );
    }
}

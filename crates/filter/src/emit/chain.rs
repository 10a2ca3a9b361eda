//! Emits the walk over extension headers, which contains a loop: A holds the protocol of the next
//! header, X its distance from the IP header.

use crate::ir::{Chain, IpVersion};
use crate::program::Insn;
use crate::program::opcode as op;

/// Headers that name the next protocol (IANA, IPv6 extension headers): hop-by-hop options, routing,
/// fragment, destination options; and the authentication header, whose length has another unit.
const EXTENSIONS: [u32; EXTENSION_TESTS as usize] = [0, 43, 44, 60];
const EXTENSION_TESTS: u8 = 4;
const AUTHENTICATION: u32 = ringtap_packet::protocol::AUTHENTICATION as u32;

/// Returns instructions that leave in A the protocol at which the walk ends. They change X and use
/// `word` of scratch memory.
pub(super) fn walk(chain: Chain, word: u32) -> Vec<Insn> {
    let mut code = match chain.version {
        IpVersion::V4 => vec![
            Insn::new(op::LD | op::B | op::ABS, chain.at.wrapping_add(9)),
            Insn::new(op::LDX | op::B | op::MSH, chain.at),
        ],
        IpVersion::V6 => vec![
            Insn::new(op::LD | op::B | op::ABS, chain.at.wrapping_add(6)),
            Insn::new(op::LDX | op::W | op::IMM, 40),
        ],
    };
    let start = code.len();
    code.extend(match chain.version {
        IpVersion::V4 => rounds_v4(chain, word),
        IpVersion::V6 => rounds_v6(chain, word),
    });
    // Back to the start of the round, from after this instruction.
    let distance = u32::try_from(code.len() + 1 - start).unwrap_or(0);
    code.push(Insn::new(op::JMP | op::JA, distance.wrapping_neg()));
    code
}

/// Compares the protocol; the distances are from the next instruction.
fn is(protocol: u32, jt: u8, jf: u8) -> Insn {
    Insn::jump(op::JMP | op::JEQ, protocol, jt, jf)
}

/// Loads the next protocol into scratch memory and the length into A.
fn header(at: u32, word: u32) -> [Insn; 3] {
    [
        Insn::new(op::LD | op::B | op::IND, at),
        Insn::new(op::ST, word),
        Insn::new(op::LD | op::B | op::IND, at.wrapping_add(1)),
    ]
}

/// Computes the length of an authentication header, in units of four bytes less two. As in libpcap,
/// the next offset is computed from this alone, without the header's offset.
fn behind_authentication() -> [Insn; 2] {
    [
        Insn::new(op::ALU | op::ADD, 2),
        Insn::new(op::ALU | op::LSH, 2),
    ]
}

/// Moves to the next header, whose distance is in A.
fn to_next_header(word: u32) -> [Insn; 2] {
    [
        Insn::new(op::MISC | op::TAX, 0),
        Insn::new(op::LD | op::MEM, word),
    ]
}

/// Skips authentication headers only, over IPv4.
fn rounds_v4(chain: Chain, word: u32) -> Vec<Insn> {
    let mut code = vec![is(chain.wanted, 9, 0), is(AUTHENTICATION, 0, 8)];
    code.extend(header(chain.at, word));
    code.extend(behind_authentication());
    code.extend(to_next_header(word));
    code
}

fn rounds_v6(chain: Chain, word: u32) -> Vec<Insn> {
    const AUTHENTICATION_CODE: u8 = 6;
    const EXTENSION_CODE: u8 = 6;
    const TO_NEXT_HEADER: u8 = 3;
    let to_end = AUTHENTICATION_CODE + EXTENSION_CODE + TO_NEXT_HEADER;
    let mut code = vec![is(chain.wanted, EXTENSION_TESTS + 1 + to_end, 0)];
    for (left, protocol) in (0..EXTENSION_TESTS).rev().zip(EXTENSIONS) {
        code.push(is(protocol, left + 1 + AUTHENTICATION_CODE, 0));
    }
    code.push(is(AUTHENTICATION, 0, to_end));
    code.extend(header(chain.at, word));
    code.extend(behind_authentication());
    code.push(Insn::new(op::JMP | op::JA, EXTENSION_CODE.into()));
    code.extend(header(chain.at, word));
    code.extend([
        Insn::new(op::ALU | op::ADD, 1),
        Insn::new(op::ALU | op::LSH, 3),
        Insn::new(op::ALU | op::ADD | op::X, 0),
    ]);
    code.extend(to_next_header(word));
    code
}

//! Filter programs in C's format: validated, run, printed, freed.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uchar, c_uint};
use std::fmt::Write as _;

use ringtap_filter::program::{MAX_INSNS, Reason, opcode as op};
use ringtap_filter::{Insn, Program, disasm};

use crate::boundary::export;
use crate::memory;
use crate::stdio;
use crate::text::in_buffer;
use crate::types::{BpfInsn, BpfProgram, PacketHeader};

/// The result of a missing filter: accept the packet.
const ACCEPT: c_uint = c_uint::MAX;
/// Number of programs that are kept compiled, for callers that pass one with every packet.
const KEPT: usize = 4;
/// Number of instructions that are put before a program that reads unset scratch memory: libpcap
/// accepts such programs.
const SCRATCH: usize = op::MEMWORDS as usize;

/// Returns the program if libpcap would accept it too.
pub(crate) fn program(insns: &[BpfInsn]) -> Option<Program> {
    let owned = insns.to_vec();
    match Program::with_loops(owned) {
        Ok(program) => Some(program),
        Err(invalid) if matches!(invalid.reason, Reason::ScratchUnset(_)) => {
            let mut with_zeros = vec![Insn::new(op::LD | op::IMM, 0)];
            with_zeros.extend((0..op::MEMWORDS).map(|word| Insn::new(op::ST, word)));
            with_zeros.extend_from_slice(insns);
            debug_assert_eq!(with_zeros.len(), insns.len() + SCRATCH + 1);
            Program::with_loops(with_zeros).ok()
        }
        Err(_) => None,
    }
}

/// Returns whether a program accepts every packet.
pub(crate) fn accepts_all(program: &Program) -> bool {
    matches!(program.insns(), [Insn { code, k, .. }] if *code == op::RET | op::K && *k != 0)
}

/// Returns the instructions that begin at an address, up to the first return that no jump passes: C
/// does not pass the length.
///
/// # Safety
///
/// `first` points to a valid program: each of its paths ends with a return.
unsafe fn until_last_return<'a>(first: *const BpfInsn) -> Option<&'a [BpfInsn]> {
    let mut furthest = 0_usize;
    for at in 0..MAX_INSNS {
        // SAFETY: execution can reach `at`, or a jump leads to a later instruction; so `at` belongs
        // to the program.
        let insn = unsafe { *first.add(at) };
        let reach = match insn.code & 7 {
            op::JMP if insn.code & 0xf0 == op::JA => {
                let distance = isize::try_from(insn.k.cast_signed()).ok()?;
                (at + 1).checked_add_signed(distance)?
            }
            op::JMP => at + 1 + usize::from(insn.jt.max(insn.jf)),
            op::RET => at,
            _ => at + 1,
        };
        furthest = furthest.max(reach);
        if furthest <= at {
            // SAFETY: all instructions up to here were read above.
            return Some(unsafe { std::slice::from_raw_parts(first, at + 1) });
        }
    }
    None
}

/// Programs that were run recently.
struct Kept(Vec<(Vec<BpfInsn>, Option<Program>)>);

thread_local! {
    static READY: RefCell<Kept> = const { RefCell::new(Kept(Vec::new())) };
    static IMAGE: RefCell<[u8; 256]> = const { RefCell::new([0; 256]) };
}

impl Kept {
    fn run(&mut self, insns: &[BpfInsn], data: &[u8], len: u32) -> u32 {
        let place = match self.0.iter().position(|(known, _)| known == insns) {
            Some(place) => place,
            None => {
                self.0.truncate(KEPT - 1);
                self.0.insert(0, (insns.to_vec(), program(insns)));
                0
            }
        };
        let program = self.0.get(place).and_then(|(_, program)| program.as_ref());
        program.map_or(0, |program| program.run(data, len))
    }
}

/// Prints one instruction like libpcap.
fn line(insn: &Insn, at: c_int) -> String {
    if !is_known(insn.code) {
        let Insn { code, jt, jf, .. } = *insn;
        let text = format!("({at:03}) {:<8} {code:#x}", "unimp");
        let conditional = code & 7 == op::JMP && code & 0xf0 != op::JA;
        if !conditional {
            return text;
        }
        let target = |distance: u8| at.wrapping_add(1).wrapping_add(distance.into());
        return format!(
            "({at:03}) {:<8} {:<16} jt {}\tjf {}",
            "unimp",
            format!("{code:#x}"),
            target(jt),
            target(jf)
        );
    }
    if insn.code == op::JMP | op::JA {
        let target = at.wrapping_add(1).wrapping_add(insn.k.cast_signed());
        return format!("({at:03}) {:<8} {target}", "ja");
    }
    disasm::line(insn, usize::try_from(at).unwrap_or(0))
}

/// Returns whether libpcap has a name for an operation.
fn is_known(code: u16) -> bool {
    let sized = |mode: u16| {
        [op::W, op::H, op::B]
            .iter()
            .any(|size| code == op::LD | size | mode)
    };
    match code & 7 {
        op::LD => {
            sized(op::ABS)
                || sized(op::IND)
                || [op::IMM, op::MEM, op::LEN]
                    .iter()
                    .any(|mode| code == op::LD | mode)
        }
        op::LDX => {
            code == op::LDX | op::MSH | op::B
                || [op::IMM, op::MEM].iter().any(|mode| code == op::LDX | mode)
        }
        op::ST | op::STX => code == op::ST || code == op::STX,
        op::ALU => code <= op::ALU | op::X | 0xa0 && code != op::ALU | op::NEG | op::X,
        op::JMP => code == op::JMP | op::JA || (0x10..=0x40).contains(&(code & 0xfff0)),
        op::RET => code == op::RET | op::K || code == op::RET | op::A,
        _ => code == op::MISC | op::TAX || code == op::MISC | op::TXA,
    }
}

/// Returns the verdict of a program on a packet.
fn run(insns: &[BpfInsn], data: &[u8], len: u32) -> u32 {
    READY.with_borrow_mut(|kept| kept.run(insns, data, len))
}

export! {
    /// Returns the verdict of a program on a packet: the number of bytes to keep, 0 to reject it.
    fn bpf_filter(
        first: *const BpfInsn, data: *const c_uchar, len: c_uint, caplen: c_uint,
    ) -> c_uint {
        if first.is_null() {
            return ACCEPT;
        }
        // SAFETY: C's contract: a valid program, and `caplen` bytes of a packet.
        let (insns, data) = unsafe { (until_last_return(first), memory::items(data, caplen as usize)) };
        insns.map_or(0, |insns| run(insns, data, len))
    } else 0;

    /// Returns the verdict of a program on a captured packet.
    fn pcap_offline_filter(
        program: Option<&BpfProgram>, header: Option<&PacketHeader>, data: *const c_uchar,
    ) -> c_int {
        let (Some(program), Some(header)) = (program, header) else {
            return 0;
        };
        if program.bf_insns.is_null() {
            return 0;
        }
        // SAFETY: C's contract: the header holds the number of bytes.
        let data = unsafe { memory::items(data, header.caplen as usize) };
        run(program.insns(), data, header.len).cast_signed()
    } else 0;

    /// Returns 1 if the instructions are a valid program, otherwise 0.
    fn bpf_validate(first: *const BpfInsn, len: c_int) -> c_int {
        let Ok(len) = u32::try_from(len) else { return 0 };
        let given = BpfProgram { bf_len: len, bf_insns: first.cast_mut() };
        c_int::from(program(given.insns()).is_some())
    } else 0;

    /// Returns one instruction as text, in memory that the thread's next call overwrites.
    fn bpf_image(insn: Option<&BpfInsn>, number: c_int) -> *mut c_char {
        let Some(insn) = insn else { return std::ptr::null_mut() };
        in_buffer(&IMAGE, line(insn, number))
    } else std::ptr::null_mut();

    /// Prints a program to the standard output: as text (1), as a C array (2), as numbers (3).
    fn bpf_dump(program: Option<&BpfProgram>, option: c_int) {
        let Some(program) = program else { return };
        let mut text = String::new();
        let insns = program.insns();
        if option > 2 {
            let _ = writeln!(text, "{}", insns.len());
        }
        for (at, insn) in insns.iter().enumerate() {
            let Insn { code, jt, jf, k } = *insn;
            let _ = match option {
                3.. => writeln!(text, "{code} {jt} {jf} {k}"),
                2 => writeln!(text, "{{ 0x{code:x}, {jt}, {jf}, 0x{k:08x} }},"),
                _ => writeln!(text, "{}", line(insn, c_int::try_from(at).unwrap_or(c_int::MAX))),
            };
        }
        stdio::print(&text);
    } else ();

    /// Frees a program's instructions.
    fn pcap_freecode(program: Option<&mut BpfProgram>) {
        if let Some(program) = program {
            // SAFETY: C's contract: the instructions are null, or were allocated by `pcap_compile`
            // with `malloc`.
            unsafe { libc::free(program.bf_insns.cast()) };
            *program = BpfProgram::none();
        }
    } else ();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept() -> Vec<BpfInsn> {
        vec![
            Insn::new(op::LD | op::H | op::ABS, 12),
            Insn::jump(op::JMP | op::JEQ, 0x800, 0, 1),
            Insn::new(op::RET | op::K, 96),
            Insn::new(op::RET | op::K, 0),
        ]
    }

    #[test]
    fn a_program_without_a_length_is_found_and_run() {
        let insns = accept();
        let mut packet = [0_u8; 60];
        packet[12] = 8;
        assert_eq!(bpf_filter(insns.as_ptr(), packet.as_ptr(), 60, 60), 96);
        assert_eq!(bpf_filter(insns.as_ptr(), packet.as_ptr(), 60, 12), 0);
        packet[12] = 0;
        assert_eq!(bpf_filter(insns.as_ptr(), packet.as_ptr(), 60, 60), 0);
        assert_eq!(
            bpf_filter(std::ptr::null(), packet.as_ptr(), 60, 60),
            u32::MAX
        );
    }

    #[test]
    fn programs_are_validated_as_libpcap_does() {
        let insns = accept();
        assert_eq!(bpf_validate(insns.as_ptr(), 4), 1);
        assert_eq!(bpf_validate(insns.as_ptr(), 3), 0);
        assert_eq!(bpf_validate(insns.as_ptr(), 0), 0);
        assert_eq!(bpf_validate(insns.as_ptr(), -1), 0);
        assert_eq!(bpf_validate(std::ptr::null(), 5), 0);
        let unset = [
            Insn::new(op::LD | op::MEM, 3),
            Insn::new(op::RET | op::A, 0),
        ];
        assert_eq!(bpf_validate(unset.as_ptr(), 2), 1);
    }

    #[test]
    fn what_cannot_be_run_is_no_program_though_libpcap_takes_it() {
        let last = Insn::new(op::RET | op::K, 1);
        let unknown = [Insn::new(0xff00, 0), last];
        assert_eq!(bpf_validate(unknown.as_ptr(), 2), 0);
        let unreachable = [last, Insn::new(0xff00, 0), last];
        assert_eq!(bpf_validate(unreachable.as_ptr(), 3), 0);
        let too_far = [Insn::new(op::ALU | op::LSH | op::K, 32), last];
        assert_eq!(bpf_validate(too_far.as_ptr(), 2), 0);
        assert_eq!(bpf_validate(vec![last; 65_536].as_ptr(), 65_536), 0);
    }
}

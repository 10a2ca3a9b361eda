//! Prints the forms of a program: classic BPF, eBPF and machine code, each as a listing, as C and as decimal
//! numbers.

use std::fmt::Write as _;

use ringtap_filter::ebpf::lower::{self, Vlan};
use ringtap_filter::{Program, disasm, ebpf};
use ringtap_jit::MachineCode;

use super::error::FilterError;
use crate::cli::Hook;

/// The number of bytes of machine code in a line of C.
const BYTES_PER_LINE: usize = 12;
/// The number of columns for the bytes of an instruction.
const BYTES_WIDTH: usize = 24;

/// Returns the program in the form for this number of `-d`; none counts as one.
pub(crate) fn classic(program: &Program, dump: u8) -> String {
    match dump {
        0 | 1 => disasm::listing(program),
        2 => disasm::c_array(program),
        _ => disasm::decimal(program),
    }
}

/// Returns the eBPF program for a hook: it returns the number of accepted bytes.
pub(super) fn ebpf(program: &Program, hook: Hook, dump: u8) -> Result<String, FilterError> {
    let code = ebpf_code(program, hook)?;
    Ok(match dump {
        0 | 1 => ebpf::listing(&code),
        2 => ebpf::c_array(&code),
        _ => ebpf::decimal(&code),
    })
}

/// Returns the words of the eBPF program.
pub(super) fn ebpf_code(program: &Program, hook: Hook) -> Result<Vec<u64>, FilterError> {
    let hook = match hook {
        Hook::Xdp => lower::Hook::Xdp { frags: false },
        Hook::XdpFrags => lower::Hook::Xdp { frags: true },
        Hook::Tcx => lower::Hook::Tcx(Vlan::Restored),
        Hook::Socket => lower::Hook::SocketFilter,
    };
    let mut assembler = lower::standalone(program, hook)?;
    assembler.allow_long_jumps(true);
    Ok(assembler.finish()?)
}

/// Returns the machine code for this processor.
pub(super) fn native(program: &Program, dump: u8) -> Result<String, FilterError> {
    let code = MachineCode::of(program)?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    match dump {
        0 | 1 => {
            for insn in code.insns() {
                let bytes: String = insn
                    .bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let _ = match insn.text {
                    Some(statement) => {
                        writeln!(text, "{:6x}: {bytes:<BYTES_WIDTH$} {statement}", insn.at)
                    }
                    None => writeln!(text, "{:6x}: {bytes}", insn.at),
                };
            }
        }
        2 => {
            for line in code.bytes().chunks(BYTES_PER_LINE) {
                let bytes: Vec<String> = line.iter().map(|byte| format!("0x{byte:02x},")).collect();
                let _ = writeln!(text, "{}", bytes.join(" "));
            }
        }
        _ => {
            let _ = writeln!(text, "{}", code.bytes().len());
            for byte in code.bytes() {
                let _ = writeln!(text, "{byte}");
            }
        }
    }
    Ok(text)
}

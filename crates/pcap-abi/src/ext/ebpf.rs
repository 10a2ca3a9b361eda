//! Translates filters to eBPF: `ringtap_filter_ebpf`.

use std::ffi::{c_int, c_uint};

use ringtap_filter::ebpf::lower::{self, Hook, Vlan};

use crate::boundary::export;
use crate::text::{ErrBuf, told};
use crate::types::{BpfProgram, code};
use crate::{bpf, memory};

/// Returns the hook of `RINGTAP_HOOK_*`.
fn hook(number: c_int) -> Option<Hook> {
    Some(match number {
        0 => Hook::SocketFilter,
        1 => Hook::Tcx(Vlan::Restored),
        2 => Hook::Xdp { frags: false },
        3 => Hook::Xdp { frags: true },
        _ => return None,
    })
}

fn translate(program: &BpfProgram, number: c_int) -> Result<Vec<u64>, String> {
    let hook = hook(number).ok_or_else(|| format!("unknown hook {number}"))?;
    let program = bpf::program(program.insns()).ok_or("BPF program is not valid")?;
    let mut assembler = lower::standalone(&program, hook).map_err(|error| error.to_string())?;
    assembler.allow_long_jumps(true);
    assembler.finish().map_err(|error| error.to_string())
}

export! {
    /// Translates a filter to eBPF for a hook of the kernel: instructions of 8 bytes, to be freed
    /// by `free`. The program returns the number of accepted bytes.
    fn ringtap_filter_ebpf(
        program: Option<&BpfProgram>,
        hook: c_int,
        insns: Option<&mut *mut u64>,
        count: Option<&mut c_uint>,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        let (Some(program), Some(insns), Some(count)) = (program, insns, count) else {
            return code::ERROR;
        };
        let copied = translate(program, hook).and_then(|words| {
            let copy = memory::array(&words).ok_or("malloc: Cannot allocate memory")?;
            Ok((copy, c_uint::try_from(words.len()).unwrap_or(0)))
        });
        let Some(copied) = told(copied, errbuf) else { return code::ERROR };
        (*insns, *count) = copied;
        0
    } else code::ERROR;
}

#[cfg(test)]
mod tests {
    use ringtap_filter::Insn;
    use ringtap_filter::program::opcode as op;

    use super::*;

    #[test]
    fn every_hook_has_a_program() {
        let mut insns = [
            Insn::new(op::LD | op::H | op::ABS, 12),
            Insn::jump(op::JMP | op::JEQ, 0x800, 0, 1),
            Insn::new(op::RET | op::K, 96),
            Insn::new(op::RET | op::K, 0),
        ];
        let program = BpfProgram {
            bf_len: 4,
            bf_insns: insns.as_mut_ptr(),
        };
        for hook in 0..4 {
            let words = translate(&program, hook).unwrap();
            // The last instruction exits the program.
            assert_eq!(
                words.last().map(|word| word.to_ne_bytes()[0]),
                Some(0x95),
                "{hook}"
            );
        }
        assert!(translate(&program, 4).is_err());
        assert!(translate(&BpfProgram::none(), 0).is_err());
    }
}

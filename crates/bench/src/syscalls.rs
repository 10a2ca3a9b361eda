//! Counts the system calls of one process or thread with a program at the kernel's own tracepoint.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{Kernel, Map, MapKind, MapSpec, Program, ProgramKind, Tracepoint};

use crate::session::Done;

/// Counts until it is dropped. Needs Linux 4.17; slows each system call of the machine by some
/// nanoseconds.
#[derive(Debug)]
pub(crate) struct Syscalls {
    count: Map,
    _point: Tracepoint,
}

/// The calls to count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// Those of all threads of a process, by its number.
    Process(u32),
    /// Those of one thread, by its number.
    Thread(u32),
}

impl Syscalls {
    /// Starts counting.
    pub(crate) fn of(who: Who) -> Done<Self> {
        let kernel = Kernel::running();
        let kind = MapKind::Array {
            mmapable: false,
            inner: false,
        };
        let spec = MapSpec::new("syscalls", kind, 8, 1);
        let count = Map::create(&kernel, &spec)?;
        let code = program(who, &count).ok_or("a jump without its label")?;
        let program = Program::load(&kernel, "syscalls", ProgramKind::RawTracepoint, &code)?;
        Ok(Self {
            count,
            _point: Tracepoint::attach(&kernel, c"sys_enter", &program)?,
        })
    }

    /// Returns the count so far.
    pub(crate) fn count(&self) -> Done<u64> {
        let mut value = [0; 8];
        self.count.lookup(0, &mut value)?;
        Ok(u64::from_ne_bytes(value))
    }
}

/// Compares the number of the process (the upper half of the helper's result) or thread (the lower
/// half), and counts.
fn program(who: Who, count: &Map) -> Option<Vec<u64>> {
    let mut asm = Assembler::new();
    let other = asm.label();
    asm.call(Helper::GetCurrentPidTgid);
    let number = match who {
        Who::Process(number) => {
            asm.alu64(AluOp::Rsh, Reg::R0, 32);
            number
        }
        Who::Thread(number) => number,
    };
    asm.jump_if(Cond::Ne, Width::W32, Reg::R0, number.cast_signed(), other);
    asm.push(Insn::LoadMapValue {
        dst: Reg::R1,
        fd: count.as_fd().as_raw_fd(),
        offset: 0,
    });
    asm.mov64(Reg::R2, 1);
    asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, 0, Reg::R2);
    asm.place(other);
    asm.mov32(Reg::R0, 0);
    asm.exit();
    asm.finish().ok()
}

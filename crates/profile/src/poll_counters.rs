//! Counters that the kernel does not keep, from programs at two of its tracepoints: polls of
//! drivers with their packets, and system calls of one thread.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{
    self, Kernel, Map, MapKind, MapSpec, Program, ProgramKind, Tracepoint, possible_cpus,
};

/// The size of a CPU's two counters in bytes.
const BYTES: u32 = 16;
const FIRST: i16 = 0;
const SECOND: i16 = 8;
const KEY: i16 = -4;
/// The offset of the second argument of `napi_poll`: packets of the poll.
const WORK: i16 = 8;

/// Two counters, which a program at a tracepoint increases while this lives.
#[derive(Debug)]
pub(crate) struct Counting {
    counters: Map,
    _point: Tracepoint,
    _program: Program,
}

/// Counts polls of drivers that returned packets (first counter) and those packets (second).
pub(crate) fn polls(kernel: &Kernel) -> bpf::Result<Counting> {
    Counting::at(kernel, c"napi_poll", "ringtap_polls", |asm, none| {
        // The number has 32 bits, in a word of 64.
        asm.load(Size::Dw, Reg::R7, Reg::R1, WORK);
        asm.mov32(Reg::R7, Reg::R7);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R7, 0, none);
    })
}

/// Counts system calls of a thread (first counter).
pub(crate) fn calls(kernel: &Kernel, thread: u32) -> bpf::Result<Counting> {
    Counting::at(kernel, c"sys_enter", "ringtap_calls", |asm, none| {
        asm.call(Helper::GetCurrentPidTgid);
        // The thread's number is the lower half.
        asm.jump_if(Cond::Ne, Width::W32, Reg::R0, thread.cast_signed(), none);
        asm.mov64(Reg::R7, 0);
    })
}

impl Counting {
    /// Attaches a program. `choose` leaves the increment of the second counter in R7, or jumps to
    /// its label.
    fn at(
        kernel: &Kernel,
        point: &std::ffi::CStr,
        name: &'static str,
        choose: impl FnOnce(&mut Assembler, ringtap_filter::ebpf::Label),
    ) -> bpf::Result<Self> {
        let spec = MapSpec::new(name, MapKind::PerCpuArray, BYTES, 1);
        let counters = Map::create(kernel, &spec)?;
        let mut asm = Assembler::new();
        let none = asm.label();
        choose(&mut asm, none);
        asm.store_imm(Size::W, Reg::R10, KEY, 0);
        asm.push(Insn::LoadMap {
            dst: Reg::R1,
            fd: counters.as_fd().as_raw_fd(),
        });
        asm.mov64(Reg::R2, Reg::R10);
        asm.add64(Reg::R2, i32::from(KEY));
        asm.call(Helper::MapLookupElem);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
        asm.load(Size::Dw, Reg::R1, Reg::R0, FIRST);
        asm.add64(Reg::R1, 1);
        asm.store(Size::Dw, Reg::R0, FIRST, Reg::R1);
        asm.load(Size::Dw, Reg::R1, Reg::R0, SECOND);
        asm.add64(Reg::R1, Reg::R7);
        asm.store(Size::Dw, Reg::R0, SECOND, Reg::R1);
        asm.place(none);
        asm.mov32(Reg::R0, 0);
        asm.exit();
        // All labels are placed, and near.
        let code = asm.finish().unwrap_or_default();
        let program = Program::load(kernel, name, ProgramKind::RawTracepoint, &code)?;
        let point = Tracepoint::attach(kernel, point, &program)?;
        Ok(Self {
            counters,
            _point: point,
            _program: program,
        })
    }

    /// Returns both counters, summed over all CPUs.
    pub(crate) fn read(&self) -> bpf::Result<(u64, u64)> {
        let mut values = vec![0; self.counters.element_size()];
        self.counters.lookup(0, &mut values)?;
        debug_assert_eq!(values.len(), possible_cpus() * BYTES as usize);
        let words = values
            .chunks_exact(8)
            .map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let words: Vec<u64> = words.collect();
        let sum = |from: usize| words.iter().skip(from).step_by(2).sum();
        Ok((sum(0), sum(1)))
    }
}

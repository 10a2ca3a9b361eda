//! The kernel as an engine for lowered programs.

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_filter::ebpf::{Assembler, Helper, Reg, statement};
use ringtap_filter::program::plain;
use ringtap_sys::bpf::{self, Error, Kernel, ProgramKind, ProgramRun};

use super::complete;

/// The size of the Ethernet header, which the kernel removes from a socket filter's packet in a
/// test run.
const ETHERNET_BYTES: usize = 14;
/// The number of a program's lines in a failure's message.
const SHOWN_LINES: usize = 40;
/// The size of `struct __sk_buff`.
const SK_BUFF_BYTES: usize = 192;

/// A classic program and its loaded form.
pub struct Loaded {
    classic: Program,
    hook: Hook,
    kernel: bpf::Program,
}

/// A tag that the kernel stores separately: type and control information.
pub type Tag = (u16, u16);

impl Loaded {
    /// Lowers and loads a program.
    ///
    /// # Panics
    /// Panics if the hook does not have data that the program loads, or if the kernel rejects it.
    #[must_use]
    pub fn new(program: &Program, hook: Hook) -> Self {
        let asm = standalone(program, hook).expect("the hook knows everything");
        Self::assembled(program, hook, asm)
    }

    /// Like [`Loaded::new`], for packets with a separate tag. Test runs cannot set one, so the
    /// program itself first gives the packet its tag.
    ///
    /// # Panics
    /// The same as for [`Loaded::new`].
    #[must_use]
    pub fn tagged(program: &Program, hook: Hook, (kind, tci): Tag) -> Self {
        let mut asm = Assembler::new();
        asm.mov64(Reg::R6, Reg::R1);
        asm.mov32(Reg::R2, i32::from(kind.to_be()));
        asm.mov32(Reg::R3, i32::from(tci));
        asm.call(Helper::SkbVlanPush);
        complete(program, hook, &mut asm).expect("the hook knows everything");
        Self::assembled(program, hook, asm)
    }

    /// Loads code that was made from the program.
    ///
    /// # Panics
    /// Panics if the kernel rejects it.
    #[must_use]
    pub fn assembled(program: &Program, hook: Hook, asm: Assembler) -> Self {
        Self::try_assembled(program, hook, asm).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Loaded::assembled`].
    ///
    /// # Errors
    /// Returns the reason why the kernel rejects it, with the instruction and the classic program.
    ///
    /// # Panics
    /// Panics if a label is not placed.
    pub fn try_assembled(
        program: &Program,
        hook: Hook,
        mut asm: Assembler,
    ) -> Result<Self, String> {
        asm.allow_long_jumps(true);
        let code = asm.finish().expect("every label is placed");
        let kind = match hook {
            Hook::Xdp { frags } => ProgramKind::Xdp { frags },
            Hook::Tcx(_) => ProgramKind::SchedCls,
            Hook::SocketFilter => ProgramKind::SocketFilter,
            Hook::Scratch => ProgramKind::RawTracepoint,
        };
        let kernel = bpf::Program::load(&Kernel::running(), "ringtap_test", kind, &code);
        let kernel = kernel.map_err(|error| {
            let at = match &error {
                Error::Rejected(rejection) => rejection.instruction.unwrap_or_default(),
                _ => 0,
            };
            let shown = code.get(at..).map(statement).unwrap_or_default();
            let classic = format!("{program:?}");
            let classic: Vec<&str> = classic.lines().take(SHOWN_LINES).collect();
            let (classic, count) = (classic.join("\n"), code.len());
            format!("{count} instructions at {hook:?}: {error}\n({shown})\n{classic}")
        })?;
        Ok(Self {
            classic: program.clone(),
            hook,
            kernel,
        })
    }

    /// Returns the number of instructions that the verifier processed.
    ///
    /// # Panics
    /// Panics if the kernel does not report it.
    #[must_use]
    pub fn verified_instructions(&self) -> u32 {
        self.kernel
            .info()
            .expect("the kernel tells")
            .verified_instructions
    }

    /// Returns the plain interpreter's verdict on a packet.
    ///
    /// # Panics
    /// Panics on a packet of 4 GiB.
    #[must_use]
    pub fn expected(&self, packet: &[u8]) -> u32 {
        let len = u32::try_from(packet.len()).expect("short");
        plain::run(&self.classic, packet, len, None)
    }

    /// Returns whether a test run accepts the packet. XDP and, with a header before the packet, a socket
    /// filter accept all; sched_cls needs a byte after the Ethernet header, and complete IP headers.
    pub fn takes(&self, packet: &[u8]) -> bool {
        let least = match self.half_at_12(packet) {
            0x0800 => ETHERNET_BYTES + 20,
            0x86dd => ETHERNET_BYTES + 40,
            _ => ETHERNET_BYTES + 1,
        };
        packet.len() >= least || !matches!(self.hook, Hook::Tcx(_))
    }

    /// Returns the kernel's verdict on a packet.
    ///
    /// # Panics
    /// Panics if the test run fails.
    #[must_use]
    pub fn run(&self, packet: &[u8]) -> u32 {
        self.try_run(packet)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Loaded::run`].
    ///
    /// # Errors
    /// Returns an error if the test run fails.
    pub fn try_run(&self, packet: &[u8]) -> Result<u32, String> {
        let framed;
        let data = if self.hook == Hook::SocketFilter {
            framed = [&[0; ETHERNET_BYTES], packet].concat();
            &framed
        } else {
            packet
        };
        self.outcome(&ProgramRun {
            data,
            ..ProgramRun::default()
        })
    }

    /// Returns the kernel's verdict on a packet with a mark.
    ///
    /// # Panics
    /// Panics if the test run fails.
    #[must_use]
    pub fn run_marked(&self, packet: &[u8], mark: u32) -> u32 {
        let mut context = [0_u8; SK_BUFF_BYTES];
        context[8..12].copy_from_slice(&mark.to_ne_bytes());
        let run = ProgramRun {
            data: packet,
            context: &context,
            ..ProgramRun::default()
        };
        self.outcome(&run).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns bytes 12 and 13 of a packet.
    pub fn half_at_12(&self, packet: &[u8]) -> u32 {
        u32::from(u16::from_be_bytes([packet[12], packet[13]]))
    }

    fn outcome(&self, run: &ProgramRun<'_>) -> Result<u32, String> {
        let outcome = self.kernel.run(run);
        outcome
            .map(|outcome| outcome.return_value)
            .map_err(|error| format!("{error} ({} bytes)", run.data.len()))
    }
}

/// Returns the packet as it was before the kernel removed the tag.
pub fn with_tag(packet: &[u8], (kind, tci): Tag) -> Vec<u8> {
    let (before, behind) = packet.split_at(12);
    [before, &kind.to_be_bytes(), &tci.to_be_bytes(), behind].concat()
}

//! The kernel as a machine that runs lowered programs.

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Exits, Hook, lower, standalone};
use ringtap_filter::ebpf::{Assembler, Helper, Reg, statement};
use ringtap_filter::program::plain;
use ringtap_sys::bpf::{self, Error, Kernel, ProgramKind, ProgramRun};

/// The Ethernet header, which the kernel takes from a socket filter's packet in a test run.
const ETHERNET_BYTES: usize = 14;
/// Lines of a program that a failure shows.
const SHOWN_LINES: usize = 40;
/// Size of `struct __sk_buff`.
const SK_BUFF_BYTES: usize = 192;

/// A classic program, and what the kernel made of it.
pub struct Loaded {
    classic: Program,
    hook: Hook,
    kernel: bpf::Program,
}

/// A tag that the kernel keeps beside the packet: type and control information.
pub type Tag = (u16, u16);

impl Loaded {
    /// Lowers and loads.
    ///
    /// # Panics
    /// When the hook does not know what the program asks for, or the kernel refuses it.
    #[must_use]
    pub fn new(program: &Program, hook: Hook) -> Self {
        let asm = standalone(program, hook).expect("the hook knows everything");
        Self::assembled(program, hook, asm)
    }

    /// As [`Loaded::new`], for packets with a tag beside them: test runs have no way to say so, and
    /// therefore the program itself gives the packet its tag first.
    ///
    /// # Panics
    /// As [`Loaded::new`].
    #[must_use]
    pub fn tagged(program: &Program, hook: Hook, (kind, tci): Tag) -> Self {
        let mut asm = Assembler::new();
        let exits = Exits {
            accept: asm.label(),
            reject: asm.label(),
        };
        asm.mov64(Reg::R6, Reg::R1);
        asm.mov32(Reg::R2, i32::from(kind.to_be()));
        asm.mov32(Reg::R3, i32::from(tci));
        asm.call(Helper::SkbVlanPush);
        lower(program, hook, &mut asm, exits).expect("the hook knows everything");
        asm.place(exits.reject);
        asm.mov32(Reg::R0, 0);
        asm.place(exits.accept);
        asm.exit();
        Self::assembled(program, hook, asm)
    }

    /// Loads code that was made of the program.
    ///
    /// # Panics
    /// When the kernel refuses it.
    #[must_use]
    pub fn assembled(program: &Program, hook: Hook, asm: Assembler) -> Self {
        Self::try_assembled(program, hook, asm).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Loaded::assembled`].
    ///
    /// # Errors
    /// Why the kernel refuses it, with the instruction and the classic program.
    ///
    /// # Panics
    /// When a label is not placed.
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

    /// Instructions that the verifier walked.
    ///
    /// # Panics
    /// When the kernel does not tell.
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
    /// On a packet of 4 GiB.
    #[must_use]
    pub fn expected(&self, packet: &[u8]) -> u32 {
        let len = u32::try_from(packet.len()).expect("short");
        plain::run(&self.classic, packet, len, None)
    }

    /// Whether a test run takes the packet. XDP and, with a header put before it, a socket filter
    /// take all; sched_cls wants a byte behind the Ethernet header, and whole IP headers.
    pub fn takes(&self, packet: &[u8]) -> bool {
        let least = match self.half_at_12(packet) {
            0x0800 => ETHERNET_BYTES + 20,
            0x86dd => ETHERNET_BYTES + 40,
            _ => ETHERNET_BYTES + 1,
        };
        packet.len() >= least || !matches!(self.hook, Hook::Tcx(_))
    }

    /// What the kernel says of a packet.
    ///
    /// # Panics
    /// When the test run fails.
    #[must_use]
    pub fn run(&self, packet: &[u8]) -> u32 {
        self.try_run(packet)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Loaded::run`].
    ///
    /// # Errors
    /// When the test run fails.
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

    /// What the kernel says of a packet with a mark.
    ///
    /// # Panics
    /// When the test run fails.
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

    /// Bytes 12 and 13 of a packet.
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

/// The packet as it was before the kernel took the tag.
pub fn with_tag(packet: &[u8], (kind, tci): Tag) -> Vec<u8> {
    let (before, behind) = packet.split_at(12);
    [before, &kind.to_be_bytes(), &tci.to_be_bytes(), behind].concat()
}

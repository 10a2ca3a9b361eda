//! Classic-BPF programs: instructions are validated once, then executed and rewritten.
//!
//! An invalid [`Program`] cannot be built, so code that executes or translates one never checks
//! opcodes, jump targets or scratch slots again.

pub(crate) mod assemble;
mod decode;
mod fuse;
mod handlers;
mod interpret;
pub mod opcode;
mod operand;
pub mod plain;
mod step;
mod validate;

pub use interpret::Ancillary;
pub use validate::{InvalidProgram, Reason};

use step::Decoded;
use validate::Except;

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Insn {
    /// Operation (see [`opcode`]).
    pub code: u16,
    /// Instructions to skip if a conditional jump's test holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Constant operand.
    pub k: u32,
}

impl Insn {
    /// Returns an instruction that is not a conditional jump.
    #[must_use]
    pub const fn new(code: u16, k: u32) -> Self {
        Self {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    }

    /// Returns a conditional jump.
    #[must_use]
    pub const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Self {
        Self { code, jt, jf, k }
    }
}

/// A valid classic-BPF program.
#[derive(Clone)]
pub struct Program {
    insns: Vec<Insn>,
    decoded: Decoded,
}

/// The longest program that can be built, in instructions. The kernel accepts fewer
/// ([`opcode::KERNEL_MAX_INSNS`]); filters over files may be longer.
pub const MAX_INSNS: usize = 65_535;

/// How often a program may jump backwards for one packet: as often as extension headers of 8 bytes
/// fit into 64 KiB. A program that jumps more often is in an endless loop.
pub const MAX_ROUNDS: u32 = 8_192;

impl Program {
    /// Validates `insns` by the kernel's rules (`bpf_check_classic` in `net/core/filter.c`):
    ///
    /// - opcodes and ancillary loads are known;
    /// - jumps lead forward and stay inside the program;
    /// - scratch slots are below 16, and stored before they are loaded on every path;
    /// - no constant is zero in a division, or 32 or more in a shift;
    /// - the last instruction is a return.
    ///
    /// # Errors
    /// Reports the first instruction that breaks a rule, and the rule.
    pub fn new(insns: Vec<Insn>) -> Result<Self, InvalidProgram> {
        Self::validated(insns, Except::default())
    }

    fn validated(insns: Vec<Insn>, except: Except) -> Result<Self, InvalidProgram> {
        validate::validate(&insns, except)?;
        let decoded = Decoded::new(&insns);
        Ok(Self { insns, decoded })
    }

    /// Like [`new`](Self::new), but a `ja` may also lead backwards, by a negative distance in two's
    /// complement, as in libpcap's programs for `protochain`. Such programs run in user space only.
    ///
    /// # Errors
    /// Reports the first instruction that breaks a rule, and the rule.
    pub fn with_loops(insns: Vec<Insn>) -> Result<Self, InvalidProgram> {
        let loops = Except {
            loops: true,
            ..Except::default()
        };
        Self::validated(insns, loops)
    }

    /// Like [`with_loops`](Self::with_loops), but loads may also ask for the packet's process, as only compiled
    /// expressions do.
    pub(crate) fn compiled(insns: Vec<Insn>) -> Result<Self, InvalidProgram> {
        let except = Except {
            loops: true,
            processes: true,
        };
        Self::validated(insns, except)
    }

    /// Returns whether an instruction asks for the packet's process.
    #[must_use]
    pub fn asks_for_process(&self) -> bool {
        let is_asked = |insn: &Insn| {
            let load = insn.k.checked_sub(opcode::SKF_AD_OFF);
            insn.code & 0xe7 == opcode::LD | opcode::ABS && load.is_some_and(opcode::is_process)
        };
        self.insns.iter().any(is_asked)
    }

    /// Returns whether a jump leads backwards.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        let mut insns = self.insns.iter().enumerate();
        insns.any(|(at, insn)| validate::loop_target(insn, at).is_some())
    }

    /// Returns the instructions.
    #[must_use]
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// Returns whether the kernel accepts the program: at most [`opcode::KERNEL_MAX_INSNS`] instructions, no
    /// loop, and no question about the packet's process.
    #[must_use]
    pub fn fits_kernel(&self) -> bool {
        self.insns.len() <= opcode::KERNEL_MAX_INSNS && !self.has_loop() && !self.asks_for_process()
    }

    /// Returns whether an instruction is the ancillary load of the value at `offset` from
    /// [`opcode::SKF_AD_OFF`], such as [`opcode::SKF_AD_PKTTYPE`].
    #[must_use]
    pub fn asks_for(&self, offset: u32) -> bool {
        self.insns.iter().any(|insn| loads(insn, offset))
    }

    /// Returns the program for packets whose value at `offset` from [`opcode::SKF_AD_OFF`] is known
    /// in advance: each ancillary load of it becomes a load of that constant.
    #[must_use]
    pub fn with_known(&self, offset: u32, value: u32) -> Self {
        let known = |insn: &Insn| match loads(insn, offset) {
            true => Insn::new(opcode::LD | opcode::IMM, value),
            false => *insn,
        };
        // The program stays valid: jump targets and scratch memory do not change.
        let insns: Vec<Insn> = self.insns.iter().map(known).collect();
        let decoded = Decoded::new(&insns);
        Self { insns, decoded }
    }

    /// Runs the program over one packet: `data` are the captured bytes, `len` the length on the
    /// wire in bytes. Returns the number of bytes accepted, 0 for a rejected packet.
    ///
    /// The semantics are those of libpcap's user-land filter: a load beyond `data`, a division by
    /// zero and an ancillary load reject the packet; an indirect offset does not wrap around; a
    /// shift by 32 or more (by X) gives 0. A program that jumps backwards more than [`MAX_ROUNDS`]
    /// times rejects the packet.
    #[inline]
    #[must_use]
    pub fn run(&self, data: &[u8], len: u32) -> u32 {
        self.decoded.run(data, len)
    }

    /// Like [`run`](Self::run), with the packet's metadata for the Linux ancillary loads.
    #[must_use]
    pub fn run_with(&self, data: &[u8], len: u32, ancillary: &Ancillary) -> u32 {
        self.decoded.run_with(data, len, ancillary)
    }
}

/// Returns whether an instruction is the ancillary load at `offset`, of any size.
fn loads(insn: &Insn, offset: u32) -> bool {
    let sizes = [opcode::W, opcode::H, opcode::B];
    let codes = sizes.map(|size| opcode::LD | size | opcode::ABS);
    codes.contains(&insn.code) && insn.k == opcode::SKF_AD_OFF + offset
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.insns == other.insns
    }
}

impl Eq for Program {}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program\n")?;
        f.write_str(&crate::disasm::listing(self))
    }
}

#[cfg(test)]
mod tests {
    use super::opcode as op;
    use super::*;

    #[test]
    fn what_is_known_is_not_asked_for() {
        for size in [op::W, op::H, op::B] {
            let asks = Program::new(vec![
                Insn::new(op::LD | size | op::ABS, op::SKF_AD_OFF + op::SKF_AD_PKTTYPE),
                Insn::jump(op::JMP | op::JEQ, op::PACKET_OUTGOING, 0, 2),
                Insn::new(
                    op::LD | op::W | op::ABS,
                    op::SKF_AD_OFF + op::SKF_AD_IFINDEX,
                ),
                Insn::new(op::RET | op::A, 0),
                Insn::new(op::RET | op::K, 0),
            ])
            .unwrap();
            assert!(asks.asks_for(op::SKF_AD_PKTTYPE) && asks.asks_for(op::SKF_AD_IFINDEX));
            assert!(!asks.asks_for(op::SKF_AD_MARK));
            assert_eq!(asks.with_known(op::SKF_AD_MARK, 1), asks);
            let bound = asks.with_known(op::SKF_AD_IFINDEX, 7);
            for (kind, expected) in [(0, 0), (op::PACKET_OUTGOING, 7)] {
                let program = bound.with_known(op::SKF_AD_PKTTYPE, kind);
                assert!(!program.asks_for(op::SKF_AD_PKTTYPE));
                assert_eq!(program.run(&[], 0), expected);
            }
        }
    }
}

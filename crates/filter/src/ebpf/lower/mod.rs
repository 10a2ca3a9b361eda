//! A validated classic-BPF program, written as a fragment of an eBPF program.
//!
//! # Calling convention
//! On entry, R6 holds the hook's context. The fragment uses R0 to R5, R7, R8 and R9, and the
//! [`STACK_BYTES`] of stack below R10; R6 and the stack below that are unchanged. It ends with a
//! jump to the accept or the reject label. On accept, R0 holds the accepted bytes (not 0, not
//! clamped to the packet).
//!
//! # Semantics
//! The fragment decides exactly as [`Program::run`] on the whole packet. Bytes beyond the packet
//! and division by zero reject, offsets do not wrap around, a shift by 32 or more gives 0, and
//! `len` is the true length. With [`Vlan::Restored`], the packet is as it was on the wire: a tag
//! that the kernel stores separately appears at bytes 12 to 15, and `len` counts it. Ancillary
//! loads read the context; metadata that the hook does not have is an error.
//!
//! # Code generation
//! Classic BPF jumps forward only. The program is written twice. The *fast copy* reads the packet in place,
//! after bounds checks; a check is hoisted so that it serves all following loads (`flow`). The *slow copy*
//! calls a helper for each load. A failing check in the fast copy jumps to the same instruction of the slow
//! copy. That finds out whether the bytes are in a further buffer or beyond the packet. So a check may cover
//! more than its instruction needs: that costs time on short packets, but never gives a wrong verdict. If no
//! packet has further buffers (XDP without frags), there is no slow copy, and checks cover only what every
//! path needs. In the memory of a program ([`Hook::Scratch`]), the slow copy reads in place, and is the only one.
//!
//! # The verifier
//! The verifier follows every path, but stops at a state that it has seen before. The code keeps
//! the number of states small with slots of four bytes on the stack, at 4 modulo 8: the verifier
//! only remembers that they were written. An offset other than a header's length goes through such
//! a slot before it is bounded and added to a packet pointer. Scratch memory consists of such
//! slots. Where paths meet, A and X go through one if their values are still needed. Programs of
//! 4,096 instructions made to multiply states stay below the verifier's limit of a million steps.

mod ancillary;
mod copy;
mod fast;
mod flow;
pub mod scratch;
mod slow;
mod step;
mod view;

use super::{AluOp, Assembler, Cond, Label, Reg, Size, Width};
use crate::program::{Program, opcode};
use copy::{Copy, Placement};
use flow::{Forget, Needs};
use step::Step;
use view::View;

/// Stack that a fragment uses, in bytes below R10.
pub const STACK_BYTES: i16 = 168;

/// The hook at which the program will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// XDP. The context is `struct xdp_md`.
    Xdp {
        /// Whether packets may have several buffers (Linux 5.18; the program must be loaded with
        /// the matching flag).
        frags: bool,
    },
    /// tcx or clsact, either direction (sched_cls). The context is `struct __sk_buff`.
    Tcx(Vlan),
    /// A socket. The context is `struct __sk_buff`.
    SocketFilter,
    /// Memory of the program, to which it has copied a packet: a map's value with the layout of
    /// [`scratch`]. The context is its address.
    Scratch,
}

/// How the program sees a VLAN tag that the kernel removed from the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Vlan {
    /// The tag appears where it was on the wire.
    #[default]
    Restored,
    /// The bytes are as the kernel has them; only ancillary loads see the tag.
    AsKept,
}

/// The labels that the fragment jumps to at its end.
#[derive(Clone, Copy, Debug)]
pub struct Exits {
    /// The packet is accepted; R0 holds the number of bytes.
    pub accept: Label,
    /// The packet is rejected; R0 is undefined.
    pub reject: Label,
}

/// A program that cannot run at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The hook's context does not have the data that the program loads.
    #[error("instruction {at} asks for {what}, which is not known at {hook}")]
    Unknown {
        /// Index of the instruction in the classic program.
        at: usize,
        /// The data that it loads.
        what: &'static str,
        /// The hook's name.
        hook: &'static str,
    },
    /// The program has a loop (`protochain`).
    #[error("the program has a loop, which cannot be compiled to eBPF")]
    Loop,
    /// More instructions than the kernel accepts in a classic program.
    #[error("the program has {0} instructions, the kernel takes {max}", max = opcode::KERNEL_MAX_INSNS)]
    TooLong(usize),
}

impl Hook {
    /// Returns the hook's name for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp { .. } => "XDP",
            Self::Tcx(_) => "tcx",
            Self::SocketFilter => "a socket",
            Self::Scratch => "a tracepoint",
        }
    }

    /// Returns whether packet bytes may be outside `data` to `data_end`.
    fn has_further_buffers(self) -> bool {
        self != Self::Xdp { frags: false }
    }
}

/// Writes the program as a fragment (see the module's documentation).
///
/// # Errors
/// Returns an error if the hook does not have data that the program loads, or if the program has a
/// loop or is too long for the kernel.
pub fn lower(
    program: &Program,
    hook: Hook,
    asm: &mut Assembler,
    exits: Exits,
) -> Result<(), LowerError> {
    write(program, hook, None, asm, exits)
}

/// Writes the program as [`lower`], with the tag of the packet's process
/// ([`ringtap_packet::process::layout`]) on the stack, `tag` bytes from R10. Loads of the process's number, user and
/// name read it. The tag of an unknown process has the facts of
/// [`PacketOwner::UNKNOWN`](crate::process::PacketOwner::UNKNOWN).
///
/// # Errors
/// The same as for [`lower`].
pub fn with_process(
    program: &Program,
    hook: Hook,
    tag: i16,
    asm: &mut Assembler,
    exits: Exits,
) -> Result<(), LowerError> {
    write(program, hook, Some(tag), asm, exits)
}

fn write(
    program: &Program,
    hook: Hook,
    process: Option<i16>,
    asm: &mut Assembler,
    exits: Exits,
) -> Result<(), LowerError> {
    let insns = program.insns();
    if program.has_loop() {
        return Err(LowerError::Loop);
    }
    if insns.len() > opcode::KERNEL_MAX_INSNS {
        return Err(LowerError::TooLong(insns.len()));
    }
    let steps: Vec<Step> = insns
        .iter()
        .enumerate()
        .map(|(at, i)| Step::new(i, at))
        .collect();
    let forget = flow::forget(&steps);
    let lowering = Lowering {
        steps: &steps,
        forget: &forget,
        hook,
        process,
        exits,
    };
    lowering.initialise(asm);
    if hook == Hook::Tcx(Vlan::Restored) && lowering.reads_packet() {
        let tagged = asm.label();
        asm.load(Size::W, Reg::R0, Reg::R6, ancillary::skb::VLAN_PRESENT);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 0, tagged);
        lowering.copies(View::Plain, asm)?;
        asm.place(tagged);
        return lowering.copies(View::Tagged, asm);
    }
    lowering.copies(View::Plain, asm)
}

/// Returns the program alone. It returns the accepted bytes, 0 for a rejected packet: the form of a
/// socket filter, and for tests at the other hooks.
///
/// # Errors
/// The same as for [`lower`].
pub fn standalone(program: &Program, hook: Hook) -> Result<Assembler, LowerError> {
    verdicts(program, hook, None, 0)
}

/// Returns the program alone, ending with one of two verdicts (such as `XDP_PASS` and `XDP_DROP`).
///
/// # Errors
/// The same as for [`lower`].
pub fn with_verdicts(
    program: &Program,
    hook: Hook,
    accepted: i32,
    rejected: i32,
) -> Result<Assembler, LowerError> {
    verdicts(program, hook, Some(accepted), rejected)
}

fn verdicts(
    program: &Program,
    hook: Hook,
    accepted: Option<i32>,
    rejected: i32,
) -> Result<Assembler, LowerError> {
    let mut asm = Assembler::new();
    let exits = Exits {
        accept: asm.label(),
        reject: asm.label(),
    };
    asm.mov64(Reg::R6, Reg::R1);
    lower(program, hook, &mut asm, exits)?;
    asm.place(exits.reject);
    asm.mov32(Reg::R0, rejected);
    asm.exit();
    asm.place(exits.accept);
    if let Some(accepted) = accepted {
        asm.mov32(Reg::R0, accepted);
    }
    asm.exit();
    Ok(asm)
}

/// The data that all copies of a program share.
#[derive(Clone, Copy)]
struct Lowering<'a> {
    steps: &'a [Step],
    /// For each instruction, the registers to hide from the verifier.
    forget: &'a [Forget],
    hook: Hook,
    /// Where the tag of the packet's process is on the stack.
    process: Option<i16>,
    exits: Exits,
}

impl Lowering<'_> {
    /// Sets A and X to zero if a path reads them before it writes them.
    fn initialise(&self, asm: &mut Assembler) {
        let unset = flow::read_before_written(self.steps);
        if unset.a {
            asm.alu32(AluOp::Mov, step::A, 0);
        }
        if unset.x {
            asm.alu32(AluOp::Mov, step::X, 0);
        }
    }

    fn reads_packet(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.reads_packet() || step.reads_length())
    }

    /// Writes the copies for one view of the packet.
    fn copies(&self, view: View, asm: &mut Assembler) -> Result<(), LowerError> {
        let reached = flow::reached(self.steps, [0]);
        if matches!(self.hook, Hook::SocketFilter | Hook::Scratch) {
            let labels = self.labels(asm);
            let copy = Copy {
                lowering: *self,
                view,
                labels: &labels,
                placement: Placement::Slow,
            };
            return slow::write(&copy, &reached, asm);
        }
        let exact = !self.hook.has_further_buffers();
        let needs = Needs::new(self.steps, view, exact);
        let (fast_labels, slow_labels) = (self.labels(asm), self.labels(asm));
        let placement = Placement::Fast {
            slow: (!exact).then_some(&slow_labels),
        };
        let copy = Copy {
            lowering: *self,
            view,
            labels: &fast_labels,
            placement,
        };
        let failing = fast::write(&copy, &reached, &needs, asm)?;
        let copy = Copy {
            lowering: *self,
            view,
            labels: &slow_labels,
            placement: Placement::Slow,
        };
        let reached = flow::reached(self.steps, failing);
        slow::write(&copy, &reached, asm)
    }

    /// Returns a label for each instruction.
    fn labels(&self, asm: &mut Assembler) -> Vec<Label> {
        self.steps.iter().map(|_| asm.label()).collect()
    }
}

//! A validated classic-BPF program, written as a fragment of an eBPF program.
//!
//! # Calling convention
//! On entry, R6 holds the hook's context. The fragment uses R0 to R5, R7, R8 and R9, and the
//! [`STACK_BYTES`] of stack below R10; R6 and the stack below that stay as they are. It leaves by a
//! jump to the accept label, with the accepted bytes (not 0, not clamped to the packet) in R0, or
//! to the reject label.
//!
//! # What it means
//! Exactly what [`Program::run`] means on the whole packet: bytes beyond the packet and division by
//! zero reject, offsets do not wrap around, a shift by 32 or more gives 0, `len` is the true
//! length. With [`Vlan::Restored`], the packet is the one that was on the wire: a tag that the
//! kernel keeps beside the packet is seen at bytes 12 to 15, and `len` counts it. Ancillary loads
//! read the context; what a hook does not know is an error.
//!
//! # How it is written
//! Classic BPF jumps forward only. The program is written twice: a *fast copy* that reads the
//! packet in place, behind bounds checks hoisted so that one check serves all loads that follow
//! (`flow`), and a *slow copy* that asks a helper for each load. A failing check in the fast copy
//! leads to the same instruction of the slow copy, which decides what the check could not: that the
//! bytes lie in a further buffer, or beyond the packet. Checks may therefore ask for more than an
//! instruction needs; that costs time on short packets, never a wrong verdict. Where no packet has
//! further buffers (XDP without frags), there is no slow copy, and checks ask for no more than
//! every path needs.
//!
//! # The verifier
//! It follows every path, but stops where it comes to a state that it knows. Three habits keep the
//! number of states small. They rest on slots of four bytes on the stack at 4 modulo 8, of which it
//! remembers nothing but that they were written: an offset that is not simply a header's length goes
//! through one before it is bounded and added to a packet pointer; scratch memory lives in them; and
//! where paths meet, A and X go through one if their values still count. Programs of 4,096
//! instructions made to multiply states are walked in less than the million steps it allows.

mod ancillary;
mod copy;
mod fast;
mod flow;
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

/// Where the program is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// XDP. The context is `struct xdp_md`.
    Xdp {
        /// Whether packets of several buffers may come (5.18; the program must be loaded with the
        /// matching flag).
        frags: bool,
    },
    /// tcx or clsact, either direction (sched_cls). The context is `struct __sk_buff`.
    Tcx(Vlan),
    /// A socket. The context is `struct __sk_buff`.
    SocketFilter,
}

/// What the program sees of a VLAN tag that the kernel took out of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Vlan {
    /// The tag is where it was on the wire.
    #[default]
    Restored,
    /// Nothing, unless by ancillary loads: the bytes as the kernel has them.
    AsKept,
}

/// Where the fragment jumps to when it is done.
#[derive(Clone, Copy, Debug)]
pub struct Exits {
    /// The packet is accepted; R0 holds the number of bytes.
    pub accept: Label,
    /// The packet is rejected; R0 holds nothing of use.
    pub reject: Label,
}

/// A program that cannot run at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The hook's context does not have what the program asks for.
    #[error("instruction {at} asks for {what}, which is not known at {hook}")]
    Unknown {
        /// Index of the instruction in the classic program.
        at: usize,
        /// What it asks for.
        what: &'static str,
        /// Where it was to run.
        hook: &'static str,
    },
    /// The program has a loop (`protochain`).
    #[error("the program has a loop, which is not made into eBPF")]
    Loop,
    /// More instructions than the kernel takes in a classic program.
    #[error("the program has {0} instructions, the kernel takes {max}", max = opcode::KERNEL_MAX_INSNS)]
    TooLong(usize),
}

impl Hook {
    /// The hook's name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp { .. } => "XDP",
            Self::Tcx(_) => "tcx",
            Self::SocketFilter => "a socket",
        }
    }

    /// Whether packet bytes may lie elsewhere than between `data` and `data_end`.
    fn has_further_buffers(self) -> bool {
        self != Self::Xdp { frags: false }
    }
}

/// Writes the program as a fragment (see the module's documentation).
///
/// # Errors
/// When the program asks for what the hook does not know, or is too long for the kernel.
pub fn lower(
    program: &Program,
    hook: Hook,
    asm: &mut Assembler,
    exits: Exits,
) -> Result<(), LowerError> {
    let insns = program.insns();
    if program.has_loop() {
        return Err(LowerError::Loop);
    }
    if !program.fits_kernel() {
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

/// The program alone, ending with the accepted bytes as its result, 0 for a rejected packet: what a
/// socket filter is, and for tests at the other hooks.
///
/// # Errors
/// As [`lower`].
pub fn standalone(program: &Program, hook: Hook) -> Result<Assembler, LowerError> {
    verdicts(program, hook, None, 0)
}

/// The program alone, ending with one of two verdicts (such as `XDP_PASS` and `XDP_DROP`).
///
/// # Errors
/// As [`lower`].
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

/// What stays the same over the copies of a program.
#[derive(Clone, Copy)]
struct Lowering<'a> {
    steps: &'a [Step],
    /// By instruction: what the verifier need not know.
    forget: &'a [Forget],
    hook: Hook,
    exits: Exits,
}

impl Lowering<'_> {
    /// A and X start as zero, where a path reads them before it writes them.
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

    /// The copies for one view of the packet.
    fn copies(&self, view: View, asm: &mut Assembler) -> Result<(), LowerError> {
        let reached = flow::reached(self.steps, [0]);
        if self.hook == Hook::SocketFilter {
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

    /// A label for each instruction.
    fn labels(&self, asm: &mut Assembler) -> Vec<Label> {
        self.steps.iter().map(|_| asm.label()).collect()
    }
}

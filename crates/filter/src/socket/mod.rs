//! Programs for AF_PACKET sockets. A program for delivered packets is rewritten for packets as the
//! socket's filter sees them, so that live captures and files match alike.
//!
//! The two forms differ: the kernel removes the outer VLAN tag from a frame, and cooked captures
//! have a header that does not exist in the kernel. The missing bytes are in the packet's metadata,
//! which ancillary loads reach. The lowered program first tests the direction, if one is selected,
//! then whether there was a tag. It then continues in one of two copies of the original program,
//! each with its loads rewritten (`layout` knows where each byte is, `rewrite` does the work).
//!
//! Indirect loads need care. In a file, an offset of X + k beyond 32 bits rejects the packet; the
//! kernel wraps around, and gives negative offsets another meaning. If X may be that large
//! (`bounds` finds out), a guard rejects the packet. Shifts are similar: in a file, a shift by X of
//! 32 or more gives 0; the kernel would use the low bits of X.

mod bounds;
mod layout;
mod rewrite;

use layout::Layout;
use rewrite::{Copy, Scratch};

use crate::program::Program;
use crate::program::assemble::Assembler;
use crate::program::opcode as op;

/// How the packet that the socket's filter sees differs from the delivered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketView {
    /// The header of delivered packets.
    pub header: Header,
    /// Whether frames can have had a VLAN tag that the kernel removed. If false, the program is for
    /// a device whose link layer has no tags, such as loopback's raw IP.
    pub vlan: bool,
    /// The direction of the packets to accept.
    pub direction: Direction,
    /// The most bytes kept of a delivered packet.
    pub snaplen: u32,
}

/// The header of delivered packets, which the program was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The interface's own header, as it is in the kernel: the socket is `SOCK_RAW`.
    Own,
    /// A Linux cooked header, version 1 (LINKTYPE_LINUX_SLL): the socket is `SOCK_DGRAM`.
    CookedV1,
    /// A Linux cooked header, version 2 (LINKTYPE_LINUX_SLL2): the socket is `SOCK_DGRAM`.
    CookedV2,
}

/// The direction of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// All packets.
    #[default]
    Both,
    /// Packets that this host received.
    In,
    /// Packets that this host sent.
    Out,
}

/// The reason why a program cannot run in the kernel as it would on a file. The caller must filter
/// the packets itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLowerable {
    /// A byte of the cooked header that is not in the kernel's metadata (the address, its length).
    #[error("byte {0} of the cooked header cannot be loaded in the kernel")]
    HeaderByte(u32),
    /// The rewriting needs scratch memory, and the program uses all of it.
    #[error("the program leaves no scratch memory for the rewriting")]
    NoScratch,
    /// The program has a loop (`protochain`); the kernel's programs can only jump forward.
    #[error("the program has a loop, which the kernel does not take")]
    Loop,
    /// The program asks for the packet's process, which no socket knows.
    #[error("a socket does not know the process of a packet")]
    Process,
    /// The lowered program is longer than the kernel accepts.
    #[error("the program has {0} instructions; the kernel takes {max}", max = op::KERNEL_MAX_INSNS)]
    TooLong(usize),
}

/// Returns the program for the socket. `program` is one for delivered packets, as
/// [`compile`](crate::compile) makes it.
///
/// The result accepts exactly the packets that `program` accepts as delivered and that have the
/// selected direction. It returns the number of bytes to keep of the packet as the socket sees it.
/// That is enough for `program`'s result on the delivered packet, and may be more: the caller cuts
/// the packet to the snaplen after it has put back the tag.
///
/// Needs Linux 4.0 for the tag protocol (`SKF_AD_VLAN_TPID`).
///
/// # Errors
/// Returns the reason why there is no such program.
pub fn lower(program: &Program, view: &SocketView) -> Result<Program, NotLowerable> {
    if program.has_loop() {
        return Err(NotLowerable::Loop);
    }
    if program.asks_for_process() {
        return Err(NotLowerable::Process);
    }
    let plain = Layout::plain(view.header);
    let tagged = view.vlan.then(|| Layout::tagged(view.header));
    let mut asm = Assembler::default();
    direction(&mut asm, view.direction);
    let scratch = Scratch::unused_by(program);
    // A program that reads nothing needs no second copy.
    let constant = program.insns().len() == 1;
    let tagged_label = asm.label();
    if let (Some(_), false) = (&tagged, constant) {
        let here = asm.label();
        asm.push(
            op::LD | op::B | op::ABS,
            op::SKF_AD_OFF + op::SKF_AD_VLAN_TAG_PRESENT,
        );
        asm.branch(op::JMP | op::JEQ, 0, here, tagged_label);
        asm.place(here);
    }
    let first = |layout: &Layout, asm: &mut Assembler| -> Result<(), NotLowerable> {
        if starts_with_a(program) {
            asm.push(op::LD | op::IMM, 0);
        }
        Copy {
            program,
            layout,
            snaplen: view.snaplen,
            scratch,
        }
        .write(asm)
    };
    first(&plain, &mut asm)?;
    asm.place(tagged_label);
    if let (Some(layout), false) = (&tagged, constant) {
        first(layout, &mut asm)?;
    } else {
        // Nothing jumps here, but a label needs an instruction.
        asm.push(op::RET, 0);
    }
    finish(&asm)
}

/// Rejects packets of the other direction.
fn direction(asm: &mut Assembler, direction: Direction) {
    if direction == Direction::Both {
        return;
    }
    let (wanted, other) = (asm.label(), asm.label());
    asm.push(
        op::LD | op::B | op::ABS,
        op::SKF_AD_OFF + op::SKF_AD_PKTTYPE,
    );
    let (yes, no) = match direction {
        Direction::Out => (wanted, other),
        _ => (other, wanted),
    };
    asm.branch(op::JMP | op::JEQ, op::PACKET_OUTGOING, yes, no);
    asm.place(other);
    asm.push(op::RET, 0);
    asm.place(wanted);
}

/// Returns whether the program may use A before it loads it. A starts as 0, and the tests added before the
/// program change it.
fn starts_with_a(program: &Program) -> bool {
    program
        .insns()
        .first()
        .is_none_or(|insn| !matches!(insn.code & 7, op::LD))
        && program.insns().len() > 1
}

fn finish(asm: &Assembler) -> Result<Program, NotLowerable> {
    let insns = asm
        .finish()
        .map_err(|_| NotLowerable::TooLong(usize::MAX))?;
    if insns.len() > op::KERNEL_MAX_INSNS {
        return Err(NotLowerable::TooLong(insns.len()));
    }
    let len = insns.len();
    Program::new(insns).map_err(|_| NotLowerable::TooLong(len))
}

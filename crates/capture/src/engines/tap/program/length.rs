//! Computes the length of a packet at XDP, without a call if it is in one piece.
//!
//! `bpf_xdp_get_buff_len` costs some nanoseconds, and most packets lie between `data` and `data_end`.
//! Programs learn whether one does from the kernel's own structure; `bpf_cast_to_kern_ctx` returns its
//! address (Linux 6.2, no call once the program is loaded). If a kernel's types lack this function or flag,
//! the length is requested.

use std::sync::OnceLock;

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::KernelTypes;

use super::xdp;

/// Where the kernel marks a packet with several pieces.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// The function that returns the structure's address.
    function: u32,
    /// The offset of the flags, and the flag.
    flags: i16,
    flag: i32,
}

impl Pieces {
    /// Returns the values of the running kernel; determined once.
    fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<Pieces>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let types = KernelTypes::read().ok()??;
            Some(Self {
                function: types.function("bpf_cast_to_kern_ctx")?,
                flags: i16::try_from(types.member("xdp_buff", "flags")?).ok()?,
                flag: i32::try_from(types.constant("XDP_FLAGS_HAS_FRAGS")?).ok()?,
            })
        })
    }
}

/// Puts the length of the packet whose context is in R6 into R0.
pub(super) fn load_length(asm: &mut Assembler) {
    let (whole, known) = (asm.label(), asm.label());
    let pieces = Pieces::find();
    if let Some(pieces) = pieces {
        asm.mov64(Reg::R1, Reg::R6);
        asm.push(Insn::CallKernel {
            id: pieces.function,
        });
        asm.load(Size::W, Reg::R0, Reg::R0, pieces.flags);
        asm.alu32(AluOp::And, Reg::R0, pieces.flag);
        asm.jump_if(Cond::Eq, Width::W32, Reg::R0, 0, whole);
    }
    asm.mov64(Reg::R1, Reg::R6);
    asm.call(Helper::XdpGetBuffLen);
    asm.mov32(Reg::R0, Reg::R0);
    if pieces.is_some() {
        asm.jump(known);
        asm.place(whole);
        asm.load(Size::W, Reg::R1, Reg::R6, xdp::DATA);
        asm.load(Size::W, Reg::R0, Reg::R6, xdp::DATA_END);
        asm.alu64(AluOp::Sub, Reg::R0, Reg::R1);
    }
    asm.place(known);
}

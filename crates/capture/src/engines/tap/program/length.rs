//! How long a packet is at XDP, without a call where it is in one piece.
//!
//! `bpf_xdp_get_buff_len` costs some nanoseconds, and most packets lie between `data` and `data_end`.
//! Whether one does not, programs learn from the kernel's own structure, `bpf_cast_to_kern_ctx` (Linux
//! 6.2, no call once the program is loaded) giving its address; where a kernel's types tell of no such
//! function and flag, the length is asked for.

use std::sync::OnceLock;

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::KernelTypes;

use super::xdp;

/// Where the kernel notes that a packet has several pieces.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// The function that gives the structure's address.
    function: u32,
    /// Bytes to the flags, and the flag.
    flags: i16,
    flag: i32,
}

impl Pieces {
    /// As the running kernel has it; found out once.
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

/// The length of the packet whose context is in R6 to R0.
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

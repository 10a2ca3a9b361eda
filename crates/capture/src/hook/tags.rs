//! Restores VLAN tags that a driver removes from packets before XDP sees them.
//!
//! Such a driver may return the tag to an XDP program (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8). The code
//! here requests it, and moves the start of the packet forward by four bytes, so that the program sees the
//! packet as on the wire. Before the packet continues, the code undoes that. Packets without such a tag are
//! unchanged.
//!
//! Programs with this code are for one device, in its driver (`Program::load_for_device`).

use std::sync::OnceLock;

use ringtap_filter::ebpf::{Assembler, Cond, Helper, Insn, Label, Reg, Size, Width};
use ringtap_sys::bpf::{Kernel, KernelTypes, kernel_function, programs_stay};
use ringtap_sys::netlink::{self, Netlink};

use crate::emit::load_slot;

/// The kernel function that returns the tag: context, address of the type (in network order), address of the
/// control information → 0, or a negative error if the packet has no separate tag.
const FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";
/// Bytes of both Ethernet addresses, and of a tag.
const ADDRESSES: i16 = 12;
const TAG: i16 = 4;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// The kind of device whose packets have separate tags only in socket buffers.
const TAGS_IN_BUFFERS: &str = "veth";

/// Writes the code that restores tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagRestorer {
    function: u32,
    /// Recognizes packets without a separate tag, without a call.
    buffer: Option<Buffer>,
}

/// Where the driver veth stores a packet's socket buffer. It is null for a redirected frame, which has no
/// separate tag. A call for the tag costs some 7 ns, this check almost nothing: both functions vanish once
/// the program is loaded (Linux 6.2). If veth is a module, its structures are not among the kernel's own, and
/// each packet's tag is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    /// `bpf_cast_to_kern_ctx`: context → the kernel's own structure.
    to_structure: u32,
    /// `bpf_rdonly_cast`: an address and the number of a structure → the same address, readable as that
    /// structure.
    cast: u32,
    structure: i32,
    /// The offset of the buffer's address.
    offset: i16,
}

impl Buffer {
    /// Returns the values of the running kernel; determined once.
    fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<Buffer>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let types = KernelTypes::read().ok()??;
            Some(Self {
                to_structure: types.function("bpf_cast_to_kern_ctx")?,
                cast: types.function("bpf_rdonly_cast")?,
                structure: i32::try_from(types.structure("veth_xdp_buff")?).ok()?,
                offset: i16::try_from(types.member("veth_xdp_buff", "skb")?).ok()?,
            })
        })
    }

    /// Goes to `none` if the packet whose context is in R6 has no socket buffer.
    fn write_test(self, none: Label, asm: &mut Assembler) {
        asm.mov64(Reg::R1, Reg::R6);
        asm.push(Insn::CallKernel {
            id: self.to_structure,
        });
        asm.mov64(Reg::R1, Reg::R0);
        asm.mov64(Reg::R2, self.structure);
        asm.push(Insn::CallKernel { id: self.cast });
        asm.load(Size::Dw, Reg::R0, Reg::R0, self.offset);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
    }
}

impl TagRestorer {
    /// The number of bytes of stack that [`TagRestorer::write_restore`] uses, from its argument upwards.
    pub const STACK_BYTES: i16 = 16;

    /// Finds the way for a device of the calling thread's network namespace, by its number and its kind of
    /// virtual device. `None` if the kernel or the driver does not report tags, or if programs for one device
    /// would endanger the kernel ([`programs_stay`]).
    ///
    /// # Errors
    /// The driver cannot be queried, or the kernel's types cannot be read.
    pub fn find(ifindex: u32, kind: Option<&str>) -> netlink::Result<Option<Self>> {
        let is_told = Netlink::xdp_knows_vlan_tags(ifindex)?;
        // If it is unknown, no program can be loaded, which is reported then.
        if !is_told || !programs_stay(&Kernel::running()).unwrap_or(false) {
            return Ok(None);
        }
        let is_in_buffers = kind == Some(TAGS_IN_BUFFERS);
        let buffer = is_in_buffers.then(Buffer::find).flatten();
        Ok(kernel_function(FUNCTION)?.map(|function| Self { function, buffer }))
    }

    /// Restores the tag. R6 holds the context; R0 to R5 are lost, and so are packet addresses. `stack` is the
    /// offset from R10, a multiple of 8, of [`Self::STACK_BYTES`] that must stay unchanged until
    /// [`TagRestorer::write_undo`].
    pub fn write_restore(self, stack: i16, asm: &mut Assembler) {
        let (tag, restored) = (stack, stack + 8);
        let done = asm.label();
        asm.store_imm(Size::Dw, Reg::R10, restored, 0);
        if let Some(buffer) = self.buffer {
            buffer.write_test(done, asm);
        }
        asm.store_imm(Size::Dw, Reg::R10, tag, 0);
        asm.mov64(Reg::R1, Reg::R6);
        load_slot(Reg::R2, tag, asm);
        asm.mov64(Reg::R3, Reg::R2);
        asm.add64(Reg::R3, 2);
        asm.push(Insn::CallKernel { id: self.function });
        asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 0, done);
        asm.mov64(Reg::R1, Reg::R6);
        asm.mov64(Reg::R2, -i32::from(TAG));
        asm.call(Helper::XdpAdjustHead);
        // Without room before the packet its tag stays separate.
        asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 0, done);
        asm.store_imm(Size::Dw, Reg::R10, restored, 1);
        packet_with(ADDRESSES + TAG, done, asm);
        for at in (0..ADDRESSES).step_by(4) {
            asm.load(Size::W, Reg::R0, Reg::R2, at + TAG);
            asm.store(Size::W, Reg::R2, at, Reg::R0);
        }
        asm.load(Size::H, Reg::R0, Reg::R10, tag);
        asm.store(Size::H, Reg::R2, ADDRESSES, Reg::R0);
        asm.load(Size::H, Reg::R0, Reg::R10, tag + 2);
        asm.from_network(Reg::R0, Size::H);
        asm.store(Size::H, Reg::R2, ADDRESSES + 2, Reg::R0);
        asm.place(done);
    }

    /// Removes the tag again, before the packet continues. Registers as for [`TagRestorer::write_restore`].
    pub fn write_undo(self, stack: i16, asm: &mut Assembler) {
        let done = asm.label();
        asm.load(Size::Dw, Reg::R0, Reg::R10, stack + 8);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, done);
        packet_with(ADDRESSES + TAG, done, asm);
        for at in (0..ADDRESSES).step_by(4).rev() {
            asm.load(Size::W, Reg::R0, Reg::R2, at);
            asm.store(Size::W, Reg::R2, at + TAG, Reg::R0);
        }
        asm.mov64(Reg::R1, Reg::R6);
        asm.mov64(Reg::R2, i32::from(TAG));
        asm.call(Helper::XdpAdjustHead);
        asm.place(done);
    }
}

/// Loads the packet's address into R2, and goes to `short` if the packet has fewer bytes, which no Ethernet
/// frame has. Uses R3 and R4.
fn packet_with(bytes: i16, short: Label, asm: &mut Assembler) {
    asm.load(Size::W, Reg::R2, Reg::R6, DATA);
    asm.load(Size::W, Reg::R3, Reg::R6, DATA_END);
    asm.mov64(Reg::R4, Reg::R2);
    asm.add64(Reg::R4, i32::from(bytes));
    asm.jump_if(Cond::Gt, Width::W64, Reg::R4, Reg::R3, short);
}

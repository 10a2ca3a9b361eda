//! Reads the time at which the adapter received a packet, in programs.
//!
//! At XDP in the driver a kernel function returns it (`bpf_xdp_metadata_rx_timestamp`, Linux 6.3), if the
//! driver supports it; programs with this call are for one device, in its driver
//! (`Program::load_for_device`). At tcx, the socket buffer contains it (`__sk_buff.hwtstamp`, Linux 5.16).
//! Generic XDP does not have it.

use ringtap_filter::ebpf::{Assembler, Cond, Insn, Label, Reg, Size, Width};
use ringtap_sys::bpf::{Kernel, XdpMode, kernel_function, programs_stay};
use ringtap_sys::netlink::{self, Netlink};

use super::{HookPoint, Side};
use crate::emit::load_slot;

/// The kernel function: context, address of the time → 0, or a negative error if the adapter has not stamped
/// the packet.
const FUNCTION: &str = "bpf_xdp_metadata_rx_timestamp";
/// Offset in `struct __sk_buff`.
const RECEIVED_AT: i16 = 184;

/// Where programs on a device find the adapter's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampReader {
    /// The kernel's function that returns them at XDP, if the driver supports it.
    function: Option<u32>,
    /// Whether socket buffers contain them.
    in_buffers: bool,
}

impl StampReader {
    /// Finds the stamps of a device in the calling thread's network namespace. `in_buffers` means that the
    /// adapter has agreed to stamp packets.
    ///
    /// # Errors
    /// The driver cannot be queried, or the kernel's types cannot be read.
    pub fn find(ifindex: u32, in_buffers: bool) -> netlink::Result<Self> {
        let is_told = Netlink::xdp_knows_receive_times(ifindex)?;
        let function = if is_told && programs_stay(&Kernel::running()).unwrap_or(false) {
            kernel_function(FUNCTION)?
        } else {
            None
        };
        Ok(Self {
            function,
            in_buffers,
        })
    }

    /// Returns whether the driver passes stamps to XDP.
    #[must_use]
    pub fn is_told_at_xdp(self) -> bool {
        self.function.is_some()
    }

    /// Returns whether programs at the place can read stamps. Sent packets have none at any place, which does
    /// not exclude it.
    #[must_use]
    pub fn serves(self, place: HookPoint) -> bool {
        match place {
            HookPoint::Xdp(XdpMode::Native) => self.function.is_some(),
            HookPoint::Xdp(_) => false,
            HookPoint::Tcx(side) | HookPoint::Clsact(side) => {
                self.in_buffers || side == Side::Egress
            }
        }
    }

    /// Puts the stamp at the offset `stack` from R10, a multiple of 8, and continues; goes to `without` if
    /// the packet has none. R6 holds the context; R0 to R5 are lost.
    pub fn write_read(self, place: HookPoint, stack: i16, without: Label, asm: &mut Assembler) {
        match (place, self.function) {
            (HookPoint::Xdp(_), Some(id)) => {
                asm.store_imm(Size::Dw, Reg::R10, stack, 0);
                asm.mov64(Reg::R1, Reg::R6);
                load_slot(Reg::R2, stack, asm);
                asm.push(Insn::CallKernel { id });
                asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 0, without);
                asm.load(Size::Dw, Reg::R0, Reg::R10, stack);
            }
            (HookPoint::Tcx(Side::Ingress) | HookPoint::Clsact(Side::Ingress), _)
                if self.in_buffers =>
            {
                asm.load(Size::Dw, Reg::R0, Reg::R6, RECEIVED_AT);
                asm.store(Size::Dw, Reg::R10, stack, Reg::R0);
            }
            // In a sent packet, that field was stamped when another adapter received it.
            _ => return asm.jump(without),
        }
        // Drivers without a stamp for the packet may leave zero; some keep a pointer there until a socket
        // reads it, which is negative.
        asm.jump_if(Cond::Sle, Width::W64, Reg::R0, 0, without);
    }
}

//! The part of `perf_event_open(2)`'s kernel interface that is used here
//! (include/uapi/linux/perf_event.h).

pub(super) const TYPE_HARDWARE: u32 = 0;
pub(super) const TYPE_SOFTWARE: u32 = 1;
pub(super) const HARDWARE_CYCLES: u64 = 0;
pub(super) const SOFTWARE_CPU_CLOCK: u64 = 0;

pub(super) const SAMPLE_IP: u64 = 1;
pub(super) const SAMPLE_TID: u64 = 1 << 1;
pub(super) const SAMPLE_CALLCHAIN: u64 = 1 << 5;
pub(super) const SAMPLE_CPU: u64 = 1 << 7;

pub(super) const RECORD_LOST: u32 = 2;
pub(super) const RECORD_THROTTLE: u32 = 5;
pub(super) const RECORD_SAMPLE: u32 = 9;

/// Bits of the attribute's flags, by their number.
pub(super) const DISABLED: u64 = flag(0);
pub(super) const EXCLUDE_HYPERVISOR: u64 = flag(6);
pub(super) const EXCLUDE_CALLCHAIN_USER: u64 = flag(22);

pub(super) const ENABLE: libc::Ioctl = 0x2400;
pub(super) const DISABLE: libc::Ioctl = 0x2401;
pub(super) const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;

/// Values in a call chain from here on are not addresses but mark the context of those that follow.
pub(super) const CONTEXT_MAX: u64 = 4095_u64.wrapping_neg();
pub(super) const CONTEXT_KERNEL: u64 = 128_u64.wrapping_neg();
#[cfg(test)]
pub(super) const CONTEXT_USER: u64 = 512_u64.wrapping_neg();

/// Offsets in the page before the ring (`struct perf_event_mmap_page`).
pub(super) const DATA_HEAD: usize = 1024;
pub(super) const DATA_TAIL: usize = 1032;

/// Bytes of a record's header: type, misc, size.
pub(super) const HEADER: usize = 8;

/// `struct perf_event_attr` up to its fifth version, with `sample_max_stack`: accepted since Linux
/// 4.8.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attribute {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint_type: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) registers_user: u64,
    pub(super) stack_user: u32,
    pub(super) clock: i32,
    pub(super) registers_interrupt: u64,
    pub(super) aux_watermark: u32,
    pub(super) stack_depth: u16,
    pub(super) reserved: u16,
}

const _: () = assert!(size_of::<Attribute>() == 112);

/// Returns a bit field, which begins at the other end on big-endian architectures.
const fn flag(number: u32) -> u64 {
    if cfg!(target_endian = "little") {
        1 << number
    } else {
        1 << (63 - number)
    }
}

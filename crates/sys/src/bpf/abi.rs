//! The part of `bpf(2)`'s kernel interface that is used here (include/uapi/linux/bpf.h): constants,
//! and the attribute of each command.
//!
//! The kernel takes attributes of any size, as long as all bytes that it does not know are zero. So
//! each structure ends with the last field used. It holds no padding, which Rust would leave
//! uninitialised. `size_of` is asserted where a mistake would be silent.

pub(super) const MAP_CREATE: u32 = 0;
pub(super) const MAP_LOOKUP_ELEM: u32 = 1;
pub(super) const MAP_UPDATE_ELEM: u32 = 2;
pub(super) const MAP_DELETE_ELEM: u32 = 3;
pub(super) const PROG_LOAD: u32 = 5;
pub(super) const PROG_TEST_RUN: u32 = 10;
pub(super) const OBJ_GET_INFO_BY_FD: u32 = 15;
pub(super) const PROG_QUERY: u32 = 16;
pub(super) const MAP_FREEZE: u32 = 22;
pub(super) const MAP_LOOKUP_BATCH: u32 = 24;
pub(super) const MAP_UPDATE_BATCH: u32 = 26;
pub(super) const LINK_CREATE: u32 = 28;
pub(super) const LINK_UPDATE: u32 = 29;
pub(super) const LINK_GET_FD_BY_ID: u32 = 30;
pub(super) const LINK_GET_NEXT_ID: u32 = 31;
pub(super) const LINK_DETACH: u32 = 34;
pub(super) const RAW_TRACEPOINT_OPEN: u32 = 17;
pub(super) const BTF_LOAD: u32 = 18;
pub(super) const ENABLE_STATS: u32 = 32;
/// `BPF_STATS_RUN_TIME`.
pub(super) const STATS_RUN_TIME: u32 = 0;

pub(super) const ATTACH_CGROUP_SKB_EGRESS: u32 = 1;
pub(super) const ATTACH_TYPED_TRACEPOINT: u32 = 23;
pub(super) const ATTACH_FUNCTION_ENTRY: u32 = 24;
pub(super) const ATTACH_XDP: u32 = 37;
pub(super) const ATTACH_TCX_INGRESS: u32 = 46;
pub(super) const ATTACH_TCX_EGRESS: u32 = 47;

/// `BPF_F_XDP_HAS_FRAGS`: the program supports packets of several buffers.
pub(super) const PROG_XDP_HAS_FRAGS: u32 = 1 << 5;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: the program runs on the given device only.
pub(super) const PROG_XDP_DEV_BOUND: u32 = 1 << 6;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`: the verdict is carried out.
pub(super) const RUN_LIVE_FRAMES: u32 = 1 << 1;
/// `BPF_F_REPLACE`: only if the given program is the attached one.
pub(super) const REPLACE: u32 = 1 << 2;
/// `BPF_F_BEFORE`, `BPF_F_AFTER`: the place in a chain.
pub(super) const BEFORE: u32 = 1 << 3;
pub(super) const AFTER: u32 = 1 << 4;
/// `BPF_F_ID`: the anchor is an id, not an fd.
pub(super) const BY_ID: u32 = 1 << 5;
/// `BPF_F_LINK`: the anchor is a link, not a program.
pub(super) const IS_LINK: u32 = 1 << 13;

/// `BPF_F_NUMA_NODE`, `BPF_F_MMAPABLE`, `BPF_F_INNER_MAP` of map creation.
pub(super) const MAP_NUMA_NODE: u32 = 1 << 2;
pub(super) const MAP_MMAPABLE: u32 = 1 << 10;
pub(super) const MAP_INNER: u32 = 1 << 12;
/// `BPF_F_NO_PREALLOC`, `BPF_F_CLONE` of socket storage.
pub(super) const MAP_NO_PREALLOC: u32 = 1;
pub(super) const MAP_CLONE: u32 = 1 << 9;
/// `BPF_NOEXIST`: only if there is no such element.
pub(super) const NO_EXIST: u64 = 1;

/// `BPF_OBJ_NAME_LEN`: bytes of a name with its terminating zero.
pub(super) const NAME_SIZE: usize = 16;

/// A structure that `bpf(2)` may read and write as plain bytes.
///
/// # Safety
/// The type is `repr(C)`, every bit pattern of it is valid, and it has no padding.
pub(super) unsafe trait Attribute {}

macro_rules! attributes {
    ($($name:ident = $size:literal),+ $(,)?) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
        // SAFETY: `repr(C)`, integers and arrays of integers only; the asserted size is the sum of
        // the fields' sizes, so there is no padding.
        unsafe impl Attribute for $name {}
    )+};
}

attributes! {
    MapCreate = 60, MapElement = 32, MapBatch = 56, MapFd = 4, ProgramLoad = 112, TestRun = 80,
    Info = 16, Query = 64, LinkCreate = 32, LinkUpdate = 16, LinkFd = 4, Id = 12,
    BtfLoad = 32, Statistics = 4, RawTracepoint = 16,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct MapCreate {
    pub(super) kind: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
    pub(super) inner_map_fd: u32,
    pub(super) numa_node: u32,
    pub(super) name: [u8; NAME_SIZE],
    pub(super) ifindex: u32,
    pub(super) types_fd: u32,
    pub(super) key_type: u32,
    pub(super) value_type: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct MapElement {
    pub(super) map_fd: u32,
    pub(super) reserved: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct MapBatch {
    pub(super) in_batch: u64,
    pub(super) out_batch: u64,
    pub(super) keys: u64,
    pub(super) values: u64,
    pub(super) count: u32,
    pub(super) map_fd: u32,
    pub(super) element_flags: u64,
    pub(super) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct MapFd {
    pub(super) map_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct ProgramLoad {
    pub(super) kind: u32,
    pub(super) instruction_count: u32,
    pub(super) instructions: u64,
    pub(super) licence: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; NAME_SIZE],
    pub(super) ifindex: u32,
    pub(super) expected_attach_type: u32,
    pub(super) types_fd: u32,
    pub(super) function_size: u32,
    pub(super) functions: u64,
    pub(super) function_count: u32,
    pub(super) line_size: u32,
    pub(super) lines: u64,
    pub(super) line_count: u32,
    /// Tracing: the type of the function that the program is for.
    pub(super) function: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct BtfLoad {
    pub(super) types: u64,
    pub(super) log: u64,
    pub(super) types_size: u32,
    pub(super) log_size: u32,
    pub(super) log_level: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Statistics {
    pub(super) kind: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawTracepoint {
    pub(super) name: u64,
    pub(super) program_fd: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct TestRun {
    pub(super) program_fd: u32,
    pub(super) return_value: u32,
    pub(super) data_size_in: u32,
    pub(super) data_size_out: u32,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    pub(super) repeat: u32,
    pub(super) duration: u32,
    pub(super) context_size_in: u32,
    pub(super) context_size_out: u32,
    pub(super) context_in: u64,
    pub(super) context_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
    pub(super) batch_size: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Info {
    pub(super) fd: u32,
    pub(super) info_size: u32,
    pub(super) info: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Query {
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) query_flags: u32,
    pub(super) attach_flags: u32,
    pub(super) program_ids: u64,
    pub(super) count: u32,
    pub(super) reserved: u32,
    pub(super) program_attach_flags: u64,
    pub(super) link_ids: u64,
    pub(super) link_attach_flags: u64,
    pub(super) revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkCreate {
    pub(super) program_fd: u32,
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
    /// tcx: the anchor's fd or id.
    pub(super) relative: u32,
    pub(super) reserved: u32,
    /// tcx: the chain's revision, 0 for any.
    pub(super) expected_revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkUpdate {
    pub(super) link_fd: u32,
    pub(super) new_program_fd: u32,
    pub(super) flags: u32,
    pub(super) old_program_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkFd {
    pub(super) link_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Id {
    pub(super) id: u32,
    pub(super) next_id: u32,
    pub(super) open_flags: u32,
}

/// Sizes and offsets of `struct bpf_prog_info` (5.16 and later for the last).
pub(super) const PROGRAM_INFO_SIZE: usize = 232;
pub(super) const PROGRAM_INFO_ID: usize = 4;
pub(super) const PROGRAM_INFO_NATIVE_SIZE: usize = 16;
pub(super) const PROGRAM_INFO_TRANSLATED_SIZE: usize = 20;
pub(super) const PROGRAM_INFO_VERIFIED: usize = 216;
pub(super) const PROGRAM_INFO_LINE_COUNT: usize = 148;
pub(super) const PROGRAM_INFO_LINES: usize = 152;
pub(super) const PROGRAM_INFO_NATIVE_LINES: usize = 160;
pub(super) const PROGRAM_INFO_NATIVE_LINE_COUNT: usize = 168;
pub(super) const PROGRAM_INFO_LINE_SIZE: usize = 172;
pub(super) const PROGRAM_INFO_NATIVE_LINE_SIZE: usize = 176;
pub(super) const PROGRAM_INFO_SYMBOL_COUNT: usize = 104;
pub(super) const PROGRAM_INFO_LENGTH_COUNT: usize = 108;
pub(super) const PROGRAM_INFO_SYMBOLS: usize = 112;
pub(super) const PROGRAM_INFO_LENGTHS: usize = 120;
pub(super) const PROGRAM_INFO_RUN_TIME: usize = 192;
pub(super) const PROGRAM_INFO_RUN_COUNT: usize = 200;
pub(super) const PROGRAM_INFO_MISSES: usize = 208;

/// Sizes and offsets of `struct bpf_link_info` for XDP and tcx.
pub(super) const LINK_INFO_SIZE: usize = 48;
pub(super) const LINK_INFO_ID: usize = 4;
pub(super) const LINK_INFO_PROGRAM: usize = 8;
pub(super) const LINK_INFO_IFINDEX: usize = 16;

/// Converts a name to the kernel's form: letters, digits, `_` and `.`, cut to 15 bytes.
pub(super) fn name(text: &str) -> [u8; NAME_SIZE] {
    let mut out = [0; NAME_SIZE];
    for (to, from) in out[..NAME_SIZE - 1].iter_mut().zip(text.bytes()) {
        let allowed = from.is_ascii_alphanumeric() || from == b'_' || from == b'.';
        *to = if allowed { from } else { b'_' };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(&name("tap"), b"tap\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&name("tap eth0/egress.and.more"), b"tap_eth0_egress\0");
    }
}

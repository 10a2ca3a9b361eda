//! The kernel's helper functions that programs may call.

/// A helper function (`BPF_FUNC_*` of include/uapi/linux/bpf.h). A few require a licence
/// compatible with the GPL: those that read memory by its address, and [`Helper::KtimeGetNs`] before Linux 5.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Helper {
    /// Looks up an element: map, key address → value address or null.
    MapLookupElem,
    /// Stores an element: map, key address, value address, flags → 0 or a negative error.
    MapUpdateElem,
    /// Monotonic time in nanoseconds.
    KtimeGetNs,
    /// A random number of 32 bits.
    GetPrandomU32,
    /// The CPU that runs the program.
    GetSmpProcessorId,
    /// Thread in the lower half, process in the upper.
    GetCurrentPidTgid,
    /// User in the lower half, group in the upper.
    GetCurrentUidGid,
    /// Writes the name of the current thread: address, size → 0 or a negative error.
    GetCurrentComm,
    /// Pushes a VLAN tag: context, type in network order, control information → 0 or error.
    SkbVlanPush,
    /// Redirects to an interface: index, flags → verdict.
    Redirect,
    /// Copies bytes of a packet: context, offset, destination, size → 0 or a negative error.
    SkbLoadBytes,
    /// Moves the start of an XDP packet: context, bytes → 0 or a negative error.
    XdpAdjustHead,
    /// Reserves metadata in front of an XDP packet: context, bytes (negative) → 0 or a negative
    /// error.
    XdpAdjustMeta,
    /// Moves the end of an XDP packet: context, bytes → 0 or a negative error.
    XdpAdjustTail,
    /// Like [`Helper::SkbLoadBytes`], from a header on: context, offset, destination, size, header → 0 or
    /// a negative error.
    SkbLoadBytesRelative,
    /// Looks up a route: context, parameters, size, flags → 0 or the reason why nothing is forwarded.
    FibLookup,
    /// The control group (version 2) of the current thread.
    GetCurrentCgroupId,
    /// Finds a TCP socket: context, tuple, size, namespace, flags → socket to be released, or null.
    SkLookupTcp,
    /// Finds a UDP socket, like [`Helper::SkLookupTcp`].
    SkLookupUdp,
    /// Releases a socket that was looked up.
    SkRelease,
    /// The socket itself, unless it is only a part of one: socket → socket or null (Linux 5.1).
    SkFullsock,
    /// The listening socket of a connection request: socket → socket or null (Linux 5.1).
    GetListenerSock,
    /// The value in a socket: map, socket, initial value, flags → address or null (Linux 5.2).
    SkStorageGet,
    /// Copies memory of the current process: destination, size, address → 0 or a negative error.
    ProbeReadUser,
    /// Copies the kernel's memory: destination, size, address → 0 or a negative error; the destination is then
    /// filled with zeros (Linux 5.5). It requires a licence compatible with the GPL.
    ProbeReadKernel,
    /// Copies a string of the kernel: destination, size, address → length or a negative error.
    ProbeReadKernelStr,
    /// Redirects through a map: map, key, flags → verdict.
    RedirectMap,
    /// Writes a record to a ring buffer: map, data, size, flags (Linux 5.8).
    RingbufOutput,
    /// Reserves a record in a ring buffer: map, size, flags → address or null (Linux 5.8).
    RingbufReserve,
    /// Completes a reserved record: address, flags (Linux 5.8).
    RingbufSubmit,
    /// The structure of the current thread (Linux 5.11).
    GetCurrentTaskBtf,
    /// Monotonic time of the last tick, in nanoseconds (Linux 5.11).
    KtimeGetCoarseNs,
    /// The length of an XDP packet over all its buffers: context → bytes (Linux 5.18).
    XdpGetBuffLen,
    /// Like [`Helper::SkbLoadBytes`], for XDP (Linux 5.18).
    XdpLoadBytes,
    /// Ticks of the kernel's timer since boot; needs no call on 64-bit machines (Linux 5.6).
    Jiffies64,
    /// International atomic time in nanoseconds (Linux 6.1).
    KtimeGetTaiNs,
}

const ALL: [Helper; 36] = [
    Helper::MapLookupElem,
    Helper::MapUpdateElem,
    Helper::KtimeGetNs,
    Helper::GetPrandomU32,
    Helper::GetSmpProcessorId,
    Helper::GetCurrentPidTgid,
    Helper::GetCurrentUidGid,
    Helper::GetCurrentComm,
    Helper::SkbVlanPush,
    Helper::Redirect,
    Helper::SkbLoadBytes,
    Helper::XdpAdjustHead,
    Helper::XdpAdjustMeta,
    Helper::XdpAdjustTail,
    Helper::SkbLoadBytesRelative,
    Helper::FibLookup,
    Helper::GetCurrentCgroupId,
    Helper::SkLookupTcp,
    Helper::SkLookupUdp,
    Helper::SkRelease,
    Helper::SkFullsock,
    Helper::GetListenerSock,
    Helper::SkStorageGet,
    Helper::ProbeReadUser,
    Helper::ProbeReadKernel,
    Helper::ProbeReadKernelStr,
    Helper::RedirectMap,
    Helper::RingbufOutput,
    Helper::RingbufReserve,
    Helper::RingbufSubmit,
    Helper::GetCurrentTaskBtf,
    Helper::KtimeGetCoarseNs,
    Helper::XdpGetBuffLen,
    Helper::XdpLoadBytes,
    Helper::Jiffies64,
    Helper::KtimeGetTaiNs,
];

impl Helper {
    /// Returns the number of the helper.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::MapLookupElem => 1,
            Self::MapUpdateElem => 2,
            Self::KtimeGetNs => 5,
            Self::GetPrandomU32 => 7,
            Self::GetSmpProcessorId => 8,
            Self::GetCurrentPidTgid => 14,
            Self::GetCurrentUidGid => 15,
            Self::GetCurrentComm => 16,
            Self::SkbVlanPush => 18,
            Self::Redirect => 23,
            Self::SkbLoadBytes => 26,
            Self::XdpAdjustHead => 44,
            Self::XdpAdjustMeta => 54,
            Self::XdpAdjustTail => 65,
            Self::SkbLoadBytesRelative => 68,
            Self::FibLookup => 69,
            Self::GetCurrentCgroupId => 80,
            Self::SkLookupTcp => 84,
            Self::SkLookupUdp => 85,
            Self::SkRelease => 86,
            Self::SkFullsock => 95,
            Self::GetListenerSock => 98,
            Self::SkStorageGet => 107,
            Self::ProbeReadUser => 112,
            Self::ProbeReadKernel => 113,
            Self::ProbeReadKernelStr => 115,
            Self::RedirectMap => 51,
            Self::RingbufOutput => 130,
            Self::RingbufReserve => 131,
            Self::RingbufSubmit => 132,
            Self::GetCurrentTaskBtf => 158,
            Self::Jiffies64 => 118,
            Self::KtimeGetCoarseNs => 160,
            Self::XdpGetBuffLen => 188,
            Self::XdpLoadBytes => 189,
            Self::KtimeGetTaiNs => 208,
        }
    }

    /// Returns the kernel's name of the helper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MapLookupElem => "bpf_map_lookup_elem",
            Self::MapUpdateElem => "bpf_map_update_elem",
            Self::KtimeGetNs => "bpf_ktime_get_ns",
            Self::GetPrandomU32 => "bpf_get_prandom_u32",
            Self::GetSmpProcessorId => "bpf_get_smp_processor_id",
            Self::GetCurrentPidTgid => "bpf_get_current_pid_tgid",
            Self::GetCurrentUidGid => "bpf_get_current_uid_gid",
            Self::GetCurrentComm => "bpf_get_current_comm",
            Self::SkbVlanPush => "bpf_skb_vlan_push",
            Self::Redirect => "bpf_redirect",
            Self::SkbLoadBytes => "bpf_skb_load_bytes",
            Self::XdpAdjustHead => "bpf_xdp_adjust_head",
            Self::XdpAdjustMeta => "bpf_xdp_adjust_meta",
            Self::XdpAdjustTail => "bpf_xdp_adjust_tail",
            Self::SkbLoadBytesRelative => "bpf_skb_load_bytes_relative",
            Self::FibLookup => "bpf_fib_lookup",
            Self::GetCurrentCgroupId => "bpf_get_current_cgroup_id",
            Self::SkLookupTcp => "bpf_sk_lookup_tcp",
            Self::SkLookupUdp => "bpf_sk_lookup_udp",
            Self::SkRelease => "bpf_sk_release",
            Self::SkFullsock => "bpf_sk_fullsock",
            Self::GetListenerSock => "bpf_get_listener_sock",
            Self::SkStorageGet => "bpf_sk_storage_get",
            Self::ProbeReadUser => "bpf_probe_read_user",
            Self::ProbeReadKernel => "bpf_probe_read_kernel",
            Self::ProbeReadKernelStr => "bpf_probe_read_kernel_str",
            Self::RedirectMap => "bpf_redirect_map",
            Self::RingbufOutput => "bpf_ringbuf_output",
            Self::RingbufReserve => "bpf_ringbuf_reserve",
            Self::RingbufSubmit => "bpf_ringbuf_submit",
            Self::GetCurrentTaskBtf => "bpf_get_current_task_btf",
            Self::Jiffies64 => "bpf_jiffies64",
            Self::KtimeGetCoarseNs => "bpf_ktime_get_coarse_ns",
            Self::XdpGetBuffLen => "bpf_xdp_get_buff_len",
            Self::XdpLoadBytes => "bpf_xdp_load_bytes",
            Self::KtimeGetTaiNs => "bpf_ktime_get_tai_ns",
        }
    }

    /// Returns the helper of a number, if it is one of these.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        ALL.into_iter().find(|helper| helper.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back() {
        for helper in ALL {
            assert_eq!(Helper::from_number(helper.number()), Some(helper));
        }
        assert_eq!(Helper::from_number(-1), None);
    }
}

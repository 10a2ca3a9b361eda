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

/// Each helper with its number and the kernel's name, in the order of the enum.
const TABLE: [(Helper, i32, &str); 36] = [
    (Helper::MapLookupElem, 1, "bpf_map_lookup_elem"),
    (Helper::MapUpdateElem, 2, "bpf_map_update_elem"),
    (Helper::KtimeGetNs, 5, "bpf_ktime_get_ns"),
    (Helper::GetPrandomU32, 7, "bpf_get_prandom_u32"),
    (Helper::GetSmpProcessorId, 8, "bpf_get_smp_processor_id"),
    (Helper::GetCurrentPidTgid, 14, "bpf_get_current_pid_tgid"),
    (Helper::GetCurrentUidGid, 15, "bpf_get_current_uid_gid"),
    (Helper::GetCurrentComm, 16, "bpf_get_current_comm"),
    (Helper::SkbVlanPush, 18, "bpf_skb_vlan_push"),
    (Helper::Redirect, 23, "bpf_redirect"),
    (Helper::SkbLoadBytes, 26, "bpf_skb_load_bytes"),
    (Helper::XdpAdjustHead, 44, "bpf_xdp_adjust_head"),
    (Helper::XdpAdjustMeta, 54, "bpf_xdp_adjust_meta"),
    (Helper::XdpAdjustTail, 65, "bpf_xdp_adjust_tail"),
    (
        Helper::SkbLoadBytesRelative,
        68,
        "bpf_skb_load_bytes_relative",
    ),
    (Helper::FibLookup, 69, "bpf_fib_lookup"),
    (Helper::GetCurrentCgroupId, 80, "bpf_get_current_cgroup_id"),
    (Helper::SkLookupTcp, 84, "bpf_sk_lookup_tcp"),
    (Helper::SkLookupUdp, 85, "bpf_sk_lookup_udp"),
    (Helper::SkRelease, 86, "bpf_sk_release"),
    (Helper::SkFullsock, 95, "bpf_sk_fullsock"),
    (Helper::GetListenerSock, 98, "bpf_get_listener_sock"),
    (Helper::SkStorageGet, 107, "bpf_sk_storage_get"),
    (Helper::ProbeReadUser, 112, "bpf_probe_read_user"),
    (Helper::ProbeReadKernel, 113, "bpf_probe_read_kernel"),
    (Helper::ProbeReadKernelStr, 115, "bpf_probe_read_kernel_str"),
    (Helper::RedirectMap, 51, "bpf_redirect_map"),
    (Helper::RingbufOutput, 130, "bpf_ringbuf_output"),
    (Helper::RingbufReserve, 131, "bpf_ringbuf_reserve"),
    (Helper::RingbufSubmit, 132, "bpf_ringbuf_submit"),
    (Helper::GetCurrentTaskBtf, 158, "bpf_get_current_task_btf"),
    (Helper::KtimeGetCoarseNs, 160, "bpf_ktime_get_coarse_ns"),
    (Helper::XdpGetBuffLen, 188, "bpf_xdp_get_buff_len"),
    (Helper::XdpLoadBytes, 189, "bpf_xdp_load_bytes"),
    (Helper::Jiffies64, 118, "bpf_jiffies64"),
    (Helper::KtimeGetTaiNs, 208, "bpf_ktime_get_tai_ns"),
];

const _: () = {
    let mut at = 0;
    while at < TABLE.len() {
        assert!(TABLE[at].0 as usize == at, "the order of the enum");
        at += 1;
    }
};

impl Helper {
    /// Returns the number of the helper.
    #[must_use]
    pub const fn number(self) -> i32 {
        TABLE[self as usize].1
    }

    /// Returns the kernel's name of the helper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Returns the helper of a number, if it is one of these.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let mut helpers = TABLE.iter();
        helpers.find(|row| row.1 == number).map(|row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back() {
        for (helper, ..) in TABLE {
            assert_eq!(Helper::from_number(helper.number()), Some(helper));
        }
        assert_eq!(Helper::from_number(-1), None);
    }
}

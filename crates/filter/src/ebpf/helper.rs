//! The kernel's helper functions that programs may call.

/// A helper function (`BPF_FUNC_*` of include/uapi/linux/bpf.h). None of them requires a licence
/// compatible with the GPL, except [`Helper::ProbeReadKernel`], and [`Helper::KtimeGetNs`] before Linux 5.8.
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
    /// Redirects through a map: map, key, flags → verdict.
    RedirectMap,
    /// Copies the kernel's memory: destination, size, address → 0 or a negative error; the destination is then
    /// filled with zeros (Linux 5.5). It requires a licence compatible with the GPL.
    ProbeReadKernel,
    /// Writes a record to a ring buffer: map, data, size, flags (Linux 5.8).
    RingbufOutput,
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

const ALL: [Helper; 20] = [
    Helper::MapLookupElem,
    Helper::MapUpdateElem,
    Helper::KtimeGetNs,
    Helper::GetPrandomU32,
    Helper::GetSmpProcessorId,
    Helper::GetCurrentPidTgid,
    Helper::SkbVlanPush,
    Helper::Redirect,
    Helper::SkbLoadBytes,
    Helper::XdpAdjustHead,
    Helper::XdpAdjustMeta,
    Helper::XdpAdjustTail,
    Helper::RedirectMap,
    Helper::ProbeReadKernel,
    Helper::RingbufOutput,
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
            Self::SkbVlanPush => 18,
            Self::Redirect => 23,
            Self::SkbLoadBytes => 26,
            Self::XdpAdjustHead => 44,
            Self::XdpAdjustMeta => 54,
            Self::XdpAdjustTail => 65,
            Self::RedirectMap => 51,
            Self::ProbeReadKernel => 113,
            Self::RingbufOutput => 130,
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
            Self::SkbVlanPush => "bpf_skb_vlan_push",
            Self::Redirect => "bpf_redirect",
            Self::SkbLoadBytes => "bpf_skb_load_bytes",
            Self::XdpAdjustHead => "bpf_xdp_adjust_head",
            Self::XdpAdjustMeta => "bpf_xdp_adjust_meta",
            Self::XdpAdjustTail => "bpf_xdp_adjust_tail",
            Self::RedirectMap => "bpf_redirect_map",
            Self::ProbeReadKernel => "bpf_probe_read_kernel",
            Self::RingbufOutput => "bpf_ringbuf_output",
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

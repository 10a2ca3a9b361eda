//! The structures and numbers of libpcap's headers (`pcap/pcap.h`, `pcap/bpf.h`).

use std::ffi::{c_char, c_int, c_uchar, c_uint};
use std::ptr;

use crate::memory;

/// Return codes of functions.
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const ERROR: c_int = -1;
    pub(crate) const BREAK: c_int = -2;
    pub(crate) const NOT_ACTIVATED: c_int = -3;
    pub(crate) const ACTIVATED: c_int = -4;
    pub(crate) const NO_SUCH_DEVICE: c_int = -5;
    pub(crate) const RFMON_NOTSUP: c_int = -6;
    pub(crate) const PERM_DENIED: c_int = -8;
    pub(crate) const IFACE_NOT_UP: c_int = -9;
    pub(crate) const CANTSET_TSTAMP_TYPE: c_int = -10;
    pub(crate) const PROMISC_PERM_DENIED: c_int = -11;
    pub(crate) const TSTAMP_PRECISION_NOTSUP: c_int = -12;
    pub(crate) const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;
}

/// `PCAP_NETMASK_UNKNOWN`.
pub(crate) const NETMASK_UNKNOWN: u32 = 0xffff_ffff;
/// `PCAP_TSTAMP_PRECISION_MICRO`.
pub(crate) const PRECISION_MICRO: c_int = 0;
/// `PCAP_TSTAMP_PRECISION_NANO`.
pub(crate) const PRECISION_NANO: c_int = 1;
/// The largest snapshot length.
pub(crate) const MAXIMUM_SNAPLEN: c_int = 262_144;

/// `struct ringtap_packet`: a packet where the kernel, or a file's reader, has put it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PacketInPlace {
    pub(crate) header: PacketHeader,
    /// As many bytes as the header says were captured.
    pub(crate) data: *const c_uchar,
}

/// `struct pcap_pkthdr`: the header of a delivered packet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PacketHeader {
    /// The time of the capture; the fraction in microseconds, or in nanoseconds if those were
    /// requested.
    pub(crate) ts: libc::timeval,
    /// Captured bytes.
    pub(crate) caplen: u32,
    /// Bytes on the wire.
    pub(crate) len: u32,
}

/// `pcap_handler`.
pub(crate) type Handler =
    unsafe extern "C" fn(user: *mut c_uchar, header: *const PacketHeader, bytes: *const c_uchar);

/// `struct bpf_insn`.
pub(crate) type BpfInsn = ringtap_filter::Insn;

/// `struct bpf_program`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BpfProgram {
    /// Number of instructions.
    pub(crate) bf_len: c_uint,
    /// The instructions, allocated by `malloc` if this library made them.
    pub(crate) bf_insns: *mut BpfInsn,
}

impl BpfProgram {
    /// Returns the instructions; empty for null.
    pub(crate) fn insns(&self) -> &[BpfInsn] {
        // SAFETY: C's contract: `bf_insns` points to `bf_len` instructions.
        unsafe { memory::items(self.bf_insns, self.bf_len as usize) }
    }

    /// Returns a program without instructions.
    pub(crate) const fn none() -> Self {
        Self {
            bf_len: 0,
            bf_insns: ptr::null_mut(),
        }
    }
}

/// `struct pcap_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PcapStat {
    /// Packets received.
    pub(crate) ps_recv: c_uint,
    /// Packets dropped because the buffer was full.
    pub(crate) ps_drop: c_uint,
    /// Packets dropped by the interface.
    pub(crate) ps_ifdrop: c_uint,
}

/// `struct pcap_if`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PcapIf {
    /// The next device.
    pub(crate) next: *mut PcapIf,
    /// Its name.
    pub(crate) name: *mut c_char,
    /// Its description, or null.
    pub(crate) description: *mut c_char,
    /// Its addresses.
    pub(crate) addresses: *mut PcapAddr,
    /// `PCAP_IF_*`.
    pub(crate) flags: u32,
}

/// `struct pcap_addr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PcapAddr {
    /// The next address.
    pub(crate) next: *mut PcapAddr,
    /// The address.
    pub(crate) addr: *mut libc::sockaddr,
    /// Its netmask, or null.
    pub(crate) netmask: *mut libc::sockaddr,
    /// The broadcast address, or null.
    pub(crate) broadaddr: *mut libc::sockaddr,
    /// The other end of a point-to-point link, or null.
    pub(crate) dstaddr: *mut libc::sockaddr,
}

const _: () = {
    assert!(size_of::<PacketHeader>() == size_of::<libc::timeval>() + 8);
    assert!(size_of::<BpfInsn>() == 8);
    assert!(size_of::<PcapStat>() == 12);
};

impl PacketHeader {
    /// Returns a header with all fields zero.
    pub(crate) const fn zero() -> Self {
        let ts = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        Self {
            ts,
            caplen: 0,
            len: 0,
        }
    }

    /// Returns the header of a packet.
    #[inline]
    pub(crate) fn of(packet: &ringtap_capture::Packet<'_>, times: Times) -> Self {
        let nanos = packet.timestamp.subsec_nanos();
        let fraction = if times.nano { nanos } else { nanos / 1000 };
        let mut ts = libc::timeval {
            tv_sec: packet.timestamp.secs(),
            tv_usec: fraction.into(),
        };
        if !packet.timestamp.is_valid() {
            ts = times.invalid(packet.timestamp);
        }
        Self {
            ts,
            caplen: u32::try_from(packet.data.len()).unwrap_or(u32::MAX),
            len: packet.len,
        }
    }
}

/// The form in which times are delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Whether the fraction is in nanoseconds; otherwise microseconds.
    pub(crate) nano: bool,
}

impl Times {
    /// Converts an invalid time: the fields as stored, the fraction in the requested unit.
    #[cold]
    fn invalid(self, time: ringtap_capture::Timestamp) -> libc::timeval {
        let (secs, nanos) = time.stored();
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        libc::timeval {
            tv_sec: secs,
            tv_usec: if self.nano { nanos } else { nanos / 1000 },
        }
    }
}

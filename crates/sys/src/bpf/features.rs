//! The features of the running kernel, found by tests rather than by its version. Each test loads a
//! tiny program, creates a small map, or makes a request that an old kernel does not know.

use super::btf::KernelTypes;
use super::error::{Error, Result};
use super::kernel::Kernel;
use super::link::{Link, TcxPlace, TcxSide};
use super::map::{Map, MapKind, MapSpec};
use super::program::{Program, ProgramKind};

/// A feature that kernels may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// `bpf(2)`, with the privileges to load network programs.
    Bpf,
    /// XDP programs.
    Xdp,
    /// tcx chains (6.6).
    Tcx,
    /// XDP programs on packets of several buffers (5.18).
    XdpFrags,
    /// `bpf_xdp_load_bytes` (5.18).
    XdpLoadBytes,
    /// `bpf_xdp_get_buff_len` (5.18).
    XdpBuffLen,
    /// `bpf_ktime_get_tai_ns` (6.1).
    TaiClock,
    /// `bpf_ktime_get_coarse_ns` (5.11).
    CoarseClock,
    /// Atomic operations that return the old value (5.12).
    FetchAtomics,
    /// The BPF ring buffer (5.8).
    RingBuffer,
    /// Array maps that can be mapped (5.5).
    MappedArray,
    /// Maps of mapped arrays of several lengths (5.10).
    MapOfMaps,
    /// Per-CPU arrays read by one call (5.13).
    BatchLookup,
    /// Jumps beyond 32767 instructions (6.6).
    LongJumps,
    /// The kernel's types, for programs that read its structures (5.4, `CONFIG_DEBUG_INFO_BTF`).
    KernelTypes,
    /// Reasons for dropped packets at the tracepoint `kfree_skb` (5.17).
    DropReasons,
}

/// Every [`Feature`], in the order of the enumeration.
pub const ALL_FEATURES: [Feature; 16] = [
    Feature::Bpf,
    Feature::Xdp,
    Feature::Tcx,
    Feature::XdpFrags,
    Feature::XdpLoadBytes,
    Feature::XdpBuffLen,
    Feature::TaiClock,
    Feature::CoarseClock,
    Feature::FetchAtomics,
    Feature::RingBuffer,
    Feature::MappedArray,
    Feature::MapOfMaps,
    Feature::BatchLookup,
    Feature::LongJumps,
    Feature::KernelTypes,
    Feature::DropReasons,
];

impl Feature {
    /// Returns the feature's name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the first kernel version that has the feature, major and minor.
    #[must_use]
    pub fn since(self) -> (u32, u32) {
        self.facts().1
    }

    fn facts(self) -> (&'static str, (u32, u32)) {
        match self {
            Self::Bpf => ("bpf(2) for network programs", (4, 4)),
            Self::Xdp => ("XDP programs", (4, 8)),
            Self::Tcx => ("tcx chains", (6, 6)),
            Self::XdpFrags => ("XDP with several buffers a packet", (5, 18)),
            Self::XdpLoadBytes => ("bpf_xdp_load_bytes", (5, 18)),
            Self::XdpBuffLen => ("bpf_xdp_get_buff_len", (5, 18)),
            Self::TaiClock => ("bpf_ktime_get_tai_ns", (6, 1)),
            Self::CoarseClock => ("bpf_ktime_get_coarse_ns", (5, 11)),
            Self::FetchAtomics => ("atomic operations that return the old value", (5, 12)),
            Self::RingBuffer => ("the BPF ring buffer", (5, 8)),
            Self::MappedArray => ("array maps that can be mapped", (5, 5)),
            Self::MapOfMaps => ("maps of mapped arrays", (5, 10)),
            Self::BatchLookup => ("per-CPU arrays read by one call", (5, 13)),
            Self::LongJumps => ("32-bit jumps", (6, 6)),
            Self::KernelTypes => (
                "the kernel's types, as built with CONFIG_DEBUG_INFO_BTF",
                (5, 4),
            ),
            Self::DropReasons => (
                "reasons for dropped packets at the tracepoint kfree_skb",
                (5, 17),
            ),
        }
    }

    /// Tests whether the kernel has the feature.
    ///
    /// # Errors
    /// The kernel's error, if it lacks the feature or forbids the caller to use it.
    pub fn check(self, kernel: &Kernel) -> Result<()> {
        probe(kernel, self)
    }
}

/// The results of [`Features::probe`].
#[derive(Debug)]
pub struct Features {
    kernel_release: String,
    found: Vec<(Feature, Option<Error>)>,
}

impl Features {
    /// Tests every feature. Nothing stays loaded.
    #[must_use]
    pub fn probe(kernel: &Kernel) -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let probed = ALL_FEATURES.map(|feature| (feature, probe(kernel, feature).err()));
        Self {
            kernel_release: release.trim().to_owned(),
            found: probed.into(),
        }
    }

    /// Returns the kernel's release, as `uname -r` prints it.
    #[must_use]
    pub fn kernel_release(&self) -> &str {
        &self.kernel_release
    }

    /// Returns whether the kernel has the feature and allows the caller to use it.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.why_not(feature).is_none()
    }

    /// Returns the reason why a feature cannot be used; `None` if it can.
    #[must_use]
    pub fn why_not(&self, feature: Feature) -> Option<&Error> {
        self.found
            .iter()
            .find(|(known, _)| *known == feature)?
            .1
            .as_ref()
    }
}

fn probe(kernel: &Kernel, feature: Feature) -> Result<()> {
    let xdp = ProgramKind::Xdp { frags: false };
    let load = |kind, body: &[u64]| Program::load(kernel, "ringtap_probe", kind, body).map(drop);
    let call = |kind, helper| load(kind, &calling(helper));
    let tracepoint = ProgramKind::RawTracepoint;
    match feature {
        Feature::Bpf => load(ProgramKind::SchedCls, &[set(0, 0), EXIT]),
        Feature::Xdp => load(xdp, &[set(0, 2), EXIT]),
        Feature::XdpFrags => load(ProgramKind::Xdp { frags: true }, &[set(0, 2), EXIT]),
        Feature::XdpLoadBytes => load(xdp, &xdp_load_bytes()),
        Feature::XdpBuffLen => call(xdp, 188),
        Feature::TaiClock => call(ProgramKind::SchedCls, 208),
        Feature::CoarseClock => call(ProgramKind::SchedCls, 160),
        Feature::FetchAtomics => load(ProgramKind::SchedCls, &exchange()),
        Feature::LongJumps => load(
            ProgramKind::SchedCls,
            &[set(0, 0), insn(0x06, 0, 0, 0, 0), EXIT],
        ),
        Feature::RingBuffer => make(kernel, MapKind::RingBuffer, 0, page(), None).map(drop),
        Feature::MappedArray => make(kernel, MapKind::MAPPED_ARRAY, 8, 1, None).map(drop),
        Feature::MapOfMaps => {
            let inner = make(kernel, MapKind::MAPPED_ARRAY, page(), 1, None)?;
            make(kernel, MapKind::ArrayOfMaps, 4, 1, Some(&inner)).map(drop)
        }
        Feature::BatchLookup => make(kernel, MapKind::PerCpuArray, 8, 1, None)?.probe_batch(),
        Feature::Tcx => probe_tcx(kernel),
        // Everybody may read the types; using them takes a program.
        Feature::KernelTypes => types().and_then(|_| load(tracepoint, &[set(0, 0), EXIT])),
        Feature::DropReasons => {
            load(tracepoint, &[set(0, 0), EXIT])?;
            let arguments = types()?
                .tracepoint_arguments("kfree_skb")
                .unwrap_or_default();
            if arguments < WITH_REASON {
                return Err(missing("kfree_skb", libc::ENOENT));
            }
            Ok(())
        }
    }
}

/// The arguments of `kfree_skb` when a reason is among them: packet, place, reason.
const WITH_REASON: usize = 3;

fn types() -> Result<KernelTypes> {
    let types = KernelTypes::read().ok().flatten();
    types.ok_or_else(|| missing("the kernel's types", libc::ENOENT))
}

fn missing(what: &str, errno: i32) -> Error {
    let error = std::io::Error::from_raw_os_error(errno);
    Error::call("open(/sys/kernel/btf/vmlinux)", what, error, None)
}

/// Attaches to a device that cannot exist: a kernel with tcx reports that there is no such device
/// (ENODEV), others reject the attach type (EINVAL).
fn probe_tcx(kernel: &Kernel) -> Result<()> {
    let kind = ProgramKind::SchedCls;
    let program = Program::load(kernel, "ringtap_probe", kind, &[set(0, u32::MAX), EXIT])?;
    let no_device = i32::MAX.unsigned_abs();
    let place = TcxPlace::Last;
    match Link::tcx(&program, kernel, no_device, TcxSide::Ingress, place, None) {
        Err(error) if error.errno() == Some(libc::ENODEV) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn make(
    kernel: &Kernel,
    kind: MapKind,
    value_size: u32,
    max_entries: u32,
    inner: Option<&Map>,
) -> Result<Map> {
    let spec = MapSpec {
        inner,
        ..MapSpec::new("ringtap_probe", kind, value_size, max_entries)
    };
    Map::create(kernel, &spec)
}

fn page() -> u32 {
    u32::try_from(super::mapping::page_size()).unwrap_or(4096)
}

const EXIT: u64 = insn(0x95, 0, 0, 0, 0);

/// Encodes one instruction.
const fn insn(code: u8, dst: u8, src: u8, offset: i16, imm: u32) -> u64 {
    let registers = if cfg!(target_endian = "little") {
        src << 4 | dst
    } else {
        dst << 4 | src
    };
    let offset = offset.to_ne_bytes();
    let imm = imm.to_ne_bytes();
    let bytes = [
        code, registers, offset[0], offset[1], imm[0], imm[1], imm[2], imm[3],
    ];
    u64::from_ne_bytes(bytes)
}

/// Returns `dst = imm` (32 bits; the upper half becomes zero).
const fn set(dst: u8, imm: u32) -> u64 {
    insn(0xb4, dst, 0, 0, imm)
}

/// Returns a program that calls a helper with the context or no argument.
fn calling(helper: u32) -> [u64; 3] {
    [insn(0x85, 0, 0, 0, helper), set(0, 2), EXIT]
}

fn xdp_load_bytes() -> [u64; 8] {
    [
        insn(0x7a, 10, 0, -8, 0), // *(u64 *)(r10 -8) = 0
        set(2, 0),                // offset
        insn(0xbf, 3, 10, 0, 0),  // r3 = r10
        insn(0x07, 3, 0, 0, (-8_i32).cast_unsigned()),
        set(4, 4), // size
        insn(0x85, 0, 0, 0, 189),
        set(0, 2),
        EXIT,
    ]
}

fn exchange() -> [u64; 5] {
    const ATOMIC_U64: u8 = 0xdb;
    const XCHG: u32 = 0xe1;
    [
        insn(0x7a, 10, 0, -8, 0),
        set(1, 1),
        insn(ATOMIC_U64, 10, 1, -8, XCHG),
        set(0, 0),
        EXIT,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_instructions_as_the_kernel_lays_them_out() {
        let bytes = insn(0x07, 3, 0, -2, 0x0102_0304).to_ne_bytes();
        assert_eq!(bytes[0], 0x07);
        assert_eq!(i16::from_ne_bytes([bytes[2], bytes[3]]), -2);
        assert_eq!(
            u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            0x0102_0304
        );
        if cfg!(target_endian = "little") {
            assert_eq!(bytes[1], 0x03);
            assert_eq!(insn(0xbf, 1, 10, 0, 0).to_ne_bytes()[1], 0xa1);
        }
    }

    #[test]
    fn lists_every_feature_once() {
        for (at, feature) in ALL_FEATURES.iter().enumerate() {
            assert_eq!(
                ALL_FEATURES.iter().position(|other| other == feature),
                Some(at)
            );
            assert!(!feature.name().is_empty());
        }
    }
}

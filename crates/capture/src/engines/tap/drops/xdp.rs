//! Counts packets that are lost at XDP, whose errors pass tracepoints of their own. The kernel has no buffer for them
//! yet, so that they cannot be captured.
//!
//! Source: `include/trace/events/xdp.h`.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{Kernel, Map, MapKind, MapSpec, Mapping, Program, ProgramKind, Tracepoint};

use crate::stats::XdpLosses;

/// Exceptions: an XDP program aborts, or returns what is no action.
const EXCEPTIONS: i16 = 0;
/// Packets that XDP has redirected to a device, a processor or a socket that does not take them.
const REDIRECTS: i16 = 8;
/// The bytes of the counters, of which whole pages are mapped.
const BYTES: u32 = 4096;

/// A tracepoint: its name, the place of the counter, and the number of the argument that counts packets. Without one,
/// each pass is a packet.
type Point = (&'static CStr, i16, Option<i16>);

const POINTS: [Point; 7] = [
    (c"xdp_exception", EXCEPTIONS, None),
    (c"xdp_redirect_err", REDIRECTS, None),
    (c"xdp_redirect_map_err", REDIRECTS, None),
    (c"xdp_bulk_tx", REDIRECTS, Some(2)),
    (c"xdp_devmap_xmit", REDIRECTS, Some(3)),
    (c"xdp_cpumap_enqueue", REDIRECTS, Some(2)),
    (c"xdp_cpumap_kthread", REDIRECTS, Some(2)),
];

/// Programs that count at the tracepoints. Dropping them detaches them.
#[derive(Debug)]
pub(in crate::engines) struct XdpCounters {
    mapping: Mapping,
    _points: Vec<Tracepoint>,
}

impl XdpCounters {
    /// Counts from now on, on all interfaces. `None` if the kernel has none of the tracepoints.
    pub(in crate::engines) fn open(kernel: &Kernel) -> Option<Self> {
        let kind = MapKind::Array {
            mmapable: true,
            inner: false,
        };
        let map = Map::create(kernel, &MapSpec::new("ringtap_xdp", kind, BYTES, 1)).ok()?;
        let points = POINTS
            .iter()
            .filter_map(|point| attach(kernel, &map, point));
        let points: Vec<Tracepoint> = points.collect();
        if points.is_empty() {
            return None;
        }
        Some(Self {
            mapping: Mapping::new(&map, 0..0).ok()?,
            _points: points,
        })
    }

    /// Returns the counts since the opening.
    pub(in crate::engines) fn load(&self) -> XdpLosses {
        let load = |counter: i16| self.mapping.load_u64(usize::from(counter.unsigned_abs()));
        XdpLosses {
            exceptions: load(EXCEPTIONS),
            redirects: load(REDIRECTS),
        }
    }
}

fn attach(kernel: &Kernel, map: &Map, (name, counter, packets): &Point) -> Option<Tracepoint> {
    let code = code(map.as_fd().as_raw_fd(), *counter, *packets)?;
    let program = Program::load(kernel, "ringtap_xdp", ProgramKind::RawTracepoint, &code).ok()?;
    Tracepoint::attach(kernel, name, &program).ok()
}

/// Returns a program that adds to a counter, which the processors share: errors are rare.
fn code(map: i32, counter: i16, packets: Option<i16>) -> Option<Vec<u64>> {
    let mut asm = Assembler::new();
    let out = asm.label();
    match packets {
        Some(argument) => asm.load(Size::Dw, Reg::R6, Reg::R1, argument * 8),
        None => asm.mov64(Reg::R6, 1),
    }
    // The argument is an `int`: the upper half of the register means nothing.
    asm.alu64(AluOp::Lsh, Reg::R6, 32);
    asm.alu64(AluOp::Rsh, Reg::R6, 32);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
    asm.store_imm(Size::W, Reg::R10, -4, 0);
    asm.push(Insn::LoadMap {
        dst: Reg::R1,
        fd: map,
    });
    asm.mov64(Reg::R2, Reg::R10);
    asm.alu64(AluOp::Add, Reg::R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, out);
    asm.atomic(Size::Dw, AtomicOp::Add, Reg::R0, counter, Reg::R6);
    asm.place(out);
    asm.mov32(Reg::R0, 0);
    asm.exit();
    // All labels are placed, and near.
    asm.finish().ok()
}

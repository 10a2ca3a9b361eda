//! Counts packets that are lost at XDP, whose errors pass tracepoints of their own. The kernel has no buffer for them
//! yet, so that they cannot be captured.
//!
//! Source: `include/trace/events/xdp.h`.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Reg, Size, Width};
use ringtap_sys::bpf::{Kernel, Map, MapKind, MapSpec, Mapping, Program, ProgramKind, Tracepoint};

use crate::emit::{load_map, load_slot};
use crate::stats::XdpLosses;

/// The place of the counter of exceptions: an XDP program aborts, or returns what is no action.
const EXCEPTIONS: i16 = 0;
/// The same of packets that XDP sends back or redirects, and that the device, processor or socket does not take.
const REDIRECTS: i16 = 8;
/// The bytes of the counters, of which whole pages are mapped.
const BYTES: u32 = 4096;

/// The numbers of actions (`enum xdp_action`).
const TX: i32 = 3;
const REDIRECT: i32 = 4;

/// How the packets of a pass are counted. Arguments are given by their number.
#[derive(Clone, Copy, Debug)]
enum Counting {
    /// One, by the action that failed. A redirect passes another tracepoint, too.
    ByAction { action: i16 },
    /// One.
    One,
    /// An argument has their number.
    Packets { count: i16 },
    /// The same, if there was an error: a program behind a redirect may also have dropped them.
    AfterError { count: i16, error: i16 },
}

const POINTS: [(&CStr, Counting); 7] = [
    (c"xdp_exception", Counting::ByAction { action: 2 }),
    (c"xdp_redirect_err", Counting::One),
    (c"xdp_redirect_map_err", Counting::One),
    (c"xdp_bulk_tx", Counting::Packets { count: 2 }),
    (
        c"xdp_devmap_xmit",
        Counting::AfterError { count: 3, error: 4 },
    ),
    (c"xdp_cpumap_enqueue", Counting::Packets { count: 2 }),
    (c"xdp_cpumap_kthread", Counting::Packets { count: 2 }),
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
        let spec = MapSpec::new("ringtap_xdp", MapKind::MAPPED_ARRAY, BYTES, 1);
        let map = Map::create(kernel, &spec).ok()?;
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

fn attach(kernel: &Kernel, map: &Map, (name, counting): &(&CStr, Counting)) -> Option<Tracepoint> {
    let code = code(map.as_fd().as_raw_fd(), *counting)?;
    let program = Program::load(kernel, "ringtap_xdp", ProgramKind::RawTracepoint, &code).ok()?;
    Tracepoint::attach(kernel, name, &program).ok()
}

/// Returns a program that adds to a counter, which the processors share: errors are rare.
fn code(map: i32, counting: Counting) -> Option<Vec<u64>> {
    let mut asm = Assembler::new();
    let out = asm.label();
    // R6: packets. R7: the place of the counter.
    asm.mov64(Reg::R6, 1);
    asm.mov64(Reg::R7, i32::from(REDIRECTS));
    match counting {
        Counting::One => {}
        Counting::ByAction { action } => {
            let counted = asm.label();
            number(Reg::R2, action, &mut asm);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R2, REDIRECT, out);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R2, TX, counted);
            asm.mov64(Reg::R7, i32::from(EXCEPTIONS));
            asm.place(counted);
        }
        Counting::Packets { count } => number(Reg::R6, count, &mut asm),
        Counting::AfterError { count, error } => {
            number(Reg::R6, error, &mut asm);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
            number(Reg::R6, count, &mut asm);
        }
    }
    asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
    asm.store_imm(Size::W, Reg::R10, -4, 0);
    load_map(Reg::R1, map, &mut asm);
    load_slot(Reg::R2, -4, &mut asm);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, out);
    asm.alu64(AluOp::Add, Reg::R0, Reg::R7);
    asm.atomic(Size::Dw, AtomicOp::Add, Reg::R0, 0, Reg::R6);
    asm.place(out);
    asm.mov32(Reg::R0, 0);
    asm.exit();
    // All labels are placed, and near.
    asm.finish().ok()
}

/// Loads an argument of 32 bits, above which the register's bits mean nothing.
fn number(to: Reg, argument: i16, asm: &mut Assembler) {
    asm.load(Size::Dw, to, Reg::R1, argument * 8);
    asm.alu64(AluOp::Lsh, to, 32);
    asm.alu64(AluOp::Rsh, to, 32);
}

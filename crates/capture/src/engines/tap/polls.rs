//! The ends of the kernel's polls, at which a poll's stamp ends.

use ringtap_sys::bpf::{Kernel, Program, ProgramKind, Tracepoint};

use super::program::{Maps, code_at_end_of_poll};
use crate::hook::{HookDevice, is_realtime_kernel};

/// Drivers that also call XDP programs outside of polls: those whose packets a process writes.
const CALL_OUTSIDE_POLLS: [&str; 1] = ["tun"];

/// The program at the end of each poll. Dropping it detaches it.
#[derive(Debug)]
pub(super) struct Polls {
    _point: Tracepoint,
}

impl Polls {
    /// Returns a program that releases the rings at the end of polls. `None` if the clock must be read for
    /// each packet: the driver calls programs outside of polls, the kernel has `PREEMPT_RT`, in which polls
    /// interrupt one another, or it lacks the tracepoint.
    pub(super) fn watch(kernel: &Kernel, device: &HookDevice, maps: &Maps) -> Option<Self> {
        let kind = device.kind.as_deref().unwrap_or_default();
        if CALL_OUTSIDE_POLLS.contains(&kind) || is_realtime_kernel() {
            return None;
        }
        let code = code_at_end_of_poll(maps.rings);
        let program = Program::load(kernel, "ringtap_poll", ProgramKind::RawTracepoint, &code);
        let point = Tracepoint::attach(kernel, c"napi_poll", &program.ok()?).ok()?;
        Some(Self { _point: point })
    }
}

//! More counters than `pcap_stats`: `pcap_stats_ex`, and all of them in 64 bits.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use ringtap_capture::Stats;

use crate::boundary::export;
use crate::counters::{ask, narrow};
use crate::handle::Pcap;
use crate::state::stat_ex::StatEx;
use crate::types::code;

/// `struct ringtap_stats`: all counters, `UINT64_MAX` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Wide {
    received: u64,
    captured: u64,
    sent: u64,
    dropped_at_hook: u64,
    left_out_by_sampling: u64,
    dropped_in_ring: u64,
    dropped_by_interface: u64,
    dropped_by_application: u64,
    freezes: u64,
}

impl Wide {
    fn new(stats: &Stats, captured: u64, sent: u64) -> Self {
        let known = |count: Option<u64>| count.unwrap_or(u64::MAX);
        Self {
            received: known(stats.received),
            captured,
            sent,
            dropped_at_hook: known(stats.dropped.hook),
            left_out_by_sampling: known(stats.dropped.sampling),
            dropped_in_ring: known(stats.dropped.ring),
            dropped_by_interface: known(stats.dropped.interface),
            dropped_by_application: known(stats.dropped.application),
            freezes: known(stats.freezes),
        }
    }
}

export! {
    /// Returns the counters of `pcap_stats` and some more, in a structure that belongs to the
    /// handle; writes its size in bytes to `size`.
    fn pcap_stats_ex(handle: Option<&Pcap>, size: Option<&mut c_int>) -> *mut StatEx {
        let Some(handle) = handle else { return std::ptr::null_mut() };
        let Ok(stats) = ask(handle) else { return std::ptr::null_mut() };
        let all = StatEx {
            common: stats.into(),
            captured: narrow(Some(handle.delivered.load(Ordering::Relaxed))),
            sent: narrow(Some(handle.sent.load(Ordering::Relaxed))),
            lost_on_network: 0,
        };
        if let Some(size) = size {
            *size = c_int::try_from(size_of::<StatEx>()).unwrap_or(0);
        }
        handle.stats_ex.put(all)
    } else std::ptr::null_mut();

    /// Returns all counters in 64 bits. `size` is the size of the program's structure, which may be
    /// an older, smaller one.
    fn ringtap_stats(handle: Option<&Pcap>, stats: *mut u64, size: usize) -> c_int {
        let (Some(handle), false) = (handle, stats.is_null()) else { return code::ERROR };
        let asked = match ask(handle) {
            Ok(asked) => asked,
            Err(code) => return code,
        };
        let captured = handle.delivered.load(Ordering::Relaxed);
        let wide = Wide::new(&asked, captured, handle.sent.load(Ordering::Relaxed));
        let bytes = size.min(size_of::<Wide>());
        // SAFETY: C's contract: `size` bytes are writable there; no more than both structures have
        // are copied.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const wide).cast(), stats.cast::<u8>(), bytes);
        }
        0
    } else code::ERROR;
}

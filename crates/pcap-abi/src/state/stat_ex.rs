//! The counters that `pcap_stats_ex` returns.

use std::cell::UnsafeCell;
use std::ffi::c_uint;

use crate::types::PcapStat;

/// The structure of `pcap_stats_ex`; its first part is `struct pcap_stat`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct StatEx {
    pub(crate) common: PcapStat,
    /// Packets delivered to the program.
    pub(crate) captured: c_uint,
    /// Packets sent by the program.
    pub(crate) sent: c_uint,
    /// Packets lost on a network between capture and program: always 0.
    pub(crate) lost_on_network: c_uint,
}

/// The place in a handle that `pcap_stats_ex` points to.
#[derive(Debug, Default)]
pub(crate) struct StatExCell(UnsafeCell<StatEx>);

// SAFETY: plain numbers, written only by the thread that uses the handle.
unsafe impl Sync for StatExCell {}

impl StatExCell {
    /// Writes the counters and returns their address, which is valid as long as the cell.
    pub(crate) fn put(&self, all: StatEx) -> *mut StatEx {
        let place = self.0.get();
        // SAFETY: the place is the cell's own, and no reference to it exists.
        unsafe { place.write(all) };
        place
    }
}

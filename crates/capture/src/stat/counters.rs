//! The counters: an array map of one value, mapped into the application, read only.
//!
//! Each processor has a stretch of its own, so that no two write to one cache line: for each filter
//! and for the total a slot of two 64-bit numbers, packets and bytes. Programs at the hooks run with
//! softirqs off, so that on one processor there is one writer at a time, and plain additions do. On
//! a kernel with PREEMPT_RT, where that does not hold, they are atomic.
//!
//! Received and sent packets have a total each, so that it shows where received ones come no more.
//!
//! A number is read whole, with one load. The two of a slot, and the slots, are read one after the
//! other while packets are being counted: a packet may be in one and not yet in the other. It is
//! then in the next reading; nothing is lost or counted twice.

use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, Mapping, possible_cpus};

use super::Count;
use crate::hook::is_realtime_kernel;

/// Bytes of a slot: packets, then bytes.
const SLOT: usize = 16;
/// Bytes of a processor's stretch are a multiple of this: two cache lines, as they are fetched in
/// pairs.
const ALIGN: usize = 128;

/// Counters of some filters, and of all received and all sent packets in the two slots behind them.
#[derive(Debug)]
pub(super) struct Counters {
    map: Map,
    mapping: Mapping,
    filters: usize,
    cpus: usize,
    atomic: bool,
}

impl Counters {
    /// All zero. Needs Linux 5.5.
    pub(super) fn create(kernel: &Kernel, filters: usize) -> bpf::Result<Self> {
        let cpus = possible_cpus();
        let bytes = cpus * stride(filters);
        let kind = MapKind::Array {
            mmapable: true,
            inner: false,
        };
        // The kernel refuses what does not fit; a processor takes 4 KiB at most.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let map = Map::create(kernel, &MapSpec::new("ringtap_stat", kind, bytes, 1))?;
        Ok(Self {
            mapping: Mapping::new(&map, 0..0)?,
            map,
            filters,
            cpus,
            atomic: is_realtime_kernel(),
        })
    }

    /// The map, for the program.
    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// The number of processors that have a stretch.
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Bytes from one processor's stretch to the next.
    pub(super) fn stride(&self) -> usize {
        stride(self.filters)
    }

    /// Whether additions must be atomic.
    pub(super) fn atomic(&self) -> bool {
        self.atomic
    }

    /// The slot of all packets that were received (else sent).
    pub(super) fn total_slot(&self, received: bool) -> usize {
        self.filters + usize::from(!received)
    }

    /// All packets.
    pub(super) fn total(&self) -> Count {
        let [mut sum, sent] = [true, false].map(|received| self.load(self.total_slot(received)));
        sum.packets = sum.packets.wrapping_add(sent.packets);
        sum.bytes = sum.bytes.wrapping_add(sent.bytes);
        sum
    }

    /// A slot, summed over the processors.
    pub(super) fn load(&self, slot: usize) -> Count {
        let mut sum = Count::default();
        for cpu in 0..self.cpus {
            let at = cpu * self.stride() + slot_offset(slot);
            sum.packets = sum.packets.wrapping_add(self.mapping.load_u64(at));
            sum.bytes = sum.bytes.wrapping_add(self.mapping.load_u64(at + 8));
        }
        sum
    }
}

/// Bytes from the begin of a processor's stretch to a slot.
pub(super) const fn slot_offset(slot: usize) -> usize {
    slot * SLOT
}

fn stride(filters: usize) -> usize {
    slot_offset(filters + 2).next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_hold_all_slots_and_share_no_cache_line() {
        assert_eq!(stride(0), 128);
        assert_eq!(stride(6), 128);
        assert_eq!(stride(7), 256);
        for filters in 0..300 {
            assert!(slot_offset(filters + 1) + SLOT <= stride(filters));
        }
    }
}

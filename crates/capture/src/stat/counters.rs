//! The counters: an array map of one value, mapped read-only into the application.
//!
//! Each processor has a separate stretch, so that no two write to one cache line. It has a slot of two 64-bit
//! numbers, packets and bytes, for each filter and for the total. Programs at the hooks run with softirqs
//! off, so there is one writer at a time per processor, and plain additions suffice. With PREEMPT_RT that
//! does not hold, and additions are atomic.
//!
//! Received and sent packets have separate totals, which shows when received ones no longer come.
//!
//! Each number is read with one load. The two numbers of a slot, and the slots, are read one after the other
//! while packets are being counted. So a packet may be in one and not yet in another; it is then in the next
//! reading. Nothing is lost or counted twice.

use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, Mapping, possible_cpus};

use super::Count;
use crate::hook::is_realtime_kernel;

/// Bytes of a slot: packets, then bytes.
const SLOT: usize = 16;
/// The size of a processor's stretch is a multiple of this: two cache lines, since they are fetched in pairs.
const ALIGN: usize = 128;

/// The counters of some filters, and of all received and all sent packets in the two slots after them.
#[derive(Debug)]
pub(crate) struct Counters {
    map: Map,
    mapping: Mapping,
    filters: usize,
    cpus: usize,
    atomic: bool,
}

impl Counters {
    /// Returns counters that are all zero. Needs Linux 5.5.
    pub(crate) fn create(kernel: &Kernel, filters: usize) -> bpf::Result<Self> {
        let cpus = possible_cpus();
        let bytes = cpus * stride(filters);
        // The kernel rejects sizes that do not fit; a processor takes 4 KiB at most.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let map = Map::create(
            kernel,
            &MapSpec::new("ringtap_stat", MapKind::MAPPED_ARRAY, bytes, 1),
        )?;
        Ok(Self {
            mapping: Mapping::new(&map, 0..0)?,
            map,
            filters,
            cpus,
            atomic: is_realtime_kernel(),
        })
    }

    /// Returns the map, for the program.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the number of processors with a stretch.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns the bytes from one processor's stretch to the next.
    pub(crate) fn stride(&self) -> usize {
        stride(self.filters)
    }

    /// Returns whether additions must be atomic.
    pub(crate) fn atomic(&self) -> bool {
        self.atomic
    }

    /// Returns the slot of all received (else sent) packets.
    pub(crate) fn total_slot(&self, received: bool) -> usize {
        self.filters + usize::from(!received)
    }

    /// Returns the sum of all packets.
    pub(crate) fn total(&self) -> Count {
        let [mut sum, sent] = [true, false].map(|received| self.load(self.total_slot(received)));
        sum.packets = sum.packets.wrapping_add(sent.packets);
        sum.bytes = sum.bytes.wrapping_add(sent.bytes);
        sum
    }

    /// Returns a slot, summed over the processors.
    pub(crate) fn load(&self, slot: usize) -> Count {
        let mut sum = Count::default();
        for cpu in 0..self.cpus {
            let at = cpu * self.stride() + slot_offset(slot);
            sum.packets = sum.packets.wrapping_add(self.mapping.load_u64(at));
            sum.bytes = sum.bytes.wrapping_add(self.mapping.load_u64(at + 8));
        }
        sum
    }
}

/// Returns the bytes from the start of a processor's stretch to a slot.
pub(crate) const fn slot_offset(slot: usize) -> usize {
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

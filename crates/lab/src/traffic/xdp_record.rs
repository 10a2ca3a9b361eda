//! A receiver with minimal cost: an XDP program that counts packets, records the arrival times of
//! the first ones, and drops them.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{self, Kernel, Link, Map, MapKind, MapSpec};

use super::xdp_drop::attached;
use crate::netns::Side;

const XDP_DROP: i32 = 1;
const COUNT_BYTES: usize = 8;

/// Counts all packets that an end of a pair receives, until dropped.
#[derive(Debug)]
#[must_use = "packets are counted as long as it lives"]
pub struct XdpRecord {
    count: Map,
    stamps: Map,
    capacity: u32,
    _link: Link,
}

impl XdpRecord {
    /// Attaches the program. Needs [`crate::Need::Root`] and Linux 5.12. It records the times of
    /// `capacity` packets; with 0 it does not even read the clock.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program or another XDP program is attached.
    ///
    /// # Panics
    /// Panics if the device does not exist.
    pub fn on(side: &Side, capacity: u32) -> bpf::Result<Self> {
        let kernel = Kernel::running();
        let count = single(&kernel, "count", 8)?;
        let stamps = single(&kernel, "stamps", 8 * capacity.max(1))?;
        let code = program(&count, &stamps, capacity);
        Ok(Self {
            count,
            stamps,
            capacity,
            _link: attached(side, "xdp_record", &code)?,
        })
    }

    /// Returns the number of packets so far.
    ///
    /// # Errors
    /// Returns an error if the kernel's map cannot be read.
    pub fn count(&self) -> bpf::Result<u64> {
        let mut count = [0; COUNT_BYTES];
        self.count.lookup(0, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    /// Returns the arrival times of packets on the monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the kernel's map cannot be read.
    pub fn stamps(&self) -> bpf::Result<Vec<u64>> {
        let mut bytes = vec![0; self.stamps.value_size()];
        self.stamps.lookup(0, &mut bytes)?;
        let count = self.count()?.min(self.capacity.into());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (words, _) = bytes.as_chunks::<8>();
        let words = words.iter().take(count).copied();
        Ok(words.map(u64::from_ne_bytes).collect())
    }
}

/// Makes an array of one value.
pub(super) fn single(kernel: &Kernel, name: &str, bytes: u32) -> bpf::Result<Map> {
    let kind = MapKind::Array {
        mmapable: false,
        inner: false,
    };
    Map::create(kernel, &MapSpec::new(name, kind, bytes, 1))
}

fn program(count: &Map, stamps: &Map, capacity: u32) -> Vec<u64> {
    let mut asm = Assembler::new();
    let done = asm.label();
    let value = |dst, map: &Map| Insn::LoadMapValue {
        dst,
        fd: map.as_fd().as_raw_fd(),
        offset: 0,
    };
    asm.push(value(Reg::R1, count));
    asm.mov64(Reg::R6, 1);
    asm.atomic(Size::Dw, AtomicOp::FetchAdd, Reg::R1, 0, Reg::R6);
    let capacity = i32::try_from(capacity).expect("some millions at most");
    if capacity > 0 {
        asm.jump_if(Cond::Ge, Width::W64, Reg::R6, capacity, done);
        asm.call(Helper::KtimeGetNs);
        asm.alu64(AluOp::Lsh, Reg::R6, 3);
        asm.push(value(Reg::R1, stamps));
        asm.add64(Reg::R1, Reg::R6);
        asm.store(Size::Dw, Reg::R1, 0, Reg::R0);
    }
    asm.place(done);
    asm.mov32(Reg::R0, XDP_DROP);
    asm.exit();
    asm.finish().expect("labels are placed")
}

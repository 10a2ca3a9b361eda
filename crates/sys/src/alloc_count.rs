//! A global allocator that counts, for tests that prove a loop free of allocations.
//!
//! It wraps the system's allocator with counters: one set per thread, so that other threads do not
//! disturb a test, and one for the process. It exists only with the feature `testing`, which no
//! shipped build enables.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counting allocator; a test target installs it by `#[global_allocator] static A: Counting =
/// Counting;`
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// The calls that allocated, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that allocated or changed the size of an allocation.
    pub allocations: u64,
    /// The bytes that these calls asked for; a change of size counts with its new size.
    pub bytes: u64,
}

thread_local! {
    // `const` and without a destructor: such a thread local is usable in an allocator, because it
    // neither allocates at first use nor dies before the thread's last deallocation.
    static THREAD: Cell<Counts> = const { Cell::new(Counts { allocations: 0, bytes: 0 }) };
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Runs `body` and returns its result with the allocations of this thread in it. The counts are
/// zero if [`Counting`] is not the program's allocator.
pub fn count<R>(body: impl FnOnce() -> R) -> (R, Counts) {
    let before = THREAD.get();
    let result = body();
    let after = THREAD.get();
    let counts = Counts {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    };
    (result, counts)
}

/// Returns the allocations of all threads since the program began.
#[must_use]
pub fn total() -> Counts {
    Counts {
        allocations: ALLOCATIONS.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed),
    }
}

fn record(bytes: usize) {
    let bytes = bytes as u64;
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    let counts = THREAD.get();
    THREAD.set(Counts {
        allocations: counts.allocations.wrapping_add(1),
        bytes: counts.bytes.wrapping_add(bytes),
    });
}

// SAFETY: every method passes its arguments unchanged to `System`, which fulfils the contract, and
// returns its result unchanged; `record` neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record(layout.size());
        // SAFETY: the caller promises a layout of non-zero size, as `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        record(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        record(new_size);
        // SAFETY: the caller promises a block of this allocator and its layout, and every block of
        // this allocator is one of `System`.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

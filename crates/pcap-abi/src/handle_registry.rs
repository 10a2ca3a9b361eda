//! The registry of open handles.
//!
//! C may close a handle while a thread waits for its packets, and may close one twice. So after a
//! wait, and before closing, the registry is asked before the handle is touched. Not every handle
//! that C passes is checked.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::{Pcap, lock};

/// The handles that C has received and not closed.
static OPEN: Mutex<Vec<HandleId>> = Mutex::new(Vec::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A handle, identified by its address and a unique number, because a later handle may have the
/// same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleId {
    address: usize,
    number: u64,
}

/// Returns a number that no other handle has.
pub(crate) fn number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Registers a handle and passes it to C.
pub(crate) fn hand_out(handle: Box<Pcap>) -> *mut Pcap {
    lock(&OPEN).push(HandleId::of(&handle));
    Box::into_raw(handle)
}

/// Returns a handle that C wants to close; `None` for null, and for one that was closed already.
pub(crate) fn find<'a>(handle: *mut Pcap) -> Option<&'a Pcap> {
    let is_open = lock(&OPEN).iter().any(|one| one.address == handle.addr());
    // SAFETY: `hand_out` made it from a box, and C, which closes it now, has not done so before.
    // C's contract: no other thread closes it meanwhile.
    is_open.then(|| unsafe { &*handle })
}

/// Removes a handle that is about to be freed.
pub(crate) fn forget(handle: &Pcap) {
    let known = HandleId::of(handle);
    let mut open = lock(&OPEN);
    open.retain(|one| *one != known);
    if open.is_empty() {
        // So that leak checkers find no memory that was not freed.
        open.shrink_to_fit();
    }
}

impl HandleId {
    pub(crate) fn of(handle: &Pcap) -> Self {
        Self {
            address: ptr::from_ref(handle).addr(),
            number: handle.number,
        }
    }

    /// Returns whether C has not closed the handle.
    pub(crate) fn is_open(self) -> bool {
        lock(&OPEN).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_handle_is_open_until_it_is_forgotten() {
        let handle = hand_out(Pcap::inactive(Settings::default()));
        let shared = find(handle).expect("open");
        let known = HandleId::of(shared);
        assert!(known.is_open());
        forget(shared);
        assert!(!known.is_open() && find(handle).is_none());
        // SAFETY: it was made from a box, and nothing else owns it.
        drop(unsafe { Box::from_raw(handle) });
        assert!(find(ptr::null_mut()).is_none());
    }
}

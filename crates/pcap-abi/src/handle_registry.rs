//! Which handles are open.
//!
//! C may close a handle while a thread waits for its packets, and may close one twice. So whoever comes
//! back from a wait, or closes, asks here before it touches the handle. What it is not: a check of every
//! handle that C hands in.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::{Pcap, lock};

/// The handles that C was given and has not closed.
static OPEN: Mutex<Vec<HandleId>> = Mutex::new(Vec::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A handle by its address, and by a number that no other has, which may later be at that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleId {
    address: usize,
    number: u64,
}

/// A number that no other handle has.
pub(crate) fn number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Gives a handle to C.
pub(crate) fn hand_out(handle: Box<Pcap>) -> *mut Pcap {
    lock(&OPEN).push(HandleId::of(&handle));
    Box::into_raw(handle)
}

/// The handle that C wants closed: nothing for null, and for one that it has closed already.
pub(crate) fn find<'a>(handle: *mut Pcap) -> Option<&'a Pcap> {
    let is_open = lock(&OPEN).iter().any(|one| one.address == handle.addr());
    // SAFETY: it was made of a box by `hand_out`, and C, which closes it now, has not done so before. C's
    // contract: no other thread closes it meanwhile.
    is_open.then(|| unsafe { &*handle })
}

/// The handle is going to be freed.
pub(crate) fn forget(handle: &Pcap) {
    let known = HandleId::of(handle);
    let mut open = lock(&OPEN);
    open.retain(|one| *one != known);
    if open.is_empty() {
        // Whoever looks for memory that was not freed finds none.
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

    /// Whether C has not closed it.
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
        // SAFETY: it was made of a box, and nobody has it.
        drop(unsafe { Box::from_raw(handle) });
        assert!(find(ptr::null_mut()).is_none());
    }
}

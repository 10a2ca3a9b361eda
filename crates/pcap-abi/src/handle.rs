//! The handle, `pcap_t`, in all its states.
//!
//! A handle is reached through a shared reference, because callbacks and `pcap_breakloop` use it while
//! another call is reading. All fields that change are atomics or behind locks. A call that needs the reading
//! side while it is in use leaves a request in [`Pcap::wishes`].

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use ringtap_capture::Waker;

use crate::handle_registry::{self, HandleId};
pub(crate) use crate::lock::lock;
use crate::state::live::Live;
use crate::state::live_dump::LiveDump;
use crate::state::offline::Offline;
use crate::state::reading::Reading;
use crate::state::sampling::Wanted;
use crate::state::settings::Settings;
use crate::state::stat_ex::StatExCell;
use crate::state::wishes::Wishes;
use crate::text::{ERRBUF_SIZE, print};
use crate::types::{PRECISION_NANO, Times, code};

/// The message of a function that needs an activated handle.
pub(crate) const NOT_YET_ACTIVATED: &str = "This handle hasn't been activated yet";

/// `pcap_t`.
pub(crate) struct Pcap {
    /// A number that no other handle has.
    pub(crate) number: u64,
    errors: UnsafeCell<[u8; ERRBUF_SIZE + 1]>,
    /// Set by `pcap_breakloop`.
    pub(crate) broken: AtomicBool,
    pub(crate) nonblocking: AtomicBool,
    /// The number of the link type (`DLT_*`).
    pub(crate) link_type: AtomicI32,
    /// The settings until the handle is activated.
    pub(crate) settings: Mutex<Settings>,
    /// The state of an activated handle.
    pub(crate) opened: OnceLock<Opened>,
    /// Ends a wait for packets.
    pub(crate) waker: OnceLock<Waker>,
    pub(crate) reading: Mutex<Option<Reading>>,
    pub(crate) wishes: Wishes,
    /// Packets delivered to the program, and packets sent by it.
    pub(crate) delivered: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) sampling: Wanted,
    pub(crate) stats_ex: StatExCell,
    pub(crate) live_dump: LiveDump,
}

// SAFETY: all fields but the message are atomics and locks. The message is plain bytes that end
// with a zero, whose last byte is never written. As in libpcap, if two threads write and read it at
// once, the reader gets a mixture.
unsafe impl Sync for Pcap {}

/// An activated handle.
pub(crate) struct Opened {
    pub(crate) kind: Kind,
    pub(crate) snapshot: c_int,
    /// `PCAP_TSTAMP_PRECISION_*`.
    pub(crate) precision: c_int,
    /// The upper bits of a file's link type.
    pub(crate) link_type_bits: c_int,
}

/// The origin of the packets.
pub(crate) enum Kind {
    /// None.
    Dead,
    /// A file.
    Offline(Offline),
    /// An interface.
    Live(Box<Live>),
}

impl Pcap {
    /// Creates a handle that is not activated yet.
    pub(crate) fn new(settings: Settings) -> Box<Self> {
        Box::new(Self {
            number: handle_registry::number(),
            errors: UnsafeCell::new([0; ERRBUF_SIZE + 1]),
            broken: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
            link_type: AtomicI32::new(0),
            settings: Mutex::new(settings),
            opened: OnceLock::new(),
            waker: OnceLock::new(),
            reading: Mutex::new(None),
            wishes: Wishes::default(),
            delivered: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            sampling: Wanted::default(),
            stats_ex: StatExCell::default(),
            live_dump: LiveDump::default(),
        })
    }

    /// Creates a handle that is ready for use.
    pub(crate) fn ready(opened: Opened, link_type: c_int, reading: Option<Reading>) -> Box<Self> {
        let handle = Self::new(Settings::default());
        handle.open(opened, link_type, reading);
        handle
    }

    /// Returns its identity.
    pub(crate) fn id(&self) -> HandleId {
        HandleId::new(std::ptr::from_ref(self).addr(), self.number)
    }

    /// Gives the handle to C.
    pub(crate) fn hand_out(self: Box<Self>) -> *mut Self {
        self.id().open();
        Box::into_raw(self)
    }

    /// Returns the handle that C wants to close. `None` for null, and for one that it has already closed.
    pub(crate) fn find<'a>(handle: *mut Self) -> Option<&'a Self> {
        // SAFETY: it was made of a box by `hand_out`, and C, which closes it now, has not done so before. C's
        // contract: no other thread closes it in the meantime.
        handle_registry::has(handle.addr()).then(|| unsafe { &*handle })
    }

    /// Makes the handle ready for use.
    pub(crate) fn open(&self, opened: Opened, link_type: c_int, reading: Option<Reading>) {
        self.link_type.store(link_type, Ordering::Release);
        if let Some(reading) = &reading {
            let _ = self.waker.set(reading.waker.clone());
        }
        *lock(&self.reading) = reading;
        let _ = self.opened.set(opened);
    }

    /// Sets the message for `pcap_geterr`.
    pub(crate) fn say(&self, message: impl fmt::Display) {
        let mut text = [0; ERRBUF_SIZE];
        print(&mut text, message);
        // SAFETY: the bytes belong to this handle, and no reference to them exists: they are only
        // written here, and read by C.
        unsafe {
            let buffer = self.errors.get().cast::<u8>();
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, ERRBUF_SIZE);
        }
    }

    /// Sets a message and returns the code for an error.
    pub(crate) fn fail(&self, message: impl fmt::Display) -> c_int {
        self.say(message);
        code::ERROR
    }

    /// Returns the code of a result; sets the message of an error.
    pub(crate) fn answer(&self, result: Result<(), impl fmt::Display>) -> c_int {
        result.map_or_else(|message| self.fail(message), |()| 0)
    }

    /// Returns the message's address.
    pub(crate) fn message(&self) -> *mut c_char {
        self.errors.get().cast()
    }

    /// Returns the message.
    pub(crate) fn text(&self) -> String {
        // SAFETY: as in `say`; the copy is made at once.
        let bytes = unsafe { *self.errors.get() };
        let text = std::ffi::CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        text.to_string_lossy().into_owned()
    }

    /// Returns the state of an activated handle; otherwise sets the usual message and returns the
    /// code.
    pub(crate) fn activated(&self) -> Result<&Opened, c_int> {
        self.opened.get().ok_or_else(|| {
            self.say(NOT_YET_ACTIVATED);
            code::NOT_ACTIVATED
        })
    }

    /// Returns an error if the handle is activated: sets the usual message and returns the code.
    pub(crate) fn not_activated(&self) -> Result<(), c_int> {
        if self.opened.get().is_none() {
            return Ok(());
        }
        self.say("can't perform  operation on activated capture");
        Err(code::ACTIVATED)
    }

    /// Returns the reading side, if no call is using it.
    pub(crate) fn try_reading(&self) -> Option<MutexGuard<'_, Option<Reading>>> {
        match self.reading.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the number of the link type.
    pub(crate) fn dlt(&self) -> c_int {
        self.link_type.load(Ordering::Acquire)
    }

    /// Returns the origin of an activated handle's packets.
    pub(crate) fn kind(&self) -> Option<&Kind> {
        self.opened.get().map(|opened| &opened.kind)
    }

    /// Returns the live capture, if it is one.
    pub(crate) fn live(&self) -> Option<&Live> {
        match self.kind() {
            Some(Kind::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// Returns the file, if it is one.
    pub(crate) fn file(&self) -> Option<&Offline> {
        match self.kind() {
            Some(Kind::Offline(file)) => Some(file),
            _ => None,
        }
    }

    /// Ends a wait for packets.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Changes the reading side; fails with the message `busy` while another call uses it.
    pub(crate) fn change(
        &self,
        busy: &str,
        change: impl FnOnce(&mut Reading) -> Result<(), String>,
    ) -> c_int {
        match self.try_reading().as_deref_mut() {
            Some(Some(reading)) => self.answer(change(reading)),
            Some(None) => code::ERROR,
            None => self.fail(busy),
        }
    }
}

impl Opened {
    /// Returns the form of packets' times.
    pub(crate) fn times(&self) -> Times {
        Times {
            nano: self.precision == PRECISION_NANO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_open_until_it_is_forgotten() {
        let handle = Pcap::new(Settings::default()).hand_out();
        let shared = Pcap::find(handle).expect("open");
        let known = shared.id();
        assert!(known.is_open());
        known.close();
        assert!(!known.is_open() && Pcap::find(handle).is_none());
        // SAFETY: it was made of a box, and nobody has it.
        drop(unsafe { Box::from_raw(handle) });
        assert!(Pcap::find(std::ptr::null_mut()).is_none());
    }
}

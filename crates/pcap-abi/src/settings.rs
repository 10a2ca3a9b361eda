//! Handles before activation: `pcap_create` and the setters.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use crate::boundary::export;
use crate::handle::{Kind, NOT_YET_ACTIVATED, Pcap, lock};
use crate::state::settings::Settings;
use crate::text::{CText, ErrBuf};
use crate::types::{PRECISION_MICRO, PRECISION_NANO, code};

const NO_DEAD_NONBLOCKING: &str =
    "A pcap_open_dead pcap_t does not have a non-blocking mode setting";

impl Pcap {
    /// Changes a setting of a handle that is not activated yet, or returns why it cannot.
    fn try_set(handle: Option<&Self>, change: impl FnOnce(&mut Settings) -> c_int) -> c_int {
        let Some(handle) = handle else {
            return code::ERROR;
        };
        match handle.not_activated() {
            Ok(()) => change(&mut lock(&handle.settings)),
            Err(code) => code,
        }
    }

    /// Changes a setting as [`Self::try_set`], to any value.
    fn set(handle: Option<&Self>, change: impl FnOnce(&mut Settings)) -> c_int {
        Self::try_set(handle, |settings| {
            change(settings);
            0
        })
    }
}

/// Returns the types of timestamps that a device supports, by libpcap's numbers.
fn timestamp_types(handle: &Pcap) -> Vec<c_int> {
    crate::live::timestamp_types(&lock(&handle.settings))
}

export! {
    /// Creates a handle for capturing on a device; null means all devices.
    fn pcap_create(device: CText<'_>, _errbuf: ErrBuf<'_>) -> *mut Pcap {
        let device = device.get().unwrap_or(c"any").to_owned();
        let settings = Settings { device, ..Settings::default() };
        Pcap::new(settings).hand_out()
    } else std::ptr::null_mut();

    /// Sets the snapshot length, in bytes.
    fn pcap_set_snaplen(handle: Option<&Pcap>, snaplen: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.snaplen = snaplen)
    } else code::ERROR;

    /// Sets whether packets for other hosts are captured.
    fn pcap_set_promisc(handle: Option<&Pcap>, promiscuous: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.promiscuous = promiscuous != 0)
    } else code::ERROR;

    /// Sets whether a wireless interface is put into monitor mode.
    fn pcap_set_rfmon(handle: Option<&Pcap>, monitor: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.monitor = monitor != 0)
    } else code::ERROR;

    /// Returns whether the device supports monitor mode. This library does not: 0.
    fn pcap_can_set_rfmon(handle: Option<&Pcap>) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        match handle.kind() {
            Some(Kind::Dead) => handle.fail("Rfmon mode doesn't apply on a pcap_open_dead pcap_t"),
            // The same results as libpcap's for files and for running captures.
            Some(Kind::Live(_)) => code::ACTIVATED,
            // libpcap does not check whether the device exists, either.
            Some(Kind::Offline(_)) | None => 0,
        }
    } else code::ERROR;

    /// Sets the longest time that packets may wait, in milliseconds.
    fn pcap_set_timeout(handle: Option<&Pcap>, timeout: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.timeout = timeout)
    } else code::ERROR;

    /// Sets whether packets are delivered at once.
    fn pcap_set_immediate_mode(handle: Option<&Pcap>, immediate: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.immediate = immediate != 0)
    } else code::ERROR;

    /// Sets the size of the packet buffer, in bytes.
    fn pcap_set_buffer_size(handle: Option<&Pcap>, bytes: c_int) -> c_int {
        Pcap::set(handle, |settings| {
            // As in libpcap, an invalid size is ignored.
            if bytes > 0 {
                settings.buffer = bytes;
            }
        })
    } else code::ERROR;

    /// Sets the clock that stamps packets.
    fn pcap_set_tstamp_type(handle: Option<&Pcap>, kind: c_int) -> c_int {
        let types = match handle {
            Some(handle) if handle.opened.get().is_none() && kind != 0 => timestamp_types(handle),
            _ => vec![0],
        };
        Pcap::try_set(handle, |settings| {
            if !types.contains(&kind) {
                return code::WARNING_TSTAMP_TYPE_NOTSUP;
            }
            settings.timestamp = Some(kind);
            0
        })
    } else code::ERROR;

    /// Sets whether fractions of seconds are micro- or nanoseconds.
    fn pcap_set_tstamp_precision(handle: Option<&Pcap>, precision: c_int) -> c_int {
        Pcap::try_set(handle, |settings| {
            if !matches!(precision, PRECISION_MICRO | PRECISION_NANO) {
                return code::TSTAMP_PRECISION_NOTSUP;
            }
            settings.precision = precision;
            0
        })
    } else code::ERROR;

    /// Returns the unit of fractions of seconds.
    fn pcap_get_tstamp_precision(handle: Option<&Pcap>) -> c_int {
        handle.map_or(code::ERROR, |handle| match handle.opened.get() {
            Some(opened) => opened.precision,
            None => lock(&handle.settings).precision,
        })
    } else code::ERROR;

    /// Sets the ethertype that the socket receives.
    fn pcap_set_protocol_linux(handle: Option<&Pcap>, protocol: c_int) -> c_int {
        Pcap::set(handle, |settings| settings.protocol = protocol)
    } else code::ERROR;

    /// Lists the supported types of timestamps; `pcap_free_tstamp_types` frees the list.
    fn pcap_list_tstamp_types(handle: Option<&Pcap>, types: Option<&mut *mut c_int>) -> c_int {
        let (Some(handle), Some(types)) = (handle, types) else {
            return code::ERROR;
        };
        handle.hand_list(&timestamp_types(handle), types)
    } else code::ERROR;

    /// Frees a list of `pcap_list_tstamp_types`.
    fn pcap_free_tstamp_types(types: *mut c_int) {
        crate::memory::free(types);
    } else ();

    /// Sets whether reading never waits.
    fn pcap_setnonblock(
        handle: Option<&Pcap>, nonblocking: c_int, errbuf: ErrBuf<'_>,
    ) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        let message = match handle.kind() {
            Some(Kind::Dead) => NO_DEAD_NONBLOCKING,
            Some(Kind::Offline(_)) => "Savefiles cannot be put into non-blocking mode",
            Some(Kind::Live(_)) | None => {
                handle.nonblocking.store(nonblocking != 0, Ordering::Release);
                return 0;
            }
        };
        crate::text::say(errbuf, message);
        handle.fail(message)
    } else code::ERROR;

    /// Returns whether reading never waits: 1 or 0.
    fn pcap_getnonblock(handle: Option<&Pcap>, errbuf: ErrBuf<'_>) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        let (message, code) = match handle.kind() {
            Some(Kind::Dead) => (NO_DEAD_NONBLOCKING, code::ERROR),
            Some(_) => return c_int::from(handle.nonblocking.load(Ordering::Acquire)),
            None => (NOT_YET_ACTIVATED, code::NOT_ACTIVATED),
        };
        crate::text::say(errbuf, message);
        handle.say(message);
        code
    } else code::ERROR;
}

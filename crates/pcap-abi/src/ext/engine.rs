//! Lists, selects and reports capture engines: `ringtap_engine_name`, `ringtap_set_engine`, `ringtap_engine`.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_uint};

use crate::boundary::export;
use crate::handle::{Pcap, lock};
use crate::text::{CText, in_buffer};
use crate::types::code;

fn set(handle: &Pcap, engine: &str) -> c_int {
    if let Err(code) = handle.not_activated() {
        return code;
    }
    let mut names = ringtap_capture::ENGINES.iter().map(|engine| engine.name);
    if !names.any(|name| name == engine) {
        return handle.fail(format_args!("unknown engine {engine:?}"));
    }
    let mut settings = lock(&handle.settings);
    let device = settings.device.to_bytes();
    match CString::new([engine.as_bytes(), b":", device].concat()) {
        Ok(device) => {
            settings.device = device;
            0
        }
        Err(_) => code::ERROR,
    }
}

thread_local! {
    static NAME: RefCell<[u8; 32]> = const { RefCell::new([0; 32]) };
}

export! {
    /// Selects the engine of a handle that is not activated yet: `packet`, `tcx`, `xdp`.
    fn ringtap_set_engine(handle: Option<&Pcap>, engine: CText<'_>) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        set(handle, engine.str().unwrap_or_default())
    } else code::ERROR;

    /// Returns the name of an engine, in memory that the thread's next call overwrites; they are numbered from 0
    /// on. Null for a larger number.
    fn ringtap_engine_name(number: c_uint) -> *const c_char {
        let engine = usize::try_from(number).ok().and_then(|at| ringtap_capture::ENGINES.get(at));
        engine.map_or(std::ptr::null(), |engine| in_buffer(&NAME, engine.name))
    } else std::ptr::null();

    /// Returns the name of the engine that captures, in memory that the thread's next call
    /// overwrites; null for a handle that does not capture.
    fn ringtap_engine(handle: Option<&Pcap>) -> *const c_char {
        handle.and_then(Pcap::live).map_or(std::ptr::null(), |live| in_buffer(&NAME, live.engine))
    } else std::ptr::null();
}

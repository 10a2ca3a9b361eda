//! Changes buffers and delivery of running captures: `pcap_setbuff`, `pcap_setuserbuffer`,
//! `pcap_setmintocopy`, `pcap_getevent`.

use std::ffi::c_int;

use ringtap_capture::{Change, Delivery};

use crate::boundary::export;
use crate::handle::{Pcap, lock};
use crate::state::live::Live;
use crate::types::code;

const NOT_LIVE: &str = "This is for live captures only";

/// Changes a running capture, after its borrowed block was set aside.
fn change(
    handle: &Pcap,
    change: impl FnOnce(&mut dyn ringtap_capture::Source, &Live) -> Result<(), String>,
) -> c_int {
    let Some(live) = handle.live() else {
        return handle.fail(NOT_LIVE);
    };
    handle.change("This can't be changed while packets are read", |reading| {
        reading.set_aside();
        change(reading.borrowed.source(), live)
    })
}

fn set_buffer(handle: &Pcap, bytes: c_int) -> c_int {
    let Ok(wanted) = u64::try_from(bytes) else {
        return handle.fail("The buffer's size is negative");
    };
    if handle.opened.get().is_none() {
        lock(&handle.settings).buffer = bytes;
        return 0;
    }
    change(handle, |source, live| {
        source
            .change(Change::Buffer(wanted))
            .map_err(|error| error.to_string())?;
        lock(&live.options).buffer = wanted;
        Ok(())
    })
}

fn set_min_to_copy(handle: &Pcap, bytes: c_int) -> c_int {
    let Ok(wanted) = u32::try_from(bytes) else {
        return handle.fail("The number of bytes is negative");
    };
    if handle.opened.get().is_none() {
        lock(&handle.settings).min_to_copy = Some(wanted);
        return 0;
    }
    change(handle, |source, live| {
        let mut options = lock(&live.options);
        let delivery = Delivery {
            min_to_copy: wanted,
            timeout: options.timeout,
            immediate: options.immediate,
        };
        source
            .change(Change::Delivery(delivery))
            .map_err(|error| error.to_string())?;
        options.min_to_copy = wanted;
        Ok(())
    })
}

export! {
    /// Changes the kernel's buffer for packets, in bytes. The engine `packet` fixes it at opening;
    /// the taps change it while they run.
    fn pcap_setbuff(handle: Option<&Pcap>, bytes: c_int) -> c_int {
        handle.map_or(code::ERROR, |handle| set_buffer(handle, bytes))
    } else code::ERROR;

    /// Sets the size of a buffer in the program. There is none: packets are read where the kernel
    /// has put them.
    fn pcap_setuserbuffer(handle: Option<&Pcap>, bytes: c_int) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        if bytes <= 0 {
            return handle.fail("The buffer's size must be positive");
        }
        handle.answer(handle.live().map(|_| ()).ok_or(NOT_LIVE))
    } else code::ERROR;

    /// Changes the number of bytes that are delivered before the timeout, in the taps.
    fn pcap_setmintocopy(handle: Option<&Pcap>, bytes: c_int) -> c_int {
        handle.map_or(code::ERROR, |handle| set_min_to_copy(handle, bytes))
    } else code::ERROR;

    /// Returns a descriptor that poll(2) finds readable when there are packets, or -1.
    fn pcap_getevent(handle: Option<&Pcap>) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        match handle.live() {
            Some(live) => match crate::live::make_selectable(handle, live) {
                descriptor @ 0.. => descriptor,
                _ => handle.fail("This engine has no descriptor for its packets"),
            },
            None => handle.fail(NOT_LIVE),
        }
    } else code::ERROR;
}

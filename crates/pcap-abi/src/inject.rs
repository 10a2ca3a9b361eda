//! Sends packets: `pcap_inject`, `pcap_sendpacket`.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use ringtap_capture::Error;
use ringtap_send::{SendOptions, Sender};

use crate::boundary::export;
use crate::handle::{Kind, Pcap, lock};
use crate::state::live::{COOKED_V1, COOKED_V2, Live, plain_name};
use crate::types::code;
use crate::{memory, messages};

fn send(handle: &Pcap, live: &Live, frame: &[u8]) -> Result<usize, String> {
    if live.device.ends_with(":any") {
        return Err("Sending packets isn't supported on the \"any\" device".to_owned());
    }
    if live.link_types.contains(&COOKED_V2) || handle.dlt() == COOKED_V1 {
        return Err("Sending packets isn't supported in cooked mode".to_owned());
    }
    if let Some(companion) = &live.companion {
        return companion.send(frame).map_err(|error| match error {
            Error::System(error) => format!("send: {}", messages::of_os(&error.source)),
            other => other.to_string(),
        });
    }
    let mut sender = lock(&live.sender);
    let sender = match &mut *sender {
        Some(sender) => sender,
        none => none.insert(open(live)?),
    };
    sender
        .send(frame)
        .map_err(|error| format!("send: {error}"))?;
    Ok(frame.len())
}

/// Opens a sender on the interface of the capture.
pub(crate) fn open(live: &Live) -> Result<Sender, String> {
    let name = plain_name(&live.device);
    let mut options = SendOptions::default();
    options.qdisc_bypass = false;
    Sender::open(name, &options).map_err(|error| error.to_string())
}

fn inject(handle: &Pcap, data: *const c_void, len: usize) -> c_int {
    let opened = match handle.activated() {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let live = match &opened.kind {
        Kind::Dead => return handle.fail("Packets can't be sent on a pcap_open_dead pcap_t"),
        Kind::Offline(_) => return handle.fail("Sending packets isn't supported on savefiles"),
        Kind::Live(live) => live,
    };
    if len == 0 {
        return handle
            .fail("The number of bytes to be injected must not be zero: Invalid argument");
    }
    let Ok(most) = c_int::try_from(len) else {
        return handle.fail(format!("More than {} bytes cannot be injected", c_int::MAX));
    };
    // SAFETY: C's contract: there are that many bytes.
    let frame = unsafe { memory::items(data.cast(), len) };
    match send(handle, live, frame) {
        Ok(sent) => {
            handle.sent.fetch_add(1, Ordering::Relaxed);
            c_int::try_from(sent).unwrap_or(most)
        }
        Err(message) => handle.fail(message),
    }
}

export! {
    /// Sends a packet. Returns the bytes sent, or -1.
    fn pcap_inject(handle: Option<&Pcap>, data: *const c_void, len: usize) -> c_int {
        handle.map_or(code::ERROR, |handle| inject(handle, data, len))
    } else code::ERROR;

    /// Sends a packet. Returns 0 or -1.
    fn pcap_sendpacket(handle: Option<&Pcap>, data: *const c_void, len: c_int) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        match usize::try_from(len) {
            Ok(len) if len > 0 => inject(handle, data, len).min(0),
            _ => {
                handle.fail("The number of bytes to be sent must be positive: Invalid argument")
            }
        }
    } else code::ERROR;
}

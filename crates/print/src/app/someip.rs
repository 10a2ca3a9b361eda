//! SOME/IP (AUTOSAR's SOME/IP protocol specification, section 4.1.2): the header.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 16;
/// The bit of a method number that marks an event.
const EVENT: u16 = 0x8000;

const RESULTS: [&str; 16] = [
    "E_OK",
    "E_NOT_OK",
    "E_UNKNOWN_SERVICE",
    "E_UNKNOWN_METHOD",
    "E_NOT_READY",
    "E_NOT_REACHABLE",
    "E_TIMEOUT",
    "E_WRONG_PROTOCOL_VERSION",
    "E_WRONG_INTERFACE_VERSION",
    "E_MALFORMED_MESSAGE",
    "E_WRONG_MESSAGE_TYPE",
    "E_E2E_REPEATED",
    "E_E2E_WRONG_SEQUENCE",
    "E_E2E",
    "E_E2E_NOT_AVAILABLE",
    "E_E2E_NO_NEW_DATA",
];

fn kind_name(kind: u8) -> &'static str {
    match kind {
        0x00 => "REQUEST",
        0x01 => "REQUEST_NO_RETURN",
        0x02 => "NOTIFICATION",
        0x20 => "TP_REQUEST",
        0x21 => "TP_REQUEST_NO_RETURN",
        0x22 => "TP_NOTIFICATION",
        0x80 => "RESPONSE",
        0x81 => "ERROR",
        0xa0 => "TP_RESPONSE",
        0xa1 => "TP_ERROR",
        _ => "Unknown",
    }
}

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("someip");
    cx.line.str("SOMEIP");
    if length < HEADER {
        return end!(cx.line, " (invalid)");
    }
    let (service, method) = (data.u16_at(0)?, data.u16_at(2)?);
    let role = if method & EVENT == 0 {
        "method"
    } else {
        "event"
    };
    let (number, size) = (method & !EVENT, data.u32_at(4)?);
    put!(cx.line, ", service {service}, {role} {number}, len {size}");
    let [protocol, interface, kind, result] = data.array_at(12)?;
    let (client, session) = (data.u16_at(8)?, data.u16_at(10)?);
    put!(cx.line, ", client {client}, session {session}");
    put!(cx.line, ", pver {protocol}, iver {interface}");
    put!(cx.line, ", msgtype {}", kind_name(kind));
    let result = RESULTS.get(usize::from(result)).unwrap_or(&"Unknown");
    end!(cx.line, ", retcode {result}")
}

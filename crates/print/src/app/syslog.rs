//! Syslog (RFC 5424 section 6.2.1, RFC 3164): facility and severity.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const FACILITIES: [&str; 24] = [
    "kernel", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
    "authpriv", "ftp", "ntp", "security", "console", "cron", "local0", "local1", "local2",
    "local3", "local4", "local5", "local6", "local7",
];
const SEVERITIES: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];
/// The most digits of a priority.
const MAX_DIGITS: usize = 3;

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("syslog");
    let Some((priority, at)) = priority(data)? else {
        return end!(cx.line, " (invalid)");
    };
    let (facility, severity) = (priority >> 3, priority & 7);
    let known = FACILITIES.get(usize::from(facility)).copied();
    let severity_name = SEVERITIES[usize::from(severity)];
    if cx.verbose() {
        let name = known.unwrap_or("unknown");
        put!(
            cx.line,
            "SYSLOG, length: {length}\n\tFacility {name} ({facility}), Severity {severity_name} ({severity})\n\tMsg: "
        );
        cx.line.escaped(data.rest(at));
        return Ok(());
    }
    cx.line.str("SYSLOG ");
    cx.line.name(known, format_args!("unknown ({facility})"));
    end!(cx.line, ".{severity_name}, length: {length}")
}

/// Returns the number in angle brackets, and the offset of the message after it.
fn priority(data: &[u8]) -> Result<Option<(u16, usize)>> {
    if data.u8_at(0)? != b'<' {
        return Ok(None);
    }
    let mut value = 0;
    for at in 1..=MAX_DIGITS + 1 {
        match data.u8_at(at)? {
            b'>' => return Ok(Some((value, at + 1))),
            digit @ b'0'..=b'9' if at <= MAX_DIGITS => value = value * 10 + u16::from(digit - b'0'),
            _ => break,
        }
    }
    Ok(None)
}

//! Kerberos 4 over UDP: kind of message, names. Version 5 is encoded by ASN.1 and has no line.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Named, name_in, put};

const REQUEST: u8 = 1 << 1;
const REPLY: u8 = 2 << 1;
const APPLICATION_REQUEST: u8 = 3 << 1;
const ERROR_REPLY: u8 = 5 << 1;

const ERRORS: [&str; 11] = [
    "OK",
    "NAME_EXP",
    "SERVICE_EXP",
    "AUTH_EXP",
    "PKT_VER",
    "NAME_MAST_KEY_VER",
    "SERV_MAST_KEY_VER",
    "BYTE_ORDER",
    "PRINCIPAL_UNKNOWN",
    "PRINCIPAL_NOT_UNIQUE",
    "NULL_KEY",
];

const KINDS: [(u8, &str); 9] = [
    (REQUEST, "KDC_REQUEST"),
    (REPLY, "KDC_REPLY"),
    (APPLICATION_REQUEST, "APPL_REQUEST"),
    (8, "APPL_REQUEST_MUTUAL"),
    (ERROR_REPLY, "ERR_REPLY"),
    (12, "PRIVATE"),
    (14, "SAFE"),
    (16, "APPL_ERR"),
    (126, "DIE"),
];

/// Prints a message.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.enter("krb");
    let version = data.u8_at(0)?;
    match version {
        1..=3 => put!(cx.line, " v{version}"),
        // The tags of a request to the server and of its answer (RFC 4120 section 5.4).
        106 | 107 => cx.line.str(" v5"),
        4 => {
            put!(cx.line, " v{version}");
            version_4(cx, data)?;
        }
        _ => {}
    }
    Ok(())
}

fn version_4(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let first = data.u8_at(1)?;
    let (kind, little) = (first & !1, first & 1 != 0);
    cx.line.str(if little { " le" } else { " be" });
    let name = name_in(&KINDS, kind);
    put!(cx.line, " {}: ", Named(name, format_args!("#{kind}")));
    let number = |at| {
        data.u16_at(at)
            .map(|n| if little { n.swap_bytes() } else { n })
    };
    match kind {
        REQUEST => {
            let at = principal(cx, data, 2)?;
            // The time comes before the lifetime, which is in units of five minutes.
            let lifetime = data.u8_at(at + 4)?;
            put!(cx.line, " {}min ", u32::from(lifetime) * 5);
            let at = cx.line.terminated(data, at + 5)?;
            cx.line.str(".");
            cx.line.terminated(data, at)?;
        }
        REPLY => {
            // Time, number of tickets, expiry and version of the key come before the length.
            let at = principal(cx, data, 2)?;
            put!(cx.line, " ({})", number(at + 10)?);
        }
        APPLICATION_REQUEST => {
            put!(cx.line, "v{} ", data.u8_at(2)?);
            let at = cx.line.terminated(data, 3)?;
            put!(cx.line, " ({})", data.u8_at(at)?);
            put!(cx.line, " ({})", data.u8_at(at + 1)?);
        }
        ERROR_REPLY => {
            let at = principal(cx, data, 2)?;
            let code = number(at + 4)?;
            let name = ERRORS.get(usize::from(code)).copied();
            put!(cx.line, " {} ", Named(name, format_args!("#{code}")));
            cx.line.terminated(data, at + 8)?;
        }
        _ => cx.line.str("(unknown)"),
    }
    Ok(())
}

/// Prints `name.instance@realm`; the instance may be empty.
fn principal(cx: &mut Context<'_>, data: &[u8], at: usize) -> Result<usize> {
    let at = cx.line.terminated(data, at)?;
    cx.line.str(".");
    let at = cx.line.terminated(data, at)?;
    cx.line.str("@");
    cx.line.terminated(data, at)
}

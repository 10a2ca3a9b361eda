//! First lines: of SSH, of mail and file servers, of databases.

use crate::entry::{Entry, Tag};
use crate::payload::{Payload, Step};
use crate::protocol::Protocol;

/// The longest banner in an entry.
const LONGEST: usize = 64;

/// Reads the identification of an SSH client or server (RFC 4253, section 4.2).
pub(crate) fn ssh(entry: &mut Entry, payload: &Payload<'_>) -> Step {
    if !payload.data.starts_with(b"SSH-") {
        return Step::More;
    }
    let tag = if payload.from_initiator {
        Tag::ClientBanner
    } else {
        Tag::ServerBanner
    };
    entry.put_text(tag, line(payload.data), LONGEST, true);
    Step::This
}

/// Reads the first line of a protocol that begins in clear text.
pub(crate) fn step(protocol: Protocol, entry: &mut Entry, payload: &Payload<'_>) {
    let data = payload.data;
    match protocol {
        Protocol::Smtp | Protocol::Ftp if data.starts_with(b"220") => {
            put_server(entry, line(data));
        }
        Protocol::Imap if data.starts_with(b"* ") => put_server(entry, line(data)),
        Protocol::Pop3 if data.starts_with(b"+OK") => put_server(entry, line(data)),
        Protocol::Smtp if data.starts_with(b"EHLO ") || data.starts_with(b"HELO ") => {
            entry.put_text(Tag::ClientBanner, line(data), LONGEST, true);
        }
        Protocol::Mysql if data.get(4) == Some(&10) => {
            let version = data[5..].split(|byte| *byte == 0).next();
            put_server(entry, version.unwrap_or_default());
        }
        Protocol::Rdp => {
            let cookie = data
                .get(11..)
                .and_then(|rest| rest.strip_prefix(b"Cookie: mstshash="));
            if let Some(cookie) = cookie {
                entry.put_text(Tag::RdpCookie, line(cookie), LONGEST, true);
            }
        }
        _ => {}
    }
}

fn put_server(entry: &mut Entry, text: &[u8]) {
    entry.put_text(Tag::ServerBanner, text, LONGEST, true);
}

/// Returns the first line without its end.
fn line(data: &[u8]) -> &[u8] {
    let end = data.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    &data[..end.unwrap_or(data.len())]
}

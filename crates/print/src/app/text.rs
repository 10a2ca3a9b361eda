//! Text protocols: HTTP (RFC 9112), SIP (RFC 3261), RTSP (RFC 7826), SMTP (RFC 5321), FTP (RFC
//! 959), WHOIS (RFC 3912). The first line of a message is printed; with `-v` all lines of its head.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::put;

/// A text protocol.
pub(super) struct Protocol {
    name: &'static str,
    note: &'static str,
    /// The commands that a message may begin with; an empty list accepts every line.
    commands: &'static [&'static str],
}

pub(super) const HTTP: Protocol = Protocol {
    name: "HTTP",
    note: "http",
    commands: &[
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "COPY",
        "MOVE",
        "LOCK",
        "UNLOCK",
        "SEARCH",
        "REPORT",
        "UPDATE",
        "NOTIFY",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "BCOPY",
        "BMOVE",
        "POLL",
        "CHECKOUT",
        "MERGE",
    ],
};
pub(super) const RTSP: Protocol = Protocol {
    name: "RTSP",
    note: "rtsp",
    commands: &[
        "OPTIONS",
        "DESCRIBE",
        "ANNOUNCE",
        "SETUP",
        "PLAY",
        "PAUSE",
        "RECORD",
        "REDIRECT",
        "TEARDOWN",
        "GET_PARAMETER",
        "SET_PARAMETER",
    ],
};
pub(super) const SIP: Protocol = Protocol {
    name: "SIP",
    note: "sip",
    commands: &[
        "INVITE",
        "ACK",
        "BYE",
        "CANCEL",
        "REGISTER",
        "OPTIONS",
        "INFO",
        "PRACK",
        "UPDATE",
        "SUBSCRIBE",
        "NOTIFY",
        "REFER",
        "MESSAGE",
        "PUBLISH",
        "DO",
        "QAUTH",
        "SPRACK",
    ],
};
pub(super) const SMTP: Protocol = Protocol {
    name: "SMTP",
    note: "smtp",
    commands: &[],
};
pub(super) const FTP: Protocol = Protocol {
    name: "FTP",
    note: "ftp",
    commands: &[],
};
pub(super) const WHOIS: Protocol = Protocol {
    name: "WHOIS",
    note: "whois",
    commands: &[],
};

/// A longer word is neither command nor version.
const MAX_WORD: usize = 128;

/// Prints a message of `length` bytes.
pub(super) fn print(
    cx: &mut Context<'_>,
    protocol: &Protocol,
    data: &[u8],
    length: usize,
) -> Result {
    cx.enter(protocol.note);
    cx.line.str(protocol.name);
    if !(protocol.commands.is_empty() || begins_message(protocol, data, length)) {
        return Ok(());
    }
    if cx.verbose() {
        put!(cx.line, ", length: {length}");
    }
    let mut at = 0;
    loop {
        let lead = if cx.verbose() { "\n\t" } else { ": " };
        match line(data.rest(at), length.saturating_sub(at)) {
            Line::Whole { text, size } => {
                cx.line.str(lead);
                cx.line.bytes(data.part(at, text)?);
                at += size;
                // An empty line ends the head of a message.
                let end = text == 0 || at >= length || cx.line.is_full();
                if !cx.verbose() || end {
                    return Ok(());
                }
            }
            Line::Unfinished => {
                cx.line.str(lead);
                cx.line.bytes(data.rest(at));
                return Err(Truncated);
            }
            Line::NotCaptured => return Err(Truncated),
            Line::NotText => return Ok(()),
        }
    }
}

/// Returns whether the bytes begin with a command of the protocol, or as an answer: a word and three digits.
fn begins_message(protocol: &Protocol, data: &[u8], length: usize) -> bool {
    let Some(first) = word(data, length) else {
        return false;
    };
    let is = |name: &&str| name.as_bytes().eq_ignore_ascii_case(first);
    if protocol.commands.iter().any(is) {
        return true;
    }
    let gap = data.rest(first.len());
    let blank = gap
        .iter()
        .take_while(|&&byte| byte == b' ' || byte == b'\t');
    let at = first.len() + blank.count();
    word(data.rest(at), length.saturating_sub(at))
        .is_some_and(|code| code.len() == 3 && code.iter().all(u8::is_ascii_digit))
}

/// Returns the bytes up to the next white space; `None` if there are none, too many, or not all
/// were captured.
fn word(data: &[u8], length: usize) -> Option<&[u8]> {
    let white = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let end = match data.iter().position(white) {
        Some(end) => end,
        None if data.len() >= length => data.len(),
        None => return None,
    };
    (1..=MAX_WORD).contains(&end).then(|| data.up_to(end))
}

enum Line {
    /// A line of `text` bytes, `size` bytes with its end.
    Whole { text: usize, size: usize },
    /// Text, but the message ends before the line does.
    Unfinished,
    /// The captured bytes end before the line does.
    NotCaptured,
    /// Bytes other than visible ASCII and tabs.
    NotText,
}

fn line(data: &[u8], length: usize) -> Line {
    let visible = |byte: &u8| *byte == b'\t' || (0x20..0x7f).contains(byte);
    let text = data.iter().take_while(|&byte| visible(byte)).count();
    match (data.get(text), data.get(text + 1)) {
        (Some(b'\n'), _) => Line::Whole {
            text,
            size: text + 1,
        },
        (Some(b'\r'), Some(b'\n')) => Line::Whole {
            text,
            size: text + 2,
        },
        (None, _) | (Some(b'\r'), None) if data.len() < length => Line::NotCaptured,
        (None, _) => Line::Unfinished,
        _ => Line::NotText,
    }
}

//! Protocols over TCP that begin with text.

use crate::http;
use crate::payload::Payload;
use crate::protocol::Protocol;

/// How far into a first line a word is looked for.
const LINE: usize = 256;

/// Returns the protocol that a segment's text has.
pub(super) fn protocol(payload: &Payload<'_>) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    let starts = |text: &[u8]| data.starts_with(text);
    let found = match data[0] {
        b'H' if http::is_response(data) => P::Http,
        b'S' if starts(b"SSH-") => P::Ssh,
        b'P' if starts(b"PRI * HTTP/2.0\r\n") => P::H2c,
        b'S' if starts(b"SIP/2.0 ") => P::Sip,
        b'R' if starts(b"RTSP/1.0 ") => P::Rtsp,
        b'R' if starts(b"RFB 003.") => P::Vnc,
        b'A' if starts(b"AMQP") => P::Amqp,
        b'G' if starts(b"GIOP") => return None,
        b'@' if starts(b"@RSYNCD: ") => P::Rsync,
        0x13 if starts(b"\x13BitTorrent protocol") => P::BitTorrent,
        b'<' if starts(b"<?xml") || starts(b"<stream:stream") => return xmpp(data),
        b'*' | b'$' | b'+' | b'-' | b'2' => return answer(payload),
        _ => return command(payload),
    };
    Some(found)
}

/// Returns whether a word is in the first line, whatever its case.
fn has_word(data: &[u8], word: &[u8]) -> bool {
    let line = &data[..data.len().min(LINE)];
    line.windows(word.len())
        .take_while(|window| window[0] != b'\n')
        .any(|window| window.eq_ignore_ascii_case(word))
}

fn xmpp(data: &[u8]) -> Option<Protocol> {
    let start = &data[..data.len().min(512)];
    let is_stream = start.windows(14).any(|window| window == b"<stream:stream");
    is_stream.then_some(Protocol::Xmpp)
}

/// Greetings of servers, and RESP.
fn answer(payload: &Payload<'_>) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    let is_port = |ports: &[u16]| ports.iter().any(|port| payload.has_port(*port));
    match data {
        [b'*', b' ', ..] if data.starts_with(b"* OK") || data.starts_with(b"* PREAUTH") => {
            Some(P::Imap)
        }
        [b'*', b'1'..=b'9', ..] => is_resp(data).then_some(P::Redis),
        [b'+' | b'-' | b'$', ..] if is_port(&[6379]) => data.ends_with(b"\r\n").then_some(P::Redis),
        [b'+', ..] if data.starts_with(b"+OK") => {
            (is_port(&[110, 995]) || has_word(data, b"POP3")).then_some(P::Pop3)
        }
        [b'2', b'2', b'0', b' ' | b'-', ..] => greeting(data, &is_port),
        _ => None,
    }
}

/// Returns the protocol of a mail or file server's greeting: all begin with 220.
fn greeting(data: &[u8], is_port: &dyn Fn(&[u16]) -> bool) -> Option<Protocol> {
    if has_word(data, b"SMTP") || is_port(&[25, 587, 465, 2525]) {
        return Some(Protocol::Smtp);
    }
    let is_ftp = has_word(data, b"FTP") || is_port(&[21]);
    is_ftp.then_some(Protocol::Ftp)
}

/// Returns whether the data is an array of RESP, which is what clients of Redis send: `*1\r\n$4\r\nPING\r\n`.
fn is_resp(data: &[u8]) -> bool {
    let digits = data[1..].iter().take_while(|byte| byte.is_ascii_digit());
    let rest = &data[1 + digits.count()..];
    matches!(rest, [b'\r', b'\n', b'$', b'0'..=b'9', ..])
}

/// Commands and requests of clients.
fn command(payload: &Payload<'_>) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    let starts = |text: &[u8]| data.starts_with(text);
    if http::is_request(data) {
        return Some(P::Http);
    }
    if is_request_of(data, b" SIP/2.0") {
        return Some(P::Sip);
    }
    if is_request_of(data, b" RTSP/1.0") {
        return Some(P::Rtsp);
    }
    if starts(b"EHLO ") || starts(b"HELO ") {
        return Some(P::Smtp);
    }
    let is_line = data.ends_with(b"\n");
    if is_line && (starts(b"NICK ") || starts(b"USER ") && has_word(data, b" :")) {
        return Some(P::Irc);
    }
    if is_line && starts(b":") && has_word(data, b" NOTICE ") {
        return Some(P::Irc);
    }
    let is_ftp = payload.has_port(21) && (starts(b"USER ") || starts(b"AUTH "));
    if is_line && is_ftp {
        return Some(P::Ftp);
    }
    let is_pop = payload.has_port(110) && (starts(b"USER ") || starts(b"CAPA") || starts(b"AUTH"));
    if is_line && is_pop {
        return Some(P::Pop3);
    }
    None
}

/// Returns whether the first line ends with this version.
pub(super) fn is_request_of(data: &[u8], version: &[u8]) -> bool {
    let line = &data[..data.len().min(LINE * 2)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    line.ends_with(version) && line.first().is_some_and(u8::is_ascii_uppercase)
}

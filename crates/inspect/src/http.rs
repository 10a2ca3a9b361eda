//! Requests and responses of HTTP/1 (RFC 9112).

use httparse::{EMPTY_HEADER, Header, Status, parse_headers};

/// Headers that are looked at.
const HEADERS: usize = 48;
/// Methods: those of HTTP, of WebDAV, and of some that use its form.
const METHODS: [&[u8]; 27] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PATCH ",
    b"TRACE ",
    b"PROPFIND ",
    b"PROPPATCH ",
    b"MKCOL ",
    b"COPY ",
    b"MOVE ",
    b"LOCK ",
    b"UNLOCK ",
    b"REPORT ",
    b"SEARCH ",
    b"MERGE ",
    b"NOTIFY ",
    b"SUBSCRIBE ",
    b"UNSUBSCRIBE ",
    b"M-SEARCH ",
    b"BPROPFIND ",
    b"POLL ",
    b"BITS_POST ",
    b"CCM_POST ",
];
/// The first request of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
    /// Whether all headers are there.
    pub(crate) is_whole: bool,
}

/// Returns whether a line of a request may begin here.
pub(crate) fn is_method(data: &[u8]) -> bool {
    METHODS.iter().any(|method| data.starts_with(method))
}

/// Returns whether these bytes begin with a request: its first line, or as much of it as there is.
pub(crate) fn is_request(data: &[u8]) -> bool {
    if !is_method(data) {
        return false;
    }
    let line = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => &data[..end],
        None => {
            return data
                .iter()
                .all(|byte| (b' '..0x7f).contains(byte) || *byte == b'\r');
        }
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.len().saturating_sub(9);
    line[version..].starts_with(b" HTTP/1.") || line[version..].starts_with(b" HTTP/0.")
}

/// Returns whether these bytes begin with a response.
pub(crate) fn is_response(data: &[u8]) -> bool {
    data.starts_with(b"HTTP/1.")
}

/// Reads a request, as much of it as is there.
pub(crate) fn request(data: &[u8]) -> Asked<'_> {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
        return first_line(data);
    };
    let mut headers = [EMPTY_HEADER; HEADERS];
    // A line that is no header leaves those before it.
    let is_whole = !matches!(
        parse_headers(&data[end + 1..], &mut headers),
        Ok(Status::Partial)
    );
    Asked {
        is_whole,
        host: value(&headers, "host"),
        agent: value(&headers, "user-agent"),
        ..first_line(data)
    }
}

/// Returns the parts of the first line, which may have bytes that a target must not have.
fn first_line(data: &[u8]) -> Asked<'_> {
    let end = data.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    let line = &data[..end.unwrap_or(data.len())];
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let method = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default().trim_ascii_start();
    let last = rest.iter().rposition(|byte| *byte == b' ');
    let target = match last {
        Some(at) if rest[at..].starts_with(b" HTTP/") => &rest[..at],
        _ => rest,
    };
    Asked {
        method,
        target,
        ..Asked::default()
    }
}

/// The protocol of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    WebSocket,
    H2c,
}

/// Reads the status of a response, and to what it switches.
pub(crate) fn response(data: &[u8]) -> Option<(u16, Option<Upgrade>)> {
    const SWITCHING: u16 = 101;
    let rest = data.get(8..)?;
    let digits: &[u8; 4] = rest.first_chunk()?;
    let mut status = 0;
    for digit in digits[1..].iter().filter(|digit| digit.is_ascii_digit()) {
        status = status * 10 + u16::from(digit - b'0');
    }
    if !(100..1000).contains(&status) || digits[0] != b' ' {
        return None;
    }
    if status != SWITCHING {
        return Some((status, None));
    }
    let mut headers = [EMPTY_HEADER; HEADERS];
    let end = data.iter().position(|byte| *byte == b'\n')?;
    // An error leaves the headers before it.
    let _ = parse_headers(&data[end + 1..], &mut headers);
    let upgrade = match value(&headers, "upgrade") {
        Some(value) if value.eq_ignore_ascii_case(b"websocket") => Some(Upgrade::WebSocket),
        Some(value) if value.eq_ignore_ascii_case(b"h2c") => Some(Upgrade::H2c),
        _ => None,
    };
    Some((status, upgrade))
}

fn value<'a>(headers: &[Header<'a>], name: &str) -> Option<&'a [u8]> {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value)
}

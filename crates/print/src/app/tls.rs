//! TLS (RFC 8446 section 4.1, RFC 5246): the hello that begins a connection, its version, and the
//! server's name.
//!
//! tcpdump prints nothing of TLS, so it is printed only with `-v`. An incomplete message is read as
//! far as it goes.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Sizes of the record header and the message header, in bytes.
const RECORD: usize = 5;
const MESSAGE: usize = 4;
/// The offset of the session identifier in a hello, after version and random bytes.
const SESSION: usize = 34;

/// RFC 6066 section 3.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// RFC 8446 section 4.2.1.
const SUPPORTED_VERSIONS: u16 = 43;
/// The most extensions that are read.
const MAX_EXTENSIONS: usize = 64;

fn version_name(version: u16) -> Option<&'static str> {
    Some(match version {
        0x0300 => "SSL 3.0",
        0x0301 => "TLS 1.0",
        0x0302 => "TLS 1.1",
        0x0303 => "TLS 1.2",
        0x0304 => "TLS 1.3",
        _ => return None,
    })
}

/// Appends the hello in a segment's payload, if it has one.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) {
    let &[HANDSHAKE, 3, _, _, _, kind, ..] = data else {
        return;
    };
    let name = match kind {
        CLIENT_HELLO => "ClientHello",
        SERVER_HELLO => "ServerHello",
        _ => return,
    };
    let mut hello = Hello::default();
    // The fields read before the captured bytes ended count; the version may come after them.
    let whole = hello.read(kind, data.rest(RECORD)).is_ok();
    let version = match version_name(hello.version) {
        Some(version) if whole || hello.listed => version,
        Some(_) => "TLS",
        None => return,
    };
    put!(cx.line, ", {version} {name}");
    if let Some(server) = hello.server {
        cx.line.str(", SNI ");
        cx.line.escaped(server);
    }
}

#[derive(Default)]
struct Hello<'a> {
    version: u16,
    /// Whether the version is from the list in an extension, which overrides the other field.
    listed: bool,
    server: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    fn read(&mut self, kind: u8, message: &'a [u8]) -> Result {
        let size = usize::try_from(message.u24_at(1)?).unwrap_or(usize::MAX);
        let body = message.rest(MESSAGE).up_to(size);
        self.version = body.u16_at(0)?;
        let mut at = SESSION + 1 + usize::from(body.u8_at(SESSION)?);
        if kind == CLIENT_HELLO {
            at += 2 + usize::from(body.u16_at(at)?);
            at += 1 + usize::from(body.u8_at(at)?);
        } else {
            // The cipher suite and the compression.
            at += 3;
        }
        at += 2;
        for _ in 0..MAX_EXTENSIONS {
            if at >= size {
                break;
            }
            let (extension, size) = (body.u16_at(at)?, usize::from(body.u16_at(at + 2)?));
            let value = body.part(at + 4, size)?;
            match extension {
                SERVER_NAME if kind == CLIENT_HELLO => self.server = host(value),
                SUPPORTED_VERSIONS => self.versions(kind, value),
                _ => {}
            }
            at += 4 + size;
        }
        Ok(())
    }

    /// Reads the highest version that the client offers, or the one that the server chose.
    fn versions(&mut self, kind: u8, value: &[u8]) {
        let list = if kind == CLIENT_HELLO {
            value.rest(1)
        } else {
            value
        };
        let known = list
            .chunks_exact(2)
            .filter_map(|pair| pair.u16_at(0).ok())
            .filter(|version| version_name(*version).is_some());
        if let Some(version) = known.max() {
            self.version = version;
            self.listed = true;
        }
    }
}

/// Returns the first name of the list, if it is a host name.
fn host(list: &[u8]) -> Option<&[u8]> {
    let (kind, size) = (list.u8_at(2).ok()?, list.u16_at(3).ok()?);
    let name = list.part(5, usize::from(size)).ok()?;
    (kind == HOST_NAME).then_some(name)
}

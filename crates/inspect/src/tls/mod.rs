//! TLS and DTLS: records (`record`), ClientHello and ServerHello (`hello`), the fingerprint (`ja4`).
//!
//! Crates that parse TLS put cipher suites and extensions into vectors, which would be an allocation for
//! each flow; and they want whole messages. This module reads slices of the packet.

pub(crate) mod dtls;
pub(crate) mod hello;
pub(crate) mod ja4;
pub(crate) mod record;

/// The kind of a handshake message: ClientHello.
pub(crate) const CLIENT_HELLO: u8 = 1;
/// The kind of a handshake message: ServerHello.
pub(crate) const SERVER_HELLO: u8 = 2;

/// Returns whether a number is one that clients send to keep servers tolerant (RFC 8701).
pub(crate) fn is_grease(number: u16) -> bool {
    number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff
}

//! VRRP, version 2 (RFC 3768 section 5.1) and version 3 (RFC 5798 section 5.1).

use crate::bytes::{Bytes, Result};
use crate::checksum;
use crate::context::{Context, Network};
use crate::ip::VRRP;
use crate::line::{Address, end, name_in, put};

/// The hop limit of every valid packet.
const HOP_LIMIT: u8 = 255;
const ADVERTISEMENT: u8 = 1;
const SIMPLE_AUTHENTICATION: u8 = 1;
/// The bits of version 3 for the interval, in hundredths of a second.
const INTERVAL: u16 = 0x0fff;
const HEADER: usize = 8;
/// The size of the password that may follow the addresses of version 2, in bytes.
const PASSWORD: usize = 8;

const AUTHENTICATIONS: [(u8, &str); 3] = [(0, "none"), (1, "simple"), (2, "ah")];

/// Prints a packet of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("vrrp");
    cx.line.str("VRRP");
    let (version, kind) = (data.u8_at(0)? >> 4, data.u8_at(0)? & 15);
    put!(cx.line, "v{version}, ");
    if kind == ADVERTISEMENT {
        cx.line.str("Advertisement");
    } else {
        put!(cx.line, "unknown type ({kind})");
    }
    if net.hop_limit != HOP_LIMIT {
        put!(cx.line, ", (ttl {})", net.hop_limit);
    }
    if kind != ADVERTISEMENT || !matches!(version, 2 | 3) {
        return Ok(());
    }
    let (router, priority) = (data.u8_at(1)?, data.u8_at(2)?);
    put!(cx.line, ", vrid {router}, prio {priority}");
    let mut simple = false;
    if version == 2 {
        let authentication = data.u8_at(4)?;
        simple = authentication == SIMPLE_AUTHENTICATION;
        cx.line.str(", authtype ");
        let name = name_in(&AUTHENTICATIONS, authentication);
        cx.line.name(name, format_args!("#{authentication}"));
        put!(cx.line, ", intvl {}s, length {length}", data.u8_at(5)?);
    } else {
        let interval = data.u16_at(4)? & INTERVAL;
        put!(cx.line, ", intvl {interval}cs, length {length}");
    }
    if cx.verbose() {
        if let Ok(packet) = data.part(0, length) {
            checked(cx, net, version, packet)?;
        }
        addresses(cx, net, data)?;
    }
    if cx.verbose() && simple {
        password(cx, data)?;
    }
    Ok(())
}

/// Prints the checksum if it is wrong. That of version 3 covers a pseudo header (RFC 5798 section
/// 5.2.8).
fn checked(cx: &mut Context<'_>, net: &Network, version: u8, packet: &[u8]) -> Result {
    let sum = if version == 3 {
        checksum::with_pseudo_header(net, VRRP, packet)
    } else {
        checksum::plain(packet)
    };
    if sum.checksum() != 0 {
        put!(cx.line, ", (bad vrrp cksum {:x})", packet.u16_at(6)?);
    }
    Ok(())
}

fn addresses(cx: &mut Context<'_>, net: &Network, data: &[u8]) -> Result {
    let count = data.u8_at(3)?;
    cx.line.str(", addrs");
    if count != 1 {
        put!(cx.line, "({count})");
    }
    cx.line.str(":");
    for index in 0..usize::from(count) {
        let address = match net.source {
            Address::V4(_) => Address::V4(data.array_at(HEADER + 4 * index)?),
            Address::V6(_) => Address::V6(data.array_at(HEADER + 16 * index)?),
        };
        cx.line.str(if index == 0 { " " } else { "," });
        cx.line.address(address);
    }
    Ok(())
}

/// Prints the password of simple authentication, up to its first byte of 0.
fn password(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let at = HEADER + 4 * usize::from(data.u8_at(3)?);
    let field = data.part(at, PASSWORD)?;
    cx.line.str(" auth \"");
    cx.line.escaped_string(field);
    end!(cx.line, "\"")
}

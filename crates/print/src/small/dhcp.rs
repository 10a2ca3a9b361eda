//! BOOTP and DHCP (RFC 951, RFC 2131): operation and client.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, Flags, put};

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;
const CLIENT_HARDWARE: usize = 28;
const BROADCAST: u16 = 0x8000;

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("bootp");
    let operation = data.u8_at(0)?;
    let (hardware, size) = (data.u8_at(1)?, data.u8_at(2)?);
    cx.line.str("BOOTP/DHCP, ");
    match operation {
        REQUEST => cx.line.str("Request"),
        REPLY => cx.line.str("Reply"),
        other => put!(cx.line, "unknown (0x{other:02x})"),
    }
    if hardware == ETHERNET && size == 6 && operation == REQUEST {
        cx.line.str(" from ");
        cx.line.link_address(data.part(CLIENT_HARDWARE, 6)?);
    }
    put!(cx.line, ", length {length}");
    if cx.verbose() {
        details(cx, data)?;
    }
    Ok(())
}

fn details(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let (hops, xid, secs, flags) = (
        data.u8_at(3)?,
        data.u32_at(4)?,
        data.u16_at(8)?,
        data.u16_at(10)?,
    );
    if hops != 0 {
        put!(cx.line, ", hops {hops}");
    }
    if xid != 0 {
        put!(cx.line, ", xid 0x{xid:x}");
    }
    if secs != 0 {
        put!(cx.line, ", secs {secs}");
    }
    let names = [(u32::from(BROADCAST), "Broadcast")];
    put!(cx.line, ", Flags [{}]", Flags(u32::from(flags), &names));
    for (name, at) in [
        ("Client-IP", 12),
        ("Your-IP", 16),
        ("Server-IP", 20),
        ("Gateway-IP", 24),
    ] {
        let address: [u8; 4] = data.array_at(at)?;
        if address != [0; 4] {
            put!(cx.line, "\n\t  {name} {}", Address::V4(address));
        }
    }
    if data.u8_at(1)? == ETHERNET && data.u8_at(2)? == 6 {
        cx.line.str("\n\t  Client-Ethernet-Address ");
        cx.line.link_address(data.part(CLIENT_HARDWARE, 6)?);
    }
    Ok(())
}

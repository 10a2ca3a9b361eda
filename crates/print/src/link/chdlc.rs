//! Cisco HDLC (RFC 4349 section 4.1 has its framing), and SLARP, with which two ends check that the
//! link is alive.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, put};
use crate::routing::osi;

const HEADER: usize = 4;
pub(super) const UNICAST: u8 = 0x0f;
pub(super) const BROADCAST: u8 = 0x8f;
const SLARP: u16 = 0x8035;

/// Prints a frame that had `length` bytes on the wire.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("chdlc");
    data.part(0, HEADER)?;
    cx.header += HEADER;
    let kind = data.u16_at(2)?;
    if cx.options.link_header {
        match data.u8_at(0)? {
            UNICAST => cx.line.str("unicast"),
            BROADCAST => cx.line.str("bcast"),
            address => put!(cx.line, "0x{address:02x}"),
        }
        let name = super::ether_type_name(kind);
        put!(cx.line, ", ethertype {name} (0x{kind:04x})");
        put!(cx.line, ", length {length}: ");
    }
    let (packet, rest) = (data.rest(HEADER), length.saturating_sub(HEADER));
    match kind {
        super::IPV4 | super::IPV6 | super::MPLS | super::MPLS_MULTICAST => {
            super::network(cx, kind, packet, rest).map(|_| ())
        }
        SLARP => slarp(cx, packet, rest),
        super::OSI => {
            // A control field may come before the packet.
            let second = packet.u8_at(1)?;
            let control = usize::from(matches!(second, osi::CLNP | osi::ES_IS | osi::IS_IS));
            osi::print(cx, packet.rest(control), rest - control)
        }
        _ => {
            if !cx.options.link_header {
                put!(cx.line, "unknown CHDLC protocol (0x{kind:04x})");
            }
            Ok(())
        }
    }
}

const REQUEST: u32 = 0;
const REPLY: u32 = 1;
const KEEPALIVE: u32 = 2;

fn slarp(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    const MINIMUM: usize = 14;
    /// The size with the sender's uptime, in milliseconds.
    const WITH_TIME: usize = 18;
    put!(cx.line, "SLARP (length: {length}), ");
    cx.enter("chdlc_slarp");
    data.part(0, MINIMUM)?;
    match data.u32_at(0)? {
        REQUEST => cx.line.str("request"),
        REPLY => {
            let [address, mask] = [data.array_at(4)?, data.array_at(8)?].map(Address::V4);
            put!(cx.line, "reply {address}/{mask}");
        }
        KEEPALIVE => {
            put!(
                cx.line,
                "keepalive: mineseen=0x{:08x}, yourseen=0x{:08x}, reliability=0x{:04x}",
                data.u32_at(4)?,
                data.u32_at(8)?,
                data.u16_at(12)?
            );
            if length >= WITH_TIME {
                let seconds = data.u32_at(MINIMUM)? / 1000;
                let (minutes, hours) = (seconds / 60, seconds / 3600);
                put!(
                    cx.line,
                    ", link uptime={}d{}h{}m{}s",
                    hours / 24,
                    hours % 24,
                    minutes % 60,
                    seconds % 60
                );
            }
        }
        other => put!(cx.line, "0x{other:02x} unknown"),
    }
    Ok(())
}

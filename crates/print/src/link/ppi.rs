//! Per-Packet Information: a header whose fields are skipped, then a packet of another link type.

use ringtap_packet::{LinkType, Packet};

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::ip::nested;
use crate::line::put;

/// Prints header and packet.
pub(super) fn print(
    cx: &mut Context<'_>,
    packet: &Packet<'_>,
    length: usize,
    interface: Option<&str>,
) -> Result {
    cx.enter("ppi");
    let data = packet.data;
    let size = usize::from(data.u16_at(2)?.swap_bytes());
    let link_type = data.u32_at(4)?.swap_bytes();
    data.part(0, size)?;
    if cx.options.link_header {
        let name = LinkType(u16::try_from(link_type).unwrap_or(u16::MAX));
        put!(cx.line, "DLT {name} ({link_type}) len {length}: ");
    }
    cx.header += size;
    let inner = Packet {
        data: data.rest(size),
        len: u32::try_from(length - size).unwrap_or(u32::MAX),
        ..*packet
    };
    let Ok(link_type) = u16::try_from(link_type) else {
        return Ok(());
    };
    let header = cx.header;
    let result = nested(cx, |cx| {
        super::dispatch(cx, &inner, LinkType(link_type), interface)
    });
    if result.is_err() {
        cx.header = header;
    }
    result
}

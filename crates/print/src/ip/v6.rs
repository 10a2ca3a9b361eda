//! IPv6 (RFC 8200).

use crate::bytes::{Bytes, Result};
use crate::context::{Context, Network};
use crate::line::{Address, end, put};

pub(crate) const HEADER: usize = 40;

/// Prints a packet with its name, unless the layer below has been printed.
pub(crate) fn announced(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    if !cx.options.link_header {
        cx.line.str("IP6 ");
    }
    print(cx, data, length)
}

/// Prints a packet for which the layer below states `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ip6");
    if length < HEADER {
        return end!(cx.line, "truncated-ip6 {length}");
    }
    let first = data.u32_at(0)?;
    if first >> 28 != 6 {
        return end!(cx.line, "version error: {} != 6", first >> 28);
    }
    let stated = usize::from(data.u16_at(4)?);
    let (next, hop_limit) = (data.u8_at(6)?, data.u8_at(7)?);
    let jumbo = stated == 0 && next == super::HOP_BY_HOP;
    let payload_length = if jumbo { length - HEADER } else { stated };
    if !jumbo && length < HEADER + stated {
        let missing = HEADER + stated - length;
        put!(cx.line, "truncated-ip6 - {missing} bytes missing!");
    }
    let source = data.array_at(8)?;
    let destination = data.array_at(24)?;
    if cx.verbose() {
        header_line(cx, first, next, hop_limit, stated);
    }
    let mut net = Network {
        hop_limit,
        source: Address::V6(source),
        destination: Address::V6(destination),
        shown_destination: Address::V6(destination),
        fragmented: false,
        endpoints: matches!(next, super::TCP | super::UDP | super::SCTP | super::DCCP),
    };
    if !net.endpoints {
        net.addresses(cx.line);
    }
    let data = if jumbo {
        data
    } else {
        data.up_to(HEADER + stated)
    };
    super::payload(cx, &mut net, next, data.rest(HEADER), payload_length)
}

fn header_line(cx: &mut Context<'_>, first: u32, next: u8, hop_limit: u8, stated: usize) {
    cx.line.str("(");
    let (class, label) = (first >> 20 & 0xff, first & 0xf_ffff);
    if class != 0 {
        put!(cx.line, "class 0x{class:02x}, ");
    }
    if label != 0 {
        put!(cx.line, "flowlabel 0x{label:05x}, ");
    }
    let name = super::name(next);
    put!(cx.line, "hlim {hop_limit}, next-header {name} ({next})");
    put!(cx.line, " payload length: {stated}) ");
}

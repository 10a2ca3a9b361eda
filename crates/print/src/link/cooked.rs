//! Linux cooked captures, versions 1 and 2 (LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2).

use ringtap_packet::PacketFlags;

use super::{ether_type_known, llc};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const HEADER: usize = 16;
const HEADER_2: usize = 20;

/// Protocol numbers below the EtherTypes, which the kernel uses for frames without one.
const NOVELL: u16 = 1;
const LLC: u16 = 4;

const MAX_LENGTH: u16 = super::ethernet::MAX_LENGTH;

/// The fields that both versions have.
struct Fields<'a> {
    direction: u16,
    /// The index of the interface, in version 2.
    index: Option<u32>,
    address: &'a [u8],
    protocol: u16,
}

/// Prints a packet with a header of version 1.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("sll");
    cx.header += HEADER.min(data.len());
    data.part(0, HEADER)?;
    let fields = Fields {
        direction: data.u16_at(0)?,
        index: None,
        address: data.part(6, 8)?.up_to(usize::from(data.u16_at(4)?)),
        protocol: data.u16_at(14)?,
    };
    if cx.options.link_header {
        link_header(cx, &fields, length);
    }
    payload(cx, &fields, data.rest(HEADER), HEADER, length)
}

/// Prints a packet with a header of version 2.
pub(super) fn print_v2(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
    interface: Option<&str>,
) -> Result {
    cx.enter("sll2");
    cx.header += HEADER_2.min(data.len());
    data.part(0, HEADER_2)?;
    let index = data.u32_at(4)?;
    let fields = Fields {
        direction: u16::from(data.u8_at(10)?),
        index: Some(index),
        address: data.part(12, 8)?.up_to(usize::from(data.u8_at(11)?)),
        protocol: data.u16_at(0)?,
    };
    if !cx.is_named {
        match interface {
            // "any" is the name of the capture, not of the packet's interface.
            Some(name) if name != "any" => interface_name(cx, name),
            _ => {
                let known = cx.interfaces.get(&index);
                interface_name(cx, known.map_or("?", String::as_str));
            }
        }
        put!(cx.line, "{:<3} ", direction(fields.direction));
    }
    if cx.options.link_header {
        link_header(cx, &fields, length);
    }
    payload(cx, &fields, data.rest(HEADER_2), HEADER_2, length)
}

/// Prints the interface and direction of a packet whose header has neither.
pub(crate) fn captured_on(cx: &mut Context<'_>, name: &str, flags: PacketFlags) {
    interface_name(cx, name);
    let direction = match flags.0 & 3 {
        1 => "In",
        2 => "Out",
        _ => "?",
    };
    put!(cx.line, "{direction:<3} ");
}

/// Prints the name in at least five columns, so that the lines of several interfaces are aligned.
fn interface_name(cx: &mut Context<'_>, name: &str) {
    let begin = cx.line.len();
    cx.line.escaped(name.as_bytes());
    for _ in cx.line.len() - begin..5 {
        cx.line.str(" ");
    }
    cx.line.str(" ");
}

fn link_header(cx: &mut Context<'_>, fields: &Fields<'_>, length: usize) {
    match fields.index {
        Some(index) => put!(cx.line, "ifindex {index} "),
        None => put!(cx.line, "{:>3} ", direction(fields.direction)),
    }
    if !fields.address.is_empty() {
        cx.line.link_address(fields.address);
        cx.line.str(" ");
    }
    protocol(cx, fields);
    put!(cx.line, ", length {length}: ");
}

fn direction(kind: u16) -> &'static str {
    match kind {
        0 => "In",
        1 => "B",
        2 => "M",
        3 => "P",
        4 => "Out",
        _ => "?",
    }
}

fn protocol(cx: &mut Context<'_>, fields: &Fields<'_>) {
    let number = fields.protocol;
    let name = match number {
        NOVELL => Some("802.3"),
        LLC => Some("802.2"),
        _ => ether_type_known(number),
    };
    if number <= MAX_LENGTH {
        put!(cx.line, "{}", name.unwrap_or("802.3"));
    } else if cx.options.quiet {
        match name {
            Some(name) => cx.line.str(name),
            None => put!(cx.line, "Unknown Ethertype (0x{number:04x})"),
        }
    } else {
        let name = name.unwrap_or("Unknown");
        put!(cx.line, "ethertype {name} (0x{number:04x})");
    }
}

fn payload(
    cx: &mut Context<'_>,
    fields: &Fields<'_>,
    mut data: &[u8],
    header: usize,
    whole: usize,
) -> Result {
    let mut length = whole.saturating_sub(header);
    if fields.protocol == LLC {
        return llc::print(cx, data, length, None);
    }
    let mut kind = fields.protocol;
    for _ in 0..8 {
        if kind != super::VLAN && kind != super::QINQ {
            break;
        }
        cx.enter("vlan");
        let tag = data.u16_at(0)?;
        kind = data.u16_at(2)?;
        data = data.rest(4);
        length = length.saturating_sub(4);
        cx.header += 4;
        if cx.options.link_header {
            let dei = if tag & 0x1000 != 0 { ", DEI" } else { "" };
            put!(cx.line, "vlan {}, p {}{dei}, ", tag & 0xfff, tag >> 13);
        }
        put!(cx.line, "ethertype {}, ", super::ether_type_name(kind));
    }
    if kind > MAX_LENGTH && super::network(cx, kind, data, length)? {
        return Ok(());
    }
    if !cx.options.link_header {
        let shown = Fields {
            protocol: kind,
            ..*fields
        };
        link_header(cx, &shown, whole);
    }
    Ok(())
}

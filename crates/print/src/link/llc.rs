//! IEEE 802.2 logical link control: SNAP, spanning tree, and the short form of the rest.

use super::{ether_type_known, ethernet};
use crate::access::{cdp, cisco};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{name_in, put};
use crate::routing::osi;
use crate::small::stp;

const SNAP: u8 = 0xaa;
const SPANNING_TREE: u8 = 0x42;
const IP: u8 = 0x06;
const OSI: u8 = 0xfe;
const UNNUMBERED_INFORMATION: u8 = 0x03;
const OUI_ETHERNET: u32 = 0;
const OUI_CISCO: u32 = 0x0c;
const OUI_CISCO_BRIDGE: u32 = 0xf8;
/// RFC 2427.
const OUI_BRIDGED: u32 = 0x80c2;
/// Bytes between the protocol number and a bridged frame.
const PAD: usize = 2;
const OUI_APPLETALK: u32 = 0x08_0007;
/// The bit of an unnumbered control field that marks a poll or its answer.
const POLL: u16 = 0x10;
const XID: u16 = 0xaf;
/// The format of exchanged identifications that IEEE 802.2 defines.
const XID_FORMAT: u8 = 0x81;

fn sap_name(sap: u8) -> &'static str {
    match sap {
        0x00 => "Null",
        0x02 => "802.1B I",
        0x03 => "802.1B G",
        0x04 => "SNA",
        IP => "IP",
        0x0e => "ProWay NM",
        SPANNING_TREE => "STP",
        0x4e => "RS511",
        0x7e => "ISO8208",
        0x8e => "ProWay",
        SNAP => "SNAP",
        0xe0 => "IPX",
        0xf0 => "NetBeui",
        OSI => "OSI",
        0xff => "Global",
        _ => "Unknown",
    }
}

/// Prints a frame of `length` bytes; `frame` begins with the addresses of an Ethernet frame.
pub(crate) fn print(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
    frame: Option<&[u8]>,
) -> Result {
    cx.enter("llc");
    let Some(field) = Control::of(data) else {
        cut_short(cx);
        return Ok(());
    };
    let size = if field.unnumbered { 3 } else { 4 };
    cx.header += size;
    if cx.options.link_header {
        field.print(cx);
    }
    let (payload, rest) = (data.rest(size), length.saturating_sub(size));
    if field.unnumbered && field.control == u16::from(UNNUMBERED_INFORMATION) {
        match (field.dsap & 0xfe, field.ssap & 0xfe) {
            (SNAP, SNAP) => return snap(cx, data, length, frame),
            (SPANNING_TREE, SPANNING_TREE) => return stp::print(cx, payload, rest),
            (OSI, OSI) => return osi::print(cx, payload, rest),
            (IP, IP) => return super::network(cx, super::IPV4, payload, rest).map(|_| ()),
            _ => {}
        }
    }
    generic(cx, data, frame, field, length)
}

#[derive(Clone, Copy)]
struct Control {
    dsap: u8,
    ssap: u8,
    control: u16,
    unnumbered: bool,
}

impl Control {
    /// Reads the header at the start of `data`; `None` if it was not captured completely.
    fn of(data: &[u8]) -> Option<Self> {
        let first = data.u8_at(2).ok()?;
        let unnumbered = first & 3 == 3;
        let control = if unnumbered {
            u16::from(first)
        } else {
            data.u16_at(2).ok()?.swap_bytes()
        };
        Some(Self {
            dsap: data.u8_at(0).ok()?,
            ssap: data.u8_at(1).ok()?,
            control,
            unnumbered,
        })
    }

    /// Prints the header as `-e` shows it.
    fn print(self, cx: &mut Context<'_>) {
        let Self { dsap, ssap, .. } = self;
        put!(
            cx.line,
            "LLC, dsap {} (0x{:02x}) {}, ssap {} (0x{:02x}) {}, ctrl 0x{:0width$x}: ",
            sap_name(dsap & 0xfe),
            dsap & 0xfe,
            if dsap & 1 == 1 { "Group" } else { "Individual" },
            sap_name(ssap & 0xfe),
            ssap & 0xfe,
            if ssap & 1 == 1 { "Response" } else { "Command" },
            self.control,
            width = if self.unnumbered { 2 } else { 4 }
        );
    }
}

/// Prints addresses and access points; only the name if both points are equal.
fn access_points(cx: &mut Context<'_>, frame: Option<&[u8]>, dsap: u8, ssap: u8) -> Result {
    if dsap == ssap {
        if let Some(frame) = frame {
            ethernet::addresses(cx, frame)?;
            cx.line.str(" ");
        }
    } else {
        if let Some(frame) = frame {
            cx.line.link_address(frame.part(6, 6)?);
            cx.line.str(" ");
        }
        access_point(cx, "SSAP", ssap);
        cx.line.str("> ");
        if let Some(frame) = frame {
            cx.line.link_address(frame.part(0, 6)?);
            cx.line.str(" ");
        }
    }
    access_point(cx, "DSAP", dsap);
    Ok(())
}

fn access_point(cx: &mut Context<'_>, role: &str, sap: u8) {
    match sap_name(sap) {
        "Unknown" => put!(cx.line, "Unknown {role} 0x{sap:02x} "),
        name => put!(cx.line, "{name} "),
    }
}

fn generic(
    cx: &mut Context<'_>,
    data: &[u8],
    frame: Option<&[u8]>,
    field: Control,
    length: usize,
) -> Result {
    let Control {
        dsap,
        ssap,
        control,
        unnumbered,
    } = field;
    if !cx.options.link_header {
        access_points(cx, frame, dsap & 0xfe, ssap & 0xfe)?;
    }
    let response = ssap & 1 == 1;
    let poll = if unnumbered {
        cx.line.str("Unnumbered, ");
        let kind = control & !POLL;
        cx.line
            .name(name_in(&UNNUMBERED, kind), format_args!("{kind:02x}"));
        control & POLL != 0
    } else {
        let (sent, received) = (control >> 1 & 0x7f, control >> 9);
        match control & 3 {
            1 => {
                let kind = ["Receiver Ready", "Receiver not Ready", "Reject", "unknown"]
                    [usize::from(control >> 2 & 3)];
                put!(cx.line, "Supervisory, {kind}, rcv seq {received}");
            }
            _ => put!(cx.line, "Information, send seq {sent}, rcv seq {received}"),
        }
        control & 0x100 != 0
    };
    cx.line.str(", Flags [");
    cx.line.str(match (response, poll) {
        (false, false) => "Command",
        (false, true) => "Poll",
        (true, false) => "Response",
        (true, true) => "Final",
    });
    put!(cx.line, "], length {length}");
    if unnumbered && control & !POLL == XID {
        identification(cx, data, length);
    }
    Ok(())
}

const UNNUMBERED: [(u16, &str); 8] = [
    (0x03, "ui"),
    (0x0f, "dm"),
    (0x43, "disc"),
    (0x63, "ua"),
    (0x6f, "sabme"),
    (0x87, "frmr"),
    (XID, "xid"),
    (0xe3, "test"),
];

/// Prints an exchange of identifications: the classes and the window of IEEE 802.2, or nothing.
fn identification(cx: &mut Context<'_>, data: &[u8], length: usize) {
    if length <= 3 {
        return;
    }
    match data.get(3..) {
        Some(&[XID_FORMAT, classes, window, ..]) => {
            put!(cx.line, ": {classes:02x} {window:02x}");
        }
        Some(&[XID_FORMAT, ..] | &[]) | None => {
            cut_short(cx);
        }
        Some(_) => {}
    }
}

/// Writes the note that a header was not captured completely.
fn cut_short(cx: &mut Context<'_>) {
    cx.line.str(" ");
    cx.line.truncated("llc");
}

fn oui_name(oui: u32) -> &'static str {
    match oui {
        OUI_ETHERNET => "Ethernet",
        OUI_CISCO => "Cisco",
        OUI_CISCO_BRIDGE => "Cisco bridged",
        OUI_BRIDGED => "Ethernet bridged",
        OUI_APPLETALK => "Appletalk",
        0x5e => "IANA",
        0x81 => "Nortel Networks SONMP",
        0x049f => "Freescale",
        0x04ea => "HP-Labs",
        0x00_1018 => "Broadcom",
        0x00_12bb => "ANSI/TIA",
        0x00_120f => "IEEE 802.3 Private",
        0x00_15ad => "Netronome",
        0x00_1b21 => "DCBX",
        0x00_2320 => "Nicira Networks",
        0x00_2481 => "HP",
        0x00_9069 => "Juniper",
        0x00_a03e => "ATM Forum",
        0x00_e004 => "PMC-Sierra",
        0x00_e02f => "DOCSIS Spanning Tree",
        _ => "Unknown",
    }
}

/// Prints the SNAP header (RFC 1042): an organisation and its protocol number.
pub(super) fn snap(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
    frame: Option<&[u8]>,
) -> Result {
    cx.enter("snap");
    let (oui, protocol) = (data.u24_at(3)?, data.u16_at(6)?);
    cx.header += 5;
    let (payload, rest) = (data.rest(8), length.saturating_sub(8));
    let name = match oui {
        OUI_ETHERNET | OUI_CISCO_BRIDGE | OUI_APPLETALK => ether_type_known(protocol),
        _ => None,
    };
    let name = name.unwrap_or("Unknown");
    if cx.options.link_header {
        put!(cx.line, "oui {} (0x{oui:06x}), ", oui_name(oui));
        snap_header(cx, oui, name, protocol, rest);
    }
    if matches!(oui, OUI_ETHERNET | OUI_CISCO_BRIDGE)
        && super::network(cx, protocol, payload, rest)?
    {
        return Ok(());
    }
    match (oui, protocol) {
        (OUI_CISCO, 0x010b | 0x010c) | (OUI_BRIDGED, 0x000e) => {
            return stp::print(cx, payload, rest);
        }
        (OUI_CISCO, 0x0111) => return cisco::udld(cx, payload, rest),
        (OUI_CISCO, 0x2000) => return cdp::print(cx, payload, rest),
        (OUI_CISCO, 0x2003) => return cisco::vtp(cx, payload, rest),
        (OUI_CISCO, 0x2004) => return cisco::dtp(cx, payload, rest),
        // RFC 2427 section 4.3: an Ethernet frame, with its checksum or without.
        (OUI_BRIDGED, 0x0001 | 0x0007) => {
            let (frame, length) = (payload.rest(PAD), rest.saturating_sub(PAD));
            return super::nested_ethernet(cx, frame, length);
        }
        _ => {}
    }
    if !cx.options.link_header {
        if let Some(frame) = frame {
            ethernet::addresses(cx, frame)?;
            cx.line.str(" SNAP, ");
        }
        if oui != OUI_ETHERNET {
            put!(cx.line, "oui {} (0x{oui:06x}), ", oui_name(oui));
        }
        snap_header(cx, oui, name, protocol, rest);
    }
    Ok(())
}

fn snap_header(cx: &mut Context<'_>, oui: u32, name: &str, protocol: u16, length: usize) {
    let kind = if oui == OUI_ETHERNET {
        "ethertype"
    } else {
        "pid"
    };
    put!(cx.line, "{kind} {name} (0x{protocol:04x})");
    put!(cx.line, ", length {length}: ");
}

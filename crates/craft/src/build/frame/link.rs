//! Ethernet, VLAN tags, MPLS, ARP.

use ringtap_packet::ether_type;

use super::super::Result;
use super::super::field::{Fields, number};
use super::{LayerContext, join};

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DESTINATION: [u8; 6] = [0xff; 6];

pub(super) fn ethernet(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let source = fields.mac("src", SOURCE)?;
    let destination = fields.mac("dst", DESTINATION)?;
    let kind = fields.u16("type", place.ethertype())?.to_be_bytes();
    Ok([&destination, &source, &kind[..], &place.payload].concat())
}

/// Builds a VLAN tag; the layer before it writes the type in front of it (IEEE 802.1Q).
pub(super) fn vlan(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let id = fields.number("id", 0xfff)?.unwrap_or(1);
    let pcp = fields.number("pcp", 7)?.unwrap_or(0);
    let drop_eligible = u32::from(fields.flag("dei")?);
    let kind = fields.u16("type", place.ethertype())?;
    let word = pcp << 29 | drop_eligible << 28 | id << 16 | u32::from(kind);
    Ok(join(&word.to_be_bytes(), &place.payload))
}

/// Builds a label of RFC 3032, section 2.1: label, traffic class, bottom of stack, time to live.
pub(super) fn mpls(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let label = fields.number("label", 0xf_ffff)?.unwrap_or(16);
    let class = fields.number("tc", 7)?.unwrap_or(0);
    let ttl = fields.u8("ttl", 64)?;
    let bottom = u32::from(place.next() != "mpls");
    let word = label << 12 | class << 9 | bottom << 8 | u32::from(ttl);
    Ok(join(&word.to_be_bytes(), &place.payload))
}

pub(super) fn arp(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let operation = |text: &str| match text {
        "request" => Some(1),
        "reply" => Some(2),
        text => number(text).and_then(|number| u16::try_from(number).ok()),
    };
    let operation = fields.value("op", "request, reply or a number", operation)?;
    let operation: u16 = operation.unwrap_or(1);
    let sender = (fields.mac("sha", SOURCE)?, fields.ipv4("spa", [0; 4])?);
    let target = (fields.mac("tha", [0; 6])?, fields.ipv4("tpa", [0; 4])?);
    // Ethernet and IPv4, whose addresses have 6 and 4 bytes (RFC 826).
    let mut message = vec![0, 1];
    message.extend(ether_type::IPV4.to_be_bytes());
    message.extend([6, 4]);
    message.extend(operation.to_be_bytes());
    for (mac, ip) in [sender, target] {
        message.extend(mac);
        message.extend(ip);
    }
    Ok(join(&message, &place.payload))
}

//! TCP, UDP, ICMP, SCTP, and the tunnels VXLAN and GRE.

use ringtap_packet::checksum::{self, crc32c};
use ringtap_packet::{ether_type, protocol};

use super::super::Result;
use super::super::field::Fields;
use super::network::header_words;
use super::{Addresses, LayerContext, join};

pub(super) fn tcp(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let ports = [fields.u16("sport", 49_152)?, fields.u16("dport", 80)?];
    let sequence = fields.u32("seq", 0)?;
    let window = fields.u16("window", 65_535)?;
    let acknowledgement = fields.u32("ack", 0)?;
    let urgent = fields.u16("urgent", 0)?;
    let text = fields.text("flags").unwrap_or("S");
    let mut flags = 0;
    for flag in text.chars() {
        let Some(bit) = "FSRPAUEC".find(flag) else {
            return Err(fields.wrong("flags", text, "letters of FSRPAUEC"));
        };
        flags |= 1 << bit;
    }
    let mut options = fields.hex("options")?;
    options.resize(options.len().next_multiple_of(4), 0);
    let too_many = || place.misplaced("options have at most 40 bytes");
    let words = header_words(options.len()).ok_or_else(too_many)?;
    let mut segment = ports.map(u16::to_be_bytes).concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledgement.to_be_bytes());
    segment.extend([words << 4, flags]);
    segment.extend([window, 0, urgent].map(u16::to_be_bytes).concat());
    segment.extend(options);
    segment.extend(&place.payload);
    let sum = place.addresses()?.sum(protocol::TCP, &segment);
    segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    Ok(segment)
}

pub(super) fn udp(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let port = if place.next() == "vxlan" {
        protocol::VXLAN_PORT
    } else {
        9
    };
    let ports = [fields.u16("sport", 49_152)?, fields.u16("dport", port)?];
    let header = [ports[0], ports[1], place.length(8)?, 0];
    let mut datagram = join(&header.map(u16::to_be_bytes).concat(), &place.payload);
    let sum = place.addresses()?.sum(protocol::UDP, &datagram);
    let checksum = fields.u16("checksum", sum.udp_checksum())?;
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    Ok(datagram)
}

/// Builds echo requests by default (RFC 792, RFC 4443).
pub(super) fn icmp(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let is_v6 = place.layer.name == "icmpv6";
    let mut header = vec![
        fields.u8("type", if is_v6 { 128 } else { 8 })?,
        fields.u8("code", 0)?,
        0,
        0,
    ];
    header.extend(fields.u16("id", 0)?.to_be_bytes());
    header.extend(fields.u16("seq", 0)?.to_be_bytes());
    let mut message = join(&header, &place.payload);
    let checksum = if is_v6 {
        let addresses @ Addresses::V6(..) = place.addresses()? else {
            return Err(place.misplaced("it must follow ipv6"));
        };
        addresses.sum(protocol::ICMPV6, &message).checksum()
    } else {
        checksum::of(&message)
    };
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(message)
}

/// Builds the common header (RFC 9260, section 3.1); chunks are the bytes after.
pub(super) fn sctp(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let mut packet = Vec::with_capacity(12 + place.payload.len());
    packet.extend(fields.u16("sport", 49_152)?.to_be_bytes());
    packet.extend(fields.u16("dport", 9)?.to_be_bytes());
    packet.extend(fields.u32("tag", 0)?.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(&place.payload);
    let checksum = crc32c::of(packet.iter().copied());
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    Ok(packet)
}

/// Builds a VXLAN header (RFC 7348, section 5).
pub(super) fn vxlan(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let vni = fields.number("vni", 0xff_ffff)?.unwrap_or(1);
    let [_, high, middle, low] = vni.to_be_bytes();
    let header = [8, 0, 0, 0, high, middle, low, 0];
    Ok(join(&header, &place.payload))
}

/// Builds a GRE header (RFC 2784), with key and sequence number of RFC 2890.
pub(super) fn gre(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let protocol = match place.next() {
        // Transparent Ethernet bridging.
        "eth" => ether_type::BRIDGED,
        _ => place.ethertype(),
    };
    let key = fields.number("key", u32::MAX)?;
    let sequence = fields.number("seq", u32::MAX)?;
    let flags = u8::from(key.is_some()) << 5 | u8::from(sequence.is_some()) << 4;
    let mut header = vec![flags, 0];
    header.extend(fields.u16("proto", protocol)?.to_be_bytes());
    for word in [key, sequence].into_iter().flatten() {
        header.extend(word.to_be_bytes());
    }
    Ok(join(&header, &place.payload))
}

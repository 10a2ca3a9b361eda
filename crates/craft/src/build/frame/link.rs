//! Ethernet, VLAN tags, MPLS, ARP.

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacket, EtherType, Ethernet2Header, SingleVlanHeader,
    VlanId, VlanPcp,
};

use super::super::BuildError;
use super::super::field::{Fields, number};
use super::{Place, join};

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DESTINATION: [u8; 6] = [0xff; 6];

pub(super) fn ethernet(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let header = Ethernet2Header {
        source: fields.mac("src", SOURCE)?,
        destination: fields.mac("dst", DESTINATION)?,
        ether_type: EtherType(fields.u16("type", place.ethertype())?),
    };
    Ok(join(&header.to_bytes(), &place.payload))
}

/// A tag: the type in front of it is written by the layer before (IEEE 802.1Q).
pub(super) fn vlan(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let id = fields.number("id", 0xfff)?.unwrap_or(1);
    let pcp = fields.number("pcp", 7)?.unwrap_or(0);
    let header = SingleVlanHeader {
        pcp: VlanPcp::try_new(pcp.to_le_bytes()[0]).unwrap_or_default(),
        drop_eligible_indicator: fields.flag("dei")?,
        vlan_id: VlanId::try_new(u16::try_from(id).unwrap_or_default()).unwrap_or_default(),
        ether_type: EtherType(fields.u16("type", place.ethertype())?),
    };
    Ok(join(&header.to_bytes(), &place.payload))
}

/// RFC 3032, section 2.1: label, traffic class, bottom of stack, time to live.
pub(super) fn mpls(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let label = fields.number("label", 0xf_ffff)?.unwrap_or(16);
    let class = fields.number("tc", 7)?.unwrap_or(0);
    let ttl = fields.u8("ttl", 64)?;
    let bottom = u32::from(place.next() != "mpls");
    let word = label << 12 | class << 9 | bottom << 8 | u32::from(ttl);
    Ok(join(&word.to_be_bytes(), &place.payload))
}

pub(super) fn arp(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let operation = |text: &str| match text {
        "request" => Some(1),
        "reply" => Some(2),
        text => number(text).and_then(|number| u16::try_from(number).ok()),
    };
    let operation = fields.value("op", "request, reply or a number", operation)?;
    let packet: ArpPacket = ArpEthIpv4Packet {
        operation: ArpOperation(operation.unwrap_or(1)),
        sender_mac: fields.mac("sha", SOURCE)?,
        sender_ipv4: fields.ipv4("spa", [0; 4])?,
        target_mac: fields.mac("tha", [0; 6])?,
        target_ipv4: fields.ipv4("tpa", [0; 4])?,
    }
    .into();
    Ok(join(&packet.to_bytes(), &place.payload))
}

//! ARP, IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{LaxNetSlice, LaxSlicedPacket};
use serde::Serialize;

use super::{Mac, Shown};
use crate::print::bytes::Bytes;

#[derive(Serialize)]
pub(super) struct Arp<'a> {
    operation: u16,
    hardware_type: u16,
    protocol_type: u16,
    sender_mac: Mac<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_ip: Option<Shown<Ipv4Addr>>,
    target_mac: Mac<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ip: Option<Shown<Ipv4Addr>>,
}

impl<'a> Arp<'a> {
    pub(super) fn of(layers: &LaxSlicedPacket<'a>) -> Option<Self> {
        const FIXED: usize = 8;
        let Some(LaxNetSlice::Arp(arp)) = &layers.net else {
            return None;
        };
        let (hardware, protocol) = (
            usize::from(arp.hw_addr_size()),
            usize::from(arp.proto_addr_size()),
        );
        let bytes = arp.slice();
        let ip = |at| {
            let octets: [u8; 4] = bytes.array_at(at).ok()?;
            (protocol == 4).then(|| Shown(Ipv4Addr::from(octets)))
        };
        Some(Self {
            operation: arp.operation().0,
            hardware_type: arp.hw_addr_type().0,
            protocol_type: arp.proto_addr_type().0,
            sender_mac: Mac(bytes.part(FIXED, hardware).ok()?),
            sender_ip: ip(FIXED + hardware),
            target_mac: Mac(bytes.part(FIXED + hardware + protocol, hardware).ok()?),
            target_ip: ip(FIXED + 2 * hardware + protocol),
        })
    }
}

#[derive(Serialize)]
pub(super) struct Ipv4 {
    src: Shown<Ipv4Addr>,
    dst: Shown<Ipv4Addr>,
    protocol: u8,
    ttl: u8,
    tos: u8,
    id: u16,
    dont_fragment: bool,
    more_fragments: bool,
    fragment_offset: u16,
    header_len: u8,
    total_len: u16,
}

impl Ipv4 {
    pub(super) fn of(layers: &LaxSlicedPacket<'_>) -> Option<Self> {
        let Some(LaxNetSlice::Ipv4(packet)) = &layers.net else {
            return None;
        };
        let header = packet.header();
        Some(Self {
            src: Shown(header.source_addr()),
            dst: Shown(header.destination_addr()),
            protocol: header.protocol().0,
            ttl: header.ttl(),
            tos: header.slice().u8_at(1).ok()?,
            id: header.identification(),
            dont_fragment: header.dont_fragment(),
            more_fragments: header.more_fragments(),
            fragment_offset: header.fragments_offset().value().saturating_mul(8),
            header_len: header.ihl().saturating_mul(4),
            total_len: header.total_len(),
        })
    }
}

#[derive(Serialize)]
pub(super) struct Ipv6 {
    src: Shown<Ipv6Addr>,
    dst: Shown<Ipv6Addr>,
    next_header: u8,
    /// The protocol after the extension headers.
    protocol: u8,
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
    payload_len: u16,
    fragment: bool,
}

impl Ipv6 {
    pub(super) fn of(layers: &LaxSlicedPacket<'_>) -> Option<Self> {
        let Some(LaxNetSlice::Ipv6(packet)) = &layers.net else {
            return None;
        };
        let header = packet.header();
        Some(Self {
            src: Shown(header.source_addr()),
            dst: Shown(header.destination_addr()),
            next_header: header.next_header().0,
            protocol: packet.payload().ip_number.0,
            hop_limit: header.hop_limit(),
            traffic_class: header.traffic_class(),
            flow_label: header.flow_label().value(),
            payload_len: header.payload_length(),
            fragment: packet.is_payload_fragmented(),
        })
    }
}

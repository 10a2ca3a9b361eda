//! ARP, IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::Part;
use serde::Serialize;

use super::Shown;
use crate::bytes::{Bytes, Result};
use crate::line::Mac;

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
    pub(super) fn of(data: &'a [u8], headers: &Headers) -> Option<Self> {
        const FIXED: usize = 8;
        let message = data.rest(headers.arp()?);
        let hardware = usize::from(message.u8_at(4).ok()?);
        let protocol = usize::from(message.u8_at(5).ok()?);
        // All fields are present or none.
        message.part(0, FIXED + 2 * hardware + 2 * protocol).ok()?;
        let ip = |at| {
            let octets: [u8; 4] = message.array_at(at).ok()?;
            (protocol == 4).then(|| Shown(Ipv4Addr::from(octets)))
        };
        Some(Self {
            operation: message.u16_at(6).ok()?,
            hardware_type: message.u16_at(0).ok()?,
            protocol_type: message.u16_at(2).ok()?,
            sender_mac: Mac(message.part(FIXED, hardware).ok()?),
            sender_ip: ip(FIXED + hardware),
            target_mac: Mac(message.part(FIXED + hardware + protocol, hardware).ok()?),
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
    pub(super) fn of(data: &[u8], headers: &Headers) -> Option<Self> {
        // The header is read even if the length that it states is inconsistent.
        let header = data.rest(headers.network.filter(|_| headers.link.is_ip())?);
        let is_v4 = matches!(header.first(), Some(0x45..=0x4f));
        is_v4.then(|| Self::read(header).ok())?
    }

    fn read(header: &[u8]) -> Result<Self> {
        let fragment = header.u16_at(6)?;
        Ok(Self {
            src: Shown(header.array_at::<4>(12)?.into()),
            dst: Shown(header.array_at::<4>(16)?.into()),
            protocol: header.u8_at(9)?,
            ttl: header.u8_at(8)?,
            tos: header.u8_at(1)?,
            id: header.u16_at(4)?,
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: (fragment & 0x1fff).saturating_mul(8),
            header_len: (header.u8_at(0)? & 15) * 4,
            total_len: header.u16_at(2)?,
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
    pub(super) fn of(data: &[u8], headers: &Headers) -> Option<Self> {
        let ip = headers.ip.filter(|ip| ip.six)?;
        let header = data.rest(ip.at);
        Some(Self {
            src: Shown(header.array_at::<16>(8).ok()?.into()),
            dst: Shown(header.array_at::<16>(24).ok()?.into()),
            next_header: header.u8_at(6).ok()?,
            protocol: ip.protocol,
            hop_limit: ip.ttl,
            traffic_class: ip.tos,
            flow_label: header.u32_at(0).ok()? & 0xf_ffff,
            payload_len: header.u16_at(4).ok()?,
            fragment: ip.part != Part::Whole,
        })
    }
}

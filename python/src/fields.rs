//! The fields of a packet's headers.

use std::net::IpAddr;

use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{Ip, Part};
use ringtap_packet::{LinkType, protocol};

/// The fields of a packet's headers; `None` where the packet has no such header, or it was not captured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) ether_type: Option<u16>,
    pub(crate) vlan: Option<u16>,
    pub(crate) addresses: Option<[IpAddr; 2]>,
    pub(crate) protocol: Option<u8>,
    pub(crate) ttl: Option<u8>,
    pub(crate) tos: Option<u8>,
    pub(crate) ports: Option<[u16; 2]>,
    pub(crate) tcp: Option<Tcp>,
    /// Bytes after the transport header, on the wire.
    pub(crate) payload: Option<u32>,
}

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tcp {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
}

impl Fields {
    /// Reads the headers of a packet that had `wire` bytes on the wire.
    pub(crate) fn of(link_type: LinkType, data: &[u8], wire: u32) -> Self {
        let headers = Headers::of(link_type, data, wire as usize);
        let tag = headers.link.tags().first();
        let mut fields = Self {
            ether_type: headers.link.ether_type,
            vlan: tag.and_then(|&at| Some(be16(data, at)? & 0xfff)),
            ..Self::default()
        };
        if let Some(ip) = &headers.ip {
            fields.read_ip(ip, data);
        }
        fields
    }

    fn read_ip(&mut self, ip: &Ip, data: &[u8]) {
        self.ether_type = Some(if ip.six { 0x86dd } else { 0x0800 });
        self.protocol = Some(ip.protocol);
        self.ttl = Some(ip.ttl);
        self.tos = Some(ip.tos);
        let [source, destination] = ip.addresses();
        let both = (data.get(source), data.get(destination));
        if let (Some(source), Some(destination)) = both {
            self.addresses = address(source)
                .zip(address(destination))
                .map(<[_; 2]>::from);
        }
        // Later fragments have no transport header.
        let at = ip.transport.filter(|_| !matches!(ip.part, Part::Later(_)));
        if let Some(at) = at {
            self.read_transport(ip, data, at);
        }
    }

    fn read_transport(&mut self, ip: &Ip, data: &[u8], at: usize) {
        let header = match ip.protocol {
            protocol::TCP => {
                self.tcp = tcp(data, at);
                data.get(at + 12).map(|byte| u32::from(byte >> 4) * 4)
            }
            protocol::UDP | protocol::UDP_LITE => Some(8),
            protocol::SCTP => Some(12),
            protocol::DCCP => None,
            _ => return,
        };
        self.ports = be16(data, at).zip(be16(data, at + 2)).map(<[_; 2]>::from);
        self.payload = header.and_then(|header| {
            let headers = ip.headers.checked_add(header)?;
            ip.bytes.checked_sub(headers)
        });
    }
}

fn tcp(data: &[u8], at: usize) -> Option<Tcp> {
    let header = data.get(at..at + 20)?;
    Some(Tcp {
        seq: be32(header, 4)?,
        ack: be32(header, 8)?,
        flags: header[13],
        window: be16(header, 14)?,
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..at.checked_add(2)?)?;
    bytes.try_into().ok().map(u16::from_be_bytes)
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

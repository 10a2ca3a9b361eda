//! Finds the headers of a packet: from the link layer over tags, labels, IP and its extension
//! headers to the transport, and into tunnels.
//!
//! Packets may be hostile: any length field may be wrong, any header may be cut off. Only captured
//! bytes are read. Every walk is limited; a packet with too many nested headers is treated as one
//! without IP.
//!
//! [`Headers`] finds all headers; for single steps, which are faster, use [`link::find_ip`],
//! [`ip::parse`] and [`tunnel::Tunnels::enter`].

pub mod ip;
pub mod link;
pub mod route;
pub mod tunnel;

use crate::{LinkType, ether_type};
use ip::Ip;
use link::Link;
use tunnel::{Tunnel, Tunnels};

/// The headers of a packet, by their offsets in bytes from its start.
///
/// ```
/// use ringtap_packet::headers::Headers;
/// use ringtap_packet::{LinkType, protocol};
///
/// let mut frame = [0; 60];
/// frame[12..16].copy_from_slice(&[0x81, 0, 0, 7]); // a tag, VLAN 7
/// frame[16..22].copy_from_slice(&[8, 0, 0x45, 0, 0, 28]); // IPv4 of 28 bytes
/// frame[27] = protocol::UDP;
/// let headers = Headers::of(LinkType::ETHERNET, &frame, frame.len());
/// assert_eq!(headers.link.tags(), [14]);
/// let ip = headers.ip.expect("IPv4");
/// assert_eq!((ip.at, ip.transport, ip.end(frame.len())), (18, Some(38), 46));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The headers before the network layer.
    pub link: Link,
    /// The offset of the network layer; its protocol is [`Link::ether_type`]. `None` if it was not
    /// found or not captured.
    pub network: Option<usize>,
    /// The IP header; `None` if there is none, or it is cut off or inconsistent.
    pub ip: Option<Ip>,
}

impl Headers {
    /// Finds the headers of a packet that had `wire` bytes on the wire, of which `data` were captured.
    #[must_use]
    pub fn of(link_type: LinkType, data: &[u8], wire: usize) -> Self {
        let mut headers = Self::default();
        let link_type = link_type.canonical();
        headers.network = link::find_network(link_type, data, &mut headers.link);
        if let Some(at) = headers.network.filter(|_| headers.link.is_ip()) {
            let mut ip = Ip::default();
            let parsed = ip::parse(data, at, wire.max(data.len()), &mut ip);
            headers.ip = parsed.map(|()| ip);
        }
        headers
    }

    /// Moves to the packet inside the innermost tunnel, and returns that tunnel; `None` without a
    /// tunnel.
    pub fn enter(&mut self, tunnels: Tunnels, data: &[u8], wire: usize) -> Option<Tunnel> {
        tunnels.enter(data, wire.max(data.len()), self.ip.as_mut()?)
    }

    /// Returns the offset of an ARP message.
    #[must_use]
    pub fn arp(&self) -> Option<usize> {
        let is_arp = self.link.ether_type == Some(ether_type::ARP);
        self.network.filter(|_| is_arp)
    }
}

//! From a packet to what the cache needs of it.
//!
//! What goes in is hostile: each length field may lie, each header may be cut off. What is read was
//! captured, or the packet is told apart: without IP, or with a header of IP that is cut off or
//! contradicts itself.

mod bytes;
mod ip;
mod link;
mod transport;
mod tunnel;

pub(crate) use ip::Part;
pub(crate) use link::TAGGED;
pub(crate) use transport::{ICMP, ICMPV6, TCP, icmp_request};
pub use tunnel::Tunnels;

use crate::key::{Key, Parts};
use crate::packet::Packet;
use link::Link;

/// Tunnels within tunnels that are looked into at most.
const NESTED: usize = 4;

/// What is known of one packet of IP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observation {
    pub(crate) key: Key,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u32,
    pub(crate) mpls: u32,
    pub(crate) sequence: u32,
    /// Bytes of the transport's payload, of TCP.
    pub(crate) payload: u32,
    pub(crate) tcp_flags: u16,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) macs: [u8; 12],
    pub(crate) has_macs: bool,
    pub(crate) part: Part,
    /// Whether the key's ends were exchanged, to be the same for both directions.
    pub(crate) reversed: bool,
}

/// [`Observation::mpls`] of a packet without labels.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// Why a packet has no observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmetered {
    /// There is no IP in it, or none was captured.
    NotIp,
    /// A header of IP is cut off, or contradicts itself.
    Malformed,
}

/// Reads a packet.
#[inline]
pub(crate) fn observe(packet: &Packet<'_>, tunnels: Tunnels) -> Result<Observation, Unmetered> {
    let data = packet.data;
    let wire = data.len().max(packet.len as usize);
    let mut link = Link::default();
    let at = link::find_ip(packet.link, data, &mut link).ok_or(Unmetered::NotIp)?;
    let mut network = ip::parse(data, at, wire).ok_or(Unmetered::Malformed)?;
    let parse_transport = |network: &ip::Network| {
        let at = network.transport;
        at.map(|at| transport::parse(data, at, network.protocol, network.six))
            .unwrap_or_default()
    };
    let mut transport = parse_transport(&network);
    let mut tunnel = None;
    if tunnels.any() {
        for _ in 0..NESTED {
            let inside = tunnels.enter(data, &network, &transport);
            let inside = inside.and_then(|(at, tunnel)| Some((ip::parse(data, at, wire)?, tunnel)));
            let Some((inner, through)) = inside else {
                break;
            };
            network = inner;
            transport = parse_transport(&network);
            tunnel = Some(through);
        }
    }
    let key = Key::new(&Parts {
        source: network.source,
        destination: network.destination,
        six: network.six,
        source_port: transport.source_port,
        destination_port: transport.destination_port,
        protocol: network.protocol,
        tos: network.tos,
        vlan: link.vlan,
        inner_vlan: link.inner_vlan,
        input: link.input.unwrap_or(packet.input),
        tunnel,
    });
    let headers = network.headers.saturating_add(transport.header);
    Ok(Observation {
        key,
        time_ns: packet.time_ns,
        bytes: network.bytes,
        mpls: link.mpls.unwrap_or(NO_LABEL),
        sequence: transport.sequence,
        payload: network.bytes.saturating_sub(headers),
        tcp_flags: transport.tcp_flags,
        ttl: network.ttl,
        tos: network.tos,
        macs: link.macs.unwrap_or_default(),
        has_macs: link.macs.is_some(),
        part: network.part,
        reversed: false,
    })
}

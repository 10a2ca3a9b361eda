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

use crate::key::{Key, Rest};
use crate::packet::Packet;
use crate::record::Tunnel;
use ip::Network;
use link::Link;
use transport::Transport;

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

/// Reads a packet into `observation`, all of which is written where there is IP.
#[inline]
pub(crate) fn observe(
    packet: &Packet<'_>,
    tunnels: Tunnels,
    observation: &mut Observation,
) -> Result<(), Unmetered> {
    let data = packet.data;
    let wire = data.len().max(packet.len as usize);
    let mut link = Link::default();
    let at = link::find_ip(packet.link, data, &mut link).ok_or(Unmetered::NotIp)?;
    let mut network = Network::default();
    let addresses = &mut observation.key.addresses;
    ip::parse(data, at, wire, &mut network, addresses).ok_or(Unmetered::Malformed)?;
    let mut transport = transport_of(data, &network);
    let mut tunnel = None;
    if tunnels.any() {
        tunnel = enter(
            data,
            wire,
            tunnels,
            &mut network,
            &mut transport,
            observation,
        );
    }
    observation.key.complete(&Rest {
        six: network.six,
        source_port: transport.source_port,
        destination_port: transport.destination_port,
        protocol: network.protocol,
        tos: network.tos,
        vlan: link.vlan,
        inner_vlan: link.inner_vlan,
        input: match packet.input {
            0 => link.input.unwrap_or(0),
            known => known,
        },
        tunnel,
    });
    let headers = network.headers.saturating_add(transport.header);
    observation.time_ns = packet.time_ns;
    observation.bytes = network.bytes;
    observation.mpls = link.mpls.unwrap_or(NO_LABEL);
    observation.sequence = transport.sequence;
    observation.payload = network.bytes.saturating_sub(headers);
    observation.tcp_flags = transport.tcp_flags;
    observation.ttl = network.ttl;
    observation.tos = network.tos;
    observation.macs = link.macs.unwrap_or_default();
    observation.has_macs = link.macs.is_some();
    observation.part = network.part;
    observation.reversed = false;
    Ok(())
}

#[inline]
fn transport_of(data: &[u8], network: &Network) -> Transport {
    match network.transport {
        Some(at) => transport::parse(data, at, network.protocol, network.six),
        None => Transport::default(),
    }
}

/// Goes on to the headers of the packet inside a tunnel, the innermost of those that are looked into.
fn enter(
    data: &[u8],
    wire: usize,
    tunnels: Tunnels,
    network: &mut Network,
    transport: &mut Transport,
    observation: &mut Observation,
) -> Option<Tunnel> {
    let mut found = None;
    for _ in 0..NESTED {
        let Some((at, tunnel)) = tunnels.enter(data, network, transport) else {
            break;
        };
        let (mut inner, mut addresses) = (Network::default(), [0; 4]);
        if ip::parse(data, at, wire, &mut inner, &mut addresses).is_none() {
            break;
        }
        *network = inner;
        *transport = transport_of(data, network);
        observation.key.addresses = addresses;
        found = Some(tunnel);
    }
    found
}

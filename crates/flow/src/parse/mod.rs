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
use crate::packet::{LinkLayer, Packet};
use crate::record::Tunnel;
use ip::Network;
use link::Link;
use transport::{Transport, UDP};

/// Tunnels within tunnels that are looked into at most.
const NESTED: usize = 4;

/// What is known of one packet of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    if !tunnels.any() && frequent(packet, observation).is_some() {
        return Ok(());
    }
    observe_any(packet, tunnels, observation)
}

/// Reads what most packets are, with one look at the length: Ethernet without tags, IPv4 without
/// options and not in fragments, TCP or UDP. Gives none, and has written nothing, where that is not
/// so; what it finds is what [`observe_any`] would.
#[inline]
fn frequent(packet: &Packet<'_>, observation: &mut Observation) -> Option<()> {
    const IPV4_OF_20_BYTES: [u8; 3] = [0x08, 0x00, 0x45];
    const FRAGMENT: u16 = 0x3fff;
    const FLAGS: u16 = 0x0fff;
    let frame: &[u8; 54] = packet.data.first_chunk()?;
    let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let be32 =
        |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (bytes, protocol, tos) = (be16(16), frame[23], frame[15]);
    if packet.link != LinkLayer::Ethernet
        || [frame[12], frame[13], frame[14]] != IPV4_OF_20_BYTES
        || be16(20) & FRAGMENT != 0
        || bytes < 20
    {
        return None;
    }
    let (sequence, tcp_flags, header) = match protocol {
        TCP => (be32(38), be16(46) & FLAGS, u32::from(frame[46] >> 4) * 4),
        UDP => (0, 0, 0),
        _ => return None,
    };
    let (addresses, ports) = ([be32(26), be32(30)], [be16(34), be16(36)]);
    *observation = Observation {
        key: Key::of_ipv4(addresses, ports, protocol, tos, packet.input),
        time_ns: packet.time_ns,
        bytes: bytes.into(),
        mpls: NO_LABEL,
        sequence,
        payload: u32::from(bytes).saturating_sub(20 + header),
        tcp_flags,
        ttl: frame[22],
        tos,
        macs: *frame.first_chunk()?,
        has_macs: true,
        part: Part::Whole,
        reversed: false,
    };
    Some(())
}

/// Reads any packet.
#[inline(never)]
fn observe_any(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames around what is frequent, each with every length and with each of the bytes that tell
    /// set otherwise.
    #[test]
    fn the_short_way_and_the_long_way_find_the_same() {
        let mut frame: Vec<u8> = (1..=70).collect();
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 7, 0, 56, 9, 9, 0x40, 0, 61, 6]);
        let mut frequent_ones = 0;
        for protocol in [TCP, UDP, ICMP] {
            frame[23] = protocol;
            for at in 12..48 {
                for byte in [0, 1, 5, 0x20, 0x45, 0x50, 0x60, 0xff, frame[at]] {
                    let mut frame = frame.clone();
                    frame[at] = byte;
                    for length in [33, 34, 48, 53, 54, 60, 70] {
                        let packet = Packet {
                            data: &frame[..length],
                            len: 70,
                            time_ns: 5,
                            link: LinkLayer::Ethernet,
                            input: 3,
                        };
                        let (mut short, mut long) = Default::default();
                        if frequent(&packet, &mut short).is_none() {
                            assert_eq!(short, Observation::default());
                            continue;
                        }
                        frequent_ones += 1;
                        let found = observe_any(&packet, Tunnels::default(), &mut long);
                        assert_eq!(found, Ok(()));
                        assert_eq!(short, long, "byte {at} is {byte}");
                    }
                }
            }
        }
        assert!(frequent_ones > 1000, "{frequent_ones}");
    }
}

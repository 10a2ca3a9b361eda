//! The keys of the headers that almost all packets have: Ethernet with up to two VLAN tags, IPv4 or IPv6, and
//! a transport. They are read at once, where the conditions of the language would take fifty tests.
//!
//! Every other packet, and every packet that ends within these headers, is left to the conditions. Tests
//! compare both ways.

use ringtap_packet::bytes::{be16, be32, byte, chunk};
use ringtap_packet::ether_type::{self, QINQ, QINQ_9100, VLAN};
use ringtap_packet::protocol::{GENEVE_PORT, SCTP, TCP, UDP, VXLAN_PORT};

use super::Key;

/// The offset of the first `EtherType` of a frame.
const ETHER_TYPE: usize = 12;
/// The length of a tag, in bytes, and the most that are followed here.
const TAG: usize = 4;
const TAGS: usize = 2;
/// The smallest IPv4 header, and that of IPv6 without extension headers, in bytes.
const IP4_HEADER: usize = 20;
const IP6_HEADER: usize = 40;

/// The network layer's keys, and where ports may be.
struct Network {
    addresses: [Key; 2],
    protocol: u8,
    /// The offset of the transport header. `None` in a later fragment.
    transport: Option<usize>,
}

/// Calls `tell` with the keys of an Ethernet frame. Returns false, without a call, if it does not have these
/// headers alone.
#[inline]
pub(super) fn read(frame: &[u8], tell: &mut impl FnMut(Key)) -> bool {
    let Some((addresses, ports)) = keys(frame) else {
        return false;
    };
    addresses.into_iter().for_each(&mut *tell);
    for port in ports.into_iter().flatten() {
        tell(Key::Port(port));
    }
    true
}

/// Returns the addresses and, if the packet has any, the ports.
#[inline]
fn keys(frame: &[u8]) -> Option<([Key; 2], Option<[u16; 2]>)> {
    let network = network(frame)?;
    let has_ports = matches!(network.protocol, TCP | UDP | SCTP);
    let Some(at) = network.transport.filter(|_| has_ports) else {
        return Some((network.addresses, None));
    };
    let ports = [be16(frame, at)?, be16(frame, at + 2)?];
    let is_tunnel = network.protocol == UDP && matches!(ports[1], GENEVE_PORT | VXLAN_PORT);
    (!is_tunnel).then_some((network.addresses, Some(ports)))
}

#[inline]
fn network(frame: &[u8]) -> Option<Network> {
    let mut at = ETHER_TYPE;
    let mut ether_type = be16(frame, at)?;
    for _ in 0..TAGS {
        if !matches!(ether_type, VLAN | QINQ | QINQ_9100) {
            break;
        }
        at += TAG;
        ether_type = be16(frame, at)?;
    }
    let at = at + 2;
    match ether_type {
        ether_type::IPV4 => ip4(frame, at),
        ether_type::IPV6 => ip6(frame, at),
        _ => None,
    }
}

#[inline]
fn ip4(frame: &[u8], at: usize) -> Option<Network> {
    const OFFSET: u16 = 0x1fff;
    let header: [u8; IP4_HEADER] = chunk(frame, at)?;
    let is_first = be16(&header, 6)? & OFFSET == 0;
    let len = 4 * usize::from(header[0] & 0xf);
    Some(Network {
        addresses: [Key::Ip4(be32(&header, 12)?), Key::Ip4(be32(&header, 16)?)],
        protocol: header[9],
        transport: is_first.then_some(at + len),
    })
}

#[inline]
fn ip6(frame: &[u8], at: usize) -> Option<Network> {
    let address = |at| chunk(frame, at).map(u128::from_be_bytes).map(Key::Ip6);
    Some(Network {
        addresses: [address(at + 8)?, address(at + 24)?],
        protocol: byte(frame, at + 6)?,
        transport: Some(at + IP6_HEADER),
    })
}

//! The key as the cache stores and compares it: seven words and their hash.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringtap_packet::headers::tunnel::{Tunnel, TunnelKind};
use ringtap_packet::protocol::{ICMP, ICMPV6, UDP};

use crate::parse::{TAGGED, icmp_request};
use crate::record::FlowKey;

/// A flow's key in 56 bytes.
///
/// Words 0 and 1 of the addresses are the source (an IPv4 address is in word 0), words 2 and 3 the
/// destination. The first of the other words holds ports, protocol, ToS, version and kind of tunnel. The
/// second holds the input interface and both tags, the third the tunnel's identifier. For IPv4 outside of
/// tunnels, the words that are not needed are 0.
#[derive(Clone, Copy, Debug, Default, Eq)]
#[repr(C)]
pub(crate) struct Key {
    pub(crate) addresses: [u64; 4],
    rest: [u64; 3],
}

const PROTOCOL_SHIFT: u32 = 32;
const TOS_SHIFT: u32 = 40;
const KIND_SHIFT: u32 = 48;
const SIX: u8 = 1;

/// The fields of a [`Key`] beside the addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) six: bool,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) vlan: u16,
    pub(crate) inner_vlan: u16,
    pub(crate) input: u32,
    pub(crate) tunnel: Option<Tunnel>,
}

impl Key {
    /// Sets all words except those of the addresses.
    #[inline]
    pub(crate) fn complete(&mut self, rest: &Rest) {
        let kind = (u8::from(rest.six) * SIX) | (tunnel_code(rest.tunnel) << 1);
        self.rest[0] = u64::from(rest.source_port)
            | u64::from(rest.destination_port) << 16
            | u64::from(rest.protocol) << PROTOCOL_SHIFT
            | u64::from(rest.tos) << TOS_SHIFT
            | u64::from(kind) << KIND_SHIFT;
        self.rest[1] =
            u64::from(rest.input) | u64::from(rest.vlan) << 32 | u64::from(rest.inner_vlan) << 48;
        self.rest[2] = rest.tunnel.map_or(0, |tunnel| u64::from(tunnel.id));
    }

    /// Returns the key of an IPv4 packet outside of tunnels and without tags.
    #[inline]
    pub(crate) fn of_ipv4(
        addresses: [u32; 2],
        ports: [u16; 2],
        protocol: u8,
        tos: u8,
        input: u32,
    ) -> Self {
        let transport = u64::from(ports[0])
            | u64::from(ports[1]) << 16
            | u64::from(protocol) << PROTOCOL_SHIFT
            | u64::from(tos) << TOS_SHIFT;
        Self {
            addresses: [addresses[0].into(), 0, addresses[1].into(), 0],
            rest: [transport, input.into(), 0],
        }
    }

    /// Returns the same for IPv6, with the addresses in the form of [`Key::addresses`].
    #[inline]
    pub(crate) fn of_ipv6(
        addresses: [u64; 4],
        ports: [u16; 2],
        protocol: u8,
        tos: u8,
        input: u32,
    ) -> Self {
        let mut key = Self::of_ipv4([0; 2], ports, protocol, tos, input);
        key.addresses = addresses;
        key.rest[0] |= u64::from(SIX) << KIND_SHIFT;
        key
    }

    /// Mixes all words with `seed`, which the sender of the packets does not know.
    #[inline(always)]
    pub(crate) fn hash(&self, seed: Seed) -> u32 {
        let ([a, b, c, d], [transport, place, id]) = (self.addresses, self.rest);
        let mut ends = fold(a ^ seed.0[0], c ^ seed.0[1]);
        // For IPv4 outside of tunnels the other words are 0.
        if transport >> KIND_SHIFT != 0 {
            ends = fold(ends ^ b ^ seed.0[2], d ^ id.rotate_left(17) ^ seed.0[3]);
        }
        let all = fold(ends ^ transport ^ seed.0[2], place ^ seed.0[3]);
        (all >> 32) as u32
    }

    /// Returns a number that all flows between two hosts share in both directions, and so do the fragments of
    /// their datagrams.
    #[inline]
    pub(crate) fn hosts_hash(&self, seed: Seed) -> u32 {
        let [a, b, c, d] = self.addresses;
        let host = |low: u64, high: u64| fold(low ^ seed.0[0], high ^ seed.0[1]);
        let (source, destination) = (host(a, b), host(c, d));
        let both = source.wrapping_add(destination) ^ seed.0[2];
        (fold(both, (source ^ destination) | 1) >> 32) as u32
    }

    /// A number that both directions of a flow have in common, of its ports and protocol.
    #[inline]
    pub(crate) fn ports_hash(&self) -> u32 {
        let transport = self.rest[0];
        let both = low16(transport) ^ low16(transport >> 16);
        let number = u32::from(both) | u32::from(self.protocol()) << 16;
        number.wrapping_mul(0x9e37_79b9)
    }

    /// Whether it is of UDP from that port.
    #[inline]
    pub(crate) fn is_from_port(&self, port: u16) -> bool {
        self.protocol() == UDP && low16(self.rest[0]) == port
    }

    /// Returns the same key for both directions: that of the smaller end first, without the fields that
    /// differ by direction (ToS, and the type of an ICMP answer). Also returns whether the ends were
    /// exchanged.
    pub(crate) fn both_ways(mut self) -> (Self, bool) {
        let mut transport = self.rest[0] & !(0xff << TOS_SHIFT);
        let (source_port, destination_port) = (transport & 0xffff, transport >> 16 & 0xffff);
        let is_icmp = self.is_icmp();
        if is_icmp {
            let request = icmp_request(low16(destination_port), self.is_six());
            transport = transport & !0xffff_0000 | u64::from(request) << 16;
        }
        let [a, b, c, d] = self.addresses;
        let source = (b, a, if is_icmp { 0 } else { source_port });
        let destination = (d, c, if is_icmp { 0 } else { destination_port });
        let exchanged = source > destination;
        if exchanged {
            self.addresses = [c, d, a, b];
            if !is_icmp {
                transport = transport & !0xffff_ffff | source_port << 16 | destination_port;
            }
        }
        self.rest[0] = transport;
        (self, exchanged)
    }

    /// Returns the key of the other direction.
    pub(crate) fn exchanged(mut self) -> Self {
        let ([a, b, c, d], transport) = (self.addresses, self.rest[0]);
        self.addresses = [c, d, a, b];
        if !self.is_icmp() {
            let (source, destination) = (transport & 0xffff, transport >> 16 & 0xffff);
            self.rest[0] = transport & !0xffff_ffff | source << 16 | destination;
        }
        self
    }

    #[inline]
    pub(crate) fn protocol(&self) -> u8 {
        byte_of(self.rest[0], PROTOCOL_SHIFT)
    }

    fn is_six(&self) -> bool {
        byte_of(self.rest[0], KIND_SHIFT) & SIX != 0
    }

    fn is_icmp(&self) -> bool {
        matches!(
            (self.protocol(), self.is_six()),
            (ICMP, false) | (ICMPV6, true)
        )
    }

    /// Returns the fields that all fragments of a datagram share, apart from the identification: addresses,
    /// place, and for IPv4 the protocol. In IPv6 only the first fragment has the protocol.
    pub(crate) fn datagram(mut self) -> Self {
        self.rest[0] &= 0xff << KIND_SHIFT
            | if self.is_six() {
                0
            } else {
                0xff << PROTOCOL_SHIFT
            };
        self
    }

    /// Returns the key with ports and protocol of the datagram's first fragment.
    pub(crate) fn of_datagram(mut self, ports: u32, protocol: u8) -> Self {
        let given = 0xffff_ffff | 0xff << PROTOCOL_SHIFT;
        self.rest[0] =
            self.rest[0] & !given | u64::from(ports) | u64::from(protocol) << PROTOCOL_SHIFT;
        self
    }

    /// Returns both ports, in a fixed order.
    pub(crate) fn ports(&self) -> u32 {
        (self.rest[0] & 0xffff_ffff) as u32
    }

    /// Returns the key in the form of a record.
    pub(crate) fn export(&self, tos: u8) -> FlowKey {
        let ([a, b, c, d], [transport, place, id]) = (self.addresses, self.rest);
        let six = self.is_six();
        FlowKey {
            source: address([a, b], six),
            destination: address([c, d], six),
            source_port: low16(transport),
            destination_port: low16(transport >> 16),
            protocol: self.protocol(),
            tos,
            vlan: tag(low16(place >> 32)),
            inner_vlan: tag(low16(place >> 48)),
            input: (place & 0xffff_ffff) as u32,
            tunnel: tunnel(
                byte_of(transport, KIND_SHIFT) >> 1,
                (id & 0xffff_ffff) as u32,
            ),
        }
    }
}

/// Compares word by word, without a call and with few branches.
impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let ([a, b, c, d], [transport, place, id]) = (self.addresses, self.rest);
        let ([e, f, g, h], [others, other_place, other_id]) = (other.addresses, other.rest);
        let differs = a ^ e | c ^ g | transport ^ others | place ^ other_place;
        // For IPv4 outside of tunnels, which `transport` shows, the other words are 0.
        differs == 0 && (transport >> KIND_SHIFT == 0 || b ^ f | d ^ h | id ^ other_id == 0)
    }
}

/// The seed of hashes: four random numbers, so that nobody can send packets whose keys all collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed([u64; 4]);

impl Seed {
    /// Spreads one number over four (the output function of SplitMix64).
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }))
    }
}

/// Returns both halves of a product, combined by exclusive or.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

fn byte_of(word: u64, shift: u32) -> u8 {
    (word >> shift & 0xff) as u8
}

fn low16(word: u64) -> u16 {
    (word & 0xffff) as u16
}

fn tag(tag: u16) -> Option<u16> {
    (tag & TAGGED != 0).then_some(tag & 0x0fff)
}

fn address([low, high]: [u64; 2], six: bool) -> IpAddr {
    if six {
        IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)))
    } else {
        IpAddr::V4(Ipv4Addr::from((low & 0xffff_ffff) as u32))
    }
}

fn tunnel_code(tunnel: Option<Tunnel>) -> u8 {
    match tunnel.map(|tunnel| tunnel.kind) {
        None => 0,
        Some(TunnelKind::Gre) => 1,
        Some(TunnelKind::Vxlan) => 2,
        Some(TunnelKind::GtpU) => 3,
        Some(TunnelKind::IpInIp) => 4,
    }
}

fn tunnel(code: u8, id: u32) -> Option<Tunnel> {
    let kind = match code {
        1 => TunnelKind::Gre,
        2 => TunnelKind::Vxlan,
        3 => TunnelKind::GtpU,
        4 => TunnelKind::IpInIp,
        _ => return None,
    };
    Some(Tunnel { kind, id })
}

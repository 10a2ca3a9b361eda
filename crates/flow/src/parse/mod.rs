//! Reads the fields that the cache needs, at the offsets that `ringtap_packet::headers` finds. Packets
//! without IP are counted separately from those whose IP header is cut off or contradicts itself.

mod transport;

pub(crate) use ringtap_packet::headers::ip::Part;
pub(crate) use transport::icmp_request;

use ringtap_packet::LinkType;
use ringtap_packet::bytes::{be16, be32, chunk};
use ringtap_packet::headers::ip::{self, Ip};
use ringtap_packet::headers::link::{self, Link};
use ringtap_packet::headers::tunnel::Tunnels;
use ringtap_packet::protocol::{TCP, UDP};

use crate::cache::{NO_TRAFFIC, count};
use crate::key::{Key, Rest, Seed};
use crate::packet::Packet;
use crate::process::Owner;
use crate::record::{FlowRecord, MacAddresses};
use transport::Transport;

/// Marks a VLAN tag in the key, since its identifier may be 0.
pub(crate) const TAGGED: u16 = 0x8000;

/// The observation of one IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) key: Key,
    /// The key's hash, once the key is the one of the cache.
    pub(crate) hash: u32,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u32,
    pub(crate) mpls: u32,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) window: u16,
    /// Bytes of the IP header and, for TCP, of the transport header.
    pub(crate) headers: u32,
    pub(crate) tcp_flags: u16,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) macs: [u8; 12],
    pub(crate) has_macs: bool,
    pub(crate) part: Part,
    /// Whether the key's ends were exchanged, so that both directions have the same key.
    pub(crate) reversed: bool,
    /// Where the payload of TCP or UDP begins in the captured bytes; 0: there is none, or in fragments.
    pub(crate) payload_at: u16,
    /// Where the payload is among those that wait with the packet, and how much of it; 0 bytes: it is not.
    pub(crate) kept_at: u16,
    pub(crate) kept: u16,
    /// An answer of DNS that is only to be learnt from: another meter counts it.
    pub(crate) is_hint: bool,
    /// The process that was recorded with it.
    pub(crate) owner: Owner,
}

/// The cache copies them by the hundred.
const _: () = assert!(size_of::<Observation>() <= 128);

impl Observation {
    /// Bytes of the payload of TCP or UDP, on the wire.
    pub(crate) fn payload(&self) -> u32 {
        self.bytes.saturating_sub(self.headers)
    }

    /// Returns the captured bytes of the payload, if there are any.
    #[inline]
    pub(crate) fn captured<'p>(&self, packet: &Packet<'p>) -> Option<&'p [u8]> {
        if self.payload_at == 0 {
            return None;
        }
        let captured = packet.data.get(usize::from(self.payload_at)..)?;
        let length = captured.len().min(self.payload() as usize);
        captured.get(..length).filter(|payload| !payload.is_empty())
    }
}

/// [`Observation::mpls`] for a packet without labels.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// The reason why a packet has no observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmetered {
    /// It has no IP, or the IP part was not captured.
    NotIp,
    /// An IP header is cut off, or contradicts itself.
    Malformed,
}

/// Bytes of UDP's header.
pub(crate) const UDP_HEADER: u32 = 8;

/// A payload's place, behind a header of the transport at `at`; 0 if it is too far behind, or the header
/// has an impossible length.
#[inline(always)]
fn payload_at(at: u32, header: u32) -> u16 {
    if header < UDP_HEADER {
        return 0;
    }
    u16::try_from(at.saturating_add(header)).unwrap_or(0)
}

/// Reads the common frames with a single length check: Ethernet without tags, IP without options or
/// fragments, TCP or UDP. Returns `None` for other frames. The result equals that of [`observe_any`], plus
/// the key's hash.
///
/// This walk is separate from that of `ringtap_packet::headers`. With one length check, all fields are at
/// constant places and stay in registers. The steps of the other walk each check, read and pass on values in
/// memory. `packet/tests/headers.rs` compares both.
#[inline(always)]
pub(crate) fn frequent(packet: &Packet<'_>, seed: Seed) -> Option<Observation> {
    if packet.link != LinkType::ETHERNET {
        return None;
    }
    let frame = packet.data.first_chunk::<54>()?;
    match [frame[12], frame[13]] {
        [0x08, 0x00] => frequent4(packet, frame, seed),
        [0x86, 0xdd] => frequent6(packet, seed),
        _ => None,
    }
}

/// The fields of the TCP header beside the ports.
#[derive(Clone, Copy, Default)]
struct OfTcp {
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    flags: u16,
    /// Bytes of the header.
    header: u32,
}

/// Reads the same for one protocol of common frames.
#[inline(always)]
fn frequent_transport<const N: usize>(
    frame: &[u8; N],
    at: usize,
    protocol: u8,
) -> Option<([u16; 2], OfTcp)> {
    const FLAGS: u16 = 0x0fff;
    let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let ports = [be16(at), be16(at + 2)];
    match protocol {
        TCP => {
            let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
            let tcp = OfTcp {
                sequence: be32(at + 4),
                acknowledgment: be32(at + 8),
                window: be16(at + 14),
                flags: be16(at + 12) & FLAGS,
                header: u32::from(frame[at + 12] >> 4) * 4,
            };
            Some((ports, tcp))
        }
        UDP => Some((
            ports,
            OfTcp {
                header: UDP_HEADER,
                ..OfTcp::default()
            },
        )),
        _ => None,
    }
}

#[inline(always)]
fn frequent4(packet: &Packet<'_>, frame: &[u8; 54], seed: Seed) -> Option<Observation> {
    const HEADER_OF_20_BYTES: u8 = 0x45;
    const FRAGMENT: u16 = 0x3fff;
    let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let be32 =
        |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (bytes, protocol, tos) = (be16(16), frame[23], frame[15]);
    if frame[14] != HEADER_OF_20_BYTES || be16(20) & FRAGMENT != 0 || bytes < 20 {
        return None;
    }
    let (ports, tcp) = frequent_transport(frame, 34, protocol)?;
    let addresses = [be32(26), be32(30)];
    let key = Key::of_ipv4(addresses, ports, protocol, tos, packet.input);
    Some(Observation {
        key,
        hash: key.hash(seed),
        time_ns: packet.time_ns,
        bytes: bytes.into(),
        mpls: NO_LABEL,
        sequence: tcp.sequence,
        acknowledgment: tcp.acknowledgment,
        window: tcp.window,
        headers: 20 + tcp.header,
        tcp_flags: tcp.flags,
        ttl: frame[22],
        tos,
        macs: *frame.first_chunk()?,
        has_macs: true,
        part: Part::Whole,
        reversed: false,
        payload_at: payload_at(34, tcp.header),
        kept_at: 0,
        kept: 0,
        is_hint: false,
        owner: Owner::NONE,
    })
}

#[inline(always)]
fn frequent6(packet: &Packet<'_>, seed: Seed) -> Option<Observation> {
    let frame: &[u8; 70] = packet.data.first_chunk()?;
    let (bytes, protocol) = (u16::from_be_bytes([frame[18], frame[19]]), frame[20]);
    if frame[14] >> 4 != 6 || bytes == 0 {
        return None;
    }
    let (ports, tcp) = frequent_transport(frame, 54, protocol)?;
    let half = |at: usize| {
        frame[at..]
            .first_chunk()
            .map(|half| u64::from_be_bytes(*half))
    };
    let addresses = [half(30)?, half(22)?, half(46)?, half(38)?];
    let tos = frame[14] << 4 | frame[15] >> 4;
    let key = Key::of_ipv6(addresses, ports, protocol, tos, packet.input);
    Some(Observation {
        key,
        hash: key.hash(seed),
        time_ns: packet.time_ns,
        bytes: 40 + u32::from(bytes),
        mpls: NO_LABEL,
        sequence: tcp.sequence,
        acknowledgment: tcp.acknowledgment,
        window: tcp.window,
        headers: 40 + tcp.header,
        tcp_flags: tcp.flags,
        ttl: frame[21],
        tos,
        macs: *frame.first_chunk()?,
        has_macs: true,
        part: Part::Whole,
        reversed: false,
        payload_at: payload_at(54, tcp.header),
        kept_at: 0,
        kept: 0,
        is_hint: false,
        owner: Owner::NONE,
    })
}

/// Reads any packet into `observation`. If there is IP, all fields are written except the hash.
#[inline(never)]
pub(crate) fn observe_any(
    packet: &Packet<'_>,
    tunnels: Tunnels,
    observation: &mut Observation,
) -> Result<(), Unmetered> {
    let data = packet.data;
    let wire = data.len().max(packet.len as usize);
    let mut link = Link::default();
    let at = link::find_ip(packet.link, data, &mut link).ok_or(Unmetered::NotIp)?;
    let mut network = Ip::default();
    ip::parse(data, at, wire, &mut network).ok_or(Unmetered::Malformed)?;
    let tunnel = if tunnels.any() {
        tunnels.enter(data, wire, &mut network)
    } else {
        None
    };
    observation.key.addresses = addresses(data, &network).ok_or(Unmetered::Malformed)?;
    let transport = transport_of(data, &network);
    let tag = |index: usize| {
        let control = be16(data, *link.tags().get(index)?)?;
        Some(TAGGED | (control & 0x0fff))
    };
    observation.key.complete(&Rest {
        six: network.six,
        source_port: transport.source_port,
        destination_port: transport.destination_port,
        protocol: network.protocol,
        tos: network.tos,
        vlan: tag(0).unwrap_or(0),
        inner_vlan: tag(1).unwrap_or(0),
        input: match packet.input {
            0 => link.interface.and_then(|at| be32(data, at)).unwrap_or(0),
            known => known,
        },
        tunnel,
    });
    let headers = network.headers.saturating_add(transport.header);
    observation.hash = 0;
    observation.time_ns = packet.time_ns;
    observation.bytes = network.bytes;
    let label = link.mpls.and_then(|at| be32(data, at));
    observation.mpls = label.map_or(NO_LABEL, |label| label >> 12);
    observation.sequence = transport.sequence;
    observation.acknowledgment = transport.acknowledgment;
    observation.window = transport.window;
    observation.headers = headers;
    observation.tcp_flags = transport.tcp_flags;
    observation.ttl = network.ttl;
    observation.tos = network.tos;
    let macs = link.ethernet.and_then(|at| chunk(data, at));
    observation.macs = macs.unwrap_or_default();
    observation.has_macs = macs.is_some();
    observation.part = network.part;
    observation.reversed = false;
    observation.payload_at = match (network.part, network.transport) {
        (Part::Whole, Some(at)) => {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            payload_at(at, transport.header)
        }
        _ => 0,
    };
    observation.kept = 0;
    observation.is_hint = false;
    observation.owner = Owner::NONE;
    Ok(())
}

impl FlowRecord {
    /// Returns the record of a single packet, without entering tunnels. Returns `None` if the packet has no IP,
    /// or its IP header is cut off or contradicts itself.
    #[must_use]
    pub fn of_packet(packet: &Packet<'_>) -> Option<Self> {
        let mut observation = Observation::default();
        observe_any(packet, Tunnels::default(), &mut observation).ok()?;
        let mut forward = NO_TRAFFIC;
        count(&mut forward, &observation);
        let [destination, source] = [0, 6].map(|at| chunk(&observation.macs, at));
        let macs = source.zip(destination).filter(|_| observation.has_macs);
        Some(Self {
            key: observation.key.export(observation.tos),
            forward,
            macs: macs.map(|(source, destination)| MacAddresses {
                source,
                destination,
            }),
            mpls_label: (observation.mpls != NO_LABEL).then_some(observation.mpls),
            ..Self::default()
        })
    }
}

#[inline]
fn transport_of(data: &[u8], network: &Ip) -> Transport {
    match network.transport {
        Some(at) => transport::parse(data, at, network.protocol, network.six),
        None => Transport::default(),
    }
}

/// Returns source and destination in the form of the key: two numbers each, the least significant first. An
/// IPv4 address is in the first number.
#[inline]
fn addresses(data: &[u8], ip: &Ip) -> Option<[u64; 4]> {
    let half = |at: usize| chunk(data, at).map(u64::from_be_bytes);
    let [source, destination] = ip.addresses().map(|range| range.start);
    Some(if ip.six {
        [
            half(source + 8)?,
            half(source)?,
            half(destination + 8)?,
            half(destination)?,
        ]
    } else {
        [
            be32(data, source)?.into(),
            0,
            be32(data, destination)?.into(),
            0,
        ]
    })
}

#[cfg(test)]
mod tests {
    use ringtap_packet::protocol::{ICMP, ICMPV6};

    use super::*;

    /// Yields the same frame with each byte changed, one at a time, at each length.
    fn compare(frame: &[u8], bytes: std::ops::Range<usize>, lengths: &[usize]) -> u32 {
        let seed = Seed::new(1);
        let mut frequent_ones = 0;
        for at in bytes {
            for byte in [0, 1, 5, 0x20, 0x45, 0x50, 0x60, 0xff, frame[at]] {
                let mut frame = frame.to_vec();
                frame[at] = byte;
                for &length in lengths {
                    let packet = Packet {
                        data: &frame[..length],
                        len: 90,
                        time_ns: 5,
                        link: LinkType::ETHERNET,
                        input: 3,
                    };
                    let Some(short) = frequent(&packet, seed) else {
                        continue;
                    };
                    let mut long = Observation::default();
                    frequent_ones += 1;
                    let found = observe_any(&packet, Tunnels::default(), &mut long);
                    assert_eq!(found, Ok(()));
                    long.hash = long.key.hash(seed);
                    assert_eq!(short, long, "byte {at} is {byte}");
                }
            }
        }
        frequent_ones
    }

    /// Frames similar to the common ones.
    #[test]
    fn the_short_way_and_the_long_way_find_the_same() {
        let mut frame: Vec<u8> = (1..=90).collect();
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 7, 0, 56, 9, 9, 0x40, 0, 61, 6]);
        for protocol in [TCP, UDP, ICMP] {
            frame[23] = protocol;
            let found = compare(&frame, 12..48, &[33, 34, 48, 53, 54, 60, 70]);
            assert_eq!(found > 500, protocol != ICMP, "{found}");
        }
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14..22].copy_from_slice(&[0x6b, 0x80, 0, 0, 0, 30, 6, 61]);
        for protocol in [TCP, UDP, ICMPV6] {
            frame[20] = protocol;
            let found = compare(&frame, 12..70, &[53, 54, 62, 67, 68, 74, 90]);
            assert_eq!(found > 500, protocol != ICMPV6, "{found}");
        }
    }
}

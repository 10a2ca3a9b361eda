//! Packets generated for every link type, with the bytes that filters read: complete and cut short.

use super::{Packet, encapsulated, headers};

/// Returns all generated packets for a link type, given by DLT.
///
/// # Panics
/// Never: all of them are short.
#[must_use]
pub fn generated(dlt: u32) -> Vec<Packet> {
    let mut whole = Vec::new();
    for (at, (ether_type, payload)) in payloads().into_iter().enumerate() {
        for link in link_headers(dlt, ether_type, payload.len(), at) {
            whole.push([link, payload.clone()].concat());
        }
    }
    let mut packets = Vec::new();
    for (at, bytes) in whole.iter().enumerate() {
        let len = u32::try_from(bytes.len()).expect("small");
        packets.push((bytes.clone(), len));
        // Cut at varying offsets, so that every load is the first to fail on some packet.
        for cut in cuts(at) {
            if cut < bytes.len() {
                packets.push((bytes[..cut].to_vec(), len));
            }
        }
    }
    packets
}

fn cuts(at: usize) -> impl Iterator<Item = usize> {
    let spread = [
        0, 1, 3, 11, 13, 15, 17, 20, 23, 25, 27, 29, 33, 37, 43, 53, 55, 59, 62, 65, 68, 71, 76,
        79, 84, 90, 100, 110,
    ];
    spread
        .into_iter()
        .filter(move |cut| (cut + at).is_multiple_of(3) || *cut < 2)
}

fn link_headers(dlt: u32, ether_type: u16, payload: usize, at: usize) -> Vec<Vec<u8>> {
    let et = ether_type.to_be_bytes();
    match dlt {
        1 => ethernet_headers(ether_type, payload),
        0 | 108 => {
            let family = headers::family(ether_type);
            let ordered = if dlt == 0 {
                family.to_ne_bytes()
            } else {
                family.to_be_bytes()
            };
            let swapped = family.swap_bytes().to_be_bytes();
            vec![ordered.to_vec(), swapped.to_vec()]
        }
        9 | 50 => vec![[&[0xff, 0x03][..], &ppp(ether_type)].concat()],
        51 => vec![[&[0x11, 0, 0, 5, 0, 40][..], &ppp(ether_type)].concat()],
        113 => [0_u8, 4]
            .into_iter()
            .map(|kind| {
                let mut h = vec![0, kind, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0];
                h.extend(if ether_type <= 1500 { [0, 4] } else { et });
                h
            })
            .collect(),
        276 => [0_u8, 4]
            .into_iter()
            .map(|kind| {
                let mut h = et.to_vec();
                h.extend([0, 0, 0, 0, 0, 1, 0, 1, kind, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
                h
            })
            .collect(),
        _ => headers::headers(dlt, ether_type, payload, at),
    }
}

pub(super) fn ppp(ether_type: u16) -> [u8; 2] {
    match ether_type {
        0x0800 => [0, 0x21],
        0x86dd => [0, 0x57],
        0x8847 => [2, 0x81],
        0xfe => [0, 0x23],
        other => other.to_be_bytes(),
    }
}

pub(super) fn ethernet_headers(ether_type: u16, payload: usize) -> Vec<Vec<u8>> {
    let addresses: [&[u8]; 3] = [
        &[6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 8, 9, 10, 11, 12],
        &[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6],
    ];
    let tags: [&[u8]; 5] = [
        &[],
        &[0x81, 0, 0, 100],
        &[0x88, 0xa8, 0x20, 100, 0x81, 0, 0, 200],
        &[0x91, 0, 0, 5],
        &[0x81, 0, 0, 100, 0x81, 0, 0, 200, 0x81, 0, 0, 6],
    ];
    let field = match ether_type {
        0..=1500 => u16::try_from(payload).unwrap_or(1500).to_be_bytes(),
        other => other.to_be_bytes(),
    };
    let mut headers = Vec::new();
    for (at, tag) in tags.iter().enumerate() {
        headers.push([addresses[at % 3], tag, &field].concat());
    }
    headers
}

/// Returns network-layer payloads with their EtherType, or LLC service access point.
fn payloads() -> Vec<(u16, Vec<u8>)> {
    let parts = [
        over_ip4(),
        over_ip6(),
        address_resolution(),
        by_first_byte(),
        llc(),
        chains(),
        control_fields(),
        osi(),
        decnet(),
        encapsulated::payloads(),
    ];
    parts.into_iter().flatten().collect()
}

fn over_ip4() -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    for source in [
        [10, 0, 0, 1],
        [1, 2, 3, 4],
        [192, 168, 1, 200],
        [10, 0, 0, 2],
    ] {
        for destination in [[10, 0, 0, 2], [224, 0, 0, 5], [1, 2, 3, 255]] {
            for (number, transport) in transports() {
                list.push((0x0800, ip4(source, destination, number, 0, &[], &transport)));
            }
        }
    }
    let tcp = transport(80, 1024);
    list.push(v4(6, 0, &[1; 12], &tcp));
    list.push(v4(6, 0x2000, &[], &tcp));
    list.push(v4(17, 0x0005, &[], &tcp));
    let (home, dns) = ([127, 0, 0, 1], transport(53, 53));
    list.push((0x0800, ip4(home, home, 17, 0x4000, &[1; 4], &dns)));
    list
}

fn over_ip6() -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    let tcp = transport(80, 1024);
    for source in [
        0x2001_0db8_0000_0000_0000_0000_0000_0001,
        0xfe80 << 112 | 1,
        1,
    ] {
        for destination in [0x2001_0db8_0000_0000_0000_0000_0000_0002, 0xff02 << 112 | 5] {
            for (number, transport) in transports() {
                list.push((0x86dd, ip6(source, destination, number, &transport)));
            }
            let fragment = [&[6, 0, 0, 0, 0, 0, 0, 1][..], &tcp].concat();
            list.push((0x86dd, ip6(source, destination, 44, &fragment)));
            let fragment = [&[58, 0, 0, 0, 0, 0, 0, 1][..], &tcp].concat();
            list.push((0x86dd, ip6(source, destination, 44, &fragment)));
        }
    }
    list
}

fn address_resolution() -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    for (ether_type, operation) in [(0x0806, 1), (0x0806, 2), (0x8035, 3)] {
        let mut arp = vec![
            0, 1, 8, 0, 6, 4, 0, operation, 1, 2, 3, 4, 5, 6, 10, 0, 0, 1,
        ];
        arp.extend([6, 5, 4, 3, 2, 1, 1, 2, 3, 4]);
        list.push((ether_type, arp));
    }
    list
}

/// Returns payloads of protocols whose type is all that filters test.
fn by_first_byte() -> Vec<(u16, Vec<u8>)> {
    [
        (0x6001, 1),
        (0x6002, 1),
        (0x6003, 1),
        (0x6004, 1),
        (0x6007, 1),
        (0x809b, 1),
        (0x80f3, 1),
        (0x8137, 1),
        (0x9000, 1),
        (0x88cc, 1),
        (0x8863, 0x11),
        (0x05dd, 1),
    ]
    .map(|(ether_type, first)| (ether_type, vec![first; 40]))
    .into()
}

fn llc() -> Vec<(u16, Vec<u8>)> {
    let headers: [&[u8]; 12] = [
        &[0xfe, 0xfe, 3, 0x81],
        &[0xfe, 0xfe, 3, 0x82],
        &[0xfe, 0xfe, 3, 0x83],
        &[0x42, 0x42, 3, 0],
        &[0xe0, 0xe0, 3, 0],
        &[0xf0, 0xf0, 3, 0],
        &[0xff, 0xff, 0, 0],
        &[5, 6, 3, 0],
        &[0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0x37],
        &[0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b],
        &[0xaa, 0xaa, 3, 0, 0, 0, 0x80, 0xf3],
        &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
    ];
    headers
        .map(|header| (u16::from(header[0]), [header, &[0_u8; 40]].concat()))
        .into()
}

/// Returns chains of extension headers, given by their protocols, before bytes that may be TCP.
fn chains() -> Vec<(u16, Vec<u8>)> {
    let long = [60; 40];
    let chains: [&[u8]; 11] = [
        &[0],
        &[0, 60, 43, 44],
        &[44, 60],
        &[60, 60, 0],
        &[AUTHENTICATION],
        &[0, AUTHENTICATION],
        &[AUTHENTICATION, 60],
        &[AUTHENTICATION, AUTHENTICATION],
        &[43, 59],
        &[60, 50],
        &long,
    ];
    let mut list = Vec::new();
    for last in [6, 17] {
        for chain in chains {
            // The lengths of authentication headers are chosen so that libpcap's walk, which continues at a
            // wrong offset after them, ends.
            let over6 = extensions(chain, last, 4);
            let over4 = extensions(chain, last, 3);
            let first = chain[0];
            list.push(v6(first, &over6));
            list.push(v4(first, 0, &[1; 4], &over4));
        }
    }
    list
}

const AUTHENTICATION: u8 = 51;

fn extensions(chain: &[u8], last: u8, authentication: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, &protocol) in chain.iter().enumerate() {
        let next = chain.get(at + 1).copied().unwrap_or(last);
        let units = u8::try_from(at % 2).expect("small");
        let (length, size) = match protocol {
            AUTHENTICATION => (authentication, 4 * (2 + authentication)),
            _ => (units, 8 * (1 + units)),
        };
        let mut header = vec![0; size.into()];
        header[..2].copy_from_slice(&[next, length]);
        bytes.extend(header);
    }
    bytes.extend(transport(80, 1024));
    bytes
}

/// Returns LLC frames of all types.
fn control_fields() -> Vec<(u16, Vec<u8>)> {
    let controls = [
        0x00, 0x02, 0x01, 0x05, 0x09, 0x11, 0x03, 0x13, 0x63, 0x43, 0x0f, 0x6f, 0x7f, 0xe3, 0xaf,
        0x87, 0x0d,
    ];
    controls
        .iter()
        .map(|&control| (0x42, [&[0x42, 0x42, control][..], &[0; 10]].concat()))
        .collect()
}

/// Returns IS-IS packets of all types, after LLC.
fn osi() -> Vec<(u16, Vec<u8>)> {
    (14..29)
        .map(|kind| {
            let header = [0xfe, 0xfe, 3, 0x83, 27, 1, 0, kind, 1, 0, 0];
            (0xfe, [&header[..], &[0; 20]].concat())
        })
        .collect()
}

/// Returns DECnet packets with the addresses 1.2 and 10.1023, in each kind of header.
fn decnet() -> Vec<(u16, Vec<u8>)> {
    let (one, other) = ([0x02, 0x04], [0xff, 0x2b]);
    let mut list = Vec::new();
    for (src, dst) in [(one, other), (other, one), (one, one)] {
        for pad in [&[][..], &[0x81]] {
            let short = [pad, &[0x02], &dst, &src, &[0]].concat();
            let long = [
                pad,
                &[0x26, 0, 0, 0xaa, 0, 4, 0],
                &dst,
                &[0, 0, 0xaa, 0, 4, 0],
                &src,
                &[0; 4],
            ];
            list.push((0x6003, [&[20, 0][..], &short, &[0; 20]].concat()));
            list.push((0x6003, [&[30, 0][..], &long.concat(), &[0; 20]].concat()));
        }
    }
    list
}

fn transports() -> Vec<(u8, Vec<u8>)> {
    let mut list = Vec::new();
    for number in [6, 17, 132] {
        for (source, destination) in [(80, 1024), (53, 53), (5000, 443)] {
            list.push((number, transport(source, destination)));
        }
    }
    for number in [1, 2, 9, 47, 50, 51, 58, 89, 103, 112] {
        list.push((number, [&[8, 0, 1, 2][..], &[number; 24]].concat()));
    }
    list
}

/// Returns ports, then bytes that may be a TCP header with a little data.
pub(super) fn transport(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    bytes.extend([
        0, 20, 0x85, 1, 0, 0, 0, 2, 0x50, 0x12, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    bytes.extend(b"GET / HTTP/1.0\r\n");
    bytes
}

/// Returns an IPv4 packet between two hosts, with its EtherType.
pub(super) fn v4(number: u8, fragment: u16, options: &[u8], rest: &[u8]) -> (u16, Vec<u8>) {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    (0x0800, ip4(src, dst, number, fragment, options, rest))
}

/// Returns an IPv6 packet from a host to a group, with its EtherType.
pub(super) fn v6(next: u8, rest: &[u8]) -> (u16, Vec<u8>) {
    let (src, dst) = (0xfe80 << 112 | 1, 0xff02 << 112 | 5);
    (0x86dd, ip6(src, dst, next, rest))
}

pub(super) fn ip4(
    src: [u8; 4],
    dst: [u8; 4],
    number: u8,
    fragment: u16,
    options: &[u8],
    rest: &[u8],
) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).expect("few options");
    let total = u16::try_from(20 + options.len() + rest.len()).expect("short");
    let mut bytes = vec![0x40 | words, 0];
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, number, 0, 0]);
    bytes.extend(src);
    bytes.extend(dst);
    bytes.extend(options);
    bytes.extend(rest);
    bytes
}

pub(super) fn ip6(src: u128, dst: u128, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(rest.len()).expect("short").to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend(src.to_be_bytes());
    bytes.extend(dst.to_be_bytes());
    bytes.extend(rest);
    bytes
}

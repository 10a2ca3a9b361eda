//! Builds packets from the inside out.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const GRE: u8 = 47;
pub(crate) const ICMP6: u8 = 58;

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn be16(number: u16) -> [u8; 2] {
    number.to_be_bytes()
}

pub(crate) fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    joined(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &be16(kind), payload])
}

pub(crate) fn ip4_frame(payload: &[u8]) -> Vec<u8> {
    ethernet(0x0800, payload)
}

pub(crate) fn ip6_frame(payload: &[u8]) -> Vec<u8> {
    ethernet(0x86dd, payload)
}

pub(crate) fn tagged(tag: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(0x8100, &joined(&[&be16(tag), &be16(kind), payload]))
}

/// The optional parts of an IPv4 packet.
pub(crate) struct Ip4 {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    /// The number of words of options.
    pub(crate) options: u8,
    /// In units of 8 bytes.
    pub(crate) fragment_offset: u16,
}

impl Default for Ip4 {
    fn default() -> Self {
        Self {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(192, 0, 2, 1),
            options: 0,
            fragment_offset: 0,
        }
    }
}

impl Ip4 {
    pub(crate) fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header = 20 + 4 * usize::from(self.options);
        let length = u16::try_from(header + payload.len()).expect("short");
        joined(&[
            &[0x45 + self.options, 0],
            &be16(length),
            &[0, 1],
            &be16(self.fragment_offset),
            &[64, protocol, 0, 0],
            &self.src.octets(),
            &self.dst.octets(),
            &vec![1; header - 20],
            payload,
        ])
    }
}

pub(crate) fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    Ip4::default().packet(protocol, payload)
}

pub(crate) fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let src: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    let dst: Ipv6Addr = "2001:db8::80".parse().expect("an address");
    let length = u16::try_from(payload.len()).expect("short");
    joined(&[
        &[0x60, 0, 0, 0],
        &be16(length),
        &[next, 64],
        &src.octets(),
        &dst.octets(),
        payload,
    ])
}

pub(crate) fn tcp(src: u16, dst: u16, flags: u8) -> Vec<u8> {
    let sequence = [0, 0, 0, 1, 0, 0, 0, 0];
    let rest = [0x50, flags, 32, 0, 0, 0, 0, 0];
    joined(&[&be16(src), &be16(dst), &sequence, &rest])
}

pub(crate) fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).expect("short");
    joined(&[&be16(src), &be16(dst), &be16(length), &[0, 0], payload])
}

pub(crate) fn vxlan(network: u32, frame: &[u8]) -> Vec<u8> {
    joined(&[&[8, 0, 0, 0], &(network << 8).to_be_bytes(), frame])
}

pub(crate) fn geneve(network: u32, kind: u16, options: u8, payload: &[u8]) -> Vec<u8> {
    let head = [options, 0];
    let options = vec![0; 4 * usize::from(options)];
    let network = (network << 8).to_be_bytes();
    joined(&[&head, &be16(kind), &network, &options, payload])
}

/// Builds GRE with the optional fields.
pub(crate) fn gre(
    checksum: bool,
    key: Option<u32>,
    sequence: bool,
    kind: u16,
    payload: &[u8],
) -> Vec<u8> {
    let flags = u8::from(checksum) << 7 | u8::from(key.is_some()) << 5 | u8::from(sequence) << 4;
    let mut packet = joined(&[&[flags, 0], &be16(kind)]);
    if checksum {
        packet.extend([0xab; 4]);
    }
    packet.extend(key.iter().flat_map(|key| key.to_be_bytes()));
    if sequence {
        packet.extend([0, 0, 0, 9]);
    }
    packet.extend(payload);
    packet
}

/// Builds GTP-U with extension headers of this many words each; `options` adds the optional fields, which
/// extension headers imply.
pub(crate) fn gtpu(tunnel: u32, options: bool, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
    let flags = 0x30 | u8::from(options) << 1 | u8::from(!extensions.is_empty()) << 2;
    let mut rest = Vec::new();
    if options || !extensions.is_empty() {
        rest.extend([0, 7, 0]);
        rest.push(if extensions.is_empty() { 0 } else { 0x85 });
        for (at, &words) in extensions.iter().enumerate() {
            let mut header = vec![0x11; 4 * usize::from(words)];
            header[0] = words;
            let last = header.len() - 1;
            header[last] = if at + 1 == extensions.len() { 0 } else { 0x85 };
            rest.extend(header);
        }
    }
    rest.extend(payload);
    let length = u16::try_from(rest.len()).expect("short");
    joined(&[&[flags, 0xff], &be16(length), &tunnel.to_be_bytes(), &rest])
}

pub(crate) fn label(label: u32, last: bool) -> [u8; 4] {
    (label << 12 | u32::from(last) << 8 | 64).to_be_bytes()
}

pub(crate) fn pppoe(session: u16, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 2).expect("short");
    let head = joined(&[&[0x11, 0], &be16(session), &be16(length), &be16(protocol)]);
    ethernet(0x8864, &joined(&[&head, payload]))
}

/// Returns an extension header of IPv6 without its first byte, the next one's number.
pub(crate) fn long_header(units: u8) -> Vec<u8> {
    let mut header = vec![0; 8 * (usize::from(units) + 1) - 1];
    header[0] = units;
    header
}

pub(crate) fn fragment_header(offset: u16) -> Vec<u8> {
    joined(&[&[0], &be16(offset << 3 | 1), &[0, 0, 0, 5]])
}

pub(crate) fn authentication(words: u8) -> Vec<u8> {
    let mut header = vec![0; 4 * (usize::from(words) + 2) - 1];
    header[0] = words;
    header
}

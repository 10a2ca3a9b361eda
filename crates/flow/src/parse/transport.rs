//! Reads the header after IP for the key: ports, type and code, flags.

use ringtap_packet::bytes::chunk;
use ringtap_packet::protocol::{DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDP_LITE};

/// The fields of a transport header. They are zero if the header was not captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) source_port: u16,
    /// Type and code of ICMP.
    pub(crate) destination_port: u16,
    pub(crate) tcp_flags: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) window: u16,
    /// Length of the TCP or UDP header, in bytes.
    pub(crate) header: u32,
}

#[inline]
pub(crate) fn parse(data: &[u8], at: usize, protocol: u8, six: bool) -> Transport {
    let found = match (protocol, six) {
        (TCP, _) => tcp(data, at),
        (UDP, _) => ports(data, at).map(|transport| Transport {
            header: super::UDP_HEADER,
            ..transport
        }),
        (DCCP | SCTP | UDP_LITE, _) => ports(data, at),
        (ICMP, false) | (ICMPV6, true) => chunk(data, at).map(|kind| Transport {
            destination_port: u16::from_be_bytes(kind),
            ..Transport::default()
        }),
        _ => None,
    };
    found.unwrap_or_default()
}

#[inline]
fn ports(data: &[u8], at: usize) -> Option<Transport> {
    let [a, b, c, d] = chunk(data, at)?;
    Some(Transport {
        source_port: u16::from_be_bytes([a, b]),
        destination_port: u16::from_be_bytes([c, d]),
        ..Transport::default()
    })
}

#[inline]
fn tcp(data: &[u8], at: usize) -> Option<Transport> {
    const FLAGS: u16 = 0x0fff;
    let mut transport = ports(data, at)?;
    let Some(header) = chunk::<16>(data, at) else {
        // Snapshots of 64 bytes and quoted packets end before this.
        return Some(transport);
    };
    transport.sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    transport.acknowledgment = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    transport.window = u16::from_be_bytes([header[14], header[15]]);
    transport.header = u32::from(header[12] >> 4) * 4;
    transport.tcp_flags = u16::from_be_bytes([header[12], header[13]]) & FLAGS;
    Some(transport)
}

/// Returns the ICMP type that this type answers, or the type itself.
pub(crate) fn icmp_request(kind_and_code: u16, six: bool) -> u16 {
    let [kind, code] = kind_and_code.to_be_bytes();
    let kind = match (kind, six) {
        (0, false) => 8,
        (14, false) => 13,
        (16, false) => 15,
        (18, false) => 17,
        (129, true) => 128,
        _ => kind,
    };
    u16::from_be_bytes([kind, code])
}

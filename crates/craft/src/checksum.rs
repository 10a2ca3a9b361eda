//! The checksums of a frame (the Internet's and SCTP's): adjusted if a field changed, or computed
//! again.

use std::ops::Range;

use ringtap_packet::bytes::be16;
use ringtap_packet::checksum::{self, Sum, crc32c};
use ringtap_packet::protocol;

use crate::layers::{Ip, Network};

const SCTP_CHECKSUM_LEN: usize = 4;

/// Computes the IPv4 header's checksum and the one of TCP, UDP, ICMP, ICMPv6 or SCTP. Returns false
/// if the latter cannot be computed: the packet is a fragment, was not captured completely, states
/// a length beyond its end, or has an unknown last destination.
pub(crate) fn fix(frame: &mut [u8], network: Option<&Network>) -> bool {
    let Some(Network::Ip(ip)) = network else {
        return true;
    };
    if let Some(at) = ip.header_checksum() {
        write(frame, at, 0);
        let right = checksum::of(&frame[ip.at..header_end(frame, ip)]);
        write(frame, at, right);
    }
    if let Some(at) = ip.sctp_checksum() {
        let is_there = !ip.is_fragment && ip.is_whole;
        if is_there {
            fix_sctp(frame, ip, at);
        }
        return is_there;
    }
    let Some(at) = ip.transport_checksum() else {
        return true;
    };
    if ip.is_fragment || !ip.is_whole {
        return false;
    }
    let is_udp = ip.protocol == protocol::UDP;
    // A datagram of IPv4 may have no checksum (RFC 768).
    if is_udp && !ip.is_v6 && be16(frame, at) == Some(0) {
        return true;
    }
    let (Some(addresses), Some(payload)) = (ip.covered_addresses(), ip.covered_payload(frame))
    else {
        return false;
    };
    write(frame, at, 0);
    let sum = transport_sum(frame, ip, addresses, payload);
    let right = if is_udp {
        sum.udp_checksum()
    } else {
        sum.checksum()
    };
    write(frame, at, right);
    true
}

/// Sets the checksum of SCTP, which is computed with zero in its place (RFC 9260, section 6.8).
fn fix_sctp(frame: &mut [u8], ip: &Ip, at: usize) {
    frame[at..at + SCTP_CHECKSUM_LEN].fill(0);
    let sum = crc32c::of(frame[ip.payload.clone()].iter().copied());
    frame[at..at + SCTP_CHECKSUM_LEN].copy_from_slice(&sum.to_le_bytes());
}

/// Adjusts the checksum of SCTP before bytes at `place` change: a correct one stays correct, a
/// wrong one stays equally wrong. A fragment's checksum is not adjusted, because the total length
/// is unknown.
pub(crate) fn adjust_sctp(frame: &mut [u8], ip: &Ip, place: Range<usize>, new: &[u8]) {
    let (Some(at), false, true) = (ip.sctp_checksum(), ip.is_fragment, ip.is_whole) else {
        return;
    };
    let offset = place.start - ip.payload.start;
    let change = crc32c::difference(ip.payload.len(), offset, &frame[place], new);
    for (byte, change) in frame[at..at + SCTP_CHECKSUM_LEN]
        .iter_mut()
        .zip(change.to_le_bytes())
    {
        *byte ^= change;
    }
}

fn transport_sum(
    frame: &[u8],
    ip: &Ip,
    addresses: Option<[Range<usize>; 2]>,
    payload: Range<usize>,
) -> Sum {
    let sum = addresses.map_or(Sum::new(), |[source, destination]| {
        let (source, destination) = (&frame[source], &frame[destination]);
        Sum::of_pseudo_header(source, destination, ip.protocol, payload.len())
    });
    sum.with(&frame[payload])
}

/// Returns the end of the IPv4 header, which `layers` has found inside the frame.
fn header_end(frame: &[u8], ip: &Ip) -> usize {
    ip.at + usize::from(frame[ip.at] & 15) * 4
}

pub(crate) fn write(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

//! Internet checksums (RFC 1071): adjusted where a field changed, or computed anew.

use etherparse::checksum::Sum16BitWords;

use super::layers::{Ip, Layers, Network, protocol, u16_at};

/// Changes a checksum as a field that it covers changed (RFC 1624, equation 3): a right one stays
/// right, a wrong one as wrong as it was, and nothing else of the packet needs to be there. `old`
/// and `new` are of one even length and lie at an even place of what is summed.
pub(super) fn adjust(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> Vec<u16> {
        let (words, _) = bytes.as_chunks::<2>();
        words.iter().map(|&word| u16::from_be_bytes(word)).collect()
    };
    let mut sum = u32::from(!checksum);
    for (old, new) in words(old).into_iter().zip(words(new)) {
        sum += u32::from(!old) + u32::from(new);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Computes the IPv4 header's checksum and the one of TCP, UDP, ICMP or ICMPv6. False where the
/// latter is not known, because the packet is a fragment or was not captured whole.
pub(super) fn fix(frame: &mut [u8], layers: &Layers) -> bool {
    let Some(Network::Ip(ip)) = &layers.network else {
        return true;
    };
    if let Some(at) = ip.header_checksum() {
        write(frame, at, 0);
        let sum = Sum16BitWords::new().add_slice(&frame[ip.at..header_end(frame, ip)]);
        write(frame, at, u16::from_be(sum.ones_complement()));
    }
    let Some(at) = ip.transport_checksum() else {
        return true;
    };
    if ip.is_fragment || !ip.is_whole {
        return false;
    }
    let is_udp = ip.protocol == protocol::UDP;
    // A datagram of IPv4 may have none (RFC 768).
    if is_udp && !ip.is_v6 && u16_at(frame, at) == Some(0) {
        return true;
    }
    write(frame, at, 0);
    let right = transport_sum(frame, ip);
    write(frame, at, if is_udp && right == 0 { 0xffff } else { right });
    true
}

fn transport_sum(frame: &[u8], ip: &Ip) -> u16 {
    let mut sum = Sum16BitWords::new().add_slice(&frame[ip.payload.clone()]);
    if ip.has_pseudo_header() {
        for address in ip.addresses() {
            sum = sum.add_slice(&frame[address]);
        }
        let len = u32::try_from(ip.payload.len()).unwrap_or(u32::MAX);
        sum = sum
            .add_4bytes(len.to_be_bytes())
            .add_2bytes([0, ip.protocol]);
    }
    u16::from_be(sum.ones_complement())
}

/// The IPv4 header's end, which `layers` has found inside the frame.
fn header_end(frame: &[u8], ip: &Ip) -> usize {
    ip.at + usize::from(frame[ip.at] & 15) * 4
}

pub(super) fn write(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

//! Packets, built byte by byte.

/// Returns an IPv4 packet: the header and its payload.
pub(crate) fn ipv4(source: u8, destination: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_part(source, destination, protocol, 0, 0, payload)
}

/// Returns the same as a fragment: identification, and flags with offset.
pub(crate) fn ipv4_part(
    source: u8,
    destination: u8,
    protocol: u8,
    id: u16,
    place: u16,
    payload: &[u8],
) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).expect("short");
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(place.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend([192, 0, 2, source, 192, 0, 2, destination]);
    packet.extend(payload);
    packet
}

/// Returns an IPv6 packet: the header and its payload.
pub(crate) fn ipv6(source: u8, destination: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("short");
    let mut packet = vec![0x6b, 0x80, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([next, 61]);
    for last in [source, destination] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(payload);
    packet
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).expect("short");
    let words = [source, destination, length, 0];
    let mut header: Vec<u8> = words.into_iter().flat_map(u16::to_be_bytes).collect();
    header.extend(payload);
    header
}

pub(crate) fn tcp(source: u16, destination: u16, flags: u8, sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut header: Vec<u8> = [source, destination]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    header.extend(sequence.to_be_bytes());
    header.extend([0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    header.extend(data);
    header
}

/// Returns an Ethernet frame; `types` are the tags and labels between the addresses and the packet.
pub(crate) fn ethernet(types: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(types);
    frame.extend(packet);
    frame
}

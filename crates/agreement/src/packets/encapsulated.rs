//! Payloads with something between the link layer and the network layer, or with a packet inside:
//! MPLS labels, PPPoE sessions, Geneve and VXLAN tunnels.

use super::made::{ip4, transport, v4, v6};

/// Returns payloads with their EtherTypes.
pub(super) fn payloads() -> Vec<(u16, Vec<u8>)> {
    let tcp = transport(80, 1024);
    let (_, v4) = v4(6, 0, &[1; 4], &tcp);
    let (_, v6) = v6(6, &tcp);
    let mut list = labelled(&v4, &v6);
    list.extend(sessions(&v4, &v6));
    list.extend(tunnels(&v4, &v6));
    list
}

fn labelled(v4: &[u8], v6: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let stacks: [&[u8]; 4] = [
        &[0, 0, 0x51, 64],
        &[0, 0, 0x50, 64],
        &[0, 0, 0x50, 64, 0, 0, 0x61, 64],
        &[0xff, 0xff, 0xf1, 64],
    ];
    let inner = [v4, v6, &[0x45, 0, 0]];
    let mut list = Vec::new();
    for stack in stacks {
        for packet in inner {
            list.push((0x8847, [stack, packet].concat()));
        }
    }
    list
}

fn sessions(v4: &[u8], v6: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let label = [&[0, 0, 0x51, 64], v4].concat();
    let nested = [&[0x11, 0, 0, 7, 0, 40, 0, 0x21], v4].concat();
    let kinds: [(u16, u16, &[u8]); 6] = [
        (5, 0x0021, v4),
        (7, 0x0057, v6),
        (5, 0x0281, &label),
        (5, 0x8864, &nested),
        (5, 0x0023, &[0xfe, 0xfe, 3, 0x83, 0, 0, 0, 0]),
        (0xffff, 0xc021, &[1, 1, 0, 4]),
    ];
    kinds
        .iter()
        .map(|&(session, protocol, packet)| {
            let mut bytes = vec![0x11, 0];
            bytes.extend(session.to_be_bytes());
            bytes.extend([0, 60]);
            bytes.extend(protocol.to_be_bytes());
            bytes.extend(packet);
            (0x8864, bytes)
        })
        .collect()
}

fn tunnels(v4: &[u8], v6: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let frame = |ether_type: [u8; 2], payload: &[u8]| {
        let addresses = [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1];
        [&addresses[..], &ether_type, payload].concat()
    };
    let tagged = [&[0, 100, 8, 0], v4].concat();
    let mut list = Vec::new();
    let inner: [(u16, Vec<u8>); 5] = [
        (0x6558, frame([8, 0], v4)),
        (0x6558, frame([0x81, 0], &tagged)),
        (0x6558, frame([0, 40], &[0xfe, 0xfe, 3, 0x83, 0, 0, 0, 0])),
        (0x0800, v4.to_vec()),
        (0x86dd, v6.to_vec()),
    ];
    for (at, (protocol, packet)) in inner.iter().enumerate() {
        let options = [0, 1, 5][at % 3];
        let version = if at == 4 { 0x40 } else { 0 };
        let geneve = geneve(version, options, *protocol, 5, packet);
        list.extend(over_udp(6081, &geneve));
        if at == 3 {
            let outer = ip4([1, 2, 3, 4], [5, 6, 7, 8], 17, 0, &[], &udp(6081, &geneve));
            list.extend(over_udp(6081, &self::geneve(0, 2, 0x0800, 9, &outer)));
        }
        let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0][..], packet].concat();
        list.extend(over_udp(4789, &vxlan));
    }
    list
}

fn geneve(version: u8, options: u8, protocol: u16, network: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version | options, 0];
    bytes.extend(protocol.to_be_bytes());
    bytes.extend([0, 0, network, 0]);
    bytes.extend(vec![0; usize::from(options) * 4]);
    bytes.extend(packet);
    bytes
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34];
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 60, 0, 0]);
    bytes.extend(payload);
    bytes
}

fn over_udp(port: u16, payload: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let udp = udp(port, payload);
    vec![
        v4(17, 0, &[], &udp),
        v4(17, 0, &[1; 8], &udp),
        v4(17, 3, &[], &udp),
        v6(17, &udp),
    ]
}

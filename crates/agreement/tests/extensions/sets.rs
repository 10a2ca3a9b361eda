//! Tests of `in { … }`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::build::{Ip4, TCP, UDP, ethernet, ip4, ip4_frame, ip6, ip6_frame, tagged, tcp, udp};
use crate::machines::Machines;
use crate::table::Case;

fn from_to(src: u16, dst: u16) -> [Vec<u8>; 4] {
    [
        ip4_frame(&ip4(TCP, &tcp(src, dst, 2))),
        ip4_frame(&ip4(UDP, &udp(src, dst, &[]))),
        ip6_frame(&ip6(TCP, &tcp(src, dst, 2))),
        ip6_frame(&ip6(UDP, &udp(src, dst, &[]))),
    ]
}

fn hosts(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
    let addresses = Ip4 {
        src,
        dst,
        ..Ip4::default()
    };
    ip4_frame(&addresses.packet(UDP, &udp(1, 2, &[])))
}

fn arp(sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
    let packet = [&head[..], &sender, &[0; 6], &target].concat();
    ethernet(0x0806, &packet)
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn cases() -> Vec<Case> {
    let [tcp4, udp4, tcp6, udp6] = from_to(40_000, 443);
    let [far_tcp4, far_udp4, far_tcp6, _] = from_to(8_050, 9);
    let none = from_to(1, 2).to_vec();
    let a = hosts([10, 0, 0, 1], [192, 168, 7, 7]);
    let b = hosts([172, 16, 5, 5], [10, 0, 0, 9]);
    let c = hosts([1, 2, 3, 4], [5, 6, 7, 8]);
    let vlan = |id| tagged(id, 0x0800, &ip4(UDP, &udp(1, 53, &[])));
    vec![
        (
            "port in { 80, 443, 8000-8100 }",
            vec![
                tcp4.clone(),
                udp6.clone(),
                far_tcp4.clone(),
                far_udp4.clone(),
            ],
            none.clone(),
        ),
        (
            "tcp dst port in {443}",
            vec![tcp4.clone(), tcp6.clone()],
            vec![udp4.clone(), far_tcp4.clone()],
        ),
        (
            "tcp src port in { 443, 8000 - 8100 }",
            vec![far_tcp4.clone(), far_tcp6.clone()],
            vec![tcp4.clone(), far_udp4.clone()],
        ),
        (
            "not port in { 443, 8050 }",
            none.clone(),
            vec![tcp4.clone(), far_tcp6],
        ),
        (
            "port in { http, domain, 443 }",
            vec![
                tcp4.clone(),
                from_to(53, 9)[1].clone(),
                from_to(80, 9)[0].clone(),
            ],
            vec![from_to(80, 9)[1].clone()],
        ),
        (
            "port in { 443 } or 2",
            [vec![tcp4.clone()], none.clone()].concat(),
            vec![far_tcp4],
        ),
        (
            "udp portrange in { 400-500, 7 }",
            vec![udp4.clone()],
            vec![tcp4.clone()],
        ),
        (
            "host in { 10.0.0.1, 10.0.0.9 }",
            vec![a.clone(), b.clone(), arp([10, 0, 0, 9], [1, 1, 1, 1])],
            vec![c.clone(), arp([10, 0, 0, 2], [1, 1, 1, 1])],
        ),
        (
            "ip src host in { 10.0.0.1, 172.16.5.5 }",
            vec![a.clone(), b.clone()],
            vec![c.clone(), arp([10, 0, 0, 1], [1, 1, 1, 1])],
        ),
        (
            "net in { 10.0.0.0/8, 192.168.0.0/16, 2001:db8::/32 }",
            vec![a.clone(), b.clone(), tcp6.clone()],
            vec![c.clone()],
        ),
        (
            "dst net in { 192.168.0.0 mask 255.255.0.0, 10 }",
            vec![a.clone(), b.clone()],
            vec![c.clone(), tcp4.clone()],
        ),
        (
            "net in { 10, 172.16.5 }",
            vec![a.clone(), b.clone()],
            vec![c.clone()],
        ),
        (
            "host in { www, 5.6.7.8 }",
            vec![tcp4.clone(), c.clone()],
            vec![a.clone(), tcp6.clone()],
        ),
        (
            "host in { www6, mail }",
            vec![tcp6.clone()],
            vec![a.clone(), tcp4.clone()],
        ),
        (
            "ether host in { 02:00:00:00:00:01, 2:2:2:2:2:2 }",
            vec![tcp4.clone()],
            vec![],
        ),
        (
            "ether dst in { 02:00:00:00:00:01, 2:2:2:2:2:2 }",
            vec![],
            vec![tcp4.clone()],
        ),
        (
            "ip proto in { 1, \\tcp, 40-50 }",
            vec![tcp4.clone()],
            vec![udp4.clone(), tcp6.clone()],
        ),
        (
            "ether proto in { 0x86dd, 0x0806 }",
            vec![tcp6.clone(), arp([1; 4], [2; 4])],
            vec![tcp4.clone()],
        ),
        (
            "vlan in { 1, 100-200 } and udp port 53",
            vec![vlan(1), vlan(100), vlan(0x6096)],
            vec![vlan(2), vlan(201), udp4.clone()],
        ),
        (
            "tcp[0:2] in { 1, 40000 }",
            vec![tcp4.clone(), none[0].clone()],
            vec![udp4.clone(), tcp6.clone()],
        ),
        (
            "ip[9] in { 6, 17-20 } and ip[8] in {64}",
            vec![tcp4.clone(), udp4.clone()],
            vec![tcp6.clone()],
        ),
        ("len in { 40-60 }", vec![tcp4.clone()], vec![tcp6.clone()]),
        (
            "(ip[8] * 2) in { 128 }",
            vec![tcp4.clone()],
            vec![tcp6.clone()],
        ),
        (
            "tcp[tcpflags] in { tcp-syn, tcp-ack }",
            vec![tcp4],
            vec![udp4],
        ),
    ]
}

pub(crate) fn verdicts(machines: Machines) {
    for (expression, taken, left) in cases() {
        machines.takes(expression, &taken, &left);
    }
    for seed in 1..12 {
        random_set(machines, seed);
    }
}

/// Tests a random set of ports: for each port the result must equal a look-up in the set.
fn random_set(machines: Machines, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u16::try_from(state % below).expect("below 65,536")
    };
    let mut members = BTreeSet::new();
    let mut elements = Vec::new();
    for _ in 0..seed * 4 {
        let first = next(65_000);
        let last = first + next(3) * next(40);
        members.extend(first..=last);
        elements.push(match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
    }
    let expression = format!("udp dst port in {{ {} }}", elements.join(","));
    let tried: BTreeSet<u16> = members
        .iter()
        .flat_map(|&port| [port.saturating_sub(1), port, port.saturating_add(1)])
        .chain([0, 1, 65_535])
        .collect();
    let packets: Vec<(Vec<u8>, bool)> = tried
        .into_iter()
        .map(|port| {
            (
                ip4_frame(&ip4(UDP, &udp(9, port, &[]))),
                members.contains(&port),
            )
        })
        .collect();
    let views: Vec<(&[u8], bool)> = packets
        .iter()
        .map(|(data, taken)| (&data[..], *taken))
        .collect();
    machines.check(&expression, &views);
}

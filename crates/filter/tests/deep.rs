//! Several `deep ( … )` in one expression: the walk over the headers is made once where that is
//! enough, and they decide like one around all of it.
#![forbid(unsafe_code)]

use ringtap_filter::{CompileOptions, LinkType, Program, Tables, compile};

/// Pairs that accept the same packets.
const EQUAL: [(&str, &str); 6] = [
    (
        "deep (tcp port 80) or deep (udp port 53) or deep (icmp6) or deep (sctp)",
        "deep (tcp port 80 or udp port 53 or icmp6 or sctp)",
    ),
    (
        "deep (tcp) and deep (port 80) and not deep (src port 80)",
        "deep (tcp and port 80 and not src port 80)",
    ),
    (
        "not deep (tcp) and (deep (udp) or deep (icmp6))",
        "deep (not tcp and (udp or icmp6))",
    ),
    // The first part is not evaluated if the packet has the other version.
    (
        "(ip and deep (tcp port 80)) or deep (udp port 53)",
        "deep ((ip and tcp port 80) or udp port 53)",
    ),
    (
        "ip and deep (tcp port 80) or deep (udp port 53)",
        "deep (ip and tcp port 80 or udp port 53)",
    ),
    (
        "ip or deep (tcp port 80) and deep (dst port 80)",
        "deep ((ip or tcp port 80) and dst port 80)",
    ),
];

fn compiled(expression: &str, optimize: bool) -> Program {
    let mut options = CompileOptions::new(LinkType::ETHERNET);
    options.extensions = true;
    options.optimize = optimize;
    compile(expression, &options, &Tables::new()).expect(expression)
}

/// Makes a packet over IPv4, or over IPv6 with this many headers of options.
fn packet(version: u8, options: usize, protocol: u8, ports: [u8; 2]) -> Vec<u8> {
    let mut packet = vec![0; 12];
    let transport = [[0, ports[0]], [0, ports[1]]].concat();
    if version == 4 {
        packet.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol]);
        packet.extend([0; 10]);
    } else {
        const DESTINATION_OPTIONS: u8 = 60;
        let next = |left: usize| {
            if left == 0 {
                protocol
            } else {
                DESTINATION_OPTIONS
            }
        };
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, next(options), 64]);
        packet.extend([0; 32]);
        for left in (0..options).rev() {
            packet.extend([next(left), 0, 1, 4, 0, 0, 0, 0]);
        }
    }
    packet.extend(transport);
    packet.resize(120, 0);
    packet
}

#[test]
fn several_walks_decide_as_one() {
    let packets: Vec<Vec<u8>> = [4, 6]
        .iter()
        .flat_map(|&version| (0..3).map(move |options| (version, options)))
        .flat_map(|of| [6, 17, 58, 132, 1].map(|protocol| (of, protocol)))
        .flat_map(|of| [[80, 9], [9, 80], [53, 9], [9, 9]].map(|ports| (of, ports)))
        .map(|(((version, options), protocol), ports)| packet(version, options, protocol, ports))
        .collect();
    for (several, one) in EQUAL {
        let one = compiled(one, true);
        let (mut taken, mut refused) = (0, 0);
        for program in [compiled(several, false), compiled(several, true)] {
            for packet in &packets {
                let verdict = program.run(packet, 120);
                assert_eq!(verdict, one.run(packet, 120), "{several}: {packet:x?}");
                *(if verdict == 0 {
                    &mut refused
                } else {
                    &mut taken
                }) += 1;
            }
        }
        assert!(
            taken > 0 && refused > 0,
            "{several}: {taken} of {}",
            taken + refused
        );
    }
}

//! Primitives that the manual page of libpcap 1.11 has and 1.10 has not, tested without libpcap.
//! These are `vxlan`, `gateway` with a name, names after `ether proto`, prefixes after a direction,
//! and block acknowledgements of 802.11. Additions of 1.11 for single link types are in
//! `docs/reference/filter-link-types.md` and in `testdata/filter/agreement/newer.txt`.
#![forbid(unsafe_code)]

use ringtap_filter::{CompileOptions, LinkType, Tables, compile};

/// Returns whether the expression accepts the packet, optimised and not.
fn takes(expression: &str, packet: &[u8]) -> bool {
    let mut tables = Tables::new();
    tables.add_hosts("10.0.0.254 router\n2001:db8::fe router\n");
    tables.add_ethers("2:0:0:0:0:fe router\n");
    let length = u32::try_from(packet.len()).expect("short");
    let verdicts = [false, true].map(|optimize| {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.optimize = optimize;
        let program = compile(expression, &options, &tables).expect(expression);
        program.run(packet, length) != 0
    });
    assert_eq!(verdicts[0], verdicts[1], "{expression}");
    verdicts[0]
}

fn frame(destination: u8, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, 1];
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn ip4(protocol: u8, destination: [u8; 4], options: usize, payload: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options).expect("few options");
    let mut bytes = vec![0x40 | words, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes.extend([10, 0, 0, 1]);
    bytes.extend(destination);
    bytes.extend(vec![1; options * 4]);
    bytes.extend(payload);
    bytes
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    bytes.extend(payload);
    bytes
}

/// Makes a UDP packet with a VXLAN header of network 7, and an inner frame with TCP to port 80.
fn vxlan(port: u16, flags: u8) -> Vec<u8> {
    let inner = frame(9, 0x0800, &ip4(6, [192, 0, 2, 7], 1, &[0x12, 0x34, 0, 80]));
    let mut bytes = vec![0x12, 0x34];
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 0, 0, 0, flags, 0, 0, 0, 0, 0, 7, 0]);
    bytes.extend(inner);
    bytes
}

#[test]
fn vxlan_is_looked_into() {
    let tunnel = vxlan(4789, 0x08);
    let carried = [
        frame(1, 0x0800, &ip4(17, [10, 0, 0, 2], 0, &tunnel)),
        frame(1, 0x0800, &ip4(17, [10, 0, 0, 2], 3, &tunnel)),
        frame(1, 0x86dd, &ip6(17, &tunnel)),
    ];
    for packet in &carried {
        for taken in [
            "vxlan",
            "vxlan 7",
            "vxlan (7)",
            "vxlan and ip",
            "vxlan 7 and host 192.0.2.7",
            "vxlan and tcp port 80",
            "vxlan and ether dst 2:0:0:0:0:9",
            "vxlan and ether[5] = 9",
            "udp and vxlan and tcp",
        ] {
            assert!(takes(taken, packet), "{taken} on {packet:02x?}");
        }
        for left in [
            "vxlan 8",
            "vxlan and udp",
            "vxlan and ip6",
            "vxlan and vlan",
            "vxlan and tcp port 81",
            "vxlan and ether dst 2:0:0:0:0:1",
            "geneve",
        ] {
            assert!(!takes(left, packet), "{left} on {packet:02x?}");
        }
    }
    let others = [
        frame(1, 0x0800, &ip4(17, [10, 0, 0, 2], 0, &vxlan(4790, 0x08))),
        frame(1, 0x0800, &ip4(17, [10, 0, 0, 2], 0, &vxlan(4789, 0xf7))),
        frame(1, 0x0800, &ip4(6, [10, 0, 0, 2], 0, &tunnel)),
    ];
    for packet in &others {
        assert!(!takes("vxlan", packet), "{packet:02x?}");
    }
}

/// A name that has become a keyword is still a name where only a name is allowed.
#[test]
fn vxlan_is_still_a_name() {
    let mut tables = Tables::new();
    tables.add_hosts("10.0.0.1 vxlan\n");
    let options = CompileOptions::new(LinkType::ETHERNET);
    let by_address = compile("host 10.0.0.1", &options, &tables).expect("a host");
    for expression in ["host vxlan", "host \\vxlan", "src or dst vxlan"] {
        let by_name = compile(expression, &options, &tables).expect(expression);
        assert_eq!(by_name, by_address, "{expression}");
    }
}

#[test]
fn a_gateway_has_the_hardware_address_and_not_the_other() {
    let through = frame(0xfe, 0x0800, &ip4(17, [192, 0, 2, 1], 0, &[0; 8]));
    let to_itself = frame(0xfe, 0x0800, &ip4(17, [10, 0, 0, 254], 0, &[0; 8]));
    let elsewhere = frame(2, 0x0800, &ip4(17, [192, 0, 2, 1], 0, &[0; 8]));
    for expression in ["gateway router", "ip gateway router"] {
        assert!(takes(expression, &through), "{expression}");
        assert!(!takes(expression, &to_itself), "{expression}");
        assert!(!takes(expression, &elsewhere), "{expression}");
    }
    assert!(takes("arp gateway router", &to_itself));
}

/// Both names must be known, and the link layer must have hardware addresses.
#[test]
fn a_gateway_needs_both_addresses() {
    let mut tables = Tables::new();
    tables.add_hosts("10.0.0.1 card-unknown\n2001:db8::1 six\n");
    tables.add_ethers("2:0:0:0:0:1 address-unknown\n2:0:0:0:0:6 six\n");
    let ethernet = CompileOptions::new(LinkType::ETHERNET);
    for name in ["card-unknown", "address-unknown", "six"] {
        let expression = format!("gateway {name}");
        assert!(compile(&expression, &ethernet, &tables).is_err(), "{name}");
    }
    tables.add_hosts("10.0.0.2 six\n");
    assert!(compile("gateway six", &ethernet, &tables).is_ok());
    let raw = CompileOptions::new(LinkType::RAW);
    assert!(compile("gateway six", &raw, &tables).is_err());
}

#[test]
fn ether_types_have_more_names() {
    assert!(takes("ether proto lldp", &frame(1, 0x88cc, &[0; 20])));
    assert!(takes("ether proto slow", &frame(1, 0x8809, &[0; 20])));
    assert!(!takes("ether proto slow", &frame(1, 0x88cc, &[0; 20])));
}

/// After `src` and `dst` a prefix needs no `net`, and means the same as with it.
#[test]
fn a_prefix_behind_a_direction_is_a_network() {
    let options = CompileOptions::new(LinkType::ETHERNET);
    let program = |text: &str| compile(text, &options, &Tables::new()).expect(text);
    for (short, long) in [
        ("src 10.0.0.0/8", "src net 10.0.0.0/8"),
        ("dst 2001:db8::/32", "dst net 2001:db8::/32"),
        ("ip src or dst 10.0/16", "ip src or dst net 10.0/16"),
        ("arp dst 10.0.0.0/8", "arp dst net 10.0.0.0/8"),
        ("ip6 src and dst ::/0", "ip6 src and dst net ::/0"),
        (
            "src 10.1.2.3/32 or 192.0.2.0/24",
            "src net 10.1.2.3/32 or 192.0.2.0/24",
        ),
        (
            "src (10.0.0.0/8 or 192.0.2.1)",
            "src net 10.0.0.0/8 or src host 192.0.2.1",
        ),
    ] {
        assert_eq!(program(short), program(long), "{short}");
    }
}

#[test]
fn block_acknowledgements_have_names() {
    for optimize in [false, true] {
        let mut options = CompileOptions::new(LinkType(105));
        options.optimize = optimize;
        for (name, control) in [("bar", 0x84), ("ba", 0x94)] {
            for expression in [
                format!("type ctl subtype {name}"),
                format!("wlan subtype {name}"),
            ] {
                let program = compile(&expression, &options, &Tables::new()).expect("accepted");
                for other in [0x84, 0x94, 0xb4, 0x88, 0x98] {
                    let taken = program.run(&[other, 0, 0, 0, 2, 0, 0, 0, 0, 1], 10) != 0;
                    assert_eq!(taken, other == control, "{expression} on {other:#x}");
                }
            }
        }
    }
}

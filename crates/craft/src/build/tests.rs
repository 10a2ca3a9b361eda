//! Compares descriptions with the results of another decoder and builder.

use etherparse::{LaxSlicedPacket, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

use super::*;

fn built(text: &str) -> Vec<u8> {
    let built: Built = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    built.0.into_iter().next().expect("a packet")
}

fn error(text: &str) -> String {
    text.parse::<Built>().expect_err(text).to_string()
}

#[test]
fn usual_packets_are_as_the_library_builds_them() {
    let mut expected = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(49_152, 53)
        .write(&mut expected, b"pay\x00load")
        .expect("memory");
    let text = r#"eth(dst=02:00:00:00:00:09)/ipv4(src=10.0.0.1, dst=10.0.0.2, df=1)/udp(dport=53)/"pay\x00load""#;
    assert_eq!(built(text), expected);
    expected.clear();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [0xff; 6])
        .ipv6([0xfe; 16], [0xfd; 16], 64)
        .tcp(5, 6, 7, 65_535)
        .ack(8)
        .psh()
        .write(&mut expected, &[1, 2, 3])
        .expect("memory");
    let address = |byte: &str| vec![byte.repeat(2); 8].join(":");
    let (from, to) = (address("fe"), address("fd"));
    let text = format!(
        "eth/ipv6(src={from},dst={to})/tcp(sport=5,dport=6,seq=7,ack=8,flags=PA)/hex(010203)"
    );
    assert_eq!(built(&text), expected);
}

#[test]
fn tags_labels_and_tunnels_nest() {
    let packet = built(
        "eth/qinq(id=5,pcp=3)/vlan(id=6)/ipv4/udp/vxlan(vni=77)/eth/ipv4(dst=10.9.9.9)/icmp(seq=4)",
    );
    let outer = SlicedPacket::from_ethernet(&packet).expect("whole");
    assert_eq!(outer.vlan_ids().len(), 2);
    assert_eq!(packet[12..20], [0x88, 0xa8, 0x60, 5, 0x81, 0, 0, 6]);
    let Some(TransportSlice::Udp(udp)) = outer.transport else {
        panic!("UDP");
    };
    assert_eq!(udp.destination_port(), 4789);
    assert_eq!(udp.payload()[..8], [8, 0, 0, 0, 0, 0, 77, 0]);
    let inner = SlicedPacket::from_ethernet(&udp.payload()[8..]).expect("whole");
    assert!(matches!(inner.transport, Some(TransportSlice::Icmpv4(_))));
    let packet = built("eth/mpls(label=100,ttl=9)/mpls(label=200,tc=5)/ipv6/udp");
    assert_eq!(
        packet[12..22],
        [0x88, 0x47, 0, 6, 0x40, 9, 0, 0x0c, 0x8b, 64]
    );
    let packet = built("eth/ipv4/gre(key=1,seq=2)/ipv6/icmpv6");
    assert_eq!(packet[23], 47);
    assert_eq!(
        packet[34..46],
        [0x30, 0, 0x86, 0xdd, 0, 0, 0, 1, 0, 0, 0, 2]
    );
}

#[test]
fn options_and_extension_headers() {
    let packet = built("eth/ipv4(options=94040000,ttl=1)/tcp(options=020405b4,flags=S)");
    let sliced = SlicedPacket::from_ethernet(&packet).expect("whole");
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else {
        panic!("IPv4");
    };
    assert_eq!(ip.header().options(), [0x94, 4, 0, 0]);
    assert_eq!(
        ip.header().to_header().calc_header_checksum(),
        ip.header().header_checksum()
    );
    let packet = built(
        "eth/ipv6/hop/route(type=2,left=1,data=000000000102)/frag(id=9,more=1)/dst(options=0102)/udp/zeros(9)",
    );
    let sliced = LaxSlicedPacket::from_ethernet(&packet).expect("Ethernet");
    assert!(sliced.stop_err.is_none(), "{:?}", sliced.stop_err);
    let next: Vec<u8> = [20, 54, 62, 78, 86].map(|at| packet[at]).into();
    assert_eq!(next, [0, 43, 44, 60, 17]);
    assert_eq!(packet.len(), 14 + 40 + 8 + 16 + 8 + 8 + 8 + 9);
}

#[test]
fn arp_and_sctp() {
    let packet = built("eth/arp(op=reply,sha=02:00:00:00:00:07,spa=10.0.0.7,tpa=10.0.0.8)");
    assert_eq!(packet[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    assert_eq!(packet[22..32], [2, 0, 0, 0, 0, 7, 10, 0, 0, 7]);
    assert_eq!(packet.len(), 42);
    let packet = built("eth/ipv4/sctp(sport=1,dport=2,tag=0x01020304)/hex(0b000004)");
    assert_eq!(packet[23], 132);
    assert_eq!(packet[34..42], [0, 1, 0, 2, 1, 2, 3, 4]);
}

#[test]
fn a_file_has_several_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("packets.toml");
    let text = r#"
        [[packet]]
        spec = 'eth/ipv4/udp/"a"'
        [[packet]]
        layers = [
            { type = "eth", dst = "02:00:00:00:00:05" },
            { type = "vlan", id = 7, dei = true },
            { type = "ipv4", ttl = 3 },
            { type = "udp", dport = 0x35 },
            { payload = "text" },
        ]
    "#;
    std::fs::write(&path, text).expect("written");
    let packets: Built = path.to_str().expect("UTF-8").parse().expect("built");
    let expected = [
        built(r#"eth/ipv4/udp/"a""#),
        built(r#"eth(dst=02:00:00:00:00:05)/vlan(id=7,dei=1)/ipv4(ttl=3)/udp(dport=53)/"text""#),
    ];
    assert_eq!(packets.0, expected);
    std::fs::write(&path, "[[packet]]\nlayers = [{ type = 'udp' }]").expect("written");
    let message = error(path.to_str().expect("UTF-8"));
    assert_eq!(message, "packet 0: udp: it must follow ipv4 or ipv6");
    let layers = "[[packet]]\nlayers = [{ type = 'ether' }, { type = 'udp' }]";
    std::fs::write(&path, layers).expect("written");
    let message = error(path.to_str().expect("UTF-8"));
    assert_eq!(
        message,
        "packet 0: layer 1: unknown layer \"ether\"; write eth"
    );
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("", "no layers"),
        ("eth/", "a layer such as ipv4"),
        ("eth ipv4", "at character 5: expected / and another layer"),
        ("eth/ipv5", "unknown layer \"ipv5\""),
        (
            "eth/ipv4(to=1)",
            "ipv4 has no field \"to\"; it has options, tos",
        ),
        (
            "eth/ipv4(dst=1.2.3)",
            "dst is \"1.2.3\", expected an IPv4 address",
        ),
        ("eth/ipv4(ttl=256)", "ttl is \"256\""),
        ("eth/vlan(id=4096)", "id is \"4096\""),
        ("eth/udp", "udp: it must follow"),
        (
            "eth/ip/udp",
            "at character 5: unknown layer \"ip\"; write ipv4 or ipv6",
        ),
        (
            "eth/ipv4/ud(dport=1)/tcp",
            "at character 10: unknown layer \"ud\"; layers are eth, vlan",
        ),
        ("eth/ipv4/icmpv6", "icmpv6: it must follow ipv6"),
        ("eth/ipv4/udp/zeros(65520)", "more than 65535"),
        ("eth/zeros(99999999)", "zeros: "),
        ("\"abc", "a closing quotation mark"),
        ("\"\\q\"", "hexadecimal digits"),
        ("eth(", "a field such as"),
        ("hex(123)", "pairs of hexadecimal digits"),
        ("eth/tcp(flags=X)", "flags is \"X\""),
    ] {
        let message = match text {
            "eth/" => continue,
            text => error(text),
        };
        assert!(message.contains(expected), "{text}: {message}");
    }
}

proptest::proptest! {
    /// Any text gives a result or an error, and the size of the result is limited.
    #[test]
    fn any_text_is_answered(text in r#"(eth|vlan|mpls|ipv4|ipv6|hop|route|frag|udp|tcp|sctp|gre|vxlan|arp|icmp|hex|zeros|[/(),="\\ 0-9a-fx])*"#) {
        if let Ok(built) = text.parse::<Built>() {
            proptest::prop_assert!(built.0.iter().all(|packet| packet.len() <= 65_535));
        }
    }

    /// Layers in any order are built or rejected.
    #[test]
    fn any_order_is_answered(names in proptest::collection::vec(proptest::sample::select(frame::NAMES.to_vec()), 1..12)) {
        let _ = names.join("/").parse::<Built>();
    }
}

#[test]
fn what_a_short_text_stands_for_is_bounded() {
    let many = "[[packet]]\nspec = \"zeros(65535)\"\n".repeat(5000);
    let refused = Built::from_toml(&many, Path::new("many")).expect_err("327 MB");
    assert!(
        matches!(refused, BuildError::TooMuch { number: 4096 }),
        "{refused}"
    );
    let endless = Path::new("/dev/zero");
    let refused = file::read(endless).expect_err("it has no end");
    assert!(refused.to_string().contains("too large"), "{refused}");
}

#[test]
fn a_field_given_twice_is_told() {
    assert_eq!(
        error("eth/ipv4(dst=10.0.0.1,dst=10.0.0.2)"),
        "ipv4: dst is \"10.0.0.2\", expected each field once"
    );
}

//! Checks that live equals file: a program on the delivered packet and its lowered form on the
//! packet as the socket's filter sees it must decide alike.

use ringtap_agreement::packets::made as packets;
use ringtap_filter::program::Ancillary;
use ringtap_filter::program::opcode as op;
use ringtap_filter::socket::{Direction, Header, NotLowerable, SocketView, lower};
use ringtap_filter::{CompileOptions, Insn, LinkType, Program, Tables, compile};

const RAW: SocketView = SocketView {
    header: Header::Own,
    vlan: true,
    direction: Direction::Both,
    snaplen: 262_144,
};
const COOKED_V1: SocketView = SocketView {
    header: Header::CookedV1,
    ..RAW
};
const COOKED: SocketView = SocketView {
    header: Header::CookedV2,
    ..RAW
};

/// Expressions that load before, in, across and after the place of a tag, at constant offsets and at computed
/// ones.
const EXPRESSIONS: &[&str] = &[
    "",
    "ip",
    "tcp port 80",
    "not tcp port 80",
    "host 10.0.0.1 or ip6 host 2001:db8::1",
    "vlan",
    "vlan 100",
    "not vlan 100",
    "vlan 100 and ip and tcp",
    "vlan 100 and vlan 200 and udp port 53",
    "vlan and tcp[13] & 2 != 0",
    "vlan 5 or vlan 100 or tcp",
    "ether broadcast",
    "ether src 1:2:3:4:5:6 and vlan",
    "ether[12:2] = 0x8100",
    "ether[12:4] = 0x81000064",
    "ether[13:2] = 0x0020 or ether[13] = 0",
    "ether[15] = 100",
    "ether[11:2] & 0xff = 0x81",
    "ether[10:4] = 0x05068100 or ether[10:4] = 0x03048100",
    "ether[9:4] & 0xff = 0x81",
    "ether[15:2] = 0x6408",
    "ether[14:4] & 0xffff = 0x0800",
    "ether[15:4] & 0xff != 0",
    "ether[ether[0]] = 5",
    "ether[ether[5] & 0x1f:2] = 0x8100",
    "ether[ether[0] & 0xf:4] > 0x40000000",
    "not ether[len - 1] = 5",
    "not ether[0 - 1] = 5",
    "not ether[-1] = 5",
    "not ip[0xffffffff] = 5",
    "ip[ip[0] & 0xf] = 6",
    "len > 60",
    "len = 60 or len = 64 or len = 78",
    "len - 4 > ether[12:2]",
    "ip[2:2] + 14 = len",
    "ip[2:2] + 18 = len",
    "ether[len - 5] = 0x0d",
    "less 74 and greater 60",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
    "arp or rarp or icmp6",
    "net 10.0.0.0/8 and not portrange 50-100",
];

#[test]
fn ethernet_with_and_without_stripped_tag() {
    let mut tagged = 0;
    for optimize in [true, false] {
        for expression in EXPRESSIONS {
            let program = compiled(expression, LinkType::ETHERNET, optimize);
            let lowered = lower(&program, &RAW).expect(expression);
            for (delivered, len) in whole(1) {
                let (seen, ancillary) = stripped(&delivered);
                tagged += usize::from(ancillary.vlan_tci.is_some());
                let seen_len = if ancillary.vlan_tci.is_some() {
                    len - 4
                } else {
                    len
                };
                let file = program.run(&delivered, len);
                let live = lowered.run_with(&seen, seen_len, &ancillary);
                assert_eq!(file > 0, live > 0, "{expression:?} {delivered:02x?}");
            }
        }
    }
    assert!(tagged > 10_000, "only {tagged} packets had a tag");
}

/// Returns a frame as the kernel stores it: a tag in the metadata, the rest in the packet.
fn stripped(frame: &[u8]) -> (Vec<u8>, Ancillary) {
    let tpid = u16::from_be_bytes([frame[12], frame[13]]);
    if !matches!(tpid, 0x8100 | 0x88a8) {
        return (frame.to_vec(), Ancillary::default());
    }
    let vlan_tci = Some(u16::from_be_bytes([frame[14], frame[15]]));
    let seen = [&frame[..12], &frame[16..]].concat();
    (
        seen,
        Ancillary {
            vlan_tci,
            vlan_tpid: tpid,
            ..Ancillary::default()
        },
    )
}

/// Returns packets that were captured completely.
fn whole(dlt: u32) -> impl Iterator<Item = (Vec<u8>, u32)> {
    packets::generated(dlt)
        .into_iter()
        .filter(|(data, len)| data.len() == *len as usize)
}

fn compiled(expression: &str, link_type: LinkType, optimize: bool) -> Program {
    let mut options = CompileOptions::new(link_type);
    options.optimize = optimize;
    compile(expression, &options, &Tables::new())
        .unwrap_or_else(|error| panic!("{}", error.render(expression)))
}

const COOKED_EXPRESSIONS: &[&str] = &[
    "",
    "ip",
    "tcp port 80",
    "not tcp port 80",
    "host 10.0.0.1 or ip6 host 2001:db8::1",
    "arp",
    "inbound",
    "outbound and udp",
    "ifindex 1",
    "not ifindex 1",
    "ether[0:2] = 0x0800",
    "ether[0:2] = 0x8100",
    "ether[0] = 8",
    "ether[1] = 6",
    "ether[2:2] = 0",
    "ether[0:4] = 0x08000000",
    "ether[1:4] = 0x06000000",
    "ether[4:4] = 1",
    "ether[5:2] = 0",
    "ether[7] = 1",
    "ether[8:2] = 1",
    "ether[10] = 4",
    "ether[9:2] = 0x0104",
    "ether[20] = 0x45",
    "ether[22:2] = 0x0800",
    "ether[20:4] = 0x00640800",
    "ip[0] & 0xf = 5",
    "ip[ip[0] & 0xf] = 6",
    "ip[ip[0] & 0x3:2] != 0x4500",
    "len > 60",
    "len = 76 or len = 80",
    "ip[2:2] + 20 = len",
    "not ip[-16] = 5",
];

const COOKED_V1_EXPRESSIONS: &[&str] = &[
    "",
    "ip",
    "tcp port 80",
    "not tcp port 80",
    "host 10.0.0.1 or ip6 host 2001:db8::1",
    "arp",
    "inbound",
    "outbound and udp",
    "ether[0] = 0",
    "ether[0:2] = 4",
    "ether[1] = 4",
    "ether[1:2] = 0x0400",
    "ether[0:4] = 0x00040001",
    "ether[2:2] = 1",
    "ether[14:2] = 0x0800",
    "ether[14:2] = 0x8100",
    "ether[14] = 8",
    "ether[15:2] = 0x0045",
    "ether[16] = 0x45",
    "ether[18:2] = 0x0800",
    "ether[16:4] = 0x00640800",
    "ip[0] & 0xf = 5",
    "ip[ip[0] & 0xf] = 6",
    "len > 60",
    "len = 76 or len = 80",
    "ip[2:2] + 16 = len",
    "not ip[-16] = 5",
];

#[test]
fn cooked_with_and_without_stripped_tag() {
    for (view, link_type, expressions) in [
        (COOKED_V1, LinkType::LINUX_SLL, COOKED_V1_EXPRESSIONS),
        (COOKED, LinkType::LINUX_SLL2, COOKED_EXPRESSIONS),
    ] {
        for optimize in [true, false] {
            for expression in expressions {
                let program = compiled(expression, link_type, optimize);
                let lowered = lower(&program, &view).expect(expression);
                for (delivered, len) in whole(link_type.to_dlt()) {
                    for tag in [None, Some(0x2064)] {
                        let cooked = (view.header, &delivered[..]);
                        check_cooked(&program, &lowered, expression, cooked, len, tag);
                    }
                }
            }
        }
    }
}

/// Compares a cooked capture: the payload as the socket sees it, with the header in the metadata. A
/// tag is inserted between them in the delivered packet.
fn check_cooked(
    program: &Program,
    lowered: &Program,
    expression: &str,
    (version, cooked): (Header, &[u8]),
    len: u32,
    tag: Option<u16>,
) {
    const TPID: u16 = 0x8100;
    // The offsets of the protocol, the hardware type and the packet type.
    let (header_len, protocol_at, hatype_at, pkttype_at) = match version {
        Header::CookedV1 => (16, 14, 2, 1),
        _ => (20, 0, 8, 10),
    };
    let (header, payload) = cooked.split_at(header_len);
    let protocol = [header[protocol_at], header[protocol_at + 1]];
    let (delivered, delivered_len) = match tag {
        None => (cooked.to_vec(), len),
        Some(tci) => {
            let mut first = header.to_vec();
            first[protocol_at..protocol_at + 2].copy_from_slice(&TPID.to_be_bytes());
            let between = [tci.to_be_bytes(), protocol].concat();
            ([&first[..], &between, payload].concat(), len + 4)
        }
    };
    let ancillary = Ancillary {
        protocol: u16::from_be_bytes(protocol),
        ifindex: match version {
            Header::CookedV1 => 7,
            _ => u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        },
        hatype: u16::from_be_bytes([header[hatype_at], header[hatype_at + 1]]),
        pkttype: header[pkttype_at],
        vlan_tci: tag,
        vlan_tpid: if tag.is_some() { TPID } else { 0 },
        ..Ancillary::default()
    };
    let file = program.run(&delivered, delivered_len);
    let seen_len = len - u32::try_from(header_len).expect("20 at most");
    let live = lowered.run_with(payload, seen_len, &ancillary);
    assert_eq!(
        file > 0,
        live > 0,
        "{expression:?} tag {tag:?} {delivered:02x?}"
    );
}

#[test]
fn direction_is_asked_first() {
    let program = compiled("ip", LinkType::ETHERNET, true);
    let (frame, len) = whole(1)
        .find(|(frame, len)| program.run(frame, *len) > 0)
        .expect("ip");
    for (direction, received, sent) in [
        (Direction::Both, true, true),
        (Direction::In, true, false),
        (Direction::Out, false, true),
    ] {
        let lowered = lower(&program, &SocketView { direction, ..RAW }).expect("lowerable");
        for (pkttype, wanted) in [(0, received), (1, received), (3, received), (4, sent)] {
            let ancillary = Ancillary {
                pkttype,
                ..Ancillary::default()
            };
            let verdict = lowered.run_with(&frame, len, &ancillary);
            assert_eq!(verdict > 0, wanted, "{direction:?} {pkttype}");
        }
    }
}

/// The bytes kept are enough for the snaplen once header and tag are inserted again.
#[test]
fn snaplen_counts_delivered_bytes() {
    let tag = Ancillary {
        vlan_tci: Some(5),
        vlan_tpid: 0x8100,
        ..Ancillary::default()
    };
    let data = [0; 100];
    let everything = compiled("not ether[0] = 1", LinkType::ETHERNET, true);
    for (snaplen, plain, tagged) in [
        (96, 96, 92),
        (16, 16, 12),
        (15, 15, 12),
        (10, 10, 10),
        (1, 1, 1),
    ] {
        let lowered = lower(&everything, &SocketView { snaplen, ..RAW }).expect("lowerable");
        assert_eq!(
            lowered.run_with(&data, 100, &Ancillary::default()),
            plain,
            "{snaplen}"
        );
        assert_eq!(lowered.run_with(&data, 100, &tag), tagged, "{snaplen}");
    }
    let everything = compiled("not ether[0] = 1", LinkType::LINUX_SLL2, true);
    for (snaplen, plain, tagged) in [(96, 76, 72), (24, 4, 1), (20, 1, 1), (4, 1, 1)] {
        let lowered = lower(&everything, &SocketView { snaplen, ..COOKED }).expect("lowerable");
        assert_eq!(
            lowered.run_with(&data, 100, &Ancillary::default()),
            plain,
            "{snaplen}"
        );
        assert_eq!(lowered.run_with(&data, 100, &tag), tagged, "{snaplen}");
    }
}

#[test]
fn what_cannot_be_lowered_says_why() {
    let address = compiled("ether[12:4] = 5", LinkType::LINUX_SLL2, true);
    assert_eq!(
        lower(&address, &COOKED).err(),
        Some(NotLowerable::HeaderByte(12))
    );
    let length = compiled("ether[4:2] = 6", LinkType::LINUX_SLL, true);
    assert_eq!(
        lower(&length, &COOKED_V1).err(),
        Some(NotLowerable::HeaderByte(4))
    );
    let mut insns: Vec<Insn> = (0..16).map(|slot| Insn::new(op::ST, slot)).collect();
    insns.push(Insn::new(op::LDX | op::LEN, 0));
    insns.push(Insn::new(op::RET, 1));
    let full = Program::new(insns).expect("valid");
    assert_eq!(lower(&full, &RAW).err(), Some(NotLowerable::NoScratch));
    let hosts: Vec<String> = (0..150).map(|n| format!("host 10.0.0.{n}")).collect();
    let long = compiled(&hosts.join(" or "), LinkType::ETHERNET, false);
    assert!(matches!(
        lower(&long, &RAW),
        Err(NotLowerable::TooLong(4097..))
    ));
}

/// A long program needs jumps beyond 255 instructions in both copies.
#[test]
fn long_programs_keep_their_meaning() {
    let hosts: Vec<String> = (0..40).map(|n| format!("host 10.0.0.{n}")).collect();
    let program = compiled(&hosts.join(" or "), LinkType::ETHERNET, false);
    assert!(program.insns().len() > 900);
    let lowered = lower(&program, &RAW).expect("lowerable");
    for (delivered, len) in whole(1) {
        let (seen, ancillary) = stripped(&delivered);
        let seen_len = if ancillary.vlan_tci.is_some() {
            len - 4
        } else {
            len
        };
        let file = program.run(&delivered, len);
        assert_eq!(file > 0, lowered.run_with(&seen, seen_len, &ancillary) > 0);
    }
}

/// Programs that start with arithmetic on the initial zero must still see it.
#[test]
fn registers_start_at_zero() {
    let program = Program::new(vec![
        Insn::new(op::ALU | op::ADD, 5),
        Insn::jump(op::JMP | op::JEQ, 5, 0, 1),
        Insn::new(op::RET, 9),
        Insn::new(op::RET, 0),
    ])
    .expect("valid");
    let lowered = lower(
        &program,
        &SocketView {
            direction: Direction::Out,
            ..RAW
        },
    )
    .expect("fits");
    let sent = Ancillary {
        pkttype: 4,
        ..Ancillary::default()
    };
    assert_eq!(lowered.run_with(&[0; 20], 20, &sent), 9);
}

/// In a file, a shift by X of 32 or more gives 0; the kernel uses the low bits of X.
#[test]
fn far_shifts_give_nothing() {
    for expression in [
        "1000 << len > 5",
        "1000 >> len = 1000",
        "1 << (len - 60) = 0",
    ] {
        for optimize in [true, false] {
            let program = compiled(expression, LinkType::ETHERNET, optimize);
            let lowered = lower(&program, &RAW).expect(expression);
            let guards = |program: &Program| {
                let far = |insn: &&Insn| insn.code == op::JMP | op::JGT && insn.k == 31;
                program.insns().iter().filter(far).count()
            };
            assert!(guards(&lowered) >= 2, "{expression}: {lowered:?}");
            for len in [60, 64, 91, 92, 100] {
                let file = program.run(&[0; 100], len);
                let live = lowered.run_with(&[0; 100], len, &Ancillary::default());
                assert_eq!(file > 0, live > 0, "{expression} {len}");
            }
        }
    }
}

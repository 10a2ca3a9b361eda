//! Checks that explanations call fields and numbers by their names. Tests inside the crate check
//! that they describe what the program does.

use ringtap_filter::explain::{Cost, Explanation};
use ringtap_filter::program::opcode as op;
use ringtap_filter::{CompileOptions, Insn, LinkType, Program, Tables, compile};

fn explained(link_type: LinkType, expression: &str) -> String {
    let mut options = CompileOptions::new(link_type);
    options.ancillary = true;
    let program = compile(expression, &options, &Tables::new()).expect("a filter");
    let text = Explanation::new(&program, link_type).to_string();
    // Lines may be wrapped anywhere.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn fields_and_numbers_have_their_names() {
    const ETHERNET: LinkType = LinkType::ETHERNET;
    let cases = [
        (
            ETHERNET,
            "ip",
            "if the EtherType (bytes 12–13) is IPv4 (0x0800), accept it; else reject it",
        ),
        (
            ETHERNET,
            "tcp port 80",
            "if the TCP source port (bytes 54–55) is 80 (http), accept it; else go to 4",
        ),
        (
            ETHERNET,
            "udp dst port 53",
            "the UDP destination port (bytes 2–3 after the IPv4 header) is 53 (dns)",
        ),
        (
            ETHERNET,
            "tcp port 80",
            "if the fragment offset (the low 13 bits of bytes 20–21) is not 0, reject it",
        ),
        (ETHERNET, "portrange 8000-8100", "is 8000 to 8100"),
        (
            ETHERNET,
            "ip and tcp src port (22 or 80 or 443)",
            "is 22 (ssh), 80 (http) or 443 (https)",
        ),
        (
            ETHERNET,
            "host 10.0.0.1",
            "the IPv4 source address (bytes 26–29) is 10.0.0.1",
        ),
        (
            ETHERNET,
            "arp host 10.0.0.1",
            "the ARP target's address (bytes 38–41) is 10.0.0.1",
        ),
        (
            ETHERNET,
            "dst net 10.0.0.0/8",
            "the IPv4 destination address (bytes 30–33) is in 10.0.0.0/8",
        ),
        (
            ETHERNET,
            "ip6 host 2001:db8::1",
            "the IPv6 source address (bytes 22–37) is 2001:db8::1",
        ),
        (
            ETHERNET,
            "dst net 2001:db8:8000::/34",
            "the IPv6 destination address (bytes 38–45) is in 2001:db8:8000::/34",
        ),
        (
            ETHERNET,
            "ether src 2:0:0:0:0:1",
            "the source address (bytes 6–11) is 02:00:00:00:00:01",
        ),
        (
            ETHERNET,
            "ether multicast",
            "the group bit of the destination address (byte 0) is set",
        ),
        (
            ETHERNET,
            "vlan 100",
            "the VLAN (the low 12 bits of bytes 14–15) is 100",
        ),
        (
            ETHERNET,
            "vlan and ip",
            "the EtherType (bytes 16–17) is IPv4 (0x0800)",
        ),
        (
            ETHERNET,
            "icmp[icmptype] = icmp-echo",
            "the ICMP type (byte 0 after the IPv4 header) is echo (8)",
        ),
        (
            ETHERNET,
            "icmp6[icmp6type] = 135",
            "the ICMPv6 type (byte 54) is neighbour solicitation (135)",
        ),
        (
            ETHERNET,
            "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
            "the TCP flags (byte 13 after the IPv4 header) & SYN+ACK (0x12) is SYN (0x02)",
        ),
        (
            ETHERNET,
            "ip[8] > 64",
            "the time to live (byte 22) is at most 64, reject it; else accept it",
        ),
        (
            ETHERNET,
            "len <= 100",
            "the packet's length is at most 100, accept it",
        ),
        (
            ETHERNET,
            "inbound",
            "the packet type (direction) is sent by this host (4), reject it",
        ),
        (ETHERNET, "", "Accept every packet"),
        (
            LinkType(284),
            "ip and tcp port 80",
            "the TCP source port (bytes 0–1 after the IPv4 header) is 80 (http)",
        ),
        (
            LinkType(281),
            "vlan 100 and ip",
            "the VLAN (the low 12 bits of bytes 18–19) is 100",
        ),
        (LinkType(281), "outbound", "the switch's tag"),
        (
            LinkType(165),
            "link src $5",
            "the source station (byte 4) is 0x5",
        ),
        (
            LinkType(105),
            "type data",
            "the frame type (0xc of byte 0) is 2",
        ),
        (
            LinkType(105),
            "wlan addr1 2:0:0:0:0:1",
            "the first address (bytes 4–9) is 02:00:00:00:00:01",
        ),
        (
            LinkType(117),
            "action block and rulenum 7",
            "the action of pf (byte 2) is 1",
        ),
        (
            LinkType(117),
            "action block and rulenum 7",
            "the rule number (bytes 36–39) is 7",
        ),
        (
            LinkType(127),
            "type mgt",
            "the frame type (0xc of byte 0 of the 802.11 frame)",
        ),
        (
            LinkType(127),
            "udp",
            "the EtherType (bytes 6–7 after the 802.11 header) is IPv4 (0x0800)",
        ),
        (
            LinkType(127),
            "radio[0] < link[wlan[0]]",
            "the length of the radiotap header",
        ),
        (
            LinkType(163),
            "ip src host 10.0.0.1",
            "the IPv4 source address (bytes 20–23 after the 802.11 header) is 10.0.0.1",
        ),
        (
            LinkType(192),
            "tcp dst port 80",
            "the TCP destination port (bytes 2–3 after the IPv4 header) is 80 (http)",
        ),
        (
            LinkType(192),
            "ip",
            "the link type after the PPI header (bytes 4–7) is 105",
        ),
        (
            LinkType(119),
            "ip6 proto 17",
            "the IPv6 next header (byte 14 after the 802.11 header) is UDP (17)",
        ),
        (
            LinkType(105),
            "udp src port 53",
            "the UDP source port (bytes 0–1 after the IPv4 header) is 53 (dns)",
        ),
        (
            LinkType(117),
            "tcp port 22",
            "the TCP source port (bytes 40–41 after the pf header) is 22 (ssh)",
        ),
        (
            LinkType::RAW,
            "udp",
            "the IP version (the high 4 bits of byte 0) is 4",
        ),
        (
            LinkType::RAW,
            "icmp6[icmp6type] = 128",
            "the ICMPv6 type (byte 40) is echo (128)",
        ),
        (
            LinkType::LINUX_SLL2,
            "ifindex 3",
            "the interface index (bytes 4–7) is 3",
        ),
        (
            LinkType::LINUX_SLL,
            "outbound",
            "the packet type (bytes 0–1) is sent by this host (4)",
        ),
        (
            LinkType::PPP,
            "ip6",
            "the PPP protocol (bytes 2–3) is IPv6 (0x0057)",
        ),
    ];
    for (link_type, expression, phrase) in cases {
        let text = explained(link_type, expression);
        assert!(
            text.contains(phrase),
            "{expression}: no {phrase:?} in {text:?}"
        );
    }
}

#[test]
fn cost_counts_ways_and_bytes() {
    // tcp dst port 80 over IPv4, with the tests that it needs.
    let program = Program::new(vec![
        Insn::new(op::LD | op::H | op::ABS, 12),
        Insn::jump(op::JMP | op::JEQ, 0x800, 0, 6),
        Insn::new(op::LD | op::B | op::ABS, 23),
        Insn::jump(op::JMP | op::JEQ, 6, 0, 4),
        Insn::new(op::LDX | op::B | op::MSH, 14),
        Insn::new(op::LD | op::H | op::IND, 16),
        Insn::jump(op::JMP | op::JEQ, 80, 0, 1),
        Insn::new(op::RET, 262_144),
        Insn::new(op::RET, 0),
    ])
    .expect("a valid program");
    let cost = Cost::of(&program);
    assert_eq!(
        (cost.instructions, cost.shortest, cost.longest),
        (9, 3, Some(8))
    );
    assert_eq!(cost.bytes, [12..=14, 23..=23]);
    assert!(cost.computed_offsets && cost.ancillary.is_empty());
    assert!(cost.fits_kernel() && !cost.has_loop);
}

#[test]
fn a_long_program_does_not_fit_the_kernel() {
    let long = vec![Insn::new(op::RET, 1); op::KERNEL_MAX_INSNS + 1];
    let program = Program::new(long).expect("a valid program");
    assert!(!Cost::of(&program).fits_kernel());
    let text = Explanation::new(&program, LinkType::ETHERNET).to_string();
    assert!(text.contains("accepts at most 4096 instructions"), "{text}");
}

//! Random expressions of the language from a string of choices: mostly valid ones, with mistakes
//! of qualifiers and ranges among them, so that acceptance is tested too.

/// Choices, one after the other; when they run out, always the first alternative, which ends every
/// recursion.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Choices, each of a byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                usize::from(first) % count
            }
            None => 0,
        }
    }

    fn pick<'b>(&mut self, list: &[&'b str]) -> &'b str {
        list[self.below(list.len())]
    }
}

/// One expression.
pub fn expression(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    conditions(choices, 4, &mut text);
    text
}

fn conditions(c: &mut Choices<'_>, depth: u32, out: &mut String) {
    condition(c, depth, out);
    for _ in 0..c.below(3) {
        out.push_str(c.pick(&[" and ", " or ", " && ", " || "]));
        // A value alone takes over the qualifiers before it.
        if c.below(4) == 3 {
            value(c, out);
        } else {
            condition(c, depth, out);
        }
    }
}

fn condition(c: &mut Choices<'_>, depth: u32, out: &mut String) {
    let kinds = if depth == 0 { 4 } else { 7 };
    match c.below(kinds) {
        0 => out.push_str(c.pick(PROTOCOLS)),
        1 => qualified(c, out),
        2 => out.push_str(c.pick(SPECIAL)),
        3 => {
            arithmetic(c, depth.min(2), out);
            out.push_str(c.pick(&[" = ", " != ", " > ", " >= ", " < ", " <= ", "=="]));
            arithmetic(c, depth.min(2), out);
        }
        4 => {
            out.push_str(c.pick(&["not ", "!"]));
            condition(c, depth - 1, out);
        }
        _ => {
            out.push('(');
            conditions(c, depth - 1, out);
            out.push(')');
        }
    }
}

fn qualified(c: &mut Choices<'_>, out: &mut String) {
    let protocol = c.pick(&[
        "", "", "", "ip ", "ip6 ", "tcp ", "udp ", "ether ", "arp ", "rarp ", "sctp ", "icmp ",
    ]);
    let direction = c.pick(&[
        "",
        "",
        "src ",
        "dst ",
        "src or dst ",
        "src and dst ",
        "dst or src ",
    ]);
    out.push_str(protocol);
    out.push_str(direction);
    let kind = c.pick(&["host ", "net ", "port ", "portrange ", "proto ", ""]);
    out.push_str(kind);
    match kind {
        _ if c.below(12) == 11 => value(c, out),
        "port " => out.push_str(c.pick(PORTS)),
        "portrange " => out.push_str(c.pick(RANGES)),
        "net " => out.push_str(c.pick(NETS)),
        "proto " => out.push_str(c.pick(NUMBERS)),
        _ if protocol == "ether " => out.push_str(c.pick(MACS)),
        _ if c.below(4) == 3 => {
            out.push('(');
            value(c, out);
            out.push_str(" or ");
            value(c, out);
            out.push(')');
        }
        _ => out.push_str(c.pick(HOSTS)),
    }
}

fn value(c: &mut Choices<'_>, out: &mut String) {
    let list = [HOSTS, NETS, PORTS, RANGES, MACS, NUMBERS];
    let list = list[c.below(list.len())];
    out.push_str(c.pick(list));
}

fn arithmetic(c: &mut Choices<'_>, depth: u32, out: &mut String) {
    let kinds = if depth == 0 { 3 } else { 7 };
    match c.below(kinds) {
        0 => out.push_str(c.pick(CONSTANTS)),
        1 => out.push_str("len"),
        2 | 3 => {
            out.push_str(c.pick(INDEXED));
            out.push('[');
            match c.below(4) {
                3 if depth > 0 => arithmetic(c, depth - 1, out),
                _ => out.push_str(c.pick(OFFSETS)),
            }
            out.push_str(c.pick(&["", "", ":1", ":2", ":4"]));
            out.push(']');
        }
        4 => {
            out.push_str("- ");
            arithmetic(c, depth - 1, out);
        }
        5 => {
            out.push('(');
            arithmetic(c, depth - 1, out);
            out.push(')');
        }
        _ => {
            arithmetic(c, depth - 1, out);
            out.push_str(c.pick(OPERATORS));
            arithmetic(c, depth - 1, out);
        }
    }
}

const PROTOCOLS: &[&str] = &[
    "ip", "tcp", "udp", "icmp", "ip6", "arp", "rarp", "sctp", "icmp6", "igmp", "igrp", "pim",
    "vrrp", "carp", "ah", "esp", "atalk", "aarp", "decnet", "iso", "clnp", "esis", "isis", "stp",
    "ipx", "netbeui", "lat", "moprc", "mopdl", "sca", "link", "radio",
];
const SPECIAL: &[&str] = &[
    "vlan",
    "vlan 100",
    "vlan 200",
    "vlan 5000",
    "broadcast",
    "multicast",
    "ip broadcast",
    "ip multicast",
    "ip6 multicast",
    "ether multicast",
    "tcp multicast",
    "less 60",
    "greater 70",
    "byte 12 = 8",
    "byte 20 > 4",
    "byte 3 < 9",
    "pppoed",
];
const HOSTS: &[&str] = &[
    "10.0.0.1",
    "1.2.3.4",
    "10.0.0.2",
    "192.168.1.200",
    "127.0.0.1",
    "::1",
    "2001:db8::1",
    "2001:db8::2",
    "fe80::1",
    "10.1",
    "224.0.0.5",
    "localhost",
    "nosuchhost.invalid",
    "1.2.3.300",
];
const NETS: &[&str] = &[
    "10",
    "10.0.0.0/8",
    "10.0.0.0/7",
    "192.168.1",
    "172.16.0.0/12",
    "0.0.0.0/0",
    "10.0.0.1/8",
    "10.0.0.0 mask 255.0.0.0",
    "2001:db8::/32",
    "fe80::/10",
    "::/0",
    "2001:db8::/33",
    "10.0/16",
    "1.2.3.4/32",
    "10.0.0.0/33",
    "2001:db8::1/32",
    "128.0.0.0/1",
];
const PORTS: &[&str] = &[
    "80",
    "53",
    "443",
    "0",
    "65535",
    "65536",
    "http",
    "domain",
    "ssh",
    "5000",
    "nosuchport",
];
const RANGES: &[&str] = &[
    "50-100",
    "80-80",
    "0-65535",
    "53",
    "1000-1",
    "http-https",
    "ssh-domain",
    "1-70000",
];
const MACS: &[&str] = &[
    "1:2:3:4:5:6",
    "ff:ff:ff:ff:ff:ff",
    "06-05-04-03-02-01",
    "0102.0304.0506",
    "070809101112",
    "1.2.3.4.5.6",
];
const NUMBERS: &[&str] = &[
    "6", "17", "1", "0x800", "0x86dd", "0x806", "44", "58", "132", "0", "100", "1500", "1501",
    "\\tcp", "\\udp", "\\ip", "\\arp", "256", "65536", "0xfe", "0xe0", "0xaa",
];
const CONSTANTS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "0xf",
    "0x40",
    "255",
    "0x800",
    "60",
    "tcp-syn",
    "icmp-echo",
    "0xffffffff",
    "31",
    "32",
    "8",
    "0x1fff",
    "1024",
];
const INDEXED: &[&str] = &[
    "ip", "tcp", "ether", "udp", "ip6", "icmp", "icmp6", "arp", "link", "sctp", "igmp", "pim",
    "rarp", "vrrp", "lat", "atalk", "radio",
];
const OFFSETS: &[&str] = &[
    "0",
    "1",
    "2",
    "6",
    "8",
    "9",
    "12",
    "13",
    "14",
    "15",
    "16",
    "20",
    "30",
    "100",
    "tcpflags",
    "icmptype",
    "0xffffffff",
    "0xfffffff2",
    "0x7ffffff0",
];
const OPERATORS: &[&str] = &[
    " + ", " - ", " * ", " / ", " % ", " & ", " | ", " ^ ", " << ", " >> ",
];

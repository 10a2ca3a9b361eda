//! Tests of `TUNNEL inner ( … )`.

use crate::build::{
    GRE, Ip4, TCP, UDP, ethernet, geneve, gre, gtpu, ip4, ip4_frame, ip6, ip6_frame, label, pppoe,
    tagged, tcp, udp, vxlan,
};
use crate::machines::Machines;
use crate::table::Case;

/// Returns an inner packet: TCP to port 443 of 192.0.2.1.
fn web() -> Vec<u8> {
    ip4(TCP, &tcp(40_000, 443, 2))
}

/// Returns another inner packet: UDP over IPv6 to port 53.
fn dns() -> Vec<u8> {
    ip6(UDP, &udp(40_001, 53, &[0; 12]))
}

/// Returns UDP to a port: over IPv4, over IPv4 with options, over IPv6.
fn carried(port: u16, payload: &[u8]) -> Vec<Vec<u8>> {
    let datagram = udp(50_000, port, payload);
    let options = Ip4 {
        options: 3,
        ..Ip4::default()
    };
    vec![
        ip4_frame(&ip4(UDP, &datagram)),
        ip4_frame(&options.packet(UDP, &datagram)),
        ip6_frame(&ip6(UDP, &datagram)),
    ]
}

fn later_fragment(port: u16, payload: &[u8]) -> Vec<u8> {
    let later = Ip4 {
        fragment_offset: 100,
        ..Ip4::default()
    };
    ip4_frame(&later.packet(UDP, &udp(50_000, port, payload)))
}

fn all(lists: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    lists.concat()
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn over_udp() -> Vec<Case> {
    let vxlan_web = vxlan(100, &ip4_frame(&web()));
    let vxlan_dns = vxlan(7, &ip6_frame(&dns()));
    let frame = geneve(11, 0x6558, 2, &ip4_frame(&web()));
    let bare = geneve(11, 0x86dd, 0, &dns());
    let mobile = gtpu(77, false, &[], &web());
    let optional = gtpu(78, true, &[], &dns());
    let extended = gtpu(77, false, &[1, 2, 1], &web());
    let outer = ip4_frame(&web());
    vec![
        (
            "vxlan inner (tcp port 443)",
            carried(4789, &vxlan_web),
            all(&[
                carried(4789, &vxlan_dns),
                carried(4790, &vxlan_web),
                vec![outer.clone(), later_fragment(4789, &vxlan_web)],
            ]),
        ),
        (
            "vxlan 100 inner (host 192.0.2.1 and tcp)",
            carried(4789, &vxlan_web),
            carried(4789, &vxlan_dns),
        ),
        (
            "vxlan 7 inner (ip6 and udp port 53)",
            carried(4789, &vxlan_dns),
            carried(4789, &vxlan_web),
        ),
        (
            "vxlan 100 inner (ether src 02:00:00:00:00:01) and udp port 50000",
            carried(4789, &vxlan_web),
            carried(4789, &vxlan_dns),
        ),
        (
            "not vxlan inner (tcp)",
            all(&[carried(4789, &vxlan_dns), vec![outer.clone()]]),
            carried(4789, &vxlan_web),
        ),
        (
            "vxlan inner (tcp) or tcp",
            all(&[carried(4789, &vxlan_web), vec![outer.clone()]]),
            carried(4789, &vxlan_dns),
        ),
        (
            "vxlan inner (vlan 5 and udp)",
            carried(4789, &vxlan(1, &tagged(5, 0x86dd, &dns()))),
            all(&[carried(4789, &vxlan_dns), vec![tagged(5, 0x86dd, &dns())]]),
        ),
        (
            "geneve 11 inner (tcp port 443)",
            carried(6081, &frame),
            all(&[carried(6081, &bare), vec![outer.clone()]]),
        ),
        (
            "geneve inner (udp port 53)",
            carried(6081, &bare),
            carried(6081, &frame),
        ),
        (
            "geneve inner (tcp) or udp port 6081",
            all(&[carried(6081, &bare), carried(6081, &frame)]),
            vec![outer.clone()],
        ),
        (
            "gtpu inner (tcp port 443)",
            all(&[carried(2152, &mobile), carried(2152, &extended)]),
            all(&[carried(2152, &optional), carried(2153, &mobile)]),
        ),
        (
            "gtpu 78 inner (ip6)",
            carried(2152, &optional),
            carried(2152, &mobile),
        ),
        (
            "gtpu 77 inner (host 192.0.2.1)",
            all(&[carried(2152, &mobile), carried(2152, &extended)]),
            all(&[
                carried(2152, &optional),
                carried(2152, &gtpu(77, false, &[1; 4], &web())),
            ]),
        ),
        (
            "vxlan inner (gtpu inner (tcp))",
            carried(4789, &vxlan(1, &carried(2152, &mobile)[0])),
            all(&[carried(4789, &vxlan_web), carried(2152, &mobile)]),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn others() -> Vec<Case> {
    let routed = |checksum, key, sequence| gre(checksum, key, sequence, 0x0800, &web());
    let outer4 = |packet: &[u8]| ip4_frame(&ip4(GRE, packet));
    let outer6 = |packet: &[u8]| ip6_frame(&ip6(GRE, packet));
    let bridged = gre(false, None, false, 0x6558, &ip6_frame(&dns()));
    let mut version_1 = routed(false, None, false);
    version_1[1] = 1;
    let one = ethernet(0x8847, &[&label(1000, true)[..], &web()].concat());
    let two = ethernet(
        0x8847,
        &[&label(1000, false)[..], &label(2000, true), &dns()].concat(),
    );
    let session = pppoe(39, 0x21, &web());
    let outer = ip4_frame(&web());
    vec![
        (
            "gre inner (tcp port 443)",
            vec![
                outer4(&routed(false, None, false)),
                outer6(&routed(true, None, false)),
                outer4(&routed(true, Some(5), true)),
                outer6(&routed(false, Some(5), false)),
                outer4(&routed(false, None, true)),
            ],
            vec![outer4(&bridged), outer4(&version_1), outer.clone()],
        ),
        (
            "gre 5 inner (host 192.0.2.1)",
            vec![
                outer4(&routed(true, Some(5), true)),
                outer6(&routed(false, Some(5), false)),
            ],
            vec![
                outer4(&routed(true, Some(6), true)),
                outer4(&routed(false, None, false)),
            ],
        ),
        (
            "gre inner (ether dst 02:00:00:00:00:02 and udp port 53)",
            vec![outer4(&bridged), outer6(&bridged)],
            vec![outer4(&routed(false, None, false))],
        ),
        (
            "gre inner (tcp) and host 10.0.0.1",
            vec![outer4(&routed(false, None, false))],
            vec![outer6(&routed(false, None, false))],
        ),
        (
            "mpls inner (tcp port 443)",
            vec![one.clone()],
            vec![two.clone(), outer.clone()],
        ),
        (
            "mpls 1000 inner (mpls 2000 inner (udp port 53))",
            vec![two.clone()],
            vec![one.clone(), outer.clone()],
        ),
        (
            "mpls 1000 inner (ip) or tcp port 443",
            vec![one, outer.clone()],
            vec![two],
        ),
        (
            "pppoes inner (tcp port 443)",
            vec![session.clone()],
            vec![outer.clone()],
        ),
        (
            "pppoes 39 inner (ip) and not tcp",
            vec![session.clone()],
            vec![pppoe(40, 0x21, &web()), outer.clone()],
        ),
        (
            "vlan inner (tcp port 443) or tcp port 443",
            vec![tagged(9, 0x0800, &web()), outer.clone()],
            vec![tagged(9, 0x86dd, &dns())],
        ),
        (
            "vlan 9 inner (udp port 53) or arp",
            vec![tagged(9, 0x86dd, &dns()), ethernet(0x0806, &[0; 28])],
            vec![outer, session],
        ),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [over_udp(), others()].concat()
}

pub(crate) fn verdicts(machines: Machines) {
    for (expression, taken, left) in cases() {
        machines.takes(expression, &taken, &left);
        if let Some(packet) = taken.first() {
            cut_short(machines, expression, packet);
        }
    }
}

/// Checks a packet that is cut anywhere: all engines agree, and at most the complete packet is
/// accepted.
fn cut_short(machines: Machines, expression: &str, packet: &[u8]) {
    use ringtap_filter::program::plain;
    use ringtap_filter::{Tables, compile};
    if machines == Machines::Kernel {
        return;
    }
    let program =
        compile(expression, &crate::machines::options(), &Tables::new()).expect("a filter");
    let native = ringtap_jit::Native::compile(&program).expect("native code");
    let len = u32::try_from(packet.len()).expect("short");
    for cut in 0..packet.len() {
        let data = &packet[..cut];
        assert_eq!(
            native.run(data, len),
            plain::run(&program, data, len, None),
            "{expression} cut at {cut}"
        );
    }
}

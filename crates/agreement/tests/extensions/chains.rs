//! `deep ( … )`: transports after extension headers.

use crate::build::{
    ICMP6, Ip4, TCP, UDP, authentication, ethernet, fragment_header, ip4, ip4_frame, ip6,
    ip6_frame, long_header, tcp, udp, vxlan,
};
use crate::machines::Machines;
use crate::table::Case;

/// The most headers that the walk skips.
const MOST_HEADERS: usize = 5;

/// An extension header, with the bytes after its first one.
#[derive(Clone, Debug)]
enum Header {
    HopByHop(u8),
    Routing(u8),
    Options(u8),
    Mobility(u8),
    /// The first of several fragments.
    Fragment,
    /// Another one, at this offset.
    LaterFragment(u16),
    Authentication(u8),
}

impl Header {
    fn number(&self) -> u8 {
        match self {
            Self::HopByHop(_) => 0,
            Self::Routing(_) => 43,
            Self::Options(_) => 60,
            Self::Mobility(_) => 135,
            Self::Fragment | Self::LaterFragment(_) => 44,
            Self::Authentication(_) => 51,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::HopByHop(units)
            | Self::Routing(units)
            | Self::Options(units)
            | Self::Mobility(units) => long_header(units),
            Self::Fragment => fragment_header(0),
            Self::LaterFragment(offset) => fragment_header(offset),
            Self::Authentication(words) => authentication(words),
        }
    }
}

/// Returns a frame with a transport header after a chain.
fn frame(chain: &[Header], protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut payload = transport.to_vec();
    let mut next = protocol;
    for header in chain.iter().rev() {
        payload = [&[next][..], &header.bytes(), &payload].concat();
        next = header.number();
    }
    ip6_frame(&ip6(next, &payload))
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn cases() -> Vec<Case> {
    use Header::{Authentication, Fragment, HopByHop, LaterFragment, Options, Routing};
    let web = tcp(40_000, 443, 2);
    let dns = udp(40_001, 53, &[0; 12]);
    let options = [HopByHop(0), Options(2)];
    let behind = |chain: &[Header]| frame(chain, TCP, &web);
    let four = ip4_frame(&ip4(TCP, &web));
    let six = behind(&[]);
    let deep = behind(&options);
    let later = Ip4 {
        fragment_offset: 10,
        ..Ip4::default()
    };
    let later4 = ip4_frame(&later.packet(TCP, &web));
    let later6 = behind(&[LaterFragment(10)]);
    let too_deep = behind(&[
        HopByHop(0),
        Options(0),
        Options(0),
        Options(0),
        Options(0),
        Options(0),
    ]);
    let authenticated = behind(&[Authentication(4), Options(0)]);
    let first = behind(&[Routing(2), Fragment]);
    let udp_deep = frame(&options, UDP, &dns);
    let ping = frame(&[HopByHop(0)], ICMP6, &[128, 0, 0, 0, 0, 1, 0, 1]);
    let tunnel = ip4_frame(&ip4(UDP, &udp(1, 4789, &vxlan(1, &deep))));
    let arp = ethernet(0x0806, &[0; 28]);
    vec![
        (
            "deep (tcp port 443)",
            vec![
                four.clone(),
                six.clone(),
                deep.clone(),
                authenticated.clone(),
                first.clone(),
            ],
            vec![
                udp_deep.clone(),
                later4.clone(),
                later6.clone(),
                too_deep.clone(),
                arp.clone(),
            ],
        ),
        (
            "deep (tcp)",
            vec![
                four.clone(),
                six.clone(),
                deep.clone(),
                later4.clone(),
                later6.clone(),
            ],
            vec![udp_deep.clone(), too_deep, ping.clone(), arp.clone()],
        ),
        (
            "deep (ip6 proto 6)",
            vec![six.clone(), deep.clone(), later6.clone()],
            vec![four.clone(), udp_deep.clone()],
        ),
        (
            "deep (udp port 53 or tcp port 443)",
            vec![udp_deep.clone(), deep.clone()],
            vec![later6.clone(), arp.clone()],
        ),
        (
            "deep (udp dst port in { 53, 5353 })",
            vec![udp_deep.clone()],
            vec![deep.clone()],
        ),
        (
            "deep (tcp[tcpflags] & tcp-syn != 0)",
            vec![four.clone(), six.clone(), deep.clone(), authenticated],
            vec![udp_deep.clone(), later4, later6.clone()],
        ),
        (
            "deep (udp[4:2] = 20)",
            vec![udp_deep.clone(), frame(&[], UDP, &dns)],
            vec![deep.clone()],
        ),
        (
            "deep (icmp6[icmp6type] = icmp6-echo)",
            vec![ping.clone()],
            vec![deep.clone(), four.clone()],
        ),
        ("deep (icmp6)", vec![ping.clone()], vec![deep.clone()]),
        (
            "deep (ip6 proto 0)",
            vec![deep.clone(), ping],
            vec![six.clone(), first.clone()],
        ),
        (
            "deep (ip6 proto 44)",
            vec![later6],
            vec![six.clone(), four.clone()],
        ),
        (
            "not deep (tcp)",
            vec![udp_deep.clone(), arp.clone()],
            vec![deep.clone(), six.clone()],
        ),
        (
            "deep (tcp) and ip6 proto 0",
            vec![deep.clone()],
            vec![six.clone(), four.clone()],
        ),
        (
            "deep (tcp or arp) or udp",
            vec![arp, deep.clone()],
            vec![udp_deep.clone()],
        ),
        (
            "deep (deep (tcp port 443))",
            vec![deep.clone()],
            vec![udp_deep],
        ),
        (
            "vxlan inner (deep (tcp dst port 443))",
            vec![tunnel.clone()],
            vec![deep.clone()],
        ),
        (
            "deep (vxlan inner (ip6 and not tcp))",
            vec![tunnel],
            vec![deep],
        ),
    ]
}

pub(crate) fn verdicts(machines: Machines) {
    for (expression, taken, left) in cases() {
        machines.takes(expression, &taken, &left);
    }
    random_chains(machines);
}

/// Tests any chain: the transport is found if the chain is short enough and not in a later
/// fragment.
fn random_chains(machines: Machines) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u8::try_from(state % limit).expect("small")
    };
    let mut packets = Vec::new();
    for _ in 0..300 {
        let mut later = false;
        let chain: Vec<Header> = (0..below(8))
            .map(|_| match below(8) {
                0 => Header::HopByHop(below(3)),
                1 => Header::Routing(below(4)),
                2 => Header::Mobility(below(2)),
                3 => Header::Authentication(below(5)),
                4 => Header::Fragment,
                5 if below(3) == 0 => {
                    later = true;
                    Header::LaterFragment(1 + u16::from(below(200)))
                }
                _ => Header::Options(below(5)),
            })
            .collect();
        let port = if below(4) == 0 { 80 } else { 443 };
        let found = chain.len() <= MOST_HEADERS && !later && port == 443;
        packets.push((frame(&chain, TCP, &tcp(1, port, 2)), found));
    }
    assert!(packets.iter().filter(|(_, found)| *found).count() > 60);
    let views: Vec<(&[u8], bool)> = packets
        .iter()
        .map(|(data, found)| (&data[..], *found))
        .collect();
    machines.check("deep (tcp dst port 443)", &views);
    machines.check("deep (tcp[2:2] = 443)", &views);
}

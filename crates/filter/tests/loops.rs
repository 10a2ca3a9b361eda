//! `protochain`, whose programs have a loop: it must end on every packet, and code that cannot run
//! loops must report that. The agreement tests check the matches against libpcap, whose own loop
//! does not end on the packets here.
#![forbid(unsafe_code)]

use ringtap_filter::ebpf::lower::{self, Hook, LowerError};
use ringtap_filter::program::{MAX_ROUNDS, Program};
use ringtap_filter::socket::{self, Direction, NotLowerable, SocketView};
use ringtap_filter::{CompileOptions, LinkType, Tables, compile};

fn program(expression: &str, optimize: bool) -> Program {
    let mut options = CompileOptions::new(LinkType::IPV6);
    options.optimize = optimize;
    compile(expression, &options, &Tables::new()).expect(expression)
}

fn verdicts(expression: &str, packet: &[u8]) -> [bool; 2] {
    let length = u32::try_from(packet.len()).expect("short");
    [false, true].map(|optimize| program(expression, optimize).run(packet, length) != 0)
}

/// Returns an IPv6 header with this protocol after it.
fn header(next: u8) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes[6] = next;
    bytes
}

#[test]
fn a_chain_that_leads_back_to_itself_is_left() {
    // An authentication header is followed by another one; the walk then continues at byte 24,
    // where the address has the same bytes again.
    let mut packet = header(51);
    packet[24..26].copy_from_slice(&[51, 4]);
    packet.extend([51, 4]);
    packet.extend([0; 22]);
    assert_eq!(verdicts("ip6 protochain 6", &packet), [false; 2]);
    assert_eq!(verdicts("not ip6 protochain 6", &packet), [false; 2]);
    assert_eq!(verdicts("ip6 protochain 51", &packet), [true; 2]);
}

#[test]
fn a_chain_as_long_as_allowed_is_walked() {
    let rounds = usize::try_from(MAX_ROUNDS).expect("few");
    for (extensions, taken) in [(1, true), (rounds, true), (rounds + 1, false)] {
        let mut packet = header(60);
        for at in 1..=extensions {
            let next = if at == extensions { 6 } else { 60 };
            packet.extend([next, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(
            verdicts("ip6 protochain 6", &packet),
            [taken; 2],
            "{extensions}"
        );
    }
}

/// A packet that ends inside the chain is rejected.
#[test]
fn a_chain_cut_short_is_rejected() {
    let mut packet = header(60);
    packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(verdicts("ip6 protochain 6", &packet), [false; 2]);
    assert_eq!(verdicts("not ip6 protochain 6", &packet), [false; 2]);
}

#[test]
fn the_kernel_is_not_given_a_loop() {
    let program = program("ip6 protochain 6", true);
    assert!(program.has_loop());
    assert!(!program.fits_kernel());
    assert!(Program::new(program.insns().to_vec()).is_err());
    let view = SocketView {
        header: socket::Header::Own,
        vlan: true,
        direction: Direction::Both,
        snaplen: 65_535,
    };
    assert_eq!(socket::lower(&program, &view), Err(NotLowerable::Loop));
    for hook in [Hook::SocketFilter, Hook::Xdp { frags: false }] {
        let refused = lower::standalone(&program, hook).err();
        assert!(matches!(refused, Some(LowerError::Loop)), "{refused:?}");
    }
}

#[test]
fn other_programs_have_no_loop() {
    let plain = program("tcp or udp", true);
    assert!(!plain.has_loop());
    assert!(plain.fits_kernel());
}

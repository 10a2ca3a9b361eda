//! Random expressions, mostly valid, compiled by the installed libpcap and by us: acceptance,
//! verdicts and returned lengths agree, optimised and not; and the program lowered for a socket
//! decides on the stripped frame as the program itself on the whole one.
#![no_main]

#[path = "../../crates/filter/tests/common/generate.rs"]
mod generate;
#[path = "../../crates/filter/tests/common/packets.rs"]
mod packets;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use ringtap_filter::program::Ancillary;
use ringtap_filter::socket::{Direction, SocketView, lower};
use ringtap_filter::{CompileOptions, ErrorKind, LinkType, Program, Tables, compile};
use ringtap_testkit::libpcap::{Compile, Oracle, OracleError};

/// What is built once.
struct Setup {
    oracle: Oracle,
    names: Tables,
    packets: Vec<packets::Packet>,
}

thread_local! {
    static SETUP: RefCell<Setup> = RefCell::new(setup());
}

fn setup() -> Setup {
    // Whole packets only: on cut ones libpcap's own two programs differ.
    let whole = |(data, len): &packets::Packet| data.len() == *len as usize;
    let packets: Vec<_> = packets::generated(1)
        .into_iter()
        .filter(whole)
        .step_by(3)
        .collect();
    let packets: Vec<_> = packets
        .into_iter()
        .map(|(mut data, len)| {
            data.resize(2000, 0);
            (data, len)
        })
        .collect();
    let mut oracle = Oracle::start().expect("oracle");
    let views: Vec<(u32, &[u8])> = packets
        .iter()
        .map(|(data, len)| (*len, &data[..]))
        .collect();
    oracle.set_packets(views).expect("packets");
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut names = Tables::new();
    names.add_hosts(&read("/etc/hosts"));
    names.add_services(&read("/etc/services"));
    names.add_protocols(&read("/etc/protocols"));
    Setup {
        oracle,
        names,
        packets,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (optimize, bytes) = match bytes.split_first() {
        Some((first, rest)) => (first & 1 == 1, rest),
        None => (true, bytes),
    };
    let expression = generate::expression(&mut generate::Choices::new(bytes));
    SETUP.with_borrow_mut(|setup| check(setup, &expression, optimize));
});

fn check(setup: &mut Setup, expression: &str, optimize: bool) {
    let netmask = Some(0xffff_ff00);
    let how = Compile {
        netmask,
        optimize,
        ..Compile::default()
    };
    let mut options = CompileOptions::new(LinkType::ETHERNET);
    options.netmask = netmask;
    options.optimize = optimize;
    let theirs = setup.oracle.compile(expression, how);
    let ours = compile(expression, &options, &setup.names);
    if !optimize {
        return match (theirs, ours) {
            (_, Err(error)) if matches!(error.kind, ErrorKind::Unsupported(_)) => {}
            (Err(OracleError::Refused(_)), Err(_)) => {}
        // libpcap does not look at the arithmetic of a test that it drops beforehand.
        (Ok(_), Err(error)) if is_bad_arithmetic(&error.kind) => {}
            (Ok(theirs), Ok(ours)) => {
                let verdicts = setup.oracle.verdicts(&theirs).expect("verdicts");
                compare(setup, expression, &[verdicts], &ours);
            }
            (theirs, ours) => panic!("{expression:?}: libpcap {theirs:?}, ringtap {ours:?}"),
        };
    }
    // libpcap's optimiser changes what some expressions match ("tcp and not ip broadcast and ip
    // broadcast"): there its unoptimised program is right. And it sees other contradictions than
    // ours: one of the two then refuses the expression and the other's program rejects everything.
    let plain = setup.oracle.compile(
        expression,
        Compile {
            optimize: false,
            ..how
        },
    );
    let mut verdicts = Vec::new();
    for program in [&theirs, &plain].into_iter().flatten() {
        verdicts.push(setup.oracle.verdicts(program).expect("verdicts"));
    }
    match (theirs, ours) {
        (_, Err(error)) if matches!(error.kind, ErrorKind::Unsupported(_)) => {}
        (Err(OracleError::Refused(_)), Err(_)) => {}
        // libpcap does not look at the arithmetic of a test that it drops beforehand.
        (Ok(_), Err(error)) if is_bad_arithmetic(&error.kind) => {}
        (Ok(_), Ok(ours)) => compare(setup, expression, &verdicts, &ours),
        (Ok(theirs), Err(error)) if error.kind == ErrorKind::RejectsAll => {
            let plain = verdicts.pop().unwrap_or_default();
            let none = plain.iter().all(|&verdict| verdict == 0);
            assert!(none, "{expression:?}: libpcap {theirs:?}, ringtap refuses");
        }
        (Err(OracleError::Refused(why)), Ok(ours)) if why.contains("rejects all") => {
            let none = setup
                .packets
                .iter()
                .all(|(data, len)| ours.run(data, *len) == 0);
            assert!(none, "{expression:?}: libpcap refuses, ringtap {ours:?}");
        }
        (theirs, ours) => panic!("{expression:?}: libpcap {theirs:?}, ringtap {ours:?}"),
    }
}

fn is_bad_arithmetic(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::ShiftTooFar | ErrorKind::DivisionByZero)
}

/// Ours returns on every packet what one of libpcap's programs returns, and decides alike when
/// lowered.
fn compare(setup: &Setup, expression: &str, verdicts: &[Vec<u32>], ours: &Program) {
    let view = SocketView {
        cooked: false,
        vlan: true,
        direction: Direction::Both,
        snaplen: 262_144,
    };
    let lowered = lower(ours, &view).ok();
    for (at, (data, len)) in setup.packets.iter().enumerate() {
        let ours = ours.run(data, *len);
        let agrees = verdicts.iter().any(|verdicts| verdicts[at] == ours);
        assert!(
            agrees,
            "{expression:?}: libpcap {}, ringtap {ours} on {data:02x?}",
            verdicts[0][at]
        );
        if let Some(lowered) = &lowered {
            let (seen, seen_len, ancillary) = stripped(data, *len);
            let live = lowered.run_with(&seen, seen_len, &ancillary);
            assert_eq!(ours > 0, live > 0, "{expression:?} lowered, on {data:02x?}");
        }
    }
}

/// The frame as a socket's filter sees it.
fn stripped(frame: &[u8], len: u32) -> (Vec<u8>, u32, Ancillary) {
    let vlan_tpid = u16::from_be_bytes([frame[12], frame[13]]);
    if !matches!(vlan_tpid, 0x8100 | 0x88a8) {
        return (frame.to_vec(), len, Ancillary::default());
    }
    let vlan_tci = Some(u16::from_be_bytes([frame[14], frame[15]]));
    let seen = [&frame[..12], &frame[16..]].concat();
    (
        seen,
        len - 4,
        Ancillary {
            vlan_tci,
            vlan_tpid,
            ..Ancillary::default()
        },
    )
}

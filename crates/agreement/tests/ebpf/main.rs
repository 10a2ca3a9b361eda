//! Classic programs lowered to eBPF, loaded into this kernel and run by it. The verifier must
//! accept all of them, and verdict and length must be those of the plain interpreter.

mod expressions;
mod live;
mod packets;
mod programs;

use std::process::ExitCode;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use ringtap_filter::ebpf::lower::{Hook, LowerError, Vlan, standalone, with_verdicts};
use ringtap_filter::program::{opcode as op, plain};
use ringtap_filter::{CompileOptions, Insn, LinkType, Program, Tables, compile};
use ringtap_testkit::libpcap::{self, Oracle};
use ringtap_testkit::{Need, suite, test};

use ringtap_agreement::engine::machine::{self, Loaded};

const HOOKS: [Hook; 5] = [
    Hook::Xdp { frags: true },
    Hook::Xdp { frags: false },
    Hook::Tcx(Vlan::AsKept),
    Hook::Tcx(Vlan::Restored),
    Hook::SocketFilter,
];

fn main() -> ExitCode {
    // tcx itself is not used; sched_cls programs and the XDP helpers need 5.18.
    let kernel = &[Need::Root, Need::Kernel(5, 18)];
    let tcx = &[Need::Root, Need::Kernel(6, 6)];
    suite(vec![
        test("expressions_agree_at_every_hook", kernel, expressions_agree),
        test(
            "random_programs_agree_at_every_hook",
            kernel,
            random_programs_agree,
        ),
        test(
            "the_plain_interpreter_does_as_libpcaps",
            &[Need::LibpcapDev],
            as_libpcaps_interpreter,
        ),
        test(
            "multi_buffer_packets_agree_at_xdp",
            kernel,
            multi_buffer_agrees,
        ),
        test(
            "restored_tags_are_seen_where_they_were",
            kernel,
            restored_tags,
        ),
        test(
            "expressions_agree_on_restored_tags",
            kernel,
            expressions_agree_on_tags,
        ),
        test(
            "random_programs_agree_on_restored_tags",
            kernel,
            random_programs_agree_on_tags,
        ),
        test(
            "bytes_beyond_the_linear_part_are_read_at_tcx",
            tcx,
            live::beyond_linear_part,
        ),
        test("ancillary_loads_read_the_context", kernel, ancillary_loads),
        test("long_programs_are_accepted", kernel, long_programs),
        test("hostile_programs_are_accepted", kernel, hostile_programs),
        test("a_short_filter_is_short_code", &[], short_filter),
        test("verdicts_are_those_asked_for", kernel, verdicts),
        test(
            "what_a_hook_does_not_know_is_an_error",
            &[],
            unknown_metadata,
        ),
    ])
}

/// Returns the programs of an expression, optimised and not.
fn programs_of(expression: &str) -> Vec<Program> {
    let compiled = [true, false].map(|optimize| {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.optimize = optimize;
        compile(expression, &options, &Tables::new())
    });
    compiled
        .into_iter()
        .map(|program| program.unwrap_or_else(|error| panic!("{expression}: {error}")))
        .collect()
}

fn expressions_agree() {
    let packets = packets::frames();
    let mut compared = 0;
    for expression in expressions::all() {
        for program in programs_of(&expression) {
            for hook in HOOKS {
                let loaded = Loaded::new(&program, hook);
                for packet in packets.iter().filter(|packet| loaded.takes(packet)) {
                    let (expected, found) = (loaded.expected(packet), loaded.run(packet));
                    assert_eq!(found, expected, "{expression} at {hook:?} on {packet:02x?}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50_000, "{compared} comparisons");
}

/// Tests this many programs, the same in every run.
fn on_random_programs(cases: u32, test: impl Fn(Program) -> Result<(), TestCaseError>) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, seed).run(&programs::random(), test);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn random_programs_agree() {
    let packets = packets::frames();
    on_random_programs(600, |program| {
        for hook in HOOKS {
            let loaded = Loaded::new(&program, hook);
            for packet in packets.iter().filter(|packet| loaded.takes(packet)) {
                proptest::prop_assert_eq!(
                    loaded.run(packet),
                    loaded.expected(packet),
                    "{:?} at {:?} on {:02x?}",
                    program,
                    hook,
                    packet
                );
            }
        }
        Ok(())
    });
}

/// Tests the oracle itself: on random programs it returns what libpcap's `bpf_filter` does.
fn as_libpcaps_interpreter() {
    let packets = packets::frames();
    let len = |packet: &Vec<u8>| u32::try_from(packet.len()).expect("short");
    let mut oracle = Oracle::start().expect("the helper starts");
    let views = packets.iter().map(|packet| (len(packet), &packet[..]));
    oracle.set_packets(views).expect("packets");
    let oracle = std::cell::RefCell::new(oracle);
    on_random_programs(600, |program| {
        let insns = program.insns().iter();
        let insns: Vec<libpcap::Insn> = insns
            .map(|&Insn { code, jt, jf, k }| libpcap::Insn { code, jt, jf, k })
            .collect();
        let expected = oracle.borrow_mut().verdicts(&insns).expect("verdicts");
        let run = |packet: &Vec<u8>| plain::run(&program, packet, len(packet), None);
        let found: Vec<u32> = packets.iter().map(run).collect();
        proptest::prop_assert_eq!(found, expected, "{:?}", program);
        Ok(())
    });
}

/// Compares on packets whose tag the kernel stores separately, with the plain interpreter on the
/// packets as they were on the wire.
fn compare_on_tags(program: &Program, packets: &[Vec<u8>], name: &dyn std::fmt::Debug) {
    for tag in [(0x8100, 0x0007), (0x88a8, 0xefff)] {
        let loaded = Loaded::tagged(program, Hook::Tcx(Vlan::Restored), tag);
        for packet in packets.iter().filter(|packet| loaded.takes(packet)) {
            let whole = machine::with_tag(packet, tag);
            let (found, expected) = (loaded.run(packet), loaded.expected(&whole));
            assert_eq!(found, expected, "{name:?} on {whole:02x?}");
        }
    }
}

fn expressions_agree_on_tags() {
    let packets = packets::frames();
    for expression in expressions::all() {
        for program in programs_of(&expression) {
            compare_on_tags(&program, &packets, &expression);
        }
    }
}

fn random_programs_agree_on_tags() {
    let packets = packets::frames();
    on_random_programs(400, |program| {
        compare_on_tags(&program, &packets, &program);
        Ok(())
    });
}

/// Packets longer than one buffer: the slow copy reads bytes in a further buffer.
fn multi_buffer_agrees() {
    let packet: Vec<u8> = packets::long(9_000);
    let at = |k: u32, size: u16| {
        let wanted = Insn::new(op::LD | size | op::ABS, k);
        Program::new(vec![wanted, Insn::new(op::RET | op::A, 0)]).expect("a valid program")
    };
    let mut nonzero = 0;
    for k in [
        0, 60, 3_400, 3_518, 3_519, 3_520, 3_600, 7_614, 7_615, 8_996, 8_997, 8_999, 9_000,
    ] {
        for size in [op::W, op::H, op::B] {
            let program = at(k, size);
            let loaded = Loaded::new(&program, Hook::Xdp { frags: true });
            let found = loaded.run(&packet);
            assert_eq!(found, loaded.expected(&packet), "{size:#x} bytes at {k}");
            nonzero += u32::from(found != 0);
        }
    }
    assert!(nonzero > 20, "{nonzero} loads found something");
    let length = vec![
        Insn::new(op::LD | op::LEN, 0),
        Insn::new(op::RET | op::A, 0),
    ];
    let length = Program::new(length).expect("a valid program");
    assert_eq!(
        Loaded::new(&length, Hook::Xdp { frags: true }).run(&packet),
        9_000
    );
}

fn restored_tags() {
    let tag = (0x8100, 0x2fe7);
    let mut programs: Vec<Program> = ["vlan", "vlan 4071", "vlan and ip", "vlan and tcp port 80"]
        .iter()
        .flat_map(|expression| programs_of(expression))
        .collect();
    let ret = Insn::new(op::RET | op::A, 0);
    let build = |insns: &[Insn]| Program::new(insns.to_vec()).expect("a valid program");
    programs.push(build(&[Insn::new(op::LD | op::LEN, 0), ret]));
    for size in [op::W, op::H, op::B] {
        for k in (0..=24).chain([56, 57, 58, 59, 60, 61, 62, 63, 64, 1000, 0x7fff_ffff]) {
            programs.push(build(&[Insn::new(op::LD | size | op::ABS, k), ret]));
            for x in [0, 1, 3, 7, 11, 12, 14, 15, 16, 20, 60, 70_000, u32::MAX] {
                let load = Insn::new(op::LD | size | op::IND, k);
                programs.push(build(&[Insn::new(op::LDX | op::IMM, x), load, ret]));
            }
            programs.push(build(&[
                Insn::new(op::LDX | op::MSH | op::B, k),
                Insn::new(op::MISC | op::TXA, 0),
                ret,
            ]));
        }
    }
    let packets = packets::frames();
    let packets = packets
        .iter()
        .filter(|packet| packet.len() <= 100)
        .step_by(3);
    let packets: Vec<_> = packets.collect();
    for program in &programs {
        let loaded = Loaded::tagged(program, Hook::Tcx(Vlan::Restored), tag);
        for packet in packets.iter().filter(|packet| loaded.takes(packet)) {
            let whole = machine::with_tag(packet, tag);
            let len = u32::try_from(whole.len()).expect("short");
            let expected = plain::run(program, &whole, len, None);
            let found = loaded.run(packet);
            assert_eq!(found, expected, "{program:?} on {whole:02x?}");
        }
    }
}

fn ancillary_loads() {
    let packet = &packets::frames()[0];
    let tag = (0x88a8, 0x0123);
    let cases = [
        (op::SKF_AD_MARK, 77),
        (op::SKF_AD_VLAN_TAG, 0x0123),
        (op::SKF_AD_VLAN_TAG_PRESENT, 1),
        (op::SKF_AD_VLAN_TPID, 0x88a8),
        (op::SKF_AD_PROTOCOL, 0x0800),
    ];
    for (offset, expected) in cases {
        let load = Insn::new(op::LD | op::W | op::ABS, op::SKF_AD_OFF + offset);
        let insns = vec![load, Insn::new(op::RET | op::A, 0)];
        let program = Program::new(insns).expect("a valid program");
        for hook in [Hook::Tcx(Vlan::AsKept), Hook::Tcx(Vlan::Restored)] {
            let found = Loaded::tagged(&program, hook, tag).run_marked(packet, 77);
            assert_eq!(found, expected, "ancillary {offset} at {hook:?}");
        }
        // For a socket, the test run ignores tag and mark; only loading is tested.
        let _ = Loaded::new(&program, Hook::SocketFilter);
    }
    for offset in [
        op::SKF_AD_RANDOM,
        op::SKF_AD_CPU,
        op::SKF_AD_ALU_XOR_X,
        op::SKF_AD_IFINDEX,
    ] {
        let program = Program::new(vec![
            Insn::new(op::LD | op::W | op::ABS, op::SKF_AD_OFF + offset),
            Insn::new(op::LD | op::H | op::ABS, 12),
            Insn::new(op::RET | op::A, 0),
        ]);
        for hook in HOOKS {
            let loaded = Loaded::new(program.as_ref().expect("a valid program"), hook);
            assert_eq!(
                loaded.run(packet),
                loaded.half_at_12(packet),
                "{offset} at {hook:?}"
            );
        }
    }
}

/// Loads a program, which the kernel must accept within its limit of instructions to walk.
fn accepted(name: &str, program: &Program, hook: Hook) -> Loaded {
    let loaded = Loaded::new(program, hook);
    let walked = loaded.verified_instructions();
    assert!(
        walked < 1_000_000,
        "{name} at {hook:?}: {walked} instructions walked"
    );
    loaded
}

fn long_programs() {
    for (name, program) in programs::long() {
        for hook in HOOKS {
            let loaded = accepted(name, &program, hook);
            for packet in packets::frames().iter().take(8) {
                assert_eq!(
                    loaded.run(packet),
                    loaded.expected(packet),
                    "{name} at {hook:?}"
                );
            }
        }
    }
}

fn hostile_programs() {
    let packets = packets::frames();
    for (name, program) in programs::hostile() {
        for hook in HOOKS {
            let loaded = accepted(name, &program, hook);
            for packet in packets.iter().filter(|packet| loaded.takes(packet)) {
                let (found, expected) = (loaded.run(packet), loaded.expected(packet));
                assert_eq!(found, expected, "{name} at {hook:?} on {packet:02x?}");
            }
        }
    }
}

fn unknown_metadata() {
    let load = |offset| {
        let insn = Insn::new(op::LD | op::W | op::ABS, op::SKF_AD_OFF + offset);
        Program::new(vec![insn, Insn::new(op::RET | op::A, 0)]).expect("a valid program")
    };
    let refused = |offset, hook| standalone(&load(offset), hook).map(|_| ());
    let direction = "instruction 0 asks for the packet type (direction), which is not known at XDP";
    let error = refused(op::SKF_AD_PKTTYPE, Hook::Xdp { frags: true }).expect_err("XDP");
    assert_eq!(error.to_string(), direction);
    assert_eq!(refused(op::SKF_AD_PKTTYPE, Hook::Tcx(Vlan::AsKept)), Ok(()));
    let (at, hook) = (0, "tcx");
    let what = "the hardware type";
    let expected = Err(LowerError::Unknown { at, what, hook });
    assert_eq!(
        refused(op::SKF_AD_HATYPE, Hook::Tcx(Vlan::AsKept)),
        expected
    );
    let long = vec![Insn::new(op::RET, 1); op::KERNEL_MAX_INSNS + 1];
    let long = Program::new(long).expect("a valid program");
    let refused = standalone(&long, Hook::SocketFilter).map(|_| ());
    assert_eq!(refused, Err(LowerError::TooLong(op::KERNEL_MAX_INSNS + 1)));
}

/// `ip and udp`: only the filter's tests, and a check before each part of the packet.
fn short_filter() {
    let program = Program::new(vec![
        Insn::new(op::LD | op::H | op::ABS, 12),
        Insn::jump(op::JMP | op::JEQ, 0x800, 0, 3),
        Insn::new(op::LD | op::B | op::ABS, 23),
        Insn::jump(op::JMP | op::JEQ, 17, 0, 1),
        Insn::new(op::RET, 262_144),
        Insn::new(op::RET, 0),
    ])
    .expect("a valid program");
    let asm = standalone(&program, Hook::Xdp { frags: false }).expect("known to XDP");
    let text = ringtap_filter::ebpf::listing(&asm.finish().expect("labels are placed"));
    let expected = [
        "r6 = r1",
        "r7 = *(u32 *)(r6 +0)",
        "r1 = *(u32 *)(r6 +4)",
        "r0 = r7",
        "r0 += 14",
        "if r0 > r1 goto pc+11",
        "r8 = *(u16 *)(r7 +12)",
        "r8 = be16 r8",
        "if w8 != 0x800 goto pc+7",
        "r0 = r7",
        "r0 += 24",
        "if r0 > r1 goto pc+5",
        "r8 = *(u8 *)(r7 +23)",
        "if w8 != 0x11 goto pc+2",
        "w0 = 262144",
        "goto pc+3",
        "goto pc+0",
        "w0 = 0",
        "exit",
        "exit",
    ];
    let statements = text.lines().map(|line| &line[6..]);
    assert!(statements.eq(expected), "{text}");
}

fn verdicts() {
    let program = &programs_of("udp port 53")[0];
    let packets = packets::frames();
    let (pass, drop) = (2, 1);
    let asm = with_verdicts(program, Hook::Xdp { frags: true }, pass, drop).expect("known to XDP");
    let loaded = Loaded::assembled(program, Hook::Xdp { frags: true }, asm);
    let mut passed = 0;
    for packet in &packets {
        let expected = if loaded.expected(packet) > 0 {
            pass
        } else {
            drop
        };
        assert_eq!(
            loaded.run(packet),
            expected.cast_unsigned(),
            "{packet:02x?}"
        );
        passed += u32::from(expected == pass);
    }
    assert!(passed > 0 && (passed as usize) < packets.len());
}

//! Compares native code with the plain interpreter.

mod programs;

use std::cell::RefCell;

use proptest::prelude::{ProptestConfig, proptest};
use proptest::test_runner::FileFailurePersistence;
use ringtap_filter::process::ProcessTests;
use ringtap_filter::program::{opcode as op, plain};
use ringtap_filter::{CompileOptions, Insn, LinkType, Program, Tables, compile};
use ringtap_jit::{MAX_INSNS, Metadata, Native, NativeError, PacketRef};
use ringtap_sys::guarded::Guarded;

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new(64));
}

/// Compares all entry points with the plain interpreter, on the packets and on shortened ones.
/// Every packet ends at the end of readable memory.
fn agree(program: &Program, packets: &[(Vec<u8>, u32)]) {
    let native = Native::compile(program).expect("a valid program");
    let (mut slices, mut lens) = (Vec::new(), Vec::new());
    for (data, len) in packets {
        for cut in [data.len(), data.len() / 2, data.len().saturating_sub(1)] {
            slices.push(&data[..cut]);
            lens.push(*len);
        }
    }
    MEMORY.with_borrow_mut(|memory| {
        let slices = memory.place(&slices);
        let packets: Vec<_> = slices.iter().copied().zip(lens).collect();
        agree_on(program, &native, &packets);
    });
}

fn agree_on(program: &Program, native: &Native, packets: &[(&[u8], u32)]) {
    let ancillary = programs::ancillary();
    let each = |run: &dyn Fn(&[u8], u32) -> u32| -> Vec<u32> {
        packets.iter().map(|(data, len)| run(data, *len)).collect()
    };
    let expected = each(&|data, len| plain::run(program, data, len, None));
    let expected_with = each(&|data, len| plain::run(program, data, len, Some(&ancillary)));
    let context = || format!("{:x?} on {packets:x?}", program.insns());
    assert_eq!(
        each(&|data, len| native.run(data, len)),
        expected,
        "{}",
        context()
    );
    let single_with = each(&|data, len| native.run_with(data, len, &ancillary));
    assert_eq!(single_with, expected_with, "with metadata: {}", context());

    let batch: Vec<_> = packets
        .iter()
        .map(|(data, len)| PacketRef::new(data, *len))
        .collect();
    let metadata = vec![Metadata::from(&ancillary); batch.len()];
    // One more verdict than packets: it must not change.
    let mut verdicts = vec![77; batch.len() + 1];
    native.run_batch(&batch, &mut verdicts);
    assert_eq!(
        verdicts.split_last(),
        Some((&77, expected.as_slice())),
        "batch: {}",
        context()
    );
    native.run_batch_with(&batch, &metadata, &mut verdicts);
    let expected = Some((&77, expected_with.as_slice()));
    assert_eq!(
        verdicts.split_last(),
        expected,
        "batch with metadata: {}",
        context()
    );
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::SourceParallel(
            "regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_programs_agree(program in programs::program(), packets in programs::packets()) {
        agree(&program, &packets);
    }

    #[test]
    fn programs_shaped_as_filters_agree(
        program in programs::filter(),
        packets in programs::packets(),
    ) {
        agree(&program, &packets);
    }

    #[test]
    fn fields_side_by_side_agree(
        program in programs::side_by_side(),
        packets in programs::packets(),
    ) {
        agree(&program, &packets);
    }
}

proptest! {
    // Many of these loop as often as allowed.
    #![proptest_config(ProptestConfig { cases: 100, ..config() })]

    #[test]
    fn programs_with_loops_agree(program in programs::looping(), packets in programs::packets()) {
        agree(&program, &packets);
    }
}

/// Programs that walk over extension headers, in chains that end and chains that do not.
#[test]
fn chains_of_headers_agree() {
    let mut packets = Vec::new();
    for (next, header) in [
        (6, [0, 0]),
        (60, [6, 0]),
        (60, [60, 0]),
        (51, [6, 4]),
        (51, [51, 4]),
    ] {
        let mut packet = vec![0; 40];
        packet[..7].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, next]);
        packet[24..26].copy_from_slice(&[51, 4]);
        packet.extend(header);
        packet.extend([0; 40]);
        let length = u32::try_from(packet.len()).expect("short");
        packets.push((packet, length));
    }
    for expression in [
        "ip6 protochain 6",
        "not protochain 6",
        "protochain 17 or len > 60",
    ] {
        for optimize in [false, true] {
            let mut options = CompileOptions::new(LinkType::RAW);
            options.optimize = optimize;
            let program = compile(expression, &options, &Tables::new()).expect(expression);
            assert!(program.has_loop());
            agree(&program, &packets);
        }
    }
}

fn program(insns: &[Insn]) -> Program {
    Program::new(insns.to_vec()).expect("valid")
}

#[test]
fn offsets_at_the_end_of_the_address_space_reject() {
    for k in [
        u32::MAX,
        u32::MAX - 3,
        (1 << 31) - 1,
        1 << 31,
        op::SKF_AD_OFF - 1,
    ] {
        for x in [0, 1, u32::MAX, u32::MAX - k] {
            let insns = [
                Insn::new(op::LDX | op::IMM, x),
                Insn::new(op::LD | op::IND | op::W, k),
                Insn::new(op::RET | op::K, 1),
            ];
            agree(&program(&insns), &[(vec![1; 64], 64)]);
        }
    }
}

#[test]
fn an_offset_that_wraps_to_the_packet_rejects() {
    let insns = [
        Insn::new(op::LD | op::LEN, 0),
        Insn::new(op::MISC | op::TAX, 0),
        Insn::new(op::LD | op::IND | op::B, 8),
        Insn::new(op::RET | op::K, 1),
    ];
    let native = Native::compile(&program(&insns)).expect("valid");
    assert_eq!(native.run(&[0; 16], 7), 1);
    assert_eq!(native.run(&[0; 16], 8), 0);
    assert_eq!(native.run(&[0; 16], 0u32.wrapping_sub(8)), 0);
}

#[test]
fn a_load_at_a_new_x_asks_nothing_of_the_old_one() {
    for change in [
        Insn::new(op::LDX | op::IMM, 0),
        Insn::new(op::LDX | op::MEM, 0),
        Insn::new(op::LDX | op::MSH | op::B, 0),
        Insn::new(op::MISC | op::TAX, 0),
    ] {
        let insns = [
            Insn::new(op::ST, 0),
            Insn::new(op::LDX | op::LEN, 0),
            Insn::new(op::LD | op::IND | op::B, 0),
            change,
            Insn::new(op::LD | op::IND | op::B, 12),
            Insn::new(op::RET | op::K, 1),
        ];
        let program = program(&insns);
        let native = Native::compile(&program).expect("valid");
        assert_eq!(
            (native.run(&[0; 16], 10), program.run(&[0; 16], 10)),
            (1, 1),
            "{change:?}"
        );
        agree(
            &program,
            &[(vec![0; 16], 10), (vec![0; 13], 10), (vec![0; 12], 10)],
        );
    }
}

/// Two fields that are compared together, each with its own set; packets end before, between and
/// after them.
#[test]
fn a_packet_may_end_between_two_fields_that_are_compared_together() {
    let programs = [
        "ip host (10.0.1.7 or 10.0.2.14 or 10.0.3.21)",
        "ether[20:4] = 0 or ether[20:4] = 1 or ether[24:4] = 2 or ether[24:4] = 0xffffffff",
        "dst host (1.2.3.4 or 0.0.0.0) or src host (9.9.9.9 or 255.255.255.255)",
        "tcp port (80 or 443 or 0 or 65535)",
        "udp src port (53 or 54) or udp dst port (55 or 56)",
        "ip and (ether[40:2] = 1 or ether[40:2] = 2 or ether[42:2] = 3)",
    ];
    let fields: [&[u8; 4]; 6] = [
        &[10, 0, 2, 14],
        &[0; 4],
        &[0xff; 4],
        &[0, 53, 0, 56],
        &[0, 0, 0, 1],
        &[0, 3, 0, 2],
    ];
    let mut packets = Vec::new();
    for first in fields {
        for (second, protocol) in fields.iter().zip([6, 17].into_iter().cycle()) {
            let mut packet = [0; 48];
            packet[12] = 8;
            packet[14] = 0x45;
            packet[23] = protocol;
            for at in [20, 26, 34, 40] {
                packet[at..at + 4].copy_from_slice(first);
                packet[at + 4..at + 8].copy_from_slice(*second);
            }
            (20..46).for_each(|end| packets.push((packet[..end].to_vec(), 60)));
        }
    }
    for expression in programs {
        let options = CompileOptions::new(LinkType::ETHERNET);
        let program = compile(expression, &options, &Tables::new()).expect(expression);
        // As many packets in a call as the memory holds.
        for some in packets.chunks(16) {
            agree(&program, some);
        }
    }
}

#[test]
fn division_by_x_zero_rejects() {
    for code in [op::DIV, op::MOD] {
        let insns = [
            Insn::new(op::LDX | op::LEN, 0),
            Insn::new(op::LD | op::IMM, 7),
            Insn::new(op::ALU | code | op::X, 0),
            Insn::new(op::RET | op::K, 9),
        ];
        let native = Native::compile(&program(&insns)).expect("valid");
        assert_eq!(native.run(&[], 0), 0);
        assert_eq!(native.run(&[], 2), 9);
    }
}

#[test]
fn one_filter_serves_many_threads() {
    let insns = [
        Insn::new(op::LD | op::B | op::ABS, 0),
        Insn::jump(op::JMP | op::JEQ, 7, 0, 1),
        Insn::new(op::RET | op::A, 0),
        Insn::new(op::RET | op::K, 0),
    ];
    let native = Native::compile(&program(&insns)).expect("valid");
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let packets: Vec<_> = bytes
        .chunks(1)
        .map(|byte| PacketRef::new(byte, 1))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut verdicts = vec![0; packets.len()];
                for _ in 0..50 {
                    native.run_batch(&packets, &mut verdicts);
                    assert_eq!(verdicts.iter().sum::<u32>(), 16 * 7);
                }
            });
        }
    });
}

#[test]
#[should_panic(expected = "a verdict for each packet")]
fn too_few_verdicts_are_refused() {
    let native = Native::compile(&program(&[Insn::new(op::RET | op::K, 1)])).expect("valid");
    native.run_batch(&[PacketRef::new(&[], 0), PacketRef::new(&[], 0)], &mut [0]);
}

#[test]
fn an_empty_batch_writes_nothing() {
    let native = Native::compile(&program(&[Insn::new(op::RET | op::K, 1)])).expect("valid");
    let mut verdicts = [5];
    native.run_batch(&[], &mut verdicts);
    assert_eq!(verdicts, [5]);
}

#[test]
fn a_program_beyond_the_limit_is_refused() {
    let long = |count: usize| program(&vec![Insn::new(op::RET | op::K, 1); count]);
    assert!(Native::compile(&long(MAX_INSNS)).is_ok());
    let refused = Native::compile(&long(MAX_INSNS + 1));
    assert!(matches!(refused, Err(NativeError::TooLong(count)) if count == MAX_INSNS + 1));
}

#[test]
fn a_program_that_asks_for_the_process_is_refused() {
    let options = CompileOptions::new(LinkType::RAW)
        .extensions(true)
        .processes(ProcessTests::Complete);
    let program = compile("process a or cgroup /b", &options, &Tables::new()).expect("valid");
    let refused = Native::compile(&program);
    assert!(matches!(refused, Err(NativeError::Process { at: 0 })));
}

/// Code size is proportional to the program's length for every shape, so compiling is bounded.
#[test]
fn code_size_is_proportional_to_the_program() {
    let test = |k: usize| Insn::jump(op::JMP | op::JEQ, u32::try_from(k).unwrap_or(0), 1, 0);
    let shapes: [(&str, &dyn Fn(usize) -> Insn); 4] = [
        ("tests that all share targets", &test),
        ("loads", &|k| {
            Insn::new(op::LD | op::IND | op::H, u32::try_from(k % 90).unwrap_or(0))
        }),
        ("divisions", &|_| Insn::new(op::ALU | op::DIV | op::X, 0)),
        ("loads and tests in turn", &|k| match k % 2 {
            0 => Insn::new(op::LD | op::ABS | op::W, u32::try_from(k % 90).unwrap_or(0)),
            _ => test(k),
        }),
    ];
    for (name, shape) in shapes {
        let size = |count: usize| {
            let mut insns: Vec<Insn> = (0..count).map(shape).collect();
            insns.extend([Insn::new(op::RET | op::A, 0); 2]);
            Native::compile(&program(&insns)).expect(name).code_size()
        };
        let (small, large) = (size(200), size(800));
        assert!(
            large <= small * 5,
            "{name}: {small} bytes for 200, {large} for 800"
        );
        assert!(
            large <= 800 * 128,
            "{name}: {large} bytes for 800 instructions"
        );
    }
}

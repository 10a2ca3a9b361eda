//! Tests that test runs cannot do: packets whose bytes are not all in the linear part.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::lower::{Exits, Hook, Vlan, lower};
use ringtap_filter::ebpf::{Assembler, AtomicOp, Insn as Ebpf, Reg, Size};
use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};
use ringtap_sys::bpf::{self, Kernel, Link, Map, MapKind, MapSpec, ProgramKind, TcxPlace, TcxSide};
use ringtap_testkit::netns::VethPair;

const MARKER: u32 = 0x5249_4e47;
/// Ethernet, IPv4 and TCP headers, the last with the timestamps that Linux sends by default.
const HEADERS: u32 = 14 + 20 + 32;

/// The payload of a sent TCP segment is in page fragments: its linear part ends with the headers.
/// The program accepts segments that begin and end with the marker.
pub(crate) fn beyond_linear_part() {
    let pair = VethPair::new();
    let payload = 1_000_u32;
    let found = count_map("found");
    let direct = count_map("direct");
    let word = |k| Insn::new(op::LD | op::W | op::ABS, k);
    let is_marker = |jf| Insn::jump(op::JMP | op::JEQ, MARKER, 0, jf);
    let classic = Program::new(vec![
        word(HEADERS),
        is_marker(5),
        Insn::new(op::LDX | op::IMM, payload - 4),
        Insn::new(op::LD | op::W | op::IND, HEADERS),
        is_marker(2),
        Insn::new(op::LD | op::LEN, 0),
        Insn::jump(op::JMP | op::JEQ, HEADERS + payload, 1, 0),
        Insn::new(op::RET, 0),
        Insn::new(op::RET, 96),
    ])
    .expect("a valid program");
    let program = counting(&classic, &found, &direct);
    let (side, place) = (TcxSide::Egress, TcxPlace::First);
    let _link = pair.left.namespace.run(|| {
        let index = pair
            .left
            .namespace
            .netlink()
            .index(&pair.left.device)
            .expect("it exists");
        Link::tcx(&program, &Kernel::running(), index, side, place, None).expect("tcx")
    });
    let listener = pair
        .right
        .namespace
        .run(|| TcpListener::bind(("10.99.0.2", 0)).expect("a free port"));
    let address = listener.local_addr().expect("bound");
    let mut stream = pair
        .left
        .namespace
        .run(|| TcpStream::connect(address).expect("reachable"));
    let mut bytes = vec![0x2e; payload as usize];
    bytes[..4].copy_from_slice(&MARKER.to_be_bytes());
    bytes[payload as usize - 4..].copy_from_slice(&MARKER.to_be_bytes());
    stream.write_all(&bytes).expect("connected");
    let (mut accepted, _) = listener.accept().expect("connected");
    std::io::Read::read_exact(&mut accepted, &mut bytes).expect("sent");
    assert_eq!(
        count(&direct),
        0,
        "the payload was to lie beyond the linear part"
    );
    assert_eq!(count(&found), 1);
}

fn count_map(name: &str) -> Map {
    let kind = MapKind::Array {
        mmapable: false,
        inner: false,
    };
    let (value_size, max_entries) = (8, 1);
    let spec = MapSpec::new(name, kind, value_size, max_entries);
    Map::create(&Kernel::running(), &spec).expect("a map")
}

fn count(map: &Map) -> u64 {
    let mut value = [0; 8];
    map.lookup(0, &mut value).expect("the one element");
    u64::from_ne_bytes(value)
}

/// Counts accepted packets; separately, those whose linear part is longer than the headers.
fn counting(classic: &Program, found: &Map, direct: &Map) -> bpf::Program {
    use ringtap_filter::ebpf::{Cond, Width};

    const DATA: i16 = 76;
    const DATA_END: i16 = 80;
    const NEXT: i32 = -1;
    let mut asm = Assembler::new();
    let exits = Exits {
        accept: asm.label(),
        reject: asm.label(),
    };
    asm.mov64(Reg::R6, Reg::R1);
    lower(classic, Hook::Tcx(Vlan::Restored), &mut asm, exits).expect("known to tcx");
    asm.place(exits.accept);
    add_one(found, &mut asm);
    asm.load(Size::W, Reg::R1, Reg::R6, DATA);
    asm.load(Size::W, Reg::R2, Reg::R6, DATA_END);
    asm.add64(Reg::R1, HEADERS.cast_signed() + 1);
    asm.jump_if(Cond::Gt, Width::W64, Reg::R1, Reg::R2, exits.reject);
    add_one(direct, &mut asm);
    asm.place(exits.reject);
    asm.mov32(Reg::R0, NEXT);
    asm.exit();
    let code = asm.finish().expect("labels are placed");
    let kind = ProgramKind::SchedCls;
    bpf::Program::load(&Kernel::running(), "counting", kind, &code).expect("accepted")
}

fn add_one(map: &Map, asm: &mut Assembler) {
    let fd = map.as_fd().as_raw_fd();
    asm.push(Ebpf::LoadMapValue {
        dst: Reg::R3,
        fd,
        offset: 0,
    });
    asm.mov32(Reg::R4, 1);
    asm.atomic(Size::Dw, AtomicOp::Add, Reg::R3, 0, Reg::R4);
}

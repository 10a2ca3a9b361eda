//! `bpf(2)` on the running kernel: programs, maps, mappings, links, features; and other kernels,
//! simulated by a gate.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use ringtap_filter::ebpf::{
    AluOp, Assembler, AtomicOp, Cond, Helper, Insn, Reg, Size, Width, statement,
};
use ringtap_sys::bpf::{
    ALL_FEATURES, Error, Feature, Features, Hint, Kernel, Link, LoadOptions, Map, MapKind, MapSpec,
    Mapping, Needs, Program, ProgramKind, ProgramRun, Rejection, Request, Statistics, TcxAnchor,
    TcxPlace, TcxSide, Tracepoint, XdpMode, page_size, possible_cpus, programs_stay, query_tcx,
};
use ringtap_testkit::datagrams::Datagrams;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::{Need, suite, test};

const XDP: ProgramKind = ProgramKind::Xdp { frags: false };
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
/// `TCX_NEXT`: the next program of the chain decides.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

fn main() -> ExitCode {
    let root = &[Need::Root, Need::Kernel(5, 15)];
    let tcx = &[Need::Root, Need::Kernel(6, 6)];
    suite(vec![
        test("rejections_show_the_verifiers_words", root, rejections),
        test("long_rejections_keep_the_end", root, long_rejections),
        test(
            "helpers_ask_for_no_gpl",
            &[Need::Root, Need::Kernel(6, 1)],
            no_gpl,
        ),
        test("programs_run_on_data", root, programs_run),
        test("arrays_hold_elements", root, arrays),
        test("per_cpu_values_come_in_one_batch", root, per_cpu_batch),
        test(
            "old_kernels_are_asked_element_by_element",
            root,
            per_cpu_one_by_one,
        ),
        test("read_only_pages_are_read_only", root, read_only_pages),
        test("values_are_mapped_alone", root, values_mapped_alone),
        test("frozen_maps_refuse_the_application", root, frozen),
        test("programs_write_what_is_mapped", root, mapped_by_program),
        test("maps_of_maps_take_alike_maps", root, map_of_maps),
        test("xdp_links_vanish_with_their_fd", root, xdp_links),
        test("tcx_programs_stand_where_they_are_put", tcx, tcx_order),
        test("tcx_links_are_updated_in_place", tcx, tcx_update),
        test("features_of_this_kernel", tcx, features_here),
        test("features_of_an_old_kernel", root, features_of_old),
        test("no_rights_are_named", &[], no_rights),
        test("native_code_is_told_by_its_parts", root, native_parts),
        test("programs_stay_that_have_room", root, programs_that_stay),
        test("runs_are_measured_on_demand", root, run_statistics),
        test("tracepoints_run_programs", root, tracepoints),
    ])
}

fn code(write: impl FnOnce(&mut Assembler)) -> Vec<u64> {
    let mut asm = Assembler::new();
    write(&mut asm);
    asm.finish().expect("labels are placed")
}

/// Returns a program that returns a constant.
fn returning(value: i32) -> Vec<u64> {
    code(|asm| {
        asm.mov32(Reg::R0, value);
        asm.exit();
    })
}

fn native_parts() {
    let mut asm = Assembler::new();
    asm.mark("first");
    asm.call(Helper::KtimeGetNs);
    asm.mark("second");
    asm.mov32(Reg::R0, XDP_PASS);
    asm.exit();
    let (code, marks) = asm.finish_marked().expect("labels are placed");
    let options = LoadOptions {
        marks: &marks,
        ..LoadOptions::default()
    };
    let program = Program::load_with(&Kernel::running(), "parts", XDP, &code, &options);
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    let parts = program.native_parts().expect("told");
    let names: Vec<_> = parts.iter().map(|part| part.name).collect();
    assert_eq!(names, ["first", "second"], "{parts:x?}");
    assert!(parts[0].addresses.end == parts[1].addresses.start);
    let native = program.info().expect("told").native_bytes;
    let total = parts[1].addresses.end - parts[0].addresses.start;
    assert!(total >= u64::from(native) && native > 0, "{parts:x?}");
    // Without marks there is one part.
    let plain = load("plain", XDP, &code).native_parts().expect("told");
    assert_eq!((plain.len(), plain[0].name), (1, ""));
}

/// If a program for one device moves, the kernel loses track of it, and stops when the device is
/// deleted. So this test uses programs for any device.
fn programs_that_stay() {
    const PAGE: usize = 4096;
    let hides = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_harden");
    let hides = hides.is_ok_and(|level| level.trim() == "2");
    let stay = programs_stay(&Kernel::running()).expect("a probe");
    assert_eq!(stay, !hides);
    // The verifier makes three instructions of each read of the interface's number.
    for (looks, at_first) in [(470, 1), (980, 2), (2_000, 4)] {
        let mut asm = Assembler::new();
        asm.mark("looks");
        for _ in 0..looks {
            asm.load(Size::W, Reg::R0, Reg::R1, 12);
        }
        asm.mark("end");
        asm.mov32(Reg::R0, XDP_PASS);
        asm.exit();
        let (code, marks) = asm.finish_marked().expect("labels are placed");
        let plain = load("plain", XDP, &code).info().expect("told");
        let has_moved = plain.memory > Some(at_first * PAGE);
        assert!(has_moved || page_size() > PAGE, "{plain:?}");
        let options = LoadOptions {
            stays: true,
            marks: &marks,
            ..LoadOptions::default()
        };
        let stays = Program::load_with(&Kernel::running(), "stays", XDP, &code, &options);
        if hides {
            let error = stays.expect_err("constants are hidden in a copy");
            assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
            continue;
        }
        let stays = stays.unwrap_or_else(|error| panic!("{error}"));
        let info = stays.info().expect("told");
        assert!(
            info.translated_bytes <= plain.translated_bytes + 8,
            "{info:?}"
        );
        assert!(info.memory > plain.memory, "{info:?}");
        let parts = stays.native_parts().expect("told");
        let names: Vec<_> = parts.iter().map(|part| part.name).collect();
        assert_eq!(names, ["looks", "end"]);
        let packet = ProgramRun {
            data: &[0; 60],
            ..ProgramRun::default()
        };
        let outcome = stays.run(&packet).expect("runs");
        assert_eq!(outcome.return_value.cast_signed(), XDP_PASS);
    }
}

fn run_statistics() {
    let packet = ProgramRun {
        data: &[0; 60],
        repeat: 100,
        ..ProgramRun::default()
    };
    let program = load("counted", XDP, &returning(XDP_PASS));
    program.run(&packet).expect("runs");
    let statistics = Statistics::enable(&Kernel::running()).expect("enabled");
    let before = program.info().expect("told");
    program.run(&packet).expect("runs");
    let after = program.info().expect("told");
    assert_eq!(after.run_count - before.run_count, 100);
    assert!(after.run_time_ns > before.run_time_ns);
    drop(statistics);
}

fn tracepoints() {
    let count = array("enters", 8, 1, false);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&count.as_fd());
    let program = code(|asm| {
        asm.push(Insn::LoadMapValue {
            dst: Reg::R1,
            fd,
            offset: 0,
        });
        asm.mov64(Reg::R2, 1);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, 0, Reg::R2);
        asm.mov32(Reg::R0, 0);
        asm.exit();
    });
    let program = load("enters", ProgramKind::RawTracepoint, &program);
    let kernel = Kernel::running();
    let missing = Tracepoint::attach(&kernel, c"no_such_event", &program);
    assert_eq!(missing.expect_err("none").errno(), Some(libc::ENOENT));
    let point = Tracepoint::attach(&kernel, c"sys_enter", &program).expect("attached");
    std::thread::yield_now();
    drop(point);
    let mut value = [0; 8];
    count.lookup(0, &mut value).expect("there");
    assert!(u64::from_ne_bytes(value) > 0);
}

fn load(name: &str, kind: ProgramKind, instructions: &[u64]) -> Program {
    let loaded = Program::load(&Kernel::running(), name, kind, instructions);
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

fn array(name: &str, value_size: u32, max_entries: u32, mmapable: bool) -> Map {
    make(
        name,
        MapKind::Array {
            mmapable,
            inner: false,
        },
        value_size,
        max_entries,
    )
}

fn make(name: &str, kind: MapKind, value_size: u32, max_entries: u32) -> Map {
    let spec = MapSpec::new(name, kind, value_size, max_entries);
    Map::create(&Kernel::running(), &spec).expect("a map")
}

/// Returns the verifier's rejection from an error.
fn rejection(error: &Error) -> &Rejection {
    match error {
        Error::Rejected(rejection) => rejection,
        other => panic!("{other}"),
    }
}

fn rejections() {
    let bad = code(|asm| {
        asm.load(Size::W, Reg::R2, Reg::R1, 4);
        asm.load(Size::B, Reg::R0, Reg::R2, 0);
        asm.exit();
    });
    let error = Program::load(&Kernel::running(), "bad", XDP, &bad).expect_err("reads data_end");
    let rejection = rejection(&error);
    assert_eq!(rejection.instruction, Some(1), "{error}");
    assert!(rejection.reason.contains("invalid mem access"), "{error}");
    let shown = statement(&bad[1..]);
    assert_eq!(rejection.statement.as_deref(), Some(shown.as_str()));
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    let log = rejection.log();
    assert!(
        log.contains("at instruction 1: r0 = *(u8 *)(r2 +0)"),
        "{log}"
    );
}

fn long_rejections() {
    let bad = code(|asm| {
        for value in 0..60_000 {
            asm.mov32(Reg::R0, value);
        }
        asm.load(Size::B, Reg::R0, Reg::R9, 0);
        asm.exit();
    });
    let error = Program::load(&Kernel::running(), "bad", XDP, &bad).expect_err("R9 is not set");
    let rejection = rejection(&error);
    assert_eq!(rejection.instruction, Some(60_000), "{error}");
    assert!(rejection.reason.contains("R9 !read_ok"), "{error}");
    assert!(rejection.last_lines.len() <= 12);
}

/// Loads the helpers that ringtap calls under a licence that is not compatible with the GPL.
fn no_gpl() {
    let helpers = [
        (Helper::KtimeGetNs, ProgramKind::SchedCls),
        (Helper::KtimeGetTaiNs, ProgramKind::SchedCls),
        (Helper::KtimeGetCoarseNs, ProgramKind::SchedCls),
        (Helper::GetPrandomU32, ProgramKind::SchedCls),
        (Helper::GetSmpProcessorId, ProgramKind::SchedCls),
        (Helper::XdpGetBuffLen, XDP),
    ];
    for (helper, kind) in helpers {
        let calling = code(|asm| {
            asm.call(helper);
            asm.mov32(Reg::R0, 0);
            asm.exit();
        });
        let kernel = Kernel::running();
        let loaded = Program::load_licensed(&kernel, "licence", kind, &calling, c"Apache-2.0");
        assert!(loaded.is_ok(), "{}: {:?}", helper.name(), loaded.err());
    }
}

fn programs_run() {
    let program = load(
        "length",
        XDP,
        &code(|asm| {
            asm.load(Size::W, Reg::R0, Reg::R1, 4);
            asm.load(Size::W, Reg::R2, Reg::R1, 0);
            asm.alu64(AluOp::Sub, Reg::R0, Reg::R2);
            asm.exit();
        }),
    );
    let data: Vec<u8> = (0..100).collect();
    let run = ProgramRun {
        data: &data,
        repeat: 10,
        data_out: 100,
        ..ProgramRun::default()
    };
    let outcome = program.run(&run).expect("it runs");
    assert_eq!(outcome.return_value, 100);
    assert_eq!(outcome.data, data);
    let short = ProgramRun {
        data: &data[..13],
        ..ProgramRun::default()
    };
    assert_eq!(
        program.run(&short).expect_err("too short").errno(),
        Some(libc::EINVAL)
    );
    let info = program.info().expect("the kernel tells");
    assert!(info.id > 0 && info.translated_bytes >= 32, "{info:?}");
}

fn arrays() {
    let map = array("numbers", 8, 4, false);
    map.update(2, &7_u64.to_ne_bytes()).expect("in range");
    let mut value = [0; 8];
    map.lookup(2, &mut value).expect("in range");
    assert_eq!(u64::from_ne_bytes(value), 7);
    let error = map.lookup(4, &mut value).expect_err("beyond the last");
    assert_eq!(error.errno(), Some(libc::ENOENT));
    assert!(
        error
            .to_string()
            .starts_with("bpf(BPF_MAP_LOOKUP_ELEM) numbers[4]: "),
        "{error}"
    );
    let error = map.lookup(0, &mut value[..4]).expect_err("half a value");
    assert_eq!(error.to_string(), "numbers: value of 4 bytes, 8 expected");
    assert_eq!(
        map.delete(0).expect_err("arrays keep elements").errno(),
        Some(libc::EINVAL)
    );
}

fn per_cpu_batch() {
    let map = make("counters", MapKind::PerCpuArray, 12, 5);
    let counting = load(
        "count",
        ProgramKind::SchedCls,
        &code(|asm| {
            let none = asm.label();
            asm.store_imm(Size::W, Reg::R10, -4, 3);
            asm.mov64(Reg::R2, Reg::R10);
            asm.add64(Reg::R2, -4);
            asm.push(Insn::LoadMap {
                dst: Reg::R1,
                fd: std::os::fd::AsRawFd::as_raw_fd(&map.as_fd()),
            });
            asm.call(Helper::MapLookupElem);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
            asm.load(Size::W, Reg::R1, Reg::R0, 8);
            asm.add64(Reg::R1, 1);
            asm.store(Size::W, Reg::R0, 8, Reg::R1);
            asm.place(none);
            asm.mov32(Reg::R0, 0);
            asm.exit();
        }),
    );
    let run = ProgramRun {
        data: &[0; 60],
        repeat: 1_000,
        ..ProgramRun::default()
    };
    counting.run(&run).expect("it runs");
    assert_eq!(map.cpu_stride(), 16);
    assert_eq!(map.element_size(), 16 * possible_cpus());
    let mut values = vec![0; map.element_size() * 5];
    map.lookup_all(&mut values).expect("all elements");
    let counts = |values: &[u8]| -> Vec<u32> {
        let counts = map
            .cpu_values(values)
            .map(|value| value[8..12].try_into().expect("4 bytes"));
        counts.map(u32::from_ne_bytes).collect()
    };
    let cpus = possible_cpus();
    let all = counts(&values);
    assert_eq!(all.len(), 5 * cpus);
    assert_eq!(all[3 * cpus..4 * cpus].iter().sum::<u32>(), 1_000);
    assert_eq!(all.iter().sum::<u32>(), 1_000);
}

fn per_cpu_one_by_one() {
    let cpus = possible_cpus();
    let old = Kernel::behind(|request: &Request<'_>| match request {
        Request::MapLookupBatch => Err(libc::EINVAL),
        _ => Ok(()),
    });
    let kind = MapKind::PerCpuArray;
    let (name, value_size, max_entries) = ("old", 8, 2);
    let spec = MapSpec::new(name, kind, value_size, max_entries);
    let map = Map::create(&old, &spec).expect("a map");
    let value: Vec<u8> = (1..=cpus as u64).flat_map(u64::to_ne_bytes).collect();
    map.update(1, &value).expect("in range");
    let mut values = vec![0xff; map.element_size() * 2];
    map.lookup_all(&mut values).expect("element by element");
    assert_eq!(values, [vec![0; value.len()], value].concat());
}

fn read_only_pages() {
    let page = page_size();
    let size = u32::try_from(4 * page).expect("small");
    let map = array("ring", size, 1, true);
    let mapping = Mapping::new(&map, page..2 * page).expect("mapped");
    assert_eq!(mapping.len(), 4 * page);
    mapping.word_u64(page + 8).store(42, Ordering::Release);
    assert_eq!(mapping.load_u64(page + 8), 42);
    let mut value = vec![0; 4 * page];
    map.lookup(0, &mut value).expect("the one element");
    assert_eq!(value[page + 8], 42, "what is written is in the map");
    for (at, writable) in [
        (0, false),
        (page, true),
        (2 * page - 1, true),
        (2 * page, false),
    ] {
        assert_eq!(kernel_can_write(&mapping, at), writable, "byte {at}");
    }
    let error = Mapping::new(&map, 1..page).expect_err("half a page");
    assert!(error.to_string().contains("writable pages"), "{error}");
    let error = Mapping::new(&array("plain", size, 1, false), 0..0).expect_err("not mappable");
    assert_eq!(error.errno(), Some(libc::EINVAL));
    let range = mapping.as_ptr() as usize;
    drop(mapping);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let is_mapped = maps
        .lines()
        .any(|line| line.starts_with(&format!("{range:x}-")));
    assert!(!is_mapped, "unmapped with its owner");
}

fn values_mapped_alone() {
    let page = page_size();
    let map = array("rings", u32::try_from(2 * page).expect("small"), 3, true);
    let mapping = Mapping::of_value(&map, 1, page..2 * page).expect("mapped");
    assert_eq!(mapping.len(), 2 * page);
    for (at, writable) in [(0, false), (page, true), (2 * page - 1, true)] {
        assert_eq!(kernel_can_write(&mapping, at), writable, "byte {at}");
    }
    mapping.word_u64(page + 8).store(42, Ordering::Release);
    let mut value = vec![0; 2 * page];
    for index in 0..3 {
        map.lookup(index, &mut value).expect("in range");
        assert_eq!(value[page + 8] == 42, index == 1, "value {index}");
    }
    assert!(Mapping::of_value(&map, 3, 0..0).is_err(), "out of range");
    assert!(Mapping::of_value(&map, 2, 0..3 * page).is_err(), "too long");
    let parts = array("parts", u32::try_from(page / 2).expect("small"), 2, true);
    assert!(Mapping::of_value(&parts, 1, 0..0).is_err(), "half a page");
}

/// Returns whether a page is writable: a read(2) of one byte to it fails with EFAULT instead of
/// ending the process.
fn kernel_can_write(mapping: &Mapping, at: usize) -> bool {
    assert!(at < mapping.len());
    let zero = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&zero);
    let address = mapping.as_ptr().wrapping_add(at).cast_mut();
    // SAFETY: the address is inside a shared mapping that lives through the call; the kernel writes
    // one byte to it or fails. No reference to that byte exists.
    let read = unsafe { libc::read(fd, address.cast(), 1) };
    let error = std::io::Error::last_os_error();
    assert!(
        read == 1 || error.raw_os_error() == Some(libc::EFAULT),
        "{error}"
    );
    read == 1
}

fn frozen() {
    let map = array("constants", 8, 1, true);
    map.update(0, &1_u64.to_ne_bytes()).expect("not frozen yet");
    map.freeze().expect("nobody maps it");
    let error = map.update(0, &2_u64.to_ne_bytes()).expect_err("frozen");
    assert_eq!(error.errno(), Some(libc::EPERM));
    let mapping = Mapping::new(&map, 0..0).expect("read-only is allowed");
    assert_eq!(mapping.load_u64(0), 1);
    let error = Mapping::new(&map, 0..page_size()).expect_err("writable is not");
    assert_eq!(error.errno(), Some(libc::EPERM));
}

/// An exchange in the kernel, seen through the mapping; a ring's head is published in this way.
fn mapped_by_program() {
    let page = u32::try_from(page_size()).expect("small");
    let map = array("shared", page, 1, true);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&map.as_fd());
    let mapping = Mapping::new(&map, 0..0).expect("mapped");
    let program = load(
        "publish",
        ProgramKind::SchedCls,
        &code(|asm| {
            asm.push(Insn::LoadMapValue {
                dst: Reg::R1,
                fd,
                offset: 128,
            });
            asm.push(Insn::LoadImm64 {
                dst: Reg::R0,
                value: 0x0102_0304_0506_0708,
            });
            asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R1, 0, Reg::R0);
            asm.exit();
        }),
    );
    let run = ProgramRun {
        data: &[0; 60],
        ..ProgramRun::default()
    };
    assert_eq!(program.run(&run).expect("it runs").return_value, 0);
    assert_eq!(mapping.load_u64(128), 0x0102_0304_0506_0708);
    assert_eq!(
        program.run(&run).expect("it runs").return_value,
        0x0506_0708,
        "the old value"
    );
}

fn map_of_maps() {
    let page = u32::try_from(page_size()).expect("small");
    let inner = array("inner", page, 1, true);
    let kernel = Kernel::running();
    let kind = MapKind::ArrayOfMaps;
    let inner_like = Some(&inner);
    let (name, value_size, max_entries) = ("rings", 4, 2);
    let spec = MapSpec {
        name,
        kind,
        value_size,
        max_entries,
        numa_node: None,
        inner: inner_like,
    };
    let rings = Map::create(&kernel, &spec).expect("a map of maps");
    rings.update_fd(1, &inner).expect("like itself");
    let other = array("other", 2 * page, 1, true);
    let error = rings.update_fd(0, &other).expect_err("another value size");
    assert_eq!(error.errno(), Some(libc::EINVAL));
    rings.delete(1).expect("elements can go");
    let old = Kernel::behind(|request: &Request<'_>| match request {
        Request::MapUpdateBatch => Err(libc::EINVAL),
        _ => Ok(()),
    });
    for kernel in [kernel, old] {
        let rings = Map::create(&kernel, &spec).expect("a map of maps");
        let error = rings.update_fds(&[(1, &inner), (0, &other)]);
        let error = error.expect_err("another value size");
        assert_eq!(error.errno(), Some(libc::EINVAL));
        rings
            .update_fds(&[(1, &inner), (0, &inner)])
            .expect("like itself");
        for key in 0..2 {
            rings.delete(key).expect("it was there");
        }
    }
}

fn index_of(pair: &VethPair) -> u32 {
    pair.right
        .namespace
        .netlink()
        .index(&pair.right.device)
        .expect("it exists")
}

fn xdp_links() {
    let pair = VethPair::new();
    let ifindex = index_of(&pair);
    let kernel = Kernel::running();
    pair.right.namespace.run(|| {
        let drop_all = load("drop", XDP, &returning(XDP_DROP));
        let pass = load("pass", XDP, &returning(XDP_PASS));
        let link = Link::xdp(&drop_all, &kernel, ifindex, XdpMode::Native).expect("veth has XDP");
        let info = link.info().expect("the kernel tells");
        assert_eq!(info.ifindex, Some(ifindex));
        assert_eq!(
            info.program_id,
            drop_all.info().expect("the kernel tells").id
        );

        let error = Link::xdp(&pass, &kernel, ifindex, XdpMode::Auto).expect_err("taken");
        assert!(
            matches!(
                error,
                Error::Call {
                    hint: Some(Hint::XdpTaken),
                    ..
                }
            ),
            "{error}"
        );

        link.update(&pass, Some(&drop_all)).expect("held");
        let now = link.info().expect("the kernel tells").program_id;
        assert_eq!(now, pass.info().expect("the kernel tells").id);
        let error = link
            .update(&pass, Some(&drop_all))
            .expect_err("not held any more");
        assert_eq!(error.errno(), Some(libc::EPERM));

        drop(link);
        let generic = Link::xdp(&drop_all, &kernel, ifindex, XdpMode::Generic);
        generic.expect("the hook is free again");
    });
}

fn tcx_ids(ifindex: u32, side: TcxSide) -> Vec<u32> {
    let chain = query_tcx(&Kernel::running(), ifindex, side).expect("the kernel has tcx");
    chain
        .members
        .iter()
        .map(|member| member.program_id)
        .collect()
}

fn tcx_order() {
    let pair = VethPair::new();
    let ifindex = index_of(&pair);
    let kernel = Kernel::running();
    pair.right.namespace.run(|| {
        let names = ["a", "b", "c", "d"];
        let [a, b, c, d] =
            names.map(|name| load(name, ProgramKind::SchedCls, &returning(TCX_NEXT)));
        let ids = [&a, &b, &c, &d].map(|program| program.info().expect("the kernel tells").id);
        let side = TcxSide::Ingress;
        let attach = |program, place| Link::tcx(program, &kernel, ifindex, side, place, None);
        let of_a = attach(&a, TcxPlace::Last).expect("the chain is empty");
        let of_b = attach(&b, TcxPlace::First).expect("before all");
        let anchor = TcxAnchor::Link(&of_a);
        let of_c = attach(&c, TcxPlace::Before(anchor)).expect("before a");
        assert_eq!(tcx_ids(ifindex, side), [ids[1], ids[2], ids[0]]);
        assert_eq!(tcx_ids(ifindex, TcxSide::Egress), Vec::<u32>::new());

        let chain = query_tcx(&kernel, ifindex, side).expect("the kernel has tcx");
        let link_of_b = chain.members[0].link_id.expect("attached by a link");
        assert_eq!(link_of_b, of_b.info().expect("the kernel tells").id);
        let place = TcxPlace::After(TcxAnchor::LinkId(link_of_b));
        let stale = Some(chain.revision - 1);
        let error = Link::tcx(&d, &kernel, ifindex, side, place, stale).expect_err("stale");
        assert!(
            matches!(
                error,
                Error::Call {
                    hint: Some(Hint::ChainChanged),
                    ..
                }
            ),
            "{error}"
        );
        let current = Some(chain.revision);
        let of_d = Link::tcx(&d, &kernel, ifindex, side, place, current).expect("current");
        assert_eq!(tcx_ids(ifindex, side), [ids[1], ids[3], ids[2], ids[0]]);
        let later = query_tcx(&kernel, ifindex, side).expect("the kernel has tcx");
        assert!(later.revision > chain.revision);

        drop((of_b, of_c));
        assert_eq!(tcx_ids(ifindex, side), [ids[3], ids[0]]);
        drop((of_a, of_d));
        assert_eq!(tcx_ids(ifindex, side), Vec::<u32>::new());
    });
}

fn tcx_update() {
    let pair = VethPair::new();
    let ifindex = index_of(&pair);
    let kernel = Kernel::running();
    let next = load("next", ProgramKind::SchedCls, &returning(TCX_NEXT));
    let drop_all = load("drop", ProgramKind::SchedCls, &returning(TCX_DROP));
    let (side, place) = (TcxSide::Ingress, TcxPlace::First);
    let attach = || Link::tcx(&next, &kernel, ifindex, side, place, None);
    let link = pair
        .right
        .namespace
        .run(attach)
        .expect("the chain is empty");
    let wire = Datagrams::over(&pair);
    wire.send(b"first");
    assert_eq!(wire.received().as_deref(), Some(&b"first"[..]));
    link.update(&drop_all, Some(&next)).expect("held");
    wire.send(b"dropped");
    assert_eq!(wire.stray(), None, "nothing gets through");
    let id = drop_all.info().expect("the kernel tells").id;
    assert_eq!(pair.right.namespace.run(|| tcx_ids(ifindex, side)), [id]);
    link.update(&next, Some(&drop_all)).expect("held");
    wire.send(b"last");
    assert_eq!(wire.received().as_deref(), Some(&b"last"[..]));
}

fn features_here() {
    let features = Features::probe(&Kernel::running());
    let mut release = String::new();
    let mut file = std::fs::File::open("/proc/sys/kernel/osrelease").expect("procfs");
    file.read_to_string(&mut release).expect("text");
    assert_eq!(features.kernel_release(), release.trim());
    for feature in ALL_FEATURES {
        let why_not = features.why_not(feature);
        assert!(why_not.is_none(), "{}: {why_not:?}", feature.name());
    }
}

/// Returns a kernel that rejects the requests that Linux 5.10 does not know.
fn old_kernel() -> Kernel {
    const ARRAY: u32 = 2;
    Kernel::behind(|request: &Request<'_>| {
        let refused = match request {
            Request::ProgramLoad { flags, .. } => {
                let helpers = [160, 188, 189, 208];
                *flags != 0 || helpers.iter().any(|&helper| request.calls_helper(helper))
            }
            Request::MapCreate { kind: ARRAY, .. } => false,
            _ => request.is_tcx() || *request == Request::MapLookupBatch,
        };
        if refused { Err(libc::EINVAL) } else { Ok(()) }
    })
}

fn features_of_old() {
    let features = Features::probe(&old_kernel());
    let missing = [
        Feature::Tcx,
        Feature::XdpFrags,
        Feature::XdpLoadBytes,
        Feature::XdpBuffLen,
        Feature::TaiClock,
        Feature::CoarseClock,
        Feature::BatchLookup,
    ];
    for feature in missing {
        assert!(!features.has(feature), "{}", feature.name());
    }
    for feature in [
        Feature::Bpf,
        Feature::Xdp,
        Feature::MappedArray,
        Feature::FetchAtomics,
    ] {
        assert!(
            features.has(feature),
            "{}: {:?}",
            feature.name(),
            features.why_not(feature)
        );
    }
    let why_not = features.why_not(Feature::Tcx).expect("missing").to_string();
    assert!(
        why_not.ends_with("(tcx needs Linux 6.6 or later)"),
        "{why_not}"
    );

    let program = load("next", ProgramKind::SchedCls, &returning(TCX_NEXT));
    let (side, place) = (TcxSide::Egress, TcxPlace::First);
    let error = Link::tcx(&program, &old_kernel(), 1, side, place, None).expect_err("refused");
    let tcx = Needs {
        what: "tcx",
        since: (6, 6),
    };
    let Error::Call { hint, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*hint, Some(Hint::TooOld(tcx)));
    assert!(query_tcx(&old_kernel(), 1, side).is_err());
}

fn no_rights() {
    let refusing = Kernel::behind(|_: &Request<'_>| Err(libc::EPERM));
    let error = Program::load(&refusing, "any", XDP, &returning(XDP_PASS)).expect_err("refused");
    assert_eq!(error.errno(), Some(libc::EPERM));
    let text = error.to_string();
    assert!(text.starts_with("bpf(BPF_PROG_LOAD, XDP) any: "), "{text}");
    let is_named = text.contains("CAP_BPF") || text.contains("initial user namespace");
    assert!(is_named, "{text}");
    let features = Features::probe(&refusing);
    assert!(ALL_FEATURES.iter().all(|&feature| !features.has(feature)));
}

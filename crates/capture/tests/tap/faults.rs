//! Failures under a running capture.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_capture::hook::HookPoint;
use ringtap_capture::{
    CaptureOptions, Clock, Direction, Error, Filter, Host, KernelClock, Mode, Source, Who, open,
    open_on,
};
use ringtap_sys::bpf::{
    self, Kernel, Link, Program, ProgramKind, Request, TcxPlace, TcxSide, XdpMode, query_tcx,
};
use ringtap_sys::privileges::{self, Capability};
use ringtap_sys::tap::WallClock;
use ringtap_testkit::memory::MemoryGroup;
use ringtap_testkit::netns::{Namespace, Side, VethPair};
use ringtap_testkit::{Need, repetitions};

use crate::support::{
    count, drain, frame, injector, numbers, patience, prompt, tap, try_open, until_error,
};

const ENGINES: [&str; 2] = ["tcx", "xdp"];
const CHILD: &str = "RINGTAP_TEST_TAP_ON";
const WITHOUT_RIGHTS: &str = "RINGTAP_TEST_TAP_WITHOUT_RIGHTS";
const SHORT_OF_MEMORY: &str = "RINGTAP_TEST_TAP_SHORT_OF_MEMORY";
/// A buffer that exceeds the control group of the test, and the group's room, in bytes.
const TOO_MUCH: u64 = 256 << 20;
const ROOM: u64 = 96 << 20;
/// How far apart two readings of clocks may be.
const SLACK: Duration = Duration::from_millis(50);

/// Runs the work of this process if a test has started it as a child.
pub(crate) fn run_as_child() -> Option<ExitCode> {
    if let Ok(device) = std::env::var(WITHOUT_RIGHTS) {
        privileges::relinquish(None, &[Capability::NET_RAW]).unwrap();
        match open(&device, &prompt(), None) {
            Err(error) => println!("{error}"),
            Ok(mut source) => {
                println!("{}", source.describe());
                println!("{} came", count(&mut *source, 1));
            }
        }
        return Some(ExitCode::SUCCESS);
    }
    if let Ok(device) = std::env::var(SHORT_OF_MEMORY) {
        let options = prompt().buffer(TOO_MUCH);
        let mut source = open(&device, &options, None).unwrap();
        println!("{}", source.describe());
        println!("{} came", count(&mut *source, 1));
        return Some(ExitCode::SUCCESS);
    }
    let device = std::env::var(CHILD).ok()?;
    let mut source = open(&device, &prompt(), None).unwrap();
    while source.next().is_ok() {}
    Some(ExitCode::FAILURE)
}

pub(crate) fn survives_a_new_name_and_mtu() {
    for engine in ENGINES {
        let pair = VethPair::new();
        let mut source = tap(engine, &pair.right, &prompt());
        let injector = injector(&pair.left);
        injector.send(&frame(1, 60)).unwrap();
        let device = pair.right.device.as_str();
        let mut netlink = pair.right.namespace.netlink();
        netlink.set_mtu(device, 1400).unwrap();
        injector.send(&frame(2, 60)).unwrap();
        netlink.rename(device, "renamed0").unwrap();
        injector.send(&frame(3, 60)).unwrap();
        assert_eq!(numbers(&drain(&mut *source, 3)), [1, 2, 3]);
        source.stats().unwrap();
    }
}

pub(crate) fn tells_of_a_deleted_interface() {
    for engine in ENGINES {
        let pair = VethPair::new();
        let received = prompt().direction(Direction::In);
        let mut source = tap(engine, &pair.right, &received);
        injector(&pair.left).send(&frame(1, 60)).unwrap();
        let mut netlink = pair.right.namespace.netlink();
        netlink.delete(&pair.right.device).unwrap();
        let (packets, error) = until_error(&mut *source);
        assert_eq!(packets, 1, "{engine}");
        assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
    }
}

pub(crate) fn tells_of_a_moved_interface() {
    let pair = VethPair::new();
    let elsewhere = Namespace::new();
    for engine in ENGINES {
        let mut source = tap(engine, &pair.right, &prompt());
        injector(&pair.left).send(&frame(1, 60)).unwrap();
        let mut from = pair.right.namespace.netlink();
        from.move_to(&pair.right.device, elsewhere.as_fd()).unwrap();
        let (packets, error) = until_error(&mut *source);
        assert_eq!(packets, 1);
        assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
        drop(source);
        let mut netlink = elsewhere.netlink();
        let home = pair.right.namespace.as_fd();
        netlink.move_to(&pair.right.device, home).unwrap();
        let mut netlink = pair.right.namespace.netlink();
        netlink.set_up(&pair.right.device, true).unwrap();
        assert!(
            netlink
                .wait_until_up(&pair.right.device, patience())
                .unwrap()
        );
    }
}

fn has_tcx() -> bool {
    Need::Tcx.unmet().is_none()
}

/// Programs in the ingress chain of a side, or at clsact if there is no chain, and at XDP.
fn programs(side: &Side) -> usize {
    let mut netlink = side.namespace.netlink();
    let index = netlink.index(&side.device).unwrap();
    let links = netlink.links().unwrap();
    let link = links.iter().find(|link| link.index == index).unwrap();
    let in_chain = if has_tcx() {
        let chain = side.run(|| query_tcx(&Kernel::running(), index, TcxSide::Ingress));
        chain.unwrap().members.len()
    } else {
        netlink.bpf_filters(index, TcxSide::Ingress).unwrap().len()
    };
    in_chain + link.xdp.len()
}

pub(crate) fn killed_reader_leaves_nothing() {
    let pair = VethPair::new();
    for engine in ENGINES {
        let program = std::env::current_exe().unwrap();
        let mut child = pair
            .right
            .namespace
            .command(program.to_str().unwrap())
            .env(CHILD, format!("{engine}:{}", pair.right.device))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(|| programs(&pair.right) == 1);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        if engine == "tcx" && !has_tcx() {
            // At clsact the next one takes it away.
            drop(tap(engine, &pair.right, &prompt()));
        }
        wait_for(|| programs(&pair.right) == 0);
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < patience());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the output of this program as a child for which `variable` names the device, while frames come.
fn child_output(pair: &VethPair, variable: &str, device: &str, group: Option<&Path>) -> String {
    let program = std::env::current_exe().unwrap();
    // The shell enters the group, and becomes the program.
    let enter = group.map_or("true".to_owned(), |group| {
        format!("echo $$ > {}/cgroup.procs", group.display())
    });
    let mut command = pair.right.namespace.command("sh");
    command.args(["-c", &format!("{enter} && exec \"$0\"")]);
    command.arg(&program).env(variable, device);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let injector = injector(&pair.left);
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > patience() {
            child.kill().unwrap();
            panic!("the child does not end");
        }
        injector.send(&frame(1, 60)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn needs_capabilities() {
    let pair = VethPair::new();
    for engine in ENGINES {
        let device = format!("{engine}:{}", pair.right.device);
        let text = child_output(&pair, WITHOUT_RIGHTS, &device, None);
        for capability in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
            assert!(text.contains(capability), "{text:?}");
        }
    }
}

pub(crate) fn falls_back_without_capabilities() {
    let pair = VethPair::new();
    let text = child_output(&pair, WITHOUT_RIGHTS, &pair.right.device, None);
    let engine = text.lines().next().unwrap();
    assert!(engine.contains("packet (not tcx: "), "{text}");
    assert!(engine.contains("CAP_BPF"), "{text}");
    assert!(text.ends_with(" came\n"), "{text}");
}

pub(crate) fn takes_less_where_the_group_has_no_more() {
    let pair = VethPair::new();
    for engine in ENGINES {
        // The kernel frees maps of the first one later, and counts them to its group until then.
        let group = MemoryGroup::new(ROOM).expect("it was there before");
        let device = format!("{engine}:{}", pair.right.device);
        let text = child_output(&pair, SHORT_OF_MEMORY, &device, Some(group.path()));
        let note = format!("instead of {TOO_MUCH}: not enough memory");
        assert!(text.contains(&note), "{text}");
        assert!(text.ends_with(" came\n"), "{text}");
    }
}

/// Opens on another kernel than the running one.
fn open_behind(
    gate: fn(&Request<'_>) -> Result<(), i32>,
    side: &Side,
    engine: &str,
) -> Box<dyn Source> {
    let host = Host {
        kernel: Kernel::behind(gate),
        ..Host::default()
    };
    let device = format!("{engine}{}", side.device);
    side.run(|| open_on(&host, &device, &prompt(), None).unwrap())
}

pub(crate) fn clsact_stands_in_for_tcx() {
    const EINVAL: i32 = 22;
    let pair = VethPair::new();
    let without_tcx = |request: &Request<'_>| {
        if request.is_tcx() {
            Err(EINVAL)
        } else {
            Ok(())
        }
    };
    for engine in ["", "tcx:"] {
        let mut source = open_behind(without_tcx, &pair.right, engine);
        let description = source.describe();
        assert_eq!(description.engine, "tcx");
        assert!(description.hook.starts_with("clsact"), "{description}");
        let notes = description.notes.iter().map(ToString::to_string);
        assert!(
            notes.clone().any(|note| note.contains("tcx")),
            "{description}"
        );
        assert_eq!(description.required_capabilities, [Capability::NET_ADMIN]);
        injector(&pair.left).send(&frame(1, 60)).unwrap();
        injector(&pair.right).send(&frame(2, 60)).unwrap();
        let seen = drain(&mut *source, 2);
        assert_eq!(numbers(&seen), [1, 2]);
        let directions: Vec<u32> = seen.iter().map(|packet| packet.flags.0 & 3).collect();
        assert_eq!(directions, [1, 2]);
        let filter = Filter::new("ether[14:4] = 4");
        pair.right.run(|| source.set_filter(Some(&filter)).unwrap());
        for number in [3, 4] {
            injector(&pair.left).send(&frame(number, 60)).unwrap();
        }
        assert_eq!(numbers(&drain(&mut *source, 1)), [4]);
        if engine == "tcx:" {
            let arguments = ["filter", "del", "dev", &pair.right.device, "ingress"];
            assert!(
                pair.right
                    .namespace
                    .output("tc", &arguments)
                    .status
                    .success()
            );
            let told = first_error(&mut *source, patience()).expect("told");
            assert!(
                matches!(&told, Error::Detached { hook, goes_on: true, .. } if hook == "clsact ingress"),
                "{told}"
            );
        }
        pair.right.run(move || drop(source));
        let left = pair.right.namespace.output(
            "tc",
            &["filter", "show", "dev", &pair.right.device, "ingress"],
        );
        assert_eq!(String::from_utf8(left.stdout).unwrap(), "");
    }
}

/// Which requests a kernel refuses.
type Refuses = fn(&Request<'_>) -> bool;

/// Returns the error if the kernel rejects programs for which `refuses` holds.
fn refusal(engine: &str, side: &Side, options: &CaptureOptions, refuses: Refuses) -> Error {
    const EINVAL: i32 = 22;
    let gate = move |request: &Request<'_>| {
        if refuses(request) {
            Err(EINVAL)
        } else {
            Ok(())
        }
    };
    let host = Host {
        kernel: Kernel::behind(gate),
        ..Host::default()
    };
    let device = match options.all_namespaces {
        true => "any".to_owned(),
        false => format!("{engine}{}", side.device),
    };
    let opened = side.run(|| open_on(&host, &device, options, None));
    match opened {
        Err(error) => error,
        Ok(source) => panic!("opened: {}", source.describe()),
    }
}

/// Returns whether the program has `XDP_LOAD_BYTES` and atomic operations that return the old value.
fn loads_bytes_at_xdp(request: &Request<'_>) -> bool {
    request.calls_helper(189)
}

fn fetches(request: &Request<'_>) -> bool {
    const ATOMIC: [u8; 2] = [0xc3, 0xdb];
    const FETCH: i32 = 1;
    let Request::ProgramLoad { instructions, .. } = request else {
        return false;
    };
    instructions.iter().any(|instruction| {
        let [code, _, _, _, imm @ ..] = instruction.to_ne_bytes();
        ATOMIC.contains(&code) && i32::from_ne_bytes(imm) & FETCH != 0
    })
}

pub(crate) fn lacking_kernels_are_told_in_a_line() {
    let pair = VethPair::new();
    let cases: [(&str, Refuses, &str); 3] = [
        (
            "tcx:",
            fetches,
            "engine tcx needs atomic operations that return the old value (Linux 5.12 or later)",
        ),
        (
            "xdp:",
            fetches,
            "engine xdp needs atomic operations that return the old value (Linux 5.12 or later)",
        ),
        (
            "xdp:",
            loads_bytes_at_xdp,
            "engine xdp needs bpf_xdp_load_bytes (Linux 5.18 or later)",
        ),
    ];
    for (engine, refuses, expected) in cases {
        let text = refusal(engine, &pair.right, &prompt(), refuses).to_string();
        assert_eq!(text, format!("{engine}{}: {expected}", pair.right.device));
    }
    // A stealing capture without a named engine gets a tap or nothing.
    let steal = prompt().mode(Mode::Steal);
    pair.right.keep_tags();
    let text = refusal("", &pair.right, &steal, fetches).to_string();
    assert_eq!(text, format!("{}: {}", pair.right.device, cases[1].2));
    // So does one that needs what only a tap does.
    let who = prompt().who(Some(Who::PID));
    let text = refusal("", &pair.right, &who, fetches).to_string();
    assert_eq!(text, format!("{}: {}", pair.right.device, cases[0].2));
    let everywhere = prompt().all_namespaces(true).cooked(false);
    let text = refusal("", &pair.right, &everywhere, fetches).to_string();
    assert_eq!(text, format!("any: {}", cases[0].2));
    // The automatic choice says the same of the tap, and takes the engine that is left.
    let source = open_behind(
        |request| {
            if fetches(request) { Err(22) } else { Ok(()) }
        },
        &pair.right,
        "",
    );
    let description = source.describe();
    assert_eq!(description.engine, "packet");
    let choice = description.choice.unwrap();
    assert!(choice.contains("(Linux 5.12 or later)"), "{choice}");
}

pub(crate) fn older_kernels_have_older_clocks() {
    const EINVAL: i32 = 22;
    const GET_TAI: i32 = 208;
    let pair = VethPair::new();
    let mut source = open_behind(
        |request| {
            if request.calls_helper(GET_TAI) {
                Err(EINVAL)
            } else {
                Ok(())
            }
        },
        &pair.right,
        "tcx:",
    );
    let clock = source.describe().clock;
    assert_eq!(clock, Clock::Kernel(KernelClock::Monotonic));
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    injector(&pair.left).send(&frame(1, 60)).unwrap();
    let seen = drain(&mut *source, 1);
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let stamp = Duration::from_nanos(u64::try_from(seen[0].timestamp.as_nanos()).unwrap());
    assert!(
        before - SLACK <= stamp && stamp <= after + SLACK,
        "{stamp:?}"
    );
}

pub(crate) fn follows_a_clock_that_is_set() {
    ENGINES.into_iter().for_each(follows_a_clock);
}

fn follows_a_clock(engine: &str) {
    const HOUR: i64 = 3600;
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let wall = WallClock::stand_in().unwrap();
    let host = Host {
        wall: wall.clone(),
        ..Host::default()
    };
    let device = format!("{engine}:{}", pair.right.device);
    let open = || open_on(&host, &device, &prompt(), None).unwrap();
    let mut source = pair.right.run(open);
    let mut stamps = Vec::new();
    for (number, ahead) in [(1, 0), (2, HOUR), (3, -HOUR)] {
        if ahead != 0 {
            wall.set_ahead(ahead * 1_000_000_000);
        }
        // The reader takes note of it when it waits next.
        assert!(drain(&mut *source, 0).is_empty());
        injector.send(&frame(number, 60)).unwrap();
        let seen = drain(&mut *source, 1);
        assert_eq!(numbers(&seen), [number]);
        stamps.push(seen[0].timestamp.secs());
    }
    let steps = [stamps[1] - stamps[0], stamps[2] - stamps[1]];
    let patience = i64::try_from(patience().as_secs()).unwrap();
    for (step, expected) in steps.into_iter().zip([HOUR, -2 * HOUR]) {
        assert!((expected..expected + patience).contains(&step), "{steps:?}");
    }
}

/// Returns a foreign program.
fn program_that_returns(verdict: u64, kind: ProgramKind) -> bpf::Result<Program> {
    let set_r0 = u64::from_ne_bytes([0xb4, 0, 0, 0, 0, 0, 0, 0]) | verdict << 32;
    let exit = u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]);
    Program::load(&Kernel::running(), "foreign", kind, &[set_r0, exit])
}

/// Returns a foreign program, first in the chain, that ends it: packets go on to the host unseen by later
/// programs.
fn cut_chain(side: &Side) -> bpf::Result<Link> {
    const TCX_PASS: u64 = 0;
    let kernel = Kernel::running();
    let program = program_that_returns(TCX_PASS, ProgramKind::SchedCls)?;
    let index = side.namespace.netlink().index(&side.device).unwrap();
    let place = TcxPlace::First;
    side.run(|| Link::tcx(&program, &kernel, index, TcxSide::Ingress, place, None))
}

pub(crate) fn cut_chain_is_seen_first() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let cutter = cut_chain(&pair.right).unwrap();
    // A later tap is placed before the program that ends the chain.
    let mut source = tap("tcx", &pair.right, &prompt());
    injector.send(&frame(1, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source, 1)), [1]);
    drop(cutter);
    // A program that comes after the tap, and is put first, hides packets from it; it continues when that is
    // removed.
    let cutter = cut_chain(&pair.right).unwrap();
    injector.send(&frame(2, 60)).unwrap();
    assert!(drain(&mut *source, 0).is_empty());
    drop(cutter);
    injector.send(&frame(3, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source, 1)), [3]);
}

pub(crate) fn tells_of_a_cut_chain() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = prompt().watch_chain(true);
    let mut source = tap("tcx", &pair.right, &options);
    assert_eq!(
        source.describe().required_capabilities,
        [Capability::NET_ADMIN]
    );
    for round in 0..2 {
        let cutter = cut_chain(&pair.right).unwrap();
        let told = pair.right.run(|| first_error(&mut *source, patience()));
        let told = told.unwrap_or_else(|| panic!("not told, round {round}"));
        assert!(told.is_transient());
        assert!(
            matches!(&told, Error::Overtaken { others: 1, hook, .. } if hook.contains("ingress")),
            "{told}"
        );
        let again = Duration::from_millis(1200);
        if round == 0 {
            // Once is enough.
            let repeated = pair.right.run(|| first_error(&mut *source, again));
            assert!(repeated.is_none(), "{repeated:?}");
        }
        drop(cutter);
        let none = pair.right.run(|| first_error(&mut *source, again));
        assert!(none.is_none(), "{none:?}");
    }
    injector.send(&frame(1, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source, 1)), [1]);
}

/// Returns the link by which the capture's program is held: the only one at its hook.
fn link_of(side: &Side, place: HookPoint) -> Link {
    let mut netlink = side.namespace.netlink();
    let link = netlink.link(&side.device).unwrap();
    let program = match place {
        HookPoint::Xdp(_) => link.xdp[0].id,
        HookPoint::Tcx(chain) | HookPoint::Clsact(chain) => {
            let chain = side.run(|| query_tcx(&Kernel::running(), link.index, chain));
            chain.unwrap().members[0].program_id
        }
    };
    let holding = Link::holding(&Kernel::running(), program).unwrap();
    holding.expect("it is held")
}

pub(crate) fn tells_of_a_program_taken_away() {
    let pair = VethPair::new();
    let mut source = tap("tcx", &pair.right, &prompt());
    let received = link_of(&pair.right, HookPoint::Tcx(TcxSide::Ingress));
    received.detach().unwrap();
    let told = first_error(&mut *source, patience()).expect("told");
    assert!(
        matches!(&told, Error::Detached { hook, .. } if hook == "tcx ingress"),
        "{told}"
    );
    assert!(told.is_transient(), "sent packets are still captured");
    injector(&pair.left).send(&frame(1, 60)).unwrap();
    injector(&pair.right).send(&frame(2, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source, 1)), [2]);
    let sent = link_of(&pair.right, HookPoint::Tcx(TcxSide::Egress));
    sent.detach().unwrap();
    for _ in 0..2 {
        let told = first_error(&mut *source, patience()).expect("told each time");
        assert!(
            matches!(&told, Error::Detached { hook, .. } if hook == "tcx egress"),
            "{told}"
        );
        assert!(!told.is_transient(), "nothing is captured any more");
    }
}

pub(crate) fn tells_of_a_replaced_program() {
    const XDP_PASS: u64 = 2;
    let pair = VethPair::new();
    let mut source = tap("xdp", &pair.right, &prompt());
    injector(&pair.left).send(&frame(1, 60)).unwrap();
    let link = link_of(&pair.right, HookPoint::Xdp(XdpMode::Native));
    let kind = ProgramKind::Xdp { frags: true };
    let other = program_that_returns(XDP_PASS, kind).unwrap();
    link.update(&other, None).unwrap();
    injector(&pair.left).send(&frame(2, 60)).unwrap();
    let (packets, error) = until_error(&mut *source);
    assert_eq!(packets, 1, "what came before is handed out");
    assert!(
        matches!(&error, Error::Detached { hook, goes_on: false, .. } if hook == "XDP in the driver"),
        "{error}"
    );
    drop(source);
    assert_eq!(link.info().unwrap().program_id, other.info().unwrap().id);
}

/// Returns the first error of a source within a time.
fn first_error(source: &mut dyn Source, time: Duration) -> Option<Error> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if let Err(error) = source.next() {
            return Some(error);
        }
    }
    None
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Mappings of maps in this process.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("bpf-map")).count()
}

pub(crate) fn thousand_openings_leak_nothing() {
    // Closing waits for the kernel most of the time, which several can do at once.
    let pairs: Vec<_> = (0..10).map(|_| VethPair::new()).collect();
    let options = prompt().buffer(1);
    let options = &options;
    let cycle = move |engine: &str, pair: &VethPair| {
        let source: Box<dyn Source> = try_open(engine, &pair.right, options, None).unwrap();
        drop(source);
    };
    cycle("tcx", &pairs[0]);
    let before = (descriptors(), mappings());
    std::thread::scope(|scope| {
        for pair in &pairs {
            scope.spawn(move || {
                for _ in 0..repetitions(50) {
                    cycle("tcx", pair);
                    cycle("xdp", pair);
                }
            });
        }
    });
    assert_eq!((descriptors(), mappings()), before);
    for pair in &pairs {
        assert_eq!(programs(&pair.right), 0);
    }
    let mut source = tap("tcx", &pairs[0].right, options);
    injector(&pairs[0].left).send(&frame(1, 60)).unwrap();
    assert_eq!(count(&mut *source, 1), 1);
}

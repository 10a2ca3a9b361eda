//! Failures under a running capture.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{Error, Host, Next, open, open_on};
use ringtap_sys::bpf::{Kernel, Link, Program, ProgramKind};
use ringtap_sys::privileges::{self, Capability};
use ringtap_sys::tap::WallClock;
use ringtap_testkit::memory::MemoryGroup;
use ringtap_testkit::netns::{Namespace, VethPair};

use crate::{bytes, collect, now, opened, options, patience, programs, traffic};

const CHILD: &str = "RINGTAP_TEST_XSK_ON";
/// The kind of interface that replaces a bond.
const STAND_IN: &str = "RINGTAP_TEST_XSK_STAND_IN";
const WITHOUT_RIGHTS: &str = "RINGTAP_TEST_XSK_WITHOUT_RIGHTS";
const SHORT_OF_MEMORY: &str = "RINGTAP_TEST_XSK_SHORT_OF_MEMORY";
/// A buffer that exceeds the control group of the test, and the group's room, in bytes.
const TOO_MUCH: u64 = 256 << 20;
const ROOM: u64 = 96 << 20;

/// Runs the work of this process if a test has started it as a child.
pub(crate) fn run_as_child() -> Option<ExitCode> {
    if let Ok(device) = std::env::var(WITHOUT_RIGHTS) {
        privileges::relinquish(None, &[Capability::NET_RAW]).expect("one thread");
        match open(&device, &options(), None) {
            Err(error) => println!("{error}"),
            Ok(_) => println!("opened"),
        }
        return Some(ExitCode::SUCCESS);
    }
    let (device, buffer) = match std::env::var(SHORT_OF_MEMORY) {
        Ok(device) => (device, TOO_MUCH),
        Err(_) => (std::env::var(CHILD).ok()?, options().buffer),
    };
    let options = options().buffer(buffer);
    let mut host = Host::default();
    if std::env::var_os(STAND_IN).is_some() {
        host.aggregates = &["bridge"];
    }
    let mut source = open_on(&host, &device, &options, None).expect("root");
    while source.next().is_ok() {}
    Some(ExitCode::FAILURE)
}

/// This program as a child that captures on a device until it is killed.
pub(crate) fn capturing_child(
    namespace: &Namespace,
    device: &str,
    stand_in: bool,
) -> std::process::Child {
    let program = std::env::current_exe().expect("it runs");
    let mut command = namespace.command(program.to_str().expect("text"));
    command.env(CHILD, device).stdout(Stdio::null());
    if stand_in {
        command.env(STAND_IN, "bridge");
    }
    command.spawn().expect("a child")
}

/// This program as a child in the namespace of the right end, for which `variable` names that.
fn child(pair: &VethPair, variable: &str, group: Option<&Path>) -> std::process::Child {
    let program = std::env::current_exe().expect("it runs");
    // The shell enters the group, and becomes the program.
    let enter = group.map_or("true".to_owned(), |group| {
        format!("echo $$ > {}/cgroup.procs", group.display())
    });
    let mut command = pair.right.namespace.command("sh");
    command.args(["-c", &format!("{enter} && exec \"$0\"")]);
    command.arg(&program);
    command.env(variable, format!("xsk:{}", pair.right.device));
    let child = command.stdout(Stdio::piped()).spawn();
    child.expect("a child")
}

fn count(pair: &VethPair) -> usize {
    programs(&pair.right.namespace, &pair.right.device)
}

pub(crate) fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < patience());
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn killed_reader_leaves_nothing() {
    let pair = VethPair::new();
    let mut child = child(&pair, CHILD, None);
    wait_for(|| count(&pair) == 1);
    // SIGKILL.
    child.kill().expect("it runs");
    child.wait().expect("a child");
    wait_for(|| count(&pair) == 0);
    // The queue is free.
    let mut source = opened(&pair.right, &options(), None);
    let frames = traffic(10);
    pair.left.inject(&frames);
    assert_eq!(bytes(collect(&mut *source, 10)), frames);
}

/// The memory is the process's own, so the kernel ends one that exceeds its control group.
pub(crate) fn short_of_memory_leaves_nothing() {
    let pair = VethPair::new();
    let group = MemoryGroup::new(ROOM).expect("it was there before");
    let mut child = child(&pair, SHORT_OF_MEMORY, Some(group.path()));
    wait_for(|| child.try_wait().expect("a child").is_some());
    assert!(!child.wait().expect("a child").success());
    wait_for(|| count(&pair) == 0);
    let mut source = opened(&pair.right, &options(), None);
    let frames = traffic(10);
    pair.left.inject(&frames);
    assert_eq!(bytes(collect(&mut *source, 10)), frames);
}

pub(crate) fn needs_capabilities() {
    let pair = VethPair::new();
    let output = child(&pair, WITHOUT_RIGHTS, None).wait_with_output();
    let output = output.expect("a child");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("CAP_"), "{text:?}");
    assert_eq!(count(&pair), 0);
}

pub(crate) fn survives_a_new_name_and_mtu() {
    let pair = VethPair::new();
    let mut source = opened(&pair.right, &options(), None);
    let mut frames = traffic(30);
    for frame in &mut frames {
        // None for which the new MTU has no room.
        frame.truncate(1000);
    }
    let mut netlink = pair.right.namespace.netlink();
    pair.left.inject(&frames[..10]);
    netlink.set_mtu(&pair.right.device, 1400).expect("taken");
    pair.left.inject(&frames[10..20]);
    netlink
        .rename(&pair.right.device, "renamed0")
        .expect("free");
    pair.left.inject(&frames[20..]);
    assert_eq!(bytes(collect(&mut *source, 30)), frames);
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
    source.stats().expect("counters");
}

pub(crate) fn one_that_is_down_is_told_and_goes_on() {
    let pair = VethPair::new();
    let mut netlink = pair.right.namespace.netlink();
    let device = &pair.right.device;
    let mut source = opened(&pair.right, &options(), None);
    netlink.set_up(device, false).expect("it exists");
    let error = source.next().expect_err("it is down");
    assert!(matches!(error, Error::InterfaceDown { .. }), "{error}");
    assert!(matches!(source.next(), Ok(Next::TimedOut)), "told once");
    netlink.set_up(device, true).expect("it exists");
    assert!(netlink.wait_until_up(device, patience()).expect("there"));
    let frames = traffic(10);
    pair.left.inject(&frames);
    assert_eq!(bytes(collect(&mut *source, 10)), frames);
    drop(source);
    netlink.set_up(device, false).expect("it exists");
    let again = pair.right.run(|| open("xsk:veth1", &options(), None));
    let error = again.err().expect("refused");
    assert!(matches!(error, Error::InterfaceDown { .. }), "{error}");
}

pub(crate) fn a_moved_interface_is_told() {
    let pair = VethPair::new();
    let elsewhere = Namespace::new();
    let mut source = opened(&pair.right, &options(), None);
    let frames = traffic(10);
    pair.left.inject(&frames);
    // None is on its way when the interface goes.
    wait_for(|| source.stats().expect("counters").received == Some(10));
    let mut from = pair.right.namespace.netlink();
    from.move_to(&pair.right.device, elsewhere.as_fd())
        .expect("it exists");
    // Earlier packets are delivered before the end is reported.
    assert_eq!(bytes(collect(&mut *source, 10)), frames);
    let error = source.next().expect_err("it is elsewhere");
    assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
    drop(source);
    assert_eq!(programs(&elsewhere, &pair.right.device), 0);
}

/// Replaces the capture's program with a foreign one, which lets packets pass. It stays until the returned
/// value is dropped.
pub(crate) fn replace_program(namespace: &Namespace, device: &str) -> Link {
    let kernel = Kernel::running();
    let set_r0 = u64::from_ne_bytes([0xb4, 0, 0, 0, 2, 0, 0, 0]);
    let exit = u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]);
    let kind = ProgramKind::Xdp { frags: false };
    let other = Program::load(&kernel, "foreign", kind, &[set_r0, exit]).expect("loaded");
    let interface = namespace.netlink().link(device).expect("it exists");
    let link = Link::holding(&kernel, interface.xdp[0].id).expect("root");
    let link = link.expect("it is held");
    link.update(&other, None).expect("taken");
    link
}

pub(crate) fn a_replaced_program_is_told() {
    let pair = VethPair::new();
    let mut source = opened(&pair.right, &options(), None);
    let frames = traffic(10);
    pair.left.inject(&frames);
    wait_for(|| source.stats().expect("counters").received == Some(10));
    let link = replace_program(&pair.right.namespace, &pair.right.device);
    pair.left.inject(&traffic(10));
    assert_eq!(bytes(collect(&mut *source, 10)), frames);
    let error = loop {
        match source.next() {
            Ok(Next::TimedOut) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, Error::Detached { goes_on: false, .. }),
        "{error}"
    );
    drop(source);
    assert_eq!(count(&pair), 1, "the other one stays");
    drop(link);
    assert_eq!(count(&pair), 0);
}

pub(crate) fn a_clock_that_is_set_is_followed() {
    const HOUR: i64 = 3600;
    let pair = VethPair::new();
    let wall = WallClock::stand_in().expect("an fd");
    let host = Host {
        wall: wall.clone(),
        ..Host::default()
    };
    let options = options().timeout(Duration::from_millis(20));
    let device = format!("xsk:{}", pair.right.device);
    let source = pair.right.run(|| open_on(&host, &device, &options, None));
    let mut source = source.unwrap_or_else(|error| panic!("{error}"));
    for ahead in [0, HOUR, -HOUR] {
        if ahead != 0 {
            wall.set_ahead(ahead * 1_000_000_000);
        }
        // The reader takes note of it when it waits next.
        assert!(matches!(source.next(), Ok(Next::TimedOut)));
        pair.left.inject(&traffic(1));
        let (stamp, _) = collect(&mut *source, 1)[0];
        let apart = now().secs() - stamp.secs() + ahead;
        let patience = i64::try_from(patience().as_secs()).expect("seconds");
        assert!((-1..patience).contains(&apart), "{apart} s, {ahead} ahead");
    }
}

pub(crate) fn openings_leak_nothing() {
    /// Not a thousand in all as with the taps: each takes the kernel some 40 ms, however many there are at
    /// once, most of it with the lock of all interfaces held.
    const CYCLES: usize = 10;
    const MEMORY: u64 = 2 << 20;
    // Closing waits for the kernel most of the time, which several can do at once.
    let pairs: Vec<_> = (0..10).map(|_| VethPair::new()).collect();
    let options = options().buffer(MEMORY);
    drop(opened(&pairs[0].right, &options, None));
    let held = || {
        let fds = std::fs::read_dir("/proc/self/fd").expect("/proc").count();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
        let rings = maps.lines().filter(|line| line.contains("socket:"));
        (fds, rings.count())
    };
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|text| text.split_whitespace().next());
        kibibytes
            .expect("a number")
            .parse::<u64>()
            .expect("a number")
    };
    let options = &options;
    let cycles = |count: usize| {
        std::thread::scope(|scope| {
            for pair in &pairs {
                scope.spawn(move || {
                    pair.right.run(|| {
                        let device = format!("xsk:{}", pair.right.device);
                        for _ in 0..count {
                            drop(open(&device, options, None).expect("root"));
                        }
                    });
                });
            }
        });
    };
    // The allocator keeps, for each thread, the memory into which the kernel's types were read.
    cycles(1);
    let resident = memory();
    let before = held();
    cycles(CYCLES);
    assert_eq!(held(), before);
    let opened = (CYCLES * pairs.len()) as u64 * MEMORY;
    let grown = memory().saturating_sub(resident) << 10;
    assert!(grown < opened / 4, "{grown} bytes");
    for pair in &pairs {
        assert_eq!(count(pair), 0);
    }
}

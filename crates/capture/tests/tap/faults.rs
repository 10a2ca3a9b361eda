//! What goes wrong beneath a running capture.

use std::os::fd::AsFd;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{Error, Next, Source, open};
use ringtap_sys::bpf::{self, Kernel, Link, Program, ProgramKind, TcxPlace, TcxSide, query_tcx};
use ringtap_sys::privileges;
use ringtap_testkit::netns::{Namespace, Side, VethPair};

use crate::support::{PATIENCE, count, drain, frame, injector, numbers, prompt, tap, try_open};

const CHILD: &str = "RINGTAP_TEST_TAP_ON";
const WITHOUT_RIGHTS: &str = "RINGTAP_TEST_TAP_WITHOUT_RIGHTS";

/// What this process does where a test has started it as a child.
pub(crate) fn run_as_child() -> Option<ExitCode> {
    if let Ok(device) = std::env::var(WITHOUT_RIGHTS) {
        privileges::relinquish(None, &[]).unwrap();
        let error = open(&device, &prompt(), None).err().unwrap();
        println!("{error}");
        return Some(ExitCode::SUCCESS);
    }
    let device = std::env::var(CHILD).ok()?;
    let mut source = open(&device, &prompt(), None).unwrap();
    while source.next().is_ok() {}
    Some(ExitCode::FAILURE)
}

pub(crate) fn survives_a_new_name_and_mtu() {
    let pair = VethPair::new();
    let mut source = tap("tcx", &pair.right, &prompt());
    let injector = injector(&pair.left);
    injector.send(&frame(1, 60)).unwrap();
    let device = pair.right.device.as_str();
    let mut netlink = pair.right.namespace.netlink();
    netlink.set_mtu(device, 1400).unwrap();
    injector.send(&frame(2, 60)).unwrap();
    netlink.rename(device, "renamed0").unwrap();
    injector.send(&frame(3, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source)), [1, 2, 3]);
    source.stats().unwrap();
}

pub(crate) fn tells_of_a_moved_interface() {
    let pair = VethPair::new();
    let elsewhere = Namespace::new();
    for engine in ["tcx", "xdp"] {
        let mut source = tap(engine, &pair.right, &prompt());
        injector(&pair.left).send(&frame(1, 60)).unwrap();
        let mut from = pair.right.namespace.netlink();
        from.move_to(&pair.right.device, elsewhere.as_fd()).unwrap();
        let begin = Instant::now();
        let mut packets = 0;
        let error = loop {
            assert!(begin.elapsed() < PATIENCE, "no error came");
            match source.next() {
                Ok(Next::Block(block)) => packets += block.packets().count(),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(packets, 1);
        assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
        drop(source);
        let mut netlink = elsewhere.netlink();
        let home = pair.right.namespace.as_fd();
        netlink.move_to(&pair.right.device, home).unwrap();
        let mut netlink = pair.right.namespace.netlink();
        netlink.set_up(&pair.right.device, true).unwrap();
        assert!(netlink.wait_until_up(&pair.right.device, PATIENCE).unwrap());
    }
}

/// Programs in the ingress chain of a side, and at XDP.
fn programs(side: &Side) -> usize {
    let mut netlink = side.namespace.netlink();
    let index = netlink.index(&side.device).unwrap();
    let links = netlink.links().unwrap();
    let link = links.iter().find(|link| link.index == index).unwrap();
    let chain = side.run(|| query_tcx(&Kernel::running(), index, TcxSide::Ingress));
    chain.unwrap().members.len() + link.xdp.len()
}

pub(crate) fn killed_reader_leaves_nothing() {
    let pair = VethPair::new();
    for engine in ["tcx", "xdp"] {
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
        wait_for(|| programs(&pair.right) == 0);
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn needs_capabilities() {
    let pair = VethPair::new();
    let program = std::env::current_exe().unwrap();
    let output = pair
        .right
        .namespace
        .command(program.to_str().unwrap())
        .env(WITHOUT_RIGHTS, format!("tcx:{}", pair.right.device))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for capability in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
        assert!(text.contains(capability), "{text:?}");
    }
}

/// Somebody's program, first in the chain, that ends it: packets go on to the host unseen by those
/// behind.
fn cut_chain(side: &Side) -> bpf::Result<Link> {
    const TCX_PASS: u64 = 0;
    let set_r0 = u64::from_ne_bytes([0xb4, 0, 0, 0, 0, 0, 0, 0]) | TCX_PASS << 32;
    let exit = u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]);
    let kernel = Kernel::running();
    let program = Program::load(&kernel, "cutter", ProgramKind::SchedCls, &[set_r0, exit])?;
    let index = side.namespace.netlink().index(&side.device).unwrap();
    let place = TcxPlace::First;
    side.run(|| Link::tcx(&program, &kernel, index, TcxSide::Ingress, place, None))
}

pub(crate) fn cut_chain_is_seen_first() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let cutter = cut_chain(&pair.right).unwrap();
    // A tap that comes later stands before the program that ends the chain.
    let mut source = tap("tcx", &pair.right, &prompt());
    injector.send(&frame(1, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source)), [1]);
    drop(cutter);
    // One that comes after the tap, and first, hides packets from it; it goes on when that is gone.
    let cutter = cut_chain(&pair.right).unwrap();
    injector.send(&frame(2, 60)).unwrap();
    assert!(drain(&mut *source).is_empty());
    drop(cutter);
    injector.send(&frame(3, 60)).unwrap();
    assert_eq!(numbers(&drain(&mut *source)), [3]);
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
    let options = ringtap_capture::CaptureOptions {
        buffer: 1,
        ..prompt()
    };
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
                for _ in 0..50 {
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

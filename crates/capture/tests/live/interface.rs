//! Interfaces: found, taken, returned, lost.

use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Error, Next, Note, TimestampSource, open};
use ringtap_testkit::netns::{Namespace, Side, VethPair};
use ringtap_testkit::{Need, repetitions};

use crate::support::{
    chosen, collect, drain, frame, injector, notes, number, on_tap, open_in, open_on, patience,
    prompt, until_error,
};

const CHILD: &str = "RINGTAP_TEST_CAPTURE_ON";

/// Returns whether this process is the one that [`restores_promiscuous_mode`] started.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Captures on the device that the environment names.
pub(crate) fn capture_until_killed() -> ExitCode {
    let device = std::env::var(CHILD).unwrap();
    let mut source = open(&device, &prompt(), None).unwrap();
    while source.next().is_ok() {}
    ExitCode::FAILURE
}

pub(crate) fn reports_a_deleted_interface() {
    let pair = VethPair::new();
    let options = CaptureOptions::default().timeout(Duration::from_secs(1));
    let mut source = open_on(&pair.right, &options, None);
    let injector = injector(&pair.left);
    (0..10).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    pair.right
        .namespace
        .netlink()
        .delete(&pair.right.device)
        .unwrap();
    let (packets, error) = until_error(&mut *source);
    assert_eq!(packets, 10, "packets from before come before the error");
    assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
    assert!(!error.is_transient());
    assert!(matches!(source.next(), Err(Error::InterfaceGone { .. })));
    assert_eq!(
        source.stats().unwrap().dropped.interface,
        None,
        "nobody knows any more"
    );
    assert_eq!(source.stats().unwrap().received, Some(10));
}

pub(crate) fn goes_on_after_down() {
    let pair = VethPair::new();
    let mut source = open_on(&pair.right, &prompt(), None);
    let set_up = |up| {
        pair.right
            .namespace
            .netlink()
            .set_up(&pair.right.device, up)
            .unwrap();
    };
    set_up(false);
    let (_, error) = until_error(&mut *source);
    assert!(matches!(error, Error::InterfaceDown { .. }), "{error}");
    assert!(error.is_transient());
    assert!(
        matches!(source.next().unwrap(), Next::TimedOut),
        "it is reported once"
    );
    set_up(true);
    let up = pair
        .right
        .namespace
        .netlink()
        .wait_until_up(&pair.right.device, patience());
    assert!(up.unwrap());
    injector(&pair.left).send(&frame(9, 60)).unwrap();
    assert_eq!(number(&collect(&mut *source, 1)[0].data), 9);

    set_up(false);
    assert!(matches!(
        until_error(&mut *source).1,
        Error::InterfaceDown { .. }
    ));
    pair.right
        .namespace
        .netlink()
        .delete(&pair.right.device)
        .unwrap();
    assert!(matches!(
        until_error(&mut *source).1,
        Error::InterfaceGone { .. }
    ));
}

pub(crate) fn refuses_what_is_down() {
    let pair = VethPair::new();
    pair.right
        .namespace
        .netlink()
        .set_up(&pair.right.device, false)
        .unwrap();
    let device = chosen(&pair.right.device);
    let Err(error) = pair.right.run(|| open(&device, &prompt(), None)) else {
        panic!("opened");
    };
    assert!(matches!(error, Error::InterfaceDown { .. }), "{error}");
    let device = chosen("nowhere0");
    let Err(error) = pair.right.run(|| open(&device, &prompt(), None)) else {
        panic!("opened");
    };
    assert_eq!(error.to_string(), format!("{device}: no such interface"));
}

pub(crate) fn finds_interfaces_by_any_name() {
    let pair = VethPair::new();
    let altname = "an-alternative-name-of-more-than-fifteen-bytes";
    let side = &pair.right;
    side.namespace
        .netlink()
        .add_altname(&side.device, altname)
        .unwrap();
    let injector = injector(&pair.left);
    let device = &side.device;
    let names = [
        device.clone(),
        format!("packet:{device}"),
        format!("{device}:1"),
        altname.to_owned(),
    ];
    for name in names {
        let mut source = open_in(&side.namespace, &name, &prompt(), None);
        assert_eq!(source.interfaces()[0].name.as_ref(), Some(device), "{name}");
        assert_eq!(source.interfaces()[0].mac, Some(side.mac));
        injector.send(&frame(1, 60)).unwrap();
        assert_eq!(collect(&mut *source, 1).len(), 1);
    }
}

fn promiscuity(side: &Side) -> u32 {
    let links = side.namespace.netlink().links().unwrap();
    links
        .iter()
        .find(|link| link.name.as_bytes() == side.device.as_bytes())
        .unwrap()
        .promiscuity
}

fn wait_for_promiscuity(side: &Side, wanted: u32) {
    let begin = Instant::now();
    while promiscuity(side) != wanted {
        assert!(
            begin.elapsed() < patience(),
            "promiscuity stays at {}",
            promiscuity(side)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn restores_promiscuous_mode() {
    let pair = VethPair::new();
    let side = &pair.right;
    assert_eq!(promiscuity(side), 0);
    let source = open_on(side, &prompt(), None);
    assert_eq!(promiscuity(side), 1);
    drop(source);
    assert_eq!(promiscuity(side), 0);
    let quiet = prompt().promiscuous(false);
    let source = open_on(side, &quiet, None);
    assert_eq!(promiscuity(side), 0);
    drop(source);

    let program = std::env::current_exe().unwrap();
    let mut child = side
        .namespace
        .command(program.to_str().unwrap())
        .env(CHILD, chosen(&side.device))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_promiscuity(side, 1);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for_promiscuity(side, 0);
}

pub(crate) fn takes_what_memory_there_is() {
    let pair = VethPair::new();
    let options = prompt().buffer(1 << 26);
    let source = open_on(&pair.right, &options, None);
    let memory = source.describe().memory.unwrap();
    assert_eq!(memory.bytes(), 1 << 26);
    assert!(notes(&*source).is_empty());
    drop(source);
    let options = options.buffer(4096);
    let mut source = open_on(&pair.right, &options, None);
    let description = source.describe();
    let obtained = description.memory.unwrap().bytes();
    assert!(obtained >= 2 * 65_536);
    assert_eq!(
        notes(&*source),
        [Note::LargerBuffer {
            requested: 4096,
            obtained
        }]
    );
    injector(&pair.left).send(&frame(1, 1500)).unwrap();
    assert_eq!(collect(&mut *source, 1).len(), 1);
}

pub(crate) fn refuses_an_adapter_clock() {
    let pair = VethPair::new();
    let options = prompt().timestamp(TimestampSource::Adapter);
    let device = chosen(&pair.right.device);
    let Err(error) = pair.right.run(|| open(&device, &options, None)) else {
        panic!("a veth has no clock");
    };
    assert!(matches!(error, Error::NoAdapterClock { .. }), "{error}");
    let device = chosen("any");
    let Err(error) = pair.right.run(|| open(&device, &options, None)) else {
        panic!("all interfaces have no clock");
    };
    assert!(matches!(error, Error::Option(_)), "{error}");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

pub(crate) fn leaks_nothing() {
    let namespace = Namespace::new();
    let cycle = || drop(open_in(&namespace, "lo", &prompt(), Some("udp")));
    cycle();
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap();
    let rings = |text: &str| {
        text.lines()
            .filter(|line| line.contains("socket:") || line.contains("bpf-map"))
            .count()
    };
    let before = open_descriptors();
    for _ in 0..repetitions(200) {
        cycle();
    }
    assert_eq!(open_descriptors(), before);
    assert_eq!(rings(&mappings()), 0);
    let nowhere = chosen("nowhere0");
    let failing = || namespace.run(|| open(&nowhere, &prompt(), None).err().unwrap());
    for _ in 0..repetitions(50) {
        failing();
    }
    assert_eq!(open_descriptors(), before);
}

pub(crate) fn explains_itself() {
    let pair = VethPair::new();
    let mut source = open_on(&pair.right, &prompt(), Some("udp port 53"));
    let text = source.describe().to_string();
    let (engine, hook) = if on_tap() {
        let has_tcx = Need::Tcx.unmet().is_none();
        let hook = if has_tcx {
            "tcx; packets go on"
        } else {
            "clsact; packets go on"
        };
        ("tcx", hook)
    } else {
        ("packet", "AF_PACKET")
    };
    for part in [
        engine,
        hook,
        &pair.right.device,
        "in the kernel",
        "promiscuous:    yes",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(drain(&mut *source, 0).is_empty());
}

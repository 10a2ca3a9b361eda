//! All interfaces at once, each with its packets unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringtap_capture::{CaptureOptions, Error, Filter, Host, LinkType, Next, Source, open, open_on};
use ringtap_sys::bpf::{Kernel, Request};
use ringtap_sys::netlink::Veth;
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Namespace, VethPair};

use crate::support::{frame, injector, number, patience, prompt};

fn per_device() -> CaptureOptions {
    prompt().cooked(false)
}

fn injector_in(namespace: &Namespace, device: &str) -> Injector {
    let index = namespace.netlink().index(device).unwrap();
    namespace.run(|| Injector::open(index).unwrap())
}

fn open_any(
    namespace: &Namespace,
    options: &CaptureOptions,
    filter: Option<&str>,
) -> Box<dyn Source> {
    let filter = filter.map(Filter::new);
    namespace.run(|| open("tcx:any", options, filter.as_ref()).unwrap())
}

/// Returns interface names and numbers of this many packets, in order.
fn collect(source: &mut dyn Source, namespace: &Namespace, wanted: usize) -> Vec<(String, u32)> {
    let begin = Instant::now();
    let mut seen: Vec<(u32, u32)> = Vec::new();
    while seen.len() < wanted {
        assert!(
            begin.elapsed() < patience(),
            "{} of {wanted} came",
            seen.len()
        );
        // New interfaces are found in the namespace of the reading thread.
        namespace.run(|| {
            if let Next::Block(block) = source.next().unwrap() {
                seen.extend(
                    block
                        .packets()
                        .map(|packet| (packet.interface, number(packet.data))),
                );
            }
        });
    }
    let name = |index: u32| source.interfaces()[index as usize].name.clone().unwrap();
    seen.iter()
        .map(|&(index, number)| (name(index), number))
        .collect()
}

pub(crate) fn follows_interfaces_that_come() {
    let pair = VethPair::new();
    let namespace = &pair.right.namespace;
    let mut source = open_any(namespace, &per_device(), None);
    let known: Vec<_> = source
        .interfaces()
        .iter()
        .map(|one| one.name.clone())
        .collect();
    assert!(
        known.contains(&Some(pair.right.device.clone())),
        "{known:?}"
    );
    assert!(known.contains(&Some("lo".to_owned())), "{known:?}");
    injector(&pair.left).send(&frame(1, 60)).unwrap();
    let first = collect(&mut *source, namespace, 1);
    assert_eq!(first, [(pair.right.device.clone(), 1)]);

    let mut netlink = namespace.netlink();
    netlink.create_veth(&Veth::new("late0", "late1")).unwrap();
    for name in ["late0", "late1"] {
        netlink.set_up(name, true).unwrap();
    }
    assert!(netlink.wait_until_up("late1", patience()).unwrap());
    let begin = Instant::now();
    while source.interfaces().len() < known.len() + 2 {
        assert!(begin.elapsed() < patience(), "not followed");
        namespace.run(|| drop(source.next().unwrap()));
    }
    injector_in(namespace, "late0").send(&frame(2, 60)).unwrap();
    let mut late = collect(&mut *source, namespace, 2);
    late.sort();
    assert_eq!(late, [("late0".to_owned(), 2), ("late1".to_owned(), 2)]);

    netlink.delete("late0").unwrap();
    injector(&pair.left).send(&frame(3, 60)).unwrap();
    let last = collect(&mut *source, namespace, 1);
    assert_eq!(last, [(pair.right.device.clone(), 3)]);
}

/// A new interface that cannot be attached to is reported once.
pub(crate) fn reports_interfaces_that_are_not_covered() {
    const EPERM: i32 = 1;
    let pair = VethPair::new();
    let namespace = &pair.right.namespace;
    let is_refused = Arc::new(AtomicBool::new(false));
    let refused = Arc::clone(&is_refused);
    let gate = move |request: &Request<'_>| match refused.load(Ordering::Relaxed) {
        true if request.is_tcx() => Err(EPERM),
        _ => Ok(()),
    };
    let host = Host {
        kernel: Kernel::behind(gate),
        ..Host::default()
    };
    let mut source = namespace.run(|| open_on(&host, "tcx:any", &per_device(), None).unwrap());
    is_refused.store(true, Ordering::Relaxed);
    let mut netlink = namespace.netlink();
    netlink.create_veth(&Veth::new("late0", "late1")).unwrap();
    let mut told = Vec::new();
    let begin = Instant::now();
    while told.len() < 2 {
        assert!(begin.elapsed() < patience(), "{told:?}");
        match namespace.run(|| source.next().map(drop)) {
            Err(error @ Error::NotCovered { .. }) => told.push(error.to_string()),
            other => other.unwrap(),
        }
    }
    told.sort();
    for (told, name) in told.iter().zip(["late0", "late1"]) {
        let words = format!("{name} is new and is not captured: ");
        assert!(told.starts_with(&words), "{told}");
    }
    injector(&pair.left).send(&frame(1, 60)).unwrap();
    let seen = collect(&mut *source, namespace, 1);
    assert_eq!(seen, [(pair.right.device.clone(), 1)]);
}

pub(crate) fn filters_by_interface() {
    let pair = VethPair::new();
    let namespace = &pair.right.namespace;
    let index = namespace.netlink().index(&pair.right.device).unwrap();
    let filter = format!("ether proto 0x88b5 and ifindex {index}");
    let mut source = open_any(namespace, &per_device(), Some(&filter));
    let kinds: Vec<_> = source
        .interfaces()
        .iter()
        .map(|one| one.link_type)
        .collect();
    assert!(
        kinds.iter().all(|kind| *kind == LinkType::ETHERNET),
        "{kinds:?}"
    );
    let (left, loopback) = (injector(&pair.left), injector_in(namespace, "lo"));
    for round in 0..3 {
        loopback.send(&frame(100 + round, 60)).unwrap();
        left.send(&frame(round, 60)).unwrap();
    }
    let device = pair.right.device.clone();
    let seen = collect(&mut *source, namespace, 3);
    assert_eq!(seen, [0, 1, 2].map(|round| (device.clone(), round)));

    let other = Filter::new("ether[14:4] = 7");
    namespace.run(|| source.set_filter(Some(&other)).unwrap());
    for number in [6, 7, 8] {
        left.send(&frame(number, 60)).unwrap();
        loopback.send(&frame(number, 60)).unwrap();
    }
    let mut seen = collect(&mut *source, namespace, 2);
    seen.sort();
    let mut expected = [(device, 7), ("lo".to_owned(), 7)];
    expected.sort();
    assert_eq!(seen, expected);
}

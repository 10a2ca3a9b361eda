//! Hooks on the running kernel, and on one without tcx by a gate before `bpf(2)`.

use std::net::IpAddr;
use std::process::ExitCode;

use ringtap_capture::hook::{
    Attached, Hook, HookChoice, HookDevice, HookError, HookPoint, Reason, Side, Standing,
    Uncovered, Wanted, attach,
};
use ringtap_capture::{Direction, Mode};
use ringtap_filter::ebpf::{Assembler, Reg};
use ringtap_sys::bpf::{self, Kernel, Program, ProgramKind, Request, XdpMode, query_tcx};
use ringtap_sys::privileges::Capability;
use ringtap_testkit::netns::{LinkOptions, Namespace, Side as End, VethPair};
use ringtap_testkit::{Need, suite, test};

const EINVAL: i32 = 22;

fn main() -> ExitCode {
    let root = &[Need::Root];
    let tcx = &[Need::Root, Need::Tcx];
    suite(vec![
        test("tcx_covers_both_directions_and_vanishes", tcx, tcx_both),
        test("the_newest_program_stands_first", tcx, standing),
        test("programs_are_replaced_in_place", root, replaced),
        test("loopback_is_covered_once", root, loopback),
        test("clsact_stands_in_and_is_removed", root, clsact),
        test("clsact_of_others_is_left_alone", root, clsact_of_others),
        test("what_a_killed_process_left_is_removed", root, orphans),
        test(
            "stealing_is_not_left_to_clsact",
            root,
            no_clsact_for_stealing,
        ),
        test("the_second_at_xdp_is_moved_to_tcx", tcx, xdp_taken),
        test("tags_taken_out_keep_from_xdp", root, tags_taken_out),
        test("stealing_takes_received_packets", root, stealing),
        test("default_routes_are_guarded", root, guarded),
        test("a_route_above_a_bridge_is_guarded", root, guarded_bridge),
    ])
}

/// Loads a program that lets every packet pass.
fn passing(kernel: &Kernel) -> impl FnMut(HookPoint) -> bpf::Result<Program> {
    let kernel = kernel.clone();
    move |place| {
        let mut asm = Assembler::new();
        asm.mov32(Reg::R0, place.verdict_pass());
        asm.exit();
        let kind = if place.is_xdp() {
            ProgramKind::Xdp { frags: false }
        } else {
            ProgramKind::SchedCls
        };
        let code = asm.finish().expect("no jumps");
        Program::load(&kernel, "ringtap_test", kind, &code)
    }
}

fn attach_at(end: &End, kernel: &Kernel, wanted: &Wanted) -> Result<Attached, HookError> {
    end.run(|| {
        let device = HookDevice::find(&end.device).expect("it exists");
        attach(kernel, &device, wanted, &mut passing(kernel))
    })
}

fn places(attached: &Attached) -> Vec<HookPoint> {
    attached.hooks.iter().map(Hook::place).collect()
}

fn chain_length(end: &End, side: Side) -> usize {
    end.run(|| {
        let index = HookDevice::find(&end.device).expect("it exists").index;
        let chain = query_tcx(&Kernel::running(), index, side).expect("tcx");
        chain.members.len()
    })
}

/// Returns the hook of this kernel after the driver.
fn chain(side: Side) -> HookPoint {
    if Need::Tcx.unmet().is_none() {
        HookPoint::Tcx(side)
    } else {
        HookPoint::Clsact(side)
    }
}

/// Returns the running kernel, restricted to features from before tcx.
fn without_tcx() -> Kernel {
    Kernel::behind(|request: &Request<'_>| {
        if request.is_tcx() {
            Err(EINVAL)
        } else {
            Ok(())
        }
    })
}

fn tc(end: &End, arguments: &[&str]) -> String {
    let output = end.namespace.output("tc", arguments);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn tcx_both() {
    let pair = VethPair::new();
    let attached = attach_at(&pair.right, &Kernel::running(), &Wanted::default()).expect("tcx");
    assert_eq!(
        places(&attached),
        [HookPoint::Tcx(Side::Ingress), HookPoint::Tcx(Side::Egress)]
    );
    assert!(attached.passed_over.is_empty() && attached.uncovered.is_none());
    assert!(attached.required_capabilities().is_empty());
    let lengths = || [Side::Ingress, Side::Egress].map(|side| chain_length(&pair.right, side));
    assert_eq!(lengths(), [1, 1]);
    drop(attached);
    assert_eq!(lengths(), [0, 0]);
}

fn standing() {
    let pair = VethPair::new();
    let received = Wanted {
        direction: Direction::In,
        ..Wanted::default()
    };
    let mut first = attach_at(&pair.right, &Kernel::running(), &received).expect("tcx");
    let mut second = attach_at(&pair.right, &Kernel::running(), &received).expect("tcx");
    let ask = |hook: &mut Hook| {
        pair.right
            .run(|| hook.standing().expect("the kernel tells"))
    };
    assert_eq!(ask(&mut second.hooks[0]), Standing::First);
    assert_eq!(ask(&mut first.hooks[0]), Standing::Behind { others: 1 });
    drop(second);
    assert_eq!(ask(&mut first.hooks[0]), Standing::First);
    pair.right
        .namespace
        .netlink()
        .delete(&pair.right.device)
        .expect("deleted");
    assert!(!first.hooks[0].is_attached());
    assert_eq!(ask(&mut first.hooks[0]), Standing::Gone);
}

fn replaced() {
    let pair = VethPair::new();
    for kernel in [Kernel::running(), without_tcx()] {
        let mut attached = attach_at(&pair.right, &kernel, &Wanted::default()).expect("a hook");
        let hook = &mut attached.hooks[0];
        let before = hook.program().info().expect("it is loaded").id;
        let program = passing(&kernel)(hook.place()).expect("loaded");
        let id = program.info().expect("it is loaded").id;
        pair.right.run(|| hook.replace(program)).expect("replaced");
        assert_ne!(before, id);
        assert_eq!(hook.program().info().expect("it is loaded").id, id);
        assert!(hook.is_attached());
    }
}

fn loopback() {
    let namespace = Namespace::new();
    let attached = namespace.run(|| {
        let device = HookDevice::find("lo").expect("it exists");
        let kernel = Kernel::running();
        attach(&kernel, &device, &Wanted::default(), &mut passing(&kernel)).expect("a hook")
    });
    assert_eq!(places(&attached), [chain(Side::Ingress)]);
    assert_eq!(attached.uncovered, Some(Uncovered::SentOnLoopback));
}

fn clsact() {
    let pair = VethPair::new();
    let attached = attach_at(&pair.right, &without_tcx(), &Wanted::default()).expect("clsact");
    assert_eq!(
        places(&attached),
        [
            HookPoint::Clsact(Side::Ingress),
            HookPoint::Clsact(Side::Egress)
        ]
    );
    let reasons: Vec<String> = attached
        .passed_over
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        reasons,
        [
            "not at tcx ingress: the kernel has no tcx (Linux 6.6)",
            "not at tcx egress: the kernel has no tcx (Linux 6.6)"
        ]
    );
    assert_eq!(attached.required_capabilities(), [Capability::NET_ADMIN]);
    let device = pair.right.device.as_str();
    let shown = tc(&pair.right, &["filter", "show", "dev", device, "ingress"]);
    assert!(
        shown.contains("ringtap:") && shown.contains("direct-action"),
        "{shown}"
    );
    drop(attached);
    assert!(!tc(&pair.right, &["qdisc", "show", "dev", device]).contains("clsact"));
}

fn clsact_of_others() {
    let pair = VethPair::new();
    let device = pair.right.device.as_str();
    tc(&pair.right, &["qdisc", "add", "dev", device, "clsact"]);
    let u32_filter = [
        "filter", "add", "dev", device, "ingress", "prio", "7", "u32", "match", "u32", "0", "0",
    ];
    tc(&pair.right, &u32_filter);
    let show = || tc(&pair.right, &["filter", "show", "dev", device, "ingress"]);
    let before = show();
    let mut attached = attach_at(&pair.right, &without_tcx(), &Wanted::default()).expect("clsact");
    let with_ours = show();
    let ours = with_ours.find("bpf").expect("ours is shown");
    let theirs = with_ours.find("u32").expect("theirs is shown");
    assert!(ours < theirs, "ours runs first: {with_ours}");
    let standing = attached.hooks[0].standing().expect("the kernel tells");
    assert_eq!(standing, Standing::First);
    drop(attached);
    assert_eq!(show(), before);
    assert!(tc(&pair.right, &["qdisc", "show", "dev", device]).contains("clsact"));
}

fn orphans() {
    let pair = VethPair::new();
    let kernel = without_tcx();
    let place = HookPoint::Clsact(Side::Egress);
    let program = passing(&kernel)(place).expect("loaded");
    let mut netlink = pair.right.namespace.netlink();
    let index = netlink.index(&pair.right.device).expect("it exists");
    netlink.add_clsact(index).expect("clsact");
    let program = std::os::fd::AsFd::as_fd(&program);
    netlink
        .add_bpf_filter(index, Side::Egress, "ringtap:1:0:qdisc", program)
        .expect("added");
    let attached = attach_at(&pair.right, &kernel, &Wanted::default()).expect("clsact");
    let names: Vec<_> = netlink
        .bpf_filters(index, Side::Egress)
        .expect("listed")
        .into_iter()
        .map(|filter| filter.name)
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_ne!(names[0], "ringtap:1:0:qdisc");
    // A second owner takes nothing from the first.
    drop(attach_at(&pair.right, &kernel, &Wanted::default()).expect("clsact"));
    let left = netlink.bpf_filters(index, Side::Egress).expect("listed");
    assert_eq!(left.len(), 1);
    drop(attached);
    assert!(!netlink.has_clsact(index).expect("listed"), "restored");
}

fn no_clsact_for_stealing() {
    let pair = VethPair::new();
    let wanted = Wanted {
        hook: HookChoice::Tcx,
        mode: Mode::Steal,
        ..Wanted::default()
    };
    let refused = attach_at(&pair.right, &without_tcx(), &wanted);
    let Err(HookError::NoHook { passed_over, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(passed_over[1].reason, Reason::OutlivesProcess));
}

fn at_xdp() -> Wanted {
    Wanted {
        hook: HookChoice::Xdp,
        reads_tags_at_xdp: true,
        ..Wanted::default()
    }
}

fn xdp_taken() {
    let pair = VethPair::new();
    let first = attach_at(&pair.right, &Kernel::running(), &at_xdp()).expect("XDP");
    assert_eq!(
        places(&first),
        [
            HookPoint::Xdp(XdpMode::Native),
            HookPoint::Tcx(Side::Egress)
        ]
    );
    let id = first.hooks[0].program().info().expect("loaded").id;
    let second = attach_at(&pair.right, &Kernel::running(), &at_xdp()).expect("moved");
    assert_eq!(
        places(&second),
        [HookPoint::Tcx(Side::Ingress), HookPoint::Tcx(Side::Egress)]
    );
    let reason = second.passed_over[0].to_string();
    let expected =
        format!("not at XDP in the driver: another XDP program (number {id}) is attached");
    assert_eq!(reason, expected);
}

fn tags_taken_out() {
    let pair = VethPair::new();
    let wanted = Wanted {
        reads_tags_at_xdp: false,
        ..at_xdp()
    };
    let attached = attach_at(&pair.right, &Kernel::running(), &wanted).expect("a hook");
    assert_eq!(places(&attached)[0], chain(Side::Ingress));
    assert!(matches!(
        attached.passed_over[0].reason,
        Reason::VlanTagsTakenOut
    ));
}

fn stealing() {
    let pair = VethPair::new();
    let wanted = Wanted {
        mode: Mode::Steal,
        hook: HookChoice::Automatic,
        ..at_xdp()
    };
    let attached = attach_at(&pair.right, &Kernel::running(), &wanted).expect("XDP");
    assert_eq!(places(&attached), [HookPoint::Xdp(XdpMode::Native)]);
    assert_eq!(attached.uncovered, Some(Uncovered::SentWhileStealing));
    let sent = Wanted {
        direction: Direction::Out,
        ..wanted
    };
    let refused = attach_at(&pair.right, &Kernel::running(), &sent);
    assert!(matches!(refused, Err(HookError::StealsSent { .. })));
}

fn steal_and_force(end: &End) -> (String, Vec<HookPoint>) {
    let wanted = Wanted {
        mode: Mode::Steal,
        ..at_xdp()
    };
    let refused = attach_at(end, &Kernel::running(), &wanted);
    let refused = refused.expect_err("it carries a default route").to_string();
    let links = end.namespace.netlink().links().expect("listed");
    assert!(
        links.iter().all(|link| link.xdp.is_empty()),
        "nothing was attached"
    );
    let forced = Wanted {
        force: true,
        ..wanted
    };
    let attached = attach_at(end, &Kernel::running(), &forced).expect("with consent");
    assert!(!attached.hazards.is_empty());
    (refused, places(&attached))
}

fn guarded() {
    let pair = VethPair::new();
    let end = &pair.right;
    let gateway = IpAddr::from(pair.left.ipv4);
    let mut netlink = end.namespace.netlink();
    netlink
        .add_default_route(&end.device, gateway)
        .expect("a route");
    let (refused, forced) = steal_and_force(end);
    let expected = "veth1: stealing needs consent (--force): it carries the IPv4 default route";
    assert_eq!(refused, expected);
    assert_eq!(forced, [HookPoint::Xdp(XdpMode::Native)]);
    // The same route in a table of policy routing only.
    let ip = |arguments: &[&str]| end.namespace.output("ip", arguments);
    ip(&["route", "del", "default"]);
    ip(&[
        "route",
        "add",
        "default",
        "dev",
        &end.device,
        "table",
        "100",
    ]);
    let (refused, _) = steal_and_force(end);
    assert!(
        refused.ends_with("the IPv4 default route of table 100"),
        "{refused}"
    );
}

fn guarded_bridge() {
    let pair = VethPair::new();
    let end = &pair.right;
    let mut netlink = end.namespace.netlink();
    netlink
        .create("bridge", "br0", &LinkOptions::default())
        .expect("a bridge");
    netlink.set_up("br0", true).expect("up");
    netlink
        .add_address("br0", "10.98.0.2".parse().expect("an address"), 24)
        .expect("an address");
    netlink
        .set_master(&end.device, Some(b"br0"))
        .expect("a port");
    netlink
        .add_default_route("br0", "10.98.0.1".parse().expect("an address"))
        .expect("a route");
    let (refused, _) = steal_and_force(end);
    assert!(
        refused.ends_with("br0 above it carries the IPv4 default route"),
        "{refused}"
    );
}

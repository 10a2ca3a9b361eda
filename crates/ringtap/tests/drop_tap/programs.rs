//! Packets that programs of BPF drop.

use ringtap_sys::bpf::{Kernel, Link, Program, ProgramKind, TcxPlace, TcxSide, XdpMode};
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::causes::send;
use crate::scene::{Capture, Ip, LIMIT, RINGTAP, Sender, UDP, udp};

/// Returns a program that ends with a verdict.
fn program(kind: ProgramKind, verdict: u8) -> Program {
    let set = u64::from_ne_bytes([0xb4, 0, 0, 0, verdict, 0, 0, 0]);
    let exit = u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]);
    Program::load(&Kernel::running(), "ringtap_test", kind, &[set, exit]).expect("a program")
}

fn index(side: &Side) -> u32 {
    side.namespace
        .netlink()
        .index(&side.device)
        .expect("a device")
}

pub(crate) fn xdp() {
    const XDP_DROP: u8 = 1;
    let pair = VethPair::new();
    let index = index(&pair.right);
    let program = program(ProgramKind::Xdp { frags: false }, XDP_DROP);
    let kernel = Kernel::running();
    let _link = pair
        .right
        .run(|| Link::xdp(&program, &kernel, index, XdpMode::Generic).expect("attached"));
    let capture = Capture::start(&pair.right, &[]);
    send(&pair, 6001, 5, 20);
    let found = capture.finish();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 6001;
    // Some kernels give no reason there.
    let at_xdp = |packet: &Value| is_it(packet) && packet["drop"]["function"] == "do_xdp_generic";
    let dropped = found.count("XDP", is_it) + found.count("NOT_SPECIFIED", at_xdp);
    assert_eq!(dropped, 5, "{:#?}", found.lines);
}

/// Packets without a buffer are counted beside the captured ones, on all interfaces of the host.
pub(crate) fn failing_xdp() {
    /// `XDP_ABORTED`, and `XDP_REDIRECT` without a target.
    const FAILING: [(u8, &str, &str, &str); 2] = [
        (0, "exceptions", "XDP_EXCEPTION", "an XDP program failed"),
        (
            4,
            "redirects",
            "XDP_REDIRECT",
            "XDP could not send or redirect it",
        ),
    ];
    for (verdict, key, reason, said) in FAILING {
        let pair = VethPair::new();
        let index = index(&pair.right);
        let program = program(ProgramKind::Xdp { frags: false }, verdict);
        let kernel = Kernel::running();
        let _link = pair
            .right
            .run(|| Link::xdp(&program, &kernel, index, XdpMode::Native).expect("attached"));
        let text = Capture::on("drop:", &pair.right, &[]);
        let json = Capture::on("drop:", &pair.right, &["--json-stats"]);
        let mut command = pair.right.namespace.command(RINGTAP);
        command.args(["stat", "--interval", "1h", "--json", "-i", "drop:"]);
        let mut counting = Running::start_piped(&mut command).expect("ringtap starts");
        let told = counting.wait_until_told("counting on drop:", LIMIT);
        told.unwrap_or_else(|error| panic!("{error}: {}", counting.said()));
        send(&pair, 6002, 5, 20);
        let summary = text.finish().summary;
        assert!(summary.contains(said), "{summary}");
        let summary = json.finish().summary;
        let line = summary.lines().find(|line| line.starts_with('{'));
        let stats: Value = serde_json::from_str(line.expect("a summary")).expect("JSON");
        assert!(stats["xdp"][key].as_u64() >= Some(5), "{stats}");
        counting.signal("INT").expect("a signal");
        let output = counting.wait(LIMIT).expect("an end");
        let counted = String::from_utf8_lossy(&output.stdout).into_owned();
        let counted: Value = serde_json::from_str(counted.trim()).expect("JSON");
        let rows = counted["reasons"].as_array().expect("reasons");
        let row = rows.iter().find(|row| row["reason"] == reason);
        let packets = row.and_then(|row| row["packets"].as_u64());
        assert!(packets >= Some(5), "{counted}");
    }
}

/// `TCX_DROP`.
const TCX_DROP: u8 = 2;

/// The kernel stores the tag beside a received packet; the capture puts it back.
pub(crate) fn tags() {
    let pair = VethPair::new();
    let program = program(ProgramKind::SchedCls, TCX_DROP);
    let (kernel, index) = (Kernel::running(), index(&pair.right));
    let _link = pair.right.run(|| {
        let place = TcxPlace::First;
        Link::tcx(&program, &kernel, index, TcxSide::Ingress, place, None).expect("attached")
    });
    let capture = Capture::start(&pair.right, &[]);
    let packet = Ip::over(&pair, 4000, UDP, udp(9, b"tagged"));
    let inner = [&[0, 7, 8, 0][..], &packet.bytes()].concat();
    Sender::on(&pair).frame(pair.right.mac, 0x8100, &inner);
    let found = capture.finish();
    let tagged = found.with_id(4000);
    assert_eq!(tagged.len(), 1, "{:#?} {}", found.lines, found.summary);
    assert_eq!(tagged[0]["cooked"]["protocol"], 0x8100, "{}", tagged[0]);
    assert_eq!(tagged[0]["vlan"][0]["id"], 7, "{}", tagged[0]);
    assert_eq!(
        tagged[0]["len"],
        20 + 4 + packet.bytes().len(),
        "{}",
        tagged[0]
    );
}

pub(crate) fn tcx() {
    let pair = VethPair::new();
    let program = program(ProgramKind::SchedCls, TCX_DROP);
    let kernel = Kernel::running();
    let attach = |side: &Side, hook| {
        let index = index(side);
        side.run(|| {
            Link::tcx(&program, &kernel, index, hook, TcxPlace::First, None).expect("attached")
        })
    };
    let received = attach(&pair.right, TcxSide::Ingress);
    let capture = Capture::start(&pair.right, &[]);
    send(&pair, 6002, 3, 20);
    let found = capture.finish();
    let is_it = |packet: &Value| packet["udp"]["dst_port"] == 6002;
    assert_eq!(found.count("TC_INGRESS", is_it), 3, "{:#?}", found.lines);
    drop(received);
    let _sent = attach(&pair.left, TcxSide::Egress);
    let capture = Capture::start(&pair.left, &["--direction", "out"]);
    send(&pair, 6002, 3, 20);
    let found = capture.finish();
    assert_eq!(found.count("TC_EGRESS", is_it), 3, "{:#?}", found.lines);
}

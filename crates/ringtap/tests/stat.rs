//! `ringtap stat` as a user runs it, in namespaces, on traffic whose numbers are known.

use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::hook::Side as HookSide;
use ringtap_sys::bpf::{Kernel, query_tcx};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
const FILTERS: [&str; 3] = ["udp", "tcp port 443", "vlan"];

fn main() -> ExitCode {
    let root = &[Need::Root];
    let script = &[Need::Root, Need::Tool("script")];
    let setpriv = &[Need::Root, Need::Tool("setpriv")];
    suite(vec![
        test("json_lines_add_up_to_what_was_sent", root, json_adds_up),
        test("plain_lines_and_summary_agree", root, plain),
        test("a_table_is_drawn_on_a_terminal", script, table),
        test("two_counts_and_a_dump_agree", root, together),
        test(
            "ip_broadcast_takes_the_netmask_of_the_device",
            root,
            netmask,
        ),
        test("sigint_and_sigterm_end_with_an_interval", root, signals),
        test("a_deleted_interface_ends_it", root, deleted),
        test(
            "kill_9_leaves_nothing_attached",
            &[Need::Root, Need::Tcx],
            killed,
        ),
        test("a_closed_pipe_ends_it", root, closed_pipe),
        test("stealing_needs_consent", root, consent),
        test(
            "a_packet_socket_counts_without_the_right_to_bpf",
            setpriv,
            unprivileged,
        ),
        test("wrong_usage_is_2", &[Need::Interfaces], usage),
    ])
}

/// Returns whether SIGINT is caught, by the mask in `/proc` (proc(5), `SigCgt`).
fn handles_signals(id: u32) -> bool {
    const SIGINT_BIT: u64 = 1 << 1;
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & SIGINT_BIT != 0)
}

fn stat(side: &Side, arguments: &[&str]) -> Command {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["stat", "-i", &side.device]).args(arguments);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn index_of(side: &Side) -> u32 {
    let index = side.namespace.netlink().index(&side.device);
    index.expect("it exists")
}

/// Programs on both sides of the device.
fn attached(side: &Side, index: u32) -> usize {
    let has_tcx = Need::Tcx.unmet().is_none();
    let mut netlink = side.namespace.netlink();
    let mut length = |hook| {
        if has_tcx {
            let chain = side.run(|| query_tcx(&Kernel::running(), index, hook));
            chain.expect("tcx").members.len()
        } else {
            netlink.bpf_filters(index, hook).expect("clsact").len()
        }
    };
    length(HookSide::Ingress) + length(HookSide::Egress)
}

/// Starts to count, and waits until this many programs are attached and signals are handled.
fn counting(command: &mut Command, side: &Side, programs: usize) -> Running {
    let mut running = Running::start(command).expect("ringtap starts");
    let index = index_of(side);
    while attached(side, index) < programs || !handles_signals(running.id()) {
        assert!(!running.has_ended(), "{:?}", running.wait(LIMIT));
        std::thread::sleep(Duration::from_millis(2));
    }
    running
}

/// Sends frames, every third with a VLAN tag. Returns their packets and bytes, by filter and in total.
fn send(side: &Side) -> Vec<(u64, u64)> {
    let traffic = Traffic {
        packets: 300,
        ..Traffic::default()
    };
    let injector = side.run(|| Injector::open(index_of(side)).expect("root"));
    let mut sums = vec![(0, 0); FILTERS.len() + 1];
    for (at, mut frame) in traffic.frames().into_iter().enumerate() {
        // After a tag, "udp" and "tcp" test the wrong place, as they do on a file.
        let is_tagged = at % 3 == 0;
        let is_udp = !is_tagged && frame[23] == 17;
        let ports = [&frame[34..36], &frame[36..38]];
        let is_https = !is_tagged && frame[23] == 6 && ports.contains(&&443_u16.to_be_bytes()[..]);
        if is_tagged {
            frame.splice(12..12, [0x81, 0, 0, 5]);
        }
        injector.send(&frame).expect("the end is up");
        let matches = [is_udp, is_https, is_tagged, true];
        for (sum, _) in sums.iter_mut().zip(matches).filter(|(_, matches)| *matches) {
            *sum = (sum.0 + 1, sum.1 + frame.len() as u64);
        }
    }
    sums
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    parsed(std::str::from_utf8(&output.stdout).expect("UTF-8"))
}

fn parsed(text: &str) -> Vec<serde_json::Value> {
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("JSON lines")
}

fn pair_of(value: &serde_json::Value) -> (u64, u64) {
    let number = |key| value[key].as_u64().expect("a number");
    (number("packets"), number("bytes"))
}

/// Returns the counts of all lines together, by filter and in total.
fn summed(lines: &[serde_json::Value]) -> Vec<(u64, u64)> {
    let mut sums = vec![(0, 0); FILTERS.len() + 1];
    for line in lines {
        let filters = line["filters"].as_array().expect("an array");
        assert_eq!(filters.len(), FILTERS.len());
        for (filter, name) in filters.iter().zip(FILTERS) {
            assert_eq!(filter["filter"], name);
        }
        for (sum, value) in sums.iter_mut().zip(filters.iter().chain([&line["total"]])) {
            let (packets, bytes) = pair_of(value);
            *sum = (sum.0 + packets, sum.1 + bytes);
        }
    }
    sums
}

fn unprivileged() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command("setpriv");
    command.args([
        "--inh-caps=-bpf,-net_admin,-perfmon,-sys_admin",
        "--bounding-set=-bpf,-net_admin,-perfmon,-sys_admin",
    ]);
    // Sent packets have reached the socket when the call returns.
    command.args([RINGTAP, "stat", "-i", &pair.right.device, "-Q", "out"]);
    command
        .args(["--interval", "100ms", "--json"])
        .args(FILTERS);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_capturing(&pair.right, LIMIT)
        .expect("a packet socket");
    while !handles_signals(running.id()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let expected = send(&pair.right);
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id()));
    let status = status.expect("it runs");
    assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
    let output = interrupted(running);
    let told = stderr(&output);
    let counting = format!(
        "counting on {} (packet socket), 3 filters",
        pair.right.device
    );
    assert!(told.contains(&counting), "{told}");
    assert!(told.contains("not at a hook: "), "{told}");
    assert!(told.contains("CAP_BPF"), "{told}");
    let lines = lines(&output);
    assert_eq!(summed(&lines), expected, "{lines:?} {told}");
    assert!(lines.iter().all(|line| line["lost"] == 0), "{lines:?}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn interrupted(running: Running) -> Output {
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("ringtap ends");
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn json_adds_up() {
    let pair = VethPair::new();
    let arguments = [&["--json", "--interval", "50ms"][..], &FILTERS].concat();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut command = stat(&pair.right, &arguments);
    command.stdout(file.reopen().expect("it is there"));
    let running = counting(&mut command, &pair.right, 2);
    let sent = send(&pair.right);
    let text = || std::fs::read_to_string(file.path()).expect("it is there");
    let begun = Instant::now();
    while text().lines().count() < 3 {
        assert!(begun.elapsed() < LIMIT, "{:?}", text());
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupted(running);
    let lines = parsed(&text());
    assert_eq!(summed(&lines), sent);
    let keys: Vec<&String> = lines[0].as_object().expect("an object").keys().collect();
    // serde_json keeps its objects sorted; the order in the text is tested where it is written.
    assert_eq!(
        keys,
        ["before_hook", "filters", "lost", "seconds", "time", "total"]
    );
    let time = lines[0]["time"].as_str().expect("a string");
    assert!(time.ends_with('Z') && time.len() == "2026-01-31T12:00:00.000000000Z".len());
    let seconds: f64 = lines
        .iter()
        .filter_map(|line| line["seconds"].as_f64())
        .sum();
    assert!(seconds >= 0.1, "{seconds}");
}

fn plain() {
    let pair = VethPair::new();
    let arguments = [&["--interval", "1h"][..], &FILTERS].concat();
    let running = counting(&mut stat(&pair.right, &arguments), &pair.right, 2);
    let sent = send(&pair.right);
    let output = interrupted(running);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), FILTERS.len() + 1);
    let names = FILTERS.iter().copied().chain(["total"]);
    for ((line, name), (packets, bytes)) in text.lines().zip(names).zip(sent) {
        let expected = format!("  {name}: {packets} packets, {bytes} bytes, ");
        assert!(line.contains(&expected), "{line}");
        let summary = stderr(&output);
        let summarised = summary
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        let figures: Vec<u64> = summarised
            .expect("a line of the summary")
            .trim_start()
            .trim_start_matches(name)
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        assert_eq!(figures, [packets, bytes], "{summary}");
    }
}

fn table() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command("script");
    let device = &pair.right.device;
    let inner = format!(
        "stty cols 60 rows 10; exec {RINGTAP} stat -i {device} --interval 100ms -c 3 udp ''"
    );
    command.args(["-q", "-e", "-c", &inner, "/dev/null"]);
    let running = Running::start_piped(&mut command).expect("script starts");
    let output = running.wait(LIMIT).expect("three intervals");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("packets/s").count(), 3, "{text}");
    // Drawn twice over the five lines of before.
    assert_eq!(text.matches("\x1b[5A\r").count(), 2, "{text}");
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("(all)"))
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
}

fn together() {
    let pair = VethPair::new();
    let side = &pair.right;
    let arguments = [&["--json", "--interval", "10s"][..], &FILTERS].concat();
    let first = counting(&mut stat(side, &arguments), side, 2);
    let second = counting(&mut stat(side, &arguments), side, 4);
    let mut command = side.namespace.command(RINGTAP);
    command.args([
        "dump",
        "-i",
        &side.device,
        "-w",
        "/dev/null",
        "--json-stats",
        "vlan",
    ]);
    let mut dump = Running::start_piped(&mut command).expect("ringtap starts");
    dump.wait_until_capturing(side, LIMIT).expect("it captures");
    let sent = send(side);
    let captured: serde_json::Value = {
        let text = stderr(&interrupted(dump));
        let line = text.lines().last().expect("a summary");
        serde_json::from_str(line).expect("JSON")
    };
    assert_eq!(captured["captured"].as_u64(), Some(sent[2].0));
    for running in [first, second] {
        assert_eq!(summed(&lines(&interrupted(running))), sent);
    }
}

/// The device's network is 10.99.0.0/24.
fn netmask() {
    let pair = VethPair::new();
    let side = &pair.right;
    let filters = ["ip broadcast", "dst net 10.99.0.0/24"];
    let arguments = [&["--json", "--interval", "10s"][..], &filters].concat();
    let running = counting(&mut stat(side, &arguments), side, 2);
    let injector = side.run(|| Injector::open(index_of(side)).expect("root"));
    let frame = Traffic::default().frames().remove(0);
    for last in [255, 0, 127, 1, 254] {
        let mut frame = frame.clone();
        frame[30..34].copy_from_slice(&[10, 99, 0, last]);
        injector.send(&frame).expect("the end is up");
    }
    let lines = lines(&interrupted(running));
    let counted = |at: usize| pair_of(&lines[0]["filters"][at]).0;
    assert_eq!([counted(0), counted(1)], [2, 5], "{lines:?}");
}

fn signals() {
    let pair = VethPair::new();
    let arguments = [&["--json", "--interval", "1h"][..], &FILTERS].concat();
    for signal in ["INT", "TERM"] {
        let running = counting(&mut stat(&pair.right, &arguments), &pair.right, 2);
        let sent = send(&pair.right);
        running.signal(signal).expect("a signal");
        let output = running.wait(LIMIT).expect("ringtap ends");
        assert_eq!(output.status.code(), Some(0), "{signal}");
        let lines = lines(&output);
        assert_eq!(lines.len(), 1, "{signal}");
        assert_eq!(summed(&lines), sent, "{signal}");
        assert!(stderr(&output).contains("  total"), "{}", stderr(&output));
        assert_eq!(attached(&pair.right, index_of(&pair.right)), 0);
    }
}

fn deleted() {
    let pair = VethPair::new();
    let arguments = [&["--json", "--interval", "1h"][..], &FILTERS].concat();
    let running = counting(&mut stat(&pair.right, &arguments), &pair.right, 2);
    let sent = send(&pair.right);
    let mut netlink = pair.right.namespace.netlink();
    netlink.delete(&pair.right.device).expect("deleted");
    let output = running.wait(LIMIT).expect("ringtap ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("veth1: the interface is gone"),
        "{}",
        stderr(&output)
    );
    assert_eq!(summed(&lines(&output)), sent);
}

fn killed() {
    let pair = VethPair::new();
    let index = index_of(&pair.right);
    let running = counting(&mut stat(&pair.right, &["udp"]), &pair.right, 2);
    running.signal("KILL").expect("a signal");
    let output = running.wait(LIMIT).expect("it is dead");
    assert_eq!(output.status.code(), None);
    assert_eq!(attached(&pair.right, index), 0);
}

fn closed_pipe() {
    let pair = VethPair::new();
    let mut command = stat(&pair.right, &["--json", "--interval", "20ms", "udp"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ringtap starts");
    drop(child.stdout.take());
    let output = Running::watch(child).wait(LIMIT).expect("ringtap ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(attached(&pair.right, index_of(&pair.right)), 0);
}

fn consent() {
    let pair = VethPair::new();
    // Else XDP is not chosen before Linux 6.8, and clsact does not steal.
    pair.right.keep_tags();
    let gateway = pair.left.ipv4.into();
    let mut netlink = pair.right.namespace.netlink();
    netlink
        .add_default_route(&pair.right.device, gateway)
        .expect("a route");
    let steal = ["--mode", "steal", "--interval", "10ms", "-c", "1", "udp"];
    let run = |arguments: &[&str]| {
        let running = Running::start_piped(&mut stat(&pair.right, arguments));
        running
            .expect("ringtap starts")
            .wait(LIMIT)
            .expect("it ends")
    };
    let refused = run(&steal);
    assert_eq!(refused.status.code(), Some(2));
    let reason = "stealing needs consent (--force): it carries the IPv4 default route";
    assert!(stderr(&refused).contains(reason), "{}", stderr(&refused));
    let forced = run(&[&steal[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    let note = "stealing although it carries the IPv4 default route";
    assert!(stderr(&forced).contains(note), "{}", stderr(&forced));
}

fn usage() {
    let cases: [&[&str]; 9] = [
        &["stat", "udp"],
        &["stat", "-i", "lo", "--mode", "steal"],
        &["stat", "-i", "", "udp"],
        &["stat", "-i", "any", "udp"],
        &["stat", "-i", "xsk:lo", "udp"],
        &["stat", "-i", "lo", "udp", "port port"],
        &["stat", "-i", "lo", "--interval", "0s", "udp"],
        &["stat", "-i", "lo", "--count", "0", "udp"],
        &["stat", "-i", "lo", "--mode", "borrow", "udp"],
    ];
    for arguments in cases {
        let output = Command::new(RINGTAP).args(arguments).output();
        let output = output.expect("ringtap runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

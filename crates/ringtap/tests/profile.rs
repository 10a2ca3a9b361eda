//! `ringtap profile` as its users run it.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use ringtap_sys::perf::paranoid;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");

fn main() -> ExitCode {
    let root = &[Need::Root, Need::Kernel(6, 6)];
    suite(vec![
        test("json_has_every_component", root, json).serial(),
        test(
            "a_chart_that_cannot_be_written_takes_nothing_along",
            root,
            no_chart,
        )
        .serial(),
        test("of_silence_nothing_is_told", root, silence).serial(),
        test("an_interface_is_left_as_it_was", root, interface).serial(),
        test(
            "without_rights_it_says_what_it_cannot_tell",
            &[Need::Root, Need::Tool("setpriv")],
            without_rights,
        )
        .serial(),
        test(
            "an_interrupted_trial_puts_the_interface_back",
            &[
                Need::Root,
                Need::Kernel(6, 6),
                Need::Processors(2),
                Need::Tool("unshare"),
            ],
            interrupted_trial,
        )
        .serial(),
        test("wrong_usage_is_told", &[], usage),
    ])
}

fn finished(command: &mut Command) -> Output {
    command.output().expect("it can be started")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn statistics_are_on() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
    text.is_ok_and(|text| text.trim() != "0")
}

fn json() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("profile.svg");
    let before = statistics_are_on();
    let mut command = Command::new(RINGTAP);
    command.args(["profile", "--engine", "tcx", "--duration", "600ms"]);
    command.args(["--json", "--svg"]);
    let output = finished(command.arg(&svg).args(["udp", "port", "9"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let report = &reports[0];
    assert_eq!(
        (&report["version"], &report["engine"]),
        (&1.into(), &"tcx".into())
    );
    let components = report["components"].as_array().expect("a list");
    let names: Vec<&str> = components
        .iter()
        .filter_map(|part| part["component"].as_str())
        .collect();
    let expected = [
        "driver",
        "stack",
        "tap",
        "filter",
        "timestamp",
        "copy",
        "wake",
        "reader",
        "application",
    ];
    assert_eq!(names, expected);
    for key in ["ns", "cycles", "low_ns", "high_ns"] {
        assert!(components[0]["cost"][key].is_number(), "{key}: {report}");
    }
    for key in [
        "unexplained",
        "total",
        "rates",
        "steps",
        "method",
        "packets",
        "advice",
    ] {
        assert!(!report[key].is_null(), "{key}");
    }
    assert_eq!(report["settings"]["filter"], "udp port 9");
    let mode = svg.metadata().expect("drawn").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "a file of its owner");
    assert!(
        std::fs::read_to_string(&svg)
            .expect("drawn")
            .contains("</svg>")
    );
    assert!(
        before || !statistics_are_on(),
        "the kernel's statistics are left on"
    );
}

fn no_chart() {
    let profile = |svg: &str| {
        let mut command = Command::new(RINGTAP);
        command.args(["profile", "--engine", "packet", "--no-steps", "--json"]);
        finished(command.args(["--duration", "100ms", "--svg", svg]))
    };
    // Found before anything is measured.
    let output = profile("/proc/no-such-folder/chart.svg");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("cannot write /proc/no-such-folder/chart.svg"),
        "{text}"
    );
    assert!(output.stdout.is_empty());
    let output = profile("/dev/full");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write /dev/full: No space left"));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("what was measured");
}

/// Without packets there is no cost and no sum.
fn silence() {
    let pair = VethPair::new();
    let mut command = pair.left.namespace.command(RINGTAP);
    command.args([
        "profile",
        "-i",
        "packet:lo",
        "--no-steps",
        "--duration",
        "100ms",
    ]);
    let output = finished(&mut command);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let total = text.lines().find(|line| line.starts_with("total"));
    assert!(total.is_some_and(|line| line.contains("unknown")), "{text}");
}

/// Traffic that is there already, on an interface of its own.
fn interface() {
    let pair = VethPair::new();
    let link = || {
        let link = pair
            .right
            .namespace
            .netlink()
            .link(&pair.right.device)
            .expect("there");
        (link.flags, link.promiscuity, link.xdp.len())
    };
    let before = link();
    let sender = pair.left.namespace.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&stop);
    let target = (pair.right.ipv4, 9);
    let sending = std::thread::spawn(move || {
        sender.run(|| {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bound");
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                // Nothing listens, and the socket may report it.
                let _ = socket.send_to(&[0; 40], target);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args([
        "profile",
        "-i",
        &format!("xdp:{}", pair.right.device),
        "--duration",
        "500ms",
    ]);
    let output = finished(&mut command);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    sending.join().expect("sent");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "as found on the interface",
        "interrupt and driver",
        "unexplained",
        "method",
        "advice",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(link(), before);
}

/// One processor makes and receives packets at its limit: the advice is to distribute them (RPS), which is
/// tried if it is allowed. An interrupt comes during the trial. On a busy machine a short profile may miss
/// that the processor is at its limit.
fn interrupted_trial() {
    // The former setting differs from that of a new interface.
    const SCRIPT: &str = "mount -t sysfs none /sys || exit 9
        rps=/sys/class/net/$2/queues/rx-0/rps_cpus
        echo 1 > $rps && before=$(cat $rps) && during=$before || exit 9
        $1 profile -i packet:$2 -s 96 -B 4M --cpu 1 --no-steps --duration $3 --try-interface &
        for look in $(seq 400); do
            during=$(cat $rps)
            [ \"$during\" = \"$before\" ] || break
            sleep 0.05
        done
        kill -INT $!
        wait $!
        echo \"status $?, before $before, during $during, after $(cat $rps)\"";
    let mut tried = false;
    for duration in ["400ms", "1s", "3s", "10s"] {
        let (text, stderr) = one_trial(SCRIPT, duration);
        let last = text.lines().last().unwrap_or_default();
        let value = |name: &str| {
            let (_, rest) = last.split_once(name).expect(name);
            rest.trim_start().split(',').next().unwrap_or_default()
        };
        tried = value("during") != value("before");
        if tried {
            assert_eq!(value("status"), "0", "{text}{stderr}");
            assert_eq!(value("after"), value("before"), "{text}");
            break;
        }
        println!("not tried within {duration}: {text}{stderr}");
    }
    assert!(tried, "never tried");
}

/// Returns both outputs of a script on an interface that receives all that a processor can make.
fn one_trial(script: &str, duration: &str) -> (String, String) {
    let pair = VethPair::new();
    let mut sender = pair.left.namespace.command("taskset");
    sender.args(["-c", "0", RINGTAP, "gen", "-i"]);
    sender.arg(format!("packet:{}", pair.left.device));
    sender.args(["--duration", "60s", "--yes"]);
    let _sender = Running::start_piped(&mut sender).expect("started");
    let mut command = pair.right.namespace.command("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", RINGTAP]);
    let output = finished(command.arg(&pair.right.device).arg(duration));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, stderr(&output))
}

fn without_rights() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-all,+net_raw,+net_admin"]);
    command.args([
        RINGTAP,
        "profile",
        "-i",
        &pair.right.device,
        "--duration",
        "300ms",
    ]);
    let output = finished(&mut command);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("packet on "), "{text}");
    if paranoid().is_some_and(|level| level > 0) {
        for expected in [
            "no samples without CAP_PERFMON",
            "perf_event_paranoid is",
            "no samples: figures are of",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let driver = text
            .lines()
            .find(|line| line.starts_with("interrupt and driver"));
        assert!(
            driver.is_some_and(|line| line.contains("unknown")),
            "{text}"
        );
    }
}

fn usage() {
    let refused = |arguments: &[&str]| {
        let output = finished(Command::new(RINGTAP).arg("profile").args(arguments));
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        stderr(&output)
    };
    assert!(refused(&["udp", "port"]).contains("udp port"));
    assert!(refused(&["-i", "any"]).contains("any"));
    assert!(refused(&["-i", "eth0", "--size", "100"]).contains("--size"));
    assert!(refused(&["--rate", "5"]).contains("--rate"));
    let missing = finished(Command::new(RINGTAP).args([
        "profile",
        "--baseline",
        "/nonexistent/profile.json",
    ]));
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("/nonexistent/profile.json"),
        "{}",
        stderr(&missing)
    );
}

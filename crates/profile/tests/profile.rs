//! Profiles of generated packets, in namespaces of their own. The tests check the contents of
//! reports, not times.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ringtap_capture::{CaptureOptions, Direction, Filter, Mode};
use ringtap_profile::report::Origin;
use ringtap_profile::traffic::Traffic;
use ringtap_profile::{COMPONENTS, Component, Plan, Report, chart, text};
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    let root = &[Need::Root, Need::Kernel(6, 6)];
    suite(vec![
        test("a_tap_is_taken_apart", root, tap).serial(),
        test("every_engine_has_a_profile", root, engines).serial(),
    ])
}

/// The longest profile takes 32 times as long as the first.
const ATTEMPTS: u32 = 6;
/// The steps of every engine that has them.
const STEPS: usize = 5;
/// Every packet passes one of these.
const KERNEL: [Component; 2] = [Component::Driver, Component::Stack];

fn plan(duration: u64, steps: bool) -> Plan {
    Plan {
        device: None,
        options: CaptureOptions::default()
            .direction(Direction::In)
            .timeout(Duration::from_millis(50)),
        filter: Some(Filter::new("udp port 9")),
        duration: Duration::from_millis(duration),
        rate: 4000,
        traffic: Traffic::default(),
        steps,
        work: 0,
    }
}

/// Makes a profile in which samples show the driver or the stack, and each of `wanted`, and every
/// step is compared with the one before it. It doubles the duration until they do: a busy machine
/// gives the capture little time, so a short profile has few samples, and rounds in which a step
/// sees too few packets.
fn profile(mut plan: Plan, engine: Option<&str>, wanted: &[Component]) -> Report {
    let mut attempts = 0;
    loop {
        let report = ringtap_profile::run(&plan, engine, &AtomicBool::new(false));
        let report = report.unwrap_or_else(|error| panic!("{engine:?}: {error}"));
        attempts += 1;
        let is_complete = shows(&report, wanted) && (!plan.steps || are_compared(&report));
        if attempts == ATTEMPTS || is_complete {
            return report;
        }
        plan.duration *= 2;
    }
}

fn shows(report: &Report, wanted: &[Component]) -> bool {
    let sampled = |part: &Component| report.ns(*part) > Some(0.0);
    let packets = &report.packets;
    packets.interface > 0
        && packets.captured > 0
        && KERNEL.iter().any(sampled)
        && wanted.iter().all(sampled)
}

/// Returns whether every step but the first has a difference to the one before it.
fn are_compared(report: &Report) -> bool {
    let mut later = report.steps.iter().skip(1);
    report.steps.len() == STEPS && later.all(|step| step.more.is_some())
}

/// Checks the parts that every report of a capture with packets must have.
fn check(report: &Report) {
    let listed: Vec<Component> = report
        .components
        .iter()
        .map(|part| part.component)
        .collect();
    assert_eq!(listed, COMPONENTS);
    assert!(
        report.packets.interface > 0 && report.packets.captured > 0,
        "{report:?}"
    );
    let sampling = report.method.sampling.as_ref().expect("root may sample");
    assert!(
        sampling.has_symbols && sampling.tally.explained() > 0,
        "{sampling:?}"
    );
    let shares: f64 = report.components.iter().filter_map(|part| part.share).sum();
    let sum = shares + report.unexplained.share;
    assert!((sum - 1.0).abs() < 1e-6, "shares make {sum}");
    for part in &report.components {
        let cost = part.cost.expect("all are sampled");
        assert_eq!(part.origin, Some(Origin::Samples));
        assert!(
            cost.low_ns <= cost.ns && cost.ns <= cost.high_ns,
            "{part:?}"
        );
        assert!((cost.cycles - cost.ns * report.method.ticks_per_ns).abs() < 1e-6);
    }
    let costs: f64 = report
        .components
        .iter()
        .filter_map(|part| part.cost)
        .map(|cost| cost.ns)
        .sum();
    assert!((costs + report.unexplained.ns - report.total.ns).abs() < 1e-6);
    let kernel: f64 = KERNEL
        .iter()
        .filter_map(|component| report.ns(*component))
        .sum();
    assert!(kernel > 0.0, "packets come by a driver");
    assert!(!report.advice.is_empty() && !report.method.cannot_tell.is_empty());
    let text = text::profile(report, Some(report));
    for expected in COMPONENTS.map(Component::title).into_iter().chain([
        "unexplained",
        "total",
        "unknown: ",
        "+0.0",
    ]) {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

fn tap() {
    // The default engine: its programs must be found through the choice, too.
    let report = profile(plan(1000, true), None, &[Component::Copy]);
    assert_eq!(
        (report.engine.as_str(), report.driver.as_str()),
        ("tcx", "veth")
    );
    check(&report);
    let inside = [Component::Filter, Component::Timestamp, Component::Copy];
    let inside: f64 = inside.iter().filter_map(|part| report.ns(*part)).sum();
    assert!(inside > 0.0, "the tap's own program is seen: {report:?}");
    let stages: Vec<&str> = report
        .steps
        .iter()
        .map(|step| step.stage.as_str())
        .collect();
    assert_eq!(
        stages,
        ["hook", "filter", "timestamp", "ring", "copy"],
        "{:?}",
        report.steps
    );
    assert!(
        report.steps[0].more.is_none() && report.steps[1..].iter().all(|step| step.more.is_some())
    );
    assert!(
        report
            .steps
            .iter()
            .all(|step| step.runs > 0 && step.run.low_ns <= step.run.ns)
    );
    let packets = report.rates.packets_per_poll;
    assert!(packets.is_some_and(|packets| packets >= 1.0));
    assert!(report.rates.system_calls_per_packet.is_some());
    let json = serde_json::to_string(&[&report]).expect("written");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &json).expect("written");
    let read = ringtap_profile::report::read(file.path()).expect("read back");
    assert_eq!((read.len(), &read[0].settings), (1, &report.settings));
    assert!((read[0].total.ns - report.total.ns).abs() < 1e-6);
    let drawing = chart::draw(
        &[("before".to_owned(), &read[0]), ("now".to_owned(), &report)],
        "caption",
    )
    .expect("drawn");
    for expected in [
        "<svg",
        "before",
        "now",
        "caption",
        "cost of a packet [ns]",
        "unexplained",
        "timestamp",
    ] {
        assert!(drawing.contains(expected), "{expected}");
    }
    std::fs::write(file.path(), json.replace("\"version\":1", "\"version\":7")).expect("written");
    let error = ringtap_profile::report::read(file.path()).expect_err("another form");
    assert!(error.to_string().contains("format version 7"), "{error}");
}

fn engines() {
    for engine in ["packet", "xdp", "xsk"] {
        let mut plan = plan(400, engine == "packet");
        // Most of the reader's work, whatever else the machine does.
        plan.work = 3_000;
        if engine == "xsk" {
            plan.options.mode = Mode::Steal;
        }
        let report = profile(plan, Some(engine), &[Component::Application]);
        assert_eq!(report.engine, engine);
        check(&report);
        assert_eq!(report.settings.work_ns, 3_000);
        assert!(
            report.ns(Component::Application) > Some(0.0),
            "the application's work is seen: {report:?}"
        );
        let stages: Vec<&str> = report
            .steps
            .iter()
            .map(|step| step.stage.as_str())
            .collect();
        if engine == "packet" {
            let expected = ["none", "hook", "filter", "ring", "copy"];
            assert_eq!(stages, expected, "{:?}", report.steps);
        } else {
            assert!(stages.is_empty(), "{stages:?}");
        }
    }
}

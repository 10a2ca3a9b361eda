//! `ringtap-bench`: one short experiment from end to end, its files, its report.

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use ringtap_testkit::{Need, suite, test};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_ringtap-bench");

fn main() -> ExitCode {
    let live = &[Need::Root, Need::Kernel(6, 1)];
    suite(vec![
        test("an_experiment_leaves_its_files", live, experiment),
        test("unknown_names_are_usage_errors", &[], unknown_names),
        test("the_program_to_measure_is_found", &[], measured),
        test("a_closed_output_is_no_failure", &[], outputs),
        test("what_was_not_measured_is_not_shown", &[], nothing_to_show),
        test("the_readme_is_in_step", &[], readme),
        test(
            "the_report_opens_in_a_browser",
            &[Need::Tool("chromium"), Need::Interfaces],
            browser,
        ),
    ])
}

fn bench(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(BENCH);
    command.args(arguments).arg("--out").arg(out);
    command.output().expect("ringtap-bench runs")
}

/// Makes a program that stands for ringtap in an experiment that does not run it. `install` writes
/// it, so that this process does not hold it open for writing while another test starts a program.
fn put_ringtap(folder: &Path) -> String {
    let (script, ringtap) = (folder.join("script"), folder.join("ringtap"));
    std::fs::write(&script, "#!/bin/sh\necho ringtap 9.8.7\n").expect("written");
    let mut install = Command::new("install");
    install.args(["-m", "755"]).args([&script, &ringtap]);
    assert!(install.status().expect("install runs").success());
    ringtap.to_string_lossy().into_owned()
}

fn experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let ringtap = put_ringtap(folder.path());
    let out = folder.path().join("results");
    let clock = ["clock", "--quick", "--ringtap", &ringtap];
    let done = bench(&[&clock[..], &["--case", "last tick"]].concat(), &out);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(text.contains("reference"), "{text}");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect(name);
    let results: Value = serde_json::from_str(&read("clock.json")).expect("JSON");
    assert_eq!(results["experiment"], "clock");
    assert_eq!(results["quick"], true);
    let version = results["machine"]["ringtap"].as_str();
    assert!(
        version.is_some_and(|version| version.starts_with("9.8.7")),
        "the version of the program that is measured: {version:?}"
    );
    let case = &results["figures"][0]["cases"][0];
    let samples = &case["contenders"][0]["samples"][0];
    assert_eq!(
        samples.as_array().map(Vec::len),
        Some(2),
        "two rounds: {case}"
    );
    // A head, and two rounds of two contenders with one metric.
    assert_eq!(read("clock.csv").lines().count(), 1 + 4);
    let svg = read("clock-1.svg");
    assert!(
        svg.contains("[ns]") && svg.contains("<desc>"),
        "no unit or caption"
    );
    // A part of the cases is not complete; complete results are not measured again.
    let path = out.join("clock.json");
    assert_eq!(results["only"], "last tick");
    let mut whole = results.clone();
    whole.as_object_mut().expect("an object").remove("only");
    std::fs::write(&path, whole.to_string()).expect("written");
    let there = bench(&[&clock[..], &["--resume"]].concat(), &out);
    let text = String::from_utf8_lossy(&there.stdout);
    assert!(text.contains("clock: there already"), "{text}");
    assert!(bench(&["report"], &out).status.success());
    let page = read("report.html");
    assert!(
        page.contains("<svg") && page.contains("1,800 cycles"),
        "no chart or no documents"
    );
    let shown = bench(&["show", "--case", "last tick"], &out);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(
        shown.contains("== An XDP program that stamps and drops") && shown.contains("reference"),
        "{shown}"
    );
    let table = bench(&["table"], &out);
    let table = String::from_utf8_lossy(&table.stdout);
    assert!(
        table.contains("Not or not wholly measured: flow"),
        "{table}"
    );
}

fn unknown_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = bench(&["nothing", "--ringtap", BENCH], folder.path());
    assert_eq!(done.status.code(), Some(2));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("unknown experiment nothing"), "{text}");
    let list = Command::new(BENCH).arg("--list").output();
    let list = list.expect("ringtap-bench runs").stdout;
    let list = String::from_utf8_lossy(&list);
    for name in ["send", "tap", "deliver", "filter", "realtime", "libpcap"] {
        assert!(
            list.lines().any(|line| line.starts_with(name)),
            "{name}: {list}"
        );
    }
}

/// The program to measure is the one beside it, or the last one given; without it no experiment
/// runs.
fn measured() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let out = folder.path().join("results");
    let program = folder.path().join("ringtap-bench");
    std::fs::hard_link(BENCH, &program).expect("a link");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).arg("nothing").arg("--out");
        let done = command.arg(&out).output().expect("ringtap-bench runs");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), text)
    };
    // The experiment's name is checked after the program is found.
    let (status, text) = run(&[]);
    assert!(
        status == Some(1) && text.contains("/ringtap to measure; name one with --ringtap"),
        "{text}"
    );
    let (status, text) = run(&["--ringtap", "/nowhere/ringtap"]);
    assert!(
        status == Some(1) && text.contains("/nowhere/ringtap: no such program"),
        "{text}"
    );
    let (status, text) = run(&["--ringtap", "/nowhere/ringtap", "--ringtap", BENCH]);
    assert!(
        status == Some(2) && text.contains("unknown experiment"),
        "{text}"
    );
    std::fs::hard_link(BENCH, folder.path().join("ringtap")).expect("a link");
    let (status, text) = run(&[]);
    assert!(
        status == Some(2) && text.contains("unknown experiment"),
        "{text}"
    );
    let (status, text) = run(&["--ringtap", "/nowhere/ringtap", "--list"]);
    assert_eq!(status, Some(0), "{text}");
}

/// A closed pipe, as with `| head`, is no failure; a failed write is one.
fn outputs() {
    let mut list = Command::new(BENCH);
    list.arg("--list");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let done = list.stdout(writer).output().expect("ringtap-bench runs");
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    let full = std::fs::File::create("/dev/full").expect("/dev/full");
    let done = list.stdout(full).output().expect("ringtap-bench runs");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        text.starts_with("ringtap-bench: standard output: "),
        "{text}"
    );
}

/// A folder without results, and a case that was not measured, are errors that name them.
fn nothing_to_show() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    for out in [folder.path(), &missing] {
        for what in ["show", "report", "table"] {
            let done = bench(&[what], out);
            assert_eq!(done.status.code(), Some(1), "{what}: {done:?}");
            assert!(done.stdout.is_empty(), "{what}: {done:?}");
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(told.contains(&out.display().to_string()), "{what}: {told}");
        }
        assert!(!out.join("report.html").exists());
    }
    let results = ringtap_testkit::repository().join("docs/report");
    let done = bench(&["show", "--case", "no such case"], &results);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("no such case"), "{told}");
}

/// Records the browser's view of every chart: its size, and the texts that take up room.
const LOOK: &str = "<script>document.body.dataset.charts = JSON.stringify(\
    [...document.querySelectorAll('figure svg')].map(chart => ({\
        width: chart.getBoundingClientRect().width,\
        height: chart.getBoundingClientRect().height,\
        texts: [...chart.querySelectorAll('text')]\
            .filter(text => text.getBoundingClientRect().width > 0)\
            .map(text => text.textContent.trim())})))</script>";

/// Shows the page of the results in `docs/report` in a headless browser: every chart has room, axes
/// with their units, and its caption. The page loads nothing else and reports no error.
fn browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = ringtap_testkit::repository().join("docs/report");
    for entry in std::fs::read_dir(&results).expect("results") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            // The results of other commands, such as `cargo xtask kernels`.
            continue;
        }
        let name = path.file_name().expect("a name");
        std::fs::copy(&path, folder.path().join(name)).expect("copied");
    }
    assert!(bench(&["report"], folder.path()).status.success());
    let page = folder.path().join("report.html");
    let text = std::fs::read_to_string(&page).expect("the page");
    assert_eq!(text.matches("</body>").count(), 1);
    std::fs::write(&page, text.replace("</body>", &format!("{LOOK}</body>"))).expect("written");

    let charts = looked_at(&page, &folder.path().join("browser"));
    let mut charts = charts.as_array().expect("a list").iter();
    for results in ringtap_bench::report::load(folder.path()).expect("results") {
        for figure in &results.figures {
            let chart = charts.next().expect("a chart of each figure");
            let length = |key: &str| chart[key].as_f64().unwrap_or_default();
            assert!(
                length("width") > 300.0 && length("height") > 100.0,
                "{chart}"
            );
            let texts: Vec<&str> = chart["texts"]
                .as_array()
                .expect("texts")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let has = |wanted: &str| texts.iter().any(|text| text.contains(wanted));
            assert!(has(&figure.title), "{}: {texts:?}", figure.title);
            for metric in &figure.metrics {
                assert!(has(&metric.label()), "{}: {texts:?}", metric.label());
            }
            // Names are shown at the bars.
            let is_named = figure.x.scale == ringtap_bench::results::Scale::Names;
            assert!(is_named || has(&figure.x.label()), "{texts:?}");
            let caption: Vec<&str> = results.caption.split(' ').take(4).collect();
            assert!(has(&caption.join(" ")), "{caption:?}: {texts:?}");
        }
    }
    assert!(charts.next().is_none(), "more charts than figures");
}

/// Returns the output of [`LOOK`], in a browser that reports no error.
fn looked_at(page: &Path, profile: &Path) -> Value {
    let mut command = Command::new("timeout");
    command.args([
        "120",
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
    ]);
    command.args(["--enable-logging=stderr", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("file://{}", page.display()));
    let shown = command.output().expect("chromium runs");
    let complaints = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{complaints}");
    assert!(!complaints.contains("CONSOLE"), "{complaints}");
    let shown = String::from_utf8_lossy(&shown.stdout);
    let charts = shown.split_once("data-charts=\"").expect("looked at").1;
    let charts = charts.split_once('"').expect("quoted").0;
    let charts = charts
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    serde_json::from_str(&charts.replace("&amp;", "&")).expect("JSON")
}

/// Checks that the README's tables match those generated from the results in `docs/report`.
fn readme() {
    let repository = ringtap_testkit::repository();
    let readme = std::fs::read_to_string(repository.join("README.md")).expect("a README");
    let table = ringtap_bench::markdown(&repository.join("docs/report")).expect("results");
    assert!(
        readme.contains(&table),
        "README.md differs from docs/report: cargo xtask readme docs/report writes it"
    );
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    // Six, below a head of two lines.
    assert_eq!(rows.len(), 8, "{table}");
    for row in rows {
        assert_eq!(row.matches('|').count(), 5, "{row}");
    }
}

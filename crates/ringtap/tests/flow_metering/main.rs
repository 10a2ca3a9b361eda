//! Compares the flows of `ringtap flow` with those of tshark and nfpcapd, and with the sent packets.

mod files;
mod health;
mod live;
mod nfpcapd;
mod readers;
mod tshark;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");

fn main() -> ExitCode {
    let root = &[Need::Root];
    let tap = &[Need::Root, Need::Kernel(5, 12)];
    let two = &[Need::Root, Need::Kernel(5, 12), Need::Processors(2)];
    let tshark = &[Need::Corpus, Need::Tool("tshark")];
    let nfdump = &[Need::Corpus, Need::Tool("nfpcapd"), Need::Tool("nfdump")];
    let health = (0..health::PARTS).map(|part| {
        let (number, all) = (part + 1, health::PARTS);
        let name = format!("connections_have_the_health_that_tshark_finds_{number}_of_{all}");
        test(name, tshark, move || health::agrees(part))
    });
    let mut tests = vec![
        test(
            "sums_are_those_of_tshark_on_the_corpus",
            tshark,
            tshark::sums,
        ),
        test("flows_have_the_totals_of_nfpcapd", nfdump, nfpcapd::totals),
        test("a_live_capture_meters_what_was_sent", root, live::meters),
        test(
            "directions_of_a_flow_meet_from_two_processors",
            two,
            readers::meet,
        ),
        test("sampling_in_the_kernel_is_counted", tap, live::samples),
        test("tables_name_hosts_and_flows", &[Need::Corpus], tables),
        test(
            "threads_give_the_records_of_one",
            &[Need::Corpus],
            threads_agree,
        ),
        test(
            "a_file_has_the_same_flows_however_it_is_read",
            &[Need::Corpus],
            files::however_read,
        ),
        test("wrong_usage_is_2", &[], usage),
        test("lists_and_extensions_are_taken", &[], lists),
        test("packets_are_not_written_over", &[], same_file),
    ];
    tests.extend(health);
    suite(tests)
}

/// Returns the summary that `--json-stats` gives.
fn summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no summary: {text}"));
    serde_json::from_str(line).expect("JSON")
}

fn number(value: &serde_json::Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// Runs `ringtap flow` on a file with a table of records as its output.
fn meter(file: &Path, records: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "--top", "0", "--json-stats", "-r"]);
    command.arg(file).arg("-w").arg(records).args(options);
    command.output().expect("ringtap starts")
}

/// Returns the rows of a table of records, by the names of its columns.
fn rows(records: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let text = std::fs::read_to_string(records).expect("the table");
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<_> = lines.next().expect("a head").collect();
    let row = |fields: std::str::Split<'_, char>| {
        let cells = names.iter().map(ToString::to_string);
        cells.zip(fields.map(str::to_owned)).collect()
    };
    lines.map(row).collect()
}

/// Returns the summary without what differs from run to run, and the table's lines in an order of their own.
fn findings(output: &Output, records: &Path) -> (serde_json::Value, Vec<String>) {
    let mut summary = summary(output);
    let fields = summary.as_object_mut().expect("an object");
    for volatile in ["seconds", "flows", "files"] {
        assert!(fields.remove(volatile).is_some(), "{volatile}");
    }
    let text = std::fs::read_to_string(records).expect("the table");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (summary, lines)
}

fn tables() {
    let file = ringtap_testkit::corpus::folder().expect("needed");
    let file = file.join("ndpi/netflix.pcap");
    let output = Command::new(RINGTAP)
        .args(["flow", "--top", "3", "-r"])
        .arg(file)
        .output()
        .expect("ringtap starts");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    for heading in [
        "hosts by bytes",
        "flows by bytes",
        "hosts by packets",
        "flows by packets",
    ] {
        let table = text.lines().skip_while(|line| !line.starts_with(heading));
        let table: Vec<_> = table.take_while(|line| !line.is_empty()).collect();
        assert_eq!(table.len(), 4, "{heading}: {text}");
    }
    assert!(
        text.lines().any(|line| line.starts_with("192.168.1.7 ")),
        "{text}"
    );
}

/// Captures of many kinds, metered by one thread and by three: the same counters, and the same rows in
/// another order.
fn threads_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = ringtap_testkit::corpus::folder().expect("needed");
    let files = [
        "ndpi/netflix.pcap",
        "ndpi/tor.pcap",
        "ndpi/skype-conference-call.pcap",
    ];
    for options in [&["--linger", "0"][..], &["--biflow", "--tcp"]] {
        for file in files.map(|file| corpus.join(file)) {
            let run = |threads: &str| {
                let records = folder.path().join(format!("{threads}.csv"));
                let options = [options, &["--threads", threads]].concat();
                let output = meter(&file, &records, &options);
                assert!(output.status.success(), "{output:?}");
                findings(&output, &records)
            };
            let (one, several) = (run("1"), run("3"));
            assert!(one.1.len() > 1, "{file:?}");
            assert_eq!(one, several, "{file:?}, {options:?}");
        }
    }
}

fn usage() {
    let cases: [(&[&str], &str); 4] = [
        (
            &["flow"],
            "--interface <DEV>|--read <FILE>|-V <FILE>|--collect",
        ),
        (&["flow", "-r", "x", "--mode", "steal"], "live captures"),
        (&["flow", "-r", "x", "--active", "never"], "expected a time"),
        (
            &["flow", "-r", "x", "--flows", "0"],
            "expected a whole number of flows from 1 to 67108864",
        ),
    ];
    for (arguments, text) in cases {
        let output = Command::new(RINGTAP).args(arguments).output();
        let output = output.expect("ringtap starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

/// Names after `-r`, a list of `-V`, and the extensions of the language.
fn lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, packets| {
        let path = folder.path().join(name);
        let traffic = ringtap_testkit::traffic::Traffic {
            packets,
            ..Default::default()
        };
        traffic.write_file(&path).expect("a capture");
        path
    };
    let paths = [write("a.pcap", 3), write("b.pcap", 5)];
    let list = folder.path().join("list");
    let lines = paths.iter().map(|path| format!("{}\n", path.display()));
    std::fs::write(&list, lines.collect::<String>()).expect("a list");
    let packets = |add: &dyn Fn(&mut Command)| {
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "--top", "0", "--json-stats"]);
        add(&mut command);
        let output = command.output().expect("ringtap starts");
        assert!(output.status.success(), "{output:?}");
        number(&summary(&output)["packets"])
    };
    let named = packets(&|command| {
        command.arg("-r").args(&paths).arg("ip");
    });
    let listed = packets(&|command| {
        command.arg("-V").arg(&list);
    });
    let extended = packets(&|command| {
        let filter = ["--extended", "host in {192.0.2.1, 192.0.2.2, 192.0.2.9}"];
        command.arg("-V").arg(&list).args(filter);
    });
    assert_eq!((named, listed), (8, 8));
    assert!(extended > 0 && extended < 8, "{extended}");
}

fn same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("packets.json");
    std::fs::write(&path, "packets").expect("written");
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "-r"]).arg(&path).arg("-w").arg(&path);
    let output = command.output().expect("ringtap starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is both read and written"), "{said}");
    assert_eq!(std::fs::read(&path).expect("read"), b"packets");
}

//! `ringtap-query` on stores that the flow meter's own code writes: answers are those of its JSON.

mod bucket;
mod kept;
mod rewrites;

use std::fs::File;

use ringtap_flow_io::READERS_LOCK;

use kept::{ask, number, rows, some};

#[test]
fn sums_are_those_of_json() {
    let kept = some();
    let sum = |name: &str| {
        let values = kept
            .json
            .iter()
            .map(|record| record[name].as_u64().unwrap_or(0));
        values.sum::<u64>()
    };
    let sql = "SELECT count(*) AS n, sum(bytes) AS b, sum(reverse_bytes) AS r, count(app) AS a FROM flows";
    let answer = &rows(&kept.store, &[sql])[0];
    assert_eq!(number(answer, "n"), kept.json.len() as u64);
    assert_eq!(number(answer, "b"), sum("bytes"));
    assert_eq!(number(answer, "r"), sum("reverse_bytes"));
    let by_host = rows(
        &kept.store,
        &["SELECT src, sum(bytes) AS b FROM flows GROUP BY src"],
    );
    assert_eq!(by_host.len(), 4);
    for row in by_host {
        let own = kept
            .json
            .iter()
            .filter(|record| record["src"] == row["src"]);
        let bytes: u64 = own.map(|record| number(record, "bytes")).sum();
        assert_eq!(number(&row, "b"), bytes, "{row}");
    }
}

#[test]
fn times_choose_records() {
    let kept = some();
    let count = |arguments: &[&str]| {
        let arguments = [arguments, &["SELECT count(*) AS n FROM flows"]].concat();
        number(&rows(&kept.store, &arguments)[0], "n")
    };
    assert_eq!(count(&["--last", "1h"]), 80);
    assert_eq!(count(&["--last", "2d"]), 81);
    assert_eq!(count(&[]), 82);
    assert_eq!(count(&["--to", "2020-01-01T00:00:00Z"]), 0);
    assert_eq!(count(&["--from", "2020-01-01T00:00:00Z"]), 82);
    // A folder that is named is found, whatever the form of its number.
    let groups = rows(
        &kept.store,
        &["SELECT date, hour, count(*) AS n FROM flows GROUP BY 1, 2"],
    );
    for group in groups {
        let (date, hour) = (
            group["date"].as_str().expect("a date"),
            number(&group, "hour"),
        );
        let sql =
            format!("SELECT count(*) AS n FROM flows WHERE date = DATE '{date}' AND hour = {hour}");
        assert_eq!(rows(&kept.store, &[&sql])[0]["n"], group["n"], "{sql}");
    }
}

#[test]
fn addresses_and_networks_are_functions() {
    let kept = some();
    let count = |condition: &str| {
        let sql = format!("SELECT count(*) AS n FROM flows WHERE {condition}");
        number(&rows(&kept.store, &[&sql])[0], "n")
    };
    assert_eq!(count("src = ip('192.0.2.1')"), 40);
    assert_eq!(count("src_text = '192.0.2.1'"), 40);
    assert_eq!(count("cidr_match(src, '192.0.2.0/24')"), 42);
    assert_eq!(count("cidr_match(src, '2001:db8::/32')"), 40);
    assert_eq!(count("cidr_match(src, '::/0')"), 82);
    assert_eq!(count("NOT cidr_match(src, '0.0.0.0/0')"), 40);
    assert_eq!(count("protocol_name(protocol) = 'tcp'"), 82);
    assert_eq!(count("exporter = 'p1' AND hour BETWEEN 0 AND 23"), 82);
    let wrong = ask(
        &kept.store,
        &["SELECT cidr_match(src, '10.0.0.0/33') FROM flows"],
    );
    assert_eq!(
        wrong.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&wrong.stderr)
    );
}

#[test]
fn ready_questions_have_answers() {
    let kept = some();
    let top = rows(&kept.store, &["top", "hosts", "-n", "3"]);
    assert_eq!(top.len(), 3);
    assert_eq!(top[0]["host"], "192.0.2.1");
    assert_eq!(
        number(&top[0], "sent"),
        (1..=40).map(|host| 100 * host).sum::<u64>()
    );
    assert_eq!(number(&top[0], "received"), 20 * 7);
    assert_eq!(top[1]["host"], "198.51.100.40");
    let talkers = rows(&kept.store, &["talkers"]);
    assert_eq!(
        (&talkers[0]["host"], &talkers[0]["other"]),
        (&"192.0.2.1".into(), &"198.51.100.40".into())
    );
    let scans = rows(&kept.store, &["scans"]);
    assert_eq!(scans.len(), 1);
    assert_eq!(
        (&scans[0]["host"], number(&scans[0], "hosts")),
        (&"192.0.2.1".into(), 40)
    );
    let compared = rows(&kept.store, &["compare", "yesterday", "-n", "100"]);
    let yesterday = compared
        .iter()
        .find(|row| row["host"] == "192.0.2.9")
        .expect("a row");
    assert_eq!(yesterday["difference"], -5000);
    let ports = rows(&kept.store, &["top", "ports"]);
    assert_eq!(
        (&ports[0]["protocol"], number(&ports[0], "port")),
        (&"tcp".into(), 443)
    );
    for question in [
        &["top", "apps"][..],
        &["top", "names"],
        &["top", "exporters"],
    ] {
        rows(&kept.store, question);
    }
}

#[test]
fn each_form_has_the_answer() {
    let kept = some();
    let sql = "SELECT src, bytes FROM flows WHERE src = ip('192.0.2.7')";
    let text = |format: &str| {
        let output = ask(&kept.store, &["--format", format, sql]);
        assert!(output.status.success());
        output.stdout
    };
    assert_eq!(text("csv"), b"src,bytes\n192.0.2.7,9000\n");
    assert_eq!(text("json"), b"{\"src\":\"192.0.2.7\",\"bytes\":9000}\n");
    let table = String::from_utf8(text("table")).expect("text");
    assert!(table.contains("| 192.0.2.7 | 9000  |"), "{table}");
    let arrow = text("arrow");
    let reader = arrow::ipc::reader::StreamReader::try_new(&arrow[..], None).expect("a stream");
    let found: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(found, 1);
    let none = ask(
        &kept.store,
        &["--format", "csv", "SELECT src FROM flows WHERE false"],
    );
    assert_eq!(none.stdout, b"src\n");
}

#[test]
fn nothing_is_changed_and_mistakes_are_told() {
    let kept = some();
    for (words, status) in [
        (&["DROP TABLE flows"][..], 2),
        (&["SELECT nothing FROM flows"], 2),
        (&["SELECT ( FROM flows"], 2),
        (&["top", "secret"], 2),
    ] {
        let output = ask(&kept.store, words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.starts_with("ringtap query: "), "{errors}");
    }
    let place = tempfile::tempdir().expect("a folder");
    let target = place.path().join("x.parquet");
    for sql in [
        "WITH a AS (SELECT 1) INSERT INTO flows SELECT * FROM flows".to_owned(),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'", target.display()),
    ] {
        let output = ask(&kept.store, &[&sql]);
        assert!(!output.status.success(), "{sql}");
    }
    assert!(!target.exists());
    let none = ask(place.path(), &["SELECT 1"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no store"));
}

#[test]
fn limits_end_a_query() {
    let kept = some();
    let slow = "SELECT count(*) FROM generate_series(1, 10000000000000) WHERE value % 7 = 9";
    let output = ask(&kept.store, &["--timeout", "1s", slow]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("--timeout"), "{errors}");
    // Folders that a reader holds are not merged; the lock is free again at the end.
    let lock = File::open(kept.store.join(READERS_LOCK)).expect("the lock");
    assert!(ringtap_sys::disk::try_lock(&lock, true).expect("locked"));
}

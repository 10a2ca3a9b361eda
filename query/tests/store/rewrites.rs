//! Questions that the plan's rewrites change have the answers that JSON has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::kept::{Kept, ask, number, rows, some};

fn plan(kept: &Kept, sql: &str) -> String {
    let output = ask(&kept.store, &["--explain", "--format", "json", sql]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

#[test]
fn groups_of_addresses() {
    let kept = some();
    let mut expected: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for record in &kept.json {
        let pair = (
            text(record, "src").to_owned(),
            text(record, "dst").to_owned(),
        );
        let sums = expected.entry(pair).or_default();
        sums.0 += 1;
        sums.1 += number(record, "bytes");
    }
    let sql = "SELECT src, dst, count(*) AS n, sum(bytes) AS b FROM flows GROUP BY src, dst";
    let found = rows(&kept.store, &[sql]).into_iter().map(|row| {
        let pair = (text(&row, "src").to_owned(), text(&row, "dst").to_owned());
        (pair, (number(&row, "n"), number(&row, "b")))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert!(
        plan(&kept, sql).contains("address_key"),
        "{}",
        plan(&kept, sql)
    );
    // Groups that are sorted, counted, named, chosen afterwards, or have no rows.
    let sources: BTreeSet<&str> = kept.json.iter().map(|record| text(record, "src")).collect();
    let distinct = rows(
        &kept.store,
        &["SELECT DISTINCT src FROM flows ORDER BY src"],
    );
    assert_eq!(distinct.len(), sources.len());
    assert!(
        distinct
            .iter()
            .all(|row| sources.contains(text(row, "src")))
    );
    for (sql, expected) in [
        (
            "SELECT count(DISTINCT src) AS n FROM flows",
            sources.len() as u64,
        ),
        (
            "SELECT count(DISTINCT dst) + count(DISTINCT dst_port) AS n FROM flows WHERE src = ip('192.0.2.1')",
            41,
        ),
        (
            "SELECT n FROM (SELECT src AS host, count(*) AS n FROM flows GROUP BY 1) WHERE host = ip('192.0.2.1')",
            40,
        ),
        (
            "SELECT count(*) AS n FROM flows WHERE src IN (SELECT src FROM flows GROUP BY src HAVING count(*) > 1)",
            80,
        ),
        (
            "SELECT count(*) AS n FROM (SELECT src FROM flows WHERE false GROUP BY src)",
            0,
        ),
        (
            "SELECT max(n) AS n FROM (SELECT exporter_address, src, count(*) AS n FROM flows GROUP BY 1, 2)",
            40,
        ),
    ] {
        assert_eq!(
            number(&rows(&kept.store, &[sql])[0], "n"),
            expected,
            "{sql}"
        );
    }
}

#[test]
fn alternatives_of_addresses() {
    let kept = some();
    for (condition, is_split) in [
        ("src = ip('192.0.2.1') OR dst = ip('198.51.100.1')", true),
        ("dst = ip('198.51.100.2') OR ip('198.51.100.2') = src", true),
        (
            "(src = ip('192.0.2.7') OR dst = ip('198.51.100.1') OR src = ip('192.0.2.9')) AND bytes > 200",
            true,
        ),
        (
            "src IN (ip('192.0.2.7'), ip('192.0.2.9')) OR dst IN (ip('198.51.100.3'))",
            true,
        ),
        (
            "src = ip('192.0.2.1') OR exporter_address = ip('192.0.2.1')",
            true,
        ),
        ("src = ip('192.0.2.1') OR bytes > 8000", false),
        ("src = dst OR dst = ip('198.51.100.1')", false),
        ("src = ip('192.0.2.1') OR src = ip('192.0.2.7')", false),
    ] {
        let sql = format!("SELECT count(*) AS n, sum(bytes) AS b FROM flows WHERE {condition}");
        // A function that the rewrite does not know keeps the condition as it is.
        let plain = condition.replace("src", "coalesce(src, src)");
        let plain = format!("SELECT count(*) AS n, sum(bytes) AS b FROM flows WHERE {plain}");
        let found = rows(&kept.store, &[&sql]);
        assert_eq!(found, rows(&kept.store, &[&plain]), "{condition}");
        assert!(number(&found[0], "n") > 0, "{condition}");
        assert_eq!(plan(&kept, &sql).contains("Union"), is_split, "{condition}");
        assert!(!plan(&kept, &plain).contains("Union"), "{condition}");
    }
}

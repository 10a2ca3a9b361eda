//! How late packets are delivered, by time-out and in immediate mode, against tcpdump: measured by
//! the example `delay` of the capture crate, which stamps each packet when it is sent.

use std::process::Command;

use ringtap_testkit::Need;

use super::Session;
use super::sample::Sample;
use crate::process;

const PACKETS: &str = "1000";
const QUICK_PACKETS: &str = "100";
/// The example's columns after the name, in microseconds.
const COLUMNS: [&str; 5] = ["least", "median", "99 of 100", "999 of 1000", "most"];

/// A way to capture and its columns.
type Row = (String, [Sample; COLUMNS.len()]);

pub(super) fn run(session: &mut Session) -> Result<(), String> {
    if let Some(reason) = Need::Root.unmet() {
        return Err(reason);
    }
    let repository = ringtap_testkit::repository();
    let mut build = process::cargo(&repository);
    let example = [
        "--quiet",
        "--release",
        "--package",
        "ringtap-capture",
        "--example",
        "delay",
    ];
    process::check(build.arg("build").args(example))?;
    let program = process::release_program("examples/delay")?;
    let packets = if session.quick {
        QUICK_PACKETS
    } else {
        PACKETS
    };
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..session.pairs() {
        let output = Command::new(&program).arg(packets).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let read: Vec<_> = text.lines().filter_map(row).collect();
        if !output.status.success() || read.is_empty() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{}: {}: {text}{errors}",
                program.display(),
                output.status
            ));
        }
        for (name, values) in read {
            for (column, value) in COLUMNS.iter().zip(values) {
                session.append("delay in microseconds", round, &name, column, value)?;
            }
            add(&mut rows, name, values);
        }
    }
    print(&rows);
    Ok(())
}

/// A line of the example: a name of 28 characters at most, then the columns.
fn row(line: &str) -> Option<(String, [f64; COLUMNS.len()])> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let numbers = words.split_off(words.len().checked_sub(COLUMNS.len())?);
    let mut values = [0.0; COLUMNS.len()];
    for (value, number) in values.iter_mut().zip(numbers) {
        *value = number.parse().ok()?;
    }
    Some((words.join(" "), values))
}

fn add(rows: &mut Vec<Row>, name: String, values: [f64; COLUMNS.len()]) {
    let at = rows
        .iter()
        .position(|(known, _)| *known == name)
        .unwrap_or_else(|| {
            rows.push((name, Default::default()));
            rows.len() - 1
        });
    for (sample, value) in rows[at].1.iter_mut().zip(values) {
        sample.push(value);
    }
}

fn print(rows: &[Row]) {
    print!("\n  {:<26}", "delay in microseconds");
    for column in COLUMNS {
        print!(" {column:>24}");
    }
    println!();
    for (name, samples) in rows {
        print!("  {name:<26}");
        for sample in samples {
            let (median, least, most) = (sample.median(), sample.least(), sample.most());
            print!(" {:>24}", format!("{median:.0} ({least:.0}–{most:.0})"));
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::{add, row};

    #[test]
    fn lines_of_the_example_are_read() {
        let (name, values) = row("time-out 1 ms    12   500   1000   1050   1100").expect("a row");
        assert_eq!(name, "time-out 1 ms");
        assert!((values[2] - 1000.0).abs() < 1e-9);
        assert!(row("                min    median       p99     p99.9       max").is_none());
    }

    #[test]
    fn rounds_of_a_name_come_together() {
        let mut rows = Vec::new();
        add(&mut rows, "a".into(), [1.0, 2.0, 3.0, 4.0, 5.0]);
        add(&mut rows, "b".into(), [0.0; 5]);
        add(&mut rows, "a".into(), [3.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(rows.len(), 2);
        assert!((rows[0].1[0].median() - 2.0).abs() < 1e-9);
    }
}

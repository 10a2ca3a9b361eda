//! Files of records.

use std::process::Command;

use ringtap_testkit::process::Running;

use crate::capture::{LIMIT, RINGTAP, capture, number, probe};

/// CSV has the content of JSON.
pub(crate) fn text() {
    let capture = capture();
    let csv = capture.folder.path().join("records.csv");
    let name = csv.to_str().expect("a name");
    let probed = probe(&capture, &["--biflow", "--tcp", "-w", name]);
    let written = std::fs::read_to_string(&csv).expect("a file");
    let mut lines = written
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("names of columns");
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), probed.records.len());
    for (row, record) in rows.iter().zip(&probed.records) {
        assert_eq!(row.len(), names.len());
        let keys = record.as_object().expect("an object").len();
        assert_eq!(row.iter().filter(|value| !value.is_empty()).count(), keys);
        for (name, &value) in names.iter().zip(row) {
            let json = match &record[*name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(json, value, "{name}");
        }
    }
    let packets: u64 = probed
        .records
        .iter()
        .map(|r| number(r, "packets") + number(r, "reverse_packets"))
        .sum();
    assert_eq!(packets, number(&probed.stats, "metered"));
}

/// No room: an error that names the file, and exit status 1.
pub(crate) fn full() {
    let capture = capture();
    let link = capture.folder.path().join("full.csv");
    std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
    let mut command = Command::new(RINGTAP);
    command
        .args(["flow", "--top", "0", "-r"])
        .arg(&capture.path)
        .arg("-w")
        .arg(&link);
    let output = Running::start_piped(&mut command).expect("ringtap starts");
    let output = output.wait(LIMIT).expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("full.csv: No space left on device"), "{text}");
}

/// Invalid values are rejected before anything is read.
pub(crate) fn usage() {
    let capture = capture();
    let cases: [&[&str]; 16] = [
        &["--nano", "--version", "5"],
        &["--enterprise", "54321", "--version", "9"],
        &["--enterprise", "35632"],
        &["--enterprise", "none"],
        &["--nano", "--version", "9", "-w", "records.csv"],
        &["--export", "127.0.0.1:2055"],
        &["--export", "tcp:127.0.0.1:2055", "--version", "9"],
        &[
            "--export",
            "udp:127.0.0.1:2055",
            "--version",
            "5",
            "--sample",
            "16384",
        ],
        &[
            "--export",
            "udp:127.0.0.1:2055",
            "--version",
            "5",
            "--domain",
            "256",
        ],
        &["--export", "udp:127.0.0.1:2055", "--mtu", "500"],
        &["--version", "8"],
        &["-w", "records.xml"],
        &["--spool", "spool", "--export", "udp:127.0.0.1:2055"],
        &["--kafka-value", "xml", "--export", "udp:127.0.0.1:2055"],
        &["--collect", "udp:127.0.0.1:2055"],
        &["--template-messages", "0"],
    ];
    for arguments in cases {
        let mut command = Command::new(RINGTAP);
        command
            .args(["flow", "-r"])
            .arg(&capture.path)
            .args(arguments);
        let output = Running::start_piped(&mut command).expect("ringtap starts");
        let output = output.wait(LIMIT).expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}

/// Options for metering packets are rejected when records of others are collected.
pub(crate) fn collecting() {
    let cases: [&[&str]; 6] = [
        &["--biflow"],
        &["--active", "60"],
        &["--threads", "2"],
        &["--sample", "10"],
        &["--buffer", "1M"],
        &["udp port 53"],
    ];
    for arguments in cases {
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "--collect", "udp:127.0.0.1:0"]);
        command.args(arguments);
        let output = Running::start_piped(&mut command).expect("ringtap starts");
        let output = output.wait(LIMIT).expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("--collect"), "{arguments:?}: {text}");
        let option = arguments[0];
        assert!(!option.starts_with('-') || text.contains(option), "{text}");
    }
}

/// If one file cannot be written, no other is created or emptied.
pub(crate) fn all_or_none() {
    let capture = capture();
    let folder = capture.folder.path();
    let name = |name: &str| folder.join(name).to_str().expect("a name").to_owned();
    let (new, old) = (name("new.csv"), name("old.json"));
    std::fs::write(&old, "kept").expect("a file");
    let cases = [
        ("-w", name("records.xml"), 2, "must end in"),
        ("-w", name("no-folder/records.csv"), 1, "No such file"),
        ("-w", new.clone(), 2, "is written to already"),
        ("-w", name("./old.json"), 2, "is written to already"),
        ("-Z", "nobody-has-this-name".to_owned(), 2, "no such user"),
    ];
    for (option, last, status, told) in cases {
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "-r"]).arg(&capture.path);
        command.args(["-w", &new, "-w", &old, option, &last]);
        let output = Running::start_piped(&mut command).expect("ringtap starts");
        let output = output.wait(LIMIT).expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{last}: {text}");
        assert!(text.contains(told), "{last}: {text}");
        assert!(!std::fs::exists(&new).expect("a folder"), "{last}");
        assert_eq!(std::fs::read(&old).expect("a file"), b"kept", "{last}");
    }
    probe(&capture, &["-w", &new, "-w", &old]);
    let text = std::fs::read_to_string(&old).expect("a file");
    assert!(text.starts_with('{'), "{text}");
}

/// Parquet has the content of JSON.
#[cfg(feature = "parquet")]
pub(crate) fn parquet() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    let capture = capture();
    let file = capture.folder.path().join("records.parquet");
    let name = file.to_str().expect("a name");
    let probed = probe(&capture, &["--biflow", "--tcp", "-w", name]);
    let file = std::fs::File::open(&file).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows");
    let rows: Vec<_> = rows.map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), probed.records.len());
    for (row, record) in rows.iter().zip(&probed.records) {
        let mut values = 0;
        for (name, field) in row.get_column_iter() {
            let json = &record[name];
            match field {
                Field::Null => assert!(json.is_null(), "{name}"),
                Field::ULong(number) => assert_eq!(json.as_u64(), Some(*number), "{name}"),
                Field::Str(text) => assert_eq!(json.as_str(), Some(text.as_str()), "{name}"),
                // Nanoseconds since 1970; the reader knows no unit so fine.
                Field::Long(nanos) | Field::TimestampMicros(nanos) => {
                    let time: jiff::Timestamp =
                        json.as_str().expect("a time").parse().expect("RFC 3339");
                    assert_eq!(time.as_nanosecond(), i128::from(*nanos), "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
            values += usize::from(!matches!(field, Field::Null));
        }
        assert_eq!(values, record.as_object().expect("an object").len());
    }
}

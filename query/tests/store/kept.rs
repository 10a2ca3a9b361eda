//! Stores for tests, and questions to them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_flow::FlowRecord;
use ringtap_flow::schema::Fields;
use ringtap_flow_io::{FileFormat, OutputOptions, Outputs, OwnFiles, Store, StoreOptions};
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

/// A store, and the same records as JSON.
pub(crate) struct Kept {
    _folder: tempfile::TempDir,
    pub(crate) store: PathBuf,
    pub(crate) json: Vec<Value>,
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

pub(crate) fn record(second: u64, source: &str, destination: &str, bytes: u64) -> FlowRecord {
    let mut record = FlowRecord::default();
    record.key.source = source.parse().expect("an address");
    record.key.destination = destination.parse().expect("an address");
    record.key.source_port = 40_000;
    record.key.destination_port = 443;
    record.key.protocol = 6;
    record.forward.packets = 2;
    record.forward.bytes = bytes;
    record.forward.first_ns = (second - 1) * SECOND;
    record.forward.last_ns = second * SECOND + 7;
    record
}

/// Writes the records of several runs, each with its fields.
pub(crate) fn keep(runs: &[(&str, Vec<FlowRecord>)]) -> Kept {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let mut json = Vec::new();
    for (fields, records) in runs {
        let fields = Fields::parse(fields).expect("fields");
        let options = StoreOptions::default()
            .exporter("p1".to_owned())
            .fields(fields)
            .wait(true);
        let opened = Store::open(&store, options, Box::new(OwnFiles::default()));
        let mut outputs = Outputs::new(OutputOptions::default().wait(true), &[]).expect("outputs");
        let path = folder.path().join("records.json");
        let file = File::create(&path);
        outputs.add_file(&path, FileFormat::Json, || file);
        outputs.set_store(opened.expect("a store"));
        outputs.begin().expect("begun");
        records
            .iter()
            .for_each(|record| outputs.record(record, None));
        outputs.finish().expect("written");
        let text = std::fs::read_to_string(&path).expect("JSON");
        json.extend(
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("an object")),
        );
    }
    Kept {
        _folder: folder,
        store,
        json,
    }
}

pub(crate) fn ask(store: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtap-query"));
    command
        .arg("--store")
        .arg(store.as_ref())
        .args(["--threads", "2"]);
    command.args(arguments).output().expect("it starts")
}

/// Returns the rows of an answer in JSON.
pub(crate) fn rows(store: impl AsRef<OsStr>, arguments: &[&str]) -> Vec<Value> {
    let output = ask(store, &[&["--format", "json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let object = |line| serde_json::from_str(line).expect("an object");
    text.lines().map(object).collect()
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

pub(crate) fn some() -> Kept {
    let now = now();
    let mut records = Vec::new();
    for host in 1..=40_u64 {
        let destination = format!("198.51.100.{host}");
        let mut record = record(now - 60, "192.0.2.1", &destination, 100 * host);
        if host % 2 == 0 {
            let mut back = record.forward;
            back.bytes = 7;
            record.reverse = Some(back);
        }
        records.push(record);
        records.push(self::record(now - 120, "2001:db8::1", "2001:db8::2", 10));
    }
    // A day before, and long ago.
    records.push(record(now - 86_400 - 60, "192.0.2.9", "198.51.100.1", 5000));
    records.push(record(now - 10 * 86_400, "192.0.2.7", "198.51.100.1", 9000));
    let half = records.split_off(records.len() / 2);
    // The files of the first run lack columns that those of the second have.
    keep(&[("basic", records), ("all", half)])
}

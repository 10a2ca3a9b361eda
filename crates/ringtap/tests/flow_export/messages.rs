//! Messages of Protocol Buffers, read by its own compiler and by ClickHouse's engine.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringtap_testkit::need::python;
use serde_json::Value;

use crate::capture::{Capture, Probed, capture, number, probe};

const SCHEMA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../contrib/ringtap-flow.proto"
);

/// Writes all fields of all records, as JSON and as messages.
fn write(capture: &Capture) -> (PathBuf, Probed) {
    let path = capture.folder.path().join("records.pb");
    let name = path.to_str().expect("a name");
    let arguments = [
        "--biflow",
        "--fields",
        "all",
        "--store-name",
        "p1",
        "-w",
        name,
    ];
    let probed = probe(capture, &arguments);
    assert!(probed.records.len() > 300);
    (path, probed)
}

/// Returns the length at the start of the bytes, and the rest.
fn length(bytes: &[u8]) -> (usize, &[u8]) {
    let len = bytes.iter().position(|byte| *byte < 0x80).expect("an end") + 1;
    let groups = bytes[..len].iter().rev();
    let length = groups.fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
    (length, &bytes[len..])
}

/// Has the compiler of Protocol Buffers print all messages, as one that contains them.
fn decoded(folder: &Path, messages: &[u8]) -> String {
    let whole = "syntax = \"proto3\";\nimport \"ringtap-flow.proto\";\n\
                 message Flows { repeated ringtap.Flow flow = 1; }\n";
    std::fs::write(folder.join("flows.proto"), whole).expect("written");
    let mut bytes = Vec::new();
    let mut rest = messages;
    while !rest.is_empty() {
        let (len, behind) = length(rest);
        let head = rest.len() - behind.len();
        // Field 1, with a length, which the file has too.
        bytes.push(1 << 3 | 2);
        bytes.extend_from_slice(&rest[..head + len]);
        rest = &behind[len..];
    }
    let input = folder.join("flows.bin");
    std::fs::write(&input, bytes).expect("written");
    let schemas = Path::new(SCHEMA).parent().expect("a folder");
    let mut command = Command::new("protoc");
    command.arg("-I").arg(folder).arg("-I").arg(schemas);
    command.args(["--decode=Flows", "flows.proto"]);
    command
        .stdin(std::fs::File::open(input).expect("opened"))
        .stderr(Stdio::piped());
    let output = command.output().expect("protoc starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.is_empty(), "{text}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the fields of each message, with their printed values.
fn fields(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let messages = text.split("flow {\n").skip(1);
    messages
        .map(|message| {
            message
                .lines()
                .filter_map(|line| line.trim().split_once(": "))
                .collect()
        })
        .collect()
}

/// Undoes the escapes of printed bytes: `\"`, `\\`, `\n`, and three octal digits.
fn unescaped(text: &str) -> Vec<u8> {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .expect("quotes");
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().expect("an escape") {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                digit @ b'0'..=b'3' => {
                    let more = [rest.next(), rest.next()].map(|digit| digit.expect("a digit"));
                    [digit, more[0], more[1]]
                        .iter()
                        .fold(0, |sum, digit| sum << 3 | (digit - b'0'))
                }
                other => other,
            },
            byte => byte,
        });
    }
    bytes
}

/// The compiler finds in each message what JSON has, and no more.
pub(crate) fn compiler() {
    let capture = capture();
    let (path, probed) = write(&capture);
    let text = decoded(capture.folder.path(), &std::fs::read(path).expect("read"));
    let messages = fields(&text);
    assert_eq!(messages.len(), probed.records.len());
    let (mut numbers, mut texts, mut addresses) = (0, 0, 0);
    for (message, record) in messages.iter().zip(&probed.records) {
        assert_eq!(message["exporter"], "\"p1\"");
        let object = record.as_object().expect("an object");
        assert_eq!(message.len(), object.len() + 1, "{message:?} {record}");
        for (name, value) in object {
            let printed = message[name.as_str()];
            match value {
                Value::Number(number) => {
                    assert_eq!(printed, number.to_string(), "{name}");
                    numbers += 1;
                }
                Value::String(text) if printed.starts_with('"') => {
                    match text.parse::<std::net::IpAddr>() {
                        Ok(address) => {
                            let bytes: [u8; 16] = unescaped(printed).try_into().expect("16 bytes");
                            assert_eq!(Ipv6Addr::from(bytes).to_canonical(), address, "{name}");
                            addresses += 1;
                        }
                        Err(_) => {
                            assert_eq!(unescaped(printed), text.as_bytes(), "{name}");
                            texts += 1;
                        }
                    }
                }
                // A time, or a code of ICMP; JSON has its text.
                Value::String(_) => assert!(printed.parse::<i64>().is_ok(), "{name}: {printed}"),
                other => panic!("{name}: {other}"),
            }
        }
        let first: i64 = message["first"].parse().expect("a number");
        assert!(first <= message["last"].parse().expect("a number"));
    }
    assert!(
        numbers > 4000 && texts > 500 && addresses > 600,
        "{numbers} {texts} {addresses}"
    );
}

/// Prints what the engine finds in a file of messages.
const ASK: &str = "import sys, json, chdb\n\
    file, schema = sys.argv[1:]\n\
    q = \"SELECT count(), sum(bytes), sum(reverse_packets), any(exporter), uniq(src), min(length(src)) FROM \"\n\
    q += f\"file('{file}', 'Protobuf') SETTINGS format_schema = '{schema}:Flow'\"\n\
    print(str(chdb.query(q, 'JSONCompact')).replace('\\n', ' '))";

/// ClickHouse's engine reads a file of messages by the schema, with the sums of JSON.
pub(crate) fn engine() {
    let capture = capture();
    let (path, probed) = write(&capture);
    let mut asked = Command::new(python());
    let asked = asked
        .args(["-c", ASK])
        .arg(path)
        .arg(SCHEMA)
        .output()
        .expect("Python starts");
    let errors = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{errors}");
    let answer: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let row = &answer["data"][0];
    let count = |value: &Value| match value {
        Value::String(text) => text.parse::<u64>().expect("a number"),
        value => value.as_u64().expect("a number"),
    };
    let sum = |name: &str| {
        probed
            .records
            .iter()
            .map(|record| number(record, name))
            .sum::<u64>()
    };
    assert_eq!(count(&row[0]), probed.records.len() as u64);
    assert_eq!(count(&row[1]), sum("bytes"));
    assert_eq!(count(&row[2]), sum("reverse_packets"));
    assert_eq!(row[3], "p1");
    assert!(count(&row[4]) > 1);
    assert_eq!(count(&row[5]), 16);
}

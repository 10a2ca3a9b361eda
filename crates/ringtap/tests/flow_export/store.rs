//! Stores: what they keep, also when the program is killed, and who reads them.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use ringtap_testkit::need::python;
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{LIMIT, RINGTAP, capture, number, probe, text};
use crate::transport::listening;

const REST: Duration = Duration::from_millis(20);

/// Returns the data files of a store, as any program finds them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !name.starts_with('.') {
            found.push(path);
        }
    }
    found
}

/// Returns the records of a file, which must be whole.
fn rows(path: &Path) -> Vec<Row> {
    let file = std::fs::File::open(path).expect("a file");
    let reader = SerializedFileReader::new(file);
    let reader = reader.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Returns a value of a store in the form of JSON. Addresses have 16 bytes.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::Long(number) | Field::TimestampMicros(number) => (*number).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => {
            let bytes: [u8; 16] = bytes.data().try_into().expect("an address");
            let address = std::net::Ipv6Addr::from(bytes).to_canonical();
            address.to_string().into()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns a record of JSON in the same form.
fn expected(name: &str, json: &Value) -> Value {
    let Some(text) = json.as_str() else {
        return json.clone();
    };
    if matches!(name, "first" | "last" | "reverse_first" | "reverse_last") {
        let time: jiff::Timestamp = text.parse().expect("RFC 3339");
        return i64::try_from(time.as_nanosecond())
            .expect("in range")
            .into();
    }
    match text
        .strip_prefix("0x")
        .map(|digits| u32::from_str_radix(digits, 16))
    {
        Some(Ok(number)) => number.into(),
        _ => json.clone(),
    }
}

fn key(value: &dyn Fn(&str) -> Value) -> String {
    ["src", "dst", "src_port", "dst_port", "vlan", "first"]
        .map(|name| value(name).to_string())
        .concat()
}

/// Every value of a store is the one that JSON has.
pub(crate) fn same_as_json() {
    let capture = capture();
    let store = capture.folder.path().join("store");
    let name = store.to_str().expect("a name");
    let probed = probe(
        &capture,
        &[
            "--biflow",
            "--fields",
            "all",
            "--store",
            name,
            "--store-name",
            "p/1",
        ],
    );
    let found = files(&store);
    assert_eq!(found.len(), 1, "one hour: {found:?}");
    let leaf = found[0].parent().and_then(Path::file_name);
    assert_eq!(leaf.and_then(|name| name.to_str()), Some("exporter=p-1"));
    let report = &probed.stats["store"];
    assert_eq!(number(report, "records"), probed.records.len() as u64);
    let mut rows = rows(&found[0]);
    assert_eq!(rows.len(), probed.records.len());
    let of_row = |row: &Row, name: &str| {
        let column = row.get_column_iter().find(|(column, _)| *column == name);
        column.map_or(Value::Null, |(_, field)| value(field))
    };
    rows.sort_by_key(|row| key(&|name| of_row(row, name)));
    let mut records = probed.records;
    records.sort_by_key(|record| key(&|name| expected(name, &record[name])));
    for (row, record) in rows.iter().zip(&records) {
        for (name, field) in row.get_column_iter() {
            assert_eq!(value(field), expected(name, &record[name]), "{name}");
        }
    }
}

/// DuckDB reads a store by the SQL that ringtap prints, and finds the sums of JSON.
pub(crate) fn duckdb() {
    let capture = capture();
    let store = capture.folder.path().join("store");
    let name = store.to_str().expect("a name");
    let probed = probe(&capture, &["--biflow", "--store", name]);
    let mut schema = Command::new(RINGTAP);
    let schema = schema.args(["flow", "schema", "duckdb", "--store", name]);
    let schema = schema.output().expect("ringtap starts");
    assert!(schema.status.success());
    let ask = "import sys, duckdb, json\n\
        c = duckdb.connect()\n\
        c.execute(sys.argv[1])\n\
        q = \"SELECT count(*), sum(bytes)::BIGINT, sum(packets)::BIGINT, count(reverse_bytes) FROM flows\"\n\
        h = \"SELECT ip_text(src), sum(bytes)::BIGINT FROM flows GROUP BY 1 ORDER BY 1\"\n\
        i = \"SELECT count(*) FROM flows WHERE src = ip('192.0.2.1')\"\n\
        b = \"SELECT count(*) FROM (SELECT time_bucket(INTERVAL '1 minute', first) FROM flows GROUP BY 1)\"\n\
        print(json.dumps([c.sql(x).fetchall() for x in (q, h, i, b)]))";
    let mut asked = Command::new(python());
    asked
        .args(["-c", ask])
        .arg(String::from_utf8_lossy(&schema.stdout).as_ref());
    let asked = asked.output().expect("Python starts");
    assert!(
        asked.status.success(),
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let answers: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let records = &probed.records;
    let sum = |name: &str| {
        records
            .iter()
            .map(|record| number(record, name))
            .sum::<u64>()
    };
    let both = records
        .iter()
        .filter(|record| record.get("reverse_bytes").is_some())
        .count();
    let sums = serde_json::json!([[records.len(), sum("bytes"), sum("packets"), both]]);
    assert_eq!(answers[0], sums);
    let of = |record: &&Value, address: &str| text(record, "src") == address;
    let hosts = answers[1].as_array().expect("rows");
    assert!(hosts.len() > 1, "of both versions of IP");
    for host in hosts {
        let address = host[0].as_str().expect("an address");
        let address: std::net::IpAddr = address.parse().expect("an address");
        let own = records
            .iter()
            .filter(|record| of(record, &address.to_string()));
        let bytes: u64 = own.map(|record| number(record, "bytes")).sum();
        assert_eq!(host[1].as_u64(), Some(bytes), "{address}");
    }
    let own = records
        .iter()
        .filter(|record| of(record, "192.0.2.1"))
        .count();
    assert_eq!(answers[2][0][0].as_u64(), Some(own as u64));
}

/// Returns a datagram of NetFlow v5 with one record, whose bytes are `number`.
fn datagram(number: u32) -> Vec<u8> {
    let now = jiff::Timestamp::now().as_second();
    let mut bytes = Vec::new();
    bytes.extend([0, 5, 0, 1]);
    bytes.extend(100_000_u32.to_be_bytes());
    bytes.extend(u32::try_from(now).expect("before 2106").to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(number.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([192, 0, 2, 1, 198, 51, 100, 2, 0, 0, 0, 0, 0, 1, 0, 2]);
    bytes.extend(1_u32.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend(90_000_u32.to_be_bytes());
    bytes.extend(99_000_u32.to_be_bytes());
    bytes.extend([0, 80, 1, 187, 0, 0, 6, 0]);
    bytes.extend([0; 8]);
    bytes
}

fn collector(store: &Path, notices: &Path, interval: &str) -> (Running, UdpSocket) {
    logging_collector(store, notices, interval, false)
}

fn logging_collector(
    store: &Path,
    notices: &Path,
    interval: &str,
    has_log: bool,
) -> (Running, UdpSocket) {
    let mut command = Command::new(RINGTAP);
    command.args([
        "flow",
        "--collect",
        "udp:127.0.0.1:0",
        "--top",
        "0",
        "--json-stats",
    ]);
    command
        .args(["--store-interval", interval, "--store"])
        .arg(store);
    command.args(has_log.then_some("--store-wal"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(notices).expect("a file"));
    let running = Running::start(&mut command).expect("ringtap starts");
    let address = listening(notices);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = address.strip_prefix("udp:").expect("UDP");
    socket.connect(address).expect("loopback");
    (running, socket)
}

fn stored(store: &Path) -> Vec<u64> {
    let rows = files(store).into_iter().flat_map(|file| rows(&file));
    let bytes = rows.map(|row| {
        let column = row.get_column_iter().find(|(name, _)| *name == "bytes");
        value(column.expect("a column").1)
            .as_u64()
            .expect("a number")
    });
    let mut bytes: Vec<u64> = bytes.collect();
    bytes.sort_unstable();
    bytes
}

/// A program that is killed loses what came since the last interval, and nothing else; the next one goes on.
pub(crate) fn killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let notices = folder.path().join("notices");
    let (running, socket) = collector(&store, &notices, "200ms");
    (1..=20).for_each(|number| {
        socket.send(&datagram(number)).expect("sent");
    });
    let deadline = Instant::now() + LIMIT;
    while stored(&store).len() < 20 {
        assert!(Instant::now() < deadline, "{:?}", stored(&store));
        sleep(REST);
    }
    running.signal("KILL").expect("it runs");
    let _ = running.wait(LIMIT).expect("it ends");
    assert_eq!(stored(&store), (1..=20).collect::<Vec<u64>>());
    // The interval is so long that nothing is written before the end.
    let (running, socket) = collector(&store, &notices, "1h");
    (21..=30).for_each(|number| {
        socket.send(&datagram(number)).expect("sent");
    });
    running.signal("KILL").expect("it runs");
    let _ = running.wait(LIMIT).expect("it ends");
    assert_eq!(stored(&store), (1..=20).collect::<Vec<u64>>());
    let (running, socket) = collector(&store, &notices, "1h");
    (31..=40).for_each(|number| {
        socket.send(&datagram(number)).expect("sent");
    });
    running.signal("INT").expect("it runs");
    let output = running.wait(LIMIT).expect("it ends");
    let text = std::fs::read_to_string(&notices).expect("a file");
    assert!(output.status.success(), "{text}");
    let stats: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert_eq!(number(&stats["store"], "records"), 10, "{text}");
    assert_eq!(
        stored(&store),
        (1..=20).chain(31..=40).collect::<Vec<u64>>()
    );
}

/// With a log, a program that is killed loses nothing: the next one stores what the log has, each record once.
pub(crate) fn killed_with_a_log() {
    const RECORDS: u32 = 200;
    /// The bytes of a frame before its records.
    const HEAD: u64 = 12;
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let notices = folder.path().join("notices");
    let size = || {
        let logs = (0..4).map(|number| store.join(format!(".log-{number}")));
        logs.map(|log| std::fs::metadata(log).map_or(0, |log| log.len()))
            .sum::<u64>()
    };
    let await_size = |least: u64| {
        let deadline = Instant::now() + LIMIT;
        while size() < least {
            assert!(Instant::now() < deadline, "{} of {least} bytes", size());
            sleep(REST);
        }
        size()
    };
    let mut expected = Vec::new();
    for run in 0..3 {
        // Nothing is written to the store before the end.
        let (running, socket) = logging_collector(&store, &notices, "1h", true);
        let mut send = |number: u32| {
            socket.send(&datagram(number)).expect("sent");
            expected.push(u64::from(number));
        };
        let first = run * RECORDS + 1;
        send(first);
        let one = await_size(1);
        send(first + 1);
        let two = await_size(one + 1);
        (first + 2..first + RECORDS).for_each(send);
        // A frame may have several records.
        await_size(one + u64::from(RECORDS - 1) * (two - one - HEAD));
        running.signal("KILL").expect("it runs");
        let _ = running.wait(LIMIT).expect("it ends");
    }
    let before: Vec<u64> = (1..=2 * u64::from(RECORDS)).collect();
    assert_eq!(stored(&store), before, "the last run has only its log");
    let (running, _socket) = collector(&store, &notices, "1h");
    running.signal("INT").expect("it runs");
    assert!(running.wait(LIMIT).expect("it ends").status.success());
    let text = std::fs::read_to_string(&notices).expect("a file");
    let stats: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let recovered = number(&stats["store"], "recovered");
    assert_eq!(recovered, u64::from(RECORDS), "{text}");
    assert_eq!(stored(&store), expected);
    assert_eq!(size(), 0);
}

/// Wrong options are refused before a store is made, and a second program before it changes anything.
pub(crate) fn refused() {
    let capture = capture();
    let store = capture.folder.path().join("store");
    let name = store.to_str().expect("a name");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(RINGTAP);
        command.args(["flow", "--top", "0"]).args(arguments);
        let running = Running::start_piped(&mut command).expect("ringtap starts");
        let output = running.wait(LIMIT).expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let path = capture.path.to_str().expect("a name");
    for (arguments, status) in [
        (&["-r", path, "--store", name, "--retain", "1M"][..], 2),
        (&["-r", path, "--store", name, "--retain", "soon"], 2),
        (&["-r", path, "--retain", "30d"], 2),
        (&["-r", path, "--store-wal"], 2),
        (
            &[
                "-r",
                path,
                "--store",
                name,
                "--store-wal",
                "--retain",
                "64M",
            ],
            2,
        ),
        (&["-r", "/nowhere.pcap", "--store", name], 1),
        (&["-i", "nosuchdevice0", "--store", name], 1),
    ] {
        let (code, text) = run(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {text}");
    }
    assert!(!store.join("date=2023-11-14").exists());
    let notices = capture.folder.path().join("notices");
    let (running, _socket) = collector(&store, &notices, "1h");
    let (code, text) = run(&["-r", path, "--store", name]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("another ringtap writes"), "{text}");
    running.signal("INT").expect("it runs");
    assert!(running.wait(LIMIT).expect("it ends").status.success());
}

/// A program without privileges keeps and merges records: through its helper process, and without one in its sandbox.
pub(crate) fn other_user() {
    for user in [None, Some("nobody")] {
        let capture = capture();
        let folder = capture.folder.path();
        let store = folder.join("store");
        std::fs::create_dir(&store).expect("a folder");
        if let Some(user) = user {
            let owned = Command::new("chown").arg(user).arg(&store).status();
            assert!(owned.expect("chown starts").success());
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder, all).expect("a folder");
        }
        for run in 1..=2 {
            let mut command = Command::new(RINGTAP);
            command.args(["flow", "--top", "0", "--json-stats", "-r"]);
            command.arg(&capture.path).arg("--store").arg(&store);
            command.args((run == 2).then_some("--store-wal"));
            command.args(user.iter().flat_map(|user| ["-Z", user]));
            let running = Running::start_piped(&mut command).expect("ringtap starts");
            let output = running.wait(LIMIT).expect("it ends");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}");
            let stats = text.lines().last().expect("a line");
            let stats: Value = serde_json::from_str(stats).expect("JSON");
            let merged = if run == 2 { 2 } else { 0 };
            assert_eq!(number(&stats["store"], "not_merged"), 0, "{text}");
            assert_eq!(number(&stats["store"], "merged_files"), merged, "{text}");
        }
        assert_eq!(files(&store).len(), 1, "{user:?}");
    }
}

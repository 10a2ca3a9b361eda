//! Records that are inserted into ClickHouse: a server of the test with faults, and the real engine (chDB) for the meaning of
//! statements and bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ringtap_testkit::need::python;
use ringtap_testkit::process::Running;
use serde_json::Value;

use crate::capture::{Capture, LIMIT, Probed, RINGTAP, capture, free_port, number, probe};

/// The answer of a server to an insert.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    Taken,
    /// The batch is taken, and the connection breaks before the answer.
    TakenSilently,
    /// An error that passes: too many queries.
    Busy,
    /// An error that stays: no such table.
    NoTable,
    /// An old server, without tokens.
    NoTokens,
    /// No answer comes while the client waits.
    Nothing,
}

/// An insert that the server took.
#[derive(Clone, Debug, PartialEq)]
struct Insert {
    query: String,
    token: Option<String>,
    body: Vec<u8>,
}

/// Runs a server that gives these answers in turn, and then takes everything. It returns its port and what it got.
fn serve(replies: &'static [Reply]) -> (u16, Receiver<(Insert, Reply)>) {
    let (inserts, port) = serve_at(0, replies);
    (port, inserts)
}

/// Does the same at a port; 0 is any.
fn serve_at(port: u16, replies: &'static [Reply]) -> (Receiver<(Insert, Reply)>, u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let (got, inserts) = channel();
    std::thread::spawn(move || {
        let mut replies = replies.iter();
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            while let Some(insert) = read(&mut reader) {
                let reply = replies.next().copied().unwrap_or(Reply::Taken);
                if got.send((insert, reply)).is_err() || !answer(reader.get_mut(), reply) {
                    break;
                }
            }
        }
    });
    (inserts, port)
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Insert> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .ok()
        .filter(|length| *length > 0)?;
    let target = line.split(' ').nth(1).expect("a target").to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let value = |name: &str| {
        let pairs = target
            .split_once('?')
            .map_or("", |(_, pairs)| pairs)
            .split('&');
        let mut values = pairs.filter_map(|pair| pair.split_once('='));
        values
            .find(|(key, _)| *key == name)
            .map(|(_, value)| decoded(value))
    };
    Some(Insert {
        query: value("query").expect("a query"),
        token: value("insert_deduplication_token"),
        body,
    })
}

/// Undoes the encoding of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).expect("two digits")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("text")
}

/// Returns false if the connection is to be closed.
fn answer(stream: &mut TcpStream, reply: Reply) -> bool {
    let error = |status: &str, code: u32, text: &str| {
        format!(
            "HTTP/1.1 {status}\r\nX-ClickHouse-Exception-Code: {code}\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    };
    let text = match reply {
        Reply::Taken => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Reply::TakenSilently => return false,
        Reply::Nothing => {
            // The client goes away.
            let _ = stream.read(&mut [0]);
            return false;
        }
        Reply::Busy => error(
            "500 Internal Server Error",
            202,
            "Code: 202. Too many simultaneous queries",
        ),
        Reply::NoTable => error(
            "404 Not Found",
            60,
            "Code: 60. Table net.flows does not exist",
        ),
        Reply::NoTokens => error(
            "500 Internal Server Error",
            115,
            "Code: 115. Unknown setting",
        ),
    };
    stream.write_all(text.as_bytes()).is_ok()
}

fn export(port: u16) -> String {
    format!("clickhouse:http://127.0.0.1:{port}/net.flows")
}

/// A batch is sent again with its token until the server answers, so the server has it once.
pub(crate) fn faults() {
    let (port, inserts) = serve(&[Reply::Busy, Reply::TakenSilently, Reply::Busy]);
    let capture = capture();
    let probed = probe(&capture, &["--export", &export(port), "--store-name", "p1"]);
    let records = probed.records.len() as u64;
    let report = &probed.stats["exports"][0];
    assert_eq!(number(report, "flows"), records, "{}", probed.notices);
    assert_eq!(number(report, "lost_flows"), 0);
    let got: Vec<_> = inserts.try_iter().collect();
    assert_eq!(got.len(), 4);
    let mut table = BTreeMap::new();
    for (insert, reply) in &got {
        let token = insert.token.clone().expect("a token");
        if matches!(reply, Reply::Taken | Reply::TakenSilently) {
            table.insert(token, insert.body.clone());
        }
    }
    assert_eq!(table.len(), 1, "one token: the server keeps one of them");
    assert!(got.iter().all(|(insert, _)| *insert == got[0].0));
    assert!(
        got[0]
            .0
            .query
            .starts_with("INSERT INTO net.flows (exporter, first, last, src, ")
    );
    // Another run has other tokens: a server that took its batch for this one would lose records.
    let again = serve(&[]);
    probe(
        &capture,
        &["--export", &export(again.0), "--store-name", "p1"],
    );
    let (insert, _) = again.1.try_recv().expect("an insert");
    assert_ne!(insert.token, got[0].0.token);
    assert_eq!(insert.body, got[0].0.body);
}

/// Records that the server refuses, or is not there to take, are lost and counted.
pub(crate) fn losses() {
    let capture = capture();
    let (port, inserts) = serve(&[Reply::NoTable]);
    let probed = probe(&capture, &["--export", &export(port)]);
    let report = &probed.stats["exports"][0];
    let records = probed.records.len() as u64;
    assert_eq!(number(report, "lost_flows"), records);
    assert_eq!(number(report, "flows"), 0);
    assert_eq!(inserts.try_iter().count(), 1, "it is not sent again");
    assert!(
        probed.notices.contains("Table net.flows does not exist"),
        "{}",
        probed.notices
    );
    let probed = probe(&capture, &["--export", &export(free_port())]);
    assert_eq!(number(&probed.stats["exports"][0], "lost_flows"), records);
    let (port, inserts) = serve(&[Reply::NoTokens]);
    let probed = probe(&capture, &["--export", &export(port)]);
    assert_eq!(number(&probed.stats["exports"][0], "flows"), records);
    assert!(
        probed.notices.contains("may be there twice"),
        "{}",
        probed.notices
    );
    let tokens: Vec<_> = inserts
        .try_iter()
        .map(|(insert, _)| insert.token.is_some())
        .collect();
    assert_eq!(tokens, [true, false]);
}

/// Batches that the server did not take wait on the disk, over a kill too, and are sent by the next run, each with the
/// token that it had.
pub(crate) fn spool() {
    let capture = capture();
    let folder = capture.folder.path().join("spool");
    let (closed, spool) = (free_port(), folder.to_str().expect("a name"));
    let to = export(closed);
    let arguments = ["--export", &to, "--spool", spool, "--store-name", "p1"];
    let probed = probe(&capture, &arguments);
    let records = probed.records.len() as u64;
    assert_counts(&probed, [0, 0, records, 0]);

    let file = std::fs::read_dir(&folder).expect("a folder").next();
    let file = file.expect("a file").expect("a file").path();
    let size = || std::fs::metadata(&file).expect("a file").len();
    kill_when(&capture, &arguments, size, 2 * size() - 4096);

    let (inserts, _) = serve_at(closed, &[Reply::TakenSilently]);
    let probed = probe(&capture, &arguments);
    assert_counts(&probed, [3 * records, 0, 0, 2 * records]);
    let got: Vec<_> = inserts.try_iter().map(|(insert, _)| insert).collect();
    let tokens: Vec<_> = got.iter().map(|insert| insert.token.clone()).collect();
    assert_eq!(got.len(), 4, "the first was sent again");
    assert_eq!(tokens[0], tokens[1]);
    let others = tokens[1..].iter().flatten().collect::<BTreeSet<_>>();
    assert_eq!(others.len(), 3, "{tokens:?}");
    assert!(got.iter().all(|insert| insert.body == got[0].body));
    assert_eq!(size(), 4096, "nothing waits");

    // Refused batches wait until the table is there.
    let (port, inserts) = serve(&[Reply::NoTable, Reply::NoTable]);
    let to = export(port);
    let probed = probe(&capture, &["--export", &to, "--spool", spool]);
    assert_counts(&probed, [records, 0, 0, 0]);
    assert_eq!(inserts.try_iter().count(), 3);

    let small = [&arguments[..], &["--spool-size", "1k"]].concat();
    let probed = probe(&capture, &small);
    assert_counts(&probed, [0, records, 0, 0]);
    let notices = probed.notices;
    assert!(
        notices.contains("the spool has its largest size"),
        "{notices}"
    );
}

/// A server that has a batch of an earlier run, and gives no answer, does not hold up the end of the run.
pub(crate) fn no_answer() {
    let capture = capture();
    let folder = capture.folder.path().join("spool");
    let (port, spool) = (free_port(), folder.to_str().expect("a name"));
    let to = export(port);
    let arguments = ["--export", &to, "--spool", spool, "--store-name", "p1"];
    let probed = probe(&capture, &arguments);
    let records = probed.records.len() as u64;
    assert_counts(&probed, [0, 0, records, 0]);

    let (inserts, _) = serve_at(port, &[Reply::Nothing]);
    let mut command = Command::new(RINGTAP);
    command
        .args(["flow", "--top", "0", "-r", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("ringtap starts");
    let mut input = child.stdin.take().expect("a pipe");
    let running = Running::watch(child);
    let packets = std::fs::read(&capture.path).expect("a capture");
    input.write_all(&packets).expect("written");
    // The run ends when the server has the batch.
    let (first, _) = inserts.recv_timeout(LIMIT).expect("an insert");
    drop(input);
    let output = running.wait(LIMIT / 2).expect("it ends");
    assert!(output.status.success(), "{output:?}");

    let probed = probe(&capture, &arguments);
    assert_counts(&probed, [3 * records, 0, 0, 2 * records]);
    let (again, _) = inserts.recv_timeout(LIMIT).expect("an insert");
    assert_eq!(again, first, "the server knows its token");
}

/// Starts a run, and kills it when the file has this size, while it waits for the server.
fn kill_when(capture: &Capture, arguments: &[&str], size: impl Fn() -> u64, enough: u64) {
    let mut killed = Command::new(RINGTAP);
    killed
        .args(["flow", "--top", "0", "-r"])
        .arg(&capture.path)
        .args(arguments);
    let mut killed = killed
        .stderr(Stdio::null())
        .spawn()
        .expect("ringtap starts");
    let deadline = Instant::now() + LIMIT;
    while size() < enough && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().and_then(|()| killed.wait()).expect("killed");
    assert_eq!(size(), enough);
}

/// Compares the counts of flows: sent, lost, waiting, and of earlier runs.
fn assert_counts(probed: &Probed, expected: [u64; 4]) {
    let report = &probed.stats["exports"][0];
    let names = ["flows", "lost_flows", "waiting_flows", "earlier_flows"];
    let counts = names.map(|name| number(report, name));
    assert_eq!(counts, expected, "{}", probed.notices);
}

/// Makes the tables, inserts the rows by the statement, and prints two answers.
const ASK: &str = "import sys, json\n\
    from chdb.session import Session\n\
    ddl, query, rows, place = sys.argv[1:]\n\
    s = Session(place)\n\
    s.query('CREATE DATABASE IF NOT EXISTS net'); s.query('USE net')\n\
    for part in ddl.split(';'):\n\
    \x20 if part.strip(): s.query(part)\n\
    kinds = dict(l.split('\\t')[:2] for l in str(s.query('DESCRIBE TABLE flows', 'TSVRaw')).splitlines())\n\
    names = query[query.index('(') + 1 : query.index(')')].split(', ')\n\
    form = ', '.join(n + ' ' + kinds[n] for n in names).replace(\"'\", \"''\")\n\
    insert = 'INSERT INTO flows (' + ', '.join(names) + ') SETTINGS insert_deduplication_token = \\'t1\\' '\n\
    s.query(insert + \"SELECT * FROM file('\" + rows + \"', 'RowBinary', '\" + form + \"')\")\n\
    q = 'SELECT count(), toInt64(sum(bytes)), toInt64(sum(reverse_packets)), uniq(src), any(exporter) FROM flows'\n\
    r = 'SELECT toInt64(sum(flows)), toInt64(sum(bytes)) FROM flows_by_minute'\n\
    print(json.dumps([json.loads(str(s.query(x, 'JSONCompact')))['data'] for x in (q, r)]))";

/// ClickHouse's engine takes the statements of `ringtap flow schema clickhouse` and the rows, and has the sums of JSON.
pub(crate) fn engine() {
    let (port, inserts) = serve(&[]);
    let capture = capture();
    let arguments = [
        "--biflow",
        "--fields",
        "all",
        "--store-name",
        "p1",
        "--export",
    ];
    let probed = probe(&capture, &[&arguments[..], &[&export(port)]].concat());
    let (insert, _) = inserts.try_recv().expect("an insert");
    let folder = capture.folder.path();
    std::fs::write(folder.join("rows.bin"), &insert.body).expect("written");
    let mut schema = Command::new(RINGTAP);
    let schema = schema
        .args(["flow", "schema", "clickhouse"])
        .output()
        .expect("ringtap starts");
    assert!(schema.status.success());
    let schema = String::from_utf8(schema.stdout).expect("text");
    let mut asked = Command::new(python());
    asked.args(["-c", ASK, &schema, &insert.query]);
    asked.arg(folder.join("rows.bin")).arg(folder.join("chdb"));
    let asked = asked.output().expect("Python starts");
    assert!(
        asked.status.success(),
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let text = String::from_utf8_lossy(&asked.stdout);
    let answers: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let records = &probed.records;
    let sum = |name: &str| {
        records
            .iter()
            .map(|record| number(record, name))
            .sum::<u64>()
    };
    let count = |value: &Value| match value {
        Value::String(text) => text.parse().expect("a number"),
        value => value.as_u64().expect("a number"),
    };
    let flows = &answers[0][0];
    assert_eq!(count(&flows[0]), records.len() as u64);
    assert_eq!(count(&flows[1]), sum("bytes"));
    assert_eq!(count(&flows[2]), sum("reverse_packets"));
    assert_eq!(flows[4], "p1");
    let minutes = &answers[1][0];
    assert_eq!(
        (count(&minutes[0]), count(&minutes[1])),
        (records.len() as u64, sum("bytes"))
    );
}

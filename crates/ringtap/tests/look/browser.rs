//! The page of `ringtap web` in a real browser: `ui/tests/page.mjs` drives Chromium, these tests judge.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etherparse::PacketBuilder;
use ringtap_flow::{LinkType, Meter, MeterOptions, Packet};
use ringtap_look::{Look, LookOptions, Store, Tick, WhenFull, queue};
use ringtap_testkit::netns::{Namespace, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay};
use serde_json::{Value, json};

use super::RINGTAP;
use super::client::Server;
use super::hostile as names;
use super::web::{NAMED, packets_in, traffic, with_file};

/// How long all checks of a page may take.
const BROWSER: Duration = Duration::from_secs(280);
/// The variable with the folder for the pictures, `docs/reference/images` of the repository.
const PICTURES: &str = "RINGTAP_PICTURES";
/// A host of the generated traffic.
const HOST: &str = "192.0.2.1";

/// Runs the checks of `page.mjs`, and returns how many there were.
fn browse(namespace: &Namespace, server: &Server, folder: &Path, wanted: &Value) -> usize {
    let page = ringtap_testkit::page_folder();
    let arguments = folder.join("wanted.json");
    std::fs::write(&arguments, wanted.to_string()).expect("a file");
    let mut command = namespace.command("node");
    command
        .arg(page.join("tests/page.mjs"))
        .arg(format!("http://{}", server.address))
        .arg(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = Running::start(&mut command).expect("node starts");
    let output = running.wait(BROWSER).expect("the browser's checks end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    let checks: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let failed: Vec<&Value> = checks
        .iter()
        .filter(|check| !check["failed"].is_null())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    checks.len()
}

fn wanted(folder: &Path, server: &Server) -> Value {
    json!({
        "browser": "/usr/bin/chromium",
        "output": folder,
        "token": server.token,
        "host": HOST,
        "filter": "tcp port 443",
        "hostile": [],
        "live": false,
        "packets": null,
        "screenshots": false,
    })
}

/// The checks for barriers, which take longest and are a test of their own.
const BARRIERS: &str = "no barrier";

/// Every view of a file: figures, filter, sorting, zoom, keys, narrow screens.
pub(crate) fn file() {
    let checks = browse_file("except", BARRIERS);
    assert!(checks >= 7, "{checks} checks");
}

/// No view, light or dark, has a barrier that axe finds.
pub(crate) fn barriers() {
    assert_eq!(browse_file("only", BARRIERS), 2);
}

/// Runs the checks of a file that are chosen by their names.
fn browse_file(choice: &str, name: &str) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let mut wanted = wanted(folder.path(), &server);
    wanted[choice] = name.into();
    let checks = browse(&namespace, &server, folder.path(), &wanted);
    server.stop();
    checks
}

/// Names with markup and escapes are text, in every view.
pub(crate) fn hostile() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let file = folder.path().join("hostile.pcap");
    let packets = names::write(&file);
    let server = Server::start(&namespace, &["-r", &file.display().to_string()]);
    let shown = names::shown();
    server.wait("all packets", |status| {
        status["totals"]["packets"] == packets
    });
    let mut wanted = wanted(folder.path(), &server);
    wanted["hostile"] = json!(shown);
    wanted["only"] = "a name with markup".into();
    let checks = browse(&namespace, &server, folder.path(), &wanted);
    assert_eq!(checks, shown.len());
    server.stop();
}

/// The pictures of the documents. They are put into the folder of [`PICTURES`], or are only looked at.
pub(crate) fn pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let file = ringtap_testkit::corpus::file(NAMED).expect("a capture");
    let server = Server::start_on(&namespace, "probe", &file);
    let packets = packets_in(&file);
    server.wait("the file", |status| status["totals"]["packets"] == packets);
    let mut wanted = wanted(folder.path(), &server);
    wanted["screenshots"] = true.into();
    wanted["only"] = "screenshot".into();
    wanted["host"] = "192.168.1.7".into();
    assert_eq!(browse(&namespace, &server, folder.path(), &wanted), 3);
    for name in ["overview", "host", "dark"] {
        let picture = folder.path().join(format!("{name}.png"));
        let bytes = std::fs::read(picture).expect("a picture");
        assert!(
            bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000,
            "{name}"
        );
        if let Some(place) = std::env::var_os(PICTURES) {
            let path = Path::new(&place).join(format!("web-{name}.png"));
            std::fs::write(path, bytes).expect("written");
        }
    }
    server.stop();
}

/// Writes a history with a packet a second, from a day ago until 20 minutes later.
fn write_yesterday(folder: &Path) {
    const SECOND: u64 = 1_000_000_000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let begin = now.expect("a time after 1970").as_secs() - 86_400 - 600;
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let packet = packet.ipv4([10, 9, 0, 1], [192, 0, 2, 1], 64).udp(1, 2);
    packet.write(&mut frame, &[0; 72]).expect("a frame");
    let options = MeterOptions::default().interim(true).both_ways(true);
    let mut meter = Meter::new(&options).expect("valid options");
    let look = Mutex::new(Look::new(LookOptions::default()));
    let (mut feed, inlet) = queue(WhenFull::Wait);
    std::thread::scope(|scope| {
        scope.spawn(|| inlet.run(&look, |_| {}));
        for time_ns in (begin..begin + 1200).map(|second| second * SECOND) {
            let packet = Packet {
                data: &frame,
                len: u32::try_from(frame.len()).expect("a short frame"),
                time_ns,
                link: LinkType::ETHERNET,
                input: 1,
            };
            meter.push(&packet, &mut feed);
            meter.interim(time_ns - SECOND, &mut feed);
            feed.tick(Tick {
                now_ns: time_ns,
                counters: meter.counters(),
                ..Tick::default()
            });
        }
        drop(feed);
    });
    let (mut store, _) = Store::open(folder).expect("a folder");
    let saved = look.lock().expect("no panic").saved();
    store.save(&saved).expect("a history");
}

/// Traffic of the same time yesterday, out of the history, beside that of today.
pub(crate) fn yesterday() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    write_yesterday(folder.path());
    let kept = folder.path().display().to_string();
    let arguments = ["-i", &pair.right.device, "--dir", &kept];
    let server = Server::start(&pair.right.namespace, &arguments);
    let file = folder.path().join("traffic.pcap");
    traffic().write_file(&file).expect("a file");
    Replay::new(&file, Rate::Pps(20_000)).run(&pair.left);
    let mut wanted = wanted(folder.path(), &server);
    // A packet of 100 bytes from IP on, each second.
    wanted["yesterday"] = 800.into();
    wanted["only"] = "yesterday".into();
    let namespace = &pair.right.namespace;
    assert_eq!(browse(namespace, &server, folder.path(), &wanted), 1);
    server.stop();
}

/// Live traffic behind a token; what the browser downloads has the packets of its host alone.
pub(crate) fn live() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    traffic().write_file(&file).expect("a file");
    let (checks, downloaded) = browse_live(&pair, &file, &[], |wanted| {
        wanted["packets"] = "packets of the next 5 s".into();
        wanted["except"] = BARRIERS.into();
    });
    assert!(checks >= 9, "{checks} checks");
    assert!(downloaded.of_host > 0, "packets are downloaded");
    assert_eq!(downloaded.others, 0);
}

/// With a recorder's folder, the page offers the packets that were recorded.
pub(crate) fn recorded() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    traffic().write_file(&file).expect("a file");
    let place = folder.path().join("recorder");
    let place = place.display().to_string();
    let mut record = pair.right.namespace.command(RINGTAP);
    record.args(["record", "-i", &pair.right.device, "--dir", &place]);
    let mut recorder = Running::start_piped(record.args(["--budget", "64M"])).expect("it starts");
    let told = recorder.wait_until_told("recording on", BROWSER);
    told.expect("it records");
    Replay::new(&file, Rate::Pps(5_000)).run(&pair.left);
    recorder.signal("INT").expect("a signal");
    let ended = recorder.wait(BROWSER).expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
    let (checks, downloaded) = browse_live(&pair, &file, &["--record", &place], |wanted| {
        wanted["packets"] = "recorded packets of the last hour".into();
        wanted["only"] = "the packets of a host".into();
    });
    assert_eq!(checks, 1);
    let expected = count(&file, &format!("host {HOST}"));
    assert_eq!((downloaded.of_host, downloaded.others), (expected, 0));
}

/// Packets of a download.
struct Downloaded {
    of_host: usize,
    others: usize,
}

/// Runs the checks on a page of live traffic. Returns how many there were, and the downloaded packets.
fn browse_live(
    pair: &VethPair,
    file: &Path,
    options: &[&str],
    choose: impl FnOnce(&mut Value),
) -> (usize, Downloaded) {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = &pair.right.namespace;
    let arguments = [&["-i", &pair.right.device, "--token"], options].concat();
    let server = Server::start(namespace, &arguments);
    assert!(server.token.is_some(), "a token is printed");
    let mut wanted = wanted(folder.path(), &server);
    wanted["live"] = true.into();
    choose(&mut wanted);
    let done = std::sync::atomic::AtomicBool::new(false);
    let checks = std::thread::scope(|scope| {
        use std::sync::atomic::Ordering::Relaxed;
        scope.spawn(|| {
            while !done.load(Relaxed) {
                Replay::new(file, Rate::Pps(5_000)).run(&pair.left);
            }
        });
        let checks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            browse(namespace, &server, folder.path(), &wanted)
        }));
        done.store(true, Relaxed);
        checks
    });
    let checks = checks.unwrap_or_else(|reason| std::panic::resume_unwind(reason));
    server.stop();
    let path = folder.path().join("host.pcapng");
    let downloaded = Downloaded {
        of_host: count(&path, &format!("host {HOST}")),
        others: count(&path, &format!("not host {HOST}")),
    };
    (checks, downloaded)
}

/// Returns how many packets of the file match, as tcpdump reads it.
fn count(file: &Path, filter: &str) -> usize {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-nqt", "-r"]).arg(file).arg(filter);
    let output = tcpdump.stdin(Stdio::null()).output().expect("tcpdump runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

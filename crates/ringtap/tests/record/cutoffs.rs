//! Cut-offs leave out packets, and count them wherever sums are shown.

use std::path::Path;

use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::{Need, Test, test};

use crate::scene::{Scene, ended, files, now, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    vec![
        test(
            "first_bytes_of_flows_are_kept_and_the_rest_counted",
            &root,
            first,
        ),
        test("the_sums_survive_a_kill", &root, killed),
    ]
}

/// Bytes of each packet that is sent.
const LEN: u64 = 500;

/// Returns the captured and the original lengths of the packets to each of the ten hosts, and the comments of the
/// statistics at the file's end.
fn lengths(file: &Path) -> (Vec<Vec<(usize, u32)>>, Vec<String>) {
    let mut reader = Reader::open(file, &ReadOptions::default()).expect("a capture");
    let (mut hosts, mut comments) = (vec![Vec::new(); 10], Vec::new());
    while let Some(item) = reader.next().expect("a whole file") {
        match item {
            Item::Run(run) => {
                for packet in run.packets() {
                    if packet.data.get(30..33) == Some(&[10, 0, 1]) {
                        let host = usize::from(packet.data[33]);
                        hosts[host].push((packet.data.len(), packet.len));
                    }
                }
            }
            Item::Statistics(statistics) => {
                let counters = statistics.counters();
                let options = counters.other.iter().filter(|option| option.code == 1);
                comments.extend(options.map(|one| String::from_utf8_lossy(one.value).into_owned()));
            }
            _ => {}
        }
    }
    (hosts, comments)
}

fn first() {
    let scene = Scene::new();
    let rules = [
        "--cutoff",
        "dst host 10.0.1.3=5K",
        "--cutoff",
        "2K",
        "--headers",
        "dst host 10.0.1.2",
        "--keep",
        "dst host 10.0.1.1",
    ];
    let running = scene.recording(&[&["--budget", "64M", "--json-stats"], &rules[..]].concat());
    let sender = scene.sender();
    sender.send(0..1000, 500);
    scene.wait_for(991);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let later = format!("{:.6}", now());
    let said = stderr(&ended(running));
    // A packet is kept while its flow has had fewer bytes: five of 500 where the limit is 2 KiB.
    let kept: u64 = 7 * 5 + 11 + 100 + 100;
    let cut = 1000 - kept;
    let file = files(&scene.dir()).pop().expect("a file");
    let (hosts, comments) = lengths(&file);
    let counts: Vec<usize> = hosts.iter().map(Vec::len).collect();
    assert_eq!(counts, [5, 100, 100, 11, 5, 5, 5, 5, 5, 5]);
    assert!(hosts[1].iter().all(|one| *one == (500, 500)));
    assert!(hosts[2].iter().all(|one| *one == (42, 500)));
    let bytes = cut * LEN;
    let comment = format!("left out by a cut-off: {cut} packets, {bytes} bytes");
    assert_eq!(comments, [comment]);
    let json = said
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("counters");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let device = &json["devices"][0];
    let number = |key: &str| device[key].as_u64().expect("a number");
    assert_eq!((number("cut_packets"), number("cut_bytes")), (cut, bytes));
    assert_eq!(
        (number("shortened_packets"), number("shortened_bytes")),
        (100, 100 * 458)
    );
    assert_eq!(number("recorded") + cut, number("received"), "{json}");
    assert_eq!(
        (&json["cut_packets"], &json["evicted_flows"]),
        (&cut.into(), &serde_json::Value::Null)
    );
    let status = stdout(&scene.ask(&["record", "status"], &[]));
    assert!(
        status.contains(&format!("{cut} cut ({bytes} bytes)")),
        "{status}"
    );
    let output = scene.ask(&["extract", "--count"], &[]);
    let words = format!("cut-offs left out {cut} packets");
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    let output = scene.ask(&["extract", "--count", "--json-stats"], &["--from", &later]);
    assert!(
        stderr(&output).contains("\"cut_packets\":0,"),
        "{}",
        stderr(&output)
    );
}

fn killed() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--cutoff", "1K"]);
    scene.sender().send(0..1000, 500);
    let cut = || {
        let output = scene.ask(&["extract", "--count", "--json-stats"], &[]);
        let json = stderr(&output);
        let json: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
        json["cut_packets"].as_u64().expect("a number")
    };
    let begun = std::time::Instant::now();
    // Three packets of each flow are kept.
    while cut() < 970 {
        assert!(begun.elapsed() < crate::scene::LIMIT, "{} cut", cut());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    running.signal("KILL").expect("a signal");
    drop(running);
    ended(scene.recording(&["--budget", "64M"]));
    assert_eq!(cut(), 970);
    let status = stdout(&scene.ask(&["record", "status"], &[]));
    assert!(
        status.contains("970 packets of 485000 bytes cut"),
        "{status}"
    );
}

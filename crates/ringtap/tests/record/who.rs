//! Processes of packets: recorded, extracted, and copied by triggers.

use std::process::Command;

use ringtap_testkit::{Need, Test, test};

use crate::scene::{RINGTAP, Scene, ended, files, now, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let needs = [
        Need::Root,
        Need::InitialPids,
        Need::Tcx,
        Need::Tool("ip"),
        Need::Tool("bash"),
    ];
    vec![
        test("packets_are_extracted_by_process", &needs, by_process),
        test("who_is_refused_where_it_is_unknown", &[Need::Root], refused),
    ]
}

/// A process that sends ten datagrams, four a second.
const SENDS: &str = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $n >/dev/udp/10.9.0.2/4711; read -t 0.25 <> <(:); done; true";

fn addressed(scene: &Scene) {
    let side = &scene.pair.right;
    let device = &side.device;
    for words in [
        format!("addr add 10.9.0.1/24 dev {device}"),
        format!("neigh add 10.9.0.2 lladdr 02:99:00:00:00:01 dev {device}"),
    ] {
        let status = side.namespace.command("ip").args(words.split(' ')).status();
        assert!(status.expect("ip runs").success(), "{words}");
    }
}

/// Returns the lines that a file has as packets.
fn lines(file: &std::path::Path) -> String {
    let output = Command::new(RINGTAP)
        .args(["dump", "-nn", "--who", "-r"])
        .arg(file)
        .output();
    stdout(&output.expect("ringtap runs"))
}

fn by_process() {
    let scene = Scene::new();
    addressed(&scene);
    let options = [
        "--budget",
        "64M",
        "--file-time",
        "1s",
        "--who",
        "--before",
        "10s",
        "--after",
        "100ms",
    ];
    let running = scene.recording(&options);
    let send = || {
        let mut bash = scene.pair.right.namespace.command("bash");
        bash.args(["-c", SENDS]);
        bash.spawn().expect("bash runs")
    };
    let mut sender = send();
    let process = sender.id();
    std::thread::sleep(std::time::Duration::from_millis(1300));
    let later = format!("{:.6}", now());
    assert!(sender.wait().expect("an end").success());
    scene.sender().send(0..10, 300);
    scene.wait_for(9);
    scene.ask(&["record", "trigger", "x"], &[]);
    let said = stderr(&ended(running));
    assert!(said.contains(" copied to "), "{said}");
    assert!(files(&scene.dir()).len() > 2);
    let count = |filter: &str, more: &[&str]| {
        let options = [&["--extended", filter], more].concat();
        let output = scene.ask(&["extract", "--count"], &options);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(count("process bash", &[]), "10 packets\n");
    assert_eq!(count(&format!("pid {process}"), &[]), "10 packets\n");
    assert_eq!(count("process other", &[]), "0 packets\n");
    let late = count("process bash", &["--from", &later]);
    assert!(late != "10 packets\n" && late != "0 packets\n", "{late}");
    // Later files describe the process, and the answer does it once.
    let name = format!("[bash:{process}]");
    let printed = stdout(&scene.ask(
        &["extract", "-nn", "--who"],
        &["--from", &later, "udp and host 10.9.0.2"],
    ));
    assert_eq!(
        printed.lines().count(),
        printed.matches(&name).count(),
        "{printed}"
    );
    let answer = scene.root.path().join("answer.pcapng");
    let path = answer.to_str().expect("a name");
    let output = scene.ask(&["extract", "-w", path], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&answer).matches(&name).count(), 10);
    assert_eq!(copied(&scene).matches(&name).count(), 10);
}

/// Returns the lines that the copies of triggers have as packets.
fn copied(scene: &Scene) -> String {
    let copies = std::fs::read_dir(scene.dir().join("incidents")).expect("a folder");
    let copies = copies.map(|entry| entry.expect("an entry").path());
    let copies = copies.filter(|path| path.extension().is_some_and(|end| end == "zst"));
    copies.map(|path| lines(&path)).collect()
}

fn refused() {
    let scene = Scene::new();
    let device = format!("packet:{}", scene.pair.right.device);
    let mut command = Command::new(RINGTAP);
    command.args(["record", "--who", "--budget", "64M", "-i", &device, "--dir"]);
    let output = command.arg(scene.dir()).output().expect("ringtap runs");
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(!scene.dir().exists());
}

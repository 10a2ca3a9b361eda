//! ringtap's interfaces in Wireshark: asked for as Wireshark does, and used by tshark.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};

use super::{LIMIT, RINGTAP};

/// Packets that tshark is to see.
const PACKETS: u64 = 20;

/// Makes the folder in which Wireshark looks for such programs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    symlink(RINGTAP, folder.path().join("ringtap-extcap")).expect("a link");
    folder
}

fn ask(folder: &Path, words: &[&str]) -> Output {
    Command::new(folder.join("ringtap-extcap"))
        .args(words)
        .output()
        .expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn answers() {
    let folder = folder();
    let listed = text(&ask(
        folder.path(),
        &["--extcap-interfaces", "--extcap-version=4.0"],
    ));
    assert!(listed.starts_with("extcap {version="), "{listed}");
    assert!(
        listed.contains("interface {value=ringtap-packet-lo}{display=ringtap packet on lo"),
        "{listed}"
    );
    assert!(listed.contains("interface {value=ringtap-any}"), "{listed}");
    let types = text(&ask(
        folder.path(),
        &["--extcap-dlts", "--extcap-interface", "ringtap-packet-lo"],
    ));
    assert!(types.starts_with("dlt {number=1}{name=EN10MB}"), "{types}");
    let options = text(&ask(
        folder.path(),
        &["--extcap-config", "--extcap-interface", "ringtap-tcx-lo"],
    ));
    assert!(
        options.contains("{call=--mode}") && options.contains("value {arg=0}{value=steal}"),
        "{options}"
    );
    assert!(options.contains("{call=--who}"), "{options}");
    let options = text(&ask(
        folder.path(),
        &["--extcap-config", "--extcap-interface", "ringtap-drop-any"],
    ));
    for (call, expected) in [("--who", false), ("--mode", false), ("--snaplen", true)] {
        assert_eq!(options.contains(call), expected, "{call}: {options}");
    }
    let check = |filter| {
        ask(
            folder.path(),
            &[
                "--extcap-interface",
                "ringtap-packet-lo",
                "--extcap-capture-filter",
                filter,
            ],
        )
    };
    assert_eq!(text(&check("tcp port 80")), "");
    let wrong = text(&check("tcp prt 80"));
    assert!(wrong.contains("prt"), "{wrong}");
    for words in [
        &["--extcap-dlts", "--extcap-interface", "eth0"][..],
        &["--capture"],
        &[],
    ] {
        assert_eq!(
            ask(folder.path(), words).status.code(),
            Some(2),
            "{words:?}"
        );
    }
}

/// Returns the folder in which Wireshark looks for programs that capture.
fn wiresharks_folder() -> String {
    let asked = Command::new("tshark")
        .args(["-G", "folders"])
        .output()
        .expect("tshark runs");
    let folders = text(&asked);
    // Newer versions print the user's folder first, then the common one.
    let mut paths = folders
        .lines()
        .filter_map(|line| line.split_once("Extcap path:"));
    let (_, path) = paths.next_back().expect("a folder");
    path.trim().to_owned()
}

pub(crate) fn tshark() {
    let folder = folder();
    let pair = VethPair::new();
    let place = wiresharks_folder();
    let tshark = |words: &[&str]| {
        let mut command = pair.left.namespace.command("unshare");
        // Root's Wireshark knows no other folder.
        let script = "mount --bind \"$0\" \"$1\" && shift && exec tshark \"$@\"";
        command
            .args(["--mount", "sh", "-c", script])
            .arg(folder.path());
        command.arg(&place).args(words);
        command
    };
    let listed = text(&tshark(&["-D"]).output().expect("tshark runs"));
    for engine in ["packet", "tcx", "xdp"] {
        assert!(
            listed.contains(&format!("ringtap-{engine}-veth0")),
            "{listed}"
        );
    }
    let file = folder.path().join("traffic.pcap");
    let traffic = Traffic {
        packets: 400,
        interval: 1_000_000,
        ..Traffic::default()
    };
    traffic.write_file(&file).expect("a file");
    // The datagrams are for other hosts, so the kernel drops them.
    for engine in ["packet", "tcx", "drop"] {
        let name = format!("ringtap-{engine}-veth0");
        let line = format!("-i {name} -f udp -c {PACKETS} -n -T fields -e frame.protocols");
        let words: Vec<&str> = line.split(' ').collect();
        captures(&mut tshark(&words), &file, &pair);
    }
}

/// Sends packets until tshark has seen enough of them.
fn captures(tshark: &mut Command, file: &Path, pair: &VethPair) {
    let mut running = Running::start_piped(tshark).expect("it starts");
    let capturing = running.wait_until_told("Capturing on", LIMIT);
    capturing.expect("it captures");
    // tshark starts ringtap after that.
    let mut tries = 0;
    while !running.has_ended() && tries < 60 {
        Replay::new(file, Rate::Pps(400)).run(&pair.right);
        tries += 1;
    }
    let output = running.wait(LIMIT).expect("it ends");
    let seen = text(&output);
    let packets = seen.lines().filter(|line| line.contains("udp")).count() as u64;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(packets, PACKETS, "{seen}\n{said}");
}

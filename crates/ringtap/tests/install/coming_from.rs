//! The lines of `docs/coming-from.md` that need no interface are run; a test of the program parses the others.

use std::process::Command;

use ringtap_testkit::traffic::Traffic;

use super::RINGTAP;

/// Options by which a line needs an interface, another program, or the folder of a recorder or a store.
const LIVE: [&str; 5] = [" -i ", " --collect ", " --export ", " --dir ", " --store "];

pub(crate) fn lines() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["x.pcap", "x2.pcap"] {
        let traffic = Traffic {
            packets: 50,
            ..Traffic::default()
        };
        traffic
            .write_file(&folder.path().join(name))
            .expect("a file");
    }
    let page = ringtap_testkit::repository().join("docs/coming-from.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let mut count = 0;
    for row in page.lines().filter(|row| row.contains("| `ringtap ")) {
        let (_, right) = row.split_once("| `ringtap ").expect("a cell");
        let line = right.trim_end_matches(" |").trim_end_matches('`');
        if LIVE.iter().any(|option| line.contains(option)) {
            continue;
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec {RINGTAP} {line}")])
            .current_dir(folder.path());
        let output = shell.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ringtap {line}: {said}");
        count += 1;
    }
    assert!(count >= 15, "{count} lines");
}

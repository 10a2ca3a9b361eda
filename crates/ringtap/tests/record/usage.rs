//! Wrong options are rejected before anything is written.

use ringtap_testkit::{Need, Test, test};

use crate::scene::{Scene, stderr};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    vec![
        test(
            "wrong_usage_of_record_is_2_and_makes_nothing",
            &root,
            record,
        ),
        test(
            "wrong_usage_of_extract_is_2_and_makes_nothing",
            &root,
            extract,
        ),
    ]
}

fn record() {
    let scene = Scene::new();
    for (options, status, reason) in [
        (&["--budget", "1M"][..], 2, "--budget 1048576: too small"),
        (&["--budget", "64M", "--file-size", "32M"], 2, "too small"),
        (&["--budget", "64M", "--compress", "lz4"], 2, "zstd:1"),
        (&["--budget", "64M", "--max-age", "soon"], 2, "7d"),
        (&["--budget", "64M", "tcp prot 5"], 2, "tcp prot 5"),
        (
            &["--budget", "64M", "--trigger-filter", "prot 4"],
            2,
            "prot 4",
        ),
        (
            &["--budget", "64M", "--cutoff", "port 443"],
            2,
            "port 443=8K",
        ),
        (&["--budget", "64M", "--cutoff", "prot 4=8K"], 2, "prot 4"),
        (&["--budget", "64M", "--keep", "prot 4"], 2, "prot 4"),
        (&["--budget", "64M", "--headers", "prot 4"], 2, "prot 4"),
        (
            &["--budget", "64M", "-i", &scene.pair.right.device],
            2,
            "given twice",
        ),
        (&["--budget", "64M", "-i", "nosuch0"], 1, "nosuch0"),
        (&[], 2, "--budget"),
    ] {
        let output = scene.record(options).output().expect("ringtap runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {said}");
        assert!(said.contains(reason), "{options:?}: {said}");
        assert!(!scene.dir().exists(), "{options:?}");
    }
}

fn extract() {
    let scene = Scene::new();
    let answer = scene.root.path().join("answer");
    let name = answer.to_str().expect("a name");
    let output = scene.ask(&["extract", "-w", name], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    std::fs::create_dir(scene.dir()).expect("a folder");
    let output = scene.ask(&["extract", "-w", name], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no recorder has used"),
        "{}",
        stderr(&output)
    );
    std::fs::remove_dir(scene.dir()).expect("removed");
    let running = scene.recording(&["--budget", "64M"]);
    scene.sender().send(0..10, 100);
    scene.wait_for(9);
    crate::scene::ended(running);
    let inside = scene.dir().join("answer");
    let inside = inside.to_str().expect("a name");
    for (options, reason) in [
        (&["-w", name, "tcp prot 5"][..], "tcp prot 5"),
        (&["-w", name, "--flow", "a > b"], "expected a flow"),
        (&["-w", name, "--from", "5", "--to", "4"], "later than"),
        (&["-w", inside], "is the folder of the recorder"),
    ] {
        let output = scene.ask(&["extract"], options);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(reason), "{options:?}: {said}");
        assert!(!answer.exists(), "{options:?}");
    }
}

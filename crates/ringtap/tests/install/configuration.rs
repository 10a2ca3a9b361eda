//! `ringtap config check`, and `--config`.

use std::process::{Command, Output};

use ringtap_testkit::traffic::Traffic;

use super::RINGTAP;

fn ringtap(words: &[&str]) -> Output {
    Command::new(RINGTAP)
        .args(words)
        .output()
        .expect("ringtap runs")
}

pub(crate) fn errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = folder.path().join("good.toml");
    let bad = folder.path().join("bad.toml");
    std::fs::write(
        &good,
        "# The probe.\n[flow]\nactive = \"60s\"\n\n[web]\nlisten = \"127.0.0.1:8878\"\n",
    )
    .expect("written");
    let text =
        "[flow]\nactive = 0\nactve = 1\ncollect = \"udp:[::1]:1\"\nfilter = \"port\"\n[webb]\n";
    std::fs::write(&bad, text).expect("written");
    let (good, bad) = (good.to_string_lossy(), bad.to_string_lossy());
    let output = ringtap(&["config", "check", &good]);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!("{good}: [flow] is valid, 1 option\n{good}: [web] is valid, 1 option\n");
    assert_eq!((stdout, output.status.code()), (expected, Some(0)));
    let output = ringtap(&["config", "check", &good, &bad]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for place in [":2: active: ", ":3: actve: ", ":5: filter: ", ":6: webb: "] {
        assert!(
            stderr.contains(&format!("ringtap: {bad}{place}")),
            "{place}: {stderr}"
        );
    }
    // Options that exclude each other.
    std::fs::write(
        &*bad,
        "[flow]\ninterface = \"lo\"\ncollect = \"udp:127.0.0.1:9995\"\n",
    )
    .expect("written");
    let output = ringtap(&["config", "check", &bad]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && stderr.contains("cannot be used with"),
        "{stderr}"
    );
    let output = ringtap(&["config", "check", "/nonexistent/x.toml"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.starts_with("ringtap: /nonexistent/x.toml: "),
        "{stderr}"
    );
}

pub(crate) fn used() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, config) = (folder.path().join("x.pcap"), folder.path().join("x.toml"));
    Traffic {
        packets: 100,
        ..Traffic::default()
    }
    .write_file(&file)
    .expect("a file");
    std::fs::write(&config, "[flow]\ntop = 0\njson-stats = true\n").expect("written");
    let (file, config) = (file.to_string_lossy(), config.to_string_lossy());
    let output = ringtap(&["flow", "--config", &config, "-r", &file]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && stderr.contains("\"packets\":100"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
    // The command line wins.
    let output = ringtap(&["flow", "--config", &config, "--top", "1", "-r", &file]);
    assert!(!output.stdout.is_empty());
}

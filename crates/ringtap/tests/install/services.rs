//! The services for systemd, and their configuration.

use std::path::PathBuf;
use std::process::Command;

use super::RINGTAP;

fn contrib() -> PathBuf {
    ringtap_testkit::repository().join("contrib")
}

/// systemd's own judgement of what a service could do: 2.0 at most, of 10.
pub(crate) fn hardened() {
    for unit in [
        "ringtap-flow@.service",
        "ringtap-record@.service",
        "ringtap-web.service",
    ] {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=yes", "--threshold=20", "--no-pager"]);
        let output = analyze
            .arg(contrib().join("systemd").join(unit))
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.is_empty(), "{unit}: {said}");
    }
}

/// The installed files are valid, also with the options in them that are commented out.
pub(crate) fn configured() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["flow.toml", "record.toml", "web.toml"] {
        let text = std::fs::read_to_string(contrib().join("etc").join(name)).expect("a file");
        let mut options: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line
                .strip_prefix('#')
                .filter(|rest| !rest.starts_with(' '))
                .unwrap_or(line);
            let key = line.split(' ').next().unwrap_or_default();
            // An alternative takes the place of the one before it.
            options.retain(|other| {
                key.is_empty() || key == "#" || other.split(' ').next() != Some(key)
            });
            // Another source of packets.
            if name == "web.toml" && key == "collect" {
                options.retain(|other| !other.starts_with("interface"));
            }
            options.push(line.to_owned());
        }
        let whole = folder.path().join(name);
        std::fs::write(&whole, options.join("\n")).expect("written");
        for path in [contrib().join("etc").join(name), whole] {
            let output = Command::new(RINGTAP)
                .args(["config", "check"])
                .arg(&path)
                .output()
                .expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
        }
    }
}

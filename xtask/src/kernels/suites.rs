//! The live suites, and the programs that cargo made of them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process;

/// A test target.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The column of the table; targets with one name are one column.
    pub(crate) name: &'static str,
    /// Folder below `crates`.
    pub(crate) folder: &'static str,
    /// The target's name.
    pub(crate) target: &'static str,
    /// Its time limit in a machine without KVM on a busy host, after which it counts as hanging.
    pub(crate) limit: Duration,
}

const fn suite(
    name: &'static str,
    folder: &'static str,
    target: &'static str,
    minutes: u64,
) -> Suite {
    Suite {
        name,
        folder,
        target,
        limit: Duration::from_secs(60 * minutes),
    }
}

/// All suites that depend on the kernel.
pub(crate) static SUITES: [Suite; 25] = [
    suite("packet", "capture", "live", 40),
    suite("tap", "capture", "tap", 40),
    suite("xsk", "capture", "xsk", 30),
    suite("stat", "capture", "stat", 20),
    suite("stat", "ringtap", "stat", 15),
    suite("hooks", "capture", "hooks", 10),
    suite("send", "send", "send", 10),
    suite("send", "ringtap", "send", 15),
    suite("file", "capture", "files", 6),
    suite("flow", "ringtap", "flow_metering", 10),
    suite("flow", "ringtap", "flow_export", 15),
    suite("dump", "ringtap", "dump", 60),
    suite("devices", "capture", "devices", 6),
    suite("devices", "ringtap", "devices", 10),
    suite("kinds", "ringtap", "kinds", 60),
    suite("stealing", "ringtap", "stealing", 20),
    suite("privileges", "ringtap", "privileges", 15),
    suite("who", "ringtap", "who", 40),
    suite("drops", "ringtap", "drop_tap", 30),
    suite("machine", "ringtap", "machine", 40),
    suite("kernel", "sys", "bpf", 3),
    suite("kernel", "sys", "interfaces", 3),
    suite("kernel", "sys", "packet_ring", 3),
    suite("kernel", "sys", "privileges", 3),
    suite("kernel", "sys", "xsk", 3),
];

/// A suite's test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) suite: &'static Suite,
    pub(crate) path: PathBuf,
}

impl Suite {
    /// Returns the name of its results.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.folder, self.target)
    }
}

/// Builds the programs of the suites, as the test command builds them.
///
/// # Errors
/// The build fails, or lacks a suite of the table.
pub(crate) fn build(wanted: &[&'static Suite]) -> Built {
    let mut command = process::cargo(&ringtap_testkit::repository());
    programs(wanted, &messages(command.args(arguments(wanted)), "cargo")?)
}

/// The suites' programs, or why there are none.
pub(crate) type Built = Result<Vec<Program>, String>;

/// Returns cargo's messages about a build, from its standard output. `name` is that of the program that is run.
///
/// # Errors
/// The build fails.
pub(super) fn messages(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("the build: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns cargo's arguments for building the suites alone, with the features of the whole workspace, so that
/// nothing is built twice.
pub(crate) fn arguments(wanted: &[&'static Suite]) -> Vec<String> {
    let all = ["test", "--workspace", "--no-run", "--message-format=json"];
    let mut arguments: Vec<String> = all.map(str::to_owned).to_vec();
    arguments.push(crate::test::FEATURES.to_owned());
    for suite in wanted {
        arguments.extend(["--test".to_owned(), suite.target.to_owned()]);
    }
    arguments
}

/// Returns the programs of the suites, from cargo's messages.
///
/// # Errors
/// A suite is not among them.
pub(crate) fn programs(wanted: &[&'static Suite], messages: &str) -> Built {
    let built: Vec<(String, String, PathBuf)> = messages.lines().filter_map(program_in).collect();
    let program = |&suite: &&'static Suite| {
        let is_it = |(folder, target, _): &&(String, String, PathBuf)| {
            folder == suite.folder && target == suite.target
        };
        let found = built.iter().find(is_it).map(|(_, _, path)| path.clone());
        let path = found.ok_or_else(|| format!("no test program {}", suite.id()))?;
        Ok(Program { suite, path })
    };
    wanted.iter().map(program).collect()
}

/// Returns folder, target and path of a test program, from a message of cargo about it.
fn program_in(line: &str) -> Option<(String, String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["kind"][0] != "test" {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.file_name()?.to_string_lossy();
    let target = message["target"]["name"].as_str()?;
    let path = message["executable"].as_str()?;
    Some((folder.into_owned(), target.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_cargo_s_messages() {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/capture/Cargo.toml",
            "target":{"kind":["test"],"name":"tap"},"executable":"/r/target/debug/deps/tap-1"}"#;
        assert_eq!(
            program_in(artifact),
            Some((
                "capture".into(),
                "tap".into(),
                "/r/target/debug/deps/tap-1".into()
            ))
        );
        assert_eq!(
            program_in(r#"{"reason":"build-finished","success":true}"#),
            None
        );
        assert_eq!(program_in("warning: text"), None);
    }

    #[test]
    fn suites_are_told_apart() {
        for (at, suite) in SUITES.iter().enumerate() {
            assert!(SUITES[..at].iter().all(|other| other.id() != suite.id()));
        }
    }
}

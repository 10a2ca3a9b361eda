//! The public interface of the libraries, held against the one that is committed: `api/NAME.txt`.
//!
//! rustdoc of the nightly toolchain describes each crate, cargo-public-api makes a list of it, a line an
//! item. A change of the list is a change for those who use the crate, so it is to be seen in a commit.
//! The crate `sys` may change at any time: a list names only those types of it that are re-exported.

use std::path::Path;
use std::process::{Command, ExitCode};

use super::report::{Outcome, Report};
use super::tools::{self, PUBLIC_API};
use crate::process::{self, at};

/// The libraries that others may use.
const CRATES: [&str; 13] = [
    "packet", "filter", "jit", "savefile", "capture", "record", "send", "inspect", "flow",
    "flow-io", "look", "craft", "print",
];
const FOLDER: &str = "api";
/// The crate that is no part of an interface, and the types of it that are: those that `capture::system`,
/// `send` and `record` re-export.
const INTERNAL: &str = "ringtap_sys::";
const SHOWN: [&str; 18] = [
    "bpf::error::Error",
    "bpf::features::Feature",
    "error::",
    "ethtool::",
    "eventfd::Waker",
    "netlink::Error",
    "netlink::address::",
    "netlink::counters::Counters",
    "netlink::link::",
    "netlink::name::Name",
    "output::Access",
    "output::pending::Output",
    "packet::Fanout",
    "packet::TimestampSource",
    "packet::geometry::GeometryError",
    "packet::stamps::SendStamps",
    "privileges::capability::Capability",
    "sched::CpuListError",
];

/// Compares all lists.
pub(super) fn run(repository: &Path, report: &mut Report) {
    let step = "the libraries' interfaces are described";
    let described = report.find(step, || describe(repository));
    for name in CRATES {
        report.step(
            &format!("public interface of ringtap-{name}"),
            || match described.clone().and_then(|()| list(repository, name)) {
                Ok(list) => Outcome::from(compare(repository, name, &list)),
                Err(reason) => Outcome::Skipped(reason),
            },
        );
    }
}

/// Writes all lists.
pub(crate) fn write() -> ExitCode {
    let repository = ringtap_testkit::repository();
    let written = describe(&repository).and_then(|()| {
        CRATES.iter().try_for_each(|name| {
            let path = repository.join(FOLDER).join(format!("{name}.txt"));
            let list = list(&repository, name)?;
            std::fs::write(&path, list).map_err(at(&path))
        })
    });
    process::exit("api", written)
}

/// Has rustdoc describe all crates in one run.
///
/// # Errors
/// The reason why it can't, for a skip: clippy has found before that they compile.
fn describe(repository: &Path) -> Result<(), String> {
    tools::nightly(repository)?;
    let mut cargo = process::nightly_cargo(repository);
    cargo.args(["doc", "--no-deps", "--lib"]);
    cargo.args(CRATES.map(|name| format!("--package=ringtap-{name}")));
    cargo.env("RUSTDOCFLAGS", "-Zunstable-options --output-format json");
    cargo.env("CARGO_TARGET_DIR", repository.join("target/api"));
    process::check(process::quiet_off_screen(&mut cargo))
        .map_err(|reason| format!("needs a nightly toolchain that describes the crates: {reason}"))
}

/// The list of a crate.
fn list(repository: &Path, name: &str) -> Result<String, String> {
    let file = format!("target/api/doc/ringtap_{}.json", name.replace('-', "_"));
    let mut command: Command = PUBLIC_API.cargo(repository)?;
    command.args(["public-api", "-sss", "--rustdoc-json", &file]);
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let needed = "needs a cargo-public-api that reads this toolchain's descriptions";
    Err(format!("{needed}: {reason}"))
}

fn compare(repository: &Path, name: &str, list: &str) -> Result<(), String> {
    let path = repository.join(FOLDER).join(format!("{name}.txt"));
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differences = differences(&committed, list);
    for line in &differences {
        println!("{line}");
    }
    let internal = list.lines().filter(|line| names_internal(line));
    let internal = internal
        .inspect(|line| println!("internal: {line}"))
        .count();
    match (differences.len(), internal) {
        (0, 0) => Ok(()),
        (0, count) => Err(format!("{count} items name a type of an internal crate")),
        (count, _) => Err(format!(
            "{count} lines differ from {FOLDER}/{name}.txt; if that is meant: cargo xtask api"
        )),
    }
}

/// Whether an item has a type of the internal crate that is not shown elsewhere.
fn names_internal(item: &str) -> bool {
    let mut types = item.split(INTERNAL).skip(1);
    types.any(|rest| !SHOWN.iter().any(|shown| rest.starts_with(shown)))
}

/// The lines of one list alone, with a sign before them.
fn differences(committed: &str, list: &str) -> Vec<String> {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let gone = committed.lines().filter(|line| lacks(list, line));
    let new = list.lines().filter(|line| lacks(committed, line));
    gone.map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{differences, names_internal};

    #[test]
    fn lines_of_one_list_differ() {
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert_eq!(differences("a\n", "a\n"), [""; 0]);
    }

    #[test]
    fn internal_types_are_found() {
        assert!(names_internal(
            "pub fn a::b() -> ringtap_sys::bpf::kernel::Kernel"
        ));
        assert!(!names_internal(
            "pub fn a::b(&self) -> ringtap_sys::eventfd::Waker"
        ));
    }
}

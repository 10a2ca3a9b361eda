//! `cargo xtask demo`: ringtap at work on real traffic, for somebody who sees it for the first time.
//!
//! The demo creates a network of two namespaces with traffic, and runs ringtap's commands on it. It shows
//! each command with its output, and checks it. It needs only Rust; without the privilege to capture it shows
//! the same on a file and says so. It does not test every function.

mod history;
mod place;
mod scenes;
mod show;
mod traffic;
mod web;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::process;
use place::Place;
use scenes::{Engine, Scenes};

/// Runs the demo.
pub(crate) fn run(quick: bool) -> ExitCode {
    println!("ringtap, a demonstration ({})", machine());
    let before = Traces::now();
    let result = build(quick).and_then(|program| show_all(&program, quick));
    ended(result.and_then(|engines| finish(&engines, &before)))
}

/// Returns the exit status, and prints why the demo failed.
fn ended(shown: Result<(), String>) -> ExitCode {
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("\nThe demonstration failed: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a function that puts a name before the text of an I/O error.
fn explain(what: &str) -> impl Fn(io::Error) -> String + use<'_> {
    move |error| format!("{what}: {error}")
}

/// Shows `ringtap web` on the demo's network, for a browser.
pub(crate) fn run_web(quick: bool) -> ExitCode {
    println!("ringtap web, a demonstration ({})", machine());
    let shown = build(quick).and_then(|program| {
        // On the host, before there is a network of its own.
        let listener = web::listen()?;
        match Place::find() {
            Place::Network { pair, .. } => web::run(&program, listener, &pair, quick),
            Place::FileOnly(reason) => Err(format!(
                "no live capture here: {reason}; try ringtap web -r FILE"
            )),
        }
    });
    ended(shown)
}

/// Shows flows being kept and asked.
pub(crate) fn run_history(quick: bool) -> ExitCode {
    println!("ringtap flow --store, a demonstration ({})", machine());
    let before = Traces::now();
    let shown = build(quick).and_then(|program| history::run(&program, quick));
    ended(shown.and_then(|()| finish(&[], &before)))
}

/// Builds the program. The quick form is that of the tests, which have already built it.
fn build(quick: bool) -> Result<PathBuf, String> {
    let (profile, arguments): (_, &[&str]) = match quick {
        true => ("debug", &["build", "--workspace", crate::test::FEATURES]),
        false => ("release", &["build", "--release", "--package", "ringtap"]),
    };
    println!("\n   $ cargo {}", arguments.join(" "));
    let repository = ringtap_testkit::repository();
    let mut cargo = process::cargo(&repository);
    process::check(cargo.args(arguments).arg("--quiet"))?;
    process::built_program(profile, "ringtap")
}

fn show_all(program: &Path, quick: bool) -> Result<Vec<Engine>, String> {
    let place = Place::find();
    let folder = tempfile::TempDir::with_prefix(scenes::FOLDER_PREFIX);
    let folder = folder.map_err(explain("no temporary folder"))?;
    let duration = Duration::from_secs(if quick { 1 } else { 3 });
    let scenes = Scenes {
        program,
        folder: folder.path(),
        duration,
    };
    match &place {
        Place::Network { pair, right } => {
            println!("\nIt runs {right}: two network namespaces, joined by a virtual cable.");
            println!("They are this program's own; no other network is touched.");
            let (left, right) = (pair.left.ipv4, pair.right.ipv4);
            println!("\n   {left} veth0 ─────────── veth1 {right}");
            scenes.live(pair)
        }
        Place::FileOnly(reason) => {
            println!("\nNo live capture here: {reason}.");
            println!("The commands are shown on a generated capture file instead.");
            scenes.file_only()
        }
    }
}

fn finish(engines: &[Engine], before: &Traces) -> Result<(), String> {
    if !engines.is_empty() {
        println!("\nEngines:");
    }
    for engine in engines {
        println!("   {:<8} {}", engine.name, engine.result);
    }
    let left = Traces::now().beyond(before);
    if !left.is_empty() {
        return Err(format!("left behind: {}", left.join(", ")));
    }
    println!("\nLeft behind: nothing. (Checked: interfaces, processes, temporary files.)");
    Ok(())
}

fn machine() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (release, processor) = (release.trim(), std::env::consts::ARCH);
    format!("Linux {release}, {processor}, {cpus} CPUs")
}

/// Everything on a machine that a demo could leave behind.
struct Traces(BTreeSet<String>);

impl Traces {
    fn now() -> Self {
        let mut traces = BTreeSet::new();
        let names = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().display().to_string())
        };
        traces.extend(names("/sys/class/net".into()).map(|name| format!("interface {name}")));
        let own = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
        let children = children.unwrap_or_default();
        traces.extend(
            children
                .split_whitespace()
                .map(|child| format!("process {child}")),
        );
        let folders = names(std::env::temp_dir());
        let folders = folders.filter(|name| name.starts_with(scenes::FOLDER_PREFIX));
        traces.extend(folders.map(|name| format!("folder {name}")));
        Self(traces)
    }

    fn beyond(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

//! Child processes: cargo and the tools of the system.

use std::fmt::Display;
use std::fs::{self, Metadata};
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

pub(crate) use ringtap_testkit::need::succeeds;
use tempfile::TempDir;

/// Returns the same cargo that runs this program, in the repository.
pub(crate) fn cargo(repository: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(repository).stdin(Stdio::null());
    command
}

/// Keeps cargo from listing the hundreds of crates that it builds where nobody watches.
pub(crate) fn quiet_off_screen(cargo: &mut Command) -> &mut Command {
    if !io::stderr().is_terminal() {
        cargo.env("CARGO_TERM_QUIET", "true");
    }
    cargo
}

/// Returns a cargo of the nightly toolchain, chosen by rustup.
pub(crate) fn nightly_cargo(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    // These name the toolchain that runs this program and would override the choice.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(variable);
    }
    command.arg("+nightly").current_dir(folder);
    command.stdin(Stdio::null());
    command
}

/// Returns a function that puts a path before the text of an error.
pub(crate) fn at<E: Display>(path: &Path) -> impl Fn(E) -> String + Copy + use<'_, E> {
    move |error| format!("{}: {error}", path.display())
}

/// Returns the exit status of a command of `cargo xtask`, and prints why it failed.
pub(crate) fn exit(name: &str, done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{name}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a new temporary folder.
///
/// # Errors
/// It cannot be made.
pub(crate) fn folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))
}

/// Returns all that is below a folder, folders included, but for folders with these names.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn below(folder: &Path, without: &[&str]) -> Result<Vec<(PathBuf, Metadata)>, String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            let metadata = entry.metadata().map_err(at(&folder))?;
            if metadata.is_dir() {
                if without.iter().any(|name| entry.file_name() == *name) {
                    continue;
                }
                folders.push(entry.path());
            }
            found.push((entry.path(), metadata));
        }
    }
    Ok(found)
}

/// Returns the path of a program that cargo built, in the folder of the profile `debug` or `release`: beside
/// the one that this program was built to.
///
/// # Errors
/// When it is not there.
pub(crate) fn built_program(profile: &str, name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let target = own.ancestors().nth(2).unwrap_or(&own);
    let program = target.join(profile).join(name);
    if program.is_file() {
        Ok(program)
    } else {
        Err(format!("no {}", program.display()))
    }
}

/// Returns the same command, ended with all its children if it takes longer than `limit`. The exit status is
/// then 124 or 137 (timeout(1)).
pub(crate) fn limited(limit: Duration, command: &Command) -> Command {
    let mut wrapped = Command::new("timeout");
    wrapped.args(["--kill-after=10", &limit.as_secs().to_string()]);
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped.stdin(Stdio::null());
    wrapped
}

/// Runs with the output passed through as it comes.
///
/// # Errors
/// Returns a sentence about the failure.
pub(crate) fn check(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    judge(command, status)
}

/// Runs the command, and prints its output only if it fails.
///
/// # Errors
/// Returns a sentence about the failure.
pub(crate) fn check_quietly(command: &mut Command) -> Result<(), String> {
    let mut output = String::new();
    let status = watch(command, |line| {
        output.push_str(line);
        output.push('\n');
    });
    let judged = judge(command, status);
    if judged.is_err() {
        print!("{output}");
    }
    judged
}

/// Returns a status as a sentence, unless it is success.
pub(crate) fn judge(command: &Command, status: io::Result<ExitStatus>) -> Result<(), String> {
    let program = Path::new(command.get_program()).display();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if status.code() == Some(124) => Err(format!("{program}: out of time")),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Runs with every line of both outputs shown to `see`, in the order in which they were written.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing end too, and the reading end would never come to its end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        see(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    child.wait()
}

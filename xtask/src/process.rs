//! Child processes: cargo and the tools of the system.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// The same cargo that runs this program, in the repository.
pub(crate) fn cargo(repository: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(repository).stdin(Stdio::null());
    command
}

/// A cargo of the nightly toolchain, chosen by rustup.
pub(crate) fn nightly_cargo(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    // These name the toolchain that runs this program and would override the choice.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(variable);
    }
    command
        .arg("+nightly")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// The path of a program that cargo built, in the folder of the profile `debug` or `release`: beside
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

/// The same command, ended with all its children when it takes longer than `limit`; the exit
/// status is then 124 or 137 (timeout(1)).
pub(crate) fn limited(limit: Duration, command: &Command) -> Command {
    let mut wrapped = Command::new("timeout");
    wrapped
        .arg("--kill-after=10")
        .arg(limit.as_secs().to_string());
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

/// Whether the command runs and succeeds; its output is thrown away.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs with the output passed through as it comes.
///
/// # Errors
/// A sentence that says how it failed.
pub(crate) fn check(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    judge(command, status)
}

/// A status as a sentence where it is not success.
pub(crate) fn judge(command: &Command, status: std::io::Result<ExitStatus>) -> Result<(), String> {
    let program = Path::new(command.get_program()).display();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if status.code() == Some(124) => Err(format!("{program}: out of time")),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Runs with every line of both outputs passed through and shown to `see`.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn watch(
    command: &mut Command,
    see: impl FnMut(&str) + Send,
) -> std::io::Result<ExitStatus> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let see = Mutex::new(see);
    std::thread::scope(|scope| {
        scope.spawn(|| each_line(stdout, std::io::stdout(), &see));
        scope.spawn(|| each_line(stderr, std::io::stderr(), &see));
    });
    child.wait()
}

fn each_line<F: FnMut(&str)>(from: Option<impl Read>, mut to: impl Write, see: &Mutex<F>) {
    let Some(from) = from else { return };
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length > 0)
    {
        // Losing the terminal must not stop the checks.
        let _ = to.write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if let Ok(mut see) = see.lock() {
            see(text.trim_end());
        }
        line.clear();
    }
}

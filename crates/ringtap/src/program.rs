//! Commands that are programs of their own: `ringtap bench` runs `ringtap-bench`, `ringtap query` runs `ringtap-query`.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::notice::raw;

/// A program, and the command that runs it.
pub(crate) struct Program {
    command: &'static str,
    /// The program's name, beside this program or in a folder of `PATH`.
    name: &'static str,
    /// How it is made in ringtap's repository.
    made_by: &'static str,
    /// Whether it gets the path of this program.
    takes_path: bool,
}

/// `ringtap bench`, which measures this program.
pub(crate) const BENCH: Program = Program {
    command: "bench",
    name: "ringtap-bench",
    made_by: "cargo build --release -p ringtap-bench makes target/release/ringtap-bench",
    takes_path: true,
};

/// `ringtap query`, apart because its engine for SQL is as large as the rest of ringtap.
pub(crate) const QUERY: Program = Program {
    command: "query",
    name: "ringtap-query",
    made_by: "cargo xtask install --query makes and installs it",
    takes_path: false,
};

/// Replaces this process by the program; returns only if that fails.
pub(crate) fn run(program: &Program) -> ExitCode {
    let Program { command, name, .. } = program;
    let own = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            raw(format_args!(
                "ringtap {command}: this program's path: {error}\n"
            ));
            return ExitCode::FAILURE;
        }
    };
    let Some(path) = find(&own, name) else {
        raw(format_args!(
            "ringtap {command}: the program {name} is not installed beside {} or in PATH; \
             in ringtap's repository, {}\n",
            own.display(),
            program.made_by
        ));
        return ExitCode::FAILURE;
    };
    let mut started = Command::new(&path);
    if program.takes_path {
        started.arg("--ringtap").arg(own);
    }
    // Unchanged: parsing would have removed a leading `--`. Nothing can stand before the command.
    started.args(std::env::args_os().skip(2));
    let error = started.exec();
    raw(format_args!(
        "ringtap {command}: {}: {error}\n",
        path.display()
    ));
    ExitCode::FAILURE
}

/// Returns the first program of this name beside this program and in the absolute folders of `PATH`.
fn find(own: &Path, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    own.parent()
        .map(Path::to_path_buf)
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

//! `ringtap bench`: runs the program `ringtap-bench`, which measures this one.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::notice::raw;

/// The program's name, beside this program or in a folder of `PATH`.
const PROGRAM: &str = "ringtap-bench";

/// Replaces this process by `ringtap-bench`; returns only if that fails.
pub(crate) fn run() -> ExitCode {
    let own = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            raw(format_args!(
                "ringtap bench: this program's path: {error}\n"
            ));
            return ExitCode::FAILURE;
        }
    };
    let Some(program) = find(&own) else {
        raw(format_args!(
            "ringtap bench: the program {PROGRAM} is not installed beside {} or in PATH; \
             in ringtap's repository, cargo build --release -p {PROGRAM} makes target/release/{PROGRAM}\n",
            own.display()
        ));
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(&program);
    command.arg("--ringtap").arg(own);
    // Unchanged: parsing would have removed a leading `--`. Nothing can stand before `bench`.
    command.args(std::env::args_os().skip(2));
    let error = command.exec();
    raw(format_args!(
        "ringtap bench: {}: {error}\n",
        program.display()
    ));
    ExitCode::FAILURE
}

/// Returns the first `ringtap-bench` beside this program and in the absolute folders of `PATH`.
fn find(own: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    own.parent()
        .map(Path::to_path_buf)
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
}

//! `cargo xtask bench`: `ringtap bench`, built with `--release` before; `readme`: its table in the README.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::process;

/// Builds ringtap and its libpcap, and hands the arguments on.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match build_and_run(arguments) {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("bench: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the measured table into the README.
pub(crate) fn readme(folder: &str) -> ExitCode {
    let path = ringtap_testkit::repository().join("README.md");
    let written = ringtap_bench::markdown(Path::new(folder))
        .map_err(|error| error.to_string())
        .and_then(|table| {
            let explain = |error: std::io::Error| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(&path).map_err(explain)?;
            let text = ringtap_bench::table::replaced(&text, &table)?;
            std::fs::write(&path, text).map_err(explain)
        });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("readme: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn build_and_run(arguments: &[&str]) -> Result<ExitCode, String> {
    let repository = ringtap_testkit::repository();
    let mut cargo = process::cargo(&repository);
    let packages = ["--package", "ringtap", "--package", "ringtap-pcap-abi"];
    process::check(cargo.args(["build", "--quiet", "--release"]).args(packages))?;
    let mut command = Command::new(process::built_program("release", "ringtap")?);
    command.arg("bench").args(arguments);
    if let Some(commit) = commit(&repository) {
        command.env("RINGTAP_COMMIT", commit);
    }
    let status = command.status().map_err(|error| error.to_string())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The commit, with a `+` where the tree differs from it.
fn commit(repository: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(repository)
            .args(arguments)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "-uno"])?.is_empty();
    Some(commit + if changed { "+" } else { "" })
}

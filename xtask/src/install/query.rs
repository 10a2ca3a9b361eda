//! `cargo xtask install --query`: the program of `ringtap query`, which is a workspace of its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{RELEASE, copy};
use crate::process;

/// The program, and the folder of its package.
const PROGRAM: &str = "ringtap-query";
const PACKAGE: &str = "query";

/// Builds the program and copies it: into the prefix, or beside the release build of ringtap.
pub(super) fn run(words: &[&str]) -> ExitCode {
    let repository = ringtap_testkit::repository();
    let folder = match *words {
        [] => repository.join("target").join(RELEASE),
        ["--prefix", prefix] => Path::new(prefix).join("bin"),
        _ => {
            eprintln!("usage: cargo xtask install --query [--prefix FOLDER]");
            return ExitCode::from(2);
        }
    };
    let installed = install(&repository, &folder);
    let told = installed.map(|program| println!("installed {}", program.display()));
    process::exit("install", told)
}

/// Builds the program and copies it into a folder. Returns its path.
///
/// # Errors
/// It does not compile, or there is no room for it.
pub(super) fn install(repository: &Path, folder: &Path) -> Result<PathBuf, String> {
    let package = repository.join(PACKAGE);
    let target = repository.join("target").join(PACKAGE);
    println!("{PROGRAM} is built once; on two processors that takes half an hour");
    let mut cargo = process::cargo(&package);
    cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]);
    process::check(cargo.arg(&target))?;
    let program = folder.join(PROGRAM);
    copy(&target.join(RELEASE).join(PROGRAM), &program, 0o755)?;
    Ok(program)
}

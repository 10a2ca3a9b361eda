//! `cargo xtask package`: Debian packages of the same files.
//!
//! Two: `ringtap`, the program, and `ringtap-libpcap`, which takes the place of Debian's library
//! and of what is needed to compile against it, so that every program on the system runs on ringtap.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{LIBPCAP, Layout, RINGTAP, build, write};
use crate::process;

/// Builds both packages into `target/debian`.
pub(crate) fn run() -> ExitCode {
    match packages() {
        Ok(made) => {
            for path in made {
                println!("{}", path.display());
            }
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("package: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn packages() -> Result<Vec<PathBuf>, String> {
    build()?;
    let out = process::release_program("ringtap")?;
    let out = out.ancestors().nth(2).unwrap_or(&out).join("debian");
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let architecture = answer("dpkg", &["--print-architecture"])?;
    let triplet = answer("cc", &["-print-multiarch"])?;
    let program =
        package(&out, "ringtap", &architecture, |layout| {
            layout.program()?;
            layout.documents()?;
            Ok("Section: net\nDepends: libc6\nDescription: programmable packet capture on Linux\n \
            Captures, filters, counts, injects, stores and summarises packets.\n"
            .to_owned())
        })?;
    let library = package(&out, "ringtap-libpcap", &architecture, |layout| {
        layout.libraries = PathBuf::from("lib").join(&triplet);
        layout.library()?;
        layout.development()?;
        Ok(format!(
            "Section: libs\nDepends: libc6, libgcc-s1\n\
             Provides: libpcap0.8 (= {LIBPCAP}), libpcap0.8-dev (= {LIBPCAP}), libpcap-dev (= {LIBPCAP})\n\
             Conflicts: libpcap0.8, libpcap0.8-dev\nReplaces: libpcap0.8, libpcap0.8-dev\n\
             Description: libpcap on ringtap\n Programs made for libpcap run on ringtap, unchanged.\n"
        ))
    })?;
    Ok(vec![program, library])
}

/// Packs what `fill` installs; it returns the fields of the package that are its own.
fn package(
    out: &Path,
    name: &str,
    architecture: &str,
    fill: impl FnOnce(&mut Layout) -> Result<String, String>,
) -> Result<PathBuf, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let mut layout = Layout {
        prefix: PathBuf::from("/usr"),
        root: folder.path().to_path_buf(),
        libraries: PathBuf::from("lib"),
    };
    let fields = fill(&mut layout)?;
    let control = format!(
        "Package: {name}\nVersion: {RINGTAP}\nArchitecture: {architecture}\n\
         Maintainer: the ringtap project <ringtap@localhost>\nPriority: optional\n{fields}"
    );
    write(
        &folder.path().join("DEBIAN/control"),
        control.as_bytes(),
        0o644,
    )?;
    make_readable(folder.path())?;
    let path = out.join(format!("{name}_{RINGTAP}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"])
        .arg(folder.path())
        .arg(&path);
    process::check(pack.stdout(std::process::Stdio::null()))?;
    Ok(path)
}

/// A temporary folder is its owner's alone; the root of a package is not.
fn make_readable(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", folder.display()))
}

fn answer(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(format!("{program}: {}", output.status)),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

//! `cargo xtask package`: Debian packages of the same files.
//!
//! There are two packages: `ringtap`, the program with `ringtap-bench`, and `ringtap-libpcap`. The latter
//! replaces Debian's library and its development files, so that every program on the system runs on ringtap.
//!
//! With `--check`, apt then installs them into a temporary copy of the system: a mount namespace with an
//! overlay over `/`, of which nothing remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::{LIBPCAP, Layout, PROGRAMS, RINGTAP, build, write};
use crate::process;

/// The work in the copy of the system.
const CHECK: &str = include_str!("check.sh");

/// Builds both packages into `target/debian`.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let checks = match words {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("usage: cargo xtask package [--check]");
            return ExitCode::from(2);
        }
    };
    let made = packages().and_then(|made| {
        for path in &made {
            println!("{}", path.display());
        }
        if checks { check(&made) } else { Ok(()) }
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("package: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Installs the packages where nothing remains of them, and tests programs with them.
fn check(made: &[PathBuf]) -> Result<(), String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "sh", "-c", CHECK, "sh"]);
    process::check(unshare.args(made))
}

fn packages() -> Result<Vec<PathBuf>, String> {
    build()?;
    let out = process::built_program("release", "ringtap")?;
    let out = out.ancestors().nth(2).unwrap_or(&out).join("debian");
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let architecture = answer("dpkg", &["--print-architecture"])?;
    let triplet = answer("cc", &["-print-multiarch"])?;
    let program = package(&out, "ringtap", &architecture, |layout| {
        layout.programs()?;
        layout.documents()?;
        let needed = dependencies(&PROGRAMS.map(|name| layout.program(name)))?;
        Ok(format!(
            "Section: net\nDepends: {needed}\nDescription: programmable packet capture on Linux\n \
                 Captures, filters, counts, injects, stores and summarises packets.\n"
        ))
    })?;
    let library = package(&out, "ringtap-libpcap", &architecture, |layout| {
        layout.libraries = PathBuf::from("lib").join(&triplet);
        layout.library()?;
        layout.development()?;
        let library = layout.libraries.join(format!("libpcap.so.{LIBPCAP}"));
        let needed = dependencies(&[layout.place(library)])?;
        let control = |name: &str| layout.root.join("DEBIAN").join(name);
        // Programs that were linked with it need upstream's name.
        let shlibs = format!("libpcap 1 ringtap-libpcap (>= {RINGTAP})\n");
        write(&control("shlibs"), shlibs.as_bytes(), 0o644)?;
        write(&control("triggers"), b"activate-noawait ldconfig\n", 0o644)?;
        Ok(format!(
            "Section: libs\nDepends: {needed}\n\
             Provides: libpcap0.8 (= {LIBPCAP}), libpcap0.8-dev (= {LIBPCAP}), libpcap-dev (= {LIBPCAP})\n\
             Conflicts: libpcap0.8, libpcap0.8-dev, libpcap-dev\n\
             Replaces: libpcap0.8, libpcap0.8-dev, libpcap-dev\n\
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
    layout.copyright(name)?;
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

/// Returns the packages that programs or libraries need, with the least versions that have its symbols.
fn dependencies(binaries: &[PathBuf]) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let control = b"Source: ringtap\n\nPackage: ringtap\nArchitecture: any\n";
    write(&folder.path().join("debian/control"), control, 0o644)?;
    let mut ask = Command::new("dpkg-shlibdeps");
    ask.arg("-O");
    for binary in binaries {
        ask.arg(format!("-e{}", binary.display()));
    }
    let output = ask.current_dir(folder.path()).output();
    let output = output.map_err(|error| format!("dpkg-shlibdeps: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let needed = text.trim().strip_prefix("shlibs:Depends=");
    needed.map(str::to_owned).ok_or_else(|| {
        let reason = String::from_utf8_lossy(&output.stderr);
        format!("dpkg-shlibdeps: {}: {reason}", output.status)
    })
}

/// Makes a folder readable: a temporary folder is its owner's alone; the root of a package is not.
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

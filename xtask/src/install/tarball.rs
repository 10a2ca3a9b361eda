//! Archives of static programs, for machines without packages of ringtap.
//!
//! The programs are linked with musl, and need no library of the machine. rustup has the standard libraries and the
//! linker; C is compiled by `zig cc` of PyPI, which knows all processors.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::extras::seconds;
use super::package::{Pack, make_readable};
use super::{Layout, PROGRAMS, RELEASE, RINGTAP, copy, write};
use crate::{process, python};

/// The processors, by the names that Linux, cargo's targets and QEMU have for them.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];
/// The compiler of C, of PyPI.
const COMPILER: &str = "ziglang";
/// Starts a tool of the compiler. The name that cargo's crates have for the target is unknown to it.
const TOOL: &str = r#"#!/bin/sh
for word do
    shift
    case $word in
    --target=*) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec '@PYTHON' -m ziglang @TOOL "$@"
"#;
/// The folders of systemd's units and of Wireshark's link, in the archive.
const UNITS: &str = "lib/systemd/system";
const EXTCAP: &str = "lib/wireshark/extcap";
/// Runs a command in a root folder with /proc, by which programs see their threads, as a user without privileges: the
/// emulator has a thread of its own, in whose presence ringtap cannot give up any.
const ENTER: &str = r#"mkdir "$0/proc" 2>/dev/null; mount -t proc proc "$0/proc" && exec chroot --userspec=65534:65534 "$0" "$@""#;
/// A capture file for [`CHECKS`].
const SAMPLE: &str = "testdata/savefile/option-text-ending-in-zeros.pcapng";
/// Commands that are tried in an unpacked archive: filters become machine code, a file is read.
const CHECKS: [&[&str]; 3] = [
    &["/bin/ringtap-bench", "--version"],
    &[
        "/bin/ringtap",
        "filter",
        "--target",
        "native",
        "tcp port 80",
    ],
    &["/bin/ringtap", "dump", "-n", "-r", "/sample", "len >= 0"],
];

/// Builds the programs, and packs an archive for each processor.
///
/// # Errors
/// PyPI or the standard library of a target cannot be reached, the programs do not compile, or tar(1) fails.
pub(super) fn pack(pack: &Pack) -> Result<Vec<PathBuf>, String> {
    let target = ringtap_testkit::repository().join("target/static");
    python::environment(&target.join("venv"), &[COMPILER])?;
    let archive = |processor: &&str| {
        build(&target, processor)?;
        let built = target.join(triple(processor)).join(RELEASE);
        archive(pack, processor, &built)
    };
    PROCESSORS.iter().map(archive).collect()
}

/// Builds the programs for a processor, below a folder.
fn build(target: &Path, processor: &str) -> Result<(), String> {
    let triple = triple(processor);
    let mut rustup = Command::new("rustup");
    process::check_quietly(rustup.args(["target", "add", &triple]))?;
    let python = target.join("venv/bin/python");
    let tool = |name: &str, call: &str| {
        let path = target.join(format!("{name}-{processor}"));
        let text = TOOL.replace("@PYTHON", &python.to_string_lossy());
        write(&path, text.replace("@TOOL", call).as_bytes(), 0o755)?;
        Ok::<_, String>(path)
    };
    let compiler = tool("cc", &format!("cc -target {processor}-linux-musl"))?;
    let archiver = tool("ar", "ar")?;
    let under = triple.replace('-', "_");
    let setting = |name: &str| format!("CARGO_TARGET_{}_{name}", under.to_uppercase());
    let mut cargo = process::cargo(&ringtap_testkit::repository());
    cargo
        .args(["build", "--quiet", "--release", "--target", &triple])
        .args(PROGRAMS.iter().flat_map(|name| ["--package", name]))
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env(setting("LINKER"), "rust-lld")
        .env(setting("RUSTFLAGS"), "-Clink-self-contained=yes")
        .env(format!("CC_{under}"), compiler)
        .env(format!("AR_{under}"), archiver);
    process::check(&mut cargo)
}

/// Packs the programs of a folder with all that belongs to them.
fn archive(pack: &Pack, processor: &str, built: &Path) -> Result<PathBuf, String> {
    let name = format!("ringtap-{RINGTAP}-{}", triple(processor));
    let folder = process::folder()?;
    let layout = Layout {
        prefix: PathBuf::from("/"),
        ..pack.layout(&folder.path().join(&name))
    };
    pack.beside_programs(&layout, UNITS, EXTCAP)?;
    for program in PROGRAMS {
        copy(&built.join(program), &layout.program(program), 0o755)?;
    }
    make_readable(folder.path())?;
    let path = pack.out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", seconds()))
        .args(["--format=gnu", "--use-compress-program=gzip -9n"]);
    tar.arg("--file").arg(&path).arg("--directory");
    tar.arg(folder.path()).args(["--create", &name]);
    process::check(&mut tar)?;
    Ok(path)
}

/// Unpacks an archive, and runs its programs in a root folder that has nothing else but /proc. A processor that is not this
/// machine's is emulated.
///
/// # Errors
/// A program needs a library or does not run. Only root can change the root folder.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let folder = process::folder()?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--strip-components=1");
    tar.arg("--file").arg(path).arg("--directory");
    process::check(tar.arg(folder.path()))?;
    let name = path.to_string_lossy();
    let processor = PROCESSORS
        .into_iter()
        .find(|processor| name.contains(&triple(processor)))
        .ok_or_else(|| format!("{name}: an archive of an unknown processor"))?;
    let emulator =
        (processor != std::env::consts::ARCH).then(|| format!("/usr/bin/qemu-{processor}-static"));
    if let Some(emulator) = &emulator {
        let place = folder.path().join("emulator");
        copy(Path::new(emulator), &place, 0o755)
            .map_err(|reason| format!("{reason}; Debian: apt install qemu-user-static"))?;
    }
    let sample = ringtap_testkit::repository().join(SAMPLE);
    copy(&sample, &folder.path().join("sample"), 0o644)?;
    for words in CHECKS {
        let mut run = Command::new("unshare");
        run.args(["--mount", "--pid", "--fork", "sh", "-c", ENTER]);
        run.arg(folder.path());
        run.args(emulator.is_some().then_some("/emulator"));
        process::check(run.args(words))?;
    }
    println!("{name}: the programs run in an empty root folder");
    Ok(())
}

fn triple(processor: &str) -> String {
    format!("{processor}-unknown-linux-musl")
}
